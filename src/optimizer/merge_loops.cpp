// merge_loops.cpp - merges operations that run graphs on the same operands into one with the results of all.
//
// Note [Merged loops]: a loop's value and its derivative are computed by two loops over the same operands;
// the second has residuals as further results. If one of them is from a tape and the other from a transform,
// neither could be replaced by the other before. They share their steps: carries with equal computations are
// carried once. Branches of conds are merged in the same way.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/copying.hpp"
#include "graph/operation_hash.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

// An operation's result, by the outputs that give it, one of each graph. Results are the outputs in order.
std::optional<std::vector<const RegionBinding*>> binding_of_results(
    const std::vector<RegionBinding>& region_bindings, std::size_t num_results, std::size_t num_graphs) {
  std::vector<const RegionBinding*> of_result(num_results, nullptr);
  for (const RegionBinding& binding : region_bindings) {
    if (binding.results.empty() && binding.outputs.empty()) continue;
    if (binding.results.size() != 1 || binding.outputs.size() != num_graphs) return std::nullopt;
    const std::size_t result = binding.results[0];
    for (std::size_t g = 0; g < num_graphs; ++g) {
      if (binding.outputs[g].graph != g || binding.outputs[g].index != result) return std::nullopt;
    }
    of_result[result] = &binding;
  }
  if (std::ranges::count(of_result, nullptr) != 0) return std::nullopt;
  return of_result;
}

std::vector<Graph> graphs_of(const Op& op) {
  std::vector<Graph> graphs;
  for (const auto& [name, value] : op.attributes()) {
    for (const auto& data : value.graphs()) graphs.emplace_back(data);
  }
  return graphs;
}

bool differ_in_graphs_alone(const Op& a, const Op& b) {
  return std::ranges::equal(a.attributes(), b.attributes(), [](const auto& x, const auto& y) {
    if (x.first != y.first || x.second.graphs().size() != y.second.graphs().size()) return false;
    return !x.second.graphs().empty() || x.second == y.second;
  });
}

Op with_graphs(const Op& op, const std::vector<Graph>& graphs) {
  Attributes attributes;
  auto next = graphs.begin();
  for (const auto& [name, value] : op.attributes()) {
    if (value.graphs().empty()) {
      attributes.emplace_back(name, value);
      continue;
    }
    GraphList list;
    for (std::size_t i = 0; i < value.graphs().size(); ++i) list.push_back((next++)->share());
    const bool is_list = value.get_if<GraphList>() != nullptr;
    attributes.emplace_back(name, is_list ? Attribute(std::move(list)) : Attribute(list[0]));
  }
  return Op::make(op.primitive(), std::move(attributes));
}

struct Merged {
  Op op;
  std::vector<std::size_t> second;  // by result of the second operation: which result it is now
};

// Merges two operations with the same operands; the first one's results keep their positions.
std::optional<Merged> merge(const Op& first, const Op& second, std::size_t num_first,
                            std::size_t num_second) {
  if (!differ_in_graphs_alone(first, second)) return std::nullopt;
  const std::vector<Graph> graphs = graphs_of(first), others = graphs_of(second);
  const std::vector<RegionBinding> region_bindings = first.primitive().region_bindings(first),
                                   other_bindings = second.primitive().region_bindings(second);
  const auto results = binding_of_results(region_bindings, num_first, graphs.size()),
             other_results = binding_of_results(other_bindings, num_second, graphs.size());
  if (!results || !other_results) return std::nullopt;

  std::vector<std::vector<Value>> outputs(graphs.size()), other_outputs(graphs.size());  // by graph
  std::vector<std::unique_ptr<GraphBuilder>> builders;
  // Operations of the two, of the smaller one, and of the merged one.
  std::size_t all = 0, less = 0, both = 0;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    if (graphs[g].inputs().size() != others[g].inputs().size() ||
        !(graphs[g].primitives() == others[g].primitives()))
      return std::nullopt;
    builders.push_back(std::make_unique<GraphBuilder>(graphs[g].name(), graphs[g].primitives()));
    GraphBuilder& builder = *builders.back();
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < graphs[g].inputs().size(); ++i) {
      const ValueId id = graphs[g].inputs()[i];
      if (graphs[g].type(id) != others[g].type(others[g].inputs()[i])) return std::nullopt;
      inputs.push_back(builder.input(graphs[g].input_key(i), graphs[g].type(id), graphs[g].label(id)));
    }
    const std::vector<Value> values = inline_graph(builder, graphs[g], inputs),
                             other_values = inline_graph(builder, others[g], inputs);
    for (const ValueId id : graphs[g].outputs()) outputs[g].push_back(values[id]);
    for (const ValueId id : others[g].outputs()) other_outputs[g].push_back(other_values[id]);
    const std::size_t one = graphs[g].num_operations(), other = others[g].num_operations();
    all += one + other;
    less += std::min(one, other);
    both += builder.data().operations.size();
  }
  if (2 * (all - both) < less) return std::nullopt;  // they have little in common

  Merged merged{first, std::vector<std::size_t>(num_second)};
  const auto is_equal = [&](std::size_t k, std::size_t j) {
    for (std::size_t g = 0; g < graphs.size(); ++g) {
      if (outputs[g][k].id() != other_outputs[g][j].id()) return false;
    }
    return true;
  };
  std::size_t count = num_first;
  for (std::size_t j = 0; j < num_second; ++j) {
    const bool carried = !(*other_results)[j]->operands.empty();
    if (carried) {  // is the same one of both, as operands and attributes are
      if (j >= num_first || (*results)[j]->operands != (*other_results)[j]->operands || !is_equal(j, j))
        return std::nullopt;
      merged.second[j] = j;
      continue;
    }
    std::size_t k = 0;
    while (k < num_first && (!(*results)[k]->operands.empty() || !is_equal(k, j))) ++k;
    merged.second[j] = k < num_first ? k : count++;
    for (std::size_t g = 0; g < graphs.size() && k == num_first; ++g)
      outputs[g].push_back(other_outputs[g][j]);
  }
  for (std::size_t k = 0; k < num_first; ++k) {
    if (!(*results)[k]->operands.empty() &&
        (k >= num_second || (*other_results)[k]->operands != (*results)[k]->operands))
      return std::nullopt;
  }
  std::vector<Graph> made;
  for (std::size_t g = 0; g < graphs.size(); ++g) made.push_back(builders[g]->build(outputs[g]));
  merged.op = with_graphs(first, made);
  return merged;
}

struct Family {  // of operations that become one
  Op op;
  std::uint32_t first;           // operation
  std::vector<ValueId> results;  // the first of the equal ones, each
  std::size_t num_members = 1;
};

// The representatives of equal values: of results of merged loops, and of values that are computed from these
// in the same way, as a second loop's operands. Values of a graph are distinct until `equate` is called.
class Equals {
 public:
  explicit Equals(const Graph& graph) : graph_(graph), first_(graph.num_values()) {
    std::iota(first_.begin(), first_.end(), ValueId{0});
  }
  std::vector<ValueId> of(std::span<const ValueId> values) const {
    std::vector<ValueId> firsts;
    for (const ValueId id : values) firsts.push_back(first_[id]);
    return firsts;
  }
  void equate(ValueId later, ValueId first) {
    first_[later] = first;
    any_ = any_ || later != first;
  }
  /// Operation i, and all before it, where any values are equal.
  void look_at(std::uint32_t i) {
    for (; any_ && next_ <= i; ++next_) look_at_next();
  }

 private:
  void look_at_next() {
    const OperationRecord& record = graph_.data().operations[next_];
    if (record.op->impure) return;
    const Operation operation = graph_.operation(next_);
    const std::vector<ValueId> operands = of(operation.inputs());
    const std::uint64_t hash = detail::hash_operation(record.op, operands);
    const auto [begin, end] = seen_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      const Operation earlier = graph_.operation(at->second);
      if (graph_.data().operations[at->second].op != record.op || of(earlier.inputs()) != operands) continue;
      for (std::size_t k = 0; k < record.num_outputs; ++k)
        equate(operation.output(k), first_[earlier.output(k)]);
      return;
    }
    seen_.emplace(hash, next_);
  }

  const Graph& graph_;
  std::vector<ValueId> first_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> seen_;
  std::uint32_t next_ = 0;
  bool any_ = false;
};

// Results with a longer live range: from a family's first operation, where they are now computed, instead of
// the later operation that would have computed them, to their last reader.
struct Stretch {
  std::uint32_t last, last_reader;
  std::size_t bytes;
};

// By value: the operation that reads it last, or 0; no_index: it is an output.
std::vector<std::uint32_t> last_readers(const Graph& graph) {
  std::vector<std::uint32_t> last(graph.num_values(), 0);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    for (const ValueId id : graph.operation(i).inputs()) last[id] = i;
  }
  for (const ValueId id : graph.outputs()) last[id] = no_index;
  return last;
}

// Finds operations that become one, and writes the graph in which they are.
class LoopMerger {
 public:
  explicit LoopMerger(const Graph& graph) : graph_(graph), g_(graph.data()), equals_(graph) {}

  Graph run() {
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const OperationRecord& record = g_.operations[i];
      equals_.look_at(i);
      if (record.op->primitive->region_bindings != nullptr && !record.op->impure) add(i);
    }
    return any_ ? merged() : graph_;
  }

 private:
  // There may be many loops over one array: limits on the families that are examined, and the loops that
  // become one.
  static constexpr std::size_t max_families = 4, max_members = 8;

  // Puts a loop into the first family that it can be merged into, or into one of its own.
  void add(std::uint32_t i) {
    const Operation operation = graph_.operation(i);
    std::vector<std::size_t>& alike = known_[{&operation.primitive(), equals_.of(operation.inputs())}];
    for (const std::size_t at : std::span(alike).last(std::min(alike.size(), max_families)))
      if (join(at, operation)) return;
    std::vector<ValueId> results(operation.num_outputs());
    std::vector<std::size_t> own(results.size());
    for (std::size_t k = 0; k < own.size(); ++k) {
      own[k] = k;
      results[k] = operation.output(k);
    }
    alike.push_back(families_.size());
    members_[i] = {families_.size(), std::move(own)};
    families_.push_back({operation.op(), i, std::move(results)});
  }

  // Merges a loop into a family, or says that this cannot be or does not pay.
  bool join(std::size_t at, const Operation& operation) {
    Family& family = families_[at];
    if (family.num_members == max_members) return false;
    const std::optional<Merged> merged =
        merge(family.op, operation.op(), family.results.size(), operation.num_outputs());
    if (!merged || !lives_on(family, operation, merged->second)) return false;
    family.op = merged->op;
    ++family.num_members;
    for (std::size_t k = 0; k < merged->second.size(); ++k) {
      const std::size_t at_first = merged->second[k];
      if (at_first == family.results.size()) family.results.push_back(operation.output(k));
      equals_.equate(operation.output(k), family.results[at_first]);
    }
    members_[operation.index()] = {at, merged->second};
    any_ = true;
    return true;
  }

  // May results of the operation be computed at the family's first one, with a longer live range? Not if
  // large results would live beside others that otherwise are dead before they are computed, as with values
  // first and gradients later, one by one.
  bool lives_on(const Family& family, const Operation& operation, const std::vector<std::size_t>& positions) {
    constexpr std::size_t min_large = std::size_t{1} << 20;  // bytes
    const std::uint32_t i = operation.index();
    if (last_reader_.empty()) last_reader_ = last_readers(graph_);
    Stretch stretch{i, 0, 0};
    for (std::size_t k = 0; k < positions.size(); ++k) {
      if (positions[k] < family.results.size()) continue;
      stretch.bytes += graph_.type(operation.output(k)).bytes();
      stretch.last_reader = std::max(stretch.last_reader, last_reader_[operation.output(k)]);
    }
    std::size_t beside = 0;
    for (std::size_t k = long_lived_.size(); k-- > 0 && family.first < long_lived_[k].last;)
      beside += long_lived_[k].last_reader < i ? long_lived_[k].bytes : 0;
    if (beside > 0 && beside + stretch.bytes >= min_large) return false;
    if (stretch.bytes > 0) long_lived_.push_back(stretch);
    return true;
  }

  Graph merged() const {
    GraphBuilder builder(graph_.name(), graph_.primitives());
    std::vector<Value> values(graph_.num_values());
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      values[id] = builder.input(graph_.input_key(i), graph_.type(id), graph_.label(id));
    }
    detail::OperationCopier copier(builder, graph_, values);
    std::vector<std::vector<Value>> results(families_.size());
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const auto member = members_.find(i);
      if (member == members_.end() || families_[member->second.first].num_members == 1) {
        copier.copy(i);
        continue;
      }
      const auto& [at, positions] = member->second;
      const Operation operation = graph_.operation(i);
      if (families_[at].first == i) results[at] = emit(builder, families_[at], operation, values);
      for (std::size_t k = 0; k < positions.size(); ++k)
        values[operation.output(k)] = results[at][positions[k]];
    }
    std::vector<Value> outputs;
    for (const ValueId id : graph_.outputs()) outputs.push_back(values[id]);
    return builder.build(outputs);
  }
  // The results of the family's operation, which stands where its first one did.
  static std::vector<Value> emit(GraphBuilder& builder, const Family& family, const Operation& first,
                                 const std::vector<Value>& values) {
    std::vector<ValueId> operands;
    for (const ValueId id : first.inputs()) operands.push_back(values[id].id());
    GraphBuilder::Extra extra;
    if (!first.where().empty()) extra.where = builder.intern_where(first.where());
    const ValueId result = builder.add(family.op.record(), operands, extra);
    std::vector<Value> results;
    for (std::size_t k = 0; k < family.results.size(); ++k)
      results.push_back(builder.value(static_cast<ValueId>(result + k)));
    return results;
  }

  const Graph& graph_;
  const GraphData& g_;
  Equals equals_;
  // By primitive and operands: families that more may be merged into.
  std::map<std::pair<const Primitive*, std::vector<ValueId>>, std::vector<std::size_t>> known_;
  std::vector<Family> families_;
  // By operation: its family, and where its results are among the family's.
  std::map<std::uint32_t, std::pair<std::size_t, std::vector<std::size_t>>> members_;
  std::vector<Stretch> long_lived_;
  std::vector<std::uint32_t> last_reader_;
  bool any_ = false;
};

}  // namespace

Graph merge_loops(const Graph& graph) { return LoopMerger(graph).run(); }

}  // namespace tidu::passes
