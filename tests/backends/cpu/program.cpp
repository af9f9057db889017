// Program::make and its passes: merging, dead code elimination, inlining, the memory plan, the text.
#include <doctest/doctest.h>

#include <random>

#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

using namespace tidu;

TEST_CASE("dead operations are dropped, equal ones merged, barriers respected") {
  GraphBuilder::Options verbatim;
  verbatim.deduplicate = false;
  GraphBuilder builder("f", standard_primitives(), verbatim);
  const Value x = builder.input("x", Type(f64, {3}));
  const Value unused = builder.input("unused", f64);
  const Value a = ops::sin(x), b = ops::sin(x);
  const Value c = ops::sin(ops::optimization_barrier(std::vector{x}, 1)[0]);
  ops::cos(unused);
  ProgramOptions options;
  options.fuse = false;
  const Program program = Program::make(builder.build({ops::add(a, b), c}), options);
  CHECK(program.graph().num_operations() == 4);  // sin, add, barrier, sin
  CHECK(program.schedule().nodes.size() == 3);   // the barrier needs no work
  CHECK(program.graph().inputs().size() == 2);
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
}

TEST_CASE("externals are refused") {
  GraphBuilder base("base");
  const Value x = base.input("x", f64);
  const Value y = ops::sin(x);
  const Graph first = base.build({y});
  GraphBuilder builder("linear");
  const Value t = builder.input("t", f64);
  const Value e = builder.external(first.key(first.outputs()[0]), f64);
  const auto result = Program::try_make(builder.build({ops::mul(e, t)}));
  REQUIRE(!result.has_value());
  CHECK(result.error().kind() == ErrorKind::invalid_argument);
  CHECK(std::string(result.error().what()).find("without externals, got 1 in \"linear\"") !=
        std::string::npos);
}

TEST_CASE("inner graphs are inlined to any depth, and their number is bounded") {
  GraphBuilder innermost("g0");
  const Value a = innermost.input("a", f64);
  Graph graph = innermost.build({ops::sin(a)});
  for (int depth = 1; depth < 60; ++depth) {
    GraphBuilder builder(detail::str('g', depth));
    const Value x = builder.input("x", f64);
    const Value once = ops::call(graph, std::vector{x})[0];
    graph = builder.build({ops::call(graph, std::vector{once})[0]});
    if (depth != 6) continue;
    ProgramOptions options;
    options.max_operations = 64 + 2 * 63;  // and the calls
    CHECK(Program::make(graph, options).graph().num_operations() == 64);
    --options.max_operations;
    CHECK_FALSE(Program::try_make(graph, options).has_value());
  }
  for (const std::size_t most : {std::size_t{100000}, ProgramOptions().max_operations}) {
    ProgramOptions options;
    options.max_operations = most;  // by default more than fit into memory, so it has to be seen before
    const auto result = Program::try_make(graph, options);
    REQUIRE(!result.has_value());
    CHECK(result.error().kind() == ErrorKind::invalid_argument);
  }
}

TEST_CASE("the text of a program") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {20, 30}));
  const Value two = ops::full(builder, x.type(), 2.0);
  const Value y = ops::mul(ops::sin(x), two);
  const Graph graph = builder.build({ops::reduce_sum(ops::exp(y), {0, 1}), x});
  ProgramOptions one_by_one;
  one_by_one.fuse = false;
  CHECK(to_text(Program::make(graph)) ==
        "program \"f\"\n"
        "  input @0 f64[20,30] %0:x\n"
        "  fusion\n"
        "    %2 f64[20,30] = sin @0\n"
        "    %3 f64[20,30] = mul %2 %1\n"
        "    %4 f64[20,30] = exp %3\n"
        "    @1 f64[] = reduce_sum axes=[0,1] %4\n"
        "  output @1 @0(copied)\n"
        "  memory: 2 slots, workspace 0 bytes (small 0), constants 0, outputs 4808, peak 4808, 0 results in "
        "place\n");
  CHECK(to_text(Program::make(graph, one_by_one)) ==
        "program \"f\"\n"
        "  input @0 f64[20,30] %0:x\n"
        "  constant  @1 f64[20,30] = full value=f64[]{2} dtype=f64 shape=[20,30]\n"
        "  @3 f64[20,30] = sin @0\n"
        "  @3 f64[20,30] = mul @3 @1  # in place\n"
        "  @3 f64[20,30] = exp @3  # in place\n"
        "  @2 f64[] = reduce_sum axes=[0,1] @3\n"
        "  output @2 @0(copied)\n"
        "  memory: 4 slots, workspace 4800 bytes (small 0), constants 4800, outputs 4808, peak 14408, 2 "
        "results in "
        "place\n");
}

TEST_CASE("a tree with a fusion and a blocked loop prints with its depth") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {1000}));
  const Graph graph = builder.build({ops::reduce_sum(ops::cos(ops::sin(x)), {0})});
  ProgramOptions options;
  options.fuse = false;
  const Program program = Program::make(graph, options);
  Schedule schedule;
  schedule.nodes = {{NodeKind::fusion, 0, 3},
                    {NodeKind::operation, 0, 1},
                    {NodeKind::operation, 1, 1},
                    {NodeKind::blocked_loop, 0, 1}};
  schedule.loops.resize(1);
  schedule.loops[0].extent = 1000;
  schedule.loops[0].block = 256;
  schedule.loops[0].operands = {{graph.operation(1).output(), 0}};
  schedule.loops[0].results = {{graph.outputs()[0], BlockedLoop::none}};
  schedule.loops[0].num_operations = 1;
  const std::string text = to_text(program.graph(), schedule, program.plan());
  CHECK(text.find("  fusion\n    @2 f64[1000] = sin @0\n") != std::string::npos);
  CHECK(text.find("\n  blocked loop over 1000 by 256, 1 operations\n    reads @2 f64[1000] along axis 0\n"
                  "    sums @1 f64[]\n") != std::string::npos);
}

TEST_CASE("random graphs: no value is overwritten before its last reader") {
  std::mt19937_64 random(5);
  for (int repeat = 0; repeat < 300; ++repeat) {
    GraphBuilder builder("random");
    std::vector<Value> values;
    const std::vector<Shape> shapes{{}, {4}, {700}, {3, 700}};
    for (const Shape& shape : shapes)
      values.push_back(builder.input(detail::str("x", values.size()), Type(f64, shape)));
    for (int i = 0; i < 80; ++i) {
      const Value a = values[values.size() - 1 - random() % std::min<std::size_t>(values.size(), 12)];
      const Value b = values[random() % values.size()];
      switch (random() % 6) {
        case 0: values.push_back(ops::sin(a)); break;
        case 1: values.push_back(a.type() == b.type() ? ops::mul(a, b) : ops::neg(b)); break;
        case 2:
          values.push_back(a.rank() > 0 ? ops::reduce_sum(a, {0}) : ops::broadcast_scalar(a, {700}));
          break;
        case 3: values.push_back(ops::reshape(a, {num_elements(a.shape())})); break;
        case 4: values.push_back(ops::convert_element_type(ops::convert_element_type(a, f32), f64)); break;
        default:
          values.push_back(ops::full(builder, shapes[random() % 4].empty() ? Type(f64) : a.type(), 0.5 * i));
          break;
      }
    }
    std::vector<Value> outputs;
    for (int i = 0; i < 5; ++i) outputs.push_back(values[random() % values.size()]);
    ProgramOptions options;
    options.in_place = repeat % 2 == 0;
    options.fuse = repeat % 5 != 0;
    options.constant_bytes = repeat % 3 == 0 ? 0 : 4096;
    const Program program = Program::make(builder.build(outputs), options);
    passes::verify_plan(program.graph(), program.schedule(), program.plan());
  }
}

TEST_CASE("a plan in which a value is overwritten is found out") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {3}));
  const Value a = ops::sin(x), b = ops::cos(x);
  ProgramOptions options;
  options.fuse = false;
  const Program program = Program::make(builder.build({ops::add(ops::mul(a, b), a)}), options);
  SlotPlan plan = program.plan();
  plan.slot_of[2] = plan.slot_of[1];  // cos over sin
  CHECK_THROWS_AS(passes::verify_plan(program.graph(), program.schedule(), plan), Error);
}

TEST_CASE("large temporaries share memory, and the predicted peak says so") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {10000}));
  Value y = x;
  for (int i = 0; i < 10; ++i) y = ops::rev(y, {0});
  const Program program = Program::make(builder.build({y}));
  CHECK(program.plan().large_bytes <= 2 * 80064);
  CHECK(program.peak_bytes() <= 3 * 80064);
}

namespace {

// Fusions of the schedule, each the names of its operations, with a bar between them.
std::string fusions(const Graph& graph) {
  const Program program = Program::make(graph);
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
  std::string found;
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
    if (nodes[i].kind != NodeKind::fusion) continue;
    if (!found.empty()) found += " | ";
    for (std::size_t k = i + 1; k < i + nodes[i].size; ++k)
      found += detail::str(k > i + 1 ? " " : "", program.graph().operation(nodes[k].index).op().name());
  }
  return found;
}

}  // namespace

TEST_CASE("fusions: operations that are fused, and those that are not") {
  GraphBuilder builder("f");
  const Type type(f64, {1000});
  const Value x = builder.input("x", type), s = builder.input("s", f64);
  SUBCASE("through reshapes, with scalars repeated, and the reduction") {
    const Value y = ops::mul(ops::exp(x), ops::broadcast_scalar(s, {1000}));
    const Value z = ops::sin(ops::reshape(y, {10, 100}));
    CHECK(fusions(builder.build({ops::reduce_max(z, {0, 1}), z})) == "exp mul sin reduce_max");
  }
  SUBCASE("one operation alone is no fusion, but with a repeated operand it is") {
    CHECK(fusions(builder.build({ops::exp(x)})).empty());
    GraphBuilder other("g");
    const Value y = other.input("y", type);
    CHECK(fusions(other.build({ops::mul(y, ops::full(other, type, 2.0))})) == "mul");
  }
  SUBCASE("operations that depend on the reduction are in a fusion after it") {
    const Value sum = ops::reduce_sum(ops::exp(x), {0});
    const Value y = ops::div(ops::exp(x), ops::broadcast_scalar(sum, {1000}));
    CHECK(fusions(builder.build({ops::sin(y)})) == "exp reduce_sum | div sin");
  }
  SUBCASE("not across an operation that is in between") {
    const Value y = ops::sin(ops::rev(ops::neg(ops::exp(x)), {0}));
    CHECK(fusions(builder.build({ops::cos(y)})) == "exp neg | sin cos");
  }
  SUBCASE("not across a barrier") {
    const Value y = ops::sin(ops::exp(x));
    const Value again = ops::cos(ops::optimization_barrier(std::vector{x}, 1)[0]);
    CHECK(fusions(builder.build({y, ops::neg(again)})) == "exp sin | cos neg");
  }
  SUBCASE("repeated elements of repeated elements are made where something else reads them") {
    const Value three = ops::full(builder, Type(f64, {10}), 3.0);
    const Value wide = ops::broadcast_in_dim(three, {10, 100}, {0});
    const Value y = ops::exp(ops::mul(ops::reshape(x, {10, 100}), wide));
    CHECK(fusions(builder.build({ops::rev(wide, {0}), y})) == "mul exp");
  }
  SUBCASE("repeated elements that nothing else reads but an operation that repeats them, or a barrier") {
    const Value row = ops::broadcast_scalar(s, {10});
    CHECK(fusions(builder.build({ops::broadcast_in_dim(row, {10, 100}, {0})})).empty());
    GraphBuilder other("g");
    const Value y = other.input("y", type);
    const Values both = ops::optimization_barrier(std::vector{ops::full(other, type, 2.0), y}, 1);
    CHECK(fusions(other.build({ops::exp(ops::mul(both[0], both[1]))})) == "mul exp");
  }
  SUBCASE("a reduction without readers") {
    const Value y = ops::exp(ops::sin(x));
    const Values both = ops::optimization_barrier(std::vector{ops::reduce_sum(y, {0}), y}, 1);
    CHECK(fusions(builder.build({both[1]})) == "sin exp reduce_sum");
  }
  SUBCASE("a reduction after a barrier") {
    const Value y = ops::optimization_barrier(std::vector{ops::exp(ops::sin(x))}, 1)[0];
    CHECK(fusions(builder.build({ops::reduce_sum(y, {0})})) == "sin exp");
  }
  SUBCASE("values of other sizes, and of 16 bits") {
    const Value half = ops::convert_element_type(x, f16);
    CHECK(fusions(builder.build({ops::neg(ops::exp(half)), ops::sin(ops::cos(s))})).empty());
  }
}

TEST_CASE("fusions: temporaries of a chain take no memory") {
  GraphBuilder builder("f");
  Value y = builder.input("x", Type(f32, {100000}));
  for (int i = 0; i < 30; ++i) y = ops::sin(ops::mul(y, y));
  const Program program = Program::make(builder.build({ops::reduce_sum(y, {0})}));
  CHECK(program.workspace_bytes() <= 2 * 400064);  // 60 operations are two fusions
  CHECK(program.peak_bytes() <= 2 * 400064);
}
