// graph.hpp - Graph: an immutable computation, flat. Values and operations lie in contiguous arrays in
// topological order; nothing points from node to node. A Graph is a handle: copies share, and any thread may
// read.
//
// Invariants (verify checks them): every operand of an operation is an input, an external, or a result of an
// earlier operation; the results of an operation have consecutive ids; every value has exactly one origin.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tidu/graph/key.hpp"
#include "tidu/graph/memory.hpp"
#include "tidu/graph/op.hpp"
#include "tidu/graph/primitive_set.hpp"
#include "tidu/graph/type.hpp"
#include "tidu/graph/value.hpp"

namespace tidu {

/// One operation in the flat arrays of a graph.
struct OperationRecord {
  const OpRecord* op;         ///< primitive and attributes
  std::uint32_t first_input;  ///< index into GraphData::operands
  std::uint32_t num_inputs;   ///< operands
  ValueId first_output;       ///< id of the first result; the others follow
  std::uint32_t num_outputs;  ///< results
};

/// Stands for no operation, source location or id.
inline constexpr std::uint32_t no_index = 0xffffffffU;
/// The maximum nesting of graphs in attributes; Op::make throws for deeper ones.
inline constexpr std::uint32_t max_graph_depth = 64;

/// The arrays of a Graph. Read them through Graph unless you write a transform.
struct GraphData {
  static constexpr std::uint32_t from_input = 0xffffffffU;     ///< producer of an input
  static constexpr std::uint32_t from_external = 0xfffffffeU;  ///< producer of an external

  /// Without values.
  explicit GraphData(PrimitiveSet set) : primitives(std::move(set)) {}

  std::string name;         ///< for people; in no key
  PrimitiveSet primitives;  ///< the operations' primitives
  // by value
  FlatArray<Type> types;               ///< of each value
  FlatArray<ValueKey> keys;            ///< content address of each value
  FlatArray<std::uint32_t> producers;  ///< index of the operation, or from_input, or from_external
  // by operation
  FlatArray<OperationRecord> operations;  ///< in topological order
  FlatArray<ValueId> operands;            ///< of all operations, one after another
  FlatArray<std::uint32_t> roles;    ///< empty: all primal. 0 primal; bit 31: linear in the operands of bits
                                     ///< 0..30; bit 30: see wide_roles
  FlatArray<std::uint32_t> origins;  ///< empty, or the operation that this one derives from (in this graph,
                                     ///< or in the one it was made from), or no_index
  FlatArray<std::uint32_t> wheres;   ///< empty, or an index into where_table, or no_index
  std::vector<std::vector<bool>>
      wide_roles;                        ///< by index of a role with bit 30: the operands it is linear in
  std::vector<std::string> where_table;  ///< "file:line"
  // interface
  std::vector<ValueId> inputs;       ///< values, by position
  std::vector<InputKey> input_keys;  ///< aligned with inputs
  std::vector<ValueId> externals;    ///< values, by position
  std::vector<ValueId> outputs;      ///< values, by position
  // names: of inputs (their key when it is a name, else a label) and labels of other values
  std::unordered_map<ValueId, std::string> labels;  ///< by value
  std::vector<ValueId> dump_ids;                    ///< empty, or the id under which a dump writes each value
  std::vector<Op> held;                             ///< one handle for each distinct op that can be freed
  bool may_repeat = false;   ///< made without merging (a loaded dump): equal operations may stand in it twice
  bool has_effects = false;  ///< is an operation impure, also in a graph that an attribute holds?
  bool has_collectives = false;  ///< is an operation collective, also in a graph that an attribute holds?
  std::uint32_t depth = 1;       ///< 1, or one more than the deepest graph that an attribute holds
  // structural address, on demand
  mutable std::once_flag structural_once;  ///< guards `structural`
  mutable Key128 structural;               ///< see Graph::structural_key
  // address of the metadata that `structural` leaves out, on demand
  mutable std::once_flag metadata_once;  ///< guards `metadata`
  mutable Key128 metadata;               ///< of names, keys of inputs, roles, origins, source locations, ids
                                         ///< in dumps
};

/// One operation of a graph, as a view.
class Operation {
 public:
  /// View of that operation.
  Operation(const GraphData& graph, std::uint32_t index) : graph_(&graph), index_(index) {}
  std::uint32_t index() const { return index_; }
  Op op() const { return Op::of(record().op); }
  const Primitive& primitive() const { return *record().op->primitive; }
  std::string_view name() const { return primitive().name; }
  /// Has it effects, or a graph with operations that have?
  bool is_impure() const { return record().op->impure; }
  std::size_t num_inputs() const { return record().num_inputs; }
  std::size_t num_outputs() const { return record().num_outputs; }
  std::span<const ValueId> inputs() const {
    return {graph_->operands.data() + record().first_input, record().num_inputs};
  }
  /// One operand.
  ValueId input(std::size_t i) const { return graph_->operands[record().first_input + i]; }
  /// One result.
  ValueId output(std::size_t slot = 0) const { return record().first_output + static_cast<ValueId>(slot); }
  /// Was it emitted as linear in some of its operands?
  bool is_linear() const { return !graph_->roles.empty() && graph_->roles[index_] != 0; }
  /// Was it emitted as linear in that operand?
  bool is_linear_in(std::size_t operand) const;
  /// Index of the operation that this one derives from, or no_index.
  std::uint32_t origin() const { return graph_->origins.empty() ? no_index : graph_->origins[index_]; }
  /// "file:line", or empty.
  std::string_view where() const;
  const OperationRecord& record() const { return graph_->operations[index_]; }

 private:
  const GraphData* graph_;
  std::uint32_t index_;
};

/// An immutable graph; copies share it.
class Graph {
 public:
  /// A graph without inputs, operations or outputs.
  Graph();
  /// For builders.
  explicit Graph(std::shared_ptr<const GraphData> data) : data_(std::move(data)) {}

  const std::string& name() const { return data_->name; }
  const PrimitiveSet& primitives() const { return data_->primitives; }
  std::size_t num_values() const { return data_->types.size(); }
  std::size_t num_operations() const { return data_->operations.size(); }
  /// By index, from 0 to num_operations() - 1.
  Operation operation(std::size_t index) const {
    return Operation(*data_, static_cast<std::uint32_t>(index));
  }

  std::span<const ValueId> inputs() const { return data_->inputs; }
  std::span<const ValueId> externals() const { return data_->externals; }
  std::span<const ValueId> outputs() const { return data_->outputs; }
  /// The identity of an input, by position.
  const InputKey& input_key(std::size_t input) const { return data_->input_keys[input]; }
  /// Position among the inputs of the one so named (or labelled, or with that key in 32 hexadecimal digits),
  /// or nothing.
  std::optional<std::size_t> find_input(std::string_view name) const;
  /// Name of an input by position; the digits of its key when it has none.
  std::string input_name(std::size_t input) const;

  /// Type of a value.
  Type type(ValueId value) const { return data_->types[value]; }
  /// Content address of a value.
  const ValueKey& key(ValueId value) const { return data_->keys[value]; }
  /// Name or label, or empty.
  std::string_view label(ValueId value) const;
  /// Is it an input (an external)?
  bool is_input(ValueId value) const { return data_->producers[value] == GraphData::from_input; }
  bool is_external(ValueId value) const { return data_->producers[value] == GraphData::from_external; }
  /// The operation that makes the value, or nothing for inputs and externals.
  std::optional<std::uint32_t> producer(ValueId value) const;

  /// Address of the structure: inputs and externals by position, outputs in order, sharing, ops with
  /// attributes, types; no names, labels, roles, origins or source locations. Computed once.
  const Key128& structural_key() const;

  /// The value with that key, or nothing. Linear in the graph; to look up many keys use resolve() over a span
  /// of graphs.
  std::optional<ValueId> find(const ValueKey& key) const;

  const GraphData& data() const { return *data_; }
  const std::shared_ptr<const GraphData>& share() const { return data_; }

 private:
  std::shared_ptr<const GraphData> data_;
};

namespace detail {
/// Address of an input.
ValueKey input_value_key(const InputKey& key, Type type);
}  // namespace detail

/// Have the graphs equal structure? The parts that structural_key covers are compared operation by operation.
bool structurally_equal(const Graph& a, const Graph& b);

/// Checks every invariant of a graph (see the top of this file), its types by inference and its keys.
/// Throws Error (internal) that shows the neighbourhood of the first thing wrong.
void verify(const Graph& graph);

/// "in operation 12 of "f", layer.cpp:42 (derived from operation 3)": the text by which messages name an
/// operation.
std::string describe_operation(const Graph& graph, std::uint32_t operation);

/// Readable text, one operation a line:  %3:f64[3] = mul %0 %1
std::string to_text(const Graph& graph);
/// Writes the text of to_text.
std::ostream& operator<<(std::ostream& out, const Graph& graph);

}  // namespace tidu
