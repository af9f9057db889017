// lazy_modes.cpp - lazy mode together with other modes; and what a compiled function may not do.
#include "support.hpp"
#include "tidu/frontend/lazy.hpp"

namespace tidu::test {
namespace {

Array leaf(const Array& data) {
  Array x = data.detach().copy();
  x.set_requires_grad();
  return x;
}

TEST_CASE("lazy scopes nest, and other modes go on inside") {
  const Array x = leaf(array({0.5, 2.0}));
  Array y;
  {
    const Lazy outer;
    {
      const Lazy inner;
      y = x * x;
    }
    CHECK(is_promise(y));
    {
      const NoGrad guard;
      CHECK_FALSE((x * x).requires_grad());
    }
    const AnomalyGuard guard;
    CHECK(contains(error_of([&] { (void)log(x - 2.0); }), "log"));
    double seen = 0.0;
    y.register_hook([&](const Array& cotangent) { seen = sum(cotangent).item(); });
    BackwardOptions options;
    options.create_graph = true;
    options.workers = 4;
    sum(y * y).backward(options);
    CHECK(seen == doctest::Approx(2 * (0.25 + 4.0)));
    CHECK(distance(grad_of(sum(*x.grad()), {x})[0].value(), 12.0 * x * x) <= 1e-14);
  }
  CHECK_FALSE(lazy_enabled());
  CHECK_FALSE(is_promise(y));
  CHECK(distance(hessian([](const Array& v) { return sum(v * v * v); })(x.detach()),
                 array({{3.0, 0.0}, {0.0, 12.0}})) <= 1e-13);
}

TEST_CASE("a compiled function says what to do where it reads elements") {
  const auto f = compile([](const Array& x) { return x.item() > 0.0 ? x : -x; });
  const std::string error = error_of([&] { (void)f(Array(1.0)); });
  CHECK(contains(error, "[Array::item] expected an Array with data, got one that is being traced"));
  CHECK(contains(error, "where()"));
  CHECK(f.num_traced() == 0);
  const auto g = compile([](const Array& x) {
    if (x > 0.0) return x;
    return -x;
  });
  CHECK(contains(error_of([&] { (void)g(Array(1.0)); }), "being traced"));
  const auto h = compile([](const Array& x) { return where(x > 0.0, x, -x); });
  CHECK(h(Array(-2.0)).item() == 2.0);
  CHECK(h(Array(3.0)).item() == 3.0);
  CHECK(h.num_traced() == 1);
}

}  // namespace
}  // namespace tidu::test
