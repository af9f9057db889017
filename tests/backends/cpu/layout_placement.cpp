// Positions of slices, pads and rolls in a schedule: they do not separate sums, in whatever order these were
// written.
#include <doctest/doctest.h>

#include <random>

#include "support/support.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

constexpr std::int64_t rows = 96, columns = 80;

// Nodes of the schedule: names of operations, those of a fusion in brackets.
std::string nodes_of(const Graph& graph) {
  ProgramOptions options;
  options.simplify = options.offset_views = false;
  const Program program = Program::make(graph, options);
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  std::string text;
  for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
    const bool fusion = nodes[i].kind != NodeKind::operation;
    text += text.empty() ? "" : " ";
    if (fusion) text += "(";
    for (std::size_t k = fusion ? i + 1 : i; k < i + nodes[i].size; ++k)
      text +=
          detail::str(fusion && k > i + 1 ? " " : "", program.graph().operation(nodes[k].index).op().name());
    if (fusion) text += ")";
  }
  return text;
}

Value rolled(const Value& x, std::int64_t axis, std::int64_t shift) {
  const std::int64_t extent = axis == 0 ? rows : columns, cut = extent - shift;
  const auto part = [&](std::int64_t start, std::int64_t limit) {
    return axis == 0 ? ops::slice(x, {start, 0}, {limit, columns}) : ops::slice(x, {0, start}, {rows, limit});
  };
  const Value last = part(cut, extent), first = part(0, cut);
  return ops::concatenate(std::vector{last, first}, axis);
}
Value padded(const Value& x, std::int64_t before, std::int64_t after) {
  return ops::pad(x, ops::full(*x.emitter(), Type(f64, {}), 0.0), {{before, after, 0}, {0, 0, 0}});
}

}  // namespace

TEST_CASE("[layout placement] sums of rolled values are one fusion, in whatever order they are written") {
  const Type type(f64, {rows, columns});
  const std::string moves = "slice slice concatenate slice slice concatenate slice slice concatenate";
  SUBCASE("each before the sum that needs it") {
    GraphBuilder builder("f");
    const Value x = builder.input("x", type);
    Value sum = ops::mul(x, x);
    sum = ops::add(sum, rolled(x, 0, 1));
    sum = ops::add(sum, rolled(x, 0, rows - 1));
    sum = ops::add(sum, rolled(x, 1, 3));
    CHECK(nodes_of(builder.build({sum})) == moves + " (mul add add add)");
  }
  SUBCASE("all before the first") {
    GraphBuilder builder("f");
    const Value x = builder.input("x", type);
    const Value a = rolled(x, 0, 1), b = rolled(x, 0, rows - 1), c = rolled(x, 1, 3);
    CHECK(nodes_of(builder.build({ops::add(ops::add(ops::add(ops::mul(x, x), a), b), c)})) ==
          moves + " (mul add add add)");
  }
  SUBCASE("sums of sums") {
    GraphBuilder builder("f");
    const Value x = builder.input("x", type);
    const Value first = ops::add(rolled(x, 0, 1), x);
    const Value second = ops::add(rolled(x, 0, rows - 1), rolled(x, 1, 3));
    CHECK(nodes_of(builder.build({ops::add(first, second)})) == moves + " (add add add)");
  }
}

TEST_CASE("[layout placement] layout operations run after their operand and before all their readers") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", {f64, {rows, columns}}), y = builder.input("y", {f64, {rows, columns}});
  SUBCASE("of the result of the fusion") {
    const Value a = ops::mul(x, y);
    const Value b = ops::add(ops::exp(a), rolled(a, 0, 1));
    CHECK(nodes_of(builder.build({ops::sin(b)})) == "(mul exp) slice slice concatenate (add sin)");
  }
  SUBCASE("sums of pads, of which a later fusion reads one") {
    const Value a = ops::exp(x), part = ops::slice(a, {0, 0}, {rows - 1, columns});
    const Value up = padded(part, 0, 1), down = padded(part, 1, 0);
    const Value sum = ops::add(ops::mul(y, y), up);
    const Value behind = ops::rev(sum, {0});
    const Value other = ops::mul(ops::add(behind, up), y);
    CHECK(nodes_of(builder.build({ops::add(sum, down), other})) ==
          "(exp) slice pad pad (mul add) rev (add mul add)");
  }
  SUBCASE("that is given out, or that no fusion reads") {
    const Value a = rolled(x, 0, 1);
    const Value sum = ops::mul(ops::add(ops::exp(y), y), a);
    CHECK(nodes_of(builder.build({a, ops::rev(a, {1}), sum})) == "slice slice concatenate (exp add mul) rev");
  }
  SUBCASE("one element of an array") {
    const Value sum = ops::add(ops::exp(x), y);
    const Value one = ops::reshape(ops::slice(x, {1, 1}, {2, 2}), {});
    CHECK(nodes_of(builder.build({ops::mul(sum, ops::broadcast_scalar(one, {rows, columns}))})) ==
          "slice (exp add mul)");
  }
  SUBCASE("not across a barrier") {
    const Value sum = ops::add(ops::exp(x), y);
    const Value kept = ops::optimization_barrier(std::vector{sum}, 1)[0];
    const Value a = rolled(x, 0, 1);
    CHECK(nodes_of(builder.build({ops::mul(ops::add(kept, a), y)})) ==
          "(exp add) slice slice concatenate (add mul)");
  }
}

// Whatever is drawn, no value is read before it is made or after it is overwritten.
TEST_CASE("[layout placement] random graphs of layout operations, sums, reductions and others between") {
  for (std::uint64_t seed = 0; seed < scaled(300); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
    GraphBuilder builder("f");
    std::vector<Value> values;
    for (const char* name : {"x", "y"}) values.push_back(builder.input(name, {f64, {rows, columns}}));
    const auto pick = [&] {
      return values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 6))];
    };
    std::vector<Value> outputs;
    for (std::size_t k = 5 + below(40); k-- > 0;) {
      const auto shift = static_cast<std::int64_t>(1 + below(columns - 1));
      switch (below(9)) {
        case 0:
        case 1: values.push_back(rolled(pick(), static_cast<std::int64_t>(below(2)), shift)); break;
        case 2: {
          const Value part = ops::slice(pick(), {shift, 0}, {rows, columns});
          values.push_back(padded(part, below(2) == 0 ? shift : 0, 0));
          if (values.back().shape()[0] != rows) values.back() = padded(part, 0, shift);
          break;
        }
        case 3: values.push_back(ops::rev(pick(), {0})); break;
        case 4: {
          const Value sum = ops::reduce_sum(pick(), {0, 1});
          values.push_back(ops::mul(pick(), ops::broadcast_scalar(sum, {rows, columns})));
          break;
        }
        case 5: values.push_back(ops::optimization_barrier(std::vector{pick()}, 1)[0]); break;
        case 6: {
          const Value sums = ops::reduce_sum(pick(), {1});
          values.push_back(ops::add(pick(), ops::broadcast_in_dim(sums, {rows, columns}, {0})));
          break;
        }
        default: values.push_back(ops::add(pick(), pick()));
      }
      if (below(8) == 0) outputs.push_back(pick());
    }
    outputs.push_back(values.back());
    const Graph graph = builder.build(outputs);
    for (const bool blocks : {false, true}) {
      ProgramOptions options;
      options.block = blocks;
      options.loop_bytes = blocks ? 0 : options.loop_bytes;
      options.simplify = below(2) == 0;
      const Program program = Program::make(graph, options);
      CHECK_NOTHROW(passes::verify_plan(program.graph(), program.schedule(), program.plan()));
    }
  }
}
