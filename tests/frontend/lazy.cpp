// lazy.cpp - lazy mode: lazy tensors, events that evaluate them, the cache in front, failures, backward
// through lazy tensors.
#include "tidu/frontend/lazy.hpp"

#include <thread>

#include "support.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::test {
namespace {

// The evaluations on this thread, and entries made in the cache, since it was made.
struct Since {
  LazyStatistics lazy = lazy_statistics();
  CacheStatistics cache = compile_cache().statistics();
  std::uint64_t evaluations() const { return lazy_statistics().evaluations - lazy.evaluations; }
  std::uint64_t evaluated() const { return lazy_statistics().evaluated - lazy.evaluated; }
  std::uint64_t misses() const { return compile_cache().statistics().misses - cache.misses; }
};

// Kernels that fail while it is set.
bool broken = false;
const CpuExecutor& fragile() {
  static const CpuExecutor executor = cpu().with_kernel("sin", [](const KernelCall& call) {
    if (broken) throw std::runtime_error("out of order");
    const double* x = call.input(0).data<double>();
    double* y = call.output().mutable_data<double>();
    for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = std::sin(x[i]);
  });
  return executor;
}

TEST_CASE("[N1] operations return lazy tensors at once: type known, no data, tracked") {
  const Array x = random_array({3, 4}, 1), w = random_array({4, 5}, 2);
  const Lazy lazy;
  CHECK(lazy_enabled());
  const std::size_t before = lazy_statistics().pending;
  const Array y = matmul(x, w);
  const Array z = sum(sin(y), 0);
  CHECK(is_lazy(y));
  CHECK(is_lazy(z));
  CHECK(z.type() == Type(f64, {5}));
  CHECK(y.shape(1) == 5);
  CHECK(lazy_statistics().pending == before + 3);
  // Errors of types come at once, and name the location.
  const int line = __LINE__ + 1;
  const std::string error = error_of([&] { (void)(y + x); });
  CHECK(contains(error, "[add] expected shapes that broadcast together"));
  CHECK(contains(error, std::string(__FILE__) + ":" + std::to_string(line)));
  CHECK(is_lazy(z));
  CHECK(lazy_statistics().pending == before + 3);
}

TEST_CASE("[N1] a lazy tensor without a reference costs no computation") {
  const Array x = random_array({3}, 1);
  const Since since;
  Array y = x;
  {
    const Lazy lazy;
    for (int i = 0; i < 100; ++i) y = sin(y);
    y = x + 1.0;
    for (int i = 0; i < 5000; ++i) (void)cos(x);
    CHECK(lazy_statistics().pending < 3000);
  }
  CHECK(since.evaluated() == 1);
  CHECK(since.evaluations() == 1);
  CHECK(lazy_statistics().pending == 0);
}

TEST_CASE(
    "[N2] a read evaluates exactly the operations that it needs, and their results are leaves from then on") {
  const Array x = random_array({10}, 1);
  const Array plain = exp(sin(x)) * 2.0;
  const Lazy lazy;
  const Array a = sin(x), b = exp(a), c = b * 2.0, other = cos(x) + 1.0;
  Since since;
  CHECK(distance(c, plain) <= 1e-15);
  CHECK(since.evaluations() == 1);
  CHECK(since.evaluated() == 3);
  CHECK_FALSE(is_lazy(c));
  CHECK(is_lazy(other));
  // Intermediate values that are still referred to were kept: nothing runs twice.
  CHECK_FALSE(is_lazy(a));
  since = {};
  const Array d = c + a;
  (void)d.tensor();
  CHECK(since.evaluated() == 1);
  // Duplicates, and Arrays with elements.
  since = {};
  const Array e = d * d;
  eval(e, x, e, other, std::vector<Array>{e, d});
  CHECK(since.evaluations() == 1);
  CHECK(since.evaluated() == 3);
  CHECK(distance(other, cos(x) + 1.0) <= 1e-15);
  eval(e, other);
  CHECK(contains(error_of([] { eval(Array()); }), "default-constructed"));
}

TEST_CASE("[N2] everything that reads evaluates") {
  const Array x(2.0);
  const Lazy lazy;
  CHECK((x * 3.0).item() == 6.0);
  CHECK((x * 3.0).tensor().data<double>()[0] == 6.0);
  CHECK(static_cast<bool>(x < 3.0));
  CHECK(to_string(x * 3.0) == "array(6., f64[])");
  const Tensor shared = (x * 3.0).body()->tensor;  // a tensor may be lazy
  CHECK(shared.pending() != nullptr);
  CHECK(shared.clone().data<double>()[0] == 6.0);
  CHECK(cpu()
            .run(trace([](const Array& v) { return v + 1.0; }, f64), {(x * 4.0).body()->tensor})[0]
            .item<double>() == 9.0);
  CHECK(random::key(1).size() > 0);
}

TEST_CASE("[N3] one look-up finds the program: nothing is built for a structure that is known") {
  const Array x = random_array({8}, 1), w = random_array({8}, 2);
  const auto step = [&](const Array& p, const Array& q) {
    const Lazy lazy;
    return sum(tanh(p * q) + p);
  };
  const Array first = step(x, w);
  for (unsigned i = 0; i < 10; ++i) {
    const Array p = random_array({8}, 10 + i), q = random_array({8}, 30 + i);
    const Since since;
    const Array got = step(p, q);
    CHECK(since.misses() == 0);
    CHECK(since.evaluations() == 1);
    CHECK(distance(got, sum(tanh(p * q) + p)) <= 1e-13);
  }
  CHECK(distance(first, sum(tanh(x * w) + x)) <= 1e-13);
}

TEST_CASE("[N3] permuted, repeated and symmetric targets are distinguished") {
  const Array x = random_array({4}, 1), y = random_array({4}, 2);
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Lazy lazy;
    Array a = x - y, b = y - x;
    eval(a, b);
    CHECK(distance(a, -b) == 0.0);
    CHECK(distance(a, x - y) == 0.0);
    a = x - y, b = y - x;
    eval(b, a);
    CHECK(distance(a, x - y) == 0.0);
    CHECK(distance(b, y - x) == 0.0);
    // The same operations in another order, and other pairs of them.
    b = y - x, a = x - y;
    Array c = a * y, d = b * x;
    eval(d, c, d);
    CHECK(distance(c, (x - y) * y) == 0.0);
    CHECK(distance(d, (y - x) * x) == 0.0);
    a = x - y, b = y - x;
    c = a * x, d = b * y;
    eval(c, d);
    CHECK(distance(c, (x - y) * x) == 0.0);
    CHECK(distance(d, (y - x) * y) == 0.0);
    // As many values of the same operations, but others.
    for (const bool first : {true, false}) {
      Array m = tanh(x), n = cosh(m);
      const Array last = n - m;
      (first ? n : m) = Array();
      (void)last.tensor();
      if (first) CHECK(distance(m, tanh(x)) <= 1e-15);
      if (!first) CHECK(distance(n, cosh(tanh(x))) <= 1e-14);
      CHECK_FALSE(is_lazy(first ? m : n));
    }
    // One of two equal results.
    const Array p = sin(x), q = sin(x);
    CHECK(distance(p, q) == 0.0);
    CHECK_FALSE(p.tensor().shares_storage_with(q.tensor()));
  }
}

TEST_CASE("[N4] the key covers all that changes the program, and nothing else") {
  const auto run = [](const Array& x, const Array& y, const auto& f) {
    const Since since;
    Array result;
    {
      const Lazy lazy;
      result = f(x, y);
    }
    return std::pair(since.misses() == 0, result);
  };
  const Array x = random_array({2, 3}, 1), y = random_array({2, 3}, 2), wide = random_array({3, 2}, 3);
  const auto product = [](const Array& a, const Array& b) { return (a * b) + 0.125; };
  CHECK_FALSE(run(x, y, product).first);
  CHECK(run(x, y, product).first);
  CHECK(run(y, x, product).first);                        // other data
  CHECK(run(x.copy(), y.copy(), product).first);          // other addresses
  CHECK_FALSE(run(x, x, product).first);                  // x x is not x y
  CHECK(run(y, y, product).first);                        // y y is
  CHECK_FALSE(run(wide, wide, product).first);            // shapes
  CHECK_FALSE(run(x.to(f32), y.to(f32), product).first);  // dtypes
  CHECK_FALSE(run(x.to(f32), y, product).first);          // of one operand
  // Two programs that differ in the operand that an operation reads.
  const auto by_first = [](const Array& a, const Array& b) { return (a - b) * a; };
  const auto by_second = [](const Array& a, const Array& b) { return (a - b) * b; };
  CHECK_FALSE(run(x, y, by_first).first);
  CHECK_FALSE(run(x, y, by_second).first);
  CHECK(distance(run(x, y, by_first).second, (x - y) * x) == 0.0);
  CHECK(distance(run(x, y, by_second).second, (x - y) * y) == 0.0);
  const auto with = [](std::int64_t axis) {
    return [axis](const Array& a, const Array& b) { return cumsum(a * b + 0.125, axis); };
  };
  CHECK_FALSE(run(x, y, with(0)).first);
  CHECK_FALSE(run(x, y, with(1)).first);  // attributes
  CHECK(run(x, y, with(0)).first);
  CHECK(distance(run(x, y, with(1)).second, cumsum(x * y + 0.125, 1)) <= 1e-15);
  // A number that changes from call to call is an operand.
  const auto scaled = [](double by) { return [by](const Array& a, const Array&) { return a * by + 7.0; }; };
  CHECK_FALSE(run(x, y, scaled(2.0)).first);
  CHECK(run(x, y, scaled(3.0)).first);
  CHECK(distance(run(x, y, scaled(4.0)).second, x * 4.0 + 7.0) == 0.0);
  // Which values are wanted.
  const auto both = [&](bool inner) {
    const Since since;
    const Lazy lazy;
    Array a = sin(x * 0.75);
    const Array b = exp(a);
    if (!inner) a = Array();
    (void)b.tensor();
    return since.misses() == 0;
  };
  CHECK_FALSE(both(true));
  CHECK_FALSE(both(false));
  CHECK(both(true));
  // Another executor.
  {
    const ExecutorGuard guard(fragile());
    CHECK_FALSE(run(x, y, product).first);
    CHECK(run(x, y, product).first);
  }
  CHECK(run(x, y, product).first);
}

TEST_CASE("[N5] a failure leaves every lazy tensor unchanged, and a later read tries again") {
  const ExecutorGuard guard(fragile());
  const Array x = leaf(random_array({5}, 1));
  Array y, z, unharmed, gradient;
  {
    const Lazy lazy;
    y = sin(x * 2.0);
    z = sum(y * y);
    unharmed = x + 1.0;
    z.backward();
    gradient = *x.grad();
    broken = true;
    for (int i = 0; i < 2; ++i) {
      const std::string error = error_of([&] { (void)z.item(); });
      CHECK(contains(error, "out of order"));
      CHECK(is_lazy(z));
      CHECK(is_lazy(y));
      CHECK(is_lazy(gradient));
    }
    CHECK(error_of([&] { (void)unharmed.tensor(); }).empty());
  }
  // Leaving the scope failed too; it is still lazy, also outside.
  CHECK(is_lazy(z));
  CHECK(contains(error_of([&] { (void)(z + 1.0); }), "out of order"));
  broken = false;
  CHECK(distance(y, sin(x * 2.0)) <= 1e-15);
  CHECK(z.item() == doctest::Approx(sum(y * y).item()));
  CHECK(distance(gradient, 4.0 * sin(x * 2.0) * cos(x * 2.0)) <= 1e-14);
}

TEST_CASE("[N5] one lazy tensor that fails does not keep others from their values") {
  const ExecutorGuard guard(fragile());
  const Array x = leaf(random_array({5}, 1));
  Array bad, good, ended, lost;
  {
    const Lazy lazy;
    bad = sin(x * 2.0);
    good = cos(x + 1.0);
    broken = true;
  }
  broken = false;
  CHECK(is_lazy(bad));
  CHECK_FALSE(is_lazy(good));
  broken = true;
  std::thread([&] {
    const ExecutorGuard other(fragile());
    const Lazy lazy;
    ended = x * 3.0;
    lost = sin(x);
  }).join();
  broken = false;
  CHECK(distance(good, cos(x + 1.0)) <= 1e-15);
  CHECK(distance(ended, x * 3.0) <= 1e-15);
  CHECK(distance(bad, sin(x * 2.0)) <= 1e-15);
}

TEST_CASE("[N6] no value is ever stale: evaluations, partial ones, and backward after them, interleaved") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    // The same random program, eager and lazy; in lazy mode some values are read on the way.
    const auto program = [&](bool lazily, std::mt19937_64 choose) {
      std::mt19937_64 reads(static_cast<unsigned>(round));
      std::optional<Lazy> lazy;
      if (lazily) lazy.emplace();
      std::vector<Array> values{leaf(random_array({3}, 1)), leaf(random_array({3}, 2)), random_array({3}, 3)};
      std::vector<Array> leaves{values[0], values[1]}, results;
      for (int i = 0; i < 30; ++i) {
        const Array a = values[choose() % values.size()], b = values[choose() % values.size()];
        switch (choose() % 8) {
          case 0: values.push_back(sin(a) * b); break;
          case 1: values.push_back(a + b); break;
          case 2: values.push_back(tanh(a - 0.5 * b)); break;
          case 3: values[choose() % values.size()] = exp(-a * a); break;
          case 4: {
            const Array root = sum(a * b);
            if (root.requires_grad()) {
              BackwardOptions options;
              options.keep_graph = true;
              root.backward(options);
            }
            break;
          }
          case 5:
            if (leaves[0].grad()) results.push_back(*leaves[0].grad());
            break;
          case 6: values.push_back(a.detach() * 2.0); break;
          default: values.push_back(sum(a) * b); break;
        }
        if (lazily && reads() % 4 == 0) (void)values[reads() % values.size()].tensor();
        if (lazily && reads() % 9 == 0 && leaves[1].grad()) eval(*leaves[1].grad(), values.back());
      }
      lazy.reset();
      for (const Array& x : leaves)
        if (x.grad()) results.push_back(*x.grad());
      results.insert(results.end(), values.begin(), values.end());
      return results;
    };
    const std::mt19937_64 choose(random());
    const std::vector<Array> plain = program(false, choose), lazy = program(true, choose);
    REQUIRE(plain.size() == lazy.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const double scale = 1.0 + max(abs(plain[i])).item();
      CHECK(distance(plain[i], lazy[i]) <= 1e-12 * scale);
    }
  }
}

TEST_CASE("[N6] forward and backward of a step are one run of one program") {
  const Array x = random_array({16, 8}, 1), t = random_array({16, 1}, 2);
  std::vector<Array> parameters{leaf(random_array({8, 12}, 3, 0.3)), leaf(random_array({12, 1}, 4, 0.3))};
  const auto loss = [&](const std::vector<Array>& p) {
    const Array d = matmul(tanh(matmul(x, p[0])), p[1]) - t;
    return mean(d * d);
  };
  const auto plain = value_and_grad(loss)(parameters);
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Since since;
    std::optional<Lazy> lazy(std::in_place);
    const auto got = value_and_grad(loss)(parameters);
    CHECK(since.evaluations() == 0);
    lazy.reset();
    CHECK(since.evaluations() == 1);
    CHECK(since.misses() == (repeat == 0 ? 2 : 0));  // the trace, and its graph
    CHECK(got.first.item() == doctest::Approx(plain.first.item()).epsilon(1e-13));
    for (std::size_t i = 0; i < 2; ++i) CHECK(distance(got.second[i], plain.second[i]) <= 1e-14);
  }
  // A whole training step: forward, backward and the update of all parameters.
  std::vector<Array> other{leaf(parameters[0]), leaf(parameters[1])};
  const auto train = [&](std::vector<Array>& p) {
    for (Array& w : p) w.zero_grad();
    const Array value = loss(p);
    value.backward();
    const NoGrad guard;
    for (Array& w : p) w -= 0.1 * *w.grad();
    for (Array& w : p) w.zero_grad();
    return value.detach();
  };
  for (int step = 0; step < 5; ++step) {
    const Array expected = train(other);
    const Since since;
    Array value;
    {
      const Lazy lazy;
      value = train(parameters);
    }
    CHECK(since.evaluations() == 1);
    if (step > 1) CHECK(since.misses() == 0);
    CHECK(value.item() == doctest::Approx(expected.item()).epsilon(1e-12));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(distance(parameters[i], other[i]) <= 1e-13);
    CHECK(parameters[i].requires_grad());
  }
}

TEST_CASE(
    "[N7] the operations of a function between arguments and results are a graph, to print, transform and "
    "replay") {
  const auto f = [](const Array& x, const Array& y) { return sum(sin(x) * y); };
  const Lazy lazy;
  const Array x = random_array({3}, 1) * 2.0, y = random_array({3}, 2);  // lazy
  const Graph graph = trace(f, x, y);
  CHECK(is_lazy(x));
  CHECK(contains(to_text(graph), "sin"));
  CHECK(graph.inputs().size() == 2);
  const Graph gradient = grad(graph);
  const Array a = random_array({3}, 5), b = random_array({3}, 6);
  const std::vector<Array> replayed = call_graph(graph, {a, b}), derived = call_graph(gradient, {a, b});
  CHECK(is_lazy(replayed[0]));
  CHECK(replayed[0].item() == doctest::Approx(f(a, b).item()));
  CHECK(distance(derived[0], cos(a) * b) <= 1e-14);
  CHECK(distance(call_graph(graph, {x, y})[0], f(x, y)) <= 1e-14);
}

TEST_CASE("[N8] several results, and structured arguments and results") {
  const Array x = random_array({6, 2}, 1);
  const std::vector<Array> plain = split(x, 3);
  const auto [q, r] = linalg::qr(x);
  const Lazy lazy;
  const std::vector<Array> parts = split(x, 3);
  CHECK(is_lazy(parts[1]));
  const auto [lq, lr] = linalg::qr(x * 1.0);
  const Since since;
  eval(parts, std::pair(lq, lr));
  CHECK(since.evaluations() == 1);
  for (std::size_t i = 0; i < 3; ++i) CHECK(distance(parts[i], plain[i]) == 0.0);
  CHECK(distance(lq, q) <= 1e-14);
  CHECK(distance(lr, r) <= 1e-14);
  const auto f = compile([](const std::vector<Array>& v, const std::pair<Array, Array>& p) {
    return std::tuple(v[0] + p.first, std::vector<Array>{v[1] * p.second, v[0]});
  });
  const auto [sum_of, others] = f(parts, std::pair(parts[1], parts[2]));
  CHECK(is_lazy(sum_of));
  CHECK(distance(sum_of, plain[0] + plain[1]) == 0.0);
  CHECK(distance(others[0], plain[1] * plain[2]) == 0.0);
}

// Runs on the CPU, for any placement, and logs the placements.
class Placed final : public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    runs.push_back(call.placement.stream);
    return cpu().execute_forward(call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override {
    return cpu().run_transposed_linear(call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    return cpu().add_operands(call, std::move(a), b);
  }
  eager::Placement current_placement() const override { return {0, stream}; }
  mutable std::vector<std::uint64_t> runs;
  std::uint64_t stream = 0;
};

TEST_CASE("[N9] values keep their placement, and it is part of the key") {
  Placed placed;
  const ExecutorGuard guard(placed);
  const Array x = random_array({4}, 1);
  const Lazy lazy;
  const auto step = [&] { return sin(x) * 0.3; };
  Array a = step();
  placed.stream = 2;
  const Array b = a + 1.0;  // a value on another device is computed first, there
  CHECK_FALSE(is_lazy(a));
  CHECK(is_lazy(b));
  const Array c = step();
  placed.stream = 0;
  const Since since;
  (void)b.tensor();
  (void)c.tensor();
  CHECK(placed.runs == std::vector<std::uint64_t>{0, 2, 2});
  CHECK(since.misses() >= 2);
  // The program of one stream is not that of another.
  const auto misses_on = [&](std::uint64_t stream) {
    placed.stream = stream;
    const Since here;
    (void)(cos(x) * 0.7).tensor();
    return here.misses();
  };
  CHECK(misses_on(0) > 0);
  CHECK(misses_on(0) == 0);
  CHECK(misses_on(3) > 0);
  CHECK(misses_on(3) == 0);
  CHECK(misses_on(0) == 0);
  CHECK(distance(b, sin(x) * 0.3 + 1.0) <= 1e-15);
}

}  // namespace
}  // namespace tidu::test
