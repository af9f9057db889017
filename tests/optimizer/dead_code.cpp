// Dead code elimination through inner graphs: the operands, results and inner operations that stay.
#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <string>

#include "tidu/cpu/executor.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu {
namespace {

namespace demanded_elements_cases {

const Type v3{f64, {3}}, rows{f64, {4, 3}};

// An operation, and the graph that it is in.
struct Found : Operation {
  Found(const Graph& in, std::size_t index) : Operation(in.operation(index)), graph(in) {}
  Graph graph;
};
// The only one of that name.
Found find(const Graph& graph, std::string_view name) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.operation(i).name() != name) continue;
    REQUIRE(!found);
    found = i;
  }
  REQUIRE(found);
  return {graph, *found};
}
bool has(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.operation(i).name() == name) return true;
  }
  return false;
}
std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) names.push_back(graph.input_name(i));
  return names;
}
using Words = std::vector<std::string>;

// p' = p + cos(a) x, q' = sin(q) b, y = exp(q), z = tanh(p) u
Graph step() {
  GraphBuilder b("step");
  const Value a = b.input("a", v3), c = b.input("b", v3), p = b.input("p", v3), q = b.input("q", v3),
              x = b.input("x", v3), u = b.input("u", v3);
  return b.build({p + ops::cos(a) * x, ops::sin(q) * c, ops::exp(q), ops::tanh(p) * u});
}
Graph scan_of(const Graph& body, std::initializer_list<std::size_t> read) {
  GraphBuilder g("f");
  std::vector<Value> operands;
  for (const char* name : {"a", "b", "p", "q"}) operands.push_back(g.input(name, v3));
  for (const char* name : {"x", "u"}) operands.push_back(g.input(name, rows));
  const Values results = ops::scan(body, operands, {4, true, 2, 2});
  std::vector<Value> outputs;
  for (const std::size_t k : read) outputs.push_back(results[k]);
  return g.build(outputs);
}

TEST_CASE(
    "[dead code] scan: ys and carries without readers are removed, with the operations that only they need") {
  const Graph p_alone = eliminate_dead_code(scan_of(step(), {0}));
  const Found scan = find(p_alone, "scan");
  CHECK(scan.num_inputs() == 3);
  CHECK(scan.num_outputs() == 1);
  CHECK(scan.op().integer("num_consts") == 1);
  CHECK(scan.op().integer("num_carry") == 1);
  CHECK(scan.op().boolean("reverse"));
  const Graph body = scan.op().graph("body");
  CHECK(names_of(body) == Words{"a", "p", "x"});
  CHECK(body.num_operations() == 3);
  CHECK(p_alone.inputs().size() == 6);  // those of a graph stay

  // A y needs the carry it is made of, whose result is then there too.
  const Found of_y = find(eliminate_dead_code(scan_of(step(), {2})), "scan");
  CHECK(names_of(of_y.op().graph("body")) == Words{"b", "q"});
  CHECK(of_y.num_outputs() == 2);
  const Found of_z = find(eliminate_dead_code(scan_of(step(), {3})), "scan");
  CHECK(names_of(of_z.op().graph("body")) == Words{"a", "p", "x", "u"});
  CHECK(of_z.num_outputs() == 2);

  // Nothing is made where all is read.
  const Graph all = scan_of(step(), {0, 1, 2, 3});
  CHECK(eliminate_dead_code(all).share() == all.share());
}

TEST_CASE("[dead code] scan: operands that the body does not read, and a body that reads none") {
  const auto cut = [](std::size_t read) {
    GraphBuilder b("step");
    (void)b.input("unused", v3);
    const Value c = b.input("c", v3);
    (void)b.input("x", v3);
    const Graph body = b.build({c * c, ops::full(b, v3, 2.0)});
    GraphBuilder g("f");
    const std::vector<Value> operands{g.input("unused", v3), g.input("c", v3), g.input("x", rows)};
    return eliminate_dead_code(g.build({ops::scan(body, operands, {4, false, 1, 1})[read]}));
  };
  CHECK(names_of(find(cut(0), "scan").op().graph("body")) == Words{"c"});
  const Found constant = find(cut(1), "scan");
  CHECK(constant.num_inputs() == 0);
  CHECK(constant.num_outputs() == 1);
  const std::vector<Tensor> inputs{Tensor(v3), Tensor(v3), Tensor(rows)};
  for (const Executor* executor : std::initializer_list<const Executor*>{&reference(), &cpu()}) {
    const Tensor ys = executor->run(cut(1), inputs)[0];
    for (std::int64_t i = 0; i < ys.type().size(); ++i) CHECK(ys.at(i) == 2.0);
  }
}

TEST_CASE("[dead code] while: carries that neither cond nor a live value needs") {
  const auto loop = [](std::initializer_list<std::size_t> read) {
    GraphBuilder c("until"), b("step");
    std::vector<Value> in_cond, in_body;
    for (const char* name : {"k", "unused", "n", "p", "q", "r"}) {
      const Type type = name[0] == 'n' ? Type(i32) : v3;
      in_cond.push_back(c.input(name, type));
      in_body.push_back(b.input(name, type));
    }
    const Graph cond = c.build({ops::lt(in_cond[2], ops::full_like(in_cond[2], 3))});
    const Graph body = b.build({in_body[2] + ops::full_like(in_body[2], 1), in_body[4] * in_body[0],
                                ops::sin(in_body[4]), ops::exp(in_body[5])});
    GraphBuilder g("f");
    std::vector<Value> operands;
    for (const char* name : {"k", "unused", "n", "p", "q", "r"})
      operands.push_back(g.input(name, name[0] == 'n' ? Type(i32) : v3));
    const Values results = ops::while_loop(cond, body, operands, {2, 5});
    std::vector<Value> outputs;
    for (const std::size_t k : read) outputs.push_back(results[k]);
    return find(eliminate_dead_code(g.build(outputs)), "while").op();
  };
  const auto carries = [&](std::initializer_list<std::size_t> read) {
    return names_of(loop(read).graph("body"));
  };
  CHECK(carries({0}) == Words{"n"});
  CHECK(carries({1}) == Words{"k", "n", "p", "q"});
  CHECK(carries({2}) == Words{"n", "q"});
  CHECK(carries({3, 2}) == Words{"n", "q", "r"});
  CHECK(loop({1}).integer("num_consts") == 1);
  CHECK(loop({1}).integer("max_steps") == 5);
  CHECK(names_of(loop({3}).graph("cond")) == Words{"n", "r"});
}

TEST_CASE(
    "[dead code] cond: results without readers, in every branch, and operands that then no branch reads") {
  const auto branch = [](int which) {
    GraphBuilder b(detail::str("branch", which));
    const Value x = b.input("x", v3), y = b.input("y", v3), z = b.input("z", v3);
    if (which == 0) return b.build({ops::sin(x), ops::exp(y), z});
    return b.build({ops::cos(x), x * y, ops::full_like(z, which)});
  };
  const auto cut = [&](std::size_t read) {
    GraphBuilder g("f");
    const std::vector<Graph> branches{branch(0), branch(1), branch(2)};
    const Value which = g.input("which", i32);
    const std::vector<Value> operands{g.input("x", v3), g.input("y", v3), g.input("z", v3)};
    return eliminate_dead_code(g.build({ops::cond(which, branches, operands)[read]}));
  };
  for (const auto& [read, names] : {std::pair<std::size_t, Words>{0, {"x"}}, {1, {"x", "y"}}, {2, {"z"}}}) {
    const Found cond = find(cut(read), "cond");
    CHECK(cond.num_outputs() == 1);
    CHECK(cond.num_inputs() == 1 + names.size());
    for (const Graph& each : cond.op().graphs("branches")) CHECK(names_of(each) == names);
  }
}

TEST_CASE("[dead code] liveness of inner values decides that of outer ones") {
  // The outer carry q is only read by the inner scan, for a y of it without readers.
  const Graph inner = step();
  GraphBuilder b("outer step");
  std::vector<Value> operands;
  for (const char* name : {"a", "b", "p", "q"}) operands.push_back(b.input(name, v3));
  for (const char* name : {"x", "u"}) operands.push_back(b.input(name, rows));
  const Values results = ops::scan(inner, operands, {4, false, 2, 2});
  const Graph body = b.build({results[0], results[1], ops::reduce_sum(results[2], {0})});
  GraphBuilder g("f");
  operands.clear();
  for (const char* name : {"a", "b", "p", "q"}) operands.push_back(g.input(name, v3));
  for (const char* name : {"x", "u"}) operands.push_back(g.input(name, {f64, {5, 4, 3}}));
  const Values outer = ops::scan(body, operands, {5, false, 2, 2});
  const Graph cut = eliminate_dead_code(g.build({outer[0]}));
  const Graph left = find(cut, "scan").op().graph("body");
  CHECK(names_of(left) == Words{"a", "p", "x"});
  CHECK(names_of(find(left, "scan").op().graph("body")) == Words{"a", "p", "x"});

  // In a call and in a checkpoint too; not where values of the graph are named by their ids.
  for (const int kind : {0, 1, 2}) {
    GraphBuilder c("step");
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < 6; ++i) inputs.push_back(c.input(inner.input_name(i), v3));
    const CheckpointPolicy saved = CheckpointPolicy::save({6});
    const Values called = kind == 0   ? ops::call(inner, inputs)
                          : kind == 1 ? ops::checkpoint(inner, inputs)
                                      : ops::checkpoint(inner, inputs, saved);
    const Graph calling = c.build(std::span<const Value>(called.data(), called.size()));
    const Graph of_p = find(eliminate_dead_code(scan_of(calling, {0})), "scan").op().graph("body");
    CHECK(names_of(of_p) == (kind == 2 ? Words{"a", "b", "p", "q", "x", "u"} : Words{"a", "p", "x"}));
  }
}

TEST_CASE(
    "[dead code] operations that a program does not run: of a scan, and of its derivatives of every order") {
  GraphBuilder b("step");
  const Value a = b.input("a", v3), c = b.input("b", v3), p = b.input("p", v3), q = b.input("q", v3),
              x = b.input("x", v3), u = b.input("u", v3);
  const Graph f =
      scan_of(b.build({ops::tanh(p * x) * a, ops::atan(q), ops::logistic(p * c), ops::erf(q * u)}), {0});
  GraphBuilder g("loss");
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < f.inputs().size(); ++i)
    inputs.push_back(g.input(f.input_name(i), f.type(f.inputs()[i])));
  const Graph loss = g.build({ops::reduce_sum(ops::call(f, inputs)[0], {0})});
  for (const Graph& graph : {loss, grad(loss), vjp(loss), jvp(loss), hvp(loss), hessian(loss, {"a"})}) {
    std::set<std::string_view> computed;
    const Graph made = Program::make(graph).graph();
    for (std::size_t i = 0; i < made.num_operations(); ++i) {
      if (made.operation(i).name() != "scan") continue;
      const Graph body = made.operation(i).op().graph("body");
      for (std::size_t k = 0; k < body.num_operations(); ++k) computed.insert(body.operation(k).name());
    }
    CHECK(computed.count("tanh") == 1);
    for (const char* name : {"atan", "logistic", "erf"}) CHECK(computed.count(name) == 0);
  }
}

// --- impure operations, and primitives of users

void infer_held(InferContext& c) {
  const Graph graph = c.op().graph("inside");
  for (const ValueId id : graph.outputs()) c.result(graph.type(id));
}
constexpr AttributeSpec held_attributes[] = {{"inside", AttributeKind::graph},
                                             {"num_given", AttributeKind::integer}};
std::vector<RegionBinding> bindings_of_held(const Op& op) {
  const Graph graph = op.graph("inside");
  std::vector<RegionBinding> region_bindings;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    region_bindings.push_back({.operands = {i}, .inputs = {{0, i}}, .count = "num_given"});
  for (std::size_t k = 0; k < graph.outputs().size(); ++k)
    region_bindings.push_back({.results = {k}, .outputs = {{0, k}}});
  return region_bindings;
}
constinit const Primitive held{.name = "test.held",
                               .arity = variadic,
                               .num_outputs = variadic,
                               .attributes = held_attributes,
                               .traits = Trait::holds_graph,
                               .infer = infer_held,
                               .region_bindings = bindings_of_held};
constinit const Primitive held_whole{.name = "test.held_whole",
                                     .arity = variadic,
                                     .num_outputs = variadic,
                                     .attributes = held_attributes,
                                     .traits = Trait::holds_graph,
                                     .infer = infer_held};
constinit const Primitive held_wrongly{.name = "test.held_wrongly",
                                       .arity = variadic,
                                       .num_outputs = variadic,
                                       .attributes = held_attributes,
                                       .traits = Trait::holds_graph,
                                       .infer = infer_held,
                                       .region_bindings = [](const Op& op) {
                                         std::vector<RegionBinding> region_bindings = bindings_of_held(op);
                                         region_bindings.pop_back();
                                         return region_bindings;
                                       }};
constinit const Primitive drawn{.name = "test.drawn",
                                .traits = Trait::impure | Trait::no_tangent,
                                .infer = [](InferContext& c) { c.result(c.operand(0)); }};

Graph holding(const Primitive& primitive, bool impure) {
  static const PrimitiveSet set = standard_primitives().with({&held, &held_whole, &held_wrongly, &drawn});
  GraphBuilder b("inside", set);
  const Value x = b.input("x", v3), y = b.input("y", v3);
  const Value second = impure ? b.emit(Op::make(drawn), std::vector{y})[0] : ops::exp(y);
  const Graph inside = b.build({ops::sin(x), second});
  GraphBuilder g("f", set);
  const std::vector<Value> operands{g.input("x", v3), ops::cos(g.input("y", v3))};
  return g.build({g.emit(Op::make(primitive, {{"inside", inside}, {"num_given", 2}}), operands)[0]});
}

TEST_CASE("[dead code] a primitive of somebody else's is cut by its rule, and without one it is not") {
  const Graph cut = eliminate_dead_code(holding(held, false));
  const Found operation = find(cut, "test.held");
  CHECK(cut.num_operations() == 1);
  CHECK(operation.num_inputs() == 1);
  CHECK(operation.op().integer("num_given") == 1);
  CHECK(names_of(operation.op().graph("inside")) == Words{"x"});
  CHECK(Program::make(holding(held, false)).graph().num_operations() == 1);
  CHECK(eliminate_dead_code(holding(held_whole, false)).num_operations() == 2);
  CHECK_THROWS_WITH_AS(eliminate_dead_code(holding(held_wrongly, false)),
                       "[test.held_wrongly] the binding rule left out, or gave twice, a result of the "
                       "operation or of its graphs",
                       Error);
}

TEST_CASE("[dead code] operations with effects are unchanged, with all of their operands") {
  for (const Primitive* primitive : {&held, &held_whole}) {
    const Graph graph = holding(*primitive, true);
    CHECK(eliminate_dead_code(graph).share() == graph.share());
    CHECK(find(Program::make(graph).graph(), primitive->name).num_inputs() == 2);
  }
}

TEST_CASE("[dead code] linear operations keep the roles of the operands that are left") {
  GraphBuilder b("step");
  const Value s = b.input("s", v3), t = b.input("t", v3), x = b.input("x", v3);
  const Graph body = b.build({t * s, t * x});
  GraphBuilder g("f");
  const std::vector<Value> operands{g.input("s", v3), g.input("t", v3), g.input("x", rows)};
  const Graph f = g.build({ops::scan(body, operands, {4, false, 1, 1})[0]});
  const Linearization lin = linearize(f, {.wrt = std::vector<std::size_t>{1}, .context = nullptr});
  const Graph cut = eliminate_dead_code(lin.linear);
  verify(cut);
  const Found scan = find(cut, "scan");
  REQUIRE(scan.num_inputs() == 2);  // the residual s and the tangent
  CHECK(scan.num_outputs() == 1);
  CHECK_FALSE(scan.is_linear_in(0));
  CHECK(scan.is_linear_in(1));
}

TEST_CASE("[dead code] operations that are equal inside are reduced to the union of their live results") {
  const Graph inner = step();
  GraphBuilder b("outer step");
  std::vector<Value> operands;
  for (const char* name : {"a", "b", "p", "q", "x", "u"}) operands.push_back(b.input(name, v3));
  const Values once = ops::call(inner, operands);
  std::vector<Value> again = operands;
  again[2] = once[0];
  const Values twice = ops::call(inner, again);
  const Graph body = b.build({twice[0], once[1], ops::exp(once[2]), once[3]});
  const Found scan = find(eliminate_dead_code(scan_of(body, {0, 2})), "scan");
  const Graph left = scan.op().graph("body");
  CHECK(names_of(left) == Words{"a", "b", "p", "q", "x"});
}

// --- time

// Carry k becomes carry k + 1, of which the last is read: each needs the one before.
Graph chained(std::size_t count) {
  GraphBuilder b("step");
  std::vector<Value> inputs, outputs;
  for (std::size_t k = 0; k < count; ++k) inputs.push_back(b.input(detail::str('c', k), f64));
  const Value unread = b.input("unread", f64);
  for (std::size_t k = 0; k < count; ++k) outputs.push_back(inputs[k == 0 ? 0 : k - 1]);
  outputs.push_back(ops::sin(unread));
  const Graph body = b.build(outputs);
  GraphBuilder g("f");
  std::vector<Value> operands;
  for (std::size_t k = 0; k <= count; ++k) operands.push_back(g.input(detail::str('c', k), f64));
  return g.build({ops::scan(body, operands, {3, false, 0, count + 1})[count - 1]});
}

TEST_CASE("[dead code] 200,000 carries, each of which needs the one before, are looked at once each") {
  const Graph cut = eliminate_dead_code(chained(200000));
  const Found scan = find(cut, "scan");
  CHECK(scan.num_inputs() == 200000);
  CHECK(scan.num_outputs() == 200000);
  CHECK_FALSE(has(scan.op().graph("body"), "sin"));
}

TEST_CASE("[dead code] graphs that hold one another twice, 60 deep, are looked at once each") {
  GraphBuilder innermost("level 0");
  const Value x = innermost.input("x", f64), y = innermost.input("y", f64);
  Graph graph = innermost.build({ops::sin(x), ops::exp(y)});
  for (int level = 1; level < 60; ++level) {
    GraphBuilder b(detail::str("level ", level));
    const std::vector<Value> inputs{b.input("x", f64), b.input("y", f64)};
    const Values once = ops::call(graph, inputs);
    const Values twice = ops::call(graph, std::vector{once[0], once[1]});
    graph = b.build({twice[0], twice[1]});
  }
  GraphBuilder b("step");
  const std::vector<Value> carries{b.input("x", f64), b.input("y", f64)};
  const Values results = ops::call(graph, carries);
  const Graph body = b.build({results[0], results[1]});
  GraphBuilder g("f");
  const std::vector<Value> operands{g.input("x", f64), g.input("y", f64)};
  const Graph cut = eliminate_dead_code(g.build({ops::scan(body, operands, {2, false, 0, 2})[1]}));
  Graph at = find(cut, "scan").op().graph("body");
  for (int level = 60; level > 0; --level) {
    CHECK(names_of(at) == Words{"y"});
    CHECK(at.num_operations() == (level == 60 ? 1 : 2));
    at = at.operation(0).op().graph("graph");
  }
  CHECK(has(at, "exp"));
  CHECK_FALSE(has(at, "sin"));
}

}  // namespace demanded_elements_cases
}  // namespace
}  // namespace tidu
