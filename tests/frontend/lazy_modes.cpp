// lazy_modes.cpp - lazy mode together with other modes; and errors of compiled functions.
#include "support.hpp"
#include "tidu/frontend/lazy.hpp"

#include <functional>
#include <optional>
#include <thread>
#include <utility>

namespace tidu::test {
namespace {

TEST_CASE("[N8] [G4] the wanted results of several are part of the key of a program") {
  const Array x = random_array({6, 2}, 1);
  const std::vector<Array> parts = split(x, 3);
  const auto factors = linalg::qr(x);
  for (const bool hot : {false, true}) {
    const std::optional<HotPaths> watched = hot ? std::make_optional<HotPaths>(true) : std::nullopt;
    for (std::size_t repeat = 0; repeat < 24; ++repeat) {
      // The same one several times over, so that it is expected, and then others.
      const std::size_t k = repeat / 6 % 3;
      std::optional<Lazy> lazy;
      if (!hot) lazy.emplace();
      const Array part = split(x * 1.0, 3)[k];
      CHECK(distance(part, parts[k]) == 0.0);
      const auto made = linalg::qr(x * 1.0);
      const Array factor = k == 0 ? made.first : made.second;
      CHECK(distance(factor * 1.0, k == 0 ? factors.first : factors.second) <= 1e-14);
      const Array pair = k == 0 ? linalg::qr(x * 1.0).first : linalg::qr(x * 1.0).second;
      CHECK(distance(pair, k == 0 ? factors.first : factors.second) <= 1e-14);
    }
  }
}

TEST_CASE("[N6] values that another thread's scope read, or another thread writes, are not stale") {
  const Array w = random_array({3}, 1);
  const Array before = w.copy();
  Tensor storage = w.tensor();
  const Lazy lazy;
  const Array y = w * 2.0;
  std::thread([&] {
    const Lazy other;
    (void)(w + 1.0).tensor();
  }).join();
  std::thread([&] { storage.mutable_data<double>()[0] = 5; }).join();
  CHECK(distance(y, before * 2.0) <= 1e-15);
  const Array z = w * 3.0;
  storage.mutable_data<double>()[1] = 7;
  CHECK(z.tensor().at(0).real() == 15);
  CHECK(z.tensor().at(1).real() == doctest::Approx(3 * before.tensor().at(1).real()));
}

TEST_CASE("[N6] a value that is written to after it was used is read as it was") {
  Array x = array({1.0, 2.0});
  Tensor data = x.tensor();
  const Lazy lazy;
  const Array y = x * 10.0;
  data.mutable_data<double>()[0] = 5.0;
  const Array z = x * 10.0;
  CHECK(elements(y) == std::vector<double>{10.0, 20.0});
  CHECK(elements(z) == std::vector<double>{50.0, 20.0});
  // Also a value that was evaluated in between.
  const Array a = x + 1.0;
  Tensor made = a.tensor();
  const Array b = a * 2.0;
  made.mutable_data<double>()[1] = 0.0;
  CHECK(elements(b) == std::vector<double>{12.0, 6.0});
  CHECK(elements(a) == std::vector<double>{6.0, 0.0});
  const Array c = x + 2.0, d = c * 2.0;  // c is evaluated while d waits
  Tensor between = c.tensor();
  between.mutable_data<double>()[1] = 0.0;
  CHECK(elements(d) == std::vector<double>{14.0, 8.0});
  // assign() gives the Array other elements; results computed from it keep the old ones.
  Array w = array({1.0, 1.0});
  const Array before = w * 3.0;
  w.assign(w + 1.0);
  CHECK(elements(w * 3.0) == std::vector<double>{6.0, 6.0});
  CHECK(elements(before) == std::vector<double>{3.0, 3.0});
  // Memory that others write to is read at once.
  double outside[] = {1.0, 2.0};
  const Array borrowed(Tensor::borrow(Type(f64, {2}), outside, nullptr));
  const Array read = borrowed + 0.0;
  outside[0] = 9.0;
  CHECK(elements(read) == std::vector<double>{1.0, 2.0});
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
    CHECK(is_lazy(y));
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
  CHECK_FALSE(is_lazy(y));
  CHECK(distance(hessian([](const Array& v) { return sum(v * v * v); })(x.detach()),
                 array({{3.0, 0.0}, {0.0, 12.0}})) <= 1e-13);
}

// Gives zeros for everything, and notes how much was asked for.
class Counting final : public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const>) const override {
    operations += call.graph.num_operations();
    outputs += call.graph.outputs().size();
    std::vector<Tensor> made;
    for (const ValueId output : call.graph.outputs()) made.push_back(Tensor::zeros(call.graph.type(output)));
    return Values(std::move(made));
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override {
    return cpu().run_transposed_linear(call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    return cpu().add_operands(call, std::move(a), b);
  }
  mutable std::size_t operations = 0, outputs = 0;
};

TEST_CASE("[N1] [N2] operations that are evaluated because they are many give only values with references") {
  const Counting counting;
  const ExecutorGuard guard(counting);
  const Lazy lazy;
  Array y = zeros({8});
  for (int i = 0; i < 70000; ++i) {
    y = y + 1.0;
    if (i % 1000 == 0) (void)(y * 2.0);  // of no use
  }
  CHECK(counting.operations > 60000);
  CHECK(counting.outputs == 1);
}

// A function of this name that others may have beside compile() of a function.
namespace other {
std::size_t compile(const Graph& graph) { return graph.num_operations(); }
}  // namespace other

Array square_of(const Array& x) { return x * x; }

TEST_CASE("compile() takes callables, and leaves graphs to other functions of its name") {
  using namespace other;
  Graph graph = trace([](const Array& x) { return sin(x) + x; }, f64);
  CHECK(compile(graph) == 2);
  CHECK(compile(std::as_const(graph)) == 2);
  CHECK(compile(Graph(graph)) == 2);
  const Array x(3.0);
  CHECK(tidu::compile(square_of)(x).item() == 9.0);
  CHECK(tidu::compile(&square_of)(x).item() == 9.0);
  CHECK(tidu::compile([](const auto& v) { return v * v; })(x).item() == 9.0);
  CHECK(tidu::compile(std::function<Array(const Array&)>(square_of))(x).item() == 9.0);
  CHECK(tidu::compile(tidu::compile(square_of))(x).item() == 9.0);
  struct Last final {
    Array operator()(const Array& v) const { return v * v; }
  };
  CHECK(tidu::compile(Last())(x).item() == 9.0);
}

TEST_CASE("an assignment while a function is traced assigns the elements of then") {
  Array target = zeros({3}), chosen = zeros({3});
  const Array online = leaf(ones({3})), plain = array({1.0, 2.0, 3.0});
  const auto f = compile([&](const Array& x) {
    target.assign(online);
    return x * 2.0;
  });
  {
    const Lazy lazy;
    CHECK(f(Array(1.0)).item() == 2.0);
    (void)grad([&](const Array& x) {
      return cond(
          x > 0.0,
          [&](const Array& y) {
            chosen.assign(plain);
            return y;
          },
          [&](const Array& y) { return -y; }, x);
    })(Array(1.0));
  }
  CHECK(target.shape() == Shape{3});
  CHECK(elements(target) == std::vector<double>{1, 1, 1});
  CHECK(chosen.shape() == Shape{3});
  CHECK(elements(chosen) == std::vector<double>{1, 2, 3});
}

TEST_CASE("a traced function that writes to a parameter gets an error that says to return the new value") {
  Array w = leaf(2.0);
  const auto step = [&](const Array& x) {
    no_grad([&] { w -= 0.1; });
    return sum(w * x);
  };
  const std::string error = error_of([&] { (void)compile(step)(Array(1.0)); });
  CHECK(contains(error, "[Array::assign] expected a value with data, got one that is being traced (f64[])"));
  CHECK(contains(error, "cannot write to an Array outside of it: return the new value"));
  CHECK_FALSE(contains(error, "where()"));
  CHECK(contains(error, "lazy_modes.cpp"));
  CHECK(w.item() == 2.0);
}

TEST_CASE("a compiled function that reads elements gets an error with advice") {
  const auto f = compile([](const Array& x) { return x.item() > 0.0 ? x : -x; });
  const std::string error = error_of([&] { (void)f(Array(1.0)); });
  CHECK(contains(error, "[Array::item] expected an Array with data, got one that is being traced"));
  CHECK(contains(error, "where()"));
  CHECK(f.num_traced() == 0);
  const auto g = compile([](const Array& x) {
    if (x > 0.0) return x;
    return -x;
  });
  CHECK(contains(error_of([&] { (void)g(Array(1.0)); }),
                 "[Array::operator bool] expected an Array with data, got one that is being traced"));
  const auto h = compile([](const Array& x) { return where(x > 0.0, x, -x); });
  CHECK(h(Array(-2.0)).item() == 2.0);
  CHECK(h(Array(3.0)).item() == 3.0);
  CHECK(h.num_traced() == 1);
}

}  // namespace
}  // namespace tidu::test
