// recorder.hpp - Recorder: makes one tape node of each invocation that a frontend describes. It decides,
// before the node is made, which values backward will need, and keeps only those.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tidu/eager/executor.hpp"
#include "tidu/eager/key.hpp"
#include "tidu/eager/operands.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/eager/trace.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::eager {

class Profile;

/// One operand of an invocation. `trace` is that of the invocation (or Leaf) that made it, or none for a leaf
/// that is known by its key alone. It borrows `data`, which must live until the call that it is given to
/// returns; `data` may be null for a value that the frontend does not retain; it is an error then if backward
/// reads it.
template <class Operand>
struct EagerInput {
  Key key{};                      ///< of the operand; none for a constant
  TraceRef trace{};               ///< of its producer
  bool requires_grad = false;     ///< does a gradient flow to it?
  const Operand* data = nullptr;  ///< its value, or null

  EagerInput() = default;
  /// From its parts.
  EagerInput(const Key& k, TraceRef t, bool grad, const Operand* value)
      : key(k), trace(t), requires_grad(grad), data(value) {}
  /// An output of an earlier invocation.
  EagerInput(const EagerOutput& output, const Operand& value)
      : key(output.key), trace(output.trace), requires_grad(output.requires_grad), data(&value) {}
  /// A constant.
  explicit EagerInput(const Operand& value) : data(&value) {}
};

/// A concrete value of an intermediate of a composite graph, which backward then need not recompute.
template <class Operand>
struct Retained {
  ValueId value = 0;              ///< of the recorded graph
  const Operand* data = nullptr;  ///< its value
};

/// The result of record_graph.
using EagerOutputs = Operands<EagerOutput>;

/// Options of a recorder.
struct RecorderOptions {
  /// Passed to rules that run when an invocation is recorded; backward with a context of the same cache key
  /// reuses their results. With a context without a key, or beyond the first 64 keys that a graph was
  /// recorded with, all values are saved, and rules run in backward alone.
  ADContext* context = nullptr;
  /// Keep every operand and retained value and call no rule before backward: for contexts that are known
  /// only then, and for values that are to be read from the tape.
  bool save_everything = false;
  /// Keep the source locations that are passed to record().
  bool record_where = true;
  /// Check the outputs of every invocation (through the executor's is_finite) and throw NonFiniteError for
  /// the first that is not finite.
  bool anomaly = false;
  /// Keep nodes also of invocations whose outputs have no derivative, so that explain() can name them. Costs
  /// memory: such a node holds its producers.
  bool keep_blocked = false;
  /// Recorded invocations are entered here.
  Profile* profile = nullptr;
};

namespace detail {

struct RecordInput {
  Key key;
  NodeCount* node;
  bool requires_grad;
  const void* data;
};
struct RecordRetained {
  ValueId value;
  const void* data;
};

/// The untyped face of a BackwardExecutor.
class ErasedExecutor;
struct Specialization;

/// The untyped part, shared by all recorders.
class RecorderCore {
 public:
  RecorderCore(const OperandTable& table, const ErasedExecutor* host, const RecorderOptions& options);
  /// The moved-from core goes on without a host.
  RecorderCore(RecorderCore&& other) noexcept;
  RecorderCore& operator=(RecorderCore&& other) noexcept;

  struct Request {
    const CachedGraph* graph;
    std::span<const RecordInput> inputs;
    std::span<const void* const> outputs;  ///< empty, or one per output
    std::span<const RecordRetained> retained;
    Placement placement;
    Where where;
  };
  /// The node (owned by the caller), or null when nothing is recorded. `active` (with space for every output)
  /// receives whether each output requires a gradient.
  Node* record(const Request& request, bool* active);
  /// For who fills the node of an invocation itself: gives it its number, beyond `last`, the largest of those
  /// of its producers, and the keys of its outputs.
  void enter(Node& node, std::uint64_t last, std::size_t num_outputs) noexcept;
  KeySource& keys() { return keys_; }
  const RecorderOptions& options() const { return options_; }
  void set_options(const RecorderOptions& options) { options_ = options; }
  const ErasedExecutor* host() const { return host_; }
  const OperandTable& table() const { return *table_; }
  std::uint64_t num_recorded() const { return recorded_; }

 private:
  Node* fill(const Request& request, const Specialization& specialization, bool blocked);
  std::uint32_t slot_of_edge(const Request& request, std::uint32_t input, std::uint64_t& sequence);
  void copy_into(Node* node, const Request& request, const Specialization& specialization,
                 std::span<const void* const> data, const std::uint32_t* slots);

  const OperandTable* table_;
  const ErasedExecutor* host_;
  RecorderOptions options_;
  KeySource keys_;
  std::uint64_t last_ = 0;
  std::uint64_t recorded_ = 0;
};

/// Small cache from (op, types) to a cached graph, before RecordedGraph::of.
class OpCache {
 public:
  OpCache();
  ~OpCache();
  OpCache(OpCache&&) noexcept;
  const CachedGraph* find(const Op& op, std::span<const Type> types, const PrimitiveSet& set);

 private:
  struct Entry;
  void make_room(std::size_t bytes);
  std::unique_ptr<Entry[]> entries_;
  std::size_t bytes_ = 0;  // of literals that the entries' graphs hold
};

}  // namespace detail
}  // namespace tidu::eager

#include "tidu/eager/host.hpp"

namespace tidu::eager {

/// Belongs to one thread at a time. Traces of different recorders may be mixed freely, and threads may share
/// recorded values.
template <OperandType Operand>
class Recorder {
 public:
  /// The recorder reads versions, types and placements of operands from `host`, if it is given. `host` must
  /// outlive the recorder.
  explicit Recorder(const BackwardExecutor<Operand>* host = nullptr, const RecorderOptions& options = {})
      : host_(host != nullptr ? std::make_unique<detail::ErasedExecutorOf<Operand>>(*host) : nullptr),
        core_(detail::operand_table<Operand>, host_.get(), options) {}

  /// The source of keys of leaves.
  KeySource& keys() { return core_.keys(); }
  const RecorderOptions& options() const { return core_.options(); }
  /// For invocations from now on.
  void set_options(const RecorderOptions& options) { core_.set_options(options); }
  /// Nodes made so far.
  std::uint64_t num_recorded() const { return core_.num_recorded(); }

  /// Records one invocation of `graph`. `outputs` are the concrete results (all or none), some of which
  /// backward may need; `retained` are further values of a composite graph. Returns one EagerOutput per
  /// output: with a trace if a gradient can flow, else with a key alone. When no input requires a gradient,
  /// nothing is recorded and nothing allocated for the tape.
  ///
  /// Throws Error: invalid_argument for another number of inputs or outputs, a trace that did not make its
  /// key, or missing data that backward needs; type for operands of other types, if the host describes them;
  /// NonFiniteError; the exceptions of a rule. (A rule that is missing or does not fit the graph is an error
  /// of backward.) After an error nothing was recorded.
  EagerOutputs record_graph(const RecordedGraph& graph, std::span<const EagerInput<Operand>> inputs,
                            std::span<const Operand> outputs = {},
                            std::span<const Retained<Operand>> retained = {},
                            Where where = Where::current()) {
    return record_graph(graph, inputs, outputs, retained,
                        host_ != nullptr ? host_->executor().current_placement() : Placement{}, where);
  }
  EagerOutputs record_graph(const RecordedGraph& graph, std::span<const EagerInput<Operand>> inputs,
                            std::span<const Operand> outputs, std::span<const Retained<Operand>> retained,
                            Placement placement, Where where) {
    detail::ShortArray<detail::RecordInput, 8> untyped(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      untyped[i] = {inputs[i].key, inputs[i].trace.node(), inputs[i].requires_grad, inputs[i].data};
    }
    detail::ShortArray<const void*, 8> results(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) results[i] = &outputs[i];
    detail::ShortArray<detail::RecordRetained, 8> kept(retained.size());
    for (std::size_t i = 0; i < retained.size(); ++i) kept[i] = {retained[i].value, retained[i].data};
    return finish(graph.shared(),
                  {graph.shared(), untyped.span(), results.span(), kept.span(), placement, where});
  }

  /// Records one invocation of a primitive with one result. The operands' types come from the host's
  /// describe(), or else from `types`.
  EagerOutput record(const Op& op, std::initializer_list<EagerInput<Operand>> inputs, const Operand& output,
                     std::span<const Type> types, Where where = Where::current(),
                     const PrimitiveSet& set = standard_primitives()) {
    const std::span<const EagerInput<Operand>> list(inputs.begin(), inputs.size());
    EagerOutputs made = record_graph(known(op, types, set), list, std::span(&output, 1), {}, where);
    return std::move(made[0]);
  }
  EagerOutput record(const Op& op, std::initializer_list<EagerInput<Operand>> inputs, const Operand& output,
                     Where where = Where::current(), const PrimitiveSet& set = standard_primitives()) {
    std::vector<Type> types;
    for (const EagerInput<Operand>& input : inputs) {
      const std::optional<Type> type =
          host_ != nullptr && input.data != nullptr ? host_->executor().describe(*input.data) : std::nullopt;
      if (!type) {
        throw Error(ErrorKind::invalid_argument,
                    tidu::detail::str('[', op.name(),
                                      "] expected the types of the operands, or a host that describes them"));
      }
      types.push_back(*type);
    }
    return record(op, inputs, output, types, where, set);
  }

  /// For frontends that count every nanosecond: untyped, with a cached graph that the caller holds.
  detail::RecorderCore& core() { return core_; }

 private:
  RecordedGraph known(const Op& op, std::span<const Type> types, const PrimitiveSet& set) {
    const detail::CachedGraph* graph = ops_.find(op, types, set);
    detail::retain(graph);
    return RecordedGraph(graph);
  }
  EagerOutputs finish(const detail::CachedGraph* graph, const detail::RecorderCore::Request& request) {
    const std::size_t count = detail::num_outputs(graph);
    detail::ShortArray<bool, 16> active(count);
    const Trace trace = Trace::adopt(detail::count_of(core_.record(request, active.data())));
    const Key first = trace ? detail::first_key(trace.node()) : keys().fresh(count);
    EagerOutputs outputs;
    outputs.reserve(count);
    for (std::size_t slot = 0; slot < count; ++slot) {
      EagerOutput& output = outputs.emplace_back();
      output.key = {first.source, first.counter + slot};
      output.output_slot = static_cast<std::uint32_t>(slot);
      output.requires_grad = trace && active[slot];
      if (output.requires_grad || (trace && options().keep_blocked)) output.trace = trace;
    }
    return outputs;
  }

  std::unique_ptr<detail::ErasedExecutorOf<Operand>> host_;
  detail::RecorderCore core_;
  detail::OpCache ops_;
};

}  // namespace tidu::eager
