// node_memory.hpp - readers of the values of a schedule, and buffer assignment after step fusion.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The number of nodes that read each root; outputs count two more.
inline std::vector<std::uint32_t> count_readers(const Program& program,
                                                const std::vector<passes::NodeValues>& values) {
  std::vector<std::uint32_t> readers(program.graph().num_values(), 0);
  for (const passes::NodeValues& each : values) {
    for (const ValueId id : each.operands) ++readers[id];
  }
  for (const ValueId id : program.graph().outputs()) readers[program.roots()[id]] += 2;
  return readers;
}

/// The program with buffers assigned again, for nodes that read and write `values` after step fusion.
inline Program place_again(const Program& program, const std::vector<passes::NodeValues>& values,
                           std::span<const passes::PlacedPart> parts) {
  std::vector<bool> is_constant(program.graph().num_values());
  for (ValueId id = 0; id < is_constant.size(); ++id) {
    const SlotId slot = program.slot_of(id);
    is_constant[id] =
        program.roots()[id] == id && slot != no_index && program.slot(slot).storage == Storage::constant;
  }
  SlotPlan plan = passes::assign_slots(program.graph(), program.schedule(), is_constant, program.roots(),
                                       values, program.options().in_place, parts);
  plan.block_bytes = program.plan().block_bytes;
  return program.with_plan(std::move(plan));
}

}  // namespace tidu::cpu_detail
