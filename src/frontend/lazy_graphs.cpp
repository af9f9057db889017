// lazy_graphs.cpp - RecordableGraphs: see lazy_tables.hpp.
#include <algorithm>

#include "frontend/devices.hpp"
#include "frontend/lazy_tables.hpp"
#include "graph/kept_bytes.hpp"

namespace tidu::frontend_detail {

// A new graph may have the address of one that has been destroyed.
const RecordableGraphs::Entry& RecordableGraphs::look_up(const Graph& graph) {
  const auto address = reinterpret_cast<std::uintptr_t>(&graph.data());
  auto& set = entries_[(address >> 4) * 0x9e3779b97f4a7c15ULL >> 56];
  for (const Entry& entry : set)
    if (entry.address == &graph.data() && !entry.graph.expired()) return entry;
  std::move_backward(set.begin(), set.end() - 1, set.end());
  tidu::detail::KeptBytes kept;
  kept.add(graph);
  Entry& entry = set[0];
  entry.address = &graph.data();
  entry.graph = graph.share();
  entry.literal_bytes = kept.literals();
  entry.takes = graph.primitives() == standard_primitives() && graph.externals().empty() &&
                !graph.outputs().empty() && !graph.data().has_effects && !graph.data().has_collectives &&
                !Spread(graph).moves();
  return entry;
}

}  // namespace tidu::frontend_detail
