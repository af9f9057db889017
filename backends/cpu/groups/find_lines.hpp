// find_lines.hpp - LinesFinder: finds fused loads, that is, slices, pads, broadcasts, iotas and rolls that
// are not materialized because fusions read their elements at the source.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "cpu/groups/fused_lines.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Finds these operations: all their readers are element-wise fusions, or further operations of this kind,
/// whose access maps are composed.
class LinesFinder {
 public:
  /// Considers the operations that are `alone` (in no fusion and no loop) and not `done`. `values` is indexed
  /// by node; `readers` is the result of count_readers().
  LinesFinder(const Program& program, const std::vector<bool>& alone,
              const std::vector<passes::NodeValues>& values, const std::vector<std::uint32_t>& readers,
              const std::vector<bool>& done);

  /// The fused loads of a fusion. Replaces their values in `group` by the sources.
  std::vector<LinesOperand> find(passes::NodeValues& group) const;
  /// Is the operation elided?
  bool is_done(std::uint32_t operation) const {
    const OperationRecord& record = graph_.data().operations[operation];
    return record.num_outputs == 1 && unmade_.find(record.first_output) != unmade_.end();
  }

 private:
  struct Unmade {
    ValueId from = no_index;     // the source, a root; or no_index
    std::optional<Lines> lines;  // by axes of the value, if it can be read through them
  };
  void add(std::uint32_t operation);
  Unmade unmade(std::uint32_t operation) const;
  bool can_read(ValueId id, const Unmade& value) const;
  void make(ValueId id);

  const Program& program_;
  const Graph& graph_;
  std::vector<std::uint32_t> by_groups_;  // by value: number of fusions that read it
  std::unordered_map<ValueId, Unmade> unmade_;
};

}  // namespace tidu::cpu_detail
