// dump.cpp - tapes as JSON, as Graphviz text and as a page. Golden ones lie in tests/data/tapes;
// TIDU_UPDATE_GOLDEN=1 writes them anew.
#include "tidu/eager/dump.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support.hpp"
#include "support/support.hpp"

namespace tidu::test {
namespace {

using nlohmann::json;

// A small program with one of each: leaves with and without name, attributes, a composite graph, an operation
// without derivative, a value taken as a constant, a hook, names of values, two roots, and a freed node.
struct Program {
  Program() {
    GraphBuilder layer("layer");
    const Value a = layer.input("a", {f64, {3}}), b = layer.input("b", {f64, {3}});
    const Value e = ops::exp(a * b);
    const RecordedGraph composite = RecordedGraph::of(layer.build({e + b, ops::argmax(e, 0)}));
    const auto outputs = tape.apply(composite, {w, x}, true, {"model.cpp", 5});
    GraphBuilder sum("sum");
    const RecordedGraph reduce =
        RecordedGraph::of(sum.build({ops::reduce_sum(sum.input("x", {f64, {3}}), {0})}));
    Var constant = tape.apply<prim::sin>({x}, {"model.cpp", 6});
    constant.first.requires_grad = false;
    loss = tape.apply(reduce, {tape.apply<prim::mul>({outputs[0], constant}, {"model.cpp", 7})}, true,
                      {"loss.cpp", 1})[0];
    eager::set_name(loss.first.trace, loss.first.key, "loss");
    eager::set_name(outputs[1].first.trace, outputs[1].first.key, "best");
    rounded = tape.apply<prim::floor>({constant}, {"model.cpp", 9});
    hook = eager::on_value<Tensor>(loss.first.trace, loss.first.key, [](eager::HookContext<Tensor>&) {});
  }
  std::vector<EagerOutput> roots() const { return {loss.first, rounded.first, EagerOutput{}}; }

  static eager::RecorderOptions keeping() {
    eager::RecorderOptions options;
    options.keep_blocked = true;
    return options;
  }
  Tape tape{keeping()};
  eager::Leaf<Tensor> slot{tape.recorder.keys(), "w \"1\""};
  Var w{{slot.key(), slot.trace().hold(), true, 0}, Tensor::from<double>({3}, {1.0, 2.0, 3.0})};
  Var x = tape.leaf(Tensor::from<double>({3}, {0.5, -1.0, 2.0}));
  Var loss, rounded;
  eager::HookHandle hook;
};

void check_golden(const std::string& name, const std::string& text) {
  const auto path = source_dir() / "tests" / "data" / "tapes" / name;
  if (std::getenv("TIDU_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ostringstream golden;
  golden << std::ifstream(path, std::ios::binary).rdbuf();
  CHECK(text == golden.str());
}

TEST_CASE("dump: golden tapes, before and after backward") {
  const Program p;
  check_golden("program.json", eager::to_json(p.roots()));
  check_golden("program.dot", eager::to_dot(p.roots()));
  backward(p.loss);
  check_golden("program_freed.json", eager::to_json(p.roots()));
  check_golden("program_freed.dot", eager::to_dot(p.roots()));
}

TEST_CASE("dump: the JSON has the contents of the tape") {
  const Program p;
  const json tape = json::parse(eager::to_json(p.roots(), {.keys = true}));
  REQUIRE(tape["leaves"].size() == 2);
  CHECK(tape["leaves"][0]["name"] == "w \"1\"");
  CHECK(tape["leaves"][0]["slot"] == true);
  CHECK(tape["leaves"][0]["key"] == to_string(p.slot.key()));
  CHECK(tape["leaves"][1]["key"] == to_string(p.x.first.key));
  CHECK_FALSE(tape["leaves"][1].contains("slot"));
  REQUIRE(tape["nodes"].size() == 5);
  std::map<std::string, json> by_op;
  std::size_t id = 2, last = 0;
  for (const json& node : tape["nodes"]) {
    CHECK(node["id"] == id++);
    CHECK(node["sequence"].get<std::size_t>() > last);
    last = node["sequence"];
    for (const json& input : node["inputs"]) CHECK(input["from"] < node["id"]);
    by_op[node["op"]] = node;
  }
  const json& layer = by_op["layer"];
  CHECK(layer["operations"] == 4);
  CHECK(layer["outputs"][1] == json{{"type", "i32[]"}, {"name", "best"}, {"derivative", false}});
  CHECK(layer["inputs"] ==
        json{{{"input", 0}, {"from", 0}, {"output", 0}}, {{"input", 1}, {"from", 1}, {"output", 0}}});
  CHECK(layer["where"] == "model.cpp:5");
  std::size_t bytes = 0;
  for (const json& saved : layer["saved"]) bytes += saved["bytes"].get<std::size_t>();
  CHECK(layer["saved"].size() >= 1);
  CHECK(bytes == 24 * layer["saved"].size());
  CHECK(by_op["mul"]["inputs"][1] == json{{"from", by_op["sin"]["id"]}, {"output", 0}, {"passive", true}});
  CHECK(by_op["floor"]["blocked"] == true);
  CHECK(by_op["sum"]["hooks"] == 1);
  CHECK(tape["roots"].size() == 2);
  CHECK(tape["roots"][0]["key"] == to_string(p.loss.first.key));
}

TEST_CASE("dump: versions that count writes") {
  Tape tape;
  Tensor data = Tensor::from<double>({2}, {1.0, 2.0});
  data.mutable_bytes();
  const std::uint64_t version = data.version();
  const Var y = tape.apply<prim::sin>({tape.leaf(data)});
  const std::vector<EagerOutput> roots{y.first};
  const json node = json::parse(eager::to_json(roots))["nodes"][0];
  REQUIRE(node["saved"].size() == 1);
  CHECK(node["saved"][0] ==
        json{{"value", "input 0"}, {"type", "f64[2]"}, {"bytes", 16}, {"version", version}});
}

TEST_CASE("dump: attributes, leaves alone, nothing at all, and the root of another tape") {
  Tape tape;
  const Var x = tape.leaf(2.0);
  const Var y = tape.apply(Op::make(prim::integer_pow, {{"y", std::int64_t{3}}}), {x});
  std::vector<EagerOutput> roots{y.first};
  CHECK(json::parse(eager::to_json(roots))["nodes"][0]["attrs"] == json{{"y", 3}});
  eager::Leaf<Tensor> slot(tape.recorder.keys(), "w");
  roots = {{slot.key(), slot.trace().hold(), true, 0}};
  CHECK(json::parse(eager::to_json(roots)) == json{{"format", "tidu.tape"},
                                                   {"version", 1},
                                                   {"leaves", {{{"id", 0}, {"name", "w"}, {"slot", true}}}},
                                                   {"nodes", json::array()},
                                                   {"roots", {{{"from", 0}, {"output", 0}}}}});
  CHECK(eager::to_dot(roots).find("n0 -> r0") != std::string::npos);
  CHECK(json::parse(eager::to_json({}))["roots"].empty());
  roots = {{x.first.key, y.first.trace, true, 0}};
  CHECK_THROWS_WITH_AS(eager::to_json(roots), doctest::Contains("dump: root: expected the key of an output"),
                       Error);
}

TEST_CASE("dump: a page has the tape's JSON, whatever the names are") {
  const Program p;
  const auto data_of = [](const std::string& page) {
    const std::string begin = R"(<script type="application/json" id="data">)";
    const std::size_t from = page.find(begin);
    REQUIRE(from != page.npos);
    return page.substr(from + begin.size(), page.find("</script>", from) - from - begin.size());
  };
  const json data = json::parse(data_of(eager::to_html(p.roots())));
  CHECK(data["format"] == "tidu.view");
  CHECK(data["stage"] == "tape");
  CHECK(data["tape"] == json::parse(eager::to_json(p.roots())));
  CHECK(json::parse(data_of(eager::to_html(p.roots(), {.keys = true})))["tape"] ==
        json::parse(eager::to_json(p.roots(), {.keys = true})));
  const std::string name = "</script><script>alert('\xe2\x80\xa8')</script><!--";
  eager::set_name(p.loss.first.trace, p.loss.first.key, name);
  const std::string text = data_of(eager::to_html(p.roots()));
  CHECK(text.find('<') == text.npos);
  CHECK(json::parse(text)["tape"]["nodes"].back()["outputs"].size() == 1);
  CHECK(json::parse(text)["tape"] == json::parse(eager::to_json(p.roots())));
  CHECK(json::parse(text).dump().find(name) != std::string::npos);
}

TEST_CASE("dump: long tapes without deep stack, pictures of the nodes near the roots") {
  Tape tape;
  Var x = tape.leaf(1.0);
  for (int i = 0; i < 20000; ++i) x = tape.apply<prim::sin>({x}, {"a.cpp", 1});
  const std::vector<EagerOutput> roots{x.first};
  CHECK(json::parse(eager::to_json(roots))["nodes"].size() == 20000);
  CHECK(eager::to_html(roots).size() < eager::to_json(roots).size() + 200000);
  const std::string dot = eager::to_dot(roots, {.max_operations = 10});
  CHECK(dot.find("19990 further operations are not drawn") != std::string::npos);
  CHECK(dot.find("#20000") != std::string::npos);
  CHECK(dot.find("#19990 ") == std::string::npos);
  CHECK(dot.find("leaf") == std::string::npos);
}

}  // namespace
}  // namespace tidu::test
