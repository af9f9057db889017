// reach.hpp - Reach: the dependencies of the roots of a tape, and the position of a value among them. In
// contrast to a backward call, it also follows edges without gradient: through operations without derivative,
// if they were kept.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "eager/node.hpp"
#include "tidu/eager/trace.hpp"

namespace tidu::eager::detail {

/// A value of the tape: an output of a node, or any leaf with that key.
struct TapeValue {
  Key key;
  const Node* node;  ///< null: a leaf that is known by its key alone
  bool is_leaf() const { return node == nullptr || node->is_leaf(); }
  bool is_at(const Node* at, std::uint32_t slot) const {
    return is_leaf() ? at->is_leaf() && at->first_key == key : at == node && at->key_of(slot) == key;
  }
};

/// An edge or operation through which no gradient flows.
struct Cut {
  enum class Kind : std::uint8_t {
    no_derivative,    ///< `node` has no derivative
    inactive_output,  ///< output `slot` of `node` has no derivative
    detached          ///< `node` took the operand as a constant
  };
  Kind kind;
  const Node* node;
  std::uint32_t slot;
};

class Reach {
 public:
  Reach(std::span<const Node* const> roots, const TapeValue& target);

  /// All nodes that a root depends on, without leaves, in ascending order of sequence numbers.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  /// Does the node depend on the target along edges on which gradients flow?
  bool leads(const Node* node) const { return flag(node, leads_bit); }
  /// Does the node depend on the target along any edges?
  bool depends(const Node* node) const { return flag(node, depends_bit); }
  bool edge_leads(const Edge& edge) const {
    return target_.is_at(edge.target, edge.slot) || (!edge.target->is_leaf() && leads(edge.target));
  }
  /// The first edges or operations without gradient on the paths from the target to the roots.
  std::vector<Cut> cuts() const;
  /// Was a node found that is kept for explanations only?
  bool has_blocked() const { return has_blocked_; }
  /// A leaf with the target's key, or null.
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

/// The keys of the leaves on which a node depends, along any edges; its own key for a leaf.
std::vector<Key> leaves_below(const Node* root);

}  // namespace tidu::eager::detail
