// dump and ops: every stage in every format; a graph dumped as JSON loads again, and eval of it gives the
// results of jvp and vjp.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "cli/helpers.hpp"
#include "support/support.hpp"

namespace tidu {
namespace {

using nlohmann::json;
using test::run_command;

std::string tell(const std::vector<std::string>& words) {
  const test::Answer answer = run_command(words);
  REQUIRE_MESSAGE(answer.status == 0, answer.err);
  CHECK(answer.err.empty());
  return answer.out;
}

std::vector<std::string> input_names(const json& graph) {
  std::vector<std::string> names;
  for (const json& id : graph["inputs"]) names.push_back(graph["values"][id.get<std::size_t>()]["name"]);
  return names;
}

TEST_CASE("a dump is printed byte for byte as it was laid out") {
  const test::Folder folder;
  const std::string path = folder.file("g.json", test::dot_graph);
  CHECK(tell({"dump", path, "--format", "json"}) == test::dot_graph);
  CHECK(tell({"dump", path, "--stage", "primal"}) == tell({"dump", path}));
  CHECK(tell({"dump", path}) ==
        "graph \"dot\"\n  input %0:x f64[3]\n  input %1:y f64[3]\n  %2 f64[3] = mul %0:x %1:y\n"
        "  %3 f64[] = reduce_sum axes=[0] %2\n  output %3\n");
}

TEST_CASE("every stage in every format, with keys and without") {
  const test::Folder folder;
  for (const char* graph : {test::dot_graph, test::mixed_graph}) {
    const std::string path = folder.file("g.json", graph);
    for (const std::string stage : {"primal", "linear", "transposed", "program"}) {
      INFO(stage);
      const std::vector<std::string> words{"dump", path, "--stage", stage, "--format"};
      const auto dump = [&](const std::string& format, bool keys) {
        std::vector<std::string> all = words;
        all.push_back(format);
        if (keys) all.emplace_back("--keys");
        return tell(all);
      };
      const json keyed = json::parse(dump("json", true));
      const std::string key = keyed["values"].back()["key"];
      CHECK(key.size() == 32);
      for (const std::string format : {"text", "json", "dot"}) {
        const std::string plain = dump(format, false), with_keys = dump(format, true);
        CHECK(plain.back() == '\n');
        CHECK(plain.find(key) == std::string::npos);
        CHECK(with_keys.find(key) != std::string::npos);
      }
      CHECK(dump("dot", false).find("digraph") == 0);
      CHECK(dump("text", false).find(stage == "program" ? "program \"" : "graph \"") == 0);
      // a dumped graph loads again, and its dump is the same
      for (const bool keys : {false, true}) {
        const std::string text = dump("json", keys);
        std::vector<std::string> again{"dump", folder.file("again.json", text), "--format", "json"};
        if (keys) again.emplace_back("--keys");
        CHECK(tell(again) == text);
      }
    }
  }
}

TEST_CASE("the dumped linear and transposed graphs have the results of jvp and vjp") {
  const test::Folder folder;
  const std::string path = folder.file("g.json", test::mixed_graph);
  const std::string inputs = folder.file("i.json", test::mixed_inputs);
  const json z = json::parse(R"({"dtype": "c128", "shape": [], "data": [[0.5, 9.0]]})");
  const json x = json::parse(R"({"dtype": "f64", "shape": [], "data": [3.0]})");
  const json zero = json::parse(R"({"dtype": "f64", "shape": [], "data": [0.0]})");
  const std::string linear =
      folder.file("linear.json", tell({"dump", path, "--stage", "linear", "--format", "json"}));
  const std::string transposed =
      folder.file("transposed.json", tell({"dump", path, "--stage", "transposed", "--format", "json"}));
  CHECK(input_names(json::parse(tell({"dump", linear, "--format", "json"}))) ==
        std::vector<std::string>{"k", "z", "x", "z.tangent", "x.tangent"});
  CHECK(input_names(json::parse(tell({"dump", transposed, "--format", "json"}))) ==
        std::vector<std::string>{"k", "z", "x", "cotangent.0", "cotangent.1"});

  const json jvp = json::parse(tell({"jvp", path, "--inputs", inputs, "--tangents",
                                     folder.file("t.json", json{{"z", z}, {"x", x}}.dump())}));
  json given = json::parse(test::mixed_inputs);
  given.update({{"z.tangent", z}, {"x.tangent", x}});
  const json forward =
      json::parse(tell({"eval", linear, "--inputs", folder.file("l.json", given.dump())}))["outputs"];
  REQUIRE(forward.size() == 5);  // three outputs, two tangents
  CHECK(json(forward.begin(), forward.begin() + 3) == jvp["outputs"]);
  CHECK(forward[3] == jvp["tangents"][1]);
  CHECK(jvp["tangents"][2].is_null());
  CHECK(forward[4] == zero);  // floor(x) has none

  const json vjp = json::parse(tell({"vjp", path, "--inputs", inputs, "--cotangents",
                                     folder.file("c.json", json{nullptr, x, nullptr}.dump())}));
  given = json::parse(test::mixed_inputs);
  given.update({{"cotangent.0", x}, {"cotangent.1", zero}});
  const json backward =
      json::parse(tell({"eval", transposed, "--inputs", folder.file("b.json", given.dump())}))["outputs"];
  REQUIRE(backward.size() == 5);  // three outputs, two gradients
  CHECK(json(backward.begin(), backward.begin() + 3) == vjp["outputs"]);
  CHECK(backward[3] == vjp["gradients"]["z"]);
  CHECK(backward[4] == vjp["gradients"]["x"]);
}

TEST_CASE("names that are taken are not given to tangents, and absent gradients are zeros") {
  const test::Folder folder;
  const std::string path = folder.file("g.json", R"({"format": "tidu.graph", "version": 1,
    "values": [{"id": 0, "dtype": "f64", "shape": [2], "name": "x"},
               {"id": 1, "dtype": "f64", "shape": [2], "name": "x.tangent"},
               {"id": 2, "dtype": "f64", "shape": [2]}],
    "inputs": [0, 1], "operations": [{"op": "sin", "inputs": [1], "outputs": [2]}], "outputs": [2]})");
  const json linear = json::parse(tell({"dump", path, "--stage", "linear", "--format", "json"}));
  const std::vector<std::string> names = input_names(linear);
  CHECK(names.size() == 4);
  CHECK(std::count(names.begin(), names.end(), "x.tangent") == 1);
  const std::string transposed =
      folder.file("transposed.json", tell({"dump", path, "--stage", "transposed", "--format", "json"}));
  const std::string given = folder.file("i.json", R"({"x": {"dtype": "f64", "shape": [2], "data": [1, 2]},
    "x.tangent": {"dtype": "f64", "shape": [2], "data": [0, 0]},
    "cotangent.0": {"dtype": "f64", "shape": [2], "data": [3, 4]}})");
  const json outputs = json::parse(tell({"eval", transposed, "--inputs", given}))["outputs"];
  CHECK(outputs[1]["data"] == json{0.0, 0.0});
  CHECK(outputs[2]["data"] == json{3.0, 4.0});
}

TEST_CASE("a program is the graph without equal or dead operations") {
  const test::Folder folder;
  const std::string path = folder.file("g.json", R"({"format": "tidu.graph", "version": 1,
    "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []},
               {"id": 2, "dtype": "f64", "shape": []}, {"id": 3, "dtype": "f64", "shape": []},
               {"id": 4, "dtype": "f64", "shape": []}],
    "inputs": [0], "operations": [{"op": "sin", "inputs": [0], "outputs": [1]}, {"op": "sin", "inputs": [0], "outputs": [2]},
      {"op": "cos", "inputs": [0], "outputs": [3]}, {"op": "add", "inputs": [1, 2], "outputs": [4]}], "outputs": [4]})");
  const json program = json::parse(tell({"dump", path, "--stage", "program", "--format", "json"}));
  CHECK(program["operations"].size() == 2);
  CHECK(tell({"dump", path, "--stage", "program"}).find("memory: ") != std::string::npos);
}

TEST_CASE("svg is drawn where Graphviz is installed, and refused with a reason where not") {
  const test::Folder folder;
  const std::string path = folder.file("g.json", test::mixed_graph);
  const test::Answer answer = run_command({"dump", path, "--stage", "linear", "--format", "svg"});
  if (std::system("dot -V > /dev/null 2>&1") == 0) {
    CHECK(answer.status == 0);
    CHECK(answer.out.find("<svg") != std::string::npos);
    CHECK(answer.out.find("</svg>") != std::string::npos);
  } else {
    CHECK(answer.status == 1);
    CHECK(answer.err.find("Graphviz") != std::string::npos);
  }
}

TEST_CASE("ops lists every primitive once, in three formats") {
  const json rows = json::parse(tell({"ops", "--format", "json"}));
  const std::string text = tell({"ops"}), markdown = tell({"ops", "--format", "md"});
  REQUIRE(rows.size() == standard_primitives().primitives().size());
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == rows.size() + 1);
  CHECK(static_cast<std::size_t>(std::count(markdown.begin(), markdown.end(), '\n')) == rows.size() + 2);
  CHECK(text.find(" \n") == std::string::npos);
  for (const json& row : rows) {
    const std::string name = row["primitive"];
    INFO(name);
    CHECK(text.find('\n' + name + ' ') != std::string::npos);
    CHECK(markdown.find("| `" + name + "` |") != std::string::npos);
    for (const char* rule : {"jvp", "transpose", "batch"}) CHECK(row[rule] != "missing");
    CHECK(row["kernels"]["cpu"].size() > 0);
    CHECK(row["kernels"]["reference"].size() > 0);
  }
}

// The begin of the last column of a line.
std::size_t last_column(const std::string& line) { return line.rfind('|', line.size() - 2); }

std::string without_last_column(const std::string& table) {
  std::istringstream lines(table);
  std::string result;
  for (std::string line; std::getline(lines, line);) result += line.substr(0, last_column(line)) + '\n';
  return result;
}

// The table with the last column of another for the primitives that both have, and none for others.
std::string with_last_column_of(const std::string& other, const std::string& table) {
  const auto name = [](const std::string& line) { return line.substr(0, line.find('|', 1)); };
  std::map<std::string, std::string> columns;
  std::istringstream others(other), lines(table);
  for (std::string line; std::getline(others, line);) columns[name(line)] = line.substr(last_column(line));
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const auto known = columns.find(name(line));
    result += line.substr(0, last_column(line)) + (known == columns.end() ? "|  |" : known->second) + '\n';
  }
  return result;
}

bool has_cuda() {
  const std::vector<CliExecutor> executors = standard_executors();
  return std::any_of(executors.begin(), executors.end(),
                     [](const CliExecutor& executor) { return executor.name == "cuda"; });
}

// TIDU_UPDATE_GOLDEN=1 writes the table anew. Without tidu::cuda its column is unknown, and stays unchanged.
TEST_CASE("docs/primitives.md has the table that ops prints") {
  const std::filesystem::path path = test::source_dir() / "docs" / "primitives.md";
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string document = content.str(), table = tell({"ops", "--format", "md"});
  const std::string head = table.substr(0, table.find('\n') + 1);
  const std::size_t from = document.find(head);
  REQUIRE(from != std::string::npos);
  const std::size_t to = std::min(document.find("\n\n", from), document.size() - 1) + 1;
  const std::string written = document.substr(from, to - from);
  const std::string known = has_cuda() ? table : with_last_column_of(written, table);
  if (std::getenv("TIDU_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << document.substr(0, from) << known << document.substr(to);
  } else if (has_cuda()) {
    CHECK(written == table);
  } else {
    CHECK(without_last_column(written) == without_last_column(table));
  }
}

TEST_CASE("a table that is written without tidu::cuda keeps the column that another build wrote") {
  const std::string written =
      "| primitive | cpu | cuda |\n|---|---|---|\n| `a` | f32 | f32 |\n| `b` | f32 | f64 |\n";
  const std::string table =
      "| primitive | cpu | cuda |\n|---|---|---|\n| `b` | bool |  |\n| `c` | f32 |  |\n| `a` | f32 |  |\n";
  CHECK(with_last_column_of(written, table) ==
        "| primitive | cpu | cuda |\n|---|---|---|\n| `b` | bool | f64 |\n| `c` | f32 |  |\n| `a` | f32 | "
        "f32 |\n");
}

}  // namespace
}  // namespace tidu
