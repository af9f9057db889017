// builder.hpp - GraphBuilder: the only class that makes graphs. It infers the type of each value as the value
// is added, and throws at once where operands do not fit. It computes keys at once, and merges equal pure
// operations.
//
// Note [Consumer lists]: an operation's home is its operand with the largest id. Equal operations share a
// home, so they are looked for along the home's list of consumers; a list keeps 8 entries and spills into one
// table beyond, so that a value with a million consumers stays cheap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu {

/// Makes one graph. Not for several threads at once.
class GraphBuilder final : public Emitter {
 public:
  /// Options of a builder.
  struct Options {
    bool deduplicate = true;   ///< false: keep operations verbatim, as a loader needs it
    bool record_where = true;  ///< keep the source locations that emitters pass
  };

  /// An empty graph of that name; `set` has the primitives of its operations.
  explicit GraphBuilder(std::string name = {}, PrimitiveSet set = standard_primitives());
  /// The same with options.
  GraphBuilder(std::string name, PrimitiveSet set, Options options);
  ~GraphBuilder() override;
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  /// A builder that goes on where `base` ends: its values keep their ids. Outputs are given anew to build().
  static std::unique_ptr<GraphBuilder> extending(const Graph& base, Options options);
  static std::unique_ptr<GraphBuilder> extending(const Graph& base) { return extending(base, Options()); }

  /// A further input. Throws Error (invalid_argument) when there is one of that name or key already.
  Value input(std::string_view name, Type type);
  Value input(const InputKey& key, Type type, std::string_view label = {});
  /// A value that another graph defines; the same key twice is one value.
  Value external(const ValueKey& key, Type type);
  /// A name for people; no key depends on it.
  void set_label(Value value, std::string_view label);
  std::size_t num_values() const { return data_->types.size(); }
  std::size_t num_operations() const { return data_->operations.size(); }
  /// The value with that id. Throws Error (invalid_argument) when there is none.
  Value value(ValueId id);

  /// Throws Error (invalid_argument) for an id that there is not, as for every value once the graph is built.
  Type type_of(ValueId id) const override {
    if (id >= data_->types.size()) refuse_id(id);
    return data_->types[id];
  }
  Values emit(const Op& op, std::span<const Value> operands, Where where = {}) override;
  Value emit_one(const Op& op, std::span<const Value> operands, Where where = {}) override;
  const PrimitiveSet& primitives() const override { return data_->primitives; }
  /// Adds the primitives of `set`, except those whose name this builder's set has already. Throws Error
  /// (invalid_argument) when the graph is built.
  void extend_primitives(const PrimitiveSet& set);

  /// Ends the graph and leaves the builder empty: every further call except the destructor throws Error
  /// (invalid_argument). Throws Error (invalid_argument) for an output that is not a value of this builder;
  /// the builder is then unchanged.
  Graph build(std::span<const Value> outputs);
  Graph build(std::initializer_list<Value> outputs) {
    return build(std::span(outputs.begin(), outputs.size()));
  }
  /// The same by ids.
  Graph build_ids(std::vector<ValueId> outputs);

  // --- for transforms: by id, without checks that hold by construction
  // -------------------------------------------------

  /// Metadata of an operation: it does not change the operation's results.
  struct Extra {
    std::uint32_t role = 0;           ///< see GraphData::roles; make it with make_role
    std::uint32_t origin = no_index;  ///< the operation that this one derives from
    std::uint32_t where = no_index;   ///< index into where_table
  };
  /// Adds `op` (merged when an equal one is there) and returns its first result. Infers types; `op` must be
  /// of this set.
  ValueId add(const OpRecord* op, std::span<const ValueId> operands, const Extra& extra);
  ValueId add(const OpRecord* op, std::span<const ValueId> operands) { return add(op, operands, Extra()); }
  /// The same with result types that are known already, as for a copy of an operation whose operands have the
  /// same types.
  ValueId add_typed(const OpRecord* op, std::span<const ValueId> operands, const Type* results,
                    std::uint32_t num_results, const Extra& extra);
  /// An external that the caller knows to be new.
  ValueId add_external(const ValueKey& key, Type type);
  /// Encodes which operands an operation is linear in.
  std::uint32_t make_role(std::span<const bool> linear);
  /// Index of the source location in where_table.
  std::uint32_t intern_where(Where where);
  std::uint32_t intern_where(std::string_view text);
  void reserve(std::size_t values, std::size_t operations, std::size_t operands);
  /// Sets the key under which a dump knows the result of an impure operation. To be called before an
  /// operation reads the value.
  void adopt_key(ValueId value, const ValueKey& key) { data_->keys[value] = key; }
  /// The ids under which a dump writes the values.
  void set_dump_ids(std::vector<ValueId> ids) { data_->dump_ids = std::move(ids); }
  /// `op` itself, or the op with the record that this builder's set has under its name.
  Op resolve(const Op& op) const;
  const GraphData& data() const { return *data_; }

 private:
  struct Index;  // consumer lists, spill table, held ops
  ValueId emit_first(const Op& op, std::span<const Value> operands, Where where);
  [[noreturn]] void refuse_id(ValueId id) const;
  [[noreturn]] void refuse_operand(const Op& op, std::span<const Value> operands, std::size_t i) const;
  void require_open() const;
  ValueId find_equal(const OpRecord* op, std::span<const ValueId> operands, ValueId home);
  ValueId append(const OpRecord* op, std::span<const ValueId> operands, const Type* results,
                 std::uint32_t num_results, const Extra& extra, ValueId home);
  void hold(const OpRecord* op);
  ValueId add_value(Type type, const ValueKey& key, std::uint32_t producer);

  std::shared_ptr<GraphData> data_;
  Options options_;
  std::unique_ptr<Index> index_;
};

/// Emits the operations of `graph` with `inputs` for its inputs and `externals` for its externals. Returns
/// the emitted value for each value of `graph`, default-constructed for a value that was not emitted.
/// `needed`, if it is given, restricts this to the values that are marked there. Throws Error
/// (invalid_argument, type) when counts or types differ.
std::vector<Value> inline_graph(Emitter& emitter, const Graph& graph, std::span<const Value> inputs,
                                std::span<const Value> externals = {},
                                const std::vector<bool>* needed = nullptr);

/// Marks the values that `roots` depend on.
std::vector<bool> reachable(const Graph& graph, std::span<const ValueId> roots);

/// The same inputs and outputs without operations that no output needs, equal operations merged, externals
/// that are not used dropped.
Graph prune(const Graph& graph);

/// The same graph with other names for its inputs, one for each input; an empty name leaves the input's name.
Graph with_input_names(const Graph& graph, std::span<const std::string> names);

}  // namespace tidu
