// engine.cpp - runs one node: its arguments and its results. order.cpp has the order of nodes and the
// delivery of results.
#include <algorithm>
#include <typeinfo>

#include "eager/anomaly.hpp"
#include "eager/call.hpp"
#include "eager/operand_buffer.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu::eager {
namespace detail {

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

thread_local std::uint32_t calls_on_this_thread = 0;

BackwardCall::BackwardCall(const BackwardRequest& backward_request)
    : request(backward_request),
      host(backward_request.host),
      options(backward_request.options),
      table(backward_request.host.table),
      cotangents(backward_request),
      depth(calls_on_this_thread) {}

// Also after an error: everything that is still on its way goes.
BackwardCall::~BackwardCall() {
  if (cotangents.looker.findings != nullptr) cotangents.looker.findings->end();
  const auto destroy_all = [this](Cell*& cell) {
    while (cell != nullptr) destroy_cell(table, std::exchange(cell, cell->next));
  };
  if (live != 0) {
    states.for_each([&](State& state) {
      destroy_all(state.cell);
      if (state.cells == nullptr) return;
      for (std::uint32_t slot = 0; slot < state.node->num_outputs(); ++slot) destroy_all(state.cells[slot]);
      delete[] state.cells;
    });
  }
  for (LeafState& leaf : leaves.list()) destroy_all(leaf.cell);
  for (Cell* cell : captured)
    if (cell != nullptr) destroy_cell(table, cell);
  for (std::size_t i = 0; i < held_roots; ++i) release(request.roots[i].node);
  for (std::size_t i = 0; i < held_requested; ++i)
    if (const TraceRef trace = request.requested[i].trace) release(trace.node());
}

// --- one node

void BackwardCall::explain_failure(const Error& error, const Node& node, const char* phase) {
  std::string place;
  if (node.is_leaf()) {
    place = node.describe();
  } else {
    std::string types;
    for (const Type type : node.variant->owner->input_types) types += str(types.empty() ? "" : ", ", type);
    place = str("the backward of ", printable(node.name()), '(', types, ')',
                node.file != nullptr ? str(", recorded at ", printable(node.where())) : std::string(),
                " (node ", node.sequence, ')');
  }
  const auto explained = error.with_message(str(error.what(), "\n  in ", phase, " of ", place));
  const Error& made = *explained;
  if (typeid(made) == typeid(error)) made.raise();
  throw;  // a type of the user's, which has no with_message of its own
}

// The incoming cotangents, each the sum of its contributions.
void BackwardCall::take_incoming(State& state, std::span<Cell*> incoming) {
  std::fill(incoming.begin(), incoming.end(), nullptr);
  Node& node = *state.node;
  if (!folds_at_once) {
    cotangents.fold_waiting(state.cell, incoming, &node.variant->owner->graph.primitives(), node);
  } else if (incoming.size() == 1) {
    incoming[0] = std::exchange(state.cell, nullptr);
  } else if (state.cells != nullptr) {
    std::copy_n(state.cells, incoming.size(), incoming.begin());
    delete[] std::exchange(state.cells, nullptr);
  }
  if (!cotangents.wide_accumulation) return;
  const Template& graph = *node.variant->owner;
  for (std::size_t slot = 0; slot < incoming.size(); ++slot) {
    if (incoming[slot] != nullptr)
      cotangents.complete_sum(*incoming[slot], graph.output_types[slot], &graph.graph.primitives(), node);
  }
}

void BackwardCall::capture(const Node& node, std::span<Cell* const> incoming) {
  for (auto at = captures.lower_bound({&node, 0}); at != captures.end() && at->first.first == &node; ++at) {
    const Cell* cell = incoming[at->first.second];
    if (cell != nullptr) captured[at->second] = cotangents.duplicate(*cell);
  }
}

// What hooks left of cotangents that go to no operation, which would look at them.
void BackwardCall::after_hooks(When when, const Node& node, std::span<Cell* const> cells) {
  tell(when, node, cells);
  if (!options.anomaly) return;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells[i] != nullptr) check_hooked(cotangents.looker, *cells[i], node, i);
}

void BackwardCall::run_node(State& state, std::span<Cell*> outgoing) {
  Node& node = *state.node;
  for (std::uint32_t e = 0; e < node.num_edges; ++e) prefetch(*node.edges()[e].target);
  ShortArray<Cell*, 4> cells(node.num_outputs());
  const std::span<Cell*> incoming(cells.data(), cells.size());
  const CellGuard guard(table, incoming);
  const char* phase = "add_operands";
  try {
    take_incoming(state, incoming);
    tell(When::arrived, node, incoming);
    std::shared_ptr<const HookList::Hooks> hooks;
    if (NodeExtension* extension = node.extension.load(std::memory_order_acquire)) [[unlikely]]
      hooks = extension->snapshot();
    phase = "a hook";
    if (hooks) run_hooks(*hooks, HookKind::value, node, incoming, {});
    if (state.captured) capture(node, incoming);
    if (!state.needed) {
      if (hooks) after_hooks(When::left, node, incoming);
      return;
    }
    if (hooks) {
      run_hooks(*hooks, HookKind::before_node, node, incoming, {});
      tell(When::left, node, incoming);
    }
    bool any = false;
    for (const Cell* cell : incoming) any = any || cell != nullptr;
    if (!any) return;
    run_transposed(node, incoming, outgoing, phase);
    tell(When::made, node, outgoing);
    phase = "a hook";
    if (hooks) {
      run_hooks(*hooks, HookKind::after_node, node, incoming, outgoing);
      tell(When::sent, node, outgoing);
      if (options.anomaly) check_sent(cotangents.looker, outgoing, node);
    }
    if (threaded) {
      phase = moving;
      move_outgoing(node, outgoing);
    }
  } catch (const Error& error) {
    explain_failure(error, node, phase);
  }
}

// Before they are delivered, which one thread does at a time: an executor's waits may take long, and call
// backward. Cotangents that are not wanted are released here for the same reason.
void BackwardCall::move_outgoing(const Node& node, std::span<Cell*> outgoing) {
  const bool selective = !request.requested.empty();
  for (std::uint32_t e = 0; e < node.num_edges; ++e) {
    if (outgoing[e] == nullptr) continue;
    const Edge& edge = node.edges()[e];
    if (selective && !is_wanted(edge)) {
      destroy_cell(table, std::exchange(outgoing[e], nullptr));
    } else {
      const Node& target = edge.target->is_leaf() ? *leaves.find(edge.target->first_key)->node : *edge.target;
      cotangents.move_to(*outgoing[e], target.placement());
    }
  }
}

BackwardProgram& BackwardCall::program_of(const Node& node, std::span<Cell* const> incoming,
                                          std::shared_ptr<Derivation>& keep) {
  const Variant& variant = *node.variant;
  const bool selective = !request.requested.empty();
  if (incoming.size() < 64 && node.num_edges < 64) [[likely]] {
    std::uint64_t seeded = 0;
    for (std::size_t i = 0; i < incoming.size(); ++i)
      if (incoming[i] != nullptr && variant.output_active[i] != 0) seeded |= std::uint64_t{1} << i;
    std::uint64_t wanted = (std::uint64_t{1} << node.num_edges) - 1;
    if (selective) {
      for (std::uint32_t e = 0; e < node.num_edges; ++e)
        if (!is_wanted(node.edges()[e])) wanted &= ~(std::uint64_t{1} << e);
    }
    if (options.context == nullptr) {
      for (const Derivation* at = variant.derivations.head(); at != nullptr; at = at->next) {
        if (at->context != Key128{}) continue;
        for (BackwardProgram* program = at->programs.head(); program != nullptr; program = program->next)
          if (program->seeded[0] == seeded && program->wanted[0] == wanted &&
              program->accumulates(cotangents.wide_accumulation))
            return *program;
      }
    }
    return variant.program(Mask{seeded}, Mask{wanted}, cotangents.wide_accumulation, options.context, keep);
  }
  Mask seeded = make_mask(incoming.size());
  for (std::size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i] != nullptr && variant.output_active[i] != 0) set(seeded, i);
  Mask wanted = make_mask(node.num_edges);
  for (std::uint32_t e = 0; e < node.num_edges; ++e)
    if (!selective || is_wanted(node.edges()[e])) set(wanted, e);
  return variant.program(seeded, wanted, cotangents.wide_accumulation, options.context, keep);
}

// Saved operands must be unchanged when backward reads them.
void BackwardCall::check_versions(const Node& node, const BackwardProgram& program) const {
  const auto check = [&](std::uint32_t k) {
    const std::uint64_t saved = const_cast<Node&>(node).versions()[k];
    if (saved == Node::no_version) return;
    const std::optional<std::uint64_t> now = host.version(node.saved(k));
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

void BackwardCall::run_transposed(Node& node, std::span<Cell*> incoming, std::span<Cell*> outgoing,
                                  const char*& phase) {
  const ReadGuard read(node);
  if (!read.entered()) refuse_freed(node);
  phase = "the rules";
  std::shared_ptr<Derivation> keep;
  BackwardProgram& program = program_of(node, incoming, keep);
  if (node.has_versions) check_versions(node, program);
  const NodeView view(ref(&node));
  const Placement placement = node.placement();

  const std::size_t num_computed = program.computed.size();
  OperandBuffer computed(table, num_computed);
  if (num_computed != 0) {
    phase = "execute_forward";
    const std::int64_t begin = options.profile != nullptr ? options.profile->now() : 0;
    const ShortArray<const void*, 8> inputs(program.forward_inputs,
                                            [&](std::uint32_t k) -> const void* { return node.saved(k); });
    host.execute_forward({program.forward, program.forward_slot, placement, &view}, inputs.span(),
                         computed.data());
    computed.filled = true;
    if (options.profile != nullptr) [[unlikely]]
      profile_node(ProfilePhase::forward, node, computed.data(), num_computed, begin);
  }

  phase = "run_transposed_linear";
  const std::int64_t begin = options.profile != nullptr ? options.profile->now() : 0;
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
  OperandBuffer results(table, num_results);
  if (num_results != 0) {
    host.run_transposed_linear({program.transposed, program.transposed_slot, placement, &view}, inputs.span(),
                               results.data());
  }
  results.filled = true;
  if (options.profile != nullptr) [[unlikely]]
    profile_node(ProfilePhase::transposed, node, results.data(), num_results, begin);

  const Template& graph = *node.variant->owner;
  ShortArray<Cell*, 8> made(num_results);
  for (std::size_t i = 0; i < num_results; ++i) {
    const std::uint32_t edge = program.output_edge[i];
    Cell* cell = make_cell(table, graph.input_types[node.variant->edges[edge]]);
    results.take(i, cell->operand());
    cell->sequence = node.sequence;
    cell->source = node.first_key.source;
    cell->edge = edge;
    cell->device = node.device;
    cell->stream = node.stream;
    made[i] = cell;
    outgoing[edge] = cell;
  }
  for (std::size_t i = 0; i < num_results; ++i) {
    const std::uint32_t input = node.variant->edges[made[i]->edge];
    cotangents.check_type(*made[i], made[i]->type, node, "the ", "cotangent of input", input);
    cotangents.check_device(*made[i], node, input);
  }
  if (options.anomaly) [[unlikely]]
    look_for_anomaly(node, incoming, outgoing,
                     [&] { return first_within(host, node, program, inputs.span()); });
  if (cotangents.creates_graph) {
    phase = "recording";
    record_backward(node, program, incoming, computed.data(), made.span());
  }
  if (!options.keep_graph && !cotangents.creates_graph) node.free();
}

// The backward of a node is one invocation of (residuals, then the transposed graph) over the inputs of the
// node and the cotangents: derivatives of residuals are not lost.
void BackwardCall::record_backward(const Node& node, BackwardProgram& program,
                                   std::span<Cell* const> incoming, std::byte* computed,
                                   std::span<Cell* const> results) {
  const BackwardProgram::Recorded& recorded = node.variant->recorded(program);
  const Template& graph = *node.variant->owner;
  std::vector<RecordInput> inputs(graph.input_types.size());
  for (std::uint32_t e = 0; e < node.num_edges; ++e) {
    const Edge& edge = node.edges()[e];
    inputs[node.variant->edges[e]] = {edge.target->key_of(edge.slot), edge.target, true, nullptr};
  }
  std::vector<RecordRetained> retained;
  for (std::uint32_t k = 0; k < node.num_saved; ++k) {
    const SavedSource& source = node.variant->saved[k];
    if (source.kind == SavedSource::Kind::input) {
      inputs[source.index].data = node.saved(k);
    } else if (recorded.saved[k] != no_index) {
      retained.push_back({recorded.saved[k], node.saved(k)});
    }
  }
  for (std::size_t k = 0; k < recorded.computed.size(); ++k) {
    if (recorded.computed[k] != no_index)
      retained.push_back({recorded.computed[k], computed + k * table.size});
  }
  for (const std::uint32_t slot : program.seeded_outputs) {
    Cell* cell = incoming[slot];
    inputs.push_back({cell->key, cell->trace, cell->trace != nullptr, cell->operand()});
  }
  std::vector<const void*> outputs;
  for (Cell* cell : results) outputs.push_back(cell->operand());
  ShortArray<bool, 16> active(results.size());
  Where where;
  where.file = node.file;
  where.line = node.line;
  const Trace trace = Trace::adopt(request.recorder->record(
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

void BackwardCall::profile_node(ProfilePhase phase, const Node& node, std::byte* operands, std::size_t count,
                                std::int64_t begin) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += host.bytes(operands + i * table.size);
  options.profile->add({phase, node.name(), node.where(), node.sequence, bytes, begin, options.profile->now(),
                        node.placement(), 0});
}

void BackwardCall::look_for_anomaly(Node& node, std::span<Cell* const> incoming,
                                    std::span<Cell* const> outgoing,
                                    const std::function<std::string()>& within) {
  check_backward(
      {cotangents.looker, node, [&] { return arrivals.path_to(node); }, incoming, outgoing, within}, [this] {
        std::vector<Node*> reached;
        states.for_each([&](State& state) { reached.push_back(state.node); });
        return reached;
      });
}

void wrong_number_of_values(const GraphCall& call, const char* hook, std::size_t got) {
  throw Error(ErrorKind::execution, str(hook, ": expected ", call.graph.outputs().size(), " values for ",
                                        in_quotes(call.graph.name()), ", got ", got));
}

}  // namespace detail
}  // namespace tidu::eager
