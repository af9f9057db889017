// Dumps that are rejected, by kind and message: each row changes one token of a dump that loads.
#include <doctest/doctest.h>

#include <string>
#include <tidu/graph/json.hpp>
#include <vector>

#include "support/test_primitives.hpp"

namespace tidu::json_refusals_cases {
namespace {

using test::test_set;

constexpr std::string_view good = R"({"format": "tidu.graph", "version": 1, "name": "f",
 "values": [
  {"id": 0, "dtype": "f64", "shape": [3], "name": "x"},
  {"id": 1, "dtype": "f64", "shape": [3], "name": "y"},
  {"id": 2, "dtype": "f64", "shape": [3]},
  {"id": 3, "dtype": "f64", "shape": [3]},
  {"id": 4, "dtype": "f64", "shape": []},
  {"id": 5, "dtype": "f64", "shape": [3], "key": "5"},
  {"id": 6, "dtype": "f64", "shape": [2]},
  {"id": 7, "dtype": "f64", "shape": [3]},
  {"id": 8, "dtype": "f64", "shape": [3]}],
 "inputs": [0, 1],
 "externals": [{"id": 5, "key": "5"}],
 "operations": [
  {"op": "mul", "inputs": [0, 5], "outputs": [2], "role": {"linear": [true, false]}},
  {"op": "sin", "inputs": [2], "outputs": [3], "origin": 0, "where": "a.cpp:1"},
  {"op": "full", "inputs": [], "outputs": [4], "attrs": {"value": 0.5, "dtype": "f64", "shape": []}},
  {"op": "constant", "inputs": [], "outputs": [6], "attrs": {"value": {"dtype": "f64", "shape": [2], "data": [1.5, "nan"]}}},
  {"op": "twins", "inputs": [3], "outputs": [7, 8]}],
 "outputs": [3, 0]}
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The good dump with keys of 32 digits.
std::string base() {
  std::string text(good);
  for (int i = 0; i < 2; ++i)
    text = replaced(text, "\"key\": \"5\"", "\"key\": \"0123456789abcdef0123456789abcdef\"");
  return text;
}

struct Row {
  std::string_view from, to;
  ErrorKind kind;
  std::string_view says;
};

constexpr ErrorKind dump = ErrorKind::dump;
const Row rows[] = {
    // The location is that of the operation, which has none, and not of the one before.
    {"{\"op\": \"full\", \"inputs\": [],", "{\"op\": \"full\",", dump, "got none\n  in operation 2 of \"f\""},
    // text
    {"\"values\": [", "\"values\": ", dump, "in line 4, column 3: "},
    {"\"outputs\": [3, 0]}", "\"outputs\": [3, 0]", dump, "expected JSON, got something else in line 21"},
    {"\"outputs\": [3, 0]}", "\"outputs\": [3, 0]} x", dump, "in line 20"},
    {"[1.5, \"nan\"]", "[1.5, NaN]", dump, "in line 18"},
    {"[1.5, \"nan\"]", "[1.5, 1e999]", dump, "in line 18, column 120: number overflow"},
    {"[1.5, \"nan\"]", "[1.5, Infinity]", dump, "in line 18"},
    {"\"name\": \"x\"", "\"name\": \"\xff\"", dump, "in line 3, column "},
    {"\"name\": \"x\"", "\"name\": \"x", dump, "in line 3, column "},
    // the graph
    {"\"format\": \"tidu.graph\", ", "", dump, "expected a graph to have \"format\", got none"},
    {"tidu.graph", "onnx", dump, "expected \"format\" to be \"tidu.graph\", got \"onnx\""},
    {"\"version\": 1", "\"version\": 2", dump, "expected \"version\" to be 1, got 2"},
    {"\"version\": 1, \"name\": \"f\",\n \"values\"", "\"version\": 2, \"name\": \"f\",\n \"nodes\"", dump,
     "expected \"version\" to be 1, got 2"},
    {"\"version\": 1", "\"version\": 1.0", dump, "expected \"version\" to be an integer, got 1.0"},
    {"\"version\": 1", "\"version\": \"1\"", dump, "expected \"version\" to be an integer, got \"1\""},
    {"\"version\": 1", "\"version\": 1, \"author\": 2", dump, "unknown member \"author\" of a graph"},
    {"\"version\": 1", "\"version\": 1, \"version\": 1", dump,
     "member \"version\" of a graph is given twice"},
    {"\"name\": \"f\"", "\"name\": 3", dump, "expected \"name\" to be a string, got 3"},
    {",\n \"outputs\": [3, 0]", "", dump, "expected a graph to have \"outputs\", got none"},
    {" \"inputs\": [0, 1],\n", "", dump, "expected a graph to have \"inputs\", got none"},
    {"\"outputs\": [3, 0]", "\"outputs\": {}", dump, "expected \"outputs\" to be an array, got an object"},
    {"\"outputs\": [3, 0]", "\"outputs\": [3, 9]", dump, "0 to 9 exclusive, got 9\n  in output 1 of \"f\""},
    {"\"outputs\": [3, 0]", "\"outputs\": [3, -1]", dump, "got -1\n  in output 1 of \"f\""},
    {"\"outputs\": [3, 0]", "\"outputs\": [3, 4294967296]", dump, "got 4294967296\n  in output 1"},
    {"\"outputs\": [3, 0]", "\"outputs\": [3, 99999999999999999999]", dump, "in output 1 of \"f\""},
    {"\"outputs\": [3, 0]", "\"outputs\": [3, null]", dump, "expected an output to be an integer, got null"},
    // values
    {"{\"id\": 8, ", "{\"id\": 7, ", dump,
     "expected every value once, got value 7 again\n  in entry of \"values\" 8 of \"f\""},
    {"{\"id\": 8, ", "{\"id\": 9, ", dump,
     "expected \"id\" to be the id of a value, 0 to 9 exclusive, got 9"},
    {"{\"id\": 8, ", "{", dump, "expected a value to have \"id\", got none"},
    {"{\"id\": 8, ", "{\"id\": 8, \"device\": 0, ", dump, "unknown member \"device\" of a value"},
    {"{\"id\": 8, \"dtype\": \"f64\"", "{\"id\": 8, \"dtype\": \"float\"", dump,
     "expected \"dtype\" to be a dtype, got \"float\""},
    {"{\"id\": 8, \"dtype\": \"f64\", \"shape\": [3]", "{\"id\": 8, \"dtype\": \"f64\", \"shape\": [-3]",
     ErrorKind::type, "expected extents >= 0, got shape [-3]\n  in entry of \"values\" 8"},
    {"{\"id\": 8, \"dtype\": \"f64\", \"shape\": [3]",
     "{\"id\": 8, \"dtype\": \"f64\", \"shape\": [4611686018427387904, 4]", ErrorKind::type, "2^62"},
    {"{\"id\": 8, \"dtype\": \"f64\", \"shape\": [3]", "{\"id\": 8, \"dtype\": \"f64\", \"shape\": [1.5]",
     dump, "expected an extent to be an integer, got 1.5"},
    {"{\"id\": 8, \"dtype\": \"f64\", \"shape\": [3]", "{\"id\": 8, \"dtype\": \"f64\", \"shape\": [2]",
     ErrorKind::type,
     "[twins] expected value 8, result 1, to be f64[3], got f64[2]\n  in operation 4 of \"f\""},
    {"{\"id\": 8, \"dtype\": \"f64\", \"shape\": [3]}", "7", dump, "expected a value to be an object, got 7"},
    {"\"shape\": [3]}],\n \"inputs\"",
     "\"shape\": [3]}, {\"id\": 9, \"dtype\": \"f64\", \"shape\": []}],\n \"inputs\"", dump,
     "expected value 9 of \"f\" to be an input, an external or an output of an operation"},
    // inputs and externals
    {"\"inputs\": [0, 1]", "\"inputs\": [0, 0]", dump,
     "expected one origin of value 0, got a second one\n  in input 1"},
    {"\"inputs\": [0, 1]", "\"inputs\": [0, 1, 2]", dump,
     "expected a \"name\" or an \"input_key\" of value 2"},
    {"\"name\": \"y\"", "\"name\": \"x\"", dump, "expected a new input, got \"x\" a second time"},
    {"\"name\": \"y\"", "\"name\": \"\"", dump, "expected a name, got an empty one"},
    {"\"name\": \"y\"", "\"input_key\": \"12\"", dump, "expected \"input_key\" to be 32 hexadecimal digits"},
    {"\"externals\": [{\"id\": 5", "\"externals\": [{\"id\": 1", dump, "expected one origin of value 1"},
    {"\"externals\": [{\"id\": 5, ", "\"externals\": [{", dump,
     "expected an external to have \"id\" and \"key\""},
    {"\"key\": \"0123456789abcdef0123456789abcdef\"}]", "\"key\": \"0123456789abcdef0123456789abcdeF\"}]",
     dump, "expected \"key\" to be 32 hexadecimal digits in lower case"},
    {"\"shape\": [3], \"key\": \"0123", "\"shape\": [3], \"key\": \"1123", dump,
     "expected value 5 to have the key 0123"},
    {"\"name\": \"y\"", "\"name\": \"y\", \"key\": \"0123456789abcdef0123456789abcdef\"", dump,
     "expected value 1 to have the key "},
    // operations
    {"\"op\": \"sin\"", "\"op\": \"sine\"", ErrorKind::unknown_primitive,
     "got \"sine\" (nearest: sin)\n  in operation 1 of \"f\""},
    {"\"op\": \"sin\", ", "", dump, "expected an operation to have \"op\", got none"},
    {"\"op\": \"sin\"", "\"op\": 7", dump, "expected \"op\" to be a string, got 7"},
    {"\"op\": \"sin\"", "\"op\": \"sin\", \"device\": 1", dump, "unknown member \"device\" of an operation"},
    {"\"inputs\": [2]", "\"inputs\": [3]", dump, "there is a cycle\n  in operation 1 of \"f\""},
    {"\"inputs\": [2]", "\"inputs\": [7]", dump,
     "[sin] expected operands that are inputs, externals or outputs of earlier"},
    {"\"inputs\": [2]", "\"inputs\": [2, 2]", ErrorKind::type, "[sin] expected 1 operand"},
    {"\"inputs\": [2]", "\"inputs\": 2", dump, "expected \"inputs\" to be an array, got 2"},
    {"\"outputs\": [3], \"origin\"", "\"outputs\": [3, 4], \"origin\"", ErrorKind::type,
     "[sin] expected 1 outputs, got 2"},
    {"\"outputs\": [3], \"origin\"", "\"outputs\": [0], \"origin\"", dump,
     "expected one origin of value 0, got a second one"},
    {"\"inputs\": [0, 5], \"outputs\": [2]", "\"inputs\": [0, 5], \"outputs\": [6]", ErrorKind::type,
     "[mul] expected value 6, result 0, to be f64[3], got f64[2]"},
    {"\"origin\": 0", "\"origin\": 5", dump,
     "expected \"origin\" to be the index of an operation, 0 to 5 exclusive, got 5"},
    {"\"where\": \"a.cpp:1\"", "\"where\": \"\"", dump, "expected \"where\" to be \"file:line\""},
    {"{\"linear\": [true, false]}", "{\"linear\": [true]}", dump, "expected \"linear\" to have 2 entries"},
    {"{\"linear\": [true, false]}", "{\"linear\": [true, 0]}", dump,
     "expected an entry of \"linear\" to be true or false, got 0"},
    {"{\"linear\": [true, false]}", "\"linear\"", dump, "expected \"role\" to be an object"},
    {"{\"id\": 2, \"dtype\": \"f64\", \"shape\": [3]}",
     "{\"id\": 2, \"dtype\": \"f64\", \"shape\": [3], \"input_key\": \"0123456789abcdef0123456789abcdef\"}",
     dump, "expected \"input_key\" of inputs alone, got one of value 2"},
    // attributes
    {"\"value\": 0.5, ", "", ErrorKind::attribute,
     "[full] expected an attribute \"value\" (number), got none\n  in operation 2"},
    {"\"value\": 0.5, ", "\"value\": 0.5, \"fill\": 1, ", ErrorKind::attribute,
     "[full] unknown attribute \"fill\": expected one of [value,dtype,shape]"},
    {"\"value\": 0.5, ", "\"value\": 0.5, \"value\": 1, ", ErrorKind::attribute,
     "attribute \"value\" is given twice"},
    {"\"value\": 0.5, ", "\"value\": true, ", dump, "in operation 2 of \"f\""},
    {"\"value\": 0.5, ", "\"value\": [[[[[1]]]]], ", dump, "in operation 2 of \"f\""},
    {"\"value\": 0.5, \"dtype\": \"f64\", \"shape\": []",
     "\"value\": 0.5, \"dtype\": \"f64\", \"shape\": [\"a\"]", dump,
     "expected attribute \"shape\" to be an integer, got \"a\""},
    {"\"value\": 0.5, \"dtype\": \"f64\", \"shape\": []",
     "\"value\": 0.5, \"dtype\": \"f64\", \"shape\": [4611686018427387904]", ErrorKind::type, "2^62"},
    {"[1.5, \"nan\"]", "[1.5]", dump, "in operation 3 of \"f\""},
    {"[1.5, \"nan\"]", "[1.5, \"NaN\"]", dump, "in operation 3 of \"f\""},
    {"\"shape\": [2], \"data\"", "\"shape\": [1000000000000], \"data\"", dump, "in operation 3 of \"f\""},
    {"\"shape\": [2], \"data\"", "\"shape\": [2], \"shape\": [2], \"data\"", dump, "is given twice"},
};

TEST_CASE("malformed dumps are refused by kind, message and place") {
  const std::string text = base();
  CHECK(to_json(graph_from_json(replaced(text, ", \"key\": \"0123456789abcdef0123456789abcdef\"}", "}"),
                                test_set()))
            .size() > 100);
  for (const Row& row : rows) {
    INFO(std::string(row.from) << "  ->  " << std::string(row.to));
    const Result<Graph> result = try_graph_from_json(replaced(text, row.from, row.to), test_set());
    REQUIRE_FALSE(result);
    INFO(std::string(result.error().what()));
    CHECK(to_string(result.error().kind()) == to_string(row.kind));
    const std::string_view said = result.error().what();
    CHECK(said.find(row.says) != std::string_view::npos);
    if (row.says.find("operation 2") != std::string_view::npos)
      CHECK(said.find("a.cpp") == std::string_view::npos);
  }
  CHECK(std::size(rows) >= 40);
  using namespace std::string_view_literals;
  for (const std::string_view behind : {"\0"sv, "\0 "sv, " \n\0{}"sv, "\0x"sv}) {
    const Result<Graph> result = try_graph_from_json(text + std::string(behind), test_set());
    REQUIRE_FALSE(result);
    CHECK(std::string_view(result.error().what()).find("a NUL byte") != std::string_view::npos);
  }
  for (const std::string_view nothing : {"", "   ", "[]", "null", "3", "\"f\"", "{}"}) {
    CHECK(try_graph_from_json(nothing, test_set()).error().kind() == dump);
  }
}

TEST_CASE("shapes of any size are types, for which nothing is allocated") {
  const std::string text =
      replaced(replaced(base(), "\"value\": 0.5, \"dtype\": \"f64\", \"shape\": []",
                        "\"value\": 0.5, \"dtype\": \"bool\", \"shape\": [1152921504606846976]"),
               "{\"id\": 4, \"dtype\": \"f64\", \"shape\": []",
               "{\"id\": 4, \"dtype\": \"bool\", \"shape\": [1152921504606846976]");
  const Result<Graph> refused = try_graph_from_json(text, test_set());  // 0.5 is no bool
  CHECK(refused.error().kind() == dump);
  const Graph graph = graph_from_json(replaced(text, "\"value\": 0.5", "\"value\": true"), test_set());
  CHECK(graph.type(graph.operation(2).output()).size() == std::int64_t{1} << 60);
}

TEST_CASE("graphs nest at most 64 deep, and the place of an error names every level") {
  const auto nested = [](int levels, std::string_view op) {
    std::string text =
        R"({"format": "tidu.graph", "version": 1, "name": "leaf", "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, )"
        R"({"id": 1, "dtype": "f64", "shape": []}], "inputs": [0], "operations": [{"op": ")" +
        std::string(op) + R"(", "inputs": [0], "outputs": [1]}], "outputs": [1]})";
    for (int i = 0; i < levels; ++i) {
      text = detail::str(
          R"({"format": "tidu.graph", "version": 1, "name": "level )", i,
          R"(", "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []}], )"
          R"("inputs": [0], "operations": [{"op": "call", "inputs": [0], "outputs": [1], "attrs": {"graph": )",
          text, R"(}}], "outputs": [1]})");
    }
    return text;
  };
  const Graph graph = graph_from_json(nested(64, "sin"), test_set());
  CHECK(to_json(graph_from_json(to_json(graph), test_set())) == to_json(graph));
  CHECK_THROWS_WITH_AS(static_cast<void>(graph_from_json(nested(65, "sin"), test_set())),
                       doctest::Contains("nested at most 64 deep"), Error);
  const Result<Graph> wrong = try_graph_from_json(nested(2, "sine"), test_set());
  CHECK(std::string_view(wrong.error().what())
            .ends_with("in operation 0 of \"leaf\"\n  in operation 0 of \"level 0\"\n  in operation 0 of "
                       "\"level 1\""));
}

TEST_CASE("a call of a graph without outputs is refused") {
  const std::string text =
      R"({"format": "tidu.graph", "version": 1, "name": "f", "values": [], "inputs": [], "operations": [{"op": "call", "inputs": [], )"
      R"("outputs": [], "attrs": {"graph": {"format": "tidu.graph", "version": 1, "name": "g", "values": [], "inputs": [], )"
      R"("operations": [], "outputs": []}}}], "outputs": []})";
  const Result<Graph> result = try_graph_from_json(text, test_set());
  CHECK(result.error().kind() == ErrorKind::type);
  CHECK(std::string_view(result.error().what()).find("[call] expected at least one result, got none") == 0);
}

}  // namespace
}  // namespace tidu::json_refusals_cases
