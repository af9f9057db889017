// resolve, KeyIndex and materialize_merge.
#include <doctest/doctest.h>

#include <algorithm>
#include <tidu/graph/json.hpp>
#include <tidu/graph/merge.hpp>

#include "support/probe.hpp"
#include "support/test_primitives.hpp"

namespace tidu {
namespace {

using test::message_of;
using test::test_set;

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < graph.num_operations(); ++i) all.emplace_back(graph.operation(i).name());
  return all;
}

// f(x) = x x, sin(x x)
Graph primal() {
  GraphBuilder builder("primal", test_set());
  const Value x = builder.input("x", Type(f64, {3}));
  const Value square = test::mul(x, x);
  return builder.build({square, test::sin(square)});
}

TEST_CASE("resolve finds inputs and results by key, never externals") {
  const Graph a = primal();
  GraphBuilder builder("b", test_set());
  const Value e = builder.external(a.key(a.outputs()[0]), a.type(a.outputs()[0]));
  const Graph b = builder.build({test::sin(e), test::add(e, e)});
  const std::vector graphs{b, a};
  const KeyIndex index(graphs);
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    for (ValueId id = 0; id < graphs[g].num_values(); ++id) {
      const auto found = index.find(graphs[g].key(id));
      REQUIRE(found);
      CHECK(found == resolve(graphs, graphs[g].key(id)));
      CHECK_FALSE(graphs[found->graph].is_external(found->value));
      CHECK(graphs[found->graph].key(found->value) == graphs[g].key(id));
    }
  }
  CHECK_FALSE(index.find(ValueKey{Key128{1, 2}}));
  CHECK_FALSE(resolve(graphs, ValueKey{Key128{1, 2}}));
  CHECK_FALSE(KeyIndex({}).find(ValueKey{}));
}

TEST_CASE(
    "externals are resolved, equal operations merged, dead ones dropped, whatever the order of the graphs") {
  const Graph a = primal();
  GraphBuilder builder("b", test_set());
  const Value e = builder.external(a.key(a.outputs()[0]), a.type(a.outputs()[0]));
  test::add(e, e);
  const Graph b = builder.build({test::mul(test::sin(e), e)});
  for (const std::vector<Graph>& graphs : {std::vector{a, b}, std::vector{b, a}}) {
    const Graph merged = materialize_merge(graphs);
    verify(merged);
    CHECK(merged.externals().empty());
    CHECK(merged.inputs().size() == 1);
    CHECK(merged.outputs().size() == 3);
    CHECK(merged.num_operations() == 3);  // mul, sin, mul
    for (const ValueId id : merged.outputs()) CHECK(resolve(graphs, merged.key(id)).has_value());
  }
  const Graph alone = materialize_merge(std::vector{b});
  CHECK(alone.externals().size() == 1);
  CHECK(names(alone) == std::vector<std::string>{"sin", "mul"});
}

TEST_CASE("graphs may name values of each other") {
  GraphBuilder first("first", test_set());
  const Value x = first.input("x", f64);
  const Value y = test::sin(x);
  const Graph probe = materialize_merge(std::vector{Graph(first.build({y}))});
  GraphBuilder second("second", test_set());
  const Value z = test::mul(second.external(probe.key(probe.outputs()[0]), f64),
                            second.external(probe.key(probe.outputs()[0]), f64));
  const Graph b = second.build({z});
  GraphBuilder third("third", test_set());
  const Value sin_x = test::sin(third.input("x", f64));
  const Graph a = third.build({sin_x, test::add(third.external(b.key(b.outputs()[0]), f64), sin_x)});
  for (const std::vector<Graph>& graphs : {std::vector{a, b}, std::vector{b, a}}) {
    const Graph merged = materialize_merge(graphs);
    verify(merged);
    CHECK(merged.externals().empty());
    CHECK(names(merged) == std::vector<std::string>{"sin", "mul", "add"});
  }
}

TEST_CASE("substitution puts a value in the place of an input") {
  const Graph a = primal();
  GraphBuilder builder("outer", test_set());
  const Value y = builder.input("y", Type(f64, {3}));
  const Graph b = builder.build({test::add(y, y)});
  const InputKey x = InputKey::named("x");
  const std::vector graphs{a, b};
  const std::vector outputs{a.key(a.outputs()[1])};
  const Graph merged =
      materialize_merge(graphs, outputs, std::vector<Substitution>{{x, b.key(b.outputs()[0])}});
  verify(merged);
  CHECK(names(merged) == std::vector<std::string>{"add", "mul", "sin"});
  CHECK(merged.inputs().size() == 1);
  CHECK(merged.input_name(0) == "y");
  // the same, written down by hand, has the same keys
  GraphBuilder direct("direct", test_set());
  const Value w = direct.input("y", Type(f64, {3}));
  const Value s = test::add(w, w);
  const Graph wanted = direct.build({test::sin(test::mul(s, s))});
  CHECK(wanted.key(wanted.outputs()[0]) == merged.key(merged.outputs()[0]));
  // swapping two inputs is no cycle
  GraphBuilder two("two", test_set());
  const Value p = two.input("p", f64);
  const Value q = two.input("q", f64);
  const Graph pair = two.build({test::add(p, test::sin(q))});
  const auto at = [](const Graph& graph, std::size_t input) { return graph.key(graph.inputs()[input]); };
  const Graph same =
      materialize_merge(std::vector{pair}, std::vector<Substitution>{{InputKey::named("p"), at(pair, 1)}});
  CHECK(same.inputs().size() == 1);
  const auto refused = [](const std::vector<Graph>& all, const std::vector<Substitution>& with) {
    return message_of([&] { static_cast<void>(materialize_merge(all, with)); });
  };
  CHECK(refused({pair}, {{InputKey::named("p"), at(pair, 1)}, {InputKey::named("q"), at(pair, 0)}})
            .find("depend on themselves") != std::string::npos);
  CHECK(refused({a}, {{x, a.key(a.outputs()[0])}}).find("depend on themselves, got value 1 of \"primal\"") !=
        std::string::npos);
  CHECK(refused({a, pair}, {{x, at(pair, 0)}})
            .find("expected f64[3] for the input value 0 (x) of \"primal\", got f64[]") != std::string::npos);
  CHECK(refused({a}, {{InputKey::named("nobody"), a.key(0)}}).find("expected the key of an input") !=
        std::string::npos);
  CHECK(refused({a}, {{x, ValueKey{Key128{5, 5}}}}).find("expected the key of a value") != std::string::npos);
  CHECK(refused({a, b}, {{x, b.key(0)}, {x, b.key(1)}}).find("second one") != std::string::npos);
  CHECK(refused({}, {}).find("at least one graph") != std::string::npos);
}

TEST_CASE("inputs of one key are one input, of one type") {
  GraphBuilder builder("g", test_set());
  const Value x = builder.input("x", f64);
  const Graph g = builder.build({x});
  CHECK_THROWS_WITH_AS(static_cast<void>(materialize_merge(std::vector{primal(), g})),
                       doctest::Contains("expected f64[3] for the input value 0 (x) of \"g\""), Error);
  GraphBuilder wrong("w", test_set());
  const Graph a = primal();
  const Value e = wrong.external(a.key(a.outputs()[0]), f64);
  const Graph w = wrong.build({e});
  CHECK_THROWS_WITH_AS(static_cast<void>(materialize_merge(std::vector{a, w})),
                       doctest::Contains("for the external"), Error);
}

TEST_CASE("impure operations are kept once each") {
  GraphBuilder builder("g", test_set());
  const Value x = builder.input("x", f64);
  test::draw(x);
  const Graph g = builder.build({test::draw(x)});
  const auto extended = GraphBuilder::extending(g);
  const Graph h = extended->build({test::sin(extended->value(g.outputs()[0]))});
  const Graph merged = materialize_merge(std::vector{g, h});
  verify(merged);
  CHECK(names(merged) == std::vector<std::string>{"draw", "draw", "sin"});
  CHECK(merged.key(merged.outputs()[0]) == g.key(g.outputs()[0]));
}

TEST_CASE("roles, origins, places and labels survive a merge") {
  const Graph a = primal();
  GraphBuilder builder("linear", test_set());
  const Value e = builder.external(a.key(a.outputs()[0]), Type(f64, {3}));
  const Value t = builder.input("t", Type(f64, {3}));
  const bool linear[] = {false, true};
  GraphBuilder::Extra extra;
  extra.role = builder.make_role(linear);
  extra.origin = 1;  // the sin of the primal graph
  extra.where = builder.intern_where("model.cpp:7");
  const std::vector<ValueId> ids{e.id(), t.id()};
  const ValueId out = builder.add(plain_op<test::mul_p>().record(), ids, extra);
  builder.set_label(builder.value(out), "tangent");
  const Graph b = builder.build_ids({out});
  const Graph merged = materialize_merge(std::vector{a, b});
  const Operation last = merged.operation(2);
  CHECK(last.is_linear_in(1));
  CHECK_FALSE(last.is_linear_in(0));
  CHECK(merged.operation(last.origin()).name() == "sin");
  CHECK(last.where() == "model.cpp:7");
  CHECK(merged.label(last.output()) == "tangent");
  const std::string text = to_json(merged);
  CHECK(to_json(graph_from_json(text, test_set())) == text);
}

}  // namespace
}  // namespace tidu
