// Input in messages: truncation, escaping, and every message is UTF-8 without control characters for any
// input in it.
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <tidu/graph/dot.hpp>
#include <tidu/graph/json.hpp>

#include "graph/json_attributes.hpp"
#include "support/printable.hpp"
#include "support/support.hpp"
#include "support/test_primitives.hpp"

namespace tidu::quotations_cases {
namespace {

using detail::in_quotes;
using detail::printable;
using detail::str;
using test::awkward_texts;
using test::is_printable;
using test::test_set;
using namespace std::string_view_literals;

TEST_CASE("control characters and bytes that are not UTF-8 are escaped") {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {""sv, ""},
      {"x.y_1 é€😀"sv, "x.y_1 é€😀"},
      {"a\nb\tc\rd"sv, "a\\nb\\tc\\u000dd"},
      {"\0\x01\x1b[0m\x7f"sv, "\\u0000\\u0001\\u001b[0m\\u007f"},
      {"\xc2\x80\xc2\x85\xc2\x9f\xc2\xa0"sv, "\\u0080\\u0085\\u009f\xc2\xa0"},
      {"\xc0\xaf\xc1\xbf"sv, "\\xc0\\xaf\\xc1\\xbf"},
      {"\xe0\x9f\xbf\xe0\xa0\x80"sv, "\\xe0\\x9f\\xbf\xe0\xa0\x80"},
      {"\xed\xa0\x80\xed\x9f\xbf"sv, "\\xed\\xa0\\x80\xed\x9f\xbf"},
      {"\xf0\x8f\xbf\xbf\xf0\x90\x80\x80"sv, "\\xf0\\x8f\\xbf\\xbf\xf0\x90\x80\x80"},
      {"\xf4\x90\x80\x80\xf4\x8f\xbf\xbf"sv, "\\xf4\\x90\\x80\\x80\xf4\x8f\xbf\xbf"},
      {"\xe2\x82"sv, "\\xe2\\x82"},
      {"\xe2\x82(\xf0\x9f\x98"sv, "\\xe2\\x82(\\xf0\\x9f\\x98"},
      {"\x80\xbf\xf8\xfe\xff"sv, "\\x80\\xbf\\xf8\\xfe\\xff"},
  };
  for (const auto& [text, shown] : rows) {
    CHECK(str(printable(text)) == shown);
    CHECK(str(in_quotes(text)) == str('"', shown, '"'));
  }
  CHECK(str(printable("C:\\a \"b\"")) == "C:\\a \"b\"");
  CHECK(str(in_quotes("C:\\a \"b\"")) == R"("C:\\a \"b\"")");
  CHECK(str(detail::list(std::vector<std::string>{"x", "\xff\n"})) == "[x,\\xff\\n]");
}

TEST_CASE("every code point stands as it is, but control characters") {
  std::size_t wrong = 0;
  for (std::uint32_t code = 0; code <= 0x10ffff; ++code) {
    const std::string text = test::utf8(code);
    const std::string shown = printable(text);
    const bool as_it_is = !test::is_control(code) && !test::is_surrogate(code);
    if ((shown == text) != as_it_is || !is_printable(shown)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("text is cut between characters, at every length") {
  for (const std::string character : {"a", "é", "€", "😀", "\n", "\xff", "\xc2\x85"}) {
    for (std::size_t letters = 0; letters < 5; ++letters) {
      std::vector<std::string> characters(letters, "b");
      characters.insert(characters.end(), 6, character);
      std::string text, whole;
      for (const std::string& each : characters) text += each;
      for (std::size_t longest = 0; longest <= text.size() + 1; ++longest) {
        std::size_t bytes = 0;
        whole.clear();
        for (const std::string& each : characters) {
          bytes += each.size();
          if (bytes <= longest) whole += printable(each);
        }
        if (longest < text.size()) whole += "...";
        REQUIRE(str(printable(text, longest)) == whole);
        REQUIRE(str(in_quotes(text, longest)) == str('"', whole, '"'));
      }
    }
  }
}

TEST_CASE("random bytes in quotes") {
  std::mt19937_64 random(7);
  for (std::size_t n = 0; n < test::scaled(20'000); ++n) {
    std::string text(random() % 24, '\0');
    for (char& c : text) {  // one in four leads or continues a character
      const std::uint64_t bits = random();
      c = static_cast<char>(bits % 4 == 0 ? bits >> 8U & 0x7fU : 0x80U | (bits >> 8U & 0x7fU));
    }
    const std::string shown = in_quotes(text, random() % 30);
    REQUIRE(is_printable(shown));
  }
}

std::string in_json(std::string_view text) {
  std::string out;
  detail::append_json_string(out, text);
  return out;
}

// A dump that is rejected, with the text at one position of it.
constexpr std::string_view places[] = {
    // members
    R"({@: 1})",
    R"(@)",
    R"({"version": @})",
    R"({"version": 1, @: 1})",
    R"({"format": @, "version": 1, "values": [], "inputs": [], "operations": [], "outputs": []})",
    R"({"format": "tidu.graph", "version": 1, "values": @, "inputs": [], "operations": [], "outputs": []})",
    // values, inputs and externals
    R"(V{"id": 0, "dtype": @, "shape": []}], "inputs": [], "operations": [], "outputs": []})",
    R"(V{"id": 0, "dtype": "f64", "shape": [@]}], "inputs": [], "operations": [], "outputs": []})",
    R"(V{"id": 0, "dtype": "f64", "shape": [], @: 1}], "inputs": [], "operations": [], "outputs": []})",
    R"(V{"id": 0, "dtype": "f64", "shape": [], "name": @}, {"id": 1, "dtype": "f64", "shape": [], "name": @}],
        "inputs": [0, 1], "operations": [], "outputs": []})",
    R"(V{"id": 0, "dtype": "f64", "shape": [], "input_key": @}], "inputs": [0], "operations": [], "outputs": []})",
    R"(V{"id": 0, "dtype": "f64", "shape": [], "name": "x", "key": @}], "inputs": [0], "operations": [], "outputs": []})",
    R"(V{"id": 0, "dtype": "f64", "shape": []}], "inputs": [], "externals": [{"id": 0, "key": @}],
        "operations": [], "outputs": []})",
    R"(V{"id": 0, "dtype": "f64", "shape": []}], "inputs": [], "externals": [{"id": 0, @: @}],
        "operations": [], "outputs": []})",
    // graphs by name: a value without origin, an output that is none
    R"({"format": "tidu.graph", "version": 1, "name": @, "values": [{"id": 0, "dtype": "f64", "shape": []}],
        "inputs": [], "operations": [], "outputs": []})",
    R"({"format": "tidu.graph", "version": 1, "name": @, "values": [], "inputs": [], "operations": [], "outputs": [1]})",
    // operations
    R"(O{"op": @, "inputs": [], "outputs": []})",
    R"(O{"op": "sin", "inputs": [], "outputs": [], @: 1})",
    R"(O{"op": "sin", "inputs": [], "outputs": [], "where": @})",
    R"(O{"op": "sin", "inputs": [@], "outputs": []})",
    R"(O{"op": "sin", "inputs": [], "outputs": [], "origin": @})",
    R"(O{"op": "sin", "inputs": [0], "outputs": [], "role": {@: 1}})",
    R"(O{"op": "sin", "inputs": [0], "outputs": [], "role": {"linear": [@]}})",
    // attributes
    R"(O{"op": "full", "inputs": [], "outputs": [], "attrs": {@: 1}})",
    R"(O{"op": "full", "inputs": [], "outputs": [], "attrs": {"value": @, "dtype": "f64"}})",
    R"(O{"op": "full", "inputs": [], "outputs": [], "attrs": {"dtype": @}})",
    R"(O{"op": "full", "inputs": [], "outputs": [], "attrs": {"shape": @}})",
    R"(O{"op": "full", "inputs": [], "outputs": [], "attrs": {"shape": [@]}})",
    R"(O{"op": "constant", "inputs": [], "outputs": [], "attrs": {"value": {"dtype": @, "shape": [], "data": []}}})",
    R"(O{"op": "constant", "inputs": [], "outputs": [], "attrs": {"value": {"dtype": "f64", "shape": [], "data": [@]}}})",
    R"(O{"op": "constant", "inputs": [], "outputs": [], "attrs": {"value": {@: 1}}})",
    R"(O{"op": "test.kinds", "inputs": [], "outputs": [], "attrs": {"flag": @}})",
    R"(O{"op": "test.kinds", "inputs": [], "outputs": [], "attrs": {"count": @}})",
    R"(O{"op": "test.kinds", "inputs": [], "outputs": [], "attrs": {"conv": {@: []}}})",
    R"(O{"op": "test.kinds", "inputs": [], "outputs": [], "attrs": {"dot": @}})",
    R"(O{"op": "call", "inputs": [], "outputs": [], "attrs": {"graph": {@: 1}}})",
};

std::string dump_with(std::string_view place, std::string_view json) {
  std::string text;
  for (const char c : place) {
    if (c == '@') {
      text += json;
    } else if (c == 'V' && text.empty()) {
      text = R"({"format": "tidu.graph", "version": 1, "values": [)";
    } else if (c == 'O' && text.empty()) {
      text = R"({"format": "tidu.graph", "version": 1, "name": "f",
                 "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}], "inputs": [0], "operations": [)";
    } else {
      text += c;
    }
  }
  return place[0] == 'O' ? text + R"(], "outputs": []})" : text;
}

TEST_CASE("messages of refused dumps are printable, whatever stands in any place of them") {
  const std::vector<std::string> texts = awkward_texts(50, 62);
  for (const std::string_view place : places) {
    std::size_t with_text = 0;
    for (const std::string& text : texts) {
      const Result<Graph> result = try_graph_from_json(dump_with(place, in_json(text)), test_set());
      REQUIRE_FALSE(result);
      const std::string_view said = result.error().what();
      if (!is_printable(said)) FAIL_CHECK(place << ": " << str(printable(said)));
      if (said.find("aaaaa") != std::string_view::npos) ++with_text;
    }
    CHECK_MESSAGE(with_text > 0, place);
  }
}

TEST_CASE("text that is not JSON gives a printable error") {
  const auto check = [](const std::string& text) {
    const Result<Graph> result = try_graph_from_json(text, test_set());
    REQUIRE_FALSE(result);
    if (!is_printable(result.error().what())) FAIL_CHECK(str(printable(result.error().what())));
  };
  for (const std::string& text : awkward_texts(170, 205)) {
    check(text);
    check('"' + text);
    check("[\"" + text + "\" ]");
    check("{\"a\": \"" + text + "\" x");
    check("{\"a\": 1e999" + text);
    check("{\"" + text + "\": \"" + text + "\" x");
  }
  std::mt19937_64 random(11);
  for (std::size_t n = 0; n < test::scaled(20'000); ++n) {
    std::string text(1 + random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random());
    check(n % 2 == 0 ? text : '"' + text);
  }
}

// The errors of a graph with that text for every name, and its outputs as text.
void check_messages_of(const std::string& text) {
  const auto check = [&](const std::function<void()>& refused) {
    try {
      refused();
      FAIL_CHECK("nothing was refused");
    } catch (const Error& error) {
      if (!is_printable(error.what())) FAIL_CHECK(str(printable(error.what())));
    }
  };
  GraphBuilder builder(text, test_set()), other(text, test_set());
  const Value x = builder.input(text, f64), y = other.input(text, f64);
  const std::string place = text + ".cpp";
  const Value z = emit1(plain_op<test::sin_p>(), {x}, Where{place.c_str(), 7});
  check([&] { builder.input(text, f64); });
  check([&] { test::add(x, y); });
  check([&] { test::add(x, builder.input("y", f32)); });
  check([&] { builder.build({y}); });
  check([&] { test::kinds_op().attribute(text); });
  check([&] { Op::make(test::full_p, {{text, true}}); });
  check([&] { Op::make(test::full_p, {{"value", true}, {"value", text}, {text, text}, {text, text}}); });
  const Graph graph = builder.build({z});
  check([&] { with_input_names(graph, std::vector<std::string>{}); });
  CHECK(is_printable(describe_operation(graph, 0)));
  std::string lines = to_text(graph);
  lines.pop_back();
  CHECK(is_printable(lines));
}

TEST_CASE("messages of graphs are printable, whatever their names") {
  for (const std::string& text : awkward_texts(0, 2)) check_messages_of(text);
}

TEST_CASE("labels of operations in DOT are cut between characters") {
  for (const std::string& text : awkward_texts(12, 26)) {
    GraphBuilder builder("f", test_set());
    Attributes attributes = test::kinds_op().attributes();
    for (auto& [name, value] : attributes)
      if (name == "mode") value = text;
    const Graph graph =
        builder.build({emit1(Op::make(test::kinds_p, attributes), {builder.input("x", Type(f32, {2}))})});
    std::string dot = to_dot(graph);
    std::erase(dot, '\n');
    REQUIRE(is_printable(dot));
  }
}

}  // namespace
}  // namespace tidu::quotations_cases
