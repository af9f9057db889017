// captured_data.cpp - functions with custom rules, made in each step around new data: the data that caches
// keep is bounded in bytes, in each mode. Held bytes are those of the C library's allocator, if it reports
// them (not under sanitizers), and those that the caches count.
#include <malloc.h>

#include "support.hpp"

namespace tidu::test::captured_data_cases {
namespace {

constexpr std::int64_t elements = 1 << 17;
constexpr std::size_t data_bytes = elements * sizeof(double);  // 1 MiB
constexpr std::size_t limit = 8 * data_bytes;

class SmallCaches {
 public:
  SmallCaches() {
    compile_cache().clear();
    cached_graphs_ = eager::set_cached_graph_bytes_limit(limit);
    CacheLimits limits = compile_cache().limits();
    limits.bytes = limit;
    compiled_ = compile_cache().set_limits(limits);
  }
  SmallCaches(const SmallCaches&) = delete;
  SmallCaches& operator=(const SmallCaches&) = delete;
  ~SmallCaches() {
    eager::set_cached_graph_bytes_limit(cached_graphs_);
    compile_cache().set_limits(compiled_);
  }

 private:
  std::size_t cached_graphs_ = 0;
  CacheLimits compiled_;
};

// 0 if the allocator does not report them.
std::size_t allocated() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const auto told = mallinfo2();
  return told.uordblks + told.hblkhd;
#else
  return 0;
#endif
}

std::size_t counted() { return eager::cached_graph_statistics().bytes + compile_cache().statistics().bytes; }

// d/dw of sum w^2 * big by a rule that captures big, and another array of the like.
double step_vjp(const Array& w, int i) {
  const Array big = full({elements}, 1.0 + i), other = full({elements}, -1.0 - i);
  const auto f = custom_vjp([big](const Array& x) { return x * big; },
                            [big](const Array& x) { return std::pair(x * big, x); },
                            [other](const Array&, const Array& ct) { return ct * (-other); });
  w.zero_grad();
  sum(f(w)).backward();
  return (*w.grad())[0].item() - (1.0 + i);
}
double step_jvp(const Array& w, int i) {
  const Array big = full({elements}, 1.0 + i);
  const auto f = custom_jvp([big](const Array& x) { return x * big; },
                            [big](const Array& x, const Array& t) { return std::pair(x * big, t * big); });
  return grad([&](const Array& x) { return sum(f(x)); })(w)[0].item() - (1.0 + i);
}
double step_second(const Array& w, int i) {
  const Array big = full({elements}, 1.0 + i);
  const auto f =
      custom_jvp([big](const Array& x) { return x * x * big; },
                 [big](const Array& x, const Array& t) { return std::pair(x * x * big, 2 * x * t * big); });
  const auto gradient = grad([&](const Array& x) { return sum(f(x)); });
  return grad([&](const Array& x) { return sum(gradient(x)); })(w)[0].item() - 2 * (1.0 + i);
}
double step_called(const Array& w, int i) {
  GraphBuilder builder("data");
  const Value x = builder.input("x", {f64, {elements}});
  const std::vector<double> numbers(elements, 1.0 + i);
  const Graph graph =
      builder.build({x * ops::constant(builder, Literal::of<double>({f64, {elements}}, numbers))});
  w.zero_grad();
  sum(call_graph(graph, {w})[0]).backward();
  return (*w.grad())[0].item() - (1.0 + i);
}

using Step = double (*)(const Array&, int);

void check_flat(Step step) {
  const SmallCaches caches;
  const std::size_t others = counted();  // in use by earlier tests
  Array w = full({elements}, 0.5).copy();
  w.set_requires_grad();
  const int steps = static_cast<int>(scaled(60));
  std::size_t held = 0;
  for (int i = 0; i < steps; ++i) {
    CHECK(step(w, i) == 0.0);
    // The result of a step is in use until the next one replaces it.
    CHECK(counted() <= others + 2 * limit + 16 * data_bytes);
    if (i == steps / 2) held = allocated();
  }
  if (held != 0) CHECK(allocated() <= held + limit / 2);
  const std::size_t before = allocated();
  compile_cache().clear();
  CHECK(counted() <= others + 2 * data_bytes);
  if (held != 0) CHECK(allocated() + 2 * data_bytes <= before);
}

TEST_CASE("data that rules capture at each step is kept up to a number of bytes") {
  for (const Step step : {step_vjp, step_jvp, step_second, step_called}) check_flat(step);
}

TEST_CASE("the same lazily and on hot paths") {
  SUBCASE("lazily") {
    const Lazy lazy;
    for (const Step step : {step_vjp, step_jvp, step_called}) check_flat(step);
  }
  SUBCASE("on hot paths") {
    const HotPaths hot;
    for (const Step step : {step_vjp, step_jvp, step_called}) check_flat(step);
  }
}

TEST_CASE("the compile cache counts the data of lazy programs") {
  const SmallCaches caches;
  const Lazy lazy;
  for (int i = 0; i < 40; ++i) {
    const Array big = full({elements}, 2.0 + i);
    const auto f = custom_jvp([big](const Array& x) { return x * big; },
                              [big](const Array& x, const Array& t) { return std::pair(x * big, t * big); });
    CHECK(f(full({elements}, 1.0))[0].item() == 2.0 + i);
  }
  // Each entry with data is of one step and holds a MiB.
  CHECK(compile_cache().statistics().bytes <= limit);
  CHECK(compile_cache().statistics().entries <= 24);
}

TEST_CASE("a step that comes again is derived and compiled once") {
  Array w = full({elements}, 0.5).copy();
  w.set_requires_grad();
  CHECK(step_vjp(w, 7) == 0.0);
  const eager::CachedGraphStatistics before = eager::cached_graph_statistics();
  const CacheStatistics compiled = compile_cache().statistics();
  for (int i = 0; i < 5; ++i) CHECK(step_vjp(w, 7) == 0.0);
  CHECK(eager::cached_graph_statistics().linearizations == before.linearizations);
  CHECK(compile_cache().statistics().misses == compiled.misses);
  CHECK(eager::cached_graph_statistics().bytes == before.bytes);
}

}  // namespace
}  // namespace tidu::test::captured_data_cases
