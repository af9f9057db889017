// Dumps: byte-exact round trips, the layout itself, other layouts.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <tidu/graph/json.hpp>
#include <tidu/graph/literal_json.hpp>

#include "support/support.hpp"
#include "support/test_primitives.hpp"

namespace tidu {
namespace {

using test::test_set;

void check_round_trip(const std::string& text) {
  const Graph graph = graph_from_json(text, test_set());
  verify(graph);
  CHECK(to_json(graph) == text);
  const std::string keyed = to_json(graph, {.keys = true});
  CHECK(to_json(graph_from_json(keyed, test_set()), {.keys = true}) == keyed);
}

TEST_CASE("a dump is laid out as the format says") {
  GraphBuilder builder("f", test_set());
  const Value x = builder.input("x", Type(f64, {3}));
  const Graph graph = builder.build({test::mul(x, x)});
  const std::string text = R"({"format": "tidu.graph", "version": 1, "name": "f",
 "values": [
  {"id": 0, "dtype": "f64", "shape": [3], "name": "x"},
  {"id": 1, "dtype": "f64", "shape": [3]}],
 "inputs": [0],
 "operations": [
  {"op": "mul", "inputs": [0, 0], "outputs": [1]}],
 "outputs": [1]}
)";
  CHECK(to_json(graph) == text);
  check_round_trip(text);
  const std::string compact =
      R"({"outputs":[1],"operations":[{"outputs":[1],"inputs":[0,0],"op":"mul","attrs":{}}],"inputs":[0],)"
      R"("values":[{"name":"x","shape":[3],"dtype":"f64","id":0},{"shape":[3],"id":1,"dtype":"f64"}],"name":"f","version":1,"format":"tidu.graph"})";
  CHECK(to_json(graph_from_json(compact, test_set())) == text);
}

TEST_CASE("ids, order, duplicates, dead operations, roles, origins and places come back") {
  check_round_trip(R"({"format": "tidu.graph", "version": 1, "name": "odd \"name\" \u0001 \\ gradient 梯度",
 "values": [
  {"id": 0, "dtype": "f64", "shape": [2, 3], "name": "second result"},
  {"id": 1, "dtype": "f64", "shape": [2, 3]},
  {"id": 2, "dtype": "f64", "shape": [2, 3], "input_key": "00112233445566778899aabbccddeeff"},
  {"id": 3, "dtype": "f64", "shape": [2, 3], "name": "x"},
  {"id": 4, "dtype": "f64", "shape": [2, 3]},
  {"id": 5, "dtype": "f64", "shape": [2, 3], "name": "label", "input_key": "ff112233445566778899aabbccddeeff"},
  {"id": 6, "dtype": "f64", "shape": [2, 3]},
  {"id": 7, "dtype": "f64", "shape": [2, 3], "name": "residual"}],
 "inputs": [3, 2, 5],
 "externals": [{"id": 7, "key": "0123456789abcdef0123456789abcdef"}],
 "operations": [
  {"op": "twins", "inputs": [3], "outputs": [4, 0], "where": "model.cpp:12"},
  {"op": "mul", "inputs": [7, 2], "outputs": [6], "role": {"linear": [false, true]}, "origin": 0},
  {"op": "mul", "inputs": [7, 2], "outputs": [1], "role": {"linear": [false, false]}, "origin": 1, "where": "a b:1"}],
 "outputs": [1, 4, 1, 3]}
)");
  check_round_trip(
      "{\"format\": \"tidu.graph\", \"version\": 1, \"name\": \"\",\n \"values\": [],\n \"inputs\": [],\n"
      " \"operations\": [],\n \"outputs\": []}\n");
}

TEST_CASE("attributes of every kind come back, in the order of the schema, without those at their defaults") {
  GraphBuilder builder("kinds", test_set());
  const Value x = builder.input("x", Type(f32, {2}));
  const Value y = emit1(test::kinds_op(), {x});
  const Value z = emit1(test::kinds_op(std::numeric_limits<double>::quiet_NaN()), {y});
  GraphBuilder inner("inner", test_set());
  const Value a = inner.input("a", Type(f32, {2}));
  const Graph held = inner.build({test::sin(a), test::add(a, a)});
  const Values pair = test::call(held, std::vector{z});
  const std::string text = to_json(builder.build({pair[1], pair[0]}));
  CHECK(
      text.find(
          R"("attrs": {"flag": true, "count": -3, "dtype": "f32", "number": 0.5, "axes": [0, 2], "lists": [[1, -2, 0], []], )"
          R"("dot": [[[1], [0]], [[], []]], "conv": {"lhs_spec": [0, 1], "rhs_spec": [1, 0], "out_spec": [0, 1]}, )"
          R"("value": {"dtype": "f32", "shape": [2], "data": [1.5, -0.0]}, "policy": "everything"}})") !=
      std::string::npos);
  CHECK(text.find(R"("number": "nan")") != std::string::npos);
  CHECK(
      text.find(
          R"("attrs": {"graph": {"format": "tidu.graph", "version": 1, "name": "inner", "values": [{"id": 0, "dtype": "f32", )"
          R"("shape": [2], "name": "a"}, {"id": 1, )") != std::string::npos);
  check_round_trip(text);
}

TEST_CASE("graphs inside graphs in attributes keep names of their own") {
  const auto held = [](std::string_view name, std::string_view operation) {
    return detail::str(R"({"format": "tidu.graph", "version": 1, "name": ")", name,
                       R"(", "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"},)",
                       R"( {"id": 1, "dtype": "f64", "shape": []}], "inputs": [0], "operations": [{"op": )",
                       operation, R"(}], "outputs": [1]})");
  };
  const auto outer = [&](std::string_view name) {
    return held("outer", detail::str(R"("call", "inputs": [0], "outputs": [1], "attrs": {"graph": )",
                                     held(name, R"("sin", "inputs": [0], "outputs": [1])"), "}"));
  };
  check_round_trip(detail::str(R"({"format": "tidu.graph", "version": 1, "name": "f",
 "values": [
  {"id": 0, "dtype": "f64", "shape": [], "name": "x"},
  {"id": 1, "dtype": "f64", "shape": []},
  {"id": 2, "dtype": "f64", "shape": []}],
 "inputs": [0],
 "operations": [
  {"op": "call", "inputs": [0], "outputs": [1], "attrs": {"graph": )",
                               outer("a"), R"(}},
  {"op": "call", "inputs": [0], "outputs": [2], "attrs": {"graph": )",
                               outer("b"), R"(}}],
 "outputs": [1, 2]}
)"));
}

TEST_CASE("graphs in attributes keep ids and names of their own") {
  const auto dump = [](std::string_view input, int first) {
    return detail::str(
        R"({"format": "tidu.graph", "version": 1, "name": "n", "values": [{"id": 0, "dtype": "f64", "shape": []},)",
        R"( {"id": 1, "dtype": "f64", "shape": [], "name": ")", input,
        R"("}, {"id": 2, "dtype": "f64", "shape": []}], "inputs": [1], "operations": [{"op": "twins", "inputs": [1], )",
        R"("outputs": [)", first, ", ", 2 - first, R"(]}], "outputs": [0]})");
  };
  check_round_trip(detail::str(R"({"format": "tidu.graph", "version": 1, "name": "f",
 "values": [
  {"id": 0, "dtype": "f64", "shape": [], "name": "x"},
  {"id": 1, "dtype": "f64", "shape": []},
  {"id": 2, "dtype": "f64", "shape": []},
  {"id": 3, "dtype": "f64", "shape": []}],
 "inputs": [0],
 "operations": [
  {"op": "call", "inputs": [0], "outputs": [1], "attrs": {"graph": )",
                               dump("a", 0), R"(}},
  {"op": "call", "inputs": [0], "outputs": [2], "attrs": {"graph": )",
                               dump("b", 0), R"(}},
  {"op": "call", "inputs": [0], "outputs": [3], "attrs": {"graph": )",
                               dump("a", 2), R"(}}],
 "outputs": [1, 2, 3]}
)"));
}

TEST_CASE("the result of an impure operation keeps its key in a dump with keys") {
  GraphBuilder builder("f", test_set());
  const Value x = builder.input("x", f64);
  const Graph graph = builder.build({test::sin(test::draw(x)), test::draw(x)});
  const Graph again = graph_from_json(to_json(graph, {.keys = true}), test_set());
  for (std::size_t i = 0; i < 2; ++i) CHECK(again.key(again.outputs()[i]) == graph.key(graph.outputs()[i]));
}

TEST_CASE("inputs whose names are not UTF-8 come back apart, under their keys") {
  GraphBuilder builder("f", test_set());
  const Value a = builder.input("\xff", Type(f64, {})), b = builder.input("\xfe", Type(f64, {}));
  const Graph graph = builder.build({a, b});
  for (const bool keys : {false, true}) {
    DumpOptions options;
    options.keys = keys;
    const std::string text = to_json(graph, options);
    const Graph back = graph_from_json(text, test_set());
    for (std::size_t i = 0; i < 2; ++i) CHECK(back.input_key(i).bits() == graph.input_key(i).bits());
    CHECK(to_json(back, options) == text);
  }
}

TEST_CASE("random graphs come back with shuffled ids") {
  std::mt19937_64 random(20);
  for (std::size_t n = 0; n < test::scaled(200); ++n) {
    GraphBuilder builder(detail::str("g", n), test_set(), {.deduplicate = false});
    std::vector<Value> values{builder.input("x", Type(f64, {2})), builder.input("y", Type(f64, {2}))};
    const auto pick = [&] { return values[random() % values.size()]; };
    for (int i = 0; i < 30; ++i) {
      switch (random() % 4) {
        case 0: values.push_back(test::sin(pick())); break;
        case 1: values.push_back(test::add(pick(), pick())); break;
        case 2: values.push_back(test::mul(pick(), pick())); break;
        default:
          for (const Value v : test::twins(pick())) values.push_back(v);
      }
    }
    std::vector<ValueId> ids(builder.num_values());
    for (ValueId i = 0; i < ids.size(); ++i) ids[i] = i;
    std::shuffle(ids.begin(), ids.end(), random);
    builder.set_dump_ids(ids);
    check_round_trip(to_json(builder.build({pick(), pick()})));
  }
}

TEST_CASE("every f32 comes back, also where reading it as f64 first rounds it midway between two") {
  const auto comes_back = [](float value) {
    const float values[] = {value, -value};
    const Literal literal = Literal::of<float>(Type(f32, {2}), values);
    return literal_from_json(to_json(literal)) == literal;
  };
  CHECK(comes_back(7.038531e-26F));
  std::mt19937 random(6);
  for (std::size_t n = 0; n < test::scaled(200'000); ++n) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!comes_back(value)) FAIL("f32 ", value, " does not come back");
  }
}

}  // namespace
}  // namespace tidu
