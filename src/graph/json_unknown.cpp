// json_unknown.cpp - searches a parsed dump for unknown names of primitives and dtypes. It runs after a load
// failed, on text whose structure is not checked: members of unexpected kinds are skipped.
#include "graph/json_unknown.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "graph/nearest.hpp"
#include "tidu/graph/dtype.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/graph/primitive.hpp"

namespace tidu::detail {
namespace {

using Index = JsonTape::Index;
using Kind = JsonTape::Kind;

constexpr Index absent = 0;
constexpr std::size_t max_lines = 32;

class Search {
 public:
  Search(const JsonTape& tape, const PrimitiveSet& set) : tape_(tape), set_(set) {}

  void graph(Index node, std::uint32_t level) {
    if (tape_.kind(node) != Kind::object || level > max_graph_depth) return;
    const std::string name(text_of(member(node, "name")));
    std::size_t index = 0;
    each(member(node, "values"), [&](Index value) {
      dtype(member(value, "dtype"), [&] { return str("value ", index, " of ", shortened(name)); });
      ++index;
    });
    index = 0;
    each(member(node, "operations"), [&](Index at) { operation(at, index++, name, level); });
    const Index named = level == 0 ? member(node, "graphs") : absent;
    if (named == absent || tape_.kind(named) != Kind::object) return;
    for (Index at = JsonTape::first(named); at != tape_.end(named); at = tape_.next(at + 1)) graph(at + 1, 1);
  }

  std::string lines() const {
    if (found_.size() < 2) return {};
    std::string text = "\n  all unknown names of the dump:";
    for (std::size_t i = 0; i < std::min(found_.size(), max_lines); ++i) {
      const Unknown& unknown = found_[i];
      text +=
          str("\n    ", unknown.what, ' ', shortened(unknown.name), unknown.nearest,
              unknown.count == 1 ? ", in " : str(", ", unknown.count, " times, first in "), unknown.where);
    }
    if (found_.size() > max_lines) text += str("\n    and ", found_.size() - max_lines, " more");
    return text;
  }

 private:
  struct Unknown {
    std::string_view what, name;
    std::string nearest, where;
    std::size_t count = 1;
  };

  Index member(Index node, std::string_view name) const {
    if (tape_.kind(node) != Kind::object) return absent;
    for (Index at = JsonTape::first(node); at != tape_.end(node); at = tape_.next(at + 1))
      if (tape_.string(at) == name) return at + 1;
    return absent;
  }
  std::string_view text_of(Index node) const {
    return node != absent && tape_.kind(node) == Kind::string ? tape_.string(node) : std::string_view();
  }
  template <class Visit>
  void each(Index node, Visit&& visit) const {
    if (node == absent || tape_.kind(node) != Kind::array) return;
    for (Index at = JsonTape::first(node); at != tape_.end(node); at = tape_.next(at)) visit(at);
  }

  template <class Location>
  void add(std::string_view what, std::string_view name, Location&& place) {
    const auto [at, added] = lines_.emplace(std::pair(what, name), found_.size());
    if (!added) {
      if (at->second < max_lines) ++found_[at->second].count;
      return;
    }
    Unknown& unknown = found_.emplace_back();
    unknown.what = what;
    unknown.name = name;
    if (found_.size() > max_lines) return;
    unknown.nearest = what == "dtype" ? nearest_dtype(name) : nearest_primitives(name, set_);
    unknown.where = place();
  }
  template <class Location>
  void dtype(Index node, Location&& place) {
    if (node == absent || tape_.kind(node) != Kind::string) return;
    if (!parse_dtype(tape_.string(node))) add("dtype", tape_.string(node), place);
  }

  void operation(Index node, std::size_t index, std::string_view graph_name, std::uint32_t level) {
    const Index op = member(node, "op");
    if (op == absent || tape_.kind(op) != Kind::string) return;
    const auto place = [&] {
      const std::string_view where = text_of(member(node, "where"));
      return str("operation ", index, " of ", shortened(graph_name), where.empty() ? "" : ", ",
                 printable(where, longest_quotation));
    };
    const Primitive* primitive = set_.find(tape_.string(op));
    if (primitive == nullptr) add("primitive", tape_.string(op), place);
    const Index attributes = member(node, "attrs");
    if (attributes == absent || tape_.kind(attributes) != Kind::object) return;
    for (Index at = JsonTape::first(attributes); at != tape_.end(attributes); at = tape_.next(at + 1)) {
      if (is_dtype(primitive, tape_.string(at))) dtype(at + 1, place);
      dtype(member(at + 1, "dtype"), place);  // of a tensor
      graph(at + 1, level + 1);
      each(at + 1, [&](Index item) { graph(item, level + 1); });
    }
  }
  static bool is_dtype(const Primitive* primitive, std::string_view attribute) {
    if (primitive == nullptr) return attribute == "dtype";
    return std::any_of(primitive->attributes.begin(), primitive->attributes.end(),
                       [&](const AttributeSpec& spec) {
                         return spec.name == attribute && spec.kind == AttributeKind::dtype;
                       });
  }

  const JsonTape& tape_;
  const PrimitiveSet& set_;
  std::vector<Unknown> found_;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> lines_;  // (what, name) -> line
};

}  // namespace

std::string all_unknown_names(const JsonTape& tape, const PrimitiveSet& set) {
  Search search(tape, set);
  search.graph(JsonTape::root, 0);
  return search.lines();
}

DType expect_dtype(const JsonTape& tape, Index node, std::string_view what) {
  const std::string_view name = tape.expect_string(node, what);
  if (const auto dtype = parse_dtype(name)) return *dtype;
  throw UnknownName(ErrorKind::dump, str("expected ", what, " to be a dtype, got ", tape.shown(node),
                                         nearest_dtype(name), "; the dtypes are ", all_dtypes()));
}

}  // namespace tidu::detail
