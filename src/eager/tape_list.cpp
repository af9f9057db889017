// tape_list.cpp - one walk, and an order that depends on the tape alone.
#include "eager/tape_list.hpp"

#include <algorithm>

#include "tidu/graph/error.hpp"

namespace tidu::eager::detail {

TapeList::TapeList(std::span<const EagerOutput> roots) {
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    if (!node->is_leaf() && node_ids_.emplace(node, 0).second) stack.push_back(node);
  };
  for (const EagerOutput& output : roots) {
    if (!output.trace) continue;
    const Node* node = node_of(TraceRef(output.trace).node());
    roots_.push_back({node, slot_of(output.trace, output.key, "dump: root")});
    visit(node);
  }
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    nodes_.push_back(node);
    for (std::uint32_t e = 0; e < node->num_edges + node->num_passive; ++e) visit(node->edges()[e].target);
  }
  // Nodes of different recorders may have one number: they stay in the order of the walk.
  std::stable_sort(nodes_.begin(), nodes_.end(),
                   [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  for (const Node* node : nodes_) {
    for (std::uint32_t e = 0; e < node->num_edges + node->num_passive; ++e)
      enter_leaf(node->edges()[e].target);
  }
  for (const Root& root : roots_) enter_leaf(root.node);
  for (std::size_t i = 0; i < nodes_.size(); ++i) node_ids_[nodes_[i]] = leaves_.size() + i;
}

void TapeList::enter_leaf(const Node* node) {
  if (!node->is_leaf()) return;
  const auto [at, added] = leaf_ids_.emplace(node->first_key, leaves_.size());
  if (added) {
    leaves_.push_back(node);
  } else if (const Node*& there = leaves_[at->second];
             there->accumulator() == nullptr && (node->accumulator() != nullptr || there->name().empty())) {
    there = node;
  }
}

std::size_t TapeList::id(const Node* node) const {
  return node->is_leaf() ? leaf_ids_.at(node->first_key) : node_ids_.at(node);
}

std::vector<std::pair<std::uint32_t, std::string>> names_of(const Node& node) {
  NodeExtension* extension = node.extension.load(std::memory_order_acquire);
  if (extension == nullptr) return {};
  const std::lock_guard<std::mutex> lock(extension->mutex);
  return extension->names;
}

std::string saved_value(const Node& node, std::uint32_t saved) {
  const SavedSource& source = node.specialization->saved[saved];
  constexpr const char* kinds[] = {"input ", "output ", "retained value "};
  return tidu::detail::str(kinds[static_cast<std::size_t>(source.kind)], source.index);
}

}  // namespace tidu::eager::detail
