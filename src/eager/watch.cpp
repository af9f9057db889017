// watch.cpp - observes the incoming and outgoing cotangents of a node.
#include "eager/watch.hpp"

namespace tidu::eager::detail {

void Watch::see(When when, const Node& node, std::span<Cotangent* const> cotangents) {
  std::vector<Flow> flows;
  flows.reserve(cotangents.size());
  for (const Cotangent* cotangent : cotangents)
    flows.push_back(cotangent != nullptr ? flow_of(cotangent->operand()) : Flow::absent);
  const std::lock_guard<std::mutex> lock(mutex_);
  NodeFlow& seen = node.is_leaf() ? leaves_[node.first_key] : nodes_[&node];
  switch (when) {
    case When::arrived:
      seen.arrived = flows;
      seen.left = std::move(flows);
      break;
    case When::left: seen.left = std::move(flows); break;
    case When::made:
      seen.made = flows;
      seen.sent = std::move(flows);
      break;
    case When::sent: seen.sent = std::move(flows); break;
  }
}

const NodeFlow* Watch::find(const Node* node) const {
  const auto at = nodes_.find(node);
  return at != nodes_.end() ? &at->second : nullptr;
}

const NodeFlow* Watch::find(const Key& leaf) const {
  const auto at = leaves_.find(leaf);
  return at != leaves_.end() ? &at->second : nullptr;
}

Flow Watch::flow_of(const void* operand) const {
  return host_.is_zero(operand).value_or(false) ? Flow::zero : Flow::there;
}

}  // namespace tidu::eager::detail
