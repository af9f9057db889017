// modes.cpp - leaves, accumulation, no_grad, detach, changes in place, hooks, anomaly mode, profiles,
// executors; and errors that name the user's source location.
#include "support.hpp"

namespace tidu::test::modes_cases {
namespace {

Array leaf(double value) {
  Array x(value);
  x.set_requires_grad();
  return x;
}

std::string here(int line) { return std::string(__FILE__) + ":" + std::to_string(line); }

TEST_CASE("gradients add up over calls until they are cleared") {
  const Array x = leaf(3.0);
  CHECK_FALSE(x.grad().has_value());
  (x * x).backward();
  (x * x).backward();
  CHECK(x.grad()->item() == 12.0);
  x.zero_grad();
  CHECK_FALSE(x.grad().has_value());
  x.set_grad(Array(5.0));
  (2 * x).backward();
  CHECK(x.grad()->item() == 7.0);
}

TEST_CASE("leaves and values computed from them") {
  const Array x = leaf(2.0);
  const Array y = x * x;
  CHECK(x.is_leaf());
  CHECK_FALSE(y.is_leaf());
  CHECK(y.requires_grad());
  CHECK_FALSE(y.detach().requires_grad());
  CHECK(y.detach().tensor().shares_storage_with(y.tensor()));
  const Array z = y.detach() * x;
  z.backward();
  CHECK(x.grad()->item() == 4.0);
  CHECK_FALSE((Array(1.0) + Array(2.0)).requires_grad());
  CHECK(contains(error_of([&] { (void)y.grad(); }), "grad_of"));
  CHECK(contains(error_of([&] { Array(1.0).backward(); }), "requires a gradient"));
  CHECK(contains(error_of([&] { Array(1).set_requires_grad(); }), "floating or complex"));
  Array copy = x;  // the same Array
  copy.set_requires_grad(false);
  CHECK_FALSE(x.requires_grad());
}

TEST_CASE("no_grad, and grad mode inside it") {
  const Array x = leaf(2.0);
  CHECK_FALSE(no_grad([&] { return x * x; }).requires_grad());
  {
    const NoGrad guard;
    CHECK_FALSE((x * x).requires_grad());
    const GradMode on(true);
    CHECK((x * x).requires_grad());
  }
  CHECK(grad_enabled());
  CHECK((x * x).requires_grad());
  CHECK(contains(error_of([&] { no_grad([&] { (x * x).backward(); }); }), "no_grad"));
}

TEST_CASE("nothing is recorded where nothing requires a gradient") {
  const Array x(2.0);
  const Array y = sin(x) * x;
  CHECK_FALSE(y.requires_grad());
  CHECK_FALSE(static_cast<bool>(y.body()->trace));
}

TEST_CASE("parameters are updated in place, other handles are rebound") {
  Array w = leaf(2.0);
  const Array same = w;
  const Array y = w * w;
  {
    const NoGrad guard;
    w -= 0.5 * Array(1.0);
  }
  CHECK(same.item() == 1.5);
  CHECK(w.requires_grad());
  const std::string error = error_of([&] { y.backward(); });
  CHECK(contains(error, "multiply"));
  CHECK(contains(error, "version"));
  Array total = w;
  total += w * w;
  CHECK(w.item() == 1.5);
  total.backward();
  CHECK(w.grad()->item() == 4.0);
  // A value that backward does not read may change.
  Array v = leaf(1.0);
  Array z = v + 1.0;
  no_grad([&] { v.assign(Array(7.0)); });
  z.backward();
  CHECK(v.grad()->item() == 1.0);
  CHECK(contains(error_of([&] { v.assign(Array(1.0f)); }), "expected f64[], got f32[]"));
  CHECK(contains(error_of([&] { z.assign(Array(1.0)); }), "recorded operation"));
}

TEST_CASE("writing through the tensor is noticed") {
  Array x = leaf(2.0);
  const Array y = sin(x);
  Tensor data = x.tensor();
  data.mutable_data<double>()[0] = 1.0;
  CHECK(contains(error_of([&] { y.backward(); }), "version"));
}

TEST_CASE("hooks see and replace cotangents, and can be removed") {
  const Array x = leaf(3.0);
  const Array y = x * x;
  double seen = 0;
  HookHandle watch = y.register_hook([&](const Array& cotangent) { seen = cotangent.item(); });
  HookHandle twice = y.register_hook([](const Array& cotangent) { return 2 * cotangent; });
  BackwardOptions keep;
  keep.keep_graph = true;
  (y * 5).backward(keep);
  CHECK(seen == 5.0);
  CHECK(x.grad()->item() == 60.0);
  twice.remove();
  x.zero_grad();
  (y * 5).backward(keep);
  CHECK(x.grad()->item() == 30.0);
  x.zero_grad();
  x.register_hook([](const Array& cotangent) { return -cotangent; });
  y.backward(keep);
  CHECK(x.grad()->item() == -6.0);
  watch.remove();
}

TEST_CASE("a hook may let go of the array that backward was called on") {
  const Array x = leaf(0.5);
  Array y = sin(exp(x));
  y.register_hook([&](const Array&) { y = Array(); });
  y.backward();
  CHECK(x.grad()->item() == doctest::Approx(std::cos(std::exp(0.5)) * std::exp(0.5)));
}

TEST_CASE("grad_of: selected gradients, absent ones, second order") {
  const Array x = leaf(2.0), y = leaf(3.0), other = leaf(1.0);
  const Array inner = x * y;
  const Array z = inner * inner;
  BackwardOptions options;
  options.create_graph = true;
  const auto first = grad_of(z, {x, inner, other}, options);
  CHECK(first[0]->item() == 36.0);  // 2 x y²
  CHECK(first[1]->item() == 12.0);
  CHECK_FALSE(first[2].has_value());
  CHECK_FALSE(x.grad().has_value());
  const auto second = grad_of(*first[0], {x, y});
  CHECK(second[0]->item() == 18.0);
  CHECK(second[1]->item() == 24.0);
  const Array roots[] = {x * x, y * x}, seeds[] = {Array(1.0), Array(10.0)}, wanted[] = {x};
  CHECK(grad_of(roots, wanted, seeds)[0]->item() == 34.0);
  // Weights that are tied stand in a list twice.
  const auto tied = grad_of(sum(x * y), {x, y, x, other, other});
  CHECK(tied[0]->item() == y.item());
  CHECK(tied[1]->item() == x.item());
  CHECK(tied[2]->item() == y.item());
  CHECK(!tied[3]);
  CHECK(!tied[4]);
}

TEST_CASE("backward with create_graph gives gradients that can be differentiated") {
  const Array x = leaf(2.0);
  BackwardOptions options;
  options.create_graph = true;
  pow(x, 3).backward(options);
  const Array g = *x.grad();
  CHECK(g.requires_grad());
  x.zero_grad();
  g.backward();
  CHECK(x.grad()->item() == 12.0);
}

TEST_CASE("anomaly mode names operation and place") {
  const Array x = leaf(0.0);
  const AnomalyGuard guard;
  const int line = __LINE__ + 1;
  const std::string forward = error_of([&] { (void)log(x); });
  CHECK(contains(forward, "log"));
  CHECK(contains(forward, here(line)));
  const std::string backward = error_of([&] { sqrt(x).backward(); });
  CHECK(contains(backward, "sqrt"));
}

TEST_CASE("anomaly mode checks operations that run under NoGrad, and records none of them") {
  Array p = leaf(0.0);
  const AnomalyGuard guard;
  const NoGrad off;
  CHECK(contains(error_of([&] { (void)log(p); }), "non-finite value first appears in forward of log"));
  CHECK(contains(error_of([&] { p -= sqrt(Array(-1.0)); }), "forward of sqrt"));
  const auto logarithm = compile([](const Array& a) { return std::pair(log(a), a); });
  CHECK(contains(error_of([&] { (void)logarithm(p); }), "non-finite value first appears in forward"));
  CHECK_FALSE(cos(p).requires_grad());
  CHECK_FALSE(logarithm(cos(p)).first.requires_grad());
  CHECK_FALSE(tape_output(cos(p)).trace);
  const ExplainGuard keeps;  // which explain() alone reads
  CHECK(tape_output(cos(p)).trace);
  CHECK_FALSE(cos(p).requires_grad());
}

TEST_CASE("anomaly mode checks the replacements of hooks for gradients that go to no operation") {
  const AnomalyGuard guard;
  const auto spoil = [](const Array&) { return Array(std::nan("")); };
  const Array x = leaf(1.0);
  x.register_hook(spoil);
  const std::string spoiled = error_of([&] { (x * x).backward(); });
  CHECK(contains(spoiled, "non-finite cotangent of"));
  CHECK(contains(spoiled, "which a hook left so: it f64[] has 1 NaN"));
  CHECK_FALSE(x.grad().has_value());
  const Array w = leaf(1.0), y = sin(w);
  y.register_hook(spoil);
  CHECK(contains(error_of([&] { grad_of(y * y, {y}); }), "non-finite cotangent of output 0 of sin"));
}

TEST_CASE("a profile has executions, recordings and differentiations") {
  eager::Profile profile;
  const Array x = leaf(2.0);
  {
    const ProfileGuard guard(profile);
    (x * x).backward();
  }
  (x * x).backward();
  int executed = 0, recorded = 0, transposed = 0;
  for (const eager::ProfileEvent& event : profile.events()) {
    executed += event.phase == eager::ProfilePhase::execute ? 1 : 0;
    recorded += event.phase == eager::ProfilePhase::record ? 1 : 0;
    transposed += event.phase == eager::ProfilePhase::transposed ? 1 : 0;
  }
  CHECK(executed == 1);
  CHECK(recorded == 1);
  CHECK(transposed >= 1);
}

TEST_CASE("another executor runs operations and backward") {
  const auto compute = [] {
    const Array x = leaf(0.3);
    sum(softmax(stack({x, x * x, sin(x)})) * array({1.0, 2.0, 3.0})).backward();
    return x.grad()->item();
  };
  const double expected = compute();
  {
    const ExecutorGuard guard(reference());
    CHECK(compute() == doctest::Approx(expected).epsilon(1e-13));
  }
  CHECK(compute() == expected);
}

TEST_CASE("an executor that is assigned to while it is in force is another one") {
  const auto with_sin = [](double value) {
    return cpu().with_kernel("sin", [value](const KernelCall& call) {
      double* y = call.output().mutable_data<double>();
      for (std::int64_t i = 0; i < call.output().size(); ++i) y[i] = value;
    });
  };
  CpuExecutor executor = with_sin(2);
  const ExecutorGuard guard(executor);
  const Array x = array({1.0, 2.0});
  CHECK(elements(sin(x)) == std::vector<double>{2, 2});
  executor = with_sin(3);
  CHECK(elements(sin(x)) == std::vector<double>{3, 3});
}

TEST_CASE("errors name function, types and the user's place") {
  const Array a = zeros({2, 3}), b = zeros({4});
  int line = __LINE__ + 1;
  std::string error = error_of([&] { (void)(a + b); });
  CHECK(contains(error, "[add] expected shapes that broadcast together, got [2,3] and [4]"));
  CHECK(contains(error, "add(f64[2,3], f64[4]), " + here(line)));
  line = __LINE__ + 1;
  error = error_of([&] { (void)matmul(a, b); });
  CHECK(contains(error, "matmul(f64[2,3], f64[4]), " + here(line)));
  line = __LINE__ + 1;
  error = error_of([&] { (void)sum(a, 2); });
  CHECK(contains(error, "expected an axis of an Array with 2 dimensions, got 2"));
  CHECK(contains(error, here(line)));
  CHECK(contains(error_of([&] { (void)a.item(); }), "one element, got f64[2,3]"));
  CHECK(contains(error_of([&] { (void)a[2]; }), "got 2"));
  CHECK(contains(error_of([&] { (void)a.reshape({4, -1}); }), "6 elements"));
  CHECK(contains(error_of([&] { (void)zeros({0, 3}).reshape({0, -1}); }), "0 elements"));
  CHECK(zeros({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
  CHECK(contains(error_of([&] { (void)a.to(static_cast<DType>(77)); }),
                 "[astype] expected a dtype, got DType(77)"));
  CHECK(contains(error_of([&] { (void)concatenate({a, b}); }), "concatenate"));
  CHECK(contains(error_of([&] { (void)split(a, 2, 1); }), "divides 3"));
  CHECK(contains(error_of([&] { (void)array({{1, 2}, {3}}); }), "one length"));
  CHECK(contains(error_of([&] { (void)transpose(a, {0, 0}); }), "different axes"));
  CHECK(contains(error_of([&] { (void)Array().type(); }), "default-constructed"));
  CHECK(contains(error_of([&] { a.backward(b); }), "requires a gradient"));
  Array x = zeros({2});
  x.set_requires_grad();
  CHECK(contains(error_of([&] { (x * x).backward(); }), "expected a seed"));
  CHECK(contains(error_of([&] { (x * x).backward(b); }), "expected a seed of type f64[2], got f64[4]"));
}

TEST_CASE("printing") {
  CHECK(to_string(Array(2.5)) == "array(2.5, f64[])");
  CHECK(to_string(array({{1.0, 2.5}, {-3.0, 4.0}})) ==
        "array([[ 1.0,  2.5],\n       [-3.0,  4.0]], f64[2,2])");
  CHECK(to_string(array({1.0, 2.0})) == "array([1., 2.], f64[2])");
  CHECK(to_string(array({1, 20, 300})) == "array([  1,  20, 300], i64[3])");
  CHECK(to_string(array({true, false})) == "array([ true, false], bool[2])");
  CHECK(to_string(array({1e-10, 1.0})) == "array([1.e-10, 1.e+00], f64[2])");
  CHECK(to_string(array({1.0, INFINITY, NAN})) == "array([ 1., inf, nan], f64[3])");
  CHECK(to_string(zeros({0, 2})) == "array([], f64[0,2])");
  CHECK(to_string(arange(2000)) == "array([   0,    1,    2, ..., 1997, 1998, 1999], i64[2000])");
  CHECK(to_string(zeros({2, 1, 2})) == "array([[[0., 0.]],\n\n       [[0., 0.]]], f64[2,1,2])");
  Array x(1.0);
  x.set_requires_grad();
  CHECK(to_string(x) == "array(1., f64[], requires_grad)");
  std::string traced;
  (void)trace([&](const Array& y) { return traced = to_string(y), y; }, f64);
  CHECK(traced == "traced(f64[])");
}

}  // namespace
}  // namespace tidu::test::modes_cases
