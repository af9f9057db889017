// names_and_data.cpp - inputs whose names hold commas, tensors whose data are nested arrays, and the
// command's messages on loops without a bound that it runs on a tape.
#include <initializer_list>

#include "helpers.hpp"

namespace tidu::test::names_and_data_cases {
namespace {

// f(w[0,1], b) = sum(w b), of f64[3] and f64[3].
std::string comma_graph() {
  std::string text = dot_graph;
  const auto replace = [&](std::string_view from, std::string_view to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("\"name\": \"x\"", "\"name\": \"w[0,1]\"");
  replace("\"name\": \"y\"", "\"name\": \"b\"");
  return text;
}

constexpr const char* comma_inputs = R"({"w[0,1]": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]},
 "b": {"dtype": "f64", "shape": [3], "data": [4, 5, 6]}})";

TEST_CASE("names that hold commas are given as a JSON array") {
  const Folder folder;
  const std::string g = folder.file("g", comma_graph()), i = folder.file("i", comma_inputs);
  const auto gradients = [&](const std::string& wrt) {
    const Answer answer = run_command({"grad", g, "--inputs", i, "--wrt", wrt});
    CHECK_MESSAGE(answer.status == 0, answer.err);
    return answer.json()["gradients"];
  };
  const nlohmann::json both = run_command({"grad", g, "--inputs", i}).json()["gradients"];
  CHECK(both.size() == 2);
  CHECK(gradients(R"(["w[0,1]"])").size() == 1);
  CHECK(gradients(R"(["w[0,1]"])")["w[0,1]"] == both["w[0,1]"]);
  CHECK(gradients(R"(["b", "w[0,1]"])") == both);
  CHECK(gradients("b")["b"] == both["b"]);
  const Answer mapped = run_command(
      {"eval", g, "--inputs",
       folder.file("rows", R"({"w[0,1]": {"dtype": "f64", "shape": [2, 3], "data": [[1, 2, 3], [0, 1, 0]]},
 "b": {"dtype": "f64", "shape": [3], "data": [4, 5, 6]}})"),
       "--batched", R"(["w[0,1]"])"});
  CHECK_MESSAGE(mapped.status == 0, mapped.err);
  CHECK(mapped.json()["outputs"][0]["data"] == nlohmann::json({32.0, 5.0}));

  const Answer split = run_command({"grad", g, "--inputs", i, "--wrt", "w[0,1]"});
  CHECK(split.status == 2);
  CHECK(split.err ==
        "tidu: --wrt: expected names of inputs, [w[0,1],b], got \"w[0\" (names that hold commas stand "
        "in a JSON array, '[\"a,b\"]')\n");
  const Answer empty = run_command({"grad", g, "--inputs", i, "--wrt", R"(["b", ""])"});
  CHECK(empty.status == 2);
  CHECK(empty.err == "tidu: --wrt: expected names separated by commas, got \"[\\\"b\\\", \\\"\\\"]\"\n");
  const Answer twice = run_command({"grad", g, "--inputs", i, "--wrt", R"(["b", "b"])"});
  CHECK(twice.err == "tidu: --wrt: expected each input once, got \"b\" twice\n");
  CHECK(run_command({"grad", "--help"}).out.find("Names that hold commas stand in a JSON array") !=
        std::string::npos);
}

TEST_CASE("a name that begins with a bracket is a name, where it is no JSON array of strings") {
  const Folder folder;
  for (const std::string name : {"[0]", "[x", "[\"x\"", "[]"}) {
    std::string graph = dot_graph, inputs = R"({"y": {"dtype": "f64", "shape": [3], "data": [4, 5, 6]}, )";
    graph.replace(graph.find("\"name\": \"x\""), 11, "\"name\": " + nlohmann::json(name).dump());
    inputs += nlohmann::json(name).dump() + R"(: {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})";
    const Answer answer = run_command(
        {"grad", folder.file("g", graph), "--inputs", folder.file("i", inputs), "--wrt", name + ",y"});
    CHECK_MESSAGE(answer.status == 0, answer.err);
    CHECK(answer.json()["gradients"].size() == 2);
  }
}

TEST_CASE("data of inputs, tangents and cotangents may be nested") {
  const Folder folder;
  const std::string g = folder.file("g", R"({"format": "tidu.graph", "version": 1, "name": "f",
 "values": [{"id": 0, "dtype": "f64", "shape": [2, 2], "name": "x"}, {"id": 1, "dtype": "f64", "shape": [2, 2]}],
 "inputs": [0], "operations": [{"op": "neg", "inputs": [0], "outputs": [1]}], "outputs": [1]})");
  const std::string nested =
      folder.file("n", R"({"x": {"dtype": "f64", "shape": [2, 2], "data": [[1, 2], [3, 4]]}})");
  const std::string flat =
      folder.file("f", R"({"x": {"dtype": "f64", "shape": [2, 2], "data": [1, 2, 3, 4]}})");
  const std::string list =
      folder.file("c", R"([{"dtype": "f64", "shape": [2, 2], "data": [[1, 2], [3, 4]]}])");
  const auto out = [&](const std::vector<std::string>& words) {
    const Answer answer = run_command(words);
    CHECK_MESSAGE(answer.status == 0, answer.err);
    return answer.out;
  };
  CHECK(out({"eval", g, "--inputs", nested}) == out({"eval", g, "--inputs", flat}));
  CHECK(out({"jvp", g, "--inputs", nested, "--tangents", nested}) ==
        out({"jvp", g, "--inputs", flat, "--tangents", flat}));
  CHECK(out({"vjp", g, "--inputs", flat, "--cotangents", list}) ==
        out({"vjp", g, "--inputs", nested, "--cotangents", list}));
  const std::string ragged =
      folder.file("r", R"({"x": {"dtype": "f64", "shape": [2, 2], "data": [[1, 2], [3]]}})");
  const Answer refused = run_command({"eval", g, "--inputs", ragged});
  CHECK(refused.status == 2);
  CHECK(refused.err ==
        "tidu: " + ragged +
            ": tensor \"x\": expected data[1] to be an array of 2 for shape [2,2], got an array of 1\n");
}

// x <- x x while x < 10, without a bound.
constexpr const char* while_graph = R"({"format": "tidu.graph", "version": 1, "name": "f",
 "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []}],
 "inputs": [0], "outputs": [1],
 "operations": [{"op": "while", "inputs": [0], "outputs": [1], "where": "user.py:7", "attrs": {"num_consts": 0,
  "cond": {"format": "tidu.graph", "version": 1, "name": "c", "inputs": [0], "outputs": [2],
   "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []},
              {"id": 2, "dtype": "bool", "shape": []}],
   "operations": [{"op": "full", "inputs": [], "outputs": [1], "attrs": {"value": 10.0, "dtype": "f64", "shape": []}},
                  {"op": "lt", "inputs": [0, 1], "outputs": [2]}]},
  "body": {"format": "tidu.graph", "version": 1, "name": "b", "inputs": [0], "outputs": [1],
   "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []}],
   "operations": [{"op": "mul", "inputs": [0, 0], "outputs": [1]}]}}}]})";

TEST_CASE(
    "jvp --eager of a loop without a bound is an error that names the reason and a command that works") {
  const Folder folder;
  const std::string g = folder.file("g", while_graph);
  const std::string x = folder.file("x", R"({"x": {"dtype": "f64", "shape": [], "data": [2]}})");
  CHECK(run_command({"jvp", g, "--inputs", x, "--tangents", x}).json()["tangents"][0]["data"][0] == 64.0);
  const Answer answer = run_command({"jvp", g, "--inputs", x, "--tangents", x, "--eager"});
  CHECK(answer.status == 1);
  CHECK(answer.err ==
        "tidu: " + g +
            ": [while] expected a loop with a bound for reverse mode, got one without in \"b\": nobody knows "
            "how "
            "many steps there would be to keep values of. Give it max_steps, or use scan, or fori_loop with "
            "whole "
            "numbers as bounds; forward mode needs neither\n"
            "  in the transpose rule of while, in operation 0 of \"while\" (derived from operation 0)\n"
            "  in the rules of the backward of while(f64[]), recorded at user.py:7 (node 1)\n"
            "  with --eager, tangents are computed in reverse mode, from two backward runs of the tape; "
            "without "
            "--eager in forward mode\n");
  const Answer jacobian = run_command({"jac", g, "--inputs", x, "--mode", "forward", "--eager"});
  CHECK(jacobian.status == 1);
  CHECK(jacobian.err.ends_with("without --eager in forward mode\n"));
  const Answer reverse = run_command({"grad", g, "--inputs", x, "--eager"});
  CHECK(reverse.status == 1);
  CHECK(reverse.err.find("--eager") == std::string::npos);
}

TEST_CASE("the command names the unknown primitives and members of a dump") {
  const Folder folder;
  std::string text = dot_graph;
  text.replace(text.find("\"op\": \"mul\""), 11, "\"op\": \"mull\"");
  const std::string g = folder.file("g", text), i = folder.file("i", dot_inputs);
  const Answer answer = run_command({"eval", g, "--inputs", i});
  CHECK(answer.status == 2);
  CHECK(answer.err.starts_with(
      "tidu: " + g +
      ": expected \"op\" to be the name of a primitive of the set, got \"mull\" (nearest: mul"));
}

}  // namespace
}  // namespace tidu::test::names_and_data_cases
