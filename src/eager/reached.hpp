// reached.hpp - ReachedNodes: the nodes and leaves that the roots of a backward call reach, those among them
// that the call needs, and the number of cotangents that each waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "eager/captures.hpp"
#include "eager/roots.hpp"
#include "eager/states.hpp"
#include "tidu/eager/backward.hpp"

namespace tidu::eager::detail {

/// Owns the states of nodes and leaves. Except for these it is constant once nodes run, so threads may use it
/// at the same time, but for functions that say otherwise.
class ReachedNodes {
 public:
  /// `captures`: receives the requested outputs. All three must outlive this object.
  ReachedNodes(const BackwardRequest& request, const Roots& roots, Captures& captures)
      : request_(request), roots_(roots), captures_(captures) {}

  /// Finds all nodes and leaves.
  void discover();
  /// If values are requested: finds the nodes on paths to them, and counts the cotangents of these alone.
  void mark_needed();
  /// Throws Error (tape) if a node that must run has freed its saved operands.
  void check_not_freed() const;

  /// Are certain values requested, instead of all leaves?
  bool is_selective() const { return !request_.requested.empty(); }
  /// Is the cotangent that a node sends along the edge delivered?
  bool is_wanted(const Edge& edge);
  /// Why a requested value has no cotangent after the call.
  Absence why_absent(const Requested& requested);
  /// Is a node on another device than the host?
  bool has_devices() const { return has_devices_; }
  /// Number of nodes that the call runs or, after an error, skips.
  std::size_t num_to_run() const { return num_to_run_; }

  State& state(const Node& node) { return *states_.find(&node); }
  /// Needs the lock of the run, as representative() does: remembers the leaf that was looked up last.
  LeafState& leaf(Node& node) { return leaves_.get(&node); }
  States& states() { return states_; }
  Leaves& leaves() { return leaves_; }
  /// The node that stands for a value: several may stand for one leaf.
  Node& representative(Node& node) { return node.is_leaf() ? *leaf(node).node : node; }

 private:
  void capture_requested();
  void find_needed();
  void count_needed();
  bool depends_on(const Requested& requested);

  const BackwardRequest& request_;
  const Roots& roots_;
  Captures& captures_;
  States states_;
  Leaves leaves_;
  std::vector<State*> found_;  // if selective: all states, in the order of discovery
  // Outputs that roots depend on; computed on demand.
  std::set<std::pair<const Node*, std::uint32_t>> depended_on_;
  const Node* freed_ = nullptr;  // a node that must run although its saved operands were freed
  bool has_devices_ = false;
  std::size_t num_to_run_ = 0;
};

/// Throws Error (tape) for a node whose saved operands were freed.
[[noreturn]] void refuse_freed(const Node& node);

}  // namespace tidu::eager::detail
