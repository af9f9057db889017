// recorder.cpp - one tape node of one invocation: find the specialization for its active inputs, check the
// arguments, and fill one block.
#include "tidu/eager/recorder.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "eager/anomaly.hpp"
#include "eager/node.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu::eager::detail {
namespace {

using tidu::detail::printable;
using tidu::detail::str;
using Request = RecorderCore::Request;

std::string place(const Request& request) {
  std::string text = printable(request.graph->name());
  if (request.where.file != nullptr)
    text += str(", recorded at ", printable(request.where.file), ':', request.where.line);
  return text;
}

[[noreturn]] void refuse(const Request& request, const std::string& message) {
  throw Error(ErrorKind::invalid_argument,
              str('[', printable(request.graph->name()), "] ", message, "\n  in ", place(request)));
}

void check_counts(const Request& request) {
  const CachedGraph& graph = *request.graph;
  if (request.inputs.size() != graph.input_types.size())
    refuse(request, str("expected ", graph.input_types.size(), " inputs, got ", request.inputs.size()));
  if (!request.outputs.empty() && request.outputs.size() != graph.output_types.size())
    refuse(request,
           str("expected ", graph.output_types.size(), " outputs or none, got ", request.outputs.size()));
}

void check_type(const Request& request, const ErasedExecutor& host, const void* operand, Type expected,
                const char* what, std::size_t index) {
  const std::optional<Type> type = operand != nullptr ? host.describe(operand) : std::nullopt;
  if (type && *type != expected) {
    throw Error(ErrorKind::type, str('[', printable(request.graph->name()), "] expected ", expected, " as ",
                                     what, ' ', index, ", got ", *type, "\n  in ", place(request)));
  }
}

void check_types(const Request& request, const ErasedExecutor& host) {
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    check_type(request, host, request.inputs[i].data, request.graph->input_types[i], "input", i);
  for (std::size_t i = 0; i < request.outputs.size(); ++i)
    check_type(request, host, request.outputs[i], request.graph->output_types[i], "output", i);
}

// The slot of the producer's output with that key.
std::uint32_t producer_slot(const Request& request, const RecordInput& input, std::size_t index) {
  const Node* node = node_of(input.node);
  const std::uint64_t slot = input.key.counter - node->first_key.counter;
  if (input.key.source != node->first_key.source || slot >= node->num_outputs()) {
    refuse(request, str("expected input ", index, " to come with the trace that made it (", node->describe(),
                        "), got ", to_string(input.key)));
  }
  return static_cast<std::uint32_t>(slot);
}

const void* saved_data(const Request& request, const SavedSource& source,
                       const Specialization& specialization) {
  switch (source.kind) {
    case SavedSource::Kind::input: return request.inputs[source.index].data;
    case SavedSource::Kind::output: return request.outputs[source.index];
    case SavedSource::Kind::retained: break;
  }
  const ValueId value = specialization.retained[source.index];
  for (const RecordRetained& retained : request.retained)
    if (retained.value == value) return retained.data;
  return nullptr;
}

// Does an input require a gradient? With keep_blocked, it is enough that one was made on the tape.
bool is_recorded(const Request& request, const RecorderOptions& options) {
  return std::any_of(request.inputs.begin(), request.inputs.end(), [&](const RecordInput& input) {
    return input.requires_grad || (options.keep_blocked && input.node != nullptr);
  });
}

bool is_active(const Request& request, std::size_t input) {
  return request.inputs[input].requires_grad && is_inexact(request.graph->input_types[input].dtype());
}

// The retained values of the graph, ascending; throws for one that is not the graph's, or has no data.
std::vector<ValueId> retained_values(const Request& request, const ErasedExecutor* host) {
  const Graph& graph = request.graph->graph;
  std::vector<ValueId> retained;
  for (const RecordRetained& value : request.retained) {
    if (value.value >= graph.num_values() || value.data == nullptr)
      refuse(request, str("expected retained values of the graph with data, got value ", value.value));
    if (host != nullptr)
      check_type(request, *host, value.data, graph.type(value.value), "retained value", value.value);
    retained.push_back(value.value);
  }
  std::sort(retained.begin(), retained.end());
  retained.erase(std::unique(retained.begin(), retained.end()), retained.end());
  return retained;
}

// The same as specialization_for for requests of any kind. `everything`: save all values that a derivative
// may read.
const Specialization& general_specialization(const Request& request, const RecorderOptions& options,
                                             const ErasedExecutor* host, bool everything) {
  const std::size_t num_inputs = request.inputs.size();
  // The inputs with data matter if a plan has a choice: if everything is saved, or for the operands of
  // retained values.
  const bool has_choice = everything || !request.retained.empty();
  Mask mask = make_mask(num_inputs);
  Mask given = make_mask(num_inputs);
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (is_active(request, i)) set(mask, i);
    if (has_choice && request.inputs[i].data != nullptr) set(given, i);
  }
  return request.graph->specialization(mask, given, !request.outputs.empty(), retained_values(request, host),
                                       everything, everything ? nullptr : options.context);
}

// The specialization for the inputs that require a gradient, by the fast path in the common case.
const Specialization& specialization_for(const Request& request, const RecorderOptions& options,
                                         const ErasedExecutor* host) {
  constexpr std::size_t max_inputs = 48;  // of the fast path
  // Linearizations with a context without a key cannot be cached: its rules run in backward.
  const bool everything = options.save_everything || !request.graph->keeps(options.context);
  const std::size_t num_inputs = request.inputs.size();
  if (num_inputs > max_inputs || !request.retained.empty() || everything || options.context != nullptr)
    return general_specialization(request, options, host, everything);
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < num_inputs; ++i)
    if (is_active(request, i)) mask |= std::uint64_t{1} << i;
  return request.graph->specialization(mask, !request.outputs.empty());
}

// Was it made on the tape, without a gradient flowing to it? An input without a key is a constant.
bool is_passive(const RecordInput& input) {
  return !input.requires_grad && input.node != nullptr && input.key;
}

// Number of passive inputs. Throws for one that its node did not make. `sequence`: as of slot_of_edge().
std::uint32_t check_passive(const Request& request, std::uint64_t& sequence) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    if (!is_passive(request.inputs[i])) continue;
    (void)producer_slot(request, request.inputs[i], i);
    sequence = std::max(sequence, node_of(request.inputs[i].node)->sequence);
    ++count;
  }
  return count;
}

// Makes the edges to the producers of passive inputs.
void add_passive(const Request& request, Edge* edge) {
  for (const RecordInput& input : request.inputs) {
    if (!is_passive(input)) continue;
    Node* target = node_of(input.node);
    retain(target);
    const std::uint64_t slot = input.key.counter - target->first_key.counter;
    ::new (static_cast<void*>(edge++)) Edge{target, static_cast<std::uint32_t>(slot)};
  }
}

}  // namespace

RecorderCore::RecorderCore(const OperandTable& table, const ErasedExecutor* host,
                           const RecorderOptions& options)
    : table_(&table), host_(host), options_(options) {}

RecorderCore::RecorderCore(RecorderCore&& other) noexcept
    : table_(other.table_),
      host_(std::exchange(other.host_, nullptr)),
      options_(other.options_),
      keys_(std::move(other.keys_)),
      last_(other.last_),
      recorded_(other.recorded_) {}
RecorderCore& RecorderCore::operator=(RecorderCore&& other) noexcept {
  table_ = other.table_;
  host_ = std::exchange(other.host_, nullptr);
  options_ = other.options_;
  keys_ = std::move(other.keys_);
  last_ = other.last_;
  recorded_ = other.recorded_;
  return *this;
}

Node* RecorderCore::record(const Request& request, bool* active) {
  const std::size_t num_outputs = request.graph->output_types.size();
  const std::int64_t begin = options_.profile != nullptr ? options_.profile->now() : 0;
  check_counts(request);
  if (options_.anomaly && host_ != nullptr) check_forward(*host_, request);
  if (!is_recorded(request, options_)) {
    std::fill_n(active, num_outputs, false);
    return nullptr;
  }
  if (host_ != nullptr) check_types(request, *host_);
  const Specialization& specialization = specialization_for(request, options_, host_);
  for (std::size_t slot = 0; slot < num_outputs; ++slot)
    active[slot] = specialization.output_active[slot] != 0;
  const bool blocked = !specialization.any_active;
  if (blocked && !options_.keep_blocked) return nullptr;
  Node* node = fill(request, specialization, blocked);
  if (options_.profile != nullptr) [[unlikely]] {
    const Trace guard = Trace::adopt(node);
    profile_record(*options_.profile, host_, *node, request, begin);
    retain(node);
  }
  return node;
}

// The output of an edge's producer; throws for an operand that does not fit. `sequence`: the largest number
// of a producer so far.
std::uint32_t RecorderCore::slot_of_edge(const Request& request, std::uint32_t input,
                                         std::uint64_t& sequence) {
  const RecordInput& operand = request.inputs[input];
  if (operand.node == nullptr) {
    if (!operand.key)
      refuse(request, str("expected a key for input ", input, ", which requires a gradient, got none"));
    return 0;
  }
  const std::uint32_t slot = producer_slot(request, operand, input);
  const OperandTable* theirs = node_of(operand.node)->operands();
  if (theirs != nullptr && !same_operands(*theirs, *table_)) [[unlikely]] {
    refuse(request, str("expected operands of type ", operand_name(*table_), ", got input ", input, " of ",
                        operand_name(*theirs)));
  }
  sequence = std::max(sequence, node_of(operand.node)->sequence);
  return slot;
}

// Copies saved operands and makes the edges; the node is complete or destroyed.
void RecorderCore::copy_into(Node* node, const Request& request, const Specialization& specialization,
                             std::span<const void* const> data, const std::uint32_t* slots) {
  std::size_t saved = 0;
  std::size_t edges = 0;
  try {
    for (; saved < data.size(); ++saved) table_->copy(node->saved(saved), data[saved]);
    for (; edges < specialization.edges.size(); ++edges) {
      const RecordInput& input = request.inputs[specialization.edges[edges]];
      Node* target = input.node != nullptr ? node_of(input.node) : make_leaf(input.key, request.placement);
      if (input.node != nullptr) retain(target);
      ::new (static_cast<void*>(node->edges() + edges)) Edge{target, slots[edges]};
    }
  } catch (...) {
    while (saved > 0) table_->destroy(node->saved(--saved));
    while (edges > 0) release(node->edges()[--edges].target);
    const std::size_t bytes = node->bytes();
    node->~Node();
    tidu::detail::pool_deallocate(node, bytes);
    throw;
  }
}

// All checks precede the allocation of the block; after it only the copying of operands and the making of
// leaves may throw.
Node* RecorderCore::fill(const Request& request, const Specialization& specialization, bool blocked) {
  const std::size_t num_edges = specialization.edges.size();
  const std::size_t num_saved = blocked ? 0 : specialization.saved.size();
  ShortArray<const void*, 8> data(num_saved);
  ShortArray<std::uint64_t, 8> versions(num_saved);
  bool has_versions = false;
  for (std::size_t k = 0; k < num_saved; ++k) {
    data[k] = saved_data(request, specialization.saved[k], specialization);
    if (data[k] == nullptr)
      refuse(request, str("expected data for input ", specialization.saved[k].index,
                          ", which backward reads, got none"));
    if (host_ == nullptr) continue;
    const std::optional<std::uint64_t> version = host_->version(data[k]);
    has_versions = has_versions || version.has_value();
    versions[k] = version.value_or(Node::no_version);
  }
  std::uint64_t sequence = 0;
  ShortArray<std::uint32_t, 8> slots(num_edges);
  for (std::size_t e = 0; e < num_edges; ++e)
    slots[e] = slot_of_edge(request, specialization.edges[e], sequence);
  const std::uint32_t num_passive = options_.keep_blocked ? check_passive(request, sequence) : 0;

  Node* node = Node::make(specialization, *table_, num_passive, num_saved, has_versions);
  node->blocked = blocked;
  copy_into(node, request, specialization, {data.data(), num_saved}, slots.data());
  if (num_passive != 0) add_passive(request, node->edges() + num_edges);
  tidu::detail::count_up(specialization.owner->references);
  if (has_versions) std::copy_n(versions.data(), num_saved, node->versions());
  enter(*node, sequence, request.graph->output_types.size());
  node->device = request.placement.device;
  node->stream = request.placement.stream;
  if (options_.record_where) {
    node->file = request.where.file;
    node->line = request.where.line;
  }
  return node;
}

void RecorderCore::enter(Node& node, std::uint64_t last, std::size_t num_outputs) noexcept {
  last_ = std::max(last_, last) + 1;
  node.sequence = last_;
  node.first_key = keys_.fresh(num_outputs);
  ++recorded_;
}

}  // namespace tidu::eager::detail
