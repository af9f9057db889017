// node_memory.hpp - who reads the values of a schedule, and which of them share memory.
#pragma once

#include <cstdint>
#include <vector>

#include "tidu/program/passes.hpp"
#include "tidu/program/program.hpp"

namespace tidu::cpu_detail {

/// By root, the nodes that read it; two more for an output.
inline std::vector<std::uint32_t> count_readers(const Program& program,
                                                const std::vector<passes::NodeValues>& values) {
  std::vector<std::uint32_t> readers(program.graph().num_values(), 0);
  for (const passes::NodeValues& each : values) {
    for (const ValueId id : each.operands) ++readers[id];
  }
  for (const ValueId id : program.graph().outputs()) readers[program.roots()[id]] += 2;
  return readers;
}

/// Do values share memory, or may they?
inline bool share_memory(const Program& program, ValueId a, ValueId b) {
  const SlotId slots[] = {program.slot_of(a), program.slot_of(b)};
  if (slots[0] == no_index || slots[1] == no_index || slots[0] == slots[1]) return true;
  const Slot &x = program.slot(slots[0]), &y = program.slot(slots[1]);
  const bool placed = x.storage == Storage::small || x.storage == Storage::large;
  return placed && x.storage == y.storage && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}

}  // namespace tidu::cpu_detail
