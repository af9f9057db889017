// graph_table.cpp - the graphs of calls that a thread keeps: found again while they are used, and bounded.
#include "frontend/context.hpp"
#include "support.hpp"

namespace tidu::test {
namespace {

eager::RecordedGraph graph_of(int rows) {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {rows + 1}});
  return eager::RecordedGraph::of(g.build({ops::neg(x)}));
}

TEST_CASE("graphs of calls are kept while they are used, and go when others have come since") {
  frontend_detail::GraphTable table;
  const auto key = [](int k) { return std::to_string(k); };
  const eager::RecordedGraph graphs[] = {graph_of(0), graph_of(1), graph_of(2)};
  CHECK(table.find(key(0)) == nullptr);
  for (int k = 0; k < 20000; ++k) {
    table.keep(key(k), graphs[k % 3]);
    const eager::RecordedGraph* const first = table.find(key(0));  // which is used all the time
    REQUIRE(first != nullptr);
    REQUIRE(&first->graph().data() == &graphs[0].graph().data());
  }
  int kept = 0;
  for (int k = 19999; k >= 0; --k) kept += table.find(key(k)) != nullptr ? 1 : 0;
  CHECK(kept >= 4096);
  CHECK(kept <= 2 * 4096);
}

TEST_CASE("a loop over more positions than the nearest cache can hold makes nothing again") {
  constexpr std::int64_t rows = 1500;
  const Array m = random_array({rows, 3}, 5);
  const auto total = [&] {
    Array h = zeros({3});
    for (std::int64_t k = 0; k < rows; ++k) h = h + m[k];
    return h;
  };
  CHECK(distance(total(), sum(m, 0)) < 1e-12);
  const eager::CachedGraphStatistics before = eager::cached_graph_statistics();
  const CacheStatistics compiled = compile_cache().statistics();
  CHECK(distance(total(), sum(m, 0)) < 1e-12);
  CHECK(eager::cached_graph_statistics().graphs == before.graphs);
  CHECK(compile_cache().statistics().misses == compiled.misses);
}

}  // namespace
}  // namespace tidu::test
