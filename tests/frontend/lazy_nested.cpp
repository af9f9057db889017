// lazy_nested.cpp - operations on Arrays in kernels and executors while operations and lazy programs are
// compiled and run; and lazy tensors when executors change and threads end.
#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <thread>

#include "frontend/context.hpp"
#include "support.hpp"

namespace tidu::test {
namespace {

// Called by the kernel of sin before it computes.
std::function<void()>& before_sin() {
  static std::function<void()> what;
  return what;
}

// An executor whose sin does that, and adds `more`.
CpuExecutor with_sin(double more) {
  return cpu().with_kernel("sin", [more](const KernelCall& call) {
    if (before_sin()) before_sin()();
    const double* x = call.input(0).data<double>();
    double* y = call.output().mutable_data<double>();
    for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = std::sin(x[i]) + more;
  });
}

struct BeforeSin {
  explicit BeforeSin(std::function<void()> what) { before_sin() = std::move(what); }
  BeforeSin(const BeforeSin&) = delete;
  BeforeSin& operator=(const BeforeSin&) = delete;
  ~BeforeSin() { before_sin() = nullptr; }
};

// Memory of the size of a thread's cache of operations, which comes after one that went.
class InPlaceOfCaches {
 public:
  void take() {
    for (int i = 0; i < 4; ++i) taken_.emplace_back(words, filled);
  }
  bool intact() const {
    return std::ranges::all_of(taken_, [](const auto& memory) {
      return std::ranges::all_of(memory, [](std::uint64_t word) { return word == filled; });
    });
  }

 private:
  static constexpr std::size_t words =
      sizeof(frontend_detail::CacheEntry) * frontend_detail::Context::cache_size / sizeof(std::uint64_t);
  static constexpr std::uint64_t filled = 0x5a5a5a5a5a5a5a5aULL;
  std::vector<std::vector<std::uint64_t>> taken_;
};

TEST_CASE("a kernel may choose executors and compute while an operation runs that is recorded") {
  const CpuExecutor nested = with_sin(0.0);
  const ExecutorGuard guard(nested);
  const Array x = leaf(array({0.1, 0.2}));
  for (int i = 0; i < 3; ++i) {  // made, and known
    InPlaceOfCaches memory;
    const BeforeSin inner([&memory] {
      {
        const ExecutorGuard standard(cpu());
        memory.take();
        (void)(exp(Array(1.0)) + 1.0);
      }
      // Fills the cache of the executor in force.
      for (std::int64_t n = 1; n < 1200; ++n) (void)(zeros({n}) * 2.0);
    });
    x.zero_grad();
    sum(sin(x)).backward();
    CHECK(distance(*x.grad(), cos(x.detach())) <= 1e-15);
    CHECK(memory.intact());
  }
}

TEST_CASE(
    "the computation of another thread's lazy tensor may choose executors while it is an operand of a "
    "recorded operation") {
  const CpuExecutor nested = with_sin(0.0);
  const Array x = array({0.1, 0.2}), w = leaf(array({3.0, 4.0}));
  Array y;
  std::latch recorded(1), taken_up(1);
  std::thread producer([&] {
    const ExecutorGuard guard(nested);
    const Lazy lazy;
    y = sin(x);
    recorded.count_down();
    taken_up.wait();
  });
  recorded.wait();
  CHECK(is_lazy(y));
  InPlaceOfCaches memory;
  {
    const BeforeSin inner([&] {
      const ExecutorGuard other(nested);
      memory.take();
    });
    sum(y * w).backward();
  }
  taken_up.count_down();
  producer.join();
  CHECK(distance(*w.grad(), sin(x)) <= 1e-15);
  CHECK(memory.intact());
}

TEST_CASE("a kernel may choose executors while an operation is compiled") {
  InPlaceOfCaches memory;
  int calls = 0;
  const CpuExecutor nested = cpu().with_kernel("eq", [&](const KernelCall& call) {
    ++calls;
    {
      const ExecutorGuard standard(cpu());
      memory.take();
    }
    const std::int64_t* a = call.input(0).data<std::int64_t>();
    const std::int64_t* b = call.input(1).data<std::int64_t>();
    bool* y = call.output().mutable_data<bool>();
    for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = a[i] == b[i];
  });
  const ExecutorGuard guard(nested);
  for (int i = 0; i < 2; ++i) CHECK(elements(eye(2)) == std::vector<double>{1, 0, 0, 1});
  CHECK(calls == 1);  // while it was compiled
  CHECK(memory.intact());
}

TEST_CASE("[N6] [G4] a kernel may open scopes and choose executors while a program runs") {
  const CpuExecutor nested = with_sin(0.0);
  const ExecutorGuard guard(nested);
  const Array x = random_array({5}, 1), other = random_array({3}, 2);
  int calls = 0;
  const BeforeSin inner([&] {
    ++calls;
    Array made, kept;
    {
      const ExecutorGuard standard(cpu());
      const Lazy lazy;
      const HotPaths hot;
      made = exp(other) + 1.0;
      kept = made * 2.0;
      CHECK(is_lazy(made));
    }
    CHECK(distance(kept, (exp(other) + 1.0) * 2.0) <= 1e-14);
  });
  Array y, z;
  {
    const Lazy lazy;
    y = sin(x) * 2.0;
    z = y + 1.0;
    CHECK(distance(z, y + 1.0) == 0.0);
    CHECK(calls == 1);
    CHECK(lazy_enabled());
    CHECK(is_lazy(x * 3.0));
  }
  // And while a batch of a hot sequence runs.
  const HotPaths hot;
  const HotStatistics seen = hot_statistics();
  double total = 0.0, expected = 0.0;
  for (int i = 0; i < 40; ++i) {
    total += sum(sin(x * 1.5) * 2.0).item();
    for (const double element : elements(x)) expected += std::sin(element * 1.5) * 2.0;
  }
  CHECK(total == doctest::Approx(expected));
  CHECK(hot_statistics().compiled > seen.compiled);
  CHECK(calls == 41);
}

TEST_CASE("[N5] a kernel may compute with Arrays while a constant is folded") {
  const CpuExecutor nested = with_sin(0.0);
  const ExecutorGuard guard(nested);
  const Array x = random_array({5}, 1);
  int calls = 0;
  const BeforeSin inner([&] {
    ++calls;
    const Lazy lazy;
    CHECK((Array(2.0) * 3.0).item() == 6.0);
  });
  GraphBuilder builder("with_constant");
  const Value v = builder.input("x", Type(f64, {5}));
  const Value constant = ops::sin(ops::full_like(v, 0.25));
  const Graph graph = builder.build({constant + v});
  for (int i = 0; i < 3; ++i) {
    Array y;
    {
      const Lazy lazy;
      y = call_graph(graph, {x})[0];
    }
    CHECK(distance(y, x + std::sin(0.25)) <= 1e-15);
  }
  CHECK(calls == 1);  // while it was compiled
}

TEST_CASE("[N5] a value that needs itself is refused") {
  const CpuExecutor nested = with_sin(0.0);
  const ExecutorGuard guard(nested);
  const Array x = random_array({5}, 1);
  Array y;
  {
    const BeforeSin inner([&] { (void)y.tensor(); });
    const Lazy lazy;
    y = sin(x);
    CHECK(contains(error_of([&] { (void)y.tensor(); }), "a value that does not need itself"));
    CHECK(is_lazy(y));
  }
  CHECK(distance(y, sin(x)) <= 1e-15);
}

TEST_CASE("[N5] [N9] failed operations are computed later by the executor that they were recorded for") {
  const CpuExecutor first = with_sin(0.0), second = with_sin(7.0);
  const Array x = random_array({5}, 1);
  const auto fail = [] { throw std::runtime_error("out of order"); };
  Array y, z, w;
  const std::uint64_t recorded = lazy_statistics().recorded;
  {
    const ExecutorGuard guard(first);
    const Lazy lazy;
    {
      const BeforeSin inner(fail);
      y = sin(x);
      const ExecutorGuard inside(second);
      z = cos(x);
      w = sin(x + 1.0);
      CHECK(is_lazy(y));
      CHECK(is_lazy(z));
      CHECK(contains(error_of([&] { (void)w.tensor(); }), "out of order"));
    }
    CHECK(lazy_statistics().recorded == recorded + 4);
  }
  CHECK(is_lazy(y));
  CHECK(is_lazy(w));
  CHECK_FALSE(is_lazy(z));
  const ExecutorGuard inside(second);
  CHECK(distance(y, sin(x) - 7.0) <= 1e-14);
  CHECK(distance(w, sin(x + 1.0)) == 0.0);
}

TEST_CASE("[N5] scopes may outlive their thread's context") {
  std::thread([] {
    // Made before the context, so destroyed after it.
    thread_local std::unique_ptr<Lazy> lazy;
    thread_local std::unique_ptr<HotPaths> hot;
    lazy = std::make_unique<Lazy>();
    hot = std::make_unique<HotPaths>();
    CHECK(is_lazy(Array(2.0) * 3.0));
  }).join();
  CHECK((Array(2.0) * 3.0).item() == 6.0);
}

TEST_CASE("a compiled function keeps a bounded number of traces, the latest used") {
  int traced = 0;
  const auto f = compile([&](const Array& x) {
    ++traced;
    return x + 1.0;
  });
  const Array often = zeros({2, 2});
  for (std::int64_t n = 0; n < 1500; ++n) {
    CHECK(f(zeros({n})).size() == n);
    (void)f(often);
  }
  CHECK(f.num_traced() <= 1024);
  CHECK(traced == 1501);
}

}  // namespace
}  // namespace tidu::test
