// batch.hpp - batch: maps a graph over a leading axis (vmap). From a graph to a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu {

/// The arguments of batch().
struct BatchOptions {
  /// By input: does it carry the leading axis? All do when not given.
  std::optional<std::vector<bool>> inputs;
  /// Also outputs that depend on no batched input get the axis (by the set's broadcast).
  bool all_outputs = true;
  ADContext* context = nullptr;  ///< passed to every rule
};

/// The result of batch().
struct Batching {
  Graph graph;  ///< inputs and outputs as the given graph's, with the axis where it is carried; externals
                ///< without it
  std::vector<bool> batched_outputs;  ///< by output: does it carry the axis?
};

/// One batch rule per operation that a batched input reaches. `size` is the extent of the leading axis, >= 0.
/// Throws Error (invalid_argument) for options that do not fit; ADRuleError for a rule that is missing or
/// breaks its contract.
Batching batch(const Graph& graph, std::int64_t size, const BatchOptions& options = {});
Result<Batching> try_batch(const Graph& graph, std::int64_t size, const BatchOptions& options = {});

}  // namespace tidu
