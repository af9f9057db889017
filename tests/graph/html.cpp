// html.cpp - the page of a graph: it contains the graph, for any names, and grows with the graph. The golden
// data are in tests/data/html; TIDU_UPDATE_GOLDEN=1 writes them anew. tests/graph/view.js tests the page's
// scripts on them.
#include "tidu/graph/html.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tidu/graph/builder.hpp>
#include <tidu/graph/json.hpp>
#include <tidu/linearize/transforms.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>
#include <vector>

#include "support/support.hpp"

namespace tidu::html_cases {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view data_begin = R"(<script type="application/json" id="data">)";
constexpr std::string_view data_end = "</script>";

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++found;
  return found;
}

// The data as a browser reads it: from the element's beginning to the first text that ends it.
std::string data_of(const std::string& page) {
  REQUIRE(count(page, data_begin) == 1);
  const std::size_t from = page.find(data_begin) + data_begin.size();
  return page.substr(from, page.find(data_end, from) - from);
}

// Graph `number` of a page's data, with its inner graphs inserted again.
ordered_json whole(const ordered_json& data, std::size_t number) {
  ordered_json graph = data["graphs"][number];
  for (ordered_json& operation : graph["operations"]) {
    if (!operation.contains("attrs")) continue;
    for (auto& [name, value] : operation["attrs"].items())
      if (value.is_object() && value.contains("graph"))
        value = whole(data, value["graph"].get<std::size_t>());
  }
  return graph;
}

Graph layer() {
  GraphBuilder builder("layer");
  const Value x = builder.input("x", {f64, {3}});
  return builder.build({ops::tanh(x * x)});
}

// One of each: names, attributes, a tensor, a call, roles and origins.
Graph sample() {
  GraphBuilder builder("sample");
  const Value x = builder.input("x", {f64, {3}}), w = builder.input("w", {f64, {3}});
  const double elements[] = {1.0, -0.5, 0.25};
  const Value c = ops::constant(builder, Literal::of<double>({f64, {3}}, elements));
  const Value y = ops::call(layer(), std::vector{x * c})[0];
  builder.set_label(y, "hidden");
  DerivativeOptions options;
  options.named_inputs = true;
  return vjp(builder.build({ops::reduce_sum(y * w, {0})}), {}, options);
}

TEST_CASE("the data of a page are the graph, and golden") {
  const std::string page = to_html(sample(), {.stage = "transposed"});
  CHECK(page == to_html(sample(), {.stage = "transposed"}));
  const std::filesystem::path path = test::source_dir() / "tests" / "data" / "html" / "sample.json";
  if (std::getenv("TIDU_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << data_of(page) << '\n';
  }
  CHECK(data_of(page) + '\n' == read(path));
  const ordered_json data = ordered_json::parse(data_of(page));
  CHECK(data["format"] == "tidu.view");
  CHECK(data["version"] == 1);
  CHECK(data["stage"] == "transposed");
  CHECK(to_json(graph_from_json(whole(data, 0).dump()), {.keys = true}) == to_json(sample(), {.keys = true}));
  CHECK_FALSE(data_of(to_html(sample(), {.keys = false})).find("\"key\"") != std::string::npos);
}

TEST_CASE("a page is its template, title and data, and asks for nothing from elsewhere") {
  const std::string page = to_html(layer());
  const std::filesystem::path view = test::source_dir() / "src" / "graph" / "view";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(view)) {
    if (entry.path().extension() == ".html") continue;
    INFO(entry.path().filename().string());
    CHECK(page.find(read(entry.path())) != std::string::npos);
    ++files;
  }
  CHECK(files >= 8);
  CHECK(page.find("<title>layer - tidu</title>") != std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  for (const char* absent : {"http://", "https://", "@import", "src=", "href=", "url(", "fetch(", "import(",
                             "@DATA@", "@TITLE@", "innerHTML", "eval("}) {
    INFO(absent);
    CHECK(page.find(absent) == std::string::npos);
  }
}

TEST_CASE("no name leaves its place") {
  const std::string plain = to_html(layer());
  for (const std::string& name :
       {std::string("</script><script>alert(1)</script>"), std::string("<!--<script>"),
        std::string("\" ' \\ & ]]>"), std::string("@DATA@ @TITLE@"),
        std::string("\u202e\u2028\u2029 梯度 \U0001f600"), std::string("a\0b\n\t\x7f", 6),
        std::string("</SCRIPT \n></title><img src=x onerror=alert(1)>")}) {
    INFO(name);
    GraphBuilder builder(name);
    const Value x = builder.input(name, {f64, {3}});
    GraphBuilder::Extra extra;
    extra.where = builder.intern_where(name);
    const Value y = ops::tanh(x);
    builder.set_label(y, name + "1");
    const std::string page = to_html(builder.build({y}), {.stage = name});
    const ordered_json data = ordered_json::parse(data_of(page));
    CHECK(data["stage"] == name);
    CHECK(data["graphs"][0]["name"] == name);
    CHECK(data["graphs"][0]["values"][0]["name"] == name);
    CHECK(data["graphs"][0]["values"][1]["name"] == name + "1");
    CHECK(data_of(page).find('<') == std::string::npos);
    // tags there are as many as in a page without such names
    CHECK(count(page, "<script") == count(plain, "<script"));
    CHECK(count(page, "</script") == count(plain, "</script"));
    CHECK(count(page, "<!--") == count(plain, "<!--"));
    CHECK(count(page, "</title>") == 1);
    CHECK(count(page, "<img") == 0);
  }
  GraphBuilder builder("\xff\xfe bytes");  // no UTF-8
  const std::string page = to_html(builder.build({builder.input("\xc3(", f64)}));
  CHECK(json::parse(data_of(page))["graphs"][0]["name"].get<std::string>().find("bytes") !=
        std::string::npos);
  CHECK(page.find("<title>\ufffd\ufffd bytes - tidu</title>") != std::string::npos);
}

// A chain of n operations of which no two have equal operands.
std::string long_page(int n) {
  GraphBuilder builder("long");
  Value x = builder.input("x", {f64, {64, 32}}), y = x;
  for (int i = 0; i < n; i += 2) {
    const Value next = ops::sin(y);
    y = next + x;
    x = next;
  }
  const Graph graph = builder.build({y});
  REQUIRE(graph.num_operations() == static_cast<std::size_t>(n));
  return to_html(graph);
}

TEST_CASE("a page grows as its graph does") {
  const std::size_t none = long_page(0).size(), some = long_page(5000).size(),
                    twice = long_page(10000).size();
  const std::string page = long_page(20000);
  CHECK(page.size() < none + 20000 * 200);
  const auto apart = [&](std::size_t a, std::size_t b) {
    return static_cast<double>(a - none) / static_cast<double>(b - none);
  };
  CHECK(apart(twice, some) == doctest::Approx(2.0).epsilon(0.05));
  CHECK(apart(page.size(), twice) == doctest::Approx(2.0).epsilon(0.05));
  CHECK(count(data_of(page), "\"op\": ") == 20000);
}

TEST_CASE("a graph that many operations hold is written once, and tensors are cut") {
  GraphBuilder builder("calls");
  Value x = builder.input("x", {f64, {3}});
  for (int i = 0; i < 1000; ++i) x = ops::call(layer(), std::vector{x})[0];
  const std::vector<double> elements(1000, 0.5);
  x = x * ops::slice(
              ops::constant(builder, Literal::of<double>({f64, {1000}}, std::span<const double>(elements))),
              {0}, {3}, {1});
  const Graph graph = builder.build({x});
  const std::string text = data_of(to_html(graph));
  const json data = json::parse(text);
  REQUIRE(data["graphs"].size() == 2);
  CHECK(data["graphs"][1]["name"] == "layer");
  CHECK(count(text, "\"tanh\"") == 1);
  CHECK(count(text, "{\"graph\": 1}") == 1000);
  for (const json& operation : data["graphs"][0]["operations"]) {
    if (operation["op"] != "constant") continue;
    CHECK(operation["attrs"]["value"]["data"].size() == 256);
    CHECK(operation["attrs"]["value"]["elided"] == 744);
  }
  CHECK(data_of(to_html(graph, {.max_elements = 1000})).find("elided") == std::string::npos);
}

}  // namespace
}  // namespace tidu::html_cases
