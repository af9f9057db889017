// Matmuls that read heads of attention without copies and write results where a transpose would put them,
// compared with the reference: with the program's values as outputs in many ways, and signs of zeros.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "cpu/compare.hpp"
#include "cpu/gemm_calls.hpp"
#include "cpu/vector_units.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

CpuOptions placing(bool fuse, int threads) {
  CpuOptions options;
  options.threads = threads;
  options.program.fuse = fuse;
  options.program.simplify = options.program.block = false;
  return options;
}

struct AttentionSizes {
  std::int64_t members, length, heads, width;
};

// Without a fusion operations run unchanged.
Value beside_fusion(GraphBuilder& g) {
  const Value side = g.input("side", Type(f64, {64}));
  return ops::neg(ops::mul(side, side));
}

// Small integers, of which sums are exact.
Value from_whole_numbers(GraphBuilder& g, const char* name, DType dtype, const Shape& shape) {
  return ops::convert_element_type(g.input(name, Type(i32, shape)), dtype);
}

// Attention and the operations of its gradient; `outputs` has a bit for each output.
Graph attention(DType dtype, const AttentionSizes& s, std::uint32_t outputs) {
  const auto [b, l, h, d] = s;
  GraphBuilder g("attention");
  std::vector<Value> results = {beside_fusion(g)};
  const Value x = from_whole_numbers(g, "x", dtype, {b, l, 3 * h * d}),
              y = from_whole_numbers(g, "y", dtype, {b, l, h * d});
  const Value parts = ops::transpose(ops::reshape(x, {b, l, 3, h, d}), {2, 0, 3, 1, 4});
  std::vector<Value> heads;
  for (std::int64_t k = 0; k < 3; ++k)
    heads.push_back(ops::reshape(ops::slice(parts, {k, 0, 0, 0, 0}, {k + 1, b, h, l, d}, {}), {b, h, l, d}));
  const Value scores = ops::dot_general(heads[0], heads[1], {{3}, {3}, {0, 1}, {0, 1}});
  const Value mixed = ops::dot_general(scores, heads[2], {{3}, {2}, {0, 1}, {0, 1}});
  const Value transposed = ops::transpose(mixed, {0, 2, 1, 3});
  results.push_back(ops::reshape(transposed, {b, l, h * d}));
  const Value back = ops::transpose(ops::reshape(y, {b, l, h, d}), {0, 2, 1, 3});
  std::vector<Value> gradients = {ops::dot_general(scores, back, {{2}, {2}, {0, 1}, {0, 1}})};
  const Value of_scores = ops::dot_general(back, heads[2], {{3}, {3}, {0, 1}, {0, 1}});
  gradients.push_back(ops::dot_general(of_scores, heads[0], {{2}, {2}, {0, 1}, {0, 1}}));
  gradients.push_back(ops::dot_general(of_scores, heads[1], {{3}, {2}, {0, 1}, {0, 1}}));
  std::vector<Value> padded;
  for (const Value& gradient : gradients) {
    const Value one = ops::reshape(gradient, {1, b, h, l, d});
    padded.push_back((outputs & 256U) != 0 ? one : ops::add(one, ops::full_like(one, 0)));
  }
  const Value all = ops::concatenate(padded, 0);
  results.push_back(ops::transpose(all, {1, 3, 0, 2, 4}));
  const std::vector<Value> others = {parts, heads[0], heads[2], scores, mixed, back, padded[1], all};
  for (std::size_t i = 0; i < others.size(); ++i) {
    if ((outputs >> i & 1U) != 0) results.push_back(others[i]);
  }
  return g.build(results);
}

std::vector<Tensor> inputs_of_attention(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  return inputs;
}

bool equal_as_numbers(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
    bool equal = x.type() == y.type();
    if (equal && x.size() > 0 && std::memcmp(x.bytes(), y.bytes(), x.num_bytes()) == 0) return true;
    for (std::int64_t i = 0; equal && i < x.size(); ++i) equal = x.at(i) == y.at(i);
    return equal;
  });
}

constexpr std::size_t unchecked = ~std::size_t{0};

// Returns how many steps were spared. `more`: bytes that may live on where something else reads heads too.
std::size_t check_places(const Graph& graph, std::mt19937_64& random, std::size_t more = 0) {
  const std::vector<Tensor> inputs = inputs_of_attention(graph, random);
  const auto expected = reference().run(graph, std::span<const Tensor>(inputs));
  const Executable alone = cpu().with_options(placing(false, 1)).compile(graph);
  CHECK(equal_as_numbers(alone.run(inputs), expected));
  std::size_t steps = 0;
  for (const int threads : {1, 2}) {
    const Executable executable = cpu().with_options(placing(true, threads)).compile(graph);
    CHECK_MESSAGE(equal_as_numbers(executable.run(inputs), expected), to_text(executable.program()));
    if (more != unchecked) CHECK(executable.peak_bytes() <= alone.peak_bytes() + 4096 + more);
    steps = executable.num_instructions();
  }
  return alone.num_instructions() - steps;
}

}  // namespace

TEST_CASE("matmuls read heads where they lie, and write them where they belong") {
  std::mt19937_64 random(1);
  // The parts, three slices, three transposes, three sums, the concatenate and one of a fusion's operations.
  for (const DType dtype : {f32, f64}) CHECK(check_places(attention(dtype, {2, 16, 8, 8}, 0), random) == 12);
  CHECK(check_places(attention(f32, {2, 16, 8, 8}, 256), random) == 9);
  CHECK(check_places(attention(f32, {1, 12, 3, 16}, 0), random) >= 9);
  CHECK(check_places(attention(f32, {5, 7, 1, 32}, 0), random) >= 9);
}

TEST_CASE("heads of many places are read and written likewise, where that takes little more memory in all") {
  std::mt19937_64 random(3);
  // Of 1 MiB and more. With several threads matmuls of that size take their own memory.
  const AttentionSizes sizes{2, 128, 8, 32};
  CHECK(check_places(attention(f64, sizes, 0), random, unchecked) >= 12);
  if (!shortened()) {
    CHECK(check_places(attention(f32, sizes, 0), random, unchecked) >= 12);
    CHECK(check_places(attention(f32, {1, 300, 3, 64}, 0), random, unchecked) >= 12);
    check_places(attention(f32, sizes, 0b10011010), random, unchecked);
  }
  for (const std::uint32_t outputs : {0U, 1U, 2U, 8U, 32U, 128U, 255U}) {
    CAPTURE(outputs);
    const Graph graph = attention(f64, sizes, outputs);
    const CpuOptions options = placing(true, 1);
    CHECK(cpu().with_options(options).compile(graph).program().workspace_bytes() <=
          Program::make(graph, options.program).workspace_bytes() + (std::size_t{1} << 19U));
  }
}

TEST_CASE("results are not in their places early where much more memory lived on for that") {
  std::mt19937_64 random(4);
  GraphBuilder g("early");
  const Type factor(f64, {8, 128, 32});
  const auto product = [&](Value x, Value y) { return ops::dot_general(x, y, {{2}, {2}, {0}, {0}}); };
  const Value first = product(g.input("a", factor), g.input("b", factor));
  const Value scale =
      ops::reduce_sum(ops::rev(ops::rev(g.input("z", Type(f64, {1024, 1024})), {1}), {0}), {0, 1});
  const Value second = product(
      g.input("c", factor), ops::mul(g.input("d", factor), ops::broadcast_in_dim(scale, factor.shape(), {})));
  const Value moved = ops::transpose(ops::concatenate(std::array{first, second}, 1), {1, 0, 2});
  const Graph graph = g.build({beside_fusion(g), ops::rev(moved, {0})});
  const CpuOptions options = placing(true, 1);
  const Executable executable = cpu().with_options(options).compile(graph);
  CHECK(executable.program().workspace_bytes() <=
        Program::make(graph, options.program).workspace_bytes() + (std::size_t{1} << 19U));
  const std::vector<Tensor> inputs = inputs_of_attention(graph, random);
  const Executable alone = cpu().with_options(placing(false, 1)).compile(graph);
  CHECK(equal_as_numbers(executable.run(inputs), alone.run(inputs)));
}

TEST_CASE("parts of heads with other readers stay in memory") {
  if (units().empty()) return;
  std::mt19937_64 random(2);
  for (std::uint32_t outputs = 1; outputs < 512; outputs += shortened() ? 17 : 3) {
    CAPTURE(outputs);
    check_places(attention(outputs % 2 == 0 ? f32 : f64, {2, 16, 8, 8}, outputs), random,
                 std::size_t{1} << 14U);
  }
}

TEST_CASE("zeros that matmuls round to have the sign that a sum with 0 gives them") {
  const bool is_negative = fuses_multiply_add();
  for (const bool add : {false, true}) {
    GraphBuilder g("signs");
    std::vector<Value> parts;
    for (const char* const name : {"a", "b"}) {
      const Value x = g.input(name, Type(f32, {2, 3, 8, 16}));
      const Value matmul = ops::dot_general(x, x, {{3}, {3}, {0, 1}, {0, 1}});
      const Value scaled = ops::dot_general(
          matmul, g.input(std::string(name) + "y", Type(f32, {2, 3, 8, 16})), {{3}, {2}, {0, 1}, {0, 1}});
      parts.push_back(add ? ops::add(scaled, ops::full_like(scaled, 0)) : scaled);
    }
    const Graph graph = g.build({beside_fusion(g), ops::transpose(ops::concatenate(parts, 1), {0, 2, 1, 3})});
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) {
      const Type type = graph.type(id);
      if (type.dtype() == f64) {
        inputs.push_back(Tensor::zeros(type));
      } else {
        const std::vector<float> elements(static_cast<std::size_t>(type.size()),
                                          inputs.size() % 2 == 0 ? 1e-15F : -1e-30F);
        inputs.push_back(Tensor::from(type.shape(), std::span<const float>(elements)));
      }
    }
    const Tensor result = cpu().with_options(placing(true, 1)).run(graph, inputs)[1];
    for (const float element : result.elements<float>()) {
      CHECK(element == 0);
      CHECK(std::signbit(element) == (is_negative && !add));
    }
  }
}
