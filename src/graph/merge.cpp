// merge.cpp - KeyIndex and materialize_merge. First the live values are marked, then the live operations are
// emitted graph by graph in their order. An operation with operands from another graph waits on an explicit
// stack for them.
#include "tidu/graph/merge.hpp"

#include <bit>
#include <memory>
#include <unordered_map>

#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

using detail::str;

template <class... Parts>
[[noreturn]] void refuse(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, str("materialize_merge: ", parts...));
}

class Merger {
 public:
  Merger(std::span<const Graph> graphs, std::span<const Substitution> substitutions)
      : graphs_(graphs), index_(graphs), builder_(graphs[0].name(), graphs[0].primitives()) {
    for (const Graph& graph : graphs) parts_.emplace_back(graph);
    substitute(substitutions);
    declare_inputs();
  }

  LocatedValue locate(const ValueKey& key) const {
    if (const auto found = index_.find(key)) return *found;
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
      for (const ValueId id : graphs_[g].externals()) {
        if (graphs_[g].key(id) == key) return {g, id};
      }
    }
    refuse(ErrorKind::invalid_argument, "expected the key of a value of the graphs, got ", to_hex(key));
  }

  Graph merge(std::span<const LocatedValue> outputs) {
    mark_needed(outputs);
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
      for (const OperationRecord& record : graphs_[g].data().operations) {
        if (parts_[g].needed[record.first_output]) demand({g, record.first_output});
      }
    }
    std::vector<ValueId> ids;
    for (const LocatedValue& output : outputs) {
      demand(node_of(output));
      ids.push_back(parts_[output.graph].merged[output.value]);
    }
    return builder_.build_ids(std::move(ids));
  }

 private:
  static constexpr ValueId unvisited = no_index;
  static constexpr ValueId in_progress = no_index - 1;

  struct Part {  // the state of one graph
    explicit Part(const Graph& graph)
        : merged(graph.num_values(), unvisited),
          needed(graph.num_values(), false),
          wheres(graph.data().where_table.size(), no_index) {}
    std::vector<ValueId> merged;  // by value: its id in the merged graph
    std::vector<bool> needed;     // by value, for results by the first of their operation
    std::unordered_map<ValueId, LocatedValue> instead;  // of inputs and externals: their replacements
    std::vector<std::uint32_t> wheres;
    std::size_t origin_graph = 0;  // the graph that the origins of linear operations speak of
  };
  struct Frame {
    LocatedValue node;
    std::uint32_t next = 0;  // operands before this one are done
  };

  // The values that an operation makes share one node, its first result.
  LocatedValue node_of(LocatedValue at) const {
    const GraphData& g = graphs_[at.graph].data();
    const std::uint32_t producer = g.producers[at.value];
    if (producer < GraphData::from_external) at.value = g.operations[producer].first_output;
    return at;
  }
  std::string shown(LocatedValue at) const {
    const std::string_view label = graphs_[at.graph].label(at.value);
    return str("value ", at.value, label.empty() ? "" : " (", detail::printable(label),
               label.empty() ? "" : ")", " of ", detail::in_quotes(graphs_[at.graph].name()));
  }
  void put_instead(LocatedValue old, LocatedValue with, std::string_view what) {
    const Type wanted = graphs_[old.graph].type(old.value);
    const Type got = graphs_[with.graph].type(with.value);
    if (wanted != got) {
      refuse(ErrorKind::type, "expected ", wanted, " for the ", what, ' ', shown(old), ", got ", got, ", ",
             shown(with));
    }
    parts_[old.graph].instead.emplace(old.value, with);
  }

  void substitute(std::span<const Substitution> substitutions) {
    std::unordered_map<Key128, LocatedValue> by_input;
    for (const Substitution& each : substitutions) {
      if (!by_input.emplace(each.input.bits(), locate(each.value)).second) {
        refuse(ErrorKind::invalid_argument, "expected one substitution of an input, got a second one of ",
               to_hex(each.input.bits()));
      }
    }
    std::unordered_map<Key128, bool> used;
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
      const Graph& graph = graphs_[g];
      parts_[g].origin_graph = g;
      for (std::size_t i = 0; i < graph.inputs().size() && !by_input.empty(); ++i) {
        const auto it = by_input.find(graph.input_key(i).bits());
        if (it == by_input.end()) continue;
        put_instead({g, graph.inputs()[i]}, it->second, "input");
        used[it->first] = true;
      }
      for (std::size_t i = graph.externals().size(); i-- > 0;) {
        const ValueId id = graph.externals()[i];
        const auto found = index_.find(graph.key(id));
        if (!found) continue;
        put_instead({g, id}, *found, "external");
        if (found->graph != g) parts_[g].origin_graph = found->graph;
      }
    }
    for (const auto& [key, value] : by_input) {
      if (!used.contains(key))
        refuse(ErrorKind::invalid_argument, "expected the key of an input of the graphs, got ", to_hex(key));
    }
    substituted_ = !by_input.empty();
  }

  void declare_inputs() {
    std::unordered_map<Key128, ValueId> declared;
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
      const Graph& graph = graphs_[g];
      for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
        const ValueId id = graph.inputs()[i];
        if (parts_[g].instead.contains(id)) continue;
        const auto [it, added] = declared.try_emplace(graph.input_key(i).bits());
        if (added) it->second = builder_.input(graph.input_key(i), graph.type(id), graph.label(id)).id();
        if (builder_.type_of(it->second) != graph.type(id)) {
          refuse(ErrorKind::type, "expected ", builder_.type_of(it->second), " for the input ",
                 shown({g, id}), ", as in another graph, got ", graph.type(id));
        }
        parts_[g].merged[id] = it->second;
      }
    }
  }

  void mark_needed(std::span<const LocatedValue> outputs) {
    std::vector<LocatedValue> open;
    const auto mark = [&](LocatedValue at) {
      at = node_of(at);
      if (parts_[at.graph].needed[at.value]) return;
      parts_[at.graph].needed[at.value] = true;
      open.push_back(at);
    };
    for (const LocatedValue& output : outputs) mark(output);
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
      for (const OperationRecord& record : graphs_[g].data().operations) {
        if (record.op->impure) mark({g, record.first_output});
      }
    }
    while (!open.empty()) {
      const LocatedValue at = open.back();
      open.pop_back();
      const GraphData& g = graphs_[at.graph].data();
      const std::uint32_t producer = g.producers[at.value];
      if (producer < GraphData::from_external) {
        const Operation operation(g, producer);
        for (const ValueId id : operation.inputs()) mark({at.graph, id});
      } else if (const auto it = parts_[at.graph].instead.find(at.value);
                 it != parts_[at.graph].instead.end()) {
        mark(it->second);
      }
    }
  }

  // Is it done? When it is not, it is on the stack afterwards. Throws when it is there already, waiting for
  // itself.
  bool ready(LocatedValue at) {
    ValueId& merged = parts_[at.graph].merged[node_of(at).value];
    if (merged == in_progress) {
      refuse(ErrorKind::invalid_argument, "expected values that do not depend on themselves, got ", shown(at),
             ", which through substitution does");
    }
    if (merged != unvisited) return true;
    merged = in_progress;
    stack_.push_back(Frame{node_of(at)});
    return false;
  }

  void demand(LocatedValue node) {
    if (ready(node)) return;
    while (!stack_.empty()) {
      const std::size_t top = stack_.size() - 1;
      const LocatedValue at = stack_[top].node;
      const GraphData& g = graphs_[at.graph].data();
      if (g.producers[at.value] < GraphData::from_external) {
        const Operation operation(g, g.producers[at.value]);
        bool waits = false;
        for (std::uint32_t& next = stack_[top].next; next < operation.num_inputs(); ++next) {
          if (ready({at.graph, operation.input(next)})) continue;
          waits = true;  // `next` may dangle now
          break;
        }
        if (waits) continue;
        emit(at.graph, operation);
      } else if (const auto it = parts_[at.graph].instead.find(at.value);
                 it != parts_[at.graph].instead.end()) {
        if (!ready(it->second)) continue;
        parts_[at.graph].merged[at.value] = parts_[it->second.graph].merged[it->second.value];
      } else {
        parts_[at.graph].merged[at.value] = builder_.external(g.keys[at.value], g.types[at.value]).id();
        label(at, parts_[at.graph].merged[at.value]);
      }
      stack_.pop_back();
    }
  }

  void emit(std::size_t graph, const Operation& operation) {
    const GraphData& g = graphs_[graph].data();
    Part& part = parts_[graph];
    const OperationRecord& record = operation.record();
    const bool impure = record.op->impure;
    const auto impure_before = impure ? impure_.find(g.keys[record.first_output]) : impure_.end();
    ValueId first = 0;
    if (impure_before != impure_.end()) {
      first = impure_before->second;
    } else {
      operands_.clear();
      for (const ValueId id : operation.inputs()) operands_.push_back(part.merged[id]);
      const GraphBuilder::Extra extra = extra_of(graph, operation);
      first = builder_.primitives() == g.primitives
                  ? builder_.add_typed(record.op, operands_, g.types.data() + record.first_output,
                                       record.num_outputs, extra)
                  : builder_.add(builder_.resolve(operation.op()).record(), operands_, extra);
      if (impure) impure_.emplace(g.keys[record.first_output], first);
    }
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
      part.merged[record.first_output + slot] = first + slot;
      if (impure && !substituted_) builder_.adopt_key(first + slot, g.keys[record.first_output + slot]);
      label({graph, record.first_output + slot}, first + slot);
    }
  }

  GraphBuilder::Extra extra_of(std::size_t graph, const Operation& operation) {
    const GraphData& g = graphs_[graph].data();
    GraphBuilder::Extra extra;
    if (operation.is_linear()) {
      const auto linear = std::make_unique<bool[]>(operation.num_inputs());
      for (std::size_t i = 0; i < operation.num_inputs(); ++i) linear[i] = operation.is_linear_in(i);
      extra.role = builder_.make_role(std::span<const bool>(linear.get(), operation.num_inputs()));
    }
    if (!operation.where().empty()) {
      std::uint32_t& where = parts_[graph].wheres[g.wheres[operation.index()]];
      if (where == no_index) where = builder_.intern_where(operation.where());
      extra.where = where;
    }
    extra.origin = merged_origin(graph, operation);
    return extra;
  }

  // The origin of a linear operation speaks of the graph that defines the externals of its own.
  std::uint32_t merged_origin(std::size_t graph, const Operation& operation) const {
    const std::uint32_t origin = operation.origin();
    if (origin == no_index) return no_index;
    const std::size_t of = operation.is_linear() ? parts_[graph].origin_graph : graph;
    if (origin >= graphs_[of].num_operations()) return no_index;
    const ValueId merged = parts_[of].merged[graphs_[of].data().operations[origin].first_output];
    return merged >= in_progress ? no_index : builder_.data().producers[merged];
  }

  void label(LocatedValue from, ValueId to) {
    if (graphs_[from.graph].data().labels.empty()) return;
    const std::string_view text = graphs_[from.graph].label(from.value);
    if (!text.empty() && !builder_.data().labels.contains(to)) builder_.set_label(builder_.value(to), text);
  }

  std::span<const Graph> graphs_;
  KeyIndex index_;
  GraphBuilder builder_;
  std::vector<Part> parts_;
  std::vector<Frame> stack_;
  std::vector<ValueId> operands_;
  std::unordered_map<Key128, ValueId> impure_;  // key of the first result -> its id in the merged graph
  bool substituted_ = false;
};

}  // namespace

KeyIndex::KeyIndex(std::span<const Graph> graphs) : graphs_(graphs.begin(), graphs.end()) {
  std::size_t values = 0;
  for (const Graph& graph : graphs_) values += graph.num_values();
  slots_.resize(std::bit_ceil(2 * values + 1));
  for (std::uint32_t g = 0; g < graphs_.size(); ++g) {
    for (ValueId id = 0; id < graphs_[g].num_values(); ++id) {
      if (graphs_[g].is_external(id)) continue;
      const ValueKey& key = graphs_[g].key(id);
      std::size_t at = home(key);
      while (slots_[at].graph != no_index && graphs_[slots_[at].graph].key(slots_[at].value) != key)
        at = (at + 1) & (slots_.size() - 1);
      if (slots_[at].graph == no_index) slots_[at] = Slot{g, id};
    }
  }
}

std::optional<LocatedValue> KeyIndex::find(const ValueKey& key) const {
  for (std::size_t at = home(key); slots_[at].graph != no_index; at = (at + 1) & (slots_.size() - 1)) {
    if (graphs_[slots_[at].graph].key(slots_[at].value) == key)
      return LocatedValue{slots_[at].graph, slots_[at].value};
  }
  return std::nullopt;
}

std::optional<LocatedValue> resolve(std::span<const Graph> graphs, const ValueKey& key) {
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    for (ValueId id = 0; id < graphs[g].num_values(); ++id) {
      if (graphs[g].key(id) == key && !graphs[g].is_external(id)) return LocatedValue{g, id};
    }
  }
  return std::nullopt;
}

Graph materialize_merge(std::span<const Graph> graphs, std::span<const Substitution> substitutions) {
  if (graphs.empty()) refuse(ErrorKind::invalid_argument, "expected at least one graph, got none");
  Merger merger(graphs, substitutions);
  std::vector<LocatedValue> outputs;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    for (const ValueId id : graphs[g].outputs()) outputs.push_back({g, id});
  }
  return merger.merge(outputs);
}

Graph materialize_merge(std::span<const Graph> graphs, std::span<const ValueKey> outputs,
                        std::span<const Substitution> substitutions) {
  if (graphs.empty()) refuse(ErrorKind::invalid_argument, "expected at least one graph, got none");
  Merger merger(graphs, substitutions);
  std::vector<LocatedValue> located;
  for (const ValueKey& key : outputs) located.push_back(merger.locate(key));
  return merger.merge(located);
}

}  // namespace tidu
