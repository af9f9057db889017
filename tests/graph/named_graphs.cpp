// Graphs that a dump names and that refer to one another, and deferred graphs as attributes.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>

#include "tidu/graph/builder.hpp"
#include "tidu/graph/deferred_graph.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace {

using namespace tidu;

// exp, of which the JVP rule is by exp itself, and a graph that calls it.
std::shared_ptr<const DeferredGraph> rule_of_exp();
Graph exponential() {
  GraphBuilder b("exponential");
  return b.build({ops::exp(b.input("x", Type(f64)))});
}
Value call_exponential(Emitter& emitter, Value x) {
  const Op op = Op::make(prim::custom_jvp_call, {{"graph", exponential()}, {"jvp", rule_of_exp()}});
  return emitter.emit(op, std::span(&x, 1))[0];
}
std::shared_ptr<const DeferredGraph> rule_of_exp() {
  return std::make_shared<const DeferredGraph>("rule", Key128{1, 2}, [] {
    GraphBuilder b("rule of exponential");
    const Value x = b.input("x", Type(f64)), dx = b.input("dx", Type(f64));
    const Value y = call_exponential(b, x);
    return b.build({y, y * dx});
  });
}
Graph caller() {
  GraphBuilder b("caller");
  return b.build({call_exponential(b, b.input("x", Type(f64)))});
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a dump has a rule that refers to itself once, by its name, and gives it back") {
  const std::string dump = to_json(caller());
  CHECK(dump.find("\"jvp\": \"rule\"") != std::string::npos);
  CHECK(dump.find("\"graphs\": {\n  \"rule\": {\"format\"") != std::string::npos);
  CHECK(dump.find("\"rule of exponential\"") == dump.rfind("\"rule of exponential\""));
  const Graph loaded = graph_from_json(dump);
  CHECK(to_json(loaded) == dump);
  const Graph rule = loaded.operation(0).op().graph("jvp");
  CHECK(rule.name() == "rule of exponential");
  // The operation in the rule is the one outside.
  CHECK(rule.operation(0).op() == loaded.operation(0).op());
  CHECK(rule.operation(0).op().graph("jvp").structural_key() == rule.structural_key());
  CHECK(to_json(graph_from_json(to_json(rule))) == to_json(rule));
}

TEST_CASE("wrong names of graphs in a dump are refused, with the expected ones") {
  const std::string dump = to_json(caller());
  const auto refused = [](const std::string& text, const char* message) {
    CHECK_THROWS_WITH_AS(graph_from_json(text), doctest::Contains(message), Error);
  };
  refused(with(dump, "\"jvp\": \"rule\"", "\"jvp\": \"rules\""),
          "expected a graph, or the name of one of \"graphs\", got \"rules\"");
  refused(with(dump, "\"graph\": {", "\"graph\": \"rule\", \"unused\": {"), "unused");
  refused(with(dump, "\"graphs\": {", "\"graphs\": {\"rule\": 1,"),
          "expected each of \"graphs\" once, got \"rule\" twice");
  refused(with(dump, "\"graphs\": {", "\"graphs\": {\"other\": 1,"),
          "expected a graph to be an object, got 1");
  refused(with(dump, "\"graphs\": {", "\"graphs\": [], \"graph\": {"), "graph");
}

TEST_CASE("a rule that a dump names and that does not fit is refused when a derivative asks for it") {
  std::string dump = to_json(caller());
  const std::size_t outputs = dump.rfind("\"outputs\": [");
  dump.replace(outputs, dump.find(']', outputs) - outputs, "\"outputs\": [0");
  const Graph loaded = graph_from_json(dump);
  CHECK_THROWS_WITH_AS(grad(loaded),
                       doctest::Contains("[custom_jvp_call] expected 2 outputs, got 1 of graph jvp"), Error);
}

TEST_CASE("any graph in an attribute may be written by its name") {
  GraphBuilder b("outer");
  const Value x = b.input("x", Type(f64));
  const Graph graph = b.build(ops::call(b, exponential(), std::span(&x, 1)));
  std::string dump = to_json(graph);
  const std::size_t from = dump.find("{\"graph\": ") + 10;
  std::size_t to = from;
  for (int open = 0; to == from || open != 0; ++to) open += dump[to] == '{' ? 1 : dump[to] == '}' ? -1 : 0;
  const std::string inner = dump.substr(from, to - from);
  dump = with(dump, inner, "\"inner\"");
  dump = dump.substr(0, dump.rfind('}')) + ", \"graphs\": {\"inner\": " + inner + "}}";
  CHECK(graph_from_json(dump).structural_key() == graph.structural_key());
  // But it cannot contain itself.
  const std::string itself =
      with(dump, "{\"op\": \"exp\"", "{\"op\": \"call\", \"attrs\": {\"graph\": \"inner\"}");
  CHECK_THROWS_WITH_AS(graph_from_json(itself), doctest::Contains("expected graphs nested at most"), Error);
}

TEST_CASE("graphs that are deferred anew without end are refused in a dump") {
  struct Anew {
    static std::shared_ptr<const DeferredGraph> rule(std::uint64_t level) {
      return std::make_shared<const DeferredGraph>("rule", Key128{3, level}, [level] {
        GraphBuilder b("rule");
        const Value x = b.input("x", Type(f64)), dx = b.input("dx", Type(f64));
        const Op op = Op::make(prim::custom_jvp_call, {{"graph", exponential()}, {"jvp", rule(level + 1)}});
        const Value y = b.emit(op, std::span(&x, 1))[0];
        return b.build({y, y * dx});
      });
    }
  };
  GraphBuilder b("caller");
  const Value x = b.input("x", Type(f64));
  const Op op = Op::make(prim::custom_jvp_call, {{"graph", exponential()}, {"jvp", Anew::rule(0)}});
  const Graph graph = b.build({b.emit(op, std::span(&x, 1))[0]});
  CHECK_THROWS_WITH_AS(to_json(graph),
                       doctest::Contains("is the rule of a function that each rule makes anew"), Error);
}

TEST_CASE("the function that makes a deferred graph may fail, and is called again") {
  int calls = 0;
  const DeferredGraph deferred("later", Key128{5, 6}, [&calls] {
    if (++calls == 1) throw Error(ErrorKind::internal, "not now");
    return exponential();
  });
  CHECK_THROWS_AS(deferred.get(), Error);
  const Graph first = deferred.get();
  CHECK(deferred.get().share() == first.share());
  CHECK(calls == 2);
}

}  // namespace
