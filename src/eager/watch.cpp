// watch.cpp - noting what a node got and gave.
#include "eager/watch.hpp"

namespace tidu::eager::detail {
namespace {

// The program whose transposed part that is, or null for one that is not kept.
const BackwardProgram* program_of(const Variant& variant, const Graph& transposed) {
  for (const Derivation* at = variant.derivations.head(); at != nullptr; at = at->next) {
    for (const BackwardProgram* program = at->programs.head(); program != nullptr; program = program->next)
      if (&program->transposed == &transposed) return program;
  }
  return nullptr;
}

}  // namespace

const NodeFlow* WatchingHost::find(const Node* node) const {
  const auto at = seen_.find(node);
  return at != seen_.end() ? &at->second : nullptr;
}

Flow WatchingHost::flow_of(const void* operand) const {
  return host_.is_zero(operand).value_or(false) ? Flow::zero : Flow::there;
}

void WatchingHost::run_transposed_linear(const GraphCall& call, Inputs inputs, std::byte* out) const {
  host_.run_transposed_linear(call, inputs, out);
  const Node* node = node_of(call.node->trace().node());
  const BackwardProgram* program = program_of(*node->variant, call.graph);
  if (program == nullptr) return;
  NodeFlow flow{std::vector<Flow>(node->num_outputs(), Flow::absent),
                std::vector<Flow>(node->num_edges, Flow::absent)};
  const std::size_t first = program->residuals.size();
  for (std::size_t i = 0; i < program->seeded_outputs.size(); ++i)
    flow.incoming[program->seeded_outputs[i]] = flow_of(inputs[first + i]);
  for (std::size_t i = 0; i < program->output_edge.size(); ++i)
    flow.outgoing[program->output_edge[i]] = flow_of(out + i * table.size);
  seen_.emplace(node, std::move(flow));
}

}  // namespace tidu::eager::detail
