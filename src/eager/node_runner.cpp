// node_runner.cpp - see node_runner.hpp.
#include "eager/node_runner.hpp"

#include <algorithm>

#include "eager/anomaly.hpp"
#include "eager/failure.hpp"

namespace tidu::eager::detail {

using tidu::detail::in_quotes;
using tidu::detail::printable;
using tidu::detail::str;

namespace {

// Prefetches the memory that is read when the node runs.
void prefetch(const Node& node) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&node);
  __builtin_prefetch(bytes);
  __builtin_prefetch(bytes + 64);
  __builtin_prefetch(bytes + 128);
}

}  // namespace

NodeRunner::NodeRunner(const Parts& parts)
    : request_(parts.request),
      host_(parts.request.host),
      options_(parts.request.options),
      table_(parts.request.host.table),
      cotangents_(parts.cotangents),
      reached_(parts.reached),
      contributions_(parts.contributions),
      captures_(parts.captures),
      hooks_(parts.hooks),
      arrivals_(parts.arrivals) {}

[[gnu::always_inline]] inline void NodeRunner::run_with_hooks(State& state, std::span<Cotangent*> incoming,
                                                              std::span<Cotangent*> outgoing,
                                                              const char*& phase) const {
  using When = CallHooks::When;
  Node& node = *state.node;
  hooks_.show(When::arrived, node, incoming);
  std::shared_ptr<const HookList::Hooks> hooks;
  if (NodeExtension* extension = node.extension.load(std::memory_order_acquire)) [[unlikely]]
    hooks = extension->snapshot();
  phase = BackwardPhase::hook;
  if (hooks) hooks_.run(*hooks, HookKind::value, node, incoming, {});
  if (state.captured) captures_.take(node, incoming, cotangents_);
  if (!state.needed) {
    if (hooks) hooks_.check_left(node, incoming);
    return;
  }
  if (hooks) {
    hooks_.run(*hooks, HookKind::before_node, node, incoming, {});
    hooks_.show(When::left, node, incoming);
  }
  bool any = false;
  for (const Cotangent* cotangent : incoming) any = any || cotangent != nullptr;
  if (!any) return;
  run_transposed(node, incoming, outgoing, phase);
  hooks_.show(When::made, node, outgoing);
  if (!hooks) return;
  phase = BackwardPhase::hook;
  hooks_.run(*hooks, HookKind::after_node, node, incoming, outgoing);
  hooks_.show(When::sent, node, outgoing);
  if (options_.anomaly) check_sent(cotangents_.looker, outgoing, node);
}

void NodeRunner::run(State& state, std::span<Cotangent*> outgoing, bool moves) const {
  Node& node = *state.node;
  for (std::uint32_t e = 0; e < node.num_edges; ++e) prefetch(*node.edges()[e].target);
  ShortArray<Cotangent*, 4> cotangents(node.num_outputs());
  const std::span<Cotangent*> incoming(cotangents.data(), cotangents.size());
  const CotangentGuard guard(table_, incoming);
  const char* phase = BackwardPhase::add;
  try {
    contributions_.take(state, incoming);
    run_with_hooks(state, incoming, outgoing, phase);
    if (moves) {
      phase = BackwardPhase::move;
      move_outgoing(node, outgoing);
    }
  } catch (const Error& error) {
    explain_failure(error, node, phase);
  }
}

// Before they are delivered, which one thread does at a time: an executor's waits may take long, and call
// backward. Cotangents that are not wanted are released here for the same reason.
void NodeRunner::move_outgoing(const Node& node, std::span<Cotangent*> outgoing) const {
  const bool selective = reached_.is_selective();
  for (std::uint32_t e = 0; e < node.num_edges; ++e) {
    if (outgoing[e] == nullptr) continue;
    const Edge& edge = node.edges()[e];
    if (selective && !reached_.is_wanted(edge)) {
      destroy_cotangent(table_, std::exchange(outgoing[e], nullptr));
    } else {
      const Node& target =
          edge.target->is_leaf() ? *reached_.leaves().find(edge.target->first_key)->node : *edge.target;
      cotangents_.move_to(*outgoing[e], target.placement());
    }
  }
}

BackwardProgram& NodeRunner::program_of(const Node& node, std::span<Cotangent* const> incoming,
                                        std::shared_ptr<CachedLinearization>& keep) const {
  const Specialization& specialization = *node.specialization;
  const bool selective = reached_.is_selective();
  if (incoming.size() < 64 && node.num_edges < 64) [[likely]] {
    std::uint64_t seeded = 0;
    for (std::size_t i = 0; i < incoming.size(); ++i)
      if (incoming[i] != nullptr && specialization.output_active[i] != 0) seeded |= std::uint64_t{1} << i;
    std::uint64_t wanted = (std::uint64_t{1} << node.num_edges) - 1;
    if (selective) {
      for (std::uint32_t e = 0; e < node.num_edges; ++e)
        if (!reached_.is_wanted(node.edges()[e])) wanted &= ~(std::uint64_t{1} << e);
    }
    if (options_.context == nullptr) {
      for (const CachedLinearization* at = specialization.linearizations.head(); at != nullptr;
           at = at->next) {
        if (at->context != Key128{}) continue;
        for (BackwardProgram* program = at->programs.head(); program != nullptr; program = program->next)
          if (program->seeded[0] == seeded && program->wanted[0] == wanted &&
              program->accumulates(cotangents_.wide_accumulation))
            return *program;
      }
    }
    return specialization.program(Mask{seeded}, Mask{wanted}, cotangents_.wide_accumulation, options_.context,
                                  keep);
  }
  Mask seeded = make_mask(incoming.size());
  for (std::size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i] != nullptr && specialization.output_active[i] != 0) set(seeded, i);
  Mask wanted = make_mask(node.num_edges);
  for (std::uint32_t e = 0; e < node.num_edges; ++e)
    if (!selective || reached_.is_wanted(node.edges()[e])) set(wanted, e);
  return specialization.program(seeded, wanted, cotangents_.wide_accumulation, options_.context, keep);
}

// Saved operands must be unchanged when backward reads them.
void NodeRunner::check_versions(const Node& node, const BackwardProgram& program) const {
  const auto check = [&](std::uint32_t k) {
    const std::uint64_t saved = const_cast<Node&>(node).versions()[k];
    if (saved == Node::no_version) return;
    const std::optional<std::uint64_t> now = host_.version(node.saved(k));
    if (!now || *now == saved) return;
    throw Error(ErrorKind::tape,
                str('[', printable(node.name()), "] expected ", NodeView(ref(&node)).saved_name(k),
                    " as it was when it was recorded, at version ", saved, ", got version ", *now,
                    ": it was changed in place and backward reads it (change a copy of it instead)"));
  };
  for (const std::uint32_t k : program.forward_inputs) check(k);
  for (const std::uint32_t k : program.residuals)
    if ((k & BackwardProgram::computed_bit) == 0) check(k);
}

// Computes the residuals that the tape did not save.
[[gnu::always_inline]] inline void NodeRunner::compute_residuals(const Node& node, BackwardProgram& program,
                                                                 OperandBuffer& computed) const {
  const std::int64_t begin = now();
  const NodeView view(ref(&node));
  const ShortArray<const void*, 8> inputs(program.forward_inputs,
                                          [&](std::uint32_t k) -> const void* { return node.saved(k); });
  host_.execute_forward({program.forward, program.forward_slot, node.placement(), &view}, inputs.span(),
                        computed.data());
  computed.filled = true;
  if (options_.profile != nullptr) [[unlikely]]
    profile(ProfilePhase::forward, node, computed.data(), program.computed.size(), begin);
}

// Moves the results into new cotangents. `made`: by result; `outgoing`: by edge.
[[gnu::always_inline]] inline void NodeRunner::make_cotangents(const Node& node,
                                                               const BackwardProgram& program,
                                                               OperandBuffer& results,
                                                               std::span<Cotangent*> outgoing,
                                                               std::span<Cotangent*> made) const {
  const CachedGraph& graph = *node.specialization->owner;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::uint32_t edge = program.output_edge[i];
    Cotangent* cotangent = make_cotangent(table_, graph.input_types[node.specialization->edges[edge]]);
    results.take(i, cotangent->operand());
    cotangent->sequence = node.sequence;
    cotangent->source = node.first_key.source;
    cotangent->edge = edge;
    cotangent->device = node.device;
    cotangent->stream = node.stream;
    made[i] = cotangent;
    outgoing[edge] = cotangent;
  }
}

[[gnu::always_inline]] inline void NodeRunner::check_cotangents(const Node& node,
                                                                std::span<Cotangent* const> made) const {
  for (const Cotangent* cotangent : made) {
    const std::uint32_t input = node.specialization->edges[cotangent->edge];
    cotangents_.check_type(*cotangent, cotangent->type, node, "the ", "cotangent of input", input);
    cotangents_.check_device(*cotangent, node, input);
  }
}

void NodeRunner::run_transposed(Node& node, std::span<Cotangent*> incoming, std::span<Cotangent*> outgoing,
                                const char*& phase) const {
  const ReadGuard read(node);
  if (!read.entered()) refuse_freed(node);
  phase = "the rules";
  std::shared_ptr<CachedLinearization> keep;
  BackwardProgram& program = program_of(node, incoming, keep);
  if (node.has_versions) check_versions(node, program);

  OperandBuffer computed(table_, program.computed.size());
  if (!program.computed.empty()) {
    phase = "execute_forward";
    compute_residuals(node, program, computed);
  }

  phase = "run_transposed_linear";
  const std::int64_t begin = now();
  const std::size_t num_residuals = program.residuals.size();
  ShortArray<const void*, 8> inputs(num_residuals + program.seeded_outputs.size());
  for (std::size_t i = 0; i < num_residuals; ++i) {
    const std::uint32_t k = program.residuals[i];
    inputs[i] = (k & BackwardProgram::computed_bit) != 0 ? computed.at(k & ~BackwardProgram::computed_bit)
                                                         : node.saved(k);
  }
  for (std::size_t i = 0; i < program.seeded_outputs.size(); ++i)
    inputs[num_residuals + i] = incoming[program.seeded_outputs[i]]->operand();
  const std::size_t num_results = program.output_edge.size();
  OperandBuffer results(table_, num_results);
  if (num_results != 0) {
    const NodeView view(ref(&node));
    host_.run_transposed_linear({program.transposed, program.transposed_slot, node.placement(), &view},
                                inputs.span(), results.data());
  }
  results.filled = true;
  if (options_.profile != nullptr) [[unlikely]]
    profile(ProfilePhase::transposed, node, results.data(), num_results, begin);

  ShortArray<Cotangent*, 8> cotangents(num_results);
  const std::span<Cotangent*> made(cotangents.data(), num_results);
  make_cotangents(node, program, results, outgoing, made);
  check_cotangents(node, made);
  if (options_.anomaly) [[unlikely]]
    look_for_anomaly(node, incoming, outgoing,
                     [&] { return first_within(host_, node, program, inputs.span()); });
  if (cotangents_.creates_graph) {
    phase = "recording";
    record(node, program, incoming, computed.data(), made);
  }
  if (!options_.keep_graph && !cotangents_.creates_graph) node.free();
}

// The backward of a node is one invocation of (residuals, then the transposed graph) over the inputs of the
// node and the cotangents: derivatives of residuals are not lost.
void NodeRunner::record(const Node& node, BackwardProgram& program, std::span<Cotangent* const> incoming,
                        std::byte* computed, std::span<Cotangent* const> results) const {
  const BackwardProgram::Recorded& recorded = node.specialization->recorded(program);
  const CachedGraph& graph = *node.specialization->owner;
  std::vector<RecordInput> inputs(graph.input_types.size());
  for (std::uint32_t e = 0; e < node.num_edges; ++e) {
    const Edge& edge = node.edges()[e];
    inputs[node.specialization->edges[e]] = {edge.target->key_of(edge.slot), edge.target, true, nullptr};
  }
  std::vector<RecordRetained> retained;
  for (std::uint32_t k = 0; k < node.num_saved; ++k) {
    const SavedSource& source = node.specialization->saved[k];
    if (source.kind == SavedSource::Kind::input) {
      inputs[source.index].data = node.saved(k);
    } else if (recorded.saved[k] != no_index) {
      retained.push_back({recorded.saved[k], node.saved(k)});
    }
  }
  for (std::size_t k = 0; k < recorded.computed.size(); ++k) {
    if (recorded.computed[k] != no_index)
      retained.push_back({recorded.computed[k], computed + k * table_.size});
  }
  for (const std::uint32_t slot : program.seeded_outputs) {
    Cotangent* cotangent = incoming[slot];
    inputs.push_back({cotangent->key, cotangent->trace, cotangent->trace != nullptr, cotangent->operand()});
  }
  std::vector<const void*> outputs;
  for (Cotangent* cotangent : results) outputs.push_back(cotangent->operand());
  ShortArray<bool, 16> active(results.size());
  Where where;
  where.file = node.file;
  where.line = node.line;
  const Trace trace = Trace::adopt(request_.recorder->record(
      {recorded.graph.shared(), inputs, outputs, retained, node.placement(), where}, active.data()));
  if (!trace) return;
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    if (!active[i]) continue;
    results[i]->trace = trace.node();
    retain(results[i]->trace);
    results[i]->key = node_of(trace.node())->key_of(i);
    results[i]->slot = i;
  }
}

void NodeRunner::profile(ProfilePhase phase, const Node& node, std::byte* operands, std::size_t count,
                         std::int64_t begin) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += host_.bytes(operands + i * table_.size);
  options_.profile->add({phase, node.name(), node.where(), node.sequence, bytes, begin,
                         options_.profile->now(), node.placement(), 0});
}

void NodeRunner::look_for_anomaly(Node& node, std::span<Cotangent* const> incoming,
                                  std::span<Cotangent* const> outgoing,
                                  const std::function<std::string()>& within) const {
  check_backward(
      {cotangents_.looker, node, [&] { return arrivals_.path_to(node); }, incoming, outgoing, within},
      [this] {
        std::vector<Node*> reached;
        reached_.states().for_each([&](State& state) { reached.push_back(state.node); });
        return reached;
      });
}

void wrong_number_of_values(const GraphCall& call, const char* hook, std::size_t got) {
  throw Error(ErrorKind::execution, str(hook, ": expected ", call.graph.outputs().size(), " values for ",
                                        in_quotes(call.graph.name()), ", got ", got));
}

}  // namespace tidu::eager::detail
