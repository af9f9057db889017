// reach.cpp - one walk down from the roots, one sweep up over the nodes found.
#include "eager/reach.hpp"

#include <algorithm>
#include <unordered_set>

namespace tidu::eager::detail {

Reach::Reach(std::span<const Node* const> roots, const TapeValue& target) : target_(target) {
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    if (node->is_leaf()) {
      if (target_.is_at(node, 0)) leaf_ = node;
    } else if (flags_.emplace(node, std::uint8_t{0}).second) {
      stack.push_back(node);
    }
  };
  for (const Node* root : roots) visit(root);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    nodes_.push_back(node);
    has_blocked_ = has_blocked_ || node->blocked || node->num_passive != 0;
    for (std::uint32_t e = 0; e < node->num_edges + node->num_passive; ++e) visit(node->edges()[e].target);
  }
  // Producers have smaller numbers.
  std::sort(nodes_.begin(), nodes_.end(),
            [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  for (const Node* node : nodes_) {
    std::uint8_t flags = 0;
    for (std::uint32_t e = 0; e < node->num_edges + node->num_passive; ++e) {
      const Edge& edge = node->edges()[e];
      const bool here = target_.is_at(edge.target, edge.slot);
      if (here || depends(edge.target)) flags |= depends_bit;
      if (!node->blocked && e < node->num_edges && (here || leads(edge.target))) flags |= leads_bit;
    }
    flags_[node] = flags;
  }
}

std::vector<Cut> Reach::cuts() const {
  std::vector<Cut> found;
  for (const Node* node : nodes_) {
    for (std::uint32_t e = 0; e < node->num_edges + node->num_passive; ++e) {
      const Edge& edge = node->edges()[e];
      const bool passive = e >= node->num_edges;
      if ((!passive && !node->blocked) || !edge_leads(edge)) continue;
      const Node* producer = edge.target;
      if (!passive) {
        found.push_back({Cut::Kind::no_derivative, node, 0});
      } else if (!producer->is_leaf() && producer->specialization->output_active[edge.slot] == 0) {
        found.push_back({Cut::Kind::inactive_output, producer, edge.slot});
      } else {
        found.push_back({Cut::Kind::detached, node, 0});
      }
      break;
    }
  }
  return found;
}

std::vector<Key> leaves_below(const Node* root) {
  std::vector<Key> leaves;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack{root};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->is_leaf()) {
      if (std::find(leaves.begin(), leaves.end(), node->first_key) == leaves.end())
        leaves.push_back(node->first_key);
      continue;
    }
    for (std::uint32_t e = 0; e < node->num_edges + node->num_passive; ++e)
      stack.push_back(node->edges()[e].target);
  }
  return leaves;
}

}  // namespace tidu::eager::detail
