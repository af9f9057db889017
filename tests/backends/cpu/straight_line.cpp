// Straight-line kernels of operations on short arrays: bit by bit the results of the operations one by one,
// in recurrences of few steps and of many, of all lengths, with reductions, single elements, masks and other
// operations between.
#include "cpu/fusion/straight_line.hpp"

#include <array>
#include <cstring>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace straight_line_cases {
namespace {

CompileOptions compile_options(VectorUnits units) {
  CompileOptions options;
  options.vector_jit = VectorJit::get(units);
  return options;
}

// Results of the program, and of its operations one by one, on vectors of that kind.
struct Both {
  std::vector<Tensor> together, alone;
};
Both run_both(const Graph& graph, const std::vector<Tensor>& inputs, VectorUnits units) {
  CpuOptions options;
  options.vector_units = units;
  options.threads = 1;
  const auto run = [&](bool fuse) {
    ProgramOptions program;
    program.fuse = fuse;
    program.block = false;
    return cpu().with_options(options).compile(Program::make(graph, program)).run(inputs);
  };
  return {run(true), run(false)};
}
std::vector<Tensor> inputs_of(const Graph& graph, std::mt19937_64& random, bool special = false) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs())
    inputs.push_back(random_tensor(graph.type(id), {-1.5, 1.5, special}, random));
  return inputs;
}
void check_same(const Graph& graph, const std::vector<Tensor>& inputs, VectorUnits units) {
  const Both both = run_both(graph, inputs, units);
  for (std::size_t i = 0; i < both.alone.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits_or_nan(both.together[i], both.alone[i]));
  }
}

// Several carries, each of which has a row of `xs` and one or two result elements; all operations of a step
// are in straight-line kernels.
Graph recurrence(DType dtype, std::int64_t length, int steps) {
  GraphBuilder g("recurrence");
  const Type type(dtype, {length});
  const Value w = g.input("w", type), b = g.input("b", type);
  Value h = g.input("h", type), s = g.input("s", type);
  const Value xs = g.input("xs", Type(dtype, {steps + 1, length}));
  Value total = ops::full(g, dtype, 0.0);
  std::vector<Value> outputs;
  for (int t = 0; t < steps; ++t) {
    const Value x = ops::reshape(ops::slice(xs, {t, 0}, {t + 1, length}), {length});
    const Value gate = ops::logistic(x * w + b), change = ops::tanh(h * w - b);
    s = s * gate + change;
    h = gate * ops::tanh(s);
    const Value sum = ops::reduce_sum(ops::exp(h), {0});
    const Value log = ops::log(ops::full_like(sum, 2) + sum);
    total = total + ops::reduce_sum(x * (h - ops::broadcast_scalar(log, {length})), {0});
  }
  return g.build({total, h, s});
}

// Each step draws the same operations, on results of the last step and of itself.
Graph random_recurrence(DType dtype, std::int64_t length, int steps, std::mt19937_64& random) {
  GraphBuilder g("random");
  const Type type(dtype, {length}), mask(bool_, {length});
  std::vector<Value> carried = {g.input("a", type), g.input("b", type), g.input("c", type)};
  Value one = g.input("s", dtype), flag = g.input("f", bool_), chosen = g.input("m", mask);
  Value whole = g.input("n", Type(i32, {length}));
  const Value fixed = g.input("w", type), matrix = g.input("M", Type(dtype, {length, length}));
  const std::uint64_t seed = random();
  const bool breaks = random() % 3 == 0;
  std::vector<Value> outputs;
  for (int t = 0; t < steps; ++t) {
    std::mt19937_64 same(seed);
    std::vector<Value> values = carried;
    values.push_back(fixed);
    const auto pick = [&] {
      return values[values.size() - 1 - same() % std::min<std::size_t>(6, values.size())];
    };
    for (int k = 0; k < 24; ++k) {
      const Value x = pick(), y = pick();
      switch (same() % 22) {
        case 0: values.push_back(ops::tanh(x)); break;
        case 1: values.push_back(ops::logistic(x)); break;
        case 2: values.push_back(x - y); break;
        case 3: values.push_back(ops::max(x, y)); break;
        case 4: values.push_back(ops::exp(-ops::abs(x))); break;
        case 5: one = ops::tanh(ops::reduce_sum(x, {0})); break;
        case 6: one = ops::tanh(ops::reduce_max(x, {0}) + one); break;
        case 7: one = ops::sin(ops::reduce_min(x, {0}) * one); break;
        case 8: values.push_back(x * ops::broadcast_scalar(one, {length})); break;
        case 9: chosen = ops::lt(x, y); break;
        case 10: values.push_back(ops::select_n(chosen, x, y)); break;
        case 11: flag = ops::gt(one, ops::full_like(one, 0.1)); break;
        case 12: values.push_back(ops::select_n(ops::broadcast_scalar(flag, {length}), x, y)); break;
        case 13: values.push_back(ops::tanh(ops::broadcast_scalar(one, {length}))); break;
        case 14: one = ops::log(ops::full_like(one, 2) + ops::square(one)); break;
        case 15: chosen = ops::logical_not(chosen); break;
        case 16:
          if (breaks) whole = whole + ops::convert_element_type(x, i32);
          break;
        case 17: values.push_back(ops::atan2(x, ops::full_like(y, 2) + ops::abs(y))); break;
        case 18: values.push_back(ops::sqrt(ops::abs(x))); break;
        case 19:  // in use when `one` is another
          values.push_back(ops::broadcast_scalar(one, {length}));
          one = ops::sin(ops::reduce_sum(x, {0}));
          break;
        case 20:
          if (breaks) values.push_back(ops::tanh(ops::matmul(matrix, x)));
          break;
        default: values.push_back(x * y); break;
      }
    }
    carried = {values.back(), values[values.size() - 2] * fixed, ops::tanh(values[values.size() - 3])};
    if (t % 5 == 3) outputs.push_back(carried[same() % 3]);
  }
  outputs.insert(outputs.end(), carried.begin(), carried.end());
  outputs.insert(outputs.end(), {one, flag, chosen, whole});
  return g.build(outputs);
}

std::size_t operations_in_blocks(const Graph& graph, VectorUnits units, std::size_t* nodes = nullptr) {
  const Program program = Program::make(graph);
  std::size_t count = 0;
  for (const StraightLineBlock& block : find_straight_line_blocks(program, compile_options(units), {}))
    count += block.count;
  if (nodes != nullptr) *nodes = program.schedule().nodes.size();
  return count;
}

}  // namespace

TEST_CASE(
    "[straight line] a recurrence on short arrays runs in straight-line kernels, with the bits of its "
    "operations") {
  std::mt19937_64 random(1);
  for (const VectorUnits each : units()) {
    for (const DType dtype : {f32, f64}) {
      for (const std::int64_t length : {8, 9, 12, 14, 15, 16, 17, 24, 31, 32, 40, 63}) {
        CAPTURE(dtype);
        CAPTURE(length);
        const Graph graph = recurrence(dtype, length, 20);
        std::size_t nodes = 0;
        const std::size_t in_blocks = operations_in_blocks(graph, each, &nodes);
        const auto bytes = static_cast<std::int64_t>(VectorJit::get(each)->vector_bytes());
        if (fits_straight_line(length, dtype, bytes)) {
          CHECK(in_blocks > nodes * 3 / 4 - 40);
        } else {
          CHECK(in_blocks == 0);
        }
        check_same(graph, inputs_of(graph, random), each);
        check_same(graph, inputs_of(graph, random, true), each);
      }
    }
  }
}

TEST_CASE("[straight line] a recurrence of few steps is right, and needs no kernels") {
  std::mt19937_64 random(2);
  for (const VectorUnits each : units()) {
    for (const int steps : {0, 1, 2, 3}) {
      const Graph graph = recurrence(f64, 14, steps);
      CHECK(operations_in_blocks(graph, each) == 0);
      check_same(graph, inputs_of(graph, random), each);
    }
    CHECK(operations_in_blocks(recurrence(f64, 7, 40), each) == 0);  // shorter than any block
  }
}

TEST_CASE("[straight line] random recurrences give the bits of their operations") {
  std::mt19937_64 random(3);
  std::size_t in_blocks = 0;
  for (const VectorUnits each : units()) {
    for (int round = 0; round < static_cast<int>(scaled(400)); ++round) {
      const DType dtype = random() % 2 == 0 ? f32 : f64;
      const auto length = static_cast<std::int64_t>(8 + random() % 30);
      const int steps = static_cast<int>(random() % 30);
      CAPTURE(round);
      const Graph graph = random_recurrence(dtype, length, steps, random);
      in_blocks += operations_in_blocks(graph, each);
      check_same(graph, inputs_of(graph, random, round % 2 == 1), each);
    }
    CHECK(in_blocks > scaled(1000));
  }
}

TEST_CASE("[straight line] the operand of a broadcast is unchanged, though its buffer is reused by then") {
  std::mt19937_64 random(6);
  constexpr std::int64_t length = 12;
  GraphBuilder g("late");
  const Value w = g.input("w", Type(f64, {length})), m = g.input("m", Type(f64, {length, length}));
  Value h = g.input("h", Type(f64, {length})), one = ops::sin(g.input("s", f64));
  for (int t = 0; t < 20; ++t) {
    const Value repeated = ops::broadcast_scalar(one, {length});
    one = ops::sin(ops::reduce_sum(h, {0}));
    const Value x = (ops::tanh(h * w) + w) * w;
    h = ops::matmul(m, (x + repeated) * x);
  }
  const Graph graph = g.build({h, one});
  for (const VectorUnits each : units()) {
    CHECK(operations_in_blocks(graph, each) > 0);
    check_same(graph, inputs_of(graph, random), each);
  }
}

TEST_CASE("[straight line] arrays of two lengths, or of two dtypes, are in kernels of their own") {
  std::mt19937_64 random(7);
  for (const VectorUnits each : units()) {
    for (const Type& other : {Type(f64, {14}), Type(f64, {10}), Type(f32, {12})}) {
      GraphBuilder g("two");
      std::vector<Value> carried, factors;
      for (const Type& type : {Type(f64, {12}), other}) {
        carried.push_back(g.input(detail::str('h', carried.size()), type));
        factors.push_back(g.input(detail::str('w', factors.size()), type));
      }
      for (int t = 0; t < 20; ++t) {
        for (std::size_t k = 0; k < 2; ++k) {
          Value& h = carried[k];
          for (int i = 0; i < 3; ++i) h = (h - factors[k]) * ops::tanh(h) + factors[k];
        }
      }
      const Graph graph = g.build(carried);
      CHECK(operations_in_blocks(graph, each) > 100);
      check_same(graph, inputs_of(graph, random), each);
    }
  }
}

TEST_CASE("[straight line] results of straight-line kernels are there for fusions and loops") {
  std::mt19937_64 random(8);
  constexpr std::int64_t length = 12, rows = 3000;
  GraphBuilder g("behind");
  const Value w = g.input("w", Type(f64, {length}));
  Value h = g.input("h", Type(f64, {length})), large = g.input("x", Type(f64, {rows}));
  Value m = g.input("m", Type(f64, {rows, length}));
  for (int t = 0; t < 20; ++t) {
    const Value inner = ops::tanh(h * w);
    h = inner * (w - h) + w;
    // Only a fusion reads it, and repeats it.
    const Value repeated = ops::broadcast_scalar(ops::reduce_sum(h, {0}), {rows});
    large = (large - repeated) * ops::full_like(large, 0.01);
    // Only a loop reads it after the straight-line kernel.
    if (t > 5 && t < 12) m = ops::tanh(m) * ops::broadcast_in_dim(inner, {rows, length}, {1});
  }
  const Graph graph = g.build({large, ops::reduce_sum(ops::exp(m), {1})});
  ProgramOptions looped;
  looped.loop_bytes = 0;
  looped.block_bytes = std::size_t{1} << 14;
  for (const VectorUnits each : units()) {
    CpuOptions options{.threads = 1};
    options.vector_units = each;
    const std::vector<Tensor> inputs = inputs_of(graph, random);
    options.program.fuse = options.program.block = false;
    const std::vector<Tensor> alone = cpu().with_options(options).compile(graph).run(inputs);
    for (const bool block : {false, true}) {
      options.program = looped;
      options.program.block = block;
      const Executable executable = cpu().with_options(options).compile(graph);
      CHECK(executable.program().schedule().loops.size() == (block ? 1 : 0));
      CHECK(!find_straight_line_blocks(executable.program(), compile_options(each), {}).empty());
      const std::vector<Tensor> together = executable.run(inputs);
      for (std::size_t i = 0; i < alone.size(); ++i) CHECK(same_bits_or_nan(together[i], alone[i]));
    }
  }
}

TEST_CASE("[straight line] sums that matmuls add to in loops are in no kernel") {
  std::mt19937_64 random(9);
  constexpr std::int64_t length = 12, rows = 20000;
  GraphBuilder g("sums");
  const Value x = g.input("x", Type(f64, {rows, length})), y = ops::tanh(x) * x;
  std::vector<Value> sums;
  for (int k = 0; k < 6; ++k) {
    const Value weight = g.input(detail::str('w', k), Type(f64, {rows}));
    sums.push_back(ops::dot_general(y, ops::exp(weight), {{0}, {0}, {}, {}}));
  }
  const Graph graph = g.build(sums);
  const std::vector<Tensor> inputs = inputs_of(graph, random);
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
  for (const VectorUnits each : units()) {
    CpuOptions options{.threads = 1};
    options.vector_units = each;
    options.program.loop_bytes = 0;
    options.program.block_bytes = std::size_t{1} << 16;
    const Executable executable = cpu().with_options(options).compile(graph);
    REQUIRE(executable.program().schedule().loops.size() == 1);
    const std::vector<Tensor> got = executable.run(inputs);
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(difference(got[k], expected[k], 100) == "");
  }
}

TEST_CASE("[straight line] a sum of nothing but -0 is -0") {
  for (const VectorUnits each : units()) {
    for (const std::int64_t length : {9, 15, 17, 21, 31}) {
      GraphBuilder g("zeros");
      Value h = g.input("h", Type(f32, {length}));
      const Value w = g.input("w", Type(f32, {length}));
      for (int t = 0; t < 150; ++t) {
        const Value sum = ops::reduce_sum(h, {0});
        h = (h * w) * w + ops::broadcast_scalar(sum, {length});
      }
      const Graph graph = g.build({h});
      const std::vector<float> zeros(static_cast<std::size_t>(length), -0.0F), ones(zeros.size(), 1.0F);
      const std::vector<Tensor> inputs{Tensor::from<float>({length}, zeros),
                                       Tensor::from<float>({length}, ones)};
      CHECK(operations_in_blocks(graph, each) > 0);
      check_same(graph, inputs, each);
      const Tensor together = run_both(graph, inputs, each).together[0];
      CHECK(std::signbit(together.at(0).real()));
    }
  }
}

TEST_CASE("[straight line] gradients of recurrences are those of the reference interpreter") {
  std::mt19937_64 random(4);
  for (const VectorUnits each : units()) {
    for (const int steps : {2, 11, 40}) {
      const Graph loss = recurrence(f64, 14, steps);
      const Graph only = [&] {
        GraphBuilder g("loss");
        std::vector<Value> inputs;
        for (std::size_t i = 0; i < loss.inputs().size(); ++i)
          inputs.push_back(g.input(detail::str('i', i), loss.type(loss.inputs()[i])));
        return g.build({inline_graph(g, loss, inputs)[loss.outputs()[0]]});
      }();
      const Graph gradient = grad(only);
      const std::vector<Tensor> inputs = inputs_of(gradient, random);
      check_same(gradient, inputs, each);
      const std::vector<Tensor> expected = reference().run(gradient, inputs);
      const Both both = run_both(gradient, inputs, each);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        for (std::int64_t k = 0; k < expected[i].size(); ++k) {
          const double x = expected[i].at(k).real();
          CHECK(both.together[i].at(k).real() == doctest::Approx(x).epsilon(1e-11).scale(1e-3));
        }
      }
    }
  }
}

TEST_CASE("[straight line] functions of short arrays are the same alone and with others") {
  std::mt19937_64 random(5);
  for (const VectorUnits each : units()) {
    GraphBuilder g("functions");
    const Value x = g.input("x", Type(f64, {13})), y = g.input("y", Type(f64, {100}));
    const Graph graph = g.build({ops::tanh(x), ops::logistic(x), ops::tanh(y), ops::logistic(y)});
    std::vector<Tensor> inputs = inputs_of(graph, random);
    std::memcpy(inputs[0].mutable_bytes(), inputs[1].bytes(), inputs[0].type().bytes());
    const Both both = run_both(graph, inputs, each);
    for (const std::vector<Tensor>& results : {both.together, both.alone}) {
      for (const std::size_t i : {0U, 1U})
        CHECK(std::memcmp(results[i].bytes(), results[i + 2].bytes(), results[i].type().bytes()) == 0);
    }
  }
}

}  // namespace straight_line_cases
