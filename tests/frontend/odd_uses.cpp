// odd_uses.cpp - rare uses: Arrays without elements, invalid dtypes, names for values that have one, seeds of
// leaves, lazy tensors and destructors when a thread ends.
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("a dtype that is none is a typed error everywhere") {
  const auto none = static_cast<DType>(77);
  const Array x = array({1.0, 2.0});
  const auto refused = [](const auto& body) {
    const std::string error = error_of(body);
    return contains(error, "expected") && contains(error, "dtype") && contains(error, "odd_uses.cpp:");
  };
  CHECK(refused([&] { (void)x.to(none); }));
  CHECK(refused([&] { (void)Array(1.0).to(none); }));
  CHECK(refused([&] { (void)array({1.0, 2.0}, none); }));
  CHECK(refused([&] { (void)zeros({2}, none); }));
  CHECK(refused([&] { (void)full({}, 1.5, none); }));
  CHECK(refused([&] { (void)arange(3, none); }));
  CHECK(refused([&] { (void)linspace(0.0, 1.0, 3, none); }));
  CHECK(refused([&] { (void)eye(2, none); }));
  CHECK(refused([&] { (void)one_hot(array({0, 1}), 2, none); }));
  CHECK(refused([&] { (void)random::bits(random::key(1), {2}, none); }));
  CHECK(refused([&] { (void)random::uniform(random::key(1), {2}, none); }));
  CHECK(contains(error_of([&] { (void)linspace(0.0, 1.0, -3); }), "a count of 0 or more, got -3"));
  CHECK(linspace(0.0, 1.0, 0).size() == 0);
  CHECK(contains(error_of([&] { (void)Type(none); }), "expected a dtype, got DType(77)"));
  CHECK(contains(error_of([&] { (void)Type(none, {3}); }), "expected a dtype, got DType(77)"));
  CHECK(elements(x.to(f32)) == std::vector<double>{1, 2});
}

TEST_CASE("set_requires_grad names values that require a gradient already") {
  const auto name_of = [](const Array& x) {
    const eager::EagerOutput root = tape_output(sum(x * 2.0));
    return eager::to_json(std::span(&root, 1));
  };
  Array w = array({1.0, 2.0});
  w.set_requires_grad();
  CHECK_FALSE(contains(name_of(w), "weights"));
  w.set_requires_grad(true, "weights");
  CHECK(contains(name_of(w), "weights"));
  w.set_requires_grad(true);  // which says nothing of the name
  CHECK(contains(name_of(w), "weights"));
  Array y = w * 2.0;
  y.set_requires_grad(true, "doubled");
  CHECK(contains(name_of(y), "doubled"));
}

TEST_CASE("the gradient of a leaf that is a root shares nothing with its seed") {
  for (const bool lazily : {false, true}) {
    Array w = leaf(array({1.0, 2.0}));
    Array seed = array({3.0, 5.0});
    {
      std::optional<Lazy> lazy;
      if (lazily) lazy.emplace();
      w.backward(seed);
      CHECK(elements(*w.grad()) == std::vector<double>{3, 5});
      seed.assign(array({7.0, 11.0}));
      CHECK(elements(*w.grad()) == std::vector<double>{3, 5});
    }
    Array gradient = *w.grad();
    gradient.assign(array({13.0, 17.0}));
    CHECK(elements(seed) == std::vector<double>{7, 11});
  }
}

TEST_CASE("a leaf of one element is differentiated by itself") {
  const auto itself = [](const Array& x) { return x; };
  CHECK(grad(itself)(Array(2.0)).item() == 1.0);
  CHECK(grad([&](const Array& x) { return itself(x); })(array({2.0}).reshape({})).item() == 1.0);
  CHECK(hvp(itself, Array(2.0), Array(3.0)).item() == 0.0);
  for (const bool lazily : {false, true}) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    Array w = leaf(array({2.0}, f32)), v = leaf(array({3.0}, f32));
    w.backward();
    v.backward();
    CHECK(elements(*w.grad()) == std::vector<double>{1});
    no_grad([&] { w.grad()->assign(array({5.0}, f32)); });
    w.backward();
    v.backward();
    CHECK(elements(*v.grad()) == std::vector<double>{2});
    CHECK(elements(*grad_of(w, {w})[0]) == std::vector<double>{1});
  }
  const HotPaths hot;
  Array w = leaf(Array(2.0));
  for (int step = 0; step < 8; ++step) {
    w.zero_grad();
    w.backward();
    (w * 3.0).backward();
    CHECK(w.grad()->item() == 4.0);
  }
}

TEST_CASE("a seed that is passed on keeps its own derivative, also where nothing else is recorded") {
  Array w = leaf(array({1.0, 2.0})), s = leaf(array({3.0, 5.0}));
  const Array scaled = s * 2.0;
  const Array roots[] = {w}, inputs[] = {w}, seeds[] = {scaled};
  BackwardOptions again;
  again.create_graph = true;
  const Array passed = no_grad([&] { return *grad_of(roots, inputs, seeds, again)[0]; });
  CHECK(elements(passed) == std::vector<double>{6, 10});
  REQUIRE(passed.requires_grad());
  CHECK(elements(*grad_of(sum(passed), {s})[0]) == std::vector<double>{2, 2});
}

TEST_CASE("gradients that are passed on as they are share nothing, on the reference executor neither") {
  for (const eager::BackwardExecutor<Tensor>* executor :
       std::initializer_list<const eager::BackwardExecutor<Tensor>*>{&cpu(), &reference()}) {
    const ExecutorGuard guard(*executor);
    Array w = leaf(array({1.0, 2.0})), b = leaf(array({3.0, 5.0})), seed = array({7.0, 11.0});
    const Array y = w + b;
    const Array roots[] = {y}, inputs[] = {y, w, b}, seeds[] = {seed};
    std::vector<std::optional<Array>> gradients = grad_of(roots, inputs, seeds, {.keep_graph = true});
    auto pullback = vjp([](const Array& x) { return x; }, w.detach()).second;
    gradients.emplace_back(pullback(seed));
    y.backward(seed);
    gradients.push_back(w.grad());
    gradients.push_back(b.grad());
    gradients.emplace_back(seed.copy());
    double value = 0.0;
    for (std::optional<Array>& gradient : gradients) {
      CHECK(elements(*gradient) == std::vector<double>{7, 11});
      gradient->assign(full({2}, ++value));
      CHECK(elements(seed) == std::vector<double>{7, 11});
    }
    value = 0.0;
    for (const std::optional<Array>& gradient : gradients)
      CHECK(elements(*gradient) == std::vector<double>(2, ++value));
  }
}

// An object of a thread that is made before its first operation, and so destroyed after the objects of that.
struct ComputesAtThreadEnd {
  ComputesAtThreadEnd() = default;
  ComputesAtThreadEnd(const ComputesAtThreadEnd&) = delete;
  ComputesAtThreadEnd& operator=(const ComputesAtThreadEnd&) = delete;
  ~ComputesAtThreadEnd() {
    if (result == nullptr) return;
    GraphBuilder g("constant");  // without another reference
    const Value constant = ops::full(g, {f64, {2, 3}}, 0.8125);
    *result = {g.build({constant}).operation(0).op().literal("value").at(0).real()};
    Array w = leaf(full({96, 96}, 0.5));
    sum(matmul(w * 2.0 + w, w)).backward();  // a matmul with its own memory, a sum of cotangents
    for (const double each : elements(*w.grad())) result->push_back(each);
  }
  std::vector<double>* result = nullptr;
};

TEST_CASE("destructors of a thread may compute and differentiate") {
  std::vector<double> before, at_end;
  std::thread([&] {
    thread_local ComputesAtThreadEnd last;
    last.result = &at_end;
    ComputesAtThreadEnd first;
    first.result = &before;
  }).join();
  CHECK(before.size() == 1 + 96 * 96);
  CHECK(before == at_end);
}

TEST_CASE("a lazy tensor of a thread that never left its mode is evaluated when the thread ends") {
  struct Modes {
    std::optional<Lazy> lazy;
    std::optional<HotPaths> hot;
  };
  static Modes& never_left = *new Modes;
  Array lazily, hot;
  bool was_lazy = false, hot_lazy = false;
  std::thread([&] {
    never_left.lazy.emplace();
    lazily = sin(Array(0.5)) * 2.0;
    was_lazy = is_lazy(lazily);
  }).join();
  std::thread([&] {
    never_left.hot.emplace();
    hot = Array(0.0);
    for (int i = 0; i < 50; ++i) hot = sin(hot) + 1.0;
    hot_lazy = is_lazy(hot);
  }).join();
  CHECK(was_lazy);
  CHECK(hot_lazy);
  CHECK(lazily.item() == doctest::Approx(2 * std::sin(0.5)));
  double expected = 0.0;
  for (int i = 0; i < 50; ++i) expected = std::sin(expected) + 1.0;
  CHECK(hot.item() == doctest::Approx(expected));
}

TEST_CASE(
    "the default executor is that of this thread from now on, of new ones, and of those that name none") {
  std::atomic<int> calls{0};
  const CpuExecutor counting = cpu().with_kernel("sin", [&](const KernelCall& call) {
    ++calls;
    for (std::int64_t i = 0; i < call.input(0).size(); ++i) call.output().mutable_data<double>()[i] = 2.0;
  });
  const Array x = array({1.0, 2.0});
  std::vector<double> here, there, guarded, returned;
  here = elements(sin(x));
  CHECK(here[0] == doctest::Approx(std::sin(1.0)));
  set_default_executor(counting);
  here = elements(sin(x));
  std::thread([&] {
    there = elements(sin(x));
    const ExecutorGuard guard(cpu());
    guarded = elements(sin(x));
  }).join();
  set_default_executor(cpu());
  returned = elements(sin(x));
  CHECK(here == std::vector<double>{2, 2});
  CHECK(there == std::vector<double>{2, 2});
  CHECK(calls == 2);
  CHECK(guarded[0] == doctest::Approx(std::sin(1.0)));
  CHECK(returned == guarded);
  std::thread([&] { there = elements(sin(x)); }).join();
  CHECK(there == guarded);
}

TEST_CASE("truth values of numbers, and whole numbers that are rounded") {
  const Array n = array({0, 1, 2, -3}), m = array({2, 2, 0, 1}), x = array({0.0, -0.5, NAN, 2.0});
  CHECK(logical_and(n, m).dtype() == bool_);
  CHECK(elements(logical_and(n, m)) == std::vector<double>{0, 1, 0, 1});
  CHECK(elements(logical_or(n, m)) == std::vector<double>{1, 1, 1, 1});
  CHECK(elements(logical_xor(n, m)) == std::vector<double>{1, 0, 1, 0});
  CHECK(elements(logical_not(n)) == std::vector<double>{1, 0, 0, 0});
  CHECK(elements(logical_and(x, n)) == std::vector<double>{0, 1, 1, 1});
  CHECK(elements(logical_not(x)) == std::vector<double>{1, 0, 0, 0});
  CHECK(elements(logical_or(x, false)) == std::vector<double>{0, 1, 1, 1});
  CHECK((n & m).dtype() == n.dtype());
  CHECK(elements(n & m) == std::vector<double>{0, 0, 0, 1});
  CHECK(elements(n | m) == std::vector<double>{2, 3, 2, -3});
  CHECK(elements(!n) == std::vector<double>{-1, -2, -3, 2});
  CHECK(elements(!(n == 0)) == std::vector<double>{0, 1, 1, 1});

  const Array large = full({1}, Number((std::int64_t{1} << 53) + 1), i64);
  for (const Array& whole : {floor(large), ceil(large), round(large)}) {
    CHECK(whole.dtype() == i64);
    CHECK(whole.item<std::int64_t>() == (std::int64_t{1} << 53) + 1);
  }
  CHECK(pow(large, large).dtype() == f64);
  CHECK(pow(large, 1).dtype() == i64);
}

TEST_CASE("complex numbers are finite, infinite or none by their parts") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : {c64, c128}) {
    const Array z = complex(array({1.0, inf, 2.0, nan, 0.0}), array({2.0, 1.0, -inf, 0.0, nan})).to(dtype);
    const auto f = [](const Array& w) { return isfinite(w); };
    for (const Array& y : {f(z), compile(f)(z), vmap(f, {0})(z)})
      CHECK(elements(y) == std::vector<double>{1, 0, 0, 0, 0});
    CHECK(elements(isinf(z)) == std::vector<double>{0, 1, 1, 0, 0});
    CHECK(elements(isnan(z)) == std::vector<double>{0, 0, 0, 1, 1});
  }
  const double great = 1.5e308;  // two of which have an infinite absolute value
  CHECK_FALSE(bool(isinf(complex(great, Array(great)))));
}

TEST_CASE("a whole power of whole numbers is one, whatever the exponent") {
  const Array n = array({0, 1, -1, 2, 3});
  const auto power = [](std::int64_t base, std::uint64_t exponent) {
    std::uint64_t result = 1;
    for (auto x = static_cast<std::uint64_t>(base); exponent != 0; exponent /= 2, x *= x)
      if (exponent % 2 != 0) result *= x;
    return static_cast<std::int64_t>(result);
  };
  const std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t y : {std::int64_t{0}, std::int64_t{3}, std::int64_t{64}, std::int64_t{65},
                               std::int64_t{3000000001}, greatest - 1, greatest}) {
    CAPTURE(y);
    const auto f = [y](const Array& x) { return pow(x, y); };
    for (const Array& z : {f(n), compile(f)(n), vmap(f, {0})(n)}) {
      CHECK(z.dtype() == i64);
      for (const std::int64_t i : {0, 1, 2, 3, 4})
        CHECK(z[i].item<std::int64_t>() == power(n[i].item<std::int64_t>(), static_cast<std::uint64_t>(y)));
    }
    CHECK(pow(n.to(i32), y).dtype() == i32);
    CHECK(pow(n.to(i32), y)[4].item<int>() ==
          static_cast<std::int32_t>(power(3, static_cast<std::uint64_t>(y))));
  }
  CHECK(pow(n, -65).dtype() == f64);
  CHECK(pow(n, -2).dtype() == f64);
  CHECK(pow(n, 65.0).dtype() == f64);
  CHECK(pow(n, 2.0).dtype() == f64);
  CHECK(pow(array({1.5, 2.0}), 65)[1].item() == 0x1p65);
  for (const int y : {2, 65}) {
    CHECK(pow(n == 1, y).type() == Type(i32, {5}));
    CHECK(elements(pow(n == 1, y)) == std::vector<double>{0, 1, 0, 0, 0});
  }
}

TEST_CASE("means and variances of 16 bits are those of f32, rounded") {
  for (const DType dtype : {f16, bf16}) {
    CHECK(mean(full({100}, 32768.0, dtype)).item() == 32768.0);  // of a sum that f16 does not hold
    CHECK(mean(ones({100000}, dtype)).item() == 1.0);            // nor this count
    const Array x = array({-512.0, 512.0}, dtype);
    CHECK(stddev(x).item() == 512.0);
    CHECK(var(x * 0.25).item() == 16384.0);
    CHECK(var(x).dtype() == dtype);
    CHECK(elements(grad([](const Array& y) { return stddev(y); })(x)) == std::vector<double>{-0.5, 0.5});
    CHECK(elements(grad([](const Array& y) { return mean(y); })(x)) == std::vector<double>{0.5, 0.5});
  }
}

TEST_CASE("a variance without degrees of freedom is not a number") {
  CHECK(std::isnan(var(zeros({0}), {}, 1).item()));
  CHECK(std::isnan(var(ones({1}), {}, 1).item()));
  CHECK(std::isnan(var(array({1.0, 2.0}), {}, 3).item()));
  CHECK(std::isnan(stddev(array({1.0, 2.0}), {}, 2).item()));
  CHECK(var(array({1.0, 3.0}), {}, 1).item() == 2.0);
}

}  // namespace

TEST_CASE("functions of complex numbers keep infinities, and the sign of a zero beside a branch cut") {
  using c128_t = std::complex<double>;
  const double inf = INFINITY;
  const auto of = [](c128_t z) { return Array(Tensor::scalar(z)); };
  const auto same = [](const Array& x, c128_t z) {
    const c128_t y = x.item<c128_t>();
    const auto equal = [](double a, double b) {
      return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
    };
    return equal(y.real(), z.real()) && equal(y.imag(), z.imag());
  };
  CHECK(same(integer_pow(of({0.0, inf}), 1), {0.0, inf}));
  CHECK(same(integer_pow(of({0.0, 1e200}), 2), {-inf, 0.0}));
  CHECK(same(integer_pow(of({-0.0, -2.0}), 1), {-0.0, -2.0}));
  CHECK(same(integer_pow(of({1.0, 1.0}), 5), {-4.0, -4.0}));
  CHECK(same(integer_pow(of({1.0, 1.0}), 4), {-4.0, 0.0}));
  CHECK(same(log1p(of({-inf, -0.0})), {inf, -std::acos(-1.0)}));
  CHECK(same(log1p(of({2.0, -0.0})), {std::log(3.0), -0.0}));
  CHECK(same(expm1(of({inf, 0.0})), {inf, 0.0}));
}

TEST_CASE("convolutions and pools of nothing have gradients of zeros") {
  const auto gradient_of = [](const auto& f, Array x) {
    x.set_requires_grad();
    sum(f(x)).backward();
    REQUIRE(x.grad());
    CHECK(x.grad()->type() == x.type());
    return elements(*x.grad());
  };
  const Array none = zeros({0, 2, 4, 4}), filter = random_array({3, 2, 2, 2}, 1);
  const std::vector<double> zero(24, 0.0);
  CHECK(gradient_of([&](const Array& w) { return conv2d(none, w); }, filter) == zero);
  CHECK(gradient_of([&](const Array& x) { return conv2d(x, filter); }, none).empty());
  CHECK(gradient_of([&](const Array& x) { return avg_pool(x, {5}); }, ones({1, 1, 2})) ==
        std::vector<double>{0, 0});
  CHECK(gradient_of([&](const Array& x) { return max_pool(x, {5}); }, ones({1, 1, 2})) ==
        std::vector<double>{0, 0});
  CHECK(elements(grad([&](const Array& w) { return sum(conv2d(none, w)); })(filter)) == zero);
}

TEST_CASE("much of nothing prints as little") {
  CHECK(to_string(zeros({2, 0})) == "array([[],\n       []], f64[2,0])");
  CHECK(to_string(zeros({1000000, 0})).size() < 100);
  CHECK(to_string(zeros({1000000, 1000000, 0})).size() < 100);
  CHECK(contains(to_string(zeros({1000000, 1000000, 0})), "array([], f64[1000000,1000000,0])"));
  CHECK(to_string(zeros({0, 1000000})).size() < 100);
}

TEST_CASE("ones of no axes, diagonals that are far away, singular signs") {
  CHECK(ones({}).item<double>() == 1.0);
  constexpr auto least = std::numeric_limits<std::int64_t>::min(),
                 greatest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t k : {least, greatest}) {
    CHECK(contains(error_of([&] {
                     (void)diag(array({1.0, 2.0}), k);
                   }),
                   "at most 2^31 from the main one, got"));
    CHECK(diag(eye(3), k).size() == 0);
  }
  const auto [sign, logarithm] = linalg::slogdet(array({{1.0, 2.0}, {2.0, 4.0}}));
  CHECK(sign.item<double>() == 0.0);
  CHECK_FALSE(std::signbit(sign.item<double>()));
}

TEST_CASE("read-only memory of somebody else's is not written to, and the Array does not part from it") {
  double memory[] = {1.0, 2.0};
  const auto over = [&] {
    return Array(Tensor::wrap(Type(f64, {2}), static_cast<const void*>(memory), nullptr));
  };
  Array x = over();
  const std::string error = error_of([&] { x.assign(zeros({2})); });
  CHECK(contains(error, "[Array::assign] expected memory that may be written to, got f64[2] over read-only"));
  memory[0] = 5.0;
  CHECK(elements(x) == std::vector<double>{5.0, 2.0});
  Array w = over();
  w.set_requires_grad();
  CHECK(contains(error_of([&] { no_grad([&] { w -= 0.5; }); }), "read-only memory"));
  CHECK(elements(w) == std::vector<double>{5.0, 2.0});
  Array own = over().copy();
  own.assign(zeros({2}));
  CHECK(elements(own) == std::vector<double>{0.0, 0.0});
  CHECK(memory[0] == 5.0);
  Array number = 2.0;  // a literal, whose elements others share
  number.assign(3.0);
  CHECK(number.item<double>() == 3.0);
}

}  // namespace tidu::test
