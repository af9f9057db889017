// Updates in place of some elements of arrays: which buffers they use, in outputs, filled or copied, with
// other readers at any time.
#include <functional>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"
#include "tidu/cpu/schedule_passes.hpp"

using namespace tidu;
using namespace tidu::test;

namespace scattered_cases {

struct Scene {
  GraphBuilder& builder;
  Value x, indices, rows, along, updates;  // updates of `along`, and of x by `indices` as `rows`
  Value at;                                // where a slice begins

  Value zeros() const { return ops::full_like(x, 0.0); }
  Value made() const { return ops::add(x, ops::mul(x, x)); }
  Value add_rows(Value to) const { return ops::scatter_add(to, indices, rows, 0); }
  Value add_along(Value to) const { return ops::scatter_add_along_axis(to, along, updates, 1); }
  Value set(Value to) const {
    const Value window = ops::slice(rows, {0, 0}, {1, x.shape()[1]});
    const Value starts[] = {at, ops::full_like(at, 0.0)};
    return ops::dynamic_update_slice(to, window, starts);
  }
};
using Case = std::function<Values(const Scene&)>;

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      [](const Scene& s) { return Values{s.add_rows(s.zeros())}; },
      [](const Scene& s) { return Values{s.add_along(s.made())}; },
      [](const Scene& s) { return Values{s.set(s.made())}; },
      [](const Scene& s) { return Values{s.set(s.zeros())}; },
      // the array is an input, read later, an output, or all of them
      [](const Scene& s) { return Values{s.add_rows(s.x)}; },
      [](const Scene& s) {
        const Value made = s.made(), changed = s.add_rows(made);
        return Values{ops::mul(changed, made), changed};
      },
      [](const Scene& s) {
        const Value made = s.made();
        return Values{s.add_rows(made), made};
      },
      [](const Scene& s) {
        const Value made = s.made(), sum = ops::reduce_sum(made, {0});
        return Values{s.add_along(made), sum};
      },
      // two of the same zeros, one read elsewhere
      [](const Scene& s) {
        return Values{s.add_rows(s.zeros()), s.add_along(s.zeros())};
      },
      [](const Scene& s) {
        return Values{s.add_rows(s.zeros()), s.set(s.zeros()), s.zeros()};
      },
      [](const Scene& s) { return Values{ops::mul(s.add_rows(s.zeros()), ops::sort(s.zeros(), 0))}; },
      // one after another, and the same output twice
      [](const Scene& s) { return Values{s.add_along(s.set(s.add_rows(s.made())))}; },
      [](const Scene& s) {
        const Value changed = s.add_along(s.add_rows(s.zeros()));
        return Values{changed, ops::mul(changed, s.x), changed};
      },
      [](const Scene& s) {
        const Value first = s.add_rows(s.made()), second = s.add_along(first);
        return Values{ops::sub(first, second)};
      },
      // the updated value is read under another shape, before and after
      [](const Scene& s) {
        const Value made = s.made(), flat = ops::reshape(made, {made.type().size()});
        return Values{s.add_along(made), ops::rev(flat, {0})};
      },
      [](const Scene& s) {
        const Value flat = ops::reshape(s.made(), {s.x.type().size()});
        return Values{s.add_along(ops::reshape(ops::rev(flat, {0}), s.x.shape()))};
      },
      [](const Scene& s) {
        const Value changed = s.add_along(s.made());
        return Values{ops::reshape(changed, {changed.type().size()}), ops::transpose(changed, {1, 0})};
      },
      // it is its own update
      [](const Scene& s) {
        const Value made = s.made();
        const Value order = ops::iota(s.builder, Type(i32, {s.x.shape()[0]}), 0);
        return Values{ops::scatter_add(made, order, made, 0)};
      },
      // sums with a scatter
      [](const Scene& s) { return Values{ops::sub(s.made(), s.add_along(s.zeros()))}; },
      [](const Scene& s) {
        return Values{ops::add(s.add_along(s.zeros()), s.made()), s.add_rows(s.zeros())};
      },
      [](const Scene& s) {
        return Values{ops::sub(s.add_along(s.zeros()), s.x), ops::reduce_sum(s.add_along(s.zeros()), {1})};
      },
  };
  return all;
}

Graph graph_of(const Case& each, DType dtype, std::int64_t m, std::int64_t n) {
  GraphBuilder builder("scattered");
  const Value x = builder.input("x", {dtype, {m, n}}), indices = builder.input("indices", {i32, {3}}),
              rows = builder.input("rows", {dtype, {3, n}}), along = builder.input("along", {i64, {m, 1}}),
              updates = builder.input("updates", {dtype, {m, 1}}), at = builder.input("at", {i32, {}});
  const Values outputs = each({builder, x, indices, rows, along, updates, at});
  return builder.build(std::span<const Value>(outputs.data(), outputs.size()));
}

std::vector<Tensor> inputs_of(const Graph& graph, std::int64_t m, std::int64_t n, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Type type = graph.type(graph.inputs()[i]);
    const double most = static_cast<double>((graph.label(graph.inputs()[i]) == "along" ? n : m) - 1);
    const bool index = i == 1 || i == 3 || i == 5;
    inputs.push_back(random_tensor(type, index ? Domain{0, most} : Domain{}, random));
  }
  return inputs;
}

TEST_CASE("arrays are changed where they are, whatever is read beside") {
  std::mt19937_64 random(35);
  for (const bool block : {false, true}) {
    for (const int threads : {1, 2}) {
      CpuOptions options;
      options.threads = threads;
      if (block) options.program.loop_bytes = 0;
      const CpuExecutor executor(options);
      for (const auto& [m, n] : {std::pair{1, 1}, {1, 2}, {3, 4}, {4, 9}, {40, 50}, {300, 64}}) {
        for (const DType dtype : {f32, f64, f16, bf16, i32, i64, c64}) {
          if (dtype != f32 && block) continue;
          for (std::size_t i = 0; i < cases().size(); ++i) {
            const Graph graph = graph_of(cases()[i], dtype, m, n);
            INFO(to_text(executor.compile(graph).program()), threads);
            for (const std::string& text : differences(graph, inputs_of(graph, m, n, random), executor))
              CHECK_MESSAGE(false, text);
          }
        }
      }
    }
  }
  finish_checks();
}

#ifndef TIDU_TEST_EMULATED
TEST_CASE("an array that is changed takes no memory beside the result") {
  if (units().empty()) return;
  constexpr std::int64_t m = 1000, n = 100;
  const auto peak = [](std::size_t i) {
    const Graph graph = graph_of(cases()[i], f32, m, n);
    return CpuExecutor({.threads = 1}).compile(graph).peak_bytes();
  };
  constexpr std::size_t bytes = m * n * 4, little = 24576;  // blocks end with pages
  CHECK(peak(0) < bytes + little);
  CHECK(peak(1) < bytes + little);
  CHECK(peak(2) < bytes + little);
  CHECK(peak(8) < 2 * bytes + little);
  CHECK(peak(11) < bytes + little);
  CHECK(peak(18) < bytes + little);
  CHECK(peak(6) < 2 * bytes + little);
}
#endif

}  // namespace scattered_cases
