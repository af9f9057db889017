// cached_graph_bytes.cpp - the store of cached graphs is bounded in bytes: unused graphs with much data are
// dropped, the longest unused first. Weak references show which graphs live, not the store's counters.
#include <algorithm>
#include <memory>

#include "p_support.hpp"

namespace tidu::test {
namespace {

constexpr std::int64_t elements = 1 << 13;  // 64 KiB
constexpr std::size_t literal_bytes = elements * sizeof(double);

class CachedGraphLimits {
 public:
  explicit CachedGraphLimits(std::size_t bytes) : bytes_(eager::set_cached_graph_bytes_limit(bytes)) {}
  CachedGraphLimits(const CachedGraphLimits&) = delete;
  CachedGraphLimits& operator=(const CachedGraphLimits&) = delete;
  ~CachedGraphLimits() { eager::set_cached_graph_bytes_limit(bytes_); }

 private:
  std::size_t bytes_;
};

Literal data_of(double salt) {
  std::vector<double> numbers(elements, salt);
  return Literal::of<double>({f64, {elements}}, numbers);
}

// sum of x times data that no other graph has
Graph graph_with_data(double salt) {
  GraphBuilder builder("data");
  const Value x = builder.input("x", {f64, {elements}});
  return builder.build({ops::reduce_sum(x * ops::constant(builder, data_of(salt)), {0})});
}
// The same data, within the graph of a call.
Graph graph_around_data(double salt) {
  GraphBuilder builder("around");
  const Value x = builder.input("x", {f64, {elements}});
  return builder.build({ops::call(graph_with_data(salt), std::vector{x})[0]});
}

using Weak = std::weak_ptr<const GraphData>;
std::size_t count_alive(const std::vector<Weak>& graphs) {
  return static_cast<std::size_t>(
      std::count_if(graphs.begin(), graphs.end(), [](const Weak& graph) { return !graph.expired(); }));
}

TEST_CASE("cached graphs with data are kept up to a number of bytes") {
  eager::clear_cached_graphs();
  constexpr std::size_t kept = 10;
  const CachedGraphLimits limits(kept * literal_bytes);
  for (const auto make : {graph_with_data, graph_around_data}) {
    std::vector<Weak> graphs;
    std::size_t most = 0;
    for (int i = 0; i < 100; ++i) {
      const RecordedGraph graph = RecordedGraph::of(make(i));
      graphs.push_back(graph.graph().share());
      most = std::max(most, count_alive(graphs));
    }
    CHECK(most <= kept + 1);
    CHECK(most >= kept / 2);
  }
  CHECK(eager::cached_graph_statistics().bytes <= (kept + 1) * literal_bytes);
}

TEST_CASE("a cached graph that is used again and again stays, and is derived once") {
  eager::clear_cached_graphs();
  const CachedGraphLimits limits(8 * literal_bytes);
  const Tensor at = random_tensor({f64, {elements}}, 1);
  const auto gradient_with = [&](double salt) {
    Tape tape;
    const Var x = tape.leaf(at);
    const RecordedGraph graph = RecordedGraph::of(graph_with_data(salt));
    return gradient(backward(tape.apply(graph, {x})[0]), x).elements<double>()[0];
  };
  CHECK(gradient_with(-1.5) == -1.5);
  const auto before = eager::cached_graph_statistics();
  for (int i = 0; i < 50; ++i) {
    CHECK(gradient_with(i) == i);
    CHECK(gradient_with(-1.5) == -1.5);
  }
  const auto after = eager::cached_graph_statistics();
  CHECK(after.linearizations - before.linearizations == 50);
  CHECK(after.evictions - before.evictions >= 40);
}

TEST_CASE("cached graphs that a tape uses stay beyond the limit, and go when it is gone") {
  eager::clear_cached_graphs();
  const CachedGraphLimits limits(4 * literal_bytes);
  std::vector<Weak> graphs;
  {
    Tape tape;
    const Var x = tape.leaf(random_tensor({f64, {elements}}, 2));
    std::vector<Var> sums;
    for (int i = 0; i < 30; ++i) {
      const RecordedGraph graph = RecordedGraph::of(graph_with_data(i));
      graphs.push_back(graph.graph().share());
      sums.push_back(tape.apply(graph, {x})[0]);
    }
    CHECK(count_alive(graphs) == 30);
    const auto before = eager::cached_graph_statistics();
    CHECK(before.bytes >= 30 * literal_bytes);
    for (int i = 0; i < 30; ++i)
      CHECK(gradient(backward(sums[static_cast<std::size_t>(i)]), x).elements<double>()[0] == i);
  }
  // As many bytes as were in use, or somewhat more, are looked for before the next sweep.
  for (int i = 100; i < 120; ++i) (void)RecordedGraph::of(graph_with_data(i));
  CHECK(count_alive(graphs) <= 4);
  CHECK(eager::cached_graph_statistics().bytes <= 5 * literal_bytes);
}

TEST_CASE("clearing frees all unused cached graphs, also their compiled programs and recordings") {
  eager::clear_cached_graphs();
  compile_cache().clear();
  const std::size_t start = eager::cached_graph_statistics().bytes;
  std::vector<Weak> graphs;
  {
    Tape tape;
    const Var x = tape.leaf(random_tensor({f64, {elements}}, 3));
    const RecordedGraph graph = RecordedGraph::of(graph_with_data(0.25));
    graphs.push_back(graph.graph().share());
    const Var sum = tape.apply(graph, {x})[0];
    BackwardOptions options = keep();
    options.create_graph = true;
    (void)run(cpu(), {root_of(sum)}, options, {}, &tape.recorder);
    eager::clear_cached_graphs();
    CHECK(count_alive(graphs) == 1);
  }
  CHECK(eager::cached_graph_statistics().bytes >= start + literal_bytes);
  SUBCASE("the store") { CHECK(eager::clear_cached_graphs() >= 2); }  // one is of the recorded backward
  SUBCASE("everything that was compiled") { compile_cache().clear(); }
  compile_cache().clear();
  CHECK(count_alive(graphs) == 0);
  CHECK(eager::cached_graph_statistics().bytes <= start);
}

TEST_CASE("entries of executors in a slot count") {
  struct Large {
    std::size_t kept_bytes() const { return std::size_t{1} << 20; }
  };
  eager::clear_cached_graphs();
  const RecordedGraph graph = RecordedGraph::of(graph_with_data(0.75));
  const std::size_t before = eager::cached_graph_statistics().bytes;
  (void)graph.slot().get<Large>(1, [] { return Large(); });
  (void)graph.slot().get<Large>(1, [] { return Large(); });
  (void)graph.slot().get<int>(2, [] { return 3; });
  // The literals of the graph may be among them.
  const std::size_t more = eager::cached_graph_statistics().bytes - before;
  CHECK(more == (std::size_t{1} << 20) - literal_bytes);
}

TEST_CASE("a recorder's table of operations keeps a bounded number of bytes of data") {
  eager::clear_cached_graphs();
  const CachedGraphLimits limits(0);
  Recorder<Tensor> recorder(&reference());
  std::vector<Weak> inner;
  constexpr std::int64_t large = 1 << 17;  // 1 MiB
  const Tensor x = Tensor::zeros({f64, {large}});
  for (int i = 0; i < 100; ++i) {
    GraphBuilder builder("inner");
    const Value a = builder.input("a", {f64, {large}});
    const std::vector<double> numbers(large, i);
    const Graph graph =
        builder.build({a * ops::constant(builder, Literal::of<double>({f64, {large}}, numbers))});
    inner.push_back(graph.share());
    (void)recorder.record(Op::make(prim::call, {{"graph", graph}}), {EagerInput<Tensor>({}, x)}, x);
  }
  CHECK(count_alive(inner) <= 45);  // 32 MiB, and those that the store keeps until its next sweep
}

}  // namespace
}  // namespace tidu::test
