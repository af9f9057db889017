// invoke.hpp - shared helpers for running one operation and running a graph.
#pragma once

#include <cstdint>

#include "frontend/context.hpp"
#include "tidu/cpu/executor.hpp"

namespace tidu::frontend_detail {

inline const Executable& compiled(const CpuExecutor& executor, const eager::RecordedGraph& graph) {
  return graph.slot().get<Executable>(executor.id(), [&] { return executor.compile(graph.graph()); });
}

/// Are results examined even if nothing is recorded?
inline bool records_without_grad(const Context& c) {
  return c.watches && (c.recorder.options().anomaly || c.recorder.options().keep_blocked);
}

/// The placement of the backward of an operation that ran on `device`.
inline eager::Placement placement_at(const Context& c, std::uint32_t device) {
  if (device == 0 && c.cpu != nullptr) [[likely]]
    return {};
  return c.host.executor_at(device).current_placement();
}

}  // namespace tidu::frontend_detail
