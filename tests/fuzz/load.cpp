// load.cpp - see load.hpp.
#include "fuzz/load.hpp"

#include <algorithm>
#include <ctime>
#include <vector>

#include "graph/counting_allocator.hpp"
#include "support/printable.hpp"
#include "tidu/graph/dot.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/tensor/json.hpp"

namespace tidu::test {
namespace {

bool documented(ErrorKind kind) {
  return kind == ErrorKind::dump || kind == ErrorKind::type || kind == ErrorKind::attribute ||
         kind == ErrorKind::unknown_primitive;
}

// Loads by `load`, then calls `keep` on the result.
template <class Load, class Keep>
LoadReport judge(std::string_view text, const Load& load, const Keep& keep) {
  LoadReport report;
  try {
    const std::size_t before = allocated_bytes();
    const std::clock_t from = std::clock();
    const auto result = load(text);
    report.seconds = static_cast<double>(std::clock() - from) / CLOCKS_PER_SEC;
    report.allocated =
        static_cast<double>(allocated_bytes() - before) / (static_cast<double>(text.size()) + 1000.0);
    report.loaded = static_cast<bool>(result);
    if (report.loaded) {
      report.complaint = keep(*result);
    } else if (!documented(result.error().kind())) {
      report.complaint = detail::str("refused with an error of kind ", to_string(result.error().kind()), ": ",
                                     result.error().what(), "; ");
    } else if (!is_printable(result.error().what())) {
      report.complaint = detail::str(
          "refused in words that are not printable: ", detail::printable(result.error().what()), "; ");
    }
  } catch (const std::exception& error) {
    report.complaint = detail::str("what was loaded throws: ", error.what(), "; ");
  }
  if (report.allocated > allocation_multiple)
    report.complaint += detail::str(report.allocated, " bytes allocated for each of the text; ");
  if (report.seconds > 1.0) report.complaint += detail::str(report.seconds, " seconds; ");
  return report;
}

std::string complaint_of(const Graph& graph, const PrimitiveSet& set) {
  verify(graph);
  if (to_text(graph).empty() || to_dot(graph).empty()) return "prints as nothing; ";
  for (const bool keys : {false, true}) {
    const std::string once = to_json(graph, {.keys = keys});
    const Graph again = graph_from_json(once, set);
    verify(again);
    if (to_json(again, {.keys = keys}) != once) return "changes when it is dumped and loaded; ";
  }
  return {};
}

}  // namespace

LoadReport load_graph(std::string_view text, const PrimitiveSet& set) {
  return judge(
      text, [&](std::string_view t) { return try_graph_from_json(t, set); },
      [&](const Graph& graph) { return complaint_of(graph, set); });
}

LoadReport load_tensor(std::string_view text) {
  return judge(
      text, [](std::string_view t) { return try_tensor_from_json(t); },
      [](const Tensor& tensor) -> std::string {
        const std::string once = to_json(tensor);
        return to_json(tensor_from_json(once)) == once ? "" : "changes when it is written and read; ";
      });
}

std::string damaged(std::string text, std::mt19937_64& random) {
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
                                                  "\\u001b",
                                                  "\\u0085",
                                                  "\n",
                                                  "\x7f",
                                                  "é€😀",
                                                  "\xe2\x82",
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

}  // namespace tidu::test
