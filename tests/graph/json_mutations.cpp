// Dumps with random damage: each loads, and is then a valid graph that round-trips, or ends in a typed error;
// and loading allocates no more than a fixed multiple of the dump's size.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <tidu/graph/json.hpp>

#include "graph/counting_allocator.hpp"
#include "support/support.hpp"
#include "support/test_primitives.hpp"

namespace tidu {
namespace {

using Random = std::mt19937_64;

struct Source {
  std::string text;
  const PrimitiveSet* set;
};

std::vector<Source> sources() {
  std::vector<Source> all;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests" / "data" / "dumps")) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    all.push_back({text.str(), &standard_primitives()});
  }
  std::sort(all.begin(), all.end(), [](const Source& a, const Source& b) { return a.text < b.text; });
  GraphBuilder inner("inner", test::test_set());
  const Value a = inner.input("a", Type(f32, {2}));
  const Graph held = inner.build({test::sin(a), test::add(a, a)});
  GraphBuilder builder("kinds", test::test_set());
  const Value x = builder.input("x", Type(f32, {2}));
  const Value e = builder.external(ValueKey{Key128{3, 4}}, Type(f32, {2}));
  const Values pair = test::call(held, std::vector{test::mul(emit1(test::kinds_op(), {x}), e)});
  const Graph graph = builder.build({pair[1], test::draw(pair[0])});
  for (const bool keys : {false, true}) all.push_back({to_json(graph, {.keys = keys}), &test::test_set()});
  return all;
}

std::string damaged(std::string text, Random& random) {
  static const std::vector<std::string> tokens = {"[",
                                                  "]",
                                                  "{",
                                                  "}",
                                                  "\"",
                                                  ",",
                                                  ":",
                                                  "0",
                                                  "-1",
                                                  "1e400",
                                                  "4294967295",
                                                  "1152921504606846976",
                                                  "true",
                                                  "null",
                                                  "\"\"",
                                                  "[]",
                                                  "{}",
                                                  "2",
                                                  "1.5",
                                                  "\"nan\"",
                                                  "\"f32\"",
                                                  "\"c128\"",
                                                  "\"bool\"",
                                                  "\"add\"",
                                                  "\\u0000",
                                                  "\xff",
                                                  "[[0]]",
                                                  "\"axes\"",
                                                  "NaN",
                                                  "-0",
                                                  "9223372036854775808",
                                                  "\"key\": \"00000000000000000000000000000000\", "};
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  const std::size_t times = below(2) == 0 ? 1 : 1 + below(3);
  for (std::size_t i = 0; i < times; ++i) {
    const std::size_t at = below(text.size());
    switch (below(9)) {
      case 0: text[at] = static_cast<char>(random() & 0xffU); break;
      case 1: text.erase(at, 1 + below(20)); break;
      case 2: text.insert(at, text.substr(below(text.size()), below(60))); break;
      case 3: text.insert(at, tokens[below(tokens.size())]); break;
      case 4: text.resize(std::max<std::size_t>(1, at)); break;
      default: {  // another number in the place of one, or another word in the place of one: stays JSON
        const std::string_view set = below(2) == 0 ? "0123456789" : "abcdefghijklmnopqrstuvwxyz_";
        const std::size_t first = text.find_first_of(set, at);
        if (first == std::string::npos) break;
        const std::size_t last = std::min(text.find_first_not_of(set, first), text.size());
        const std::size_t other = text.find_first_of(set, below(text.size()));
        if (other == std::string::npos) break;
        const std::string with =
            text.substr(other, std::min(text.find_first_not_of(set, other), text.size()) - other);
        text.replace(first, last - first, below(4) == 0 ? tokens[below(tokens.size())] : with);
      }
    }
    if (text.empty()) text.push_back(' ');
  }
  return text;
}

TEST_CASE("damaged dumps load or end in a typed error, within memory in proportion") {
  const std::vector<Source> all = sources();
  REQUIRE(all.size() >= 17);
  for (const Source& source : all)
    static_cast<void>(graph_from_json(source.text, *source.set));  // what is made once is made
  Random random(2024);
  std::size_t loaded = 0;
  std::size_t refused = 0;
  double worst = 0;
  for (std::size_t n = 0; n < test::scaled(20'000); ++n) {
    const Source& source = all[n % all.size()];
    const std::string text = damaged(source.text, random);
    INFO(text);
    const std::size_t before = test::allocated_bytes();
    const Result<Graph> result = try_graph_from_json(text, *source.set);
    const std::size_t used = test::allocated_bytes() - before;
    worst = std::max(worst, static_cast<double>(used) / static_cast<double>(text.size() + 1000));
    if (!result) {
      const ErrorKind kind = result.error().kind();
      const bool typed = kind == ErrorKind::dump || kind == ErrorKind::type || kind == ErrorKind::attribute ||
                         kind == ErrorKind::unknown_primitive;
      INFO(std::string(result.error().what()));
      CHECK(typed);
      ++refused;
      continue;
    }
    ++loaded;
    verify(*result);
    const std::string once = to_json(*result, {.keys = true});
    CHECK(to_json(graph_from_json(once, *source.set), {.keys = true}) == once);
  }
  MESSAGE(loaded << " loaded, " << refused << " refused; at most " << worst
                 << " bytes allocated for each of the dump and 1000 more");
  CHECK(worst < 60);
  CHECK(loaded > 0);
  CHECK(refused > loaded);
}

TEST_CASE("large dumps of little content allocate in proportion") {
  const auto ratio = [](const std::string& text) {
    const std::size_t before = test::allocated_bytes();
    static_cast<void>(try_graph_from_json(text, test::test_set()));
    return static_cast<double>(test::allocated_bytes() - before) / static_cast<double>(text.size());
  };
  const auto repeated = [](std::string_view head, std::string_view item, std::string_view tail) {
    std::string text(head);
    for (int i = 0; i < 200'000; ++i) text += item;
    return text += tail;
  };
  const std::string_view head = R"({"format": "tidu.graph", "version": 1, "name": "f", "values": [)";
  CHECK(ratio(repeated("[", "0,", "0]")) < 60);
  CHECK(ratio(repeated("[", "[],", "0]")) < 60);
  CHECK(ratio(repeated(head, "0,", R"(0], "inputs": [], "operations": [], "outputs": []})")) < 100);
  CHECK(ratio(repeated(
            head, "",
            repeated(
                R"(], "inputs": [], "operations": [{"op": "constant", "inputs": [], "outputs": [0], "attrs":)"
                R"( {"value": {"dtype": "c128", "shape": [200000], "data": [)",
                "[],", "[]]}}}], \"outputs\": []}"))) < 100);
}

}  // namespace
}  // namespace tidu
