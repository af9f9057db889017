// Transposes, slices and concatenates that copy from where their operands were copied from: heads of
// attention, and random graphs of such operations, against the reference, with and without.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

CpuOptions moving(bool fuse, int threads) {
  CpuOptions options;
  options.threads = threads;
  options.program.fuse = fuse;
  options.program.simplify = false;
  return options;
}

bool same_elements(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
    return x.type() == y.type() && std::memcmp(x.bytes(), y.bytes(), x.num_bytes()) == 0;
  });
}

// Without a fusion operations run unchanged.
Value in_fusion(GraphBuilder& g) {
  const Value side = g.input("side", Type(f64, {64}));
  return ops::neg(ops::mul(side, side));
}

// Returns how many steps were spared.
std::size_t check_copies(const Graph& graph, std::mt19937_64& random, const std::string& what) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  const auto expected = reference().run(graph, std::span<const Tensor>(inputs));
  const Executable alone = cpu().with_options(moving(false, 1)).compile(graph);
  CHECK(same_elements(alone.run(inputs), expected));
  std::size_t steps = 0;
  for (const int threads : {1, 2}) {
    const Executable executable = cpu().with_options(moving(true, threads)).compile(graph);
    CHECK_MESSAGE(same_elements(executable.run(inputs), expected), what, "\n", to_text(executable.program()));
    CHECK(executable.peak_bytes() <= alone.peak_bytes() + 4096);
    steps = executable.num_instructions();
  }
  return alone.num_instructions() - 1 - steps;  // the fusion is one for two
}

template <class T>
T pick_one(const std::vector<T>& from, std::mt19937_64& random) {
  return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random)];
}

Value random_layout(const std::vector<Value>& values, std::mt19937_64& random) {
  const Value x = pick_one(values, random);
  const std::size_t rank = x.shape().size();
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  switch (up_to(2)) {
    case 0: {
      Ints permutation(rank);
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end() - up_to(1), random);
      return ops::transpose(x, permutation);
    }
    case 1: {
      Ints starts, limits, steps;
      for (std::size_t k = 0; k < rank; ++k) {
        const std::int64_t extent = x.shape()[k];
        const bool whole = up_to(1) == 0;
        starts.push_back(whole ? 0 : up_to(extent - 1));
        limits.push_back(whole ? extent : starts.back() + 1 + up_to(extent - 1 - starts.back()));
        steps.push_back(up_to(3) == 0 ? 2 : 1);
      }
      return ops::slice(x, starts, limits, steps);
    }
    default: {
      const auto axis = static_cast<std::size_t>(up_to(static_cast<std::int64_t>(rank) - 1));
      std::vector<Value> parts = {x};
      for (const Value& y : values) {
        bool fits = parts.size() < 4;
        for (std::size_t k = 0; k < rank; ++k) fits = fits && (k == axis || y.shape()[k] == x.shape()[k]);
        if (fits) parts.push_back(y);
      }
      return ops::concatenate(parts, static_cast<std::int64_t>(axis));
    }
  }
}

}  // namespace

TEST_CASE("[copy elision] heads are copied from where they lie, and to where they belong") {
  std::mt19937_64 random(1);
  for (const DType dtype : {bool_, i32, i64, f16, f32, f64, c64, c128}) {
    GraphBuilder g("heads");
    const Value x = g.input("x", Type(dtype, {2, 16, 192}));
    const Value heads = ops::transpose(ops::reshape(x, {2, 16, 3, 8, 8}), {2, 0, 3, 1, 4});
    std::vector<Value> results = {in_fusion(g)}, parts;
    for (std::int64_t k = 0; k < 3; ++k) {
      results.push_back(ops::slice(heads, {k, 0, 0, 0, 0}, {k + 1, 2, 8, 16, 8}, {}));
      parts.push_back(g.input(detail::str("part", k), Type(dtype, {1, 2, 8, 16, 8})));
    }
    results.push_back(ops::transpose(ops::concatenate(parts, 0), {1, 3, 0, 2, 4}));
    // Lines are of 8 elements; those of 8 bytes are copied as they were.
    const std::size_t spared = dtype == bool_ ? 0 : 2;
    CHECK(check_copies(g.build(results), random, detail::str(dtype)) == spared);
  }
}

TEST_CASE(
    "[copy elision] outputs, and values that are read by other operations or more than once, stay in "
    "memory") {
  std::mt19937_64 random(2);
  enum { alone, output, added, twice, reshaped, transposed };
  for (const auto way : {alone, output, added, twice, reshaped, transposed}) {
    GraphBuilder g("stays");
    const Value x = g.input("x", Type(f64, {12, 5, 16}));
    const Value moved = ops::transpose(x, {1, 0, 2});
    std::vector<Value> results = {in_fusion(g), ops::slice(moved, {1, 2, 3}, {4, 12, 16}, {})};
    if (way == output) results.push_back(moved);
    if (way == added) results.push_back(ops::neg(moved));
    if (way == twice) results.push_back(ops::slice(moved, {0, 0, 0}, {5, 12, 15}, {}));
    if (way == reshaped) results.push_back(ops::slice(ops::reshape(moved, {60, 16}), {3, 0}, {9, 16}, {}));
    if (way == transposed) results[1] = ops::transpose(moved, {2, 0, 1});
    CHECK(check_copies(g.build(results), random, detail::str(int{way})) == (way == alone ? 1 : 0));
  }
}

TEST_CASE("[copy elision] slices in steps begin where they do") {
  std::mt19937_64 random(6);
  GraphBuilder g("steps");
  const Value x = g.input("x", Type(f64, {9, 12, 16}));
  const Value some = ops::slice(x, {1, 2, 3}, {9, 12, 16}, {2, 3, 1});
  const Graph graph = g.build({in_fusion(g), ops::transpose(some, {1, 0, 2})});
  CHECK(check_copies(graph, random, "steps") == 1);
}

TEST_CASE("[copy elision] axes that go on where the last one ends make lines longer") {
  std::mt19937_64 random(7);
  for (const std::int64_t pairs : {1, 2, 16}) {
    GraphBuilder g("pairs");
    const Value x = g.input("x", Type(f32, {7, 9, pairs, 2}));
    const Value moved = ops::transpose(x, {1, 0, 2, 3});
    const Graph graph = g.build({in_fusion(g), ops::slice(moved, {2, 0, 0, 0}, {9, 7, pairs, 2}, {})});
    CHECK(check_copies(graph, random, detail::str(pairs)) == (pairs == 1 ? 0 : 1));
  }
}

TEST_CASE("[copy elision] the operand of a copy stays in its buffer until then") {
  std::mt19937_64 random(4);
  GraphBuilder g("lives");
  const Type type(f64, {12, 5, 16});
  std::vector<Value> results = {in_fusion(g)};
  Value x = g.input("x", type), w = g.input("w", Type(f64, {12, 80}));
  std::vector<Value> moved;
  for (int k = 0; k < 4; ++k) {
    x = ops::rev(x, {0});
    moved.push_back(ops::transpose(x, {1, 0, 2}));
    // A value with a separate buffer in between.
    x = ops::rev(ops::rev(x, {1}), {2});
  }
  for (const Value& each : moved) {
    w = ops::rev(w, {1});
    results.push_back(ops::slice(each, {1, 2, 3}, {4, 12, 16}, {}));
  }
  results.push_back(w);
  CHECK(check_copies(g.build(results), random, "lives") == moved.size());
}

TEST_CASE("[copy elision] random layout operations of layout operations give the reference's elements") {
  std::mt19937_64 random(3);
  std::size_t spared = 0;
  for (std::size_t i = 0; i < scaled(300); ++i) {
    GraphBuilder g("random");
    const DType dtype = pick_one(std::vector<DType>{bool_, i32, f32, f64, c128}, random);
    const std::size_t rank = pick_one(std::vector<std::size_t>{1, 2, 3, 4}, random);
    Shape shape;
    for (std::size_t k = 0; k < rank; ++k)
      shape.push_back(pick_one(std::vector<std::int64_t>{1, 2, 3, 4, 8, 17}, random));
    std::vector<Value> values = {g.input("x", Type(dtype, shape)), g.input("y", Type(dtype, shape))};
    const std::size_t steps = pick_one(std::vector<std::size_t>{3, 6, 10}, random);
    std::vector<Value> results = {in_fusion(g)};
    for (std::size_t k = 0; k < steps; ++k) {
      // Of the last values most often, so that chains are made.
      const std::size_t some = std::min<std::size_t>(values.size(), 3);
      const std::vector<Value> from =
          k % 3 == 0 ? values
                     : std::vector<Value>(values.end() - static_cast<std::ptrdiff_t>(some), values.end());
      const Value made = random_layout(from, random);
      std::int64_t size = 1;
      for (std::size_t axis = 0; axis < made.shape().size(); ++axis) size *= made.shape()[axis];
      if (size > 20000) break;
      values.push_back(made);
      if (k % 4 == 3) results.push_back(made);
    }
    results.push_back(values.back());
    spared += check_copies(g.build(results), random, detail::str("number ", i));
  }
  CHECK(spared > scaled(300) / 10);
}
