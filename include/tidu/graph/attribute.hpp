// attribute.hpp - Attribute: a static argument of an operation, as an axis or a dtype; and AttributeSpec: an
// entry of the schema by which a primitive names and types its attributes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tidu/graph/dtype.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu {

struct GraphData;  // graph.hpp
class Graph;
class DeferredGraph;  // deferred_graph.hpp

/// Axes, sizes, strides.
using Ints = std::vector<std::int64_t>;
/// Lists of axes, sizes or paddings.
using IntLists = std::vector<Ints>;
/// Several graphs, by their data.
using GraphList = std::vector<std::shared_ptr<const GraphData>>;

/// How an attribute is checked, and written in a dump.
enum class AttributeKind : std::uint8_t {
  boolean,    ///< bool
  integer,    ///< int64
  number,     ///< a scalar of the operation's attribute `dtype` (a Literal of rank 0); a number is converted
  string,     ///< one of the words that the primitive's type rule accepts
  dtype,      ///< a DType
  ints,       ///< axes, sizes, strides
  int_lists,  ///< [[low, high, interior], …] or [[low, high], …]
  dot_dimension_numbers,   ///< four lists: lhs contracting, rhs contracting, lhs batch, rhs batch
  conv_dimension_numbers,  ///< three lists: lhs_spec, rhs_spec, out_spec
  literal,                 ///< a tensor
  graph,                   ///< a graph without externals
  policy,                  ///< a string, or ints
  graphs,                  ///< a list of graphs without externals
  rule                     ///< a graph without externals, or one that is made on demand
};
/// As messages call it.
constexpr std::string_view to_string(AttributeKind kind) {
  constexpr std::string_view names[] = {"boolean",
                                        "integer",
                                        "number",
                                        "string",
                                        "dtype",
                                        "list of integers",
                                        "list of lists of integers",
                                        "dot_general dimension numbers",
                                        "convolution dimension numbers",
                                        "tensor",
                                        "graph",
                                        "string or list of integers",
                                        "list of graphs",
                                        "graph"};
  return names[static_cast<std::size_t>(kind)];
}

/// Value of an attribute. A graph is held by its data, or deferred; Op::graph gives it back as a Graph,
/// Op::graphs several.
class Attribute {
 public:
  /// The types that an attribute may hold.
  using Variant =
      std::variant<bool, std::int64_t, double, std::string, DType, Ints, IntLists, Literal,
                   std::shared_ptr<const GraphData>, GraphList, std::shared_ptr<const DeferredGraph>>;
  /// A bool.
  Attribute(bool value) : value_(value) {}
  /// An integer.
  Attribute(int value) : value_(static_cast<std::int64_t>(value)) {}
  /// An integer.
  Attribute(std::int64_t value) : value_(value) {}
  /// A number.
  Attribute(double value) : value_(value) {}
  /// A string.
  Attribute(const char* value) : value_(std::string(value)) {}
  /// A string.
  Attribute(std::string_view value) : value_(std::string(value)) {}
  /// A string.
  Attribute(std::string value) : value_(std::move(value)) {}
  /// A dtype.
  Attribute(DType value) : value_(value) {}
  /// Axes or sizes.
  Attribute(Ints value) : value_(std::move(value)) {}
  /// Lists of integers.
  Attribute(IntLists value) : value_(std::move(value)) {}
  /// A tensor.
  Attribute(Literal value) : value_(std::move(value)) {}
  /// A graph.
  Attribute(const Graph& graph);
  /// A graph, by its data.
  Attribute(std::shared_ptr<const GraphData> graph) : value_(std::move(graph)) {}
  /// A graph that is made on demand.
  Attribute(std::shared_ptr<const DeferredGraph> graph) : value_(std::move(graph)) {}
  /// Graphs, by their data.
  Attribute(GraphList graphs) : value_(std::move(graphs)) {}

  const Variant& variant() const { return value_; }
  /// The value when it is a T, else null.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  /// The graphs that it holds: one, those of a list, or none. A deferred graph is not made for it.
  std::span<const std::shared_ptr<const GraphData>> graphs() const {
    if (const auto* graph = get_if<std::shared_ptr<const GraphData>>()) return {graph, 1};
    if (const auto* list = get_if<GraphList>()) return *list;
    return {};
  }
  Key128 key() const;
  /// Graphs are equal when they are structurally equal.
  friend bool operator==(const Attribute& a, const Attribute& b);

 private:
  Variant value_;
};

/// Named attributes, in the order of the primitive's schema once they are in an Op.
using Attributes = std::vector<std::pair<std::string, Attribute>>;

/// One entry of a primitive's schema.
struct AttributeSpec {
  std::string_view name;              ///< its name, in code and dumps
  AttributeKind kind;                 ///< the kind of its value
  bool has_default = false;           ///< may it be omitted?
  std::int64_t default_integer = 0;   ///< of kinds boolean and integer
  std::string_view default_string{};  ///< of kind string

  /// The default as a value; only where has_default.
  Attribute default_value() const {
    if (kind == AttributeKind::string) return Attribute(default_string);
    if (kind == AttributeKind::boolean) return Attribute(default_integer != 0);
    if (kind == AttributeKind::graphs) return Attribute(GraphList());
    return Attribute(default_integer);
  }
};

}  // namespace tidu
