// Graphs that hold one graph several times: writing them takes time proportional to the distinct ones, or
// throws.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tidu/graph/builder.hpp>
#include <tidu/graph/dot.hpp>
#include <tidu/graph/html.hpp>
#include <tidu/graph/json.hpp>
#include <vector>

#include "support/probe.hpp"
#include "support/test_primitives.hpp"

namespace tidu::shared_graphs_cases {
namespace {

using test::test_set;

// Each calls the one before twice: the innermost occurs 2^depth times.
Graph doubling(Graph graph, std::uint32_t depth) {
  for (std::uint32_t i = 1; i <= depth; ++i) {
    GraphBuilder builder(detail::str("g", i), test_set());
    const Value x = builder.input("x", f64);
    const Value once = test::call(graph, std::vector{x})[0];
    graph = builder.build({test::call(graph, std::vector{once})[0]});
  }
  return graph;
}
Graph sine() {
  GraphBuilder builder("g0", test_set());
  return builder.build({test::sin(builder.input("x", f64))});
}

std::size_t places(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST_CASE("a dump writes a shared graph in every place, up to a limit") {
  const std::string text = to_json(doubling(sine(), 9));
  CHECK(places(text, R"("op": "sin")") == 512);
  CHECK(to_json(graph_from_json(text, test_set())) == text);
  // 63 doublings are the deepest; with one more level their number goes beyond 64 bits.
  const Graph deepest = doubling(sine(), max_graph_depth - 1);
  GraphBuilder builder("more", test_set());
  const Value x = builder.input("x", f64);
  std::vector<Value> results{x};
  for (int i = 0; i < 4; ++i) results.push_back(test::call(deepest, std::vector{results.back()})[0]);
  for (const Graph& graph : {doubling(sine(), 40), deepest, builder.build({results.back()})}) {
    const std::string message = test::message_of([&] {
      try {
        static_cast<void>(to_json(graph));
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::invalid_argument);
        throw;
      }
    });
    CHECK(message == detail::str("to_json: expected graphs that stand in several places to repeat at most ",
                                 max_repeated_in_dump, " values, operations and elements of tensors, got ",
                                 "more in \"", graph.name(), '"'));
  }
}

TEST_CASE("elements of tensors count towards the repetitions of a dump") {
  GraphBuilder builder("tensor", test_set());
  static_cast<void>(builder.input("x", f64));
  const std::vector<double> numbers(1 << 16);
  const Literal literal = Literal::of<double>(Type(f64, {1 << 16}), numbers);
  const Value tensor = builder.emit(Op::make(test::constant_p, {{"value", literal}}), {})[0];
  static_cast<void>(tensor);
  const Graph graph = builder.build({builder.value(builder.data().inputs[0])});
  CHECK_NOTHROW(static_cast<void>(to_json(doubling(graph, 2))));
  CHECK_THROWS_AS(static_cast<void>(to_json(doubling(graph, 7))), Error);
}

TEST_CASE("drawings and pages show a shared graph once") {
  const Graph graph = doubling(sine(), 40);
  CHECK(places(to_dot(graph), "subgraph") == 40);
  CHECK(places(to_html(graph), R"("format": "tidu.graph")") == 41);
}

}  // namespace
}  // namespace tidu::shared_graphs_cases
