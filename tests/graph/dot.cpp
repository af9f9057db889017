// Graphviz text: its contents and the escaping of names; and Graphviz accepts the text, if it is installed.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <tidu/graph/dot.hpp>

#include "support/support.hpp"
#include "support/test_primitives.hpp"

namespace tidu {
namespace {

using test::test_set;

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Graph sample() {
  GraphBuilder inner("inner", test_set());
  const Value a = inner.input("a", Type(f64, {3}));
  const Graph held = inner.build({test::sin(a), test::add(a, a)});
  GraphBuilder builder("a \"quoted\" \\ name", test_set());
  const Value x = builder.input("x\"\\n\n{|}<b>", Type(f64, {3}));
  const Value e = builder.external(ValueKey{Key128{0xabcdef, 2}}, Type(f64, {3}));
  const Values pair = test::call(held, std::vector{x});
  const Values again = test::call(held, std::vector{e});
  const bool linear[] = {false, true};
  GraphBuilder::Extra extra;
  extra.role = builder.make_role(linear);
  extra.where = builder.intern_where("model.cpp:7");
  const std::vector<ValueId> ids{pair[0].id(), pair[1].id()};
  const Value y = builder.value(builder.add(plain_op<test::mul_p>().record(), ids, extra));
  builder.set_label(pair[1], "doubled");
  return builder.build({y, again[0], x});
}

TEST_CASE("a graph is drawn with its interface, roles, labels and inner graphs") {
  const std::string text = to_dot(sample());
  CHECK(count(text, "fillcolor=\"#d5f0d5\"") == 2);  // inputs, the inner one too
  CHECK(count(text, "style=\"filled,dashed\"") == 1);
  CHECK(count(text, "fillcolor=\"#ffdfb0\"") == 1);
  CHECK(count(text, "penwidth=2") == 1);
  CHECK(count(text, "doublecircle") == 5);
  CHECK(count(text, "subgraph cluster_") == 1);
  CHECK(count(text, "doubled: f64[3]") == 1);
  CHECK(text.find("digraph \"a \\\"quoted\\\" \\\\ name\" {") == 0);
  CHECK(text.find("x\\\"\\\\n\\n{|}<b>\\nf64[3]") != std::string::npos);
  CHECK(count(to_dot(sample(), {.inner_graphs = false}), "subgraph") == 0);
  const Graph graph = sample();
  const std::string key = to_hex(graph.key(graph.inputs()[0]));
  CHECK(count(text, key) == 0);
  CHECK(count(to_dot(graph, {.keys = true}), "\\nf64[3]\\n" + key) == 1);
}

TEST_CASE("of a large graph the first operations are drawn") {
  GraphBuilder builder("g", test_set());
  Value x = builder.input("x", f64);
  for (int i = 0; i < 100; ++i) x = test::sin(x);
  const std::string text = to_dot(builder.build({x}), {.max_operations = 10});
  CHECK(count(text, "label=\"sin\"") == 10);
  CHECK(count(text, "90 further operations are not drawn") == 1);
}

TEST_CASE("Graphviz takes the text") {
  if (std::system("command -v dot > /dev/null 2>&1") != 0) return;
  const auto path =
      std::filesystem::temp_directory_path() / detail::str("tidu_dot_", to_hex(detail::random_key()), ".dot");
  std::ofstream(path) << to_dot(sample());
  CHECK(std::system(detail::str("dot -Tsvg -o /dev/null '", path.string(), "'").c_str()) == 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tidu
