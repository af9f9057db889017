// The Boost.Graph view: the concepts it models, its edges, and algorithms of the library run on it.
#include <doctest/doctest.h>

// The library's own headers, whose warnings are not ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/copy.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <boost/graph/reverse_graph.hpp>
#include <boost/graph/sequential_vertex_coloring.hpp>
#include <boost/graph/topological_sort.hpp>
#pragma GCC diagnostic pop
#include <algorithm>
#include <iterator>
#include <random>
#include <tidu/boost_graph.hpp>

#include "support/test_primitives.hpp"

namespace tidu {
namespace {

using test::test_set;

BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<BoostGraph>));
BOOST_CONCEPT_ASSERT((boost::BidirectionalGraphConcept<BoostGraph>));
BOOST_CONCEPT_ASSERT((boost::AdjacencyGraphConcept<BoostGraph>));
BOOST_CONCEPT_ASSERT((boost::EdgeListGraphConcept<BoostGraph>));
BOOST_CONCEPT_ASSERT((boost::ReadablePropertyGraphConcept<BoostGraph, std::uint32_t, boost::vertex_index_t>));
BOOST_CONCEPT_ASSERT(
    (boost::ReadablePropertyGraphConcept<BoostGraph, BoostGraph::Edge, boost::edge_index_t>));

Graph random_graph(std::mt19937_64& random, int operations) {
  GraphBuilder builder("random", test_set());
  std::vector<Value> values{builder.input("x", f64), builder.external(ValueKey{Key128{1, 2}}, f64),
                            builder.input("y", f64)};
  const auto pick = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < operations; ++i) {
    if (random() % 3 == 0) {
      for (const Value v : test::twins(pick())) values.push_back(v);
    } else {
      values.push_back(test::mul(pick(), pick()));
    }
  }
  return builder.build({values.back()});
}

TEST_CASE("vertices are inputs, externals and operations, edges are uses") {
  std::mt19937_64 random(3);
  const Graph graph = random_graph(random, 60);
  const BoostGraph view(graph);
  CHECK(num_vertices(view) == graph.num_operations() + 3);
  CHECK(num_edges(view) == graph.data().operands.size());
  std::uint32_t seen = 0;
  for (auto [v, last] = vertices(view); v != last; ++v) {
    CHECK(view.vertex_of(view.value_of(*v)) == *v);
    if (const auto operation = view.operation_of(*v)) CHECK(view.vertex_of_operation(*operation) == *v);
    std::uint32_t operand = 0;
    for (auto [e, end] = in_edges(*v, view); e != end; ++e, ++operand) {
      CHECK(target(*e, view) == *v);
      CHECK(source(*e, view) < *v);
      CHECK(view.operand_of(*e) == operand);
      CHECK(view.value_of(*e) == graph.operation(*view.operation_of(*v)).input(operand));
      CHECK(view.vertex_of(view.value_of(*e)) == source(*e, view));
    }
    CHECK(operand == in_degree(*v, view));
    auto [next, none] = adjacent_vertices(*v, view);
    for (auto [e, end] = out_edges(*v, view); e != end; ++e, ++next, ++seen) {
      CHECK(source(*e, view) == *v);
      CHECK(target(*e, view) == *next);
    }
    CHECK(next == none);
    CHECK(degree(*v, view) == in_degree(*v, view) + out_degree(*v, view));
  }
  CHECK(seen == num_edges(view));
  std::uint32_t number = 0;
  for (auto [e, last] = edges(view); e != last; ++e) CHECK(get(boost::edge_index, view, *e) == number++);
}

TEST_CASE("a topological order of the library is one") {
  std::mt19937_64 random(4);
  const BoostGraph view(random_graph(random, 200));
  std::vector<std::uint32_t> order;
  boost::topological_sort(view, std::back_inserter(order));  // in reverse
  REQUIRE(order.size() == num_vertices(view));
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (auto [e, last] = edges(view); e != last; ++e) CHECK(place[source(*e, view)] > place[target(*e, view)]);
}

TEST_CASE("a copy, made with no word on properties, has the same edges") {
  std::mt19937_64 random(5);
  const BoostGraph view(random_graph(random, 40));
  boost::adjacency_list<> copy;
  boost::copy_graph(view, copy);
  REQUIRE(boost::num_vertices(copy) == num_vertices(view));
  REQUIRE(boost::num_edges(copy) == num_edges(view));
  std::vector<std::pair<std::size_t, std::size_t>> here, there;
  for (auto [e, last] = edges(view); e != last; ++e) here.emplace_back((*e).source, (*e).target);
  for (auto [e, last] = boost::edges(copy); e != last; ++e)
    there.emplace_back(source(*e, copy), target(*e, copy));
  std::sort(here.begin(), here.end());
  std::sort(there.begin(), there.end());
  CHECK(here == there);
}

TEST_CASE("greedy colouring gives neighbours different colours") {
  std::mt19937_64 random(5);
  const BoostGraph view(random_graph(random, 100));
  // The algorithm looks at out-edges alone: an undirected copy has both directions.
  boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> undirected(num_vertices(view));
  for (auto [e, last] = edges(view); e != last; ++e)
    boost::add_edge(source(*e, view), target(*e, view), undirected);
  std::vector<std::size_t> colors(num_vertices(view));
  const auto map = boost::make_iterator_property_map(colors.begin(), get(boost::vertex_index, view));
  const std::size_t used = boost::sequential_vertex_coloring(undirected, map);
  CHECK(used >= 2);
  for (auto [e, last] = edges(view); e != last; ++e)
    CHECK(colors[source(*e, view)] != colors[target(*e, view)]);
}

TEST_CASE("the smallest set of uses that separates inputs from an output is found by maximum flow") {
  // x feeds 5 operations, all of which meet after one waist of two uses: the cut is 2.
  GraphBuilder builder("waist", test_set());
  const Value x = builder.input("x", f64);
  Value sum = test::sin(x);
  Value y = x;
  for (int i = 0; i < 4; ++i) sum = test::add(sum, y = test::mul(y, x));
  const Graph graph = builder.build({test::mul(sum, sum)});
  const BoostGraph view(graph);
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Network = boost::adjacency_list<
      boost::vecS, boost::vecS, boost::directedS, boost::no_property,
      boost::property<boost::edge_capacity_t, long,
                      boost::property<boost::edge_residual_capacity_t, long,
                                      boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;
  Network network(num_vertices(view));
  for (auto [e, last] = edges(view); e != last; ++e) {
    const auto forward = boost::add_edge(source(*e, view), target(*e, view), network).first;
    const auto backward = boost::add_edge(target(*e, view), source(*e, view), network).first;
    put(boost::edge_capacity, network, forward, 1);
    put(boost::edge_capacity, network, backward, 0);
    put(boost::edge_reverse, network, forward, backward);
    put(boost::edge_reverse, network, backward, forward);
  }
  const long flow =
      boost::push_relabel_max_flow(network, view.vertex_of(x.id()), view.vertex_of(graph.outputs()[0]));
  CHECK(flow == 2);
}

struct Counter : boost::default_dfs_visitor {
  std::size_t* found = nullptr;
  void discover_vertex(std::uint32_t, const auto&) const { ++*found; }
};

TEST_CASE("a chain of a million operations is searched depth first, forward and backward") {
  constexpr std::size_t length = 1'000'000;
  GraphBuilder builder("chain", test_set());
  Value x = builder.input("x", f64);
  for (std::size_t i = 0; i < length; ++i) x = test::sin(x);
  const BoostGraph view(builder.build({x}));
  std::size_t found = 0;
  Counter counter;
  counter.found = &found;
  boost::depth_first_search(view, boost::visitor(counter));
  CHECK(found == length + 1);
  const auto reversed = boost::make_reverse_graph(view);
  std::vector<boost::default_color_type> colors(num_vertices(view));
  boost::depth_first_visit(reversed, view.vertex_of(static_cast<ValueId>(length)), counter,
                           boost::make_iterator_property_map(colors.begin(), get(boost::vertex_index, view)));
  CHECK(found == 2 * (length + 1));
}

}  // namespace
}  // namespace tidu
