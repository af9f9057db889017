// Row fusions with a transpose as epilogue, as one step: which are one, and that they have the bits of
// operations one by one, on any number of threads.
#include <doctest/doctest.h>

#include <cstring>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

CpuExecutor turning(int threads, bool fuse = true, bool check_indices = false) {
  CpuOptions options;
  options.threads = threads;
  options.check_indices = check_indices;
  options.program.fuse = fuse;
  options.program.simplify = false;
  options.program.block = false;
  return CpuExecutor(options);
}

std::vector<Tensor> inputs_of_transposed(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {0, 8}, random));
  return inputs;
}

// Against operations one by one; `instructions`: how many steps there are, or 0 where it does not matter.
void check_transposed(const Graph& graph, std::mt19937_64& random, std::size_t instructions) {
  INFO(to_text(graph));
  const std::vector<Tensor> inputs = inputs_of_transposed(graph, random);
  const std::vector<Tensor> expected = turning(1, false).compile(graph).run(inputs);
  for (const int threads : {1, 2, 3}) {
    const Executable executable = turning(threads).compile(graph);
    if (instructions != 0) CHECK(executable.num_instructions() == instructions);
    const std::vector<Tensor> got = executable.run(inputs);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(std::memcmp(got[i].bytes(), expected[i].bytes(), got[i].num_bytes()) == 0);
  }
}
bool has_generated_code() {
  GraphBuilder g("code");
  const Value x = g.input("x", Type(f64, {100, 100}));
  const Value r = ops::broadcast_in_dim(g.input("r", Type(f64, {100})), {100, 100}, {1});
  return turning(1).compile(g.build({ops::exp(x + r) * x})).num_instructions() == 1;
}

// One row is added to a value stored as `shape`, whose `axes` from the last one on are a row.
Graph transposed_sum(DType dtype, const Shape& shape, std::size_t axes, const Ints& permutation) {
  GraphBuilder g("transposed");
  Ints placed;
  Shape row;
  for (std::size_t k = shape.size() - axes; k < shape.size(); ++k) {
    placed.push_back(static_cast<std::int64_t>(k));
    row.push_back(shape[k]);
  }
  const Value x = g.input("x", Type(dtype, shape)), r = g.input("r", Type(dtype, row));
  return g.build({ops::transpose(-(x + ops::broadcast_in_dim(r, shape, placed)), permutation)});
}

}  // namespace

TEST_CASE("[transpose epilogues] a transpose of a row fusion's result is one step with it") {
  if (units().empty()) return;
  std::mt19937_64 random(31);
  const std::size_t one = has_generated_code() ? 1 : 0;
  for (const DType dtype : {f64, f32}) {
    // Pieces that are whole, that are not all as long, of rows of several axes, within outer axes.
    check_transposed(transposed_sum(dtype, {800, 13, 3}, 2, {1, 0, 2}), random, one);
    check_transposed(transposed_sum(dtype, {801, 13, 3}, 2, {2, 0, 1}), random, one);
    check_transposed(transposed_sum(dtype, {1803, 4, 5}, 2, {1, 2, 0}), random, one);
    check_transposed(transposed_sum(dtype, {1600, 17}, 1, {1, 0}), random, one);
    check_transposed(transposed_sum(dtype, {5, 40, 7, 65}, 1, {0, 2, 1, 3}), random, one);
    check_transposed(transposed_sum(dtype, {3, 500, 17}, 1, {0, 2, 1}), random, one);
    check_transposed(transposed_sum(dtype, {5, 40, 7, 36}, 2, {1, 0, 2, 3}), random, one);
    check_transposed(transposed_sum(dtype, {1, 3, 1, 250, 2, 71}, 1, {3, 0, 4, 1, 2, 5}), random, one);
    // Beyond the caches; and where only short stretches would lie side by side, which stay two steps.
    check_transposed(transposed_sum(dtype, {4197, 250}, 1, {1, 0}), random, dtype == f64 ? one : 0);
    check_transposed(transposed_sum(dtype, {5, 40, 7, 33}, 1, {2, 0, 3, 1}), random, 2 * one);
    check_transposed(transposed_sum(dtype, {20, 1500}, 1, {1, 0}), random, 0);
    check_transposed(transposed_sum(dtype, {40, 64, 32}, 2, {0, 2, 1}), random, 2 * one);
    check_transposed(transposed_sum(dtype, {3, 6000}, 1, {1, 0}), random, 0);
  }
}

TEST_CASE("[transpose epilogues] rows that indices name, weights of rows and their folds, transposed") {
  if (units().empty()) return;
  std::mt19937_64 random(32);
  const std::size_t one = has_generated_code() ? 1 : 0;
  for (const int form : {0, 1, 2, 3}) {
    const Shape shape = form == 1 || form == 2 ? Shape{1700, 4, 5} : Shape{700, 5, 35};
    GraphBuilder g("picked");
    const Value x = g.input("x", Type(f64, {9, shape[1], shape[2]})), i = g.input("i", Type(i32, {shape[0]}));
    const Value w = ops::broadcast_in_dim(g.input("w", Type(f64, {shape[0]})), shape, {0});
    const Value rows = ops::take(x, i, 0) * w;
    const Value sums = ops::reduce_sum(rows, {1, 2});
    const Value shares = rows / ops::broadcast_in_dim(sums, shape, {0});
    switch (form) {
      case 0: check_transposed(g.build({ops::transpose(rows, {1, 0, 2})}), random, one); break;
      // Other results of the fusion keep their layout.
      case 1:
        check_transposed(g.build({ops::transpose(rows, {2, 1, 0}), ops::sin(rows)}), random, one);
        break;
      // Reductions of rows, and of all of them: those are added up over more rows than a piece has.
      case 2: check_transposed(g.build({ops::transpose(shares, {1, 2, 0}), sums}), random, one); break;
      default:
        check_transposed(g.build({ops::transpose(shares, {1, 0, 2}), ops::reduce_sum(shares, {0})}), random,
                         0);
    }
  }
  GraphBuilder g("checked");
  const Value x = g.input("x", Type(f64, {9, 40})), i = g.input("i", Type(i32, {700}));
  const Graph graph = g.build({ops::transpose(-(ops::take(x, i, 0) * ops::take(x, i, 0)), {1, 0})});
  const std::vector<Tensor> inputs = inputs_of_transposed(graph, random);
  CHECK(turning(1, true, true).compile(graph).run(inputs)[0].num_bytes() == 700 * 40 * 8);
}

TEST_CASE(
    "[transpose epilogues] a value that is not computed row by row, each of all columns, is transposed "
    "separately") {
  std::mt19937_64 random(34);
  const std::size_t one = has_generated_code() ? 1 : 0;
  // A reduction that is transposed is no transpose of rows.
  GraphBuilder folded("folded");
  const Value x = folded.input("x", Type(f64, {512, 32, 16})), sums = ops::reduce_sum(ops::exp(x), {2});
  check_transposed(folded.build({ops::transpose(sums, {1, 0})}), random, 2 * one);
  // Rows of which several have their own elements in the common addend.
  GraphBuilder periods("periods");
  const Shape shape{300, 32, 16};
  const Value y = periods.input("y", Type(f64, shape)), w = periods.input("w", Type(f64, {32, 16}));
  const Value moved = y - ops::broadcast_in_dim(w, shape, {1, 2});
  const Value all = ops::broadcast_in_dim(ops::reduce_sum(ops::square(moved), {2}), shape, {0, 1});
  check_transposed(periods.build({ops::transpose(moved * all, {0, 2, 1})}), random, 2 * one);
}

TEST_CASE(
    "[transpose epilogues] values with other readers, or transposed twice, are no one step with their "
    "transpose") {
  if (units().empty()) return;
  std::mt19937_64 random(33);
  const auto check = [&](const auto& results, std::size_t instructions) {
    GraphBuilder g("apart");
    const Value x = g.input("x", Type(f64, {600, 20})), r = g.input("r", Type(f64, {20}));
    const Value sum = -(x + ops::broadcast_in_dim(r, {600, 20}, {1}));
    check_transposed(g.build(results(sum)), random, instructions);
  };
  using Values = std::vector<Value>;
  const std::size_t two = has_generated_code() ? 2 : 0;
  check([](Value sum) { return Values{sum, ops::transpose(sum, {1, 0})}; }, two);
  check(
      [](Value sum) {
        return Values{ops::transpose(sum, {1, 0}),
                      ops::transpose(ops::reshape(sum, {20, 30, 20}), {1, 0, 2})};
      },
      two + (two == 0 ? 0 : 1));
  // In the program's plan its buffer may be that of an operand that the fusion still reads.
  GraphBuilder ends("ends");
  const Value moved = ops::rev(ends.input("x", Type(f64, {800, 32})), {0});
  const Value row = ops::broadcast_in_dim(ends.input("r", Type(f64, {32})), {800, 32}, {1});
  check_transposed(ends.build({ops::rev(ops::transpose(-(moved + row), {1, 0}), {0})}), random,
                   two == 0 ? 0 : 3);
  for (int round = 0; round < 4; ++round) {
    GraphBuilder g("chain");
    Value x = g.input("x", Type(f64, {152, 152}));
    const Value r = ops::broadcast_in_dim(g.input("r", Type(f64, {152})), {152, 152}, {1});
    for (int i = 0; i <= round; ++i) x = ops::transpose(-(ops::transpose(x * r, {1, 0}) + r), {1, 0});
    check_transposed(g.build({x + r}), random, 0);
  }
}
