// rematerialize.cpp - removes results of fusions that their readers can compute again from values in memory.
//
// Note [Computed again]: a result of a fusion is removed if only fusions read it, and if it is a few
// additions and multiplications of at most one array of its size, of single elements, and of values that are
// repeated along rows. Its readers then read that array and compute the result again. They read as much as
// before; only the values that the fusion itself computes for each row, and repeats along it, are written
// instead. The operations are in several fusions, in none of which their values have memory.
//
// Note [One for several]: if several results are a few such operations away from one value that the fusion
// computes and does not write, the fusion writes that value instead: for example a tanh instead of the
// factors of its derivative and its square.
// does not leave, it leaves that one instead: of a tanh, not what its derivative and its square are part of.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cpu/schedule/cheap.hpp"
#include "cpu/schedule/fusion_limits.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {
namespace {

// Fusions of fewer elements, except row fusions, may run operation by operation.
constexpr std::int64_t min_elements_again = 4096;
// Elements of a result for each that is written in its place, at least.
constexpr std::int64_t min_for_one = 16;
constexpr std::size_t max_again = 4;  // operations

class Recomputer {
 public:
  Recomputer(const Graph& graph, Schedule schedule, const std::vector<ValueId>& roots,
             const std::vector<ValueId>& splats)
      : graph_(graph), g_(graph.data()), schedule_(std::move(schedule)), roots_(roots), splats_(splats) {}

  Schedule run() {
    std::vector<NodeValues> values = node_values(graph_, schedule_, roots_, splats_);
    for (std::uint32_t at = 0; at < values.size(); at += schedule_.nodes[at].size) {
      for (const ValueId id : values[at].operands) readers_[id].push_back(at);
      if (schedule_.nodes[at].kind != NodeKind::fusion) continue;
      Fusion& fusion = fusions_[at];
      for (std::uint32_t k = at + 1; k < at + schedule_.nodes[at].size; ++k)
        fusion.operations.push_back(schedule_.nodes[k].index);
      fusion.operands = values[at].operands.size();
    }
    for (const ValueId id : graph_.outputs()) readers_[roots_[id]].push_back(no_index);
    bool changed = false;
    for (std::uint32_t at = 0; at < values.size(); at += schedule_.nodes[at].size) {
      if (fusions_.find(at) == fusions_.end()) continue;
      bool here = false;
      for (const ValueId id : values[at].results) here = rematerialize_values(at, id) || here;
      here = leave_one_for_several(at, values[at].results) || here;
      if (here) drop_dead(at);
      changed = changed || here;
    }
    return changed ? rewritten() : std::move(schedule_);
  }

 private:
  struct Fusion {
    std::vector<std::uint32_t> operations;
    std::size_t operands = 0;
  };
  std::span<const ValueId> operands(std::uint32_t operation) const {
    const OperationRecord& record = g_.operations[operation];
    return {g_.operands.data() + record.first_input, record.num_inputs};
  }
  // Elements of a whole array of the fusion, not of a value with one element for each row.
  std::int64_t elements_of(const Fusion& fusion) const {
    std::int64_t most = 0;
    for (const std::uint32_t operation : fusion.operations) {
      most = std::max(most, graph_.type(g_.operations[operation].first_output).size());
      for (const ValueId id : operands(operation)) {
        if (splats_[id] == no_index) most = std::max(most, graph_.type(id).size());
      }
    }
    return most;
  }

  // The operations of the fusion that compute the value, in order; none if it should not be computed again.
  std::vector<std::uint32_t> chain_of(const Fusion& fusion, ValueId value) const {
    const Type type = graph_.type(value);
    std::vector<std::uint32_t> chain;
    std::unordered_set<ValueId> wanted = {value};
    std::unordered_set<ValueId> large;  // read from memory
    std::size_t found = 0;
    for (std::size_t i = fusion.operations.size(); i-- > 0 && found < wanted.size();) {
      const std::uint32_t operation = fusion.operations[i];
      const OperationRecord& record = g_.operations[operation];
      if (wanted.find(record.first_output) == wanted.end()) continue;
      ++found;
      const Primitive& primitive = *record.op->primitive;
      const bool repeats = primitive.has_trait(Trait::repeats);
      const Type made = graph_.type(record.first_output);
      if (made.size() != type.size() || made.dtype() != type.dtype() || !(repeats || is_cheap(record)) ||
          chain.size() == max_again)
        return {};
      chain.push_back(operation);
      for (const ValueId operand : operands(operation)) {
        if (splats_[operand] != no_index) {
          const ValueId source = roots_[splats_[operand]];
          if (graph_.type(source).size() == 1 && is_made_in(fusion, source)) return {};
          continue;
        }
        const ValueId id = roots_[operand];
        if (graph_.type(id).dtype() != type.dtype()) return {};
        const bool made_here = is_made_in(fusion, id);
        if (repeats) {
          if (made_here && graph_.type(id).size() * min_for_one > type.size()) return {};
        } else if (made_here && !is_read(id)) {
          wanted.insert(id);
        } else {  // in memory
          large.insert(id);
        }
      }
    }
    if (large.size() > 1 || found < wanted.size()) return {};
    std::reverse(chain.begin(), chain.end());
    return chain;
  }
  // By another node, or by the caller?
  bool is_read(ValueId id) const {
    if (id == left_) return true;
    const auto readers = readers_.find(id);
    return readers != readers_.end() && !readers->second.empty();
  }
  bool is_made_in(const Fusion& fusion, ValueId id) const { return makes(fusion.operations, id); }
  bool makes(const std::vector<std::uint32_t>& operations, ValueId id) const {
    return std::any_of(operations.begin(), operations.end(),
                       [&](std::uint32_t i) { return g_.operations[i].first_output == id; });
  }

  // Can the fusion at that node accept the operation, which repeats along rows? See Note [Periods] in
  // fuse_node.hpp.
  bool fits(std::uint32_t node, std::uint32_t operation) const {
    const RowStep step = row_step(graph_, operation);
    const std::int64_t columns = schedule_.nodes[node].index;
    if (columns == 0 || step.kind == RowStep::Kind::none) return false;
    if (step.columns == columns) return true;
    if (step.kind == RowStep::Kind::each_row) return step.columns % columns == 0;
    if (step.kind != RowStep::Kind::rows || step.columns % columns != 0 || step.columns < min_in_period)
      return false;
    for (const std::uint32_t other : fusions_.at(node).operations) {
      const RowStep at = row_step(graph_, other);
      const bool reduces = at.kind == RowStep::Kind::reduce_columns;
      if (!reduces && at.kind != RowStep::Kind::rows) continue;
      if (at.columns != step.columns && (reduces || at.columns != columns)) return false;
    }
    return true;
  }

  // Does the fusion need all of it for one of its rows?
  bool reads_whole(const Fusion& fusion, ValueId value) const {
    return std::any_of(fusion.operations.begin(), fusion.operations.end(), [&](std::uint32_t operation) {
      const std::span<const ValueId> list = operands(operation);
      const auto reads = [&](ValueId id) { return splats_[id] == no_index && roots_[id] == value; };
      if (std::none_of(list.begin(), list.end(), reads)) return false;
      return reads_rows(row_step(graph_, operation).kind);
    });
  }

  bool is_worth_it(std::uint32_t node, std::int64_t elements) const {
    return schedule_.nodes[node].index != 0 || elements >= min_elements_again;
  }
  // The operations by which all readers can compute the value instead of the fusion; none if one of them
  // cannot.
  std::vector<std::uint32_t> chain_for_readers(std::uint32_t node, ValueId value) const {
    const std::int64_t elements = graph_.type(value).size();
    if (!is_worth_it(node, elements) || elements != elements_of(fusions_.at(node)) ||
        splats_[value] != no_index)
      return {};
    if (!is_read(value)) return {};
    const std::vector<std::uint32_t>& readers = readers_.at(value);
    std::vector<std::uint32_t> chain = chain_of(fusions_.at(node), value);
    if (chain.empty()) return {};
    for (const std::uint32_t reader : readers) {
      const auto at = reader == no_index ? fusions_.end() : fusions_.find(reader);
      if (at == fusions_.end() || at->second.operations.size() + chain.size() > max_in_fusion ||
          at->second.operands + 2 * chain.size() > max_operands || !is_worth_it(reader, elements) ||
          elements_of(at->second) != elements || reads_whole(at->second, value))
        return {};
      for (const std::uint32_t operation : chain) {
        if (g_.operations[operation].op->primitive->has_trait(Trait::repeats) && !fits(reader, operation))
          return {};
      }
    }
    return chain;
  }
  bool rematerialize_values(std::uint32_t node, ValueId value) {
    const std::vector<std::uint32_t> chain = chain_for_readers(node, value);
    if (chain.empty()) return false;
    const std::vector<std::uint32_t>& readers = readers_.at(value);
    for (const std::uint32_t reader : readers) {
      Fusion& fusion = fusions_.at(reader);
      for (const std::uint32_t operation : chain) {
        if (is_made_in(fusion, g_.operations[operation].first_output)) continue;
        fusion.operations.push_back(operation);
        for (const ValueId operand : operands(operation)) {
          const bool one = splats_[operand] != no_index;
          const ValueId id = roots_[one ? splats_[operand] : operand];
          if ((one && graph_.type(id).size() != 1) || makes(chain, id)) continue;
          std::vector<std::uint32_t>& by = readers_[id];
          if (std::find(by.begin(), by.end(), reader) != by.end()) continue;
          by.push_back(reader);
          ++fusion.operands;
        }
      }
      std::sort(fusion.operations.begin(), fusion.operations.end());  // operands first, as in the graph
    }
    readers_[value].clear();
    return true;
  }
  // See Note [One for several].
  bool leave_one_for_several(std::uint32_t node, const std::vector<ValueId>& results) {
    constexpr std::size_t max_tried = 4;
    std::unordered_map<ValueId, std::vector<ValueId>> made_of;  // by value: results
    std::vector<ValueId> several;
    if (results.size() < 2) return false;
    const std::vector<std::uint32_t>& operations = fusions_.at(node).operations;
    const std::unordered_set<std::uint32_t> here(operations.begin(), operations.end());
    for (const ValueId result : results) {
      if (!is_read(result) || splats_[result] != no_index) continue;
      std::vector<ValueId> found = {result};
      for (std::size_t i = 0; i < found.size() && i <= max_again; ++i) {
        const OperationRecord& record = g_.operations[*graph_.producer(found[i])];
        if (!is_cheap(record)) continue;
        for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
          const ValueId id = roots_[g_.operands[record.first_input + k]];
          const auto producer = graph_.producer(id);
          if (splats_[id] != no_index || !producer || here.find(*producer) == here.end() || is_read(id) ||
              graph_.type(id).size() != graph_.type(result).size() ||
              std::find(found.begin(), found.end(), id) != found.end())
            continue;
          found.push_back(id);
          made_of[id].push_back(result);
          if (made_of[id].size() == 2) several.push_back(id);
        }
      }
    }
    bool changed = false;
    for (std::size_t i = 0; i < std::min(several.size(), max_tried); ++i) {
      left_ = several[i];
      std::vector<ValueId>& wanted = made_of[left_];
      std::erase_if(wanted, [&](ValueId result) { return chain_for_readers(node, result).empty(); });
      if (wanted.size() >= 2) {
        for (const ValueId result : wanted) changed = rematerialize_values(node, result) || changed;
      }
      left_ = no_index;
    }
    return changed;
  }
  // What nothing reads any more.
  void drop_dead(std::uint32_t node) {
    Fusion& fusion = fusions_.at(node);
    std::unordered_set<ValueId> read;
    std::vector<std::uint32_t> alive;
    for (std::size_t i = fusion.operations.size(); i-- > 0;) {
      const std::uint32_t operation = fusion.operations[i];
      const ValueId result = g_.operations[operation].first_output;
      if (!is_read(result) && read.find(result) == read.end()) continue;
      alive.push_back(operation);
      for (const ValueId operand : operands(operation))
        read.insert(roots_[splats_[operand] != no_index ? splats_[operand] : operand]);
    }
    fusion.operations.assign(alive.rbegin(), alive.rend());
  }
  Schedule rewritten() {
    Schedule schedule;
    schedule.loops = std::move(schedule_.loops);
    for (std::uint32_t at = 0; at < schedule_.nodes.size(); at += schedule_.nodes[at].size) {
      const ScheduleNode& node = schedule_.nodes[at];
      const auto fusion = fusions_.find(at);
      if (fusion == fusions_.end()) {
        schedule.nodes.insert(schedule.nodes.end(), schedule_.nodes.begin() + at,
                              schedule_.nodes.begin() + at + node.size);
        continue;
      }
      const std::vector<std::uint32_t>& operations = fusion->second.operations;
      if (operations.empty()) continue;
      const bool has_rows = std::any_of(operations.begin(), operations.end(), [&](std::uint32_t operation) {
        return row_step(graph_, operation).kind != RowStep::Kind::none;
      });
      schedule.nodes.push_back(
          {node.kind, has_rows ? node.index : 0, static_cast<std::uint32_t>(operations.size() + 1)});
      for (const std::uint32_t operation : operations)
        schedule.nodes.push_back({NodeKind::operation, operation, 1});
    }
    return schedule;
  }

  const Graph& graph_;
  const GraphData& g_;
  Schedule schedule_;
  const std::vector<ValueId>& roots_;
  const std::vector<ValueId>& splats_;
  std::unordered_map<std::uint32_t, Fusion> fusions_;                // by position in the schedule
  std::unordered_map<ValueId, std::vector<std::uint32_t>> readers_;  // positions; no_index for an output
  ValueId left_ = no_index;                                          // taken to be read by others
};

}  // namespace

Schedule rematerialize_values(const Graph& graph, Schedule schedule, const std::vector<ValueId>& roots,
                              const std::vector<ValueId>& splats) {
  return Recomputer(graph, std::move(schedule), roots, splats).run();
}

}  // namespace tidu::passes
