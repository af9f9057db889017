// tape_list.hpp - TapeList: a tape as a list, producers first, in which each leaf and node has a number.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "eager/node.hpp"
#include "tidu/eager/trace.hpp"

namespace tidu::eager::detail {

class TapeList {
 public:
  explicit TapeList(std::span<const EagerOutput> roots);

  struct Root {
    const Node* node;
    std::uint32_t slot;
  };
  /// One node for each key, in the order in which nodes read them; one with a slot or a name, if there is
  /// any.
  const std::vector<const Node*>& leaves() const { return leaves_; }
  /// In ascending order of sequence numbers.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  /// The roots that were recorded.
  const std::vector<Root>& roots() const { return roots_; }
  /// For a leaf, its index in leaves(); for a node, its index in nodes() plus the number of leaves.
  std::size_t id(const Node* node) const;

 private:
  void enter_leaf(const Node* node);
  std::vector<const Node*> leaves_, nodes_;
  std::vector<Root> roots_;
  std::unordered_map<Key, std::size_t> leaf_ids_;
  std::unordered_map<const Node*, std::size_t> node_ids_;
};

/// The names of outputs.
std::vector<std::pair<std::uint32_t, std::string>> names_of(const Node& node);
/// "input 0", "output 0", "retained value 3".
std::string saved_value(const Node& node, std::uint32_t saved);

}  // namespace tidu::eager::detail
