// lazy_graphs.cpp - which graphs a trace records, and how much data they hold; known by address for graphs
// that were met lately.
#include <algorithm>

#include "frontend/lazy.hpp"
#include "graph/kept_bytes.hpp"

namespace tidu::frontend_detail {

// An address that a graph has left may be another's. The graphs themselves are not kept: they may hold much
// data.
const LazyTrace::Known& LazyTrace::look_at(const Graph& graph) {
  const auto address = reinterpret_cast<std::uintptr_t>(&graph.data());
  auto& known = known_[(address >> 4) * 0x9e3779b97f4a7c15ULL >> 56];
  for (const Known& entry : known)
    if (entry.address == &graph.data() && !entry.graph.expired()) return entry;
  std::move_backward(known.begin(), known.end() - 1, known.end());
  tidu::detail::KeptBytes kept;
  kept.add(graph);
  known[0].address = &graph.data();
  known[0].graph = graph.share();
  known[0].literal_bytes = kept.literals();
  known[0].takes = graph.primitives() == standard_primitives() && graph.externals().empty() &&
                   !graph.outputs().empty() && !graph.data().has_effects && !graph.data().has_collectives &&
                   !Spread(graph).moves();
  return known[0];
}

}  // namespace tidu::frontend_detail
