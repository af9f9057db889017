// Dumps with names of primitives and dtypes that are unknown: the message suggests the nearest known ones,
// and lists all unknown names of the dump.
#include <doctest/doctest.h>

#include <string>
#include <tidu/graph/error.hpp>
#include <tidu/graph/json.hpp>
#include <tidu/graph/primitive_set.hpp>

namespace tidu::unknown_names_cases {
namespace {

std::string message_of(const std::string& text, ErrorKind kind) {
  const Result<Graph> graph = try_graph_from_json(text, standard_primitives());
  REQUIRE_FALSE(graph.has_value());
  CHECK(graph.error().kind() == kind);
  return graph.error().what();
}

std::string value(int id, const std::string& dtype = "f64") {
  return "{\"id\": " + std::to_string(id) + ", \"dtype\": \"" + dtype + "\", \"shape\": []" +
         (id == 0 ? ", \"name\": \"x\"}" : "}");
}

std::string operation(const std::string& op, int at, const std::string& more = {}) {
  return "{\"op\": \"" + op + "\", \"inputs\": [" + std::to_string(at) + "], \"outputs\": [" +
         std::to_string(at + 1) + "]" + more + "}";
}

std::string graph(const std::string& values, const std::string& operations) {
  return R"({"format": "tidu.graph", "version": 1, "name": "f", "values": [)" + values +
         R"(], "inputs": [0], "operations": [)" + operations + R"(], "outputs": [1]})";
}

std::string one(const std::string& op) { return graph(value(0) + "," + value(1), operation(op, 0)); }

}  // namespace

TEST_CASE("an unknown primitive names the nearest ones") {
  const auto says = [](const std::string& op, const std::string& nearest) {
    CHECK(message_of(one(op), ErrorKind::unknown_primitive) ==
          "expected \"op\" to be the name of a primitive of the set, got \"" + op + "\"" + nearest +
              "\n  in operation 0 of \"f\"");
  };
  says("sinn", " (nearest: sin, sinh, sign)");
  says("redcue_max", " (nearest: reduce_max, max)");
  says("dot", " (nearest: dot_general, not)");
  says("qqqqqqqq", "");
  says(std::string(50, 'z'), "");
}

TEST_CASE("an unknown dtype names the nearest one and all there are") {
  const auto says = [](const std::string& dtype, const std::string& nearest) {
    CHECK(
        message_of(graph(value(0, dtype) + "," + value(1), operation("sin", 0)), ErrorKind::dump) ==
        "expected \"dtype\" to be a dtype, got \"" + dtype + "\"" + nearest +
            "; the dtypes are [bool,i32,i64,f16,bf16,f32,f64,c64,c128]\n  in entry of \"values\" 0 of \"f\"");
  };
  says("float32", " (nearest: f32)");
  says("double", " (nearest: f64)");
  says("complex128", " (nearest: c128)");
  says("f46", " (nearest: f16, f64)");
  says("string", "");
}

TEST_CASE("all unknown names of a dump are listed at once") {
  const std::string inner = graph(value(0) + "," + value(1, "float16"), operation("tahn", 0));
  const std::string text = graph(
      value(0) + "," + value(1) + "," + value(2) + "," + value(3) + "," + value(4),
      operation("sin", 0) + "," + operation("cosine", 1, R"(, "where": "user.cpp:12")") + "," +
          operation("cosine", 2) + "," + operation("call", 3, ", \"attrs\": {\"graph\": " + inner + "}"));
  CHECK(message_of(text, ErrorKind::unknown_primitive) ==
        "expected \"op\" to be the name of a primitive of the set, got \"cosine\" (nearest: cos, sin)\n"
        "  in operation 1 of \"f\", user.cpp:12\n"
        "  all unknown names of the dump:\n"
        "    primitive \"cosine\" (nearest: cos, sin), 2 times, first in operation 1 of \"f\", user.cpp:12\n"
        "    dtype \"float16\" (nearest: f16), in value 1 of \"f\"\n"
        "    primitive \"tahn\" (nearest: tan, tanh, take), in operation 0 of \"f\"");
  // dtypes of attributes and of tensors, beside one of a value
  const std::string casts =
      graph(value(0, "float") + "," + value(1) + "," + value(2),
            operation("convert_element_type", 0, R"(, "attrs": {"new_dtype": "double"})") + "," +
                R"({"op": "constant", "inputs": [], "outputs": [2], "attrs": {"value":
                    {"dtype": "half", "shape": [], "data": [1]}}})");
  const std::string said = message_of(casts, ErrorKind::dump);
  CHECK(said.find("    dtype \"float\" (nearest: f32), in value 0 of \"f\"\n") != std::string::npos);
  CHECK(said.find("    dtype \"double\" (nearest: f64), in operation 0 of \"f\"\n") != std::string::npos);
  CHECK(said.find("    dtype \"half\" (nearest: f16), in operation 1 of \"f\"") != std::string::npos);
}

TEST_CASE("the list of unknown names is short however many there are") {
  std::string values = value(0), operations;
  for (int i = 0; i < 500; ++i) {
    values += "," + value(i + 1);
    operations += (i == 0 ? "" : ",") + operation("op" + std::to_string(i), i);
  }
  const std::string said = message_of(graph(values, operations), ErrorKind::unknown_primitive);
  CHECK(said.size() < 4000);
  CHECK(said.ends_with("\n    and 468 more"));
}

}  // namespace tidu::unknown_names_cases
