// fuse.hpp - the nodes of a graph: single operations, and fusions of operations that become one kernel,
// without memory between them.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/plan.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::cuda_detail {

/// An operation, or several that run as one plan.
struct Node {
  std::vector<std::uint32_t> operations;  ///< indices into the graph, ascending
  /// The operands of the plan. A view is given by the root that holds its elements (passes::alias_roots), in
  /// results too: a view is no node and has no memory of its own.
  std::vector<ValueId> operands;
  std::vector<ValueId> results;  ///< results of the plan: values that another node reads, or outputs
  Plan plan;
};

/// How nodes are made.
struct NodeOptions {
  bool fuse = true;           ///< or every operation by itself
  int multiprocessors = 132;  ///< of the device
  bool tf32 = false;          ///< f32 matmuls may round their operands to tf32
  bool cudnn = false;         ///< convolutions that cuDNN knows are its own
};

/// The nodes of a graph in an order in which they can run, without those that no output needs. Operations
/// without operands (constants) are nodes without operands where something reads them from memory. Throws
/// Error (execution) for an operation that has no kernel.
std::vector<Node> plan_nodes(const Graph& graph, const NodeOptions& options = {});

}  // namespace tidu::cuda_detail
