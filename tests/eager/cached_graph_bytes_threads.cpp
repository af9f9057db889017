// cached_graph_bytes_threads.cpp - threads that make cached graphs with their own data and share some, while
// the store drops cached graphs beyond its limit and is cleared: each gets its requested graph, and the
// memory held at the end is within the limit.
#include <atomic>
#include <thread>

#include "p_support.hpp"
#include "support/support.hpp"

namespace tidu::test {
namespace {

constexpr std::int64_t elements = 1 << 10;
constexpr std::size_t literal_bytes = elements * sizeof(double);

RecordedGraph recorded_with(double salt) {
  GraphBuilder builder("data of threads");
  const Value x = builder.input("x", {f64, {elements}});
  const std::vector<double> numbers(elements, salt);
  const Value data = ops::constant(builder, Literal::of<double>({f64, {elements}}, numbers));
  return RecordedGraph::of(builder.build({ops::reduce_sum(x * data, {0})}));
}

TEST_CASE("threads that make cached graphs beyond the limit, and clear the store") {
  eager::clear_cached_graphs();
  const std::size_t before = eager::set_cached_graph_bytes_limit(20 * literal_bytes);
  std::atomic<int> wrong{0};
  const Tensor at = random_tensor({f64, {elements}}, 1);
  const auto work = [&](int thread) {
    for (int i = 0; i < 60; ++i) {
      const double salt = i % 3 == 0 ? i : 1000 * (thread + 1) + i;  // every third is shared by all
      Tape tape;
      const Var x = tape.leaf(at);
      const RecordedGraph graph = recorded_with(salt);
      const Gradients<Tensor> gradients = backward(tape.apply(graph, {x})[0]);
      if (gradients.at(x.first.key).elements<double>()[0] != salt) ++wrong;
      if (i % 20 == thread) (void)eager::clear_cached_graphs();
      (void)eager::cached_graph_statistics();
    }
  };
  {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) threads.emplace_back(work, thread);
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(wrong == 0);
  (void)recorded_with(-1);
  CHECK(eager::cached_graph_statistics().bytes <= 25 * literal_bytes);
  eager::clear_cached_graphs();
  CHECK(eager::cached_graph_statistics().bytes <= literal_bytes);
  eager::set_cached_graph_bytes_limit(before);
}

}  // namespace
}  // namespace tidu::test
