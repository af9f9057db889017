// perturb.hpp - graphs that add a perturbation to every value that they compute. They show the effect of
// small changes of intermediate values on outputs, and so the rounding error of an output.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "check/numeric.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::check {

/// A graph with an addend for floating and complex results, as inputs after its own.
struct Perturbed {
  Graph graph;
  std::vector<std::size_t> changed;  ///< inputs: addends, and inputs of the graph that are chosen
  std::vector<ValueId> values;       ///< aligned with `changed`: the value of `graph` that each changes
  Tensors inputs;                    ///< the graph's, then zeros
};
/// `chosen`: flags by value of `graph`, which has no externals. With `keep_decisions` operations of exact
/// dtype (comparisons) have values without addends as operands, lest x == max(x, y) be another in each run.
/// Throws Error (unknown_primitive) when the set names no add.
Perturbed perturb(const Graph& graph, std::span<const Tensor> inputs, const std::vector<bool>& chosen,
                  bool keep_decisions = false);

/// Runs a graph with simulated rounding: all values that depend on the inputs in `wrt` are changed at random
/// by up to two units in the last place, also those of inner graphs that can be inlined. No derivative rule
/// is used. Throws as executors do.
class Shaken {
 public:
  Shaken(const Graph& graph, std::span<const std::size_t> wrt, std::span<const Tensor> inputs,
         const Executor& executor, std::uint64_t seed);
  /// At inputs near those that it was made with; every call perturbs differently.
  Tensors run(std::span<const Tensor> inputs);

 private:
  const Executor& executor_;
  Perturbed perturbed_;
  Tensors sizes_;  // aligned with perturbed_.changed
  Random random_;
};

}  // namespace tidu::check
