// boost_graph.hpp - a view of a Graph for the Boost Graph Library: a bidirectional, vertex-list, edge-list
// and adjacency graph. Vertices are the operations and the values without a producer in the graph: first
// inputs, then externals, then operations, so that vertex numbers are a topological order. Edges are uses:
// operand k of an operation is one edge from the producer of the value, so that x x has two parallel edges.
// The library finds its functions by argument-dependent lookup.
#pragma once

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/property_map/property_map.hpp>
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu {

class BoostGraph;

namespace detail {

/// Edge `number` of a view: its index in the order of (operation, operand).
struct BoostEdge {
  std::uint32_t source = no_index;
  std::uint32_t target = no_index;
  std::uint32_t number = no_index;
  friend bool operator==(const BoostEdge& a, const BoostEdge& b) { return a.number == b.number; }
  friend auto operator<=>(const BoostEdge& a, const BoostEdge& b) { return a.number <=> b.number; }
};

struct BoostEdgeAt {  // edge number -> edge
  const BoostGraph* graph = nullptr;
  BoostEdge operator()(std::uint32_t number) const;
};
struct BoostOutEdgeAt {  // index in the list of out-edges -> edge
  const BoostGraph* graph = nullptr;
  BoostEdge operator()(std::uint32_t position) const;
};
struct BoostAdjacentAt {
  const BoostGraph* graph = nullptr;
  std::uint32_t operator()(std::uint32_t position) const;
};
/// All properties of a vertex or edge, which has none: boost::copy_graph asks for them.
template <class Key>
struct BoostNoProperties {
  using key_type = Key;
  using value_type = boost::no_property;
  using reference = boost::no_property;
  using category = boost::readable_property_map_tag;
  friend boost::no_property get(BoostNoProperties, const Key&) { return {}; }
};

}  // namespace detail

/// Built once, in time and memory linear in the graph, which it shares; immutable and safe to read from any
/// thread.
class BoostGraph {
 public:
  /// Number of a vertex.
  using Vertex = std::uint32_t;
  /// A use of a value.
  using Edge = detail::BoostEdge;

  /// Linear in the graph.
  explicit BoostGraph(Graph graph) : graph_(std::move(graph)) {
    const GraphData& g = graph_.data();
    first_operation_ = static_cast<Vertex>(g.inputs.size() + g.externals.size());
    origin_.resize(graph_.num_values());
    Vertex next = 0;
    for (const ValueId id : g.inputs) origin_[id] = next++;
    for (const ValueId id : g.externals) origin_[id] = next++;
    for (ValueId id = 0; id < origin_.size(); ++id) {
      if (const auto producer = graph_.producer(id)) origin_[id] = first_operation_ + *producer;
    }
    // Counting sort of the edges by source: out_first_ counts, then becomes the index where each vertex
    // begins.
    std::uint32_t edges = 0;
    in_first_.reserve(g.operations.size() + 1);
    out_first_.assign(num_vertices() + 1, 0);
    for (std::uint32_t i = 0; i < g.operations.size(); ++i) {
      in_first_.push_back(edges);
      const Operation operation(g, i);
      for (const ValueId id : operation.inputs()) {
        sources_.push_back(origin_[id]);
        targets_.push_back(first_operation_ + i);
        ++out_first_[origin_[id] + 1];
        ++edges;
      }
    }
    in_first_.push_back(edges);
    for (std::size_t v = 1; v < out_first_.size(); ++v) out_first_[v] += out_first_[v - 1];
    out_edges_.resize(edges);
    std::vector<std::uint32_t> position(out_first_.begin(), out_first_.end() - 1);
    for (std::uint32_t e = 0; e < edges; ++e) out_edges_[position[sources_[e]]++] = e;
  }

  const Graph& graph() const { return graph_; }
  Vertex num_vertices() const { return first_operation_ + static_cast<Vertex>(graph_.num_operations()); }
  std::uint32_t num_edges() const { return static_cast<std::uint32_t>(out_edges_.size()); }
  /// The vertex that makes a value: its operation, or the input or external itself.
  Vertex vertex_of(ValueId value) const { return origin_[value]; }
  /// The vertex of an operation.
  Vertex vertex_of_operation(std::uint32_t operation) const { return first_operation_ + operation; }
  /// The operation of a vertex, or nothing for inputs and externals.
  std::optional<std::uint32_t> operation_of(Vertex vertex) const {
    if (vertex < first_operation_) return std::nullopt;
    return vertex - first_operation_;
  }
  /// The input or external of a vertex, or the first result of its operation.
  ValueId value_of(Vertex vertex) const {
    const std::size_t inputs = graph_.inputs().size();
    if (vertex < inputs) return graph_.inputs()[vertex];
    if (vertex < first_operation_) return graph_.externals()[vertex - inputs];
    return graph_.operation(vertex - first_operation_).output();
  }
  /// The value that flows along an edge, and which operand of its target it is.
  ValueId value_of(const Edge& edge) const {
    return graph_.operation(edge.target - first_operation_).input(operand_of(edge));
  }
  /// Which operand of its target the edge is.
  std::uint32_t operand_of(const Edge& edge) const {
    return edge.number - in_first_[edge.target - first_operation_];
  }
  /// The edge of that number, in the order of (operation, operand).
  Edge edge(std::uint32_t number) const { return {sources_[number], targets_[number], number}; }

  /// The indices of a vertex's out-edges, for out_edge_number: the first, and one past the last.
  std::pair<std::uint32_t, std::uint32_t> out_places(Vertex v) const {
    return {out_first_[v], out_first_[v + 1]};
  }
  /// Number of the edge at that index.
  std::uint32_t out_edge_number(std::uint32_t position) const { return out_edges_[position]; }
  /// The numbers of a vertex's in-edges: the first, and one past the last.
  std::pair<std::uint32_t, std::uint32_t> in_numbers(Vertex v) const {
    if (v < first_operation_) return {0, 0};
    return {in_first_[v - first_operation_], in_first_[v - first_operation_ + 1]};
  }

 private:
  Graph graph_;
  Vertex first_operation_ = 0;
  std::vector<Vertex> origin_;             // by value
  std::vector<Vertex> sources_, targets_;  // by edge, in the order of targets
  std::vector<std::uint32_t> in_first_;    // by operation, and one more
  std::vector<std::uint32_t> out_first_;   // by vertex, and one more: indices into out_edges_
  std::vector<std::uint32_t> out_edges_;
};

inline detail::BoostEdge detail::BoostEdgeAt::operator()(std::uint32_t number) const {
  return graph->edge(number);
}
inline detail::BoostEdge detail::BoostOutEdgeAt::operator()(std::uint32_t position) const {
  return graph->edge(graph->out_edge_number(position));
}
inline std::uint32_t detail::BoostAdjacentAt::operator()(std::uint32_t position) const {
  return graph->edge(graph->out_edge_number(position)).target;
}

}  // namespace tidu

/// \cond    the requirements of the concepts of the Boost Graph Library
template <>
struct boost::graph_traits<tidu::BoostGraph> {
  using vertex_descriptor = tidu::BoostGraph::Vertex;
  using edge_descriptor = tidu::BoostGraph::Edge;
  using directed_category = bidirectional_tag;
  using edge_parallel_category = allow_parallel_edge_tag;
  struct traversal_category : bidirectional_graph_tag,
                              vertex_list_graph_tag,
                              edge_list_graph_tag,
                              adjacency_graph_tag {};
  using vertices_size_type = std::uint32_t;
  using edges_size_type = std::uint32_t;
  using degree_size_type = std::uint32_t;
  // Incrementable numbers, not references: the iterators of counting_iterator's difference type.
  using number_iterator = counting_iterator<std::uint32_t, random_access_traversal_tag, std::int64_t>;
  using vertex_iterator = number_iterator;
  using edge_iterator =
      transform_iterator<tidu::detail::BoostEdgeAt, number_iterator, tidu::detail::BoostEdge>;
  using in_edge_iterator = edge_iterator;
  using out_edge_iterator =
      transform_iterator<tidu::detail::BoostOutEdgeAt, number_iterator, tidu::detail::BoostEdge>;
  using adjacency_iterator =
      transform_iterator<tidu::detail::BoostAdjacentAt, number_iterator, std::uint32_t>;
  static constexpr vertex_descriptor null_vertex() { return tidu::no_index; }
};

template <>
struct boost::property_map<tidu::BoostGraph, boost::vertex_index_t> {
  using type = typed_identity_property_map<std::uint32_t>;
  using const_type = type;
};

template <>
struct boost::property_map<tidu::BoostGraph, boost::edge_index_t> {
  struct type {
    using key_type = tidu::BoostGraph::Edge;
    using value_type = std::uint32_t;
    using reference = std::uint32_t;
    using category = readable_property_map_tag;
    friend std::uint32_t get(type, const key_type& edge) { return edge.number; }
  };
  using const_type = type;
};

template <>
struct boost::property_map<tidu::BoostGraph, boost::vertex_all_t> {
  using type = tidu::detail::BoostNoProperties<tidu::BoostGraph::Vertex>;
  using const_type = type;
};

template <>
struct boost::property_map<tidu::BoostGraph, boost::edge_all_t> {
  using type = tidu::detail::BoostNoProperties<tidu::BoostGraph::Edge>;
  using const_type = type;
};

namespace tidu {

using BoostGraphTraits = boost::graph_traits<BoostGraph>;

inline std::pair<BoostGraphTraits::vertex_iterator, BoostGraphTraits::vertex_iterator> vertices(
    const BoostGraph& g) {
  using Iterator = BoostGraphTraits::vertex_iterator;
  return {Iterator(0U), Iterator(g.num_vertices())};
}
inline std::uint32_t num_vertices(const BoostGraph& g) { return g.num_vertices(); }
inline std::pair<BoostGraphTraits::edge_iterator, BoostGraphTraits::edge_iterator> edges(
    const BoostGraph& g) {
  using Number = BoostGraphTraits::number_iterator;
  const detail::BoostEdgeAt at{&g};
  return {{Number(0U), at}, {Number(g.num_edges()), at}};
}
inline std::uint32_t num_edges(const BoostGraph& g) { return g.num_edges(); }
inline std::uint32_t source(const BoostGraph::Edge& edge, const BoostGraph&) { return edge.source; }
inline std::uint32_t target(const BoostGraph::Edge& edge, const BoostGraph&) { return edge.target; }
inline std::pair<BoostGraphTraits::out_edge_iterator, BoostGraphTraits::out_edge_iterator> out_edges(
    std::uint32_t v, const BoostGraph& g) {
  using Number = BoostGraphTraits::number_iterator;
  const auto [first, last] = g.out_places(v);
  const detail::BoostOutEdgeAt at{&g};
  return {{Number(first), at}, {Number(last), at}};
}
inline std::pair<BoostGraphTraits::in_edge_iterator, BoostGraphTraits::in_edge_iterator> in_edges(
    std::uint32_t v, const BoostGraph& g) {
  using Number = BoostGraphTraits::number_iterator;
  const auto [first, last] = g.in_numbers(v);
  const detail::BoostEdgeAt at{&g};
  return {{Number(first), at}, {Number(last), at}};
}
inline std::pair<BoostGraphTraits::adjacency_iterator, BoostGraphTraits::adjacency_iterator>
adjacent_vertices(std::uint32_t v, const BoostGraph& g) {
  using Number = BoostGraphTraits::number_iterator;
  const auto [first, last] = g.out_places(v);
  const detail::BoostAdjacentAt at{&g};
  return {{Number(first), at}, {Number(last), at}};
}
inline std::uint32_t out_degree(std::uint32_t v, const BoostGraph& g) {
  const auto [first, last] = g.out_places(v);
  return last - first;
}
inline std::uint32_t in_degree(std::uint32_t v, const BoostGraph& g) {
  const auto [first, last] = g.in_numbers(v);
  return last - first;
}
inline std::uint32_t degree(std::uint32_t v, const BoostGraph& g) {
  return in_degree(v, g) + out_degree(v, g);
}

inline boost::typed_identity_property_map<std::uint32_t> get(boost::vertex_index_t, const BoostGraph&) {
  return {};
}
inline std::uint32_t get(boost::vertex_index_t, const BoostGraph&, std::uint32_t v) { return v; }
inline boost::property_map<BoostGraph, boost::edge_index_t>::type get(boost::edge_index_t,
                                                                      const BoostGraph&) {
  return {};
}
inline std::uint32_t get(boost::edge_index_t, const BoostGraph&, const BoostGraph::Edge& edge) {
  return edge.number;
}
inline boost::property_map<BoostGraph, boost::vertex_all_t>::type get(boost::vertex_all_t,
                                                                      const BoostGraph&) {
  return {};
}
inline boost::property_map<BoostGraph, boost::edge_all_t>::type get(boost::edge_all_t, const BoostGraph&) {
  return {};
}

}  // namespace tidu
/// \endcond
