// dead_code.cpp - dead code elimination through the graphs of operations.
//
// Note [Liveness inside]: for one operation and its live results, a work list of values and region
// bindings finds the live values in its graphs. A live value makes the operands of its producer live. A live
// result of an operation with region bindings makes its binding live, and so does a live input of a graph. A
// live binding makes its operands outside and its yields inside live. One work list serves all graphs, so
// that mutually dependent carries need no iteration. All operations of one op share its graphs: below the
// first level their liveness is shared too. So nested graphs are analysed once for each graph, not once for
// each path to it.
#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "graph/copying.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/region_bindings.hpp"

namespace tidu {
namespace {

bool may_be_cut(const OpRecord& op) { return op.primitive->region_bindings != nullptr && !op.impure; }

/// The live parts of an operation.
struct Cut {
  Op op;
  bool changed = false;
  std::vector<bool> operands, results;  // that are left
};

struct Holder;

/// A graph in an attribute.
struct Inside {
  Graph graph;
  Holder* holder;
  std::vector<std::uint32_t> binding_of_input, binding_of_output;  // by position
  std::vector<std::uint32_t> binding_of{};                         // by value: of inputs
  std::vector<bool> read{};                                        // by value
  std::vector<bool> reached{};  // by operation: are its operands read, or is it a use of its op?
};

/// An op that holds graphs, and its liveness.
struct Holder {
  /// An operation of that op, below the first one.
  struct HeldAt {
    Inside* in;
    std::uint32_t operation;
  };
  Op op;
  std::size_t num_operands, num_results;
  std::vector<RegionBinding> region_bindings{};
  std::vector<bool> needed{};  // by binding
  std::vector<std::uint32_t> binding_of_result{};
  std::vector<std::unique_ptr<Inside>> graphs{};
  std::vector<HeldAt> holders{};
  std::unique_ptr<Cut> cut{};
};

[[noreturn]] void refuse_bindings(const Op& op, std::string_view what) {
  throw Error(ErrorKind::internal, detail::str('[', op.name(), "] the binding rule left out, or gave twice, ",
                                               what, " of the operation or of its graphs"));
}

// Each of them is of one binding.
void put_in_binding(std::vector<std::uint32_t>& binding_of, std::size_t at, std::size_t binding, const Op& op,
                    std::string_view what) {
  if (at >= binding_of.size() || binding_of[at] != no_index) refuse_bindings(op, what);
  binding_of[at] = static_cast<std::uint32_t>(binding);
}
void require_all(const std::vector<std::uint32_t>& binding_of, const Op& op, std::string_view what) {
  for (const std::uint32_t binding : binding_of) {
    if (binding == no_index) refuse_bindings(op, what);
  }
}

std::unique_ptr<Holder> make_holder(const OpRecord* record, std::size_t num_operands,
                                    std::size_t num_results) {
  auto holder = std::make_unique<Holder>(Holder{Op::of(record), num_operands, num_results});
  holder->region_bindings = record->primitive->region_bindings(holder->op);
  if (holder->region_bindings.empty()) return holder;
  holder->needed.assign(holder->region_bindings.size(), false);
  holder->binding_of_result.assign(num_results, no_index);
  for (const auto& [name, value] : record->attributes) {
    for (const auto& data : value.graphs()) {
      const Graph graph(data);
      holder->graphs.push_back(std::make_unique<Inside>(
          Inside{graph, holder.get(), std::vector<std::uint32_t>(graph.inputs().size(), no_index),
                 std::vector<std::uint32_t>(graph.outputs().size(), no_index)}));
      holder->graphs.back()->read.assign(graph.num_values(), false);
      holder->graphs.back()->reached.assign(graph.num_operations(), false);
    }
  }
  std::vector<std::uint32_t> of_operand(num_operands, no_index);
  const auto inside = [&](const RegionBinding::Port& port) -> Inside& {
    if (port.graph >= holder->graphs.size()) refuse_bindings(holder->op, "a graph");
    return *holder->graphs[port.graph];
  };
  for (std::size_t s = 0; s < holder->region_bindings.size(); ++s) {
    const RegionBinding& binding = holder->region_bindings[s];
    for (const std::size_t i : binding.operands) put_in_binding(of_operand, i, s, holder->op, "an operand");
    for (const std::size_t k : binding.results)
      put_in_binding(holder->binding_of_result, k, s, holder->op, "a result");
    for (const RegionBinding::Port& port : binding.inputs)
      put_in_binding(inside(port).binding_of_input, port.index, s, holder->op, "an input");
    for (const RegionBinding::Port& port : binding.outputs)
      put_in_binding(inside(port).binding_of_output, port.index, s, holder->op, "an output");
  }
  require_all(of_operand, holder->op, "an operand");
  require_all(holder->binding_of_result, holder->op, "a result");
  for (const auto& graph : holder->graphs) {
    require_all(graph->binding_of_input, holder->op, "an input");
    require_all(graph->binding_of_output, holder->op, "an output");
    graph->binding_of.assign(graph->graph.num_values(), no_index);
    for (std::size_t i = 0; i < graph->binding_of_input.size(); ++i)
      graph->binding_of[graph->graph.inputs()[i]] = graph->binding_of_input[i];
  }
  return holder;
}

// The graph with those inputs and outputs, those values, and the live parts of its operations; cut_of gives
// null for an operation that stays unchanged.
template <class CutOf>
Graph rebuilt(const Graph& graph, const std::vector<bool>& read, const std::vector<bool>& inputs,
              const std::vector<bool>& outputs, const CutOf& cut_of) {
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> values(graph.num_values());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    if (inputs[i]) values[id] = builder.input(graph.input_key(i), graph.type(id), graph.label(id));
  }
  for (const ValueId id : graph.externals()) {
    if (read[id]) values[id] = builder.external(graph.key(id), graph.type(id));
  }
  detail::OperationCopier copier(builder, graph, values);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    bool wanted = operation.is_impure();
    for (std::size_t slot = 0; slot < operation.num_outputs() && !wanted; ++slot)
      wanted = read[operation.output(slot)];
    if (!wanted) continue;
    const Cut* cut = cut_of(operation);
    if (cut != nullptr && cut->changed) {
      copier.replace(i, cut->op, cut->operands, cut->results);
    } else {
      copier.copy(i);
    }
  }
  std::vector<Value> results;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k]) results.push_back(values[graph.outputs()[k]]);
  }
  return builder.build(results);
}

/// Liveness below one operation. See Note [Liveness inside].
class Reading {
 public:
  Reading(const Operation& operation, const std::vector<bool>& results)
      : first_(holder(operation.record().op, operation.num_inputs(), operation.num_outputs())) {
    begin(first_);
    for (std::size_t slot = 0; slot < results.size() && !first_.region_bindings.empty(); ++slot) {
      if (results[slot]) need(first_, first_.binding_of_result[slot]);
    }
    while (!bindings_.empty() || !values_.empty()) {
      if (!bindings_.empty()) {
        const auto [holder, binding] = bindings_.back();
        bindings_.pop_back();
        follow(*holder, binding);
      } else {
        const auto [inside, id] = values_.back();
        values_.pop_back();
        follow(*inside, id);
      }
    }
  }

  const Cut& cut() { return cut_of(first_); }

 private:
  Holder& holder(const OpRecord* op, std::size_t num_operands, std::size_t num_results) {
    std::unique_ptr<Holder>& found = holders_[op];
    if (found == nullptr) found = make_holder(op, num_operands, num_results);
    return *found;
  }
  void begin(Holder& holder) {
    for (std::uint32_t s = 0; s < holder.region_bindings.size(); ++s) {
      if (holder.region_bindings[s].always) need(holder, s);
    }
  }
  void need(Holder& holder, std::uint32_t binding) {
    if (holder.needed[binding]) return;
    holder.needed[binding] = true;
    bindings_.emplace_back(&holder, binding);
  }
  void read(Inside& inside, ValueId id) {
    if (inside.read[id]) return;
    inside.read[id] = true;
    values_.emplace_back(&inside, id);
  }
  void read_operands(const RegionBinding& binding, const Holder::HeldAt& held_at) {
    const Operation operation = held_at.in->graph.operation(held_at.operation);
    for (const std::size_t i : binding.operands) read(*held_at.in, operation.input(i));
  }

  void follow(Holder& holder, std::uint32_t binding) {
    const RegionBinding& needed = holder.region_bindings[binding];
    for (const RegionBinding::Port& port : needed.outputs) {
      Inside& inside = *holder.graphs[port.graph];
      read(inside, inside.graph.outputs()[port.index]);
    }
    for (const Holder::HeldAt& held_at : holder.holders) read_operands(needed, held_at);
  }
  void follow(Inside& inside, ValueId id) {
    const GraphData& g = inside.graph.data();
    const std::uint32_t producer = g.producers[id];
    if (producer == GraphData::from_input) {
      need(*inside.holder, inside.binding_of[id]);
      return;
    }
    const OperationRecord& record = g.operations[producer];
    const bool fresh = !inside.reached[producer];
    inside.reached[producer] = true;
    Holder* const found =
        may_be_cut(*record.op) ? &holder(record.op, record.num_inputs, record.num_outputs) : nullptr;
    if (found == nullptr || found->region_bindings.empty()) {
      for (std::uint32_t i = 0; i < record.num_inputs && fresh; ++i)
        read(inside, g.operands[record.first_input + i]);
      return;
    }
    Holder& below = *found;
    if (fresh) {
      below.holders.push_back({&inside, producer});
      for (std::size_t s = 0; s < below.region_bindings.size(); ++s) {
        if (below.needed[s]) read_operands(below.region_bindings[s], below.holders.back());
      }
      begin(below);
    }
    need(below, below.binding_of_result[id - record.first_output]);
  }

  // Graphs nest at most max_graph_depth deep, and so do these calls.
  const Cut& cut_of(Holder& holder) {
    if (holder.cut != nullptr) return *holder.cut;
    auto cut = std::make_unique<Cut>(Cut{holder.op, false, {}, {}});
    cut->operands.assign(holder.num_operands, holder.region_bindings.empty());
    cut->results.assign(holder.num_results, holder.region_bindings.empty());
    if (holder.region_bindings.empty()) {
      holder.cut = std::move(cut);
      return *holder.cut;
    }
    std::unordered_map<std::string_view, std::int64_t> dropped;  // by attribute that counts
    for (std::size_t s = 0; s < holder.region_bindings.size(); ++s) {
      const RegionBinding& binding = holder.region_bindings[s];
      if (!holder.needed[s]) {
        cut->changed = true;
        if (!binding.count.empty()) ++dropped[binding.count];
        continue;
      }
      for (const std::size_t i : binding.operands) cut->operands[i] = true;
      for (const std::size_t k : binding.results) cut->results[k] = true;
    }
    Attributes attributes;
    auto next = holder.graphs.begin();
    for (const auto& [name, value] : holder.op.attributes()) {
      if (value.graphs().empty()) {
        const auto found = dropped.find(name);
        attributes.emplace_back(
            name, found == dropped.end() ? value : Attribute(*value.get_if<std::int64_t>() - found->second));
        continue;
      }
      GraphList graphs;
      for (std::size_t i = 0; i < value.graphs().size(); ++i) {
        const Graph graph = cut_of(**next++);
        cut->changed = cut->changed || graph.share() != value.graphs()[i];
        graphs.push_back(graph.share());
      }
      const bool is_list = value.get_if<GraphList>() != nullptr;
      attributes.emplace_back(name, is_list ? Attribute(std::move(graphs)) : Attribute(graphs[0]));
    }
    if (cut->changed) cut->op = Op::make(holder.op.primitive(), std::move(attributes));
    holder.cut = std::move(cut);
    return *holder.cut;
  }
  Graph cut_of(const Inside& inside) {
    const auto kept = [&](const std::vector<std::uint32_t>& region_bindings) {
      std::vector<bool> by_position;
      for (const std::uint32_t binding : region_bindings)
        by_position.push_back(inside.holder->needed[binding]);
      return by_position;
    };
    const std::vector<bool> inputs = kept(inside.binding_of_input), outputs = kept(inside.binding_of_output);
    bool changed = std::find(inputs.begin(), inputs.end(), false) != inputs.end() ||
                   std::find(outputs.begin(), outputs.end(), false) != outputs.end();
    const auto cut_below = [&](const Operation& operation) -> const Cut* {
      const std::uint32_t i = operation.index();
      if (!inside.reached[i] || !may_be_cut(*operation.record().op)) return nullptr;
      return &cut_of(*holders_.at(operation.record().op));
    };
    for (std::size_t i = 0; i < inside.graph.num_operations() && !changed; ++i) {
      const Cut* below = cut_below(inside.graph.operation(i));
      changed = below != nullptr && below->changed;
    }
    return changed ? rebuilt(inside.graph, inside.read, inputs, outputs, cut_below) : inside.graph;
  }

  std::unordered_map<const OpRecord*, std::unique_ptr<Holder>> holders_;
  std::vector<std::pair<Holder*, std::uint32_t>> bindings_;  // to follow
  std::vector<std::pair<Inside*, ValueId>> values_;          // to follow
  Holder& first_;
};

}  // namespace

Graph eliminate_dead_code(const Graph& graph) {
  const GraphData& g = graph.data();
  std::vector<bool> read(graph.num_values(), false);
  for (const ValueId id : graph.outputs()) read[id] = true;
  std::map<std::pair<const OpRecord*, std::vector<bool>>, Cut> known;
  std::unordered_map<std::uint32_t, const Cut*> cuts;  // by operation
  bool changed = false;
  for (std::uint32_t i = static_cast<std::uint32_t>(graph.num_operations()); i-- > 0;) {
    const OperationRecord& record = g.operations[i];
    bool wanted = record.op->impure;
    for (std::uint32_t slot = 0; slot < record.num_outputs && !wanted; ++slot)
      wanted = read[record.first_output + slot];
    if (!wanted) continue;
    const Cut* cut = nullptr;
    if (may_be_cut(*record.op)) {
      std::vector<bool> results;
      for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
        results.push_back(read[record.first_output + slot]);
      auto at = known.find({record.op, results});
      if (at == known.end()) {
        const Cut made = Reading(graph.operation(i), results).cut();
        at = known.emplace(std::pair{record.op, std::move(results)}, made).first;
      }
      cut = cuts[i] = &at->second;
      changed = changed || cut->changed;
    }
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
      if (cut == nullptr || cut->operands[k]) read[g.operands[record.first_input + k]] = true;
    }
  }
  if (!changed) return graph;
  return rebuilt(graph, read, std::vector<bool>(graph.inputs().size(), true),
                 std::vector<bool>(graph.outputs().size(), true), [&](const Operation& operation) {
                   const auto found = cuts.find(operation.index());
                   return found == cuts.end() ? nullptr : found->second;
                 });
}

}  // namespace tidu
