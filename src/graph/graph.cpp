// graph.cpp - reading graphs: names, structural address and equality, descriptions of operations.
#include "tidu/graph/graph.hpp"

#include <algorithm>
#include <ostream>
#include <set>
#include <sstream>
#include <utility>

#include "graph/thread_kept.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {

bool Operation::is_linear_in(std::size_t operand) const {
  if (!is_linear()) return false;
  const std::uint32_t role = graph_->roles[index_];
  if ((role & 0x80000000U) != 0) return operand < 31 && ((role >> operand) & 1U) != 0;
  return graph_->wide_roles[role & 0x3fffffffU][operand];
}

std::string_view Operation::where() const {
  if (graph_->wheres.empty() || graph_->wheres[index_] == no_index) return {};
  return graph_->where_table[graph_->wheres[index_]];
}

Graph::Graph() {
  static const auto& empty =  // outlives every static
      *new std::shared_ptr<const GraphData>(
          std::make_shared<const GraphData>(PrimitiveSet({}, nullptr, nullptr)));
  data_ = empty;
}

std::optional<std::size_t> Graph::find_input(std::string_view name) const {
  const std::optional<Key128> digits = parse_hex(name);
  const InputKey key = digits ? InputKey::from_bits(*digits) : InputKey::named(name);
  const InputKey literally = InputKey::named(name);
  std::optional<std::size_t> labelled;
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    if (data_->input_keys[i] == key || data_->input_keys[i] == literally) return i;
    if (!labelled && !name.empty() && label(inputs()[i]) == name) labelled = i;
  }
  return labelled;
}

std::string Graph::input_name(std::size_t input) const {
  const std::string_view name = label(inputs()[input]);
  return name.empty() ? to_hex(data_->input_keys[input].bits()) : std::string(name);
}

std::string_view Graph::label(ValueId value) const {
  const auto it = data_->labels.find(value);
  return it == data_->labels.end() ? std::string_view() : std::string_view(it->second);
}

std::optional<std::uint32_t> Graph::producer(ValueId value) const {
  const std::uint32_t operation = data_->producers[value];
  if (operation >= GraphData::from_external) return std::nullopt;
  return operation;
}

const Key128& Graph::structural_key() const {
  const GraphData& g = *data_;
  std::call_once(g.structural_once, [&g] {
    Key128 key{17, 19};
    const auto sequence = [&key](std::span<const ValueId> ids) {
      key = detail::mix(key, static_cast<std::uint64_t>(ids.size()));
      for (const ValueId id : ids) key = detail::mix(key, static_cast<std::uint64_t>(id));
    };
    const auto interface = [&](std::span<const ValueId> ids) {
      sequence(ids);
      for (const ValueId id : ids) key = detail::mix(key, g.types[id].key());
    };
    interface(g.inputs);
    interface(g.externals);
    for (const OperationRecord& record : g.operations) {
      key = detail::mix(key, record.op->key);
      const ValueId* ids = g.operands.data() + record.first_input;
      for (std::uint32_t i = 0; i < record.num_inputs; ++i)
        key = detail::mix(key, static_cast<std::uint64_t>(ids[i]));
    }
    sequence(g.outputs);
    g.structural = key;
  });
  return g.structural;
}

std::optional<ValueId> Graph::find(const ValueKey& key) const {
  const auto it = std::find(data_->keys.begin(), data_->keys.end(), key);
  if (it == data_->keys.end()) return std::nullopt;
  return static_cast<ValueId>(it - data_->keys.begin());
}

namespace {

// Pairs of graphs that this comparison has found equal: a graph that many operations hold is compared once.
// The outermost comparison keeps them alive.
struct EqualGraphs {
  int under_way = 0;
  std::set<std::pair<const GraphData*, const GraphData*>> pairs;
};
class Comparison {
 public:
  Comparison() { ++found_.under_way; }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;
  ~Comparison() {
    if (--found_.under_way == 0) found_.pairs.clear();
  }
  bool knows(const GraphData& a, const GraphData& b) const { return found_.pairs.contains({&a, &b}); }
  void found(const GraphData& a, const GraphData& b) {
    if (found_.under_way > 1) found_.pairs.emplace(&a, &b);
  }

 private:
  EqualGraphs& found_ = detail::ThreadKept<EqualGraphs>::get();
};

}  // namespace

bool structurally_equal(const Graph& a, const Graph& b) {
  if (a.share() == b.share()) return true;
  const GraphData& x = a.data();
  const GraphData& y = b.data();
  if (x.inputs != y.inputs || x.externals != y.externals || x.outputs != y.outputs ||
      x.operands != y.operands || x.operations.size() != y.operations.size() || x.types != y.types ||
      a.structural_key() != b.structural_key()) {
    return false;
  }
  const auto same = [](const OperationRecord& p, const OperationRecord& q) {
    return (p.op == q.op || equivalent(*p.op, *q.op)) && p.first_input == q.first_input &&
           p.num_inputs == q.num_inputs && p.first_output == q.first_output;
  };
  const auto compare = [&] {
    return std::equal(x.operations.begin(), x.operations.end(), y.operations.begin(), same);
  };
  if (x.depth == 1) return compare();
  Comparison comparison;
  if (comparison.knows(x, y)) return true;
  if (!compare()) return false;
  comparison.found(x, y);
  return true;
}

std::string describe_operation(const Graph& graph, std::uint32_t operation) {
  std::string text = detail::str("in operation ", operation, " of ", detail::in_quotes(graph.name()));
  if (operation >= graph.num_operations()) return text;
  const Operation view = graph.operation(operation);
  if (!view.where().empty()) text += detail::str(", ", detail::printable(view.where()));
  if (view.origin() != no_index) text += detail::str(" (derived from operation ", view.origin(), ')');
  return text;
}

std::string to_text(const Graph& graph) {
  std::ostringstream out;
  const auto name = [&graph](ValueId id) {
    const std::string_view label = graph.label(id);
    return label.empty() ? detail::str('%', id) : detail::str('%', id, ':', detail::printable(label));
  };
  out << "graph " << detail::in_quotes(graph.name()) << '\n';
  for (const ValueId id : graph.inputs()) out << "  input " << name(id) << " " << graph.type(id) << '\n';
  for (const ValueId id : graph.externals())
    out << "  external " << name(id) << " " << graph.type(id) << '\n';
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    out << "  ";
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      out << (slot == 0 ? "" : ", ") << name(operation.output(slot)) << " "
          << graph.type(operation.output(slot));
    }
    out << " = " << operation.op();
    const auto operands = operation.inputs();
    for (std::size_t k = 0; k < operands.size(); ++k) {
      out << ' ' << name(operands[k]) << (operation.is_linear_in(k) ? "'" : "");
    }
    if (!operation.where().empty()) out << "  # " << detail::printable(operation.where());
    out << '\n';
  }
  out << "  output";
  for (const ValueId id : graph.outputs()) out << ' ' << name(id);
  out << '\n';
  return std::move(out).str();
}

std::ostream& operator<<(std::ostream& out, const Graph& graph) { return out << to_text(graph); }

}  // namespace tidu
