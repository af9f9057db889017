// find_lines.hpp - which slices, pads, broadcasts, iotas and rolls are not made, since groups read them where
// their elements come from.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "cpu/groups/fused_lines.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Such operations of which all that reads them are groups of single elements, or others of them: one of
/// another is made of what that one is made of.
class LinesFinder {
 public:
  /// Among the operations that are `alone`, in no group and no loop, and not `done`. `values` by node,
  /// `readers` as count_readers() has them of these.
  LinesFinder(const Program& program, const std::vector<bool>& alone,
              const std::vector<passes::NodeValues>& values, const std::vector<std::uint32_t>& readers,
              const std::vector<bool>& done);

  /// Those that the group reads. Then `group` says that it reads where they come from.
  std::vector<LinesOperand> find(passes::NodeValues& group) const;
  /// Is it one that is not made?
  bool is_done(std::uint32_t operation) const {
    const OperationRecord& record = graph_.data().operations[operation];
    return record.num_outputs == 1 && unmade_.find(record.first_output) != unmade_.end();
  }

 private:
  struct Unmade {
    ValueId from = no_index;     // a root in memory, or none
    std::optional<Lines> lines;  // by axes of the value, if it can be read so
  };
  void add(std::uint32_t operation);
  Unmade unmade(std::uint32_t operation) const;
  bool can_read(ValueId id, const Unmade& value) const;
  void make(ValueId id);

  const Program& program_;
  const Graph& graph_;
  std::vector<std::uint32_t> by_groups_;  // by value: groups that read it
  std::unordered_map<ValueId, Unmade> unmade_;
};

}  // namespace tidu::cpu_detail
