// The output of each command without errors, on graphs that are small enough to know the numbers.
#include <algorithm>
#include <map>
#include <tidu/graph/rules.hpp>
#include <tidu/primitives/elementwise.hpp>

#include "cli/helpers.hpp"

namespace tidu {
namespace {

using nlohmann::json;
using test::run_command;

json tensor(const char* dtype, const json& shape, const json& data) {
  return {{"dtype", dtype}, {"shape", shape}, {"data", data}};
}

struct Files {
  test::Folder folder;
  std::string graph = folder.file("g.json", test::dot_graph);
  std::string inputs = folder.file("i.json", test::dot_inputs);
  std::string mixed = folder.file("m.json", test::mixed_graph);
  std::string mixed_inputs = folder.file("mi.json", test::mixed_inputs);

  /// The answer, which is the same operation by operation.
  json tell(const std::vector<std::string>& words, const std::string& note = "") const {
    const json answer = tell_once(words, note);
    if (words[0] == "check" || words[0] == "dump" || words[0] == "ops") return answer;
    std::vector<std::string> eager = words;
    eager.push_back("--eager");
    CHECK(tell_once(eager, note) == answer);
    return answer;
  }

 private:
  static json tell_once(const std::vector<std::string>& words, const std::string& note) {
    const test::Answer answer = run_command(words);
    REQUIRE_MESSAGE(answer.status == 0, answer.err);
    CHECK(answer.err == note);
    CHECK(answer.out.back() == '\n');
    CHECK(std::count(answer.out.begin(), answer.out.end(), '\n') == 1);
    return answer.json();
  }
};

TEST_CASE("values and derivatives of a graph of reals") {
  const Files f;
  const json value = tensor("f64", json::array(), {32.0});
  const json dx = tensor("f64", {3}, {4.0, 5.0, 6.0}), dy = tensor("f64", {3}, {1.0, 2.0, 3.0});
  const std::string t =
      f.folder.file("t.json", R"({"y": {"dtype": "f64", "shape": [3], "data": [-1, 0.5, 2]}})");
  const std::string c = f.folder.file("c.json", R"([{"dtype": "f64", "shape": [], "data": [-2]}])");
  for (const std::string backend : {"cpu", "reference"}) {
    const std::vector<std::string> more{f.graph, "--inputs", f.inputs, "--backend", backend};
    const auto tell = [&](std::vector<std::string> words) {
      words.insert(words.end(), more.begin(), more.end());
      return f.tell(words);
    };
    CHECK(tell({"eval"}) == json{{"outputs", {value}}});
    CHECK(tell({"eval", "--threads", "2"}) == json{{"outputs", {value}}});
    CHECK(tell({"jvp", "--tangents", t}) ==
          json{{"outputs", {value}}, {"tangents", {tensor("f64", json::array(), {6.0})}}});
    CHECK(tell({"vjp", "--cotangents", c}) == json{{"outputs", {value}},
                                                   {"gradients",
                                                    {{"x", tensor("f64", {3}, {-8.0, -10.0, -12.0})},
                                                     {"y", tensor("f64", {3}, {-2.0, -4.0, -6.0})}}}});
    CHECK(tell({"grad"}) == json{{"outputs", {value}}, {"gradients", {{"x", dx}, {"y", dy}}}});
    CHECK(tell({"grad", "--wrt", "y"}) == json{{"outputs", {value}}, {"gradients", {{"y", dy}}}});
    CHECK(tell({"hvp", "--tangents", t}) ==
          json{{"outputs", {value}},
               {"gradients", {{"x", dx}, {"y", dy}}},
               {"hvp",
                {{"x", tensor("f64", {3}, {-1.0, 0.5, 2.0})}, {"y", tensor("f64", {3}, {0.0, 0.0, 0.0})}}}});
    for (const std::string mode : {"forward", "reverse"}) {
      CHECK(tell({"jac", "--mode", mode}) ==
            json{{"outputs", {value}}, {"jacobians", {{{"x", dx}, {"y", dy}}}}});
    }
    CHECK(tell({"jac", "--wrt", "x"}) == json{{"outputs", {value}}, {"jacobians", {{{"x", dx}}}}});
  }
}

TEST_CASE("inputs that share a name are distinguished by the digits of their keys") {
  const Files f;
  const std::string digits = "000000000000000200000000000000ff";
  const std::string graph =
      f.folder.file("shared.json", R"({"format": "tidu.graph", "version": 1, "name": "f",
 "values": [
  {"id": 0, "dtype": "f64", "shape": [], "name": "w"},
  {"id": 1, "dtype": "f64", "shape": [], "name": "w", "input_key": ")" +
                                       digits + R"("},
  {"id": 2, "dtype": "f64", "shape": []},
  {"id": 3, "dtype": "f64", "shape": []}],
 "inputs": [0, 1],
 "operations": [
  {"op": "mul", "inputs": [0, 1], "outputs": [2]},
  {"op": "mul", "inputs": [2, 1], "outputs": [3]}],
 "outputs": [3]})");
  const json two = tensor("f64", json::array(), {2.0}), three = tensor("f64", json::array(), {3.0});
  const std::string inputs = f.folder.file("shared_i.json", json{{"w", two}, {digits, three}}.dump());
  const json gradients{{"w", tensor("f64", json::array(), {9.0})},
                       {digits, tensor("f64", json::array(), {12.0})}};
  CHECK(f.tell({"grad", graph, "--inputs", inputs})["gradients"] == gradients);
  CHECK(f.tell({"jac", graph, "--inputs", inputs})["jacobians"] == json::array({gradients}));
  const json hvp = f.tell({"hvp", graph, "--inputs", inputs, "--tangents", inputs})["hvp"];
  CHECK(hvp ==
        json{{"w", tensor("f64", json::array(), {18.0})}, {digits, tensor("f64", json::array(), {24.0})}});
  CHECK(run_command({"check", graph, "--inputs", inputs}).status == 0);
}

TEST_CASE("a result that is not differentiable, or on no path, is null") {
  const Files f;
  const json outputs{tensor("i32", json::array(), {49}), tensor("f64", json::array(), {3.0}),
                     tensor("f64", json::array(), {1.0})};
  const std::string t = f.folder.file(
      "t.json",
      R"({"z": {"dtype": "c128", "shape": [], "data": [[0.5, 9]]}, "x": {"dtype": "f64", "shape": [], "data": [3]}})");
  const std::string c =
      f.folder.file("c.json", R"([null, {"dtype": "f64", "shape": [], "data": [2]}, null])");
  CHECK(f.tell({"eval", f.mixed, "--inputs", f.mixed_inputs}) == json{{"outputs", outputs}});
  CHECK(f.tell({"jvp", f.mixed, "--inputs", f.mixed_inputs, "--tangents", t}) ==
        json{{"outputs", outputs}, {"tangents", {nullptr, tensor("f64", json::array(), {6.75}), nullptr}}});
  CHECK(f.tell({"vjp", f.mixed, "--inputs", f.mixed_inputs, "--cotangents", c}) ==
        json{{"outputs", outputs},
             {"gradients",
              {{"z", tensor("c128", json::array(), {{3.0, 0.0}})},
               {"x", tensor("f64", json::array(), {4.0})}}}});
  const json jacobian =
      f.tell({"jac", f.mixed, "--inputs", f.mixed_inputs},
             "tidu: note: expected real inputs, left out [z], which is complex (split what is "
             "with real and imag, or use jvp and vjp)\n")["jacobians"];
  CHECK(f.tell({"jac", f.mixed, "--inputs", f.mixed_inputs, "--wrt", "x"})["jacobians"] == jacobian);
  REQUIRE(jacobian.size() == 3);
  CHECK(jacobian[0]["x"].is_null());
  CHECK(jacobian[1]["x"] == tensor("f64", json::array(), {2.0}));
  CHECK(jacobian[2]["x"].is_null());
  CHECK_FALSE(jacobian[1].contains("z"));
}

TEST_CASE("a Jacobian by an input that no path leads from is null, both ways") {
  const Files f;
  const auto value = [](int id, const char* name) {
    json listed{{"id", id}, {"dtype", "f64"}, {"shape", json::array()}};
    if (*name != '\0') listed["name"] = name;
    return listed;
  };
  const auto sine = [](int from, int to) {
    return json{{"op", "sin"}, {"inputs", {from}}, {"outputs", {to}}};
  };
  const json graph = {
      {"format", "tidu.graph"},
      {"version", 1},
      {"name", "f"},
      {"values", {value(0, "x"), value(1, "y"), value(2, "z"), value(3, ""), value(4, ""), value(5, "")}},
      {"inputs", {0, 1, 2}},
      {"operations", {sine(0, 3), sine(1, 4), {{"op", "mul"}, {"inputs", {0, 1}}, {"outputs", {5}}}}},
      {"outputs", {3, 4, 5, 3}}};
  const std::string g = f.folder.file("apart.json", graph.dump());
  const auto scalar = [](double number) { return tensor("f64", json::array(), {number}); };
  const std::string at =
      f.folder.file("at.json", json{{"x", scalar(0.0)}, {"y", scalar(0.0)}, {"z", scalar(0.0)}}.dump());
  for (const std::string mode : {"forward", "reverse"}) {
    CHECK(f.tell({"jac", g, "--inputs", at, "--mode", mode})["jacobians"] ==
          json{{{"x", scalar(1.0)}, {"y", nullptr}, {"z", nullptr}},
               {{"x", nullptr}, {"y", scalar(1.0)}, {"z", nullptr}},
               {{"x", scalar(0.0)}, {"y", scalar(0.0)}, {"z", nullptr}},
               {{"x", scalar(1.0)}, {"y", nullptr}, {"z", nullptr}}});
  }
}

TEST_CASE("a Jacobian has the dtype of its columns forward, of its rows in reverse") {
  const Files f;
  for (const auto& [in, out] : {std::pair{"f64", "f32"}, std::pair{"f32", "f64"}}) {
    const json graph = {{"format", "tidu.graph"},
                        {"version", 1},
                        {"name", "f"},
                        {"values",
                         {{{"id", 0}, {"dtype", in}, {"shape", {2}}, {"name", "x"}},
                          {{"id", 1}, {"dtype", out}, {"shape", {2}}}}},
                        {"inputs", {0}},
                        {"operations",
                         {{{"op", "convert_element_type"},
                           {"inputs", {0}},
                           {"outputs", {1}},
                           {"attrs", {{"new_dtype", out}}}}}},
                        {"outputs", {1}}};
    const std::string g = f.folder.file("convert.json", graph.dump());
    const std::string x = f.folder.file("x.json", json{{"x", tensor(in, {2}, {1.0, 2.0})}}.dump());
    for (const std::string mode : {"forward", "reverse"}) {
      const json jacobians = f.tell({"jac", g, "--inputs", x, "--mode", mode})["jacobians"];
      REQUIRE(jacobians.size() == 1);
      CHECK(jacobians[0]["x"] == tensor(mode == "forward" ? out : in, {2, 2}, {1.0, 0.0, 0.0, 1.0}));
    }
  }
}

TEST_CASE("a Jacobian without elements is empty where a path leads, and null where none does") {
  const Files f;
  const auto value = [](int id, const char* name, const char* dtype, const json& shape) {
    json listed{{"id", id}, {"dtype", dtype}, {"shape", shape}};
    if (*name != '\0') listed["name"] = name;
    return listed;
  };
  const json graph = {
      {"format", "tidu.graph"},
      {"version", 1},
      {"name", "f"},
      {"values",
       {value(0, "x", "f64", {2}), value(1, "e", "f64", {0}), value(2, "", "f64", {2}),
        value(3, "", "f32", {0}), value(4, "", "f64", json::array())}},
      {"inputs", {0, 1}},
      {"operations",
       {{{"op", "concatenate"}, {"inputs", {0, 1}}, {"outputs", {2}}, {"attrs", {{"dimension", 0}}}},
        {{"op", "convert_element_type"},
         {"inputs", {1}},
         {"outputs", {3}},
         {"attrs", {{"new_dtype", "f32"}}}},
        {{"op", "reduce_sum"}, {"inputs", {1}}, {"outputs", {4}}, {"attrs", {{"axes", {0}}}}}}},
      {"outputs", {2, 3, 4, 1}}};
  const std::string g = f.folder.file("empty.json", graph.dump());
  const std::string at = f.folder.file(
      "at.json",
      json{{"x", tensor("f64", {2}, {1.0, 2.0})}, {"e", tensor("f64", {0}, json::array())}}.dump());
  const auto empty = [](const char* dtype, const json& shape) { return tensor(dtype, shape, json::array()); };
  for (const std::string backend : {"cpu", "reference"}) {
    for (const std::string mode : {"forward", "reverse"}) {
      const json by = f.tell({"jac", g, "--inputs", at, "--mode", mode, "--backend", backend})["jacobians"];
      CHECK(by == json{{{"x", tensor("f64", {2, 2}, {1.0, 0.0, 0.0, 1.0})}, {"e", empty("f64", {2, 0})}},
                       {{"x", nullptr}, {"e", empty(mode == "forward" ? "f32" : "f64", {0, 0})}},
                       {{"x", nullptr}, {"e", empty("f64", {0})}},
                       {{"x", nullptr}, {"e", empty("f64", {0, 0})}}});
    }
  }
}

TEST_CASE("graphs without inputs, without outputs, and of integers alone") {
  const Files f;
  const std::string none = f.folder.file("none.json", "{}"), list = f.folder.file("list.json", "[]");
  const std::string empty = f.folder.file(
      "empty.json",
      R"({"format": "tidu.graph", "version": 1, "name": "e", "values": [], "inputs": [], "operations": [], "outputs": []})");
  CHECK(f.tell({"eval", empty, "--inputs", none}) == json{{"outputs", json::array()}});
  CHECK(f.tell({"jvp", empty, "--inputs", none, "--tangents", none})["tangents"] == json::array());
  CHECK(f.tell({"vjp", empty, "--inputs", none, "--cotangents", list})["gradients"] == json::object());
  CHECK(f.tell({"jac", empty, "--inputs", none})["jacobians"] == json::array());
  const std::string constant = f.folder.file("constant.json", R"({"format": "tidu.graph", "version": 1,
    "values": [{"id": 0, "dtype": "f64", "shape": []}], "inputs": [],
    "operations": [{"op": "full", "inputs": [], "outputs": [0], "attrs": {"value": 2.5, "dtype": "f64", "shape": []}}],
    "outputs": [0]})");
  for (const std::string backend : {"cpu", "reference"}) {
    const json answer = f.tell({"grad", constant, "--inputs", none, "--backend", backend});
    CHECK(answer == json{{"outputs", {tensor("f64", json::array(), {2.5})}}, {"gradients", json::object()}});
  }
  const std::string integers = f.folder.file("integers.json", R"({"format": "tidu.graph", "version": 1,
    "values": [{"id": 0, "dtype": "i32", "shape": [2], "name": "k"}, {"id": 1, "dtype": "i32", "shape": [2]}],
    "inputs": [0], "operations": [{"op": "mul", "inputs": [0, 0], "outputs": [1]}], "outputs": [1]})");
  const std::string k = f.folder.file("k.json", R"({"k": {"dtype": "i32", "shape": [2], "data": [3, 4]}})");
  const json squares = tensor("i32", {2}, {9, 16});
  CHECK(f.tell({"jvp", integers, "--inputs", k, "--tangents", none}) ==
        json{{"outputs", {squares}}, {"tangents", {nullptr}}});
  CHECK(f.tell({"jac", integers, "--inputs", k}) ==
        json{{"outputs", {squares}}, {"jacobians", {json::object()}}});
}

TEST_CASE("mapped over an axis, gradients are per example") {
  const Files f;
  const std::string two =
      f.folder.file("two.json", R"({"x": {"dtype": "f64", "shape": [2, 3], "data": [1, 2, 3, 7, 8, 9]},
    "y": {"dtype": "f64", "shape": [3], "data": [4, 5, 6]}})");
  const std::string none = f.folder.file("no.json", R"({"x": {"dtype": "f64", "shape": [0, 3], "data": []},
    "y": {"dtype": "f64", "shape": [3], "data": [4, 5, 6]}})");
  const std::string t =
      f.folder.file("t.json", R"({"y": {"dtype": "f64", "shape": [3], "data": [1, 0, -1]}})");
  const std::string c = f.folder.file("c.json", R"([{"dtype": "f64", "shape": [2], "data": [2, 3]}])");
  for (const std::string backend : {"cpu", "reference"}) {
    const auto tell = [&](const std::string& inputs, std::vector<std::string> words) {
      words.insert(words.end(), {f.graph, "--inputs", inputs, "--batched", "x", "--backend", backend});
      return f.tell(words);
    };
    const json value = tensor("f64", {2}, {32.0, 122.0});
    CHECK(tell(two, {"eval"}) == json{{"outputs", {value}}});
    CHECK(tell(two, {"jvp", "--tangents", t})["tangents"] == json::array({tensor("f64", {2}, {-2.0, -2.0})}));
    CHECK(tell(two, {"vjp", "--cotangents", c}) ==
          json{{"outputs", {value}},
               {"gradients",
                {{"x", tensor("f64", {2, 3}, {8.0, 10.0, 12.0, 12.0, 15.0, 18.0})},
                 {"y", tensor("f64", {2, 3}, {2.0, 4.0, 6.0, 21.0, 24.0, 27.0})}}}});
    const json grad = tell(two, {"grad"});
    CHECK(grad["gradients"]["x"] == tensor("f64", {2, 3}, {4.0, 5.0, 6.0, 4.0, 5.0, 6.0}));
    CHECK(grad["gradients"]["y"] == tensor("f64", {2, 3}, {1.0, 2.0, 3.0, 7.0, 8.0, 9.0}));
    CHECK(tell(two, {"grad", "--wrt", "y"})["gradients"].size() == 1);
    const json nothing = tell(none, {"grad"});
    CHECK(nothing["outputs"] == json::array({tensor("f64", {0}, json::array())}));
    CHECK(nothing["gradients"]["y"] == tensor("f64", {0, 3}, json::array()));
  }
  const std::string scalars =
      f.folder.file("scalars.json", R"({"k": {"dtype": "i32", "shape": [2], "data": [2, 3]},
    "z": {"dtype": "c128", "shape": [], "data": [[2, 3]]}, "x": {"dtype": "f64", "shape": [2], "data": [1.5, -2.5]}})");
  const json mixed = f.tell({"eval", f.mixed, "--inputs", scalars, "--batched", "k,x"})["outputs"];
  CHECK(mixed ==
        json{tensor("i32", {2}, {4, 9}), tensor("f64", {2}, {3.0, -5.0}), tensor("f64", {2}, {1.0, -3.0})});
}

TEST_CASE("operation by operation, inputs may be outputs, more than once") {
  const Files f;
  const std::string same = f.folder.file("same.json", R"({"format": "tidu.graph", "version": 1,
    "values": [{"id": 0, "dtype": "f64", "shape": [2], "name": "x"}, {"id": 1, "dtype": "f64", "shape": [2]}],
    "inputs": [0], "operations": [{"op": "mul", "inputs": [0, 0], "outputs": [1]}],
    "outputs": [0, 1, 0, 1]})");
  const std::string x = f.folder.file("x.json", R"({"x": {"dtype": "f64", "shape": [2], "data": [3, 5]}})");
  const std::string c = f.folder.file("c.json", R"([{"dtype": "f64", "shape": [2], "data": [1, 2]},
    {"dtype": "f64", "shape": [2], "data": [10, 20]}, {"dtype": "f64", "shape": [2], "data": [4, 8]}, null])");
  const json vjp = f.tell({"vjp", same, "--inputs", x, "--cotangents", c});
  CHECK(vjp["gradients"] == json{{"x", tensor("f64", {2}, {65.0, 210.0})}});
  const json jvp = f.tell({"jvp", same, "--inputs", x, "--tangents", x});
  const json once = tensor("f64", {2}, {3.0, 5.0}), twice = tensor("f64", {2}, {18.0, 50.0});
  CHECK(jvp["tangents"] == json{once, twice, once, twice});
  for (const std::string mode : {"forward", "reverse"}) {
    const json jac = f.tell({"jac", same, "--inputs", x, "--mode", mode})["jacobians"];
    CHECK(jac[0]["x"] == tensor("f64", {2, 2}, {1.0, 0.0, 0.0, 1.0}));
    CHECK(jac[3]["x"] == tensor("f64", {2, 2}, {6.0, 0.0, 0.0, 10.0}));
  }
}

TEST_CASE("--profile writes executions, recordings and backward passes") {
  const Files f;
  const std::string file = f.folder.path("profile.json");
  const test::Answer refused =
      run_command({"hvp", f.graph, "--inputs", f.inputs, "--tangents", f.inputs, "--profile", file});
  CHECK(refused.status == 2);
  CHECK(refused.err == "tidu: hvp: expected --profile together with --eager, got it alone\n");
  CHECK_FALSE(std::filesystem::exists(file));
  const test::Answer answer = run_command(
      {"hvp", f.graph, "--inputs", f.inputs, "--tangents", f.inputs, "--eager", "--profile", file});
  REQUIRE_MESSAGE(answer.status == 0, answer.err);
  std::ifstream in(file);
  std::map<std::string, int> count;
  const json profile = json::parse(in);
  for (const json& event : profile["traceEvents"])
    if (event["ph"] == "X") ++count[event["name"]];
  CHECK(count["mul"] == 1);
  CHECK(count["reduce_sum"] == 1);
  CHECK(count["record mul"] == 1);
  CHECK(count["record backward of mul"] == 1);
  CHECK(count["transposed mul"] == 1);
  CHECK(count["transposed reduce_sum"] == 1);
  CHECK(count["transposed backward of mul"] == 1);
}

TEST_CASE("check agrees, and tells which rule is at fault when it does not") {
  const Files f;
  const test::Answer right = run_command({"check", f.graph, "--inputs", f.inputs});
  CHECK(right.status == 0);
  CHECK(right.out.find("vjp agrees with jvp") != std::string::npos);

  // The same with a derivative of sin that is 1% too large.
  static Primitive wrong = *standard_primitives().find("sin");
  wrong.jvp = [](JvpContext& c) -> Derivatives {
    const Value slope = ops::cos(c.primal(0));
    return *c.tangent(0) * (slope * ops::full_like(slope, 1.01));
  };
  const std::string sine = f.folder.file("sine.json", R"({"format": "tidu.graph", "version": 1,
    "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []}],
    "inputs": [0], "operations": [{"op": "sin", "inputs": [0], "outputs": [1]}], "outputs": [1]})");
  const std::string x = f.folder.file("x.json", R"({"x": {"dtype": "f64", "shape": [], "data": [0.3]}})");
  const PrimitiveSet set = standard_primitives().replacing(&wrong);
  const test::Answer answer = run_command({"check", sine, "--inputs", x}, set);
  CHECK(answer.status == 3);
  CHECK(answer.out.find("sin") != std::string::npos);
  CHECK(answer.out.find("jvp") != std::string::npos);
  CHECK(run_command({"check", sine, "--inputs", x}).status == 0);
}

TEST_CASE("help tells every command and its options, and nothing that is not there") {
  const test::Answer all = run_command({"--help"});
  CHECK(all.status == 0);
  for (const std::string command : {"eval", "jvp", "vjp", "grad", "hvp", "jac", "check", "dump", "ops"}) {
    CHECK(all.out.find("  tidu " + command + ' ') != std::string::npos);
    const test::Answer one = run_command({command, "--help"});
    CHECK(one.status == 0);
    CHECK(one.err.empty());
    CHECK(one.out.find("usage: tidu " + command + ' ') == 0);
    CHECK(run_command({"help", command}).out == one.out);
    const bool runs = command != "dump" && command != "ops";
    CHECK((one.out.find("cpu (the default), reference") != std::string::npos) == runs);
    CHECK((one.out.find("--eager") != std::string::npos) == (runs && command != "check"));
    const bool has_cuda = standard_executors().size() == 3;
    CHECK((one.out.find("reference, cuda") != std::string::npos) == (runs && has_cuda));
  }
}

}  // namespace
}  // namespace tidu
