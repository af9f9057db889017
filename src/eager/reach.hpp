// reach.hpp - Reach: what the roots of a tape depend on, and how a value lies among it. Unlike a backward
// call, it also goes where no gradient flows: through operations without derivative, where these were kept.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "eager/node.hpp"
#include "tidu/eager/trace.hpp"

namespace tidu::eager::detail {

/// A value of the tape: an output of a node, or any leaf of that key.
struct TapeValue {
  Key key;
  const Node* node;  ///< null: a leaf that is known by its key alone
  bool is_leaf() const { return node == nullptr || node->is_leaf(); }
  bool is_at(const Node* at, std::uint32_t slot) const {
    return is_leaf() ? at->is_leaf() && at->first_key == key : at == node && at->key_of(slot) == key;
  }
};

/// An edge through which no gradient flows.
struct Cut {
  enum class Kind : std::uint8_t {
    no_derivative,    ///< `node` has none
    inactive_output,  ///< output `slot` of `node` has none
    detached          ///< `node` took the operand as a constant
  };
  Kind kind;
  const Node* node;
  std::uint32_t slot;
};

class Reach {
 public:
  Reach(std::span<const Node* const> roots, const TapeValue& target);

  /// All nodes that a root depends on (leaves are none), in ascending order of their numbers.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  /// Does the node depend on the target along edges on which gradients flow?
  bool leads(const Node* node) const { return flag(node, leads_bit); }
  /// The same along any edges.
  bool depends(const Node* node) const { return flag(node, depends_bit); }
  bool edge_leads(const Edge& edge) const {
    return target_.is_at(edge.target, edge.slot) || (!edge.target->is_leaf() && leads(edge.target));
  }
  /// The first edges on the ways from the target to the roots through which no gradient flows.
  std::vector<Cut> cuts() const;
  /// Was anything met that is kept for explanations alone?
  bool has_blocked() const { return has_blocked_; }
  /// A leaf that stands for the target, or null.
  const Node* leaf() const { return leaf_; }

 private:
  static constexpr std::uint8_t leads_bit = 1, depends_bit = 2;
  bool flag(const Node* node, std::uint8_t bit) const {
    const auto at = flags_.find(node);
    return at != flags_.end() && (at->second & bit) != 0;
  }
  TapeValue target_;
  std::vector<const Node*> nodes_;
  std::unordered_map<const Node*, std::uint8_t> flags_;
  const Node* leaf_ = nullptr;
  bool has_blocked_ = false;
};

/// The keys of the leaves that a node depends on, along any edges; its own where it is a leaf.
std::vector<Key> leaves_below(const Node* root);

}  // namespace tidu::eager::detail
