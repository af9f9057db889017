// verify.cpp - checks the invariants of a flat graph one after another, cheapest first, so that later checks
// may rely on earlier ones. It runs after each transform in tests; its message shows the neighbourhood of the
// defect.
#include <algorithm>
#include <unordered_set>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/infer.hpp"

namespace tidu {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : g_(graph.data()) {}

  void run() {
    sizes();
    origins_of_values();
    interface();
    for (std::uint32_t i = 0; i < g_.operations.size(); ++i) operation(i);
    keys_of_inputs();
    metadata();
  }

 private:
  // Throws with the operations around the index, as far as they can be shown.
  template <class... Parts>
  [[noreturn]] void fail(std::uint32_t at, const Parts&... parts) const {
    std::string text = detail::str("verify: ", parts..., "\n  in graph ", detail::in_quotes(g_.name));
    if (at != no_index) {
      const std::size_t first = at < 2 ? 0 : at - 2;
      for (std::size_t i = first; i < std::min<std::size_t>(std::size_t{at} + 3, g_.operations.size()); ++i)
        text += shown(i, at);
    }
    throw Error(ErrorKind::internal, text);
  }
  std::string shown(std::size_t index, std::size_t at) const {
    const OperationRecord& record = g_.operations[index];
    std::string text = detail::str(index == at ? "\n> " : "\n  ", index, ": ");
    for (std::uint32_t slot = 0; slot < std::min(record.num_outputs, 8U); ++slot) {
      const std::size_t id = std::size_t{record.first_output} + slot;
      text += detail::str(slot == 0 ? "%" : ", %", id);
      if (id < g_.types.size()) text += detail::str(' ', g_.types[id]);
    }
    text += detail::str(" = ", Op::of(record.op));
    for (std::uint32_t i = 0; i < std::min(record.num_inputs, 16U); ++i) {
      const std::size_t position = std::size_t{record.first_input} + i;
      if (position >= g_.operands.size()) break;
      text += detail::str(" %", g_.operands[position]);
      if (g_.operands[position] < g_.types.size()) text += detail::str(':', g_.types[g_.operands[position]]);
    }
    return text;
  }

  void sizes() const {
    const std::size_t values = g_.types.size();
    const std::size_t operations = g_.operations.size();
    if (g_.keys.size() != values || g_.producers.size() != values) {
      fail(no_index, "expected one type, key and producer of each value, got ", values, ", ", g_.keys.size(),
           ", ", g_.producers.size());
    }
    for (const auto* column : {&g_.roles, &g_.origins, &g_.wheres}) {
      if (!column->empty() && column->size() != operations) {
        fail(no_index, "expected roles, origins and places to be empty or one for each of ", operations,
             " operations, got ", column->size());
      }
    }
    if (g_.input_keys.size() != g_.inputs.size()) {
      fail(no_index, "expected a key of each of ", g_.inputs.size(), " inputs, got ", g_.input_keys.size());
    }
  }

  // Every value has exactly one origin, and the results of an operation have consecutive ids.
  void origins_of_values() const {
    std::size_t produced = 0;
    for (std::uint32_t i = 0; i < g_.operations.size(); ++i) {
      const OperationRecord& record = g_.operations[i];
      if (std::size_t{record.first_output} + record.num_outputs > g_.types.size()) {
        fail(i, "expected results below ", g_.types.size(), ", got ", record.num_outputs, " from ",
             record.first_output);
      }
      if (std::size_t{record.first_input} + record.num_inputs > g_.operands.size()) {
        fail(i, "expected operands within a list of ", g_.operands.size(), ", got ", record.num_inputs,
             " from ", record.first_input);
      }
      for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
        const std::uint32_t producer = g_.producers[record.first_output + slot];
        if (producer != i)
          fail(i, "expected value ", record.first_output + slot, " to name its producer ", i, ", got ",
               producer);
      }
      produced += record.num_outputs;
    }
    const std::size_t origins = produced + g_.inputs.size() + g_.externals.size();
    if (origins != g_.types.size()) {
      fail(no_index, "expected an origin of each of ", g_.types.size(), " values, got ", origins);
    }
  }

  void ids_below(const std::vector<ValueId>& ids, std::string_view what) const {
    for (const ValueId id : ids) {
      if (id >= g_.types.size()) fail(no_index, "expected ", what, " below ", g_.types.size(), ", got ", id);
    }
  }

  void interface() const {
    ids_below(g_.inputs, "inputs");
    ids_below(g_.externals, "externals");
    ids_below(g_.outputs, "outputs");
    std::unordered_set<ValueId> seen;
    const auto origin = [&](ValueId id, std::uint32_t producer, std::string_view what) {
      if (g_.producers[id] != producer) fail(no_index, "expected value ", id, " to be marked as an ", what);
      if (!seen.insert(id).second)
        fail(no_index, "expected value ", id, " once among inputs and externals, got it twice");
    };
    for (const ValueId id : g_.inputs) origin(id, GraphData::from_input, "input");
    for (const ValueId id : g_.externals) origin(id, GraphData::from_external, "external");
    std::unordered_set<Key128> keys;
    for (const InputKey& key : g_.input_keys) {
      if (!keys.insert(key.bits()).second)
        fail(no_index, "expected inputs of different keys, got ", to_hex(key.bits()), " twice");
    }
  }

  void operation(std::uint32_t i) {
    const OperationRecord& record = g_.operations[i];
    if (!g_.primitives.contains(record.op->primitive)) {
      fail(i, "expected a primitive of the graph's set, got ", record.op->primitive->name);
    }
    operand_types_.clear();
    Key128 key = record.op->key;
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
      const ValueId id = g_.operands[record.first_input + k];
      if (id >= g_.types.size()) fail(i, "expected operand ", k, " below ", g_.types.size(), ", got ", id);
      const std::uint32_t producer = g_.producers[id];
      if (producer < GraphData::from_external && producer >= i) {
        fail(i, "expected operand ", k, " to be made before operation ", i, ", got value ", id,
             " of operation ", producer);
      }
      operand_types_.push_back(g_.types[id]);
      key = detail::mix(key, g_.keys[id]);
    }
    try {
      infer_types(Op::of(record.op), operand_types_, result_types_);
    } catch (const Error& error) {
      fail(i, "expected operands that fit, got ", error.what());
    }
    if (result_types_.size() != record.num_outputs) {
      fail(i, "expected ", result_types_.size(), " results, got ", record.num_outputs);
    }
    const bool impure = record.op->impure;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
      const ValueId id = record.first_output + slot;
      if (g_.types[id] != result_types_[slot]) {
        fail(i, "expected result ", slot, " to be ", result_types_[slot], ", got ", g_.types[id]);
      }
      if (!impure && g_.keys[id] != detail::result_key(key, static_cast<std::uint32_t>(slot))) {
        fail(i, "expected the key of value ", id, " to follow from its operation and operands, got ",
             to_hex(g_.keys[id]));
      }
    }
    role(i, record);
  }

  void role(std::uint32_t i, const OperationRecord& record) const {
    const std::uint32_t role = g_.roles.empty() ? 0 : g_.roles[i];
    if ((role & 0xc0000000U) == 0x40000000U) {
      const std::uint32_t wide = role & 0x3fffffffU;
      if (wide >= g_.wide_roles.size() || g_.wide_roles[wide].size() != record.num_inputs) {
        fail(i, "expected a role with one flag for each of ", record.num_inputs, " operands");
      }
    } else if ((role & 0x80000000U) != 0 && record.num_inputs < 31 &&
               ((role & 0x7fffffffU) >> record.num_inputs) != 0) {
      fail(i, "expected a role that is linear in some of ", record.num_inputs, " operands, got more");
    } else if ((role & 0xc0000000U) == 0 && role != 0) {
      fail(i, "expected a role that says how it is encoded, got ", role);
    }
  }

  void keys_of_inputs() const {
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) {
      const ValueId id = g_.inputs[i];
      if (g_.keys[id] != detail::input_value_key(g_.input_keys[i], g_.types[id])) {
        fail(no_index, "expected the key of input ", i, " to follow from its InputKey and type, got ",
             to_hex(g_.keys[id]));
      }
    }
  }

  void metadata() const {
    for (std::uint32_t i = 0; i < g_.wheres.size(); ++i) {
      if (g_.wheres[i] != no_index && g_.wheres[i] >= g_.where_table.size()) {
        fail(i, "expected a place below ", g_.where_table.size(), ", got ", g_.wheres[i]);
      }
    }
    for (const auto& [id, label] : g_.labels) {
      if (id >= g_.types.size())
        fail(no_index, "expected labels of values below ", g_.types.size(), ", got ", id);
    }
    if (g_.dump_ids.empty()) return;
    std::vector<bool> seen(g_.types.size(), false);
    for (const ValueId id : g_.dump_ids) {
      if (id >= seen.size() || seen[id])
        fail(no_index, "expected ids for a dump to be a permutation, got ", id);
      seen[id] = true;
    }
    if (g_.dump_ids.size() != seen.size())
      fail(no_index, "expected an id for a dump of each value, got ", g_.dump_ids.size());
  }

  const GraphData& g_;
  std::vector<Type> operand_types_;
  std::vector<Type> result_types_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace tidu
