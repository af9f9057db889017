// rows_x86_pointers.hpp - pointers of a row fusion: those of arrays and of gathered rows (x86::RowPointers),
// and prefetches of the next row (x86::RowPrefetch).
//
// Registers: see rows_x86_tile.hpp. Pointers are in memory at r12, and those of gathered rows in the scratch
// memory, where each row stores them; a phase without calls keeps some of them in registers.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "cpu/fusion/rows_x86_tile.hpp"

namespace tidu::cpu_detail::x86 {

class RowPointers {
 public:
  RowPointers(const RowsCode& code, Assembler& assembler, const RowScratch& scratch)
      : code_(code), x_(assembler), scratch_(scratch) {}

  /// Keeps the phase's pointers, without calls, in registers until forget.
  void cache(const std::vector<VectorInst>& elements) {
    std::vector<Reg64> free = {r8, r9, r10, r11, rcx, rsi, rdi};
    const auto put = [&](std::map<std::uint32_t, Reg64>& cached, std::uint32_t index, const Address& from) {
      if (!cached.emplace(index, free.back()).second) return;
      x_.mov(free.back(), from);
      free.pop_back();
    };
    for (const VectorInst& step : elements) {
      if (free.empty()) return;
      const bool reads = step.op <= VectorOp::splat_row;
      const bool writes = step.op == VectorOp::store || step.op == VectorOp::stream ||
                          step.op == VectorOp::store_mask || is_column_reduction(step.op);
      if (step.op == VectorOp::load_gathered) {
        put(cached_gathers_, step.index, scratch_.gather(step.index));
      } else if (reads || writes) {
        put(cached_, step.index, in_memory(step.index));
      }
    }
  }
  void forget() {
    cached_.clear();
    cached_gathers_.clear();
  }

  /// The array's pointer, and that of a gathered row; may write rax.
  Reg64 array(std::uint32_t index) { return find(cached_, index, in_memory(index)); }
  Reg64 gathered(std::uint32_t index) { return find(cached_gathers_, index, scratch_.gather(index)); }

  /// Stores the addresses of the rows that are gathered for this row. No pointer is in a register.
  void find_gathered() {
    for (std::uint32_t i = 0; i < code_.gathers.size(); ++i) {
      const RowsCode::Gather& gather = code_.gathers[i];
      gather.is_repeated() ? find_repeated(gather) : find_named(gather);
      x_.mov(rdx, static_cast<std::uint64_t>(code_.columns * x_.element_bytes()));
      x_.imul(rax, rdx);
      x_.add(rax, in_memory(gather.array));
      x_.mov(scratch_.gather(i), rax);
    }
  }

 private:
  static Address in_memory(std::uint32_t index) { return ptr[r12 + 8 * static_cast<std::size_t>(index)]; }
  Reg64 find(const std::map<std::uint32_t, Reg64>& cached, std::uint32_t index, const Address& from) {
    const auto it = cached.find(index);
    if (it != cached.end()) return it->second;
    x_.mov(rax, from);
    return rax;
  }
  // Sets rax to the row that an index selects.
  void find_named(const RowsCode::Gather& gather) {
    x_.mov(rax, in_memory(gather.indices));
    if (gather.wide) {
      x_.mov(rax, ptr[rax + rbx * 8]);
    } else {
      x_.movsxd(rax, dword[rax + rbx * 4]);
    }
    x_.xor_(edx, edx);
    x_.test(rax, rax);
    x_.cmovs(rax, rdx);
    x_.mov(rdx, static_cast<std::uint64_t>(gather.rows - 1));
    x_.cmp(rax, rdx);
    x_.cmovg(rax, rdx);
  }
  // Sets rax to the row that is repeated here. Division of few bits is much faster on older processors.
  void find_repeated(const RowsCode::Gather& gather) {
    const std::int64_t rows = gather.rows / gather.together * gather.every;
    const bool is_few = rows < std::int64_t{1} << 31U;
    const auto divide = [&](std::int64_t by) {  // divides rax; remainder in rdx
      x_.mov(rcx, static_cast<std::uint64_t>(by));
      x_.xor_(edx, edx);
      is_few ? x_.div(ecx) : x_.div(rcx);
    };
    x_.mov(rax, rbx);
    divide(gather.every);
    if (gather.together == 1) return;
    x_.mov(rsi, rax);
    x_.mov(rax, rdx);
    divide(gather.together);
    x_.mov(rax, rsi);
    x_.mov(rcx, static_cast<std::uint64_t>(gather.together));
    x_.imul(rax, rcx);
    x_.add(rax, rdx);
  }

  const RowsCode& code_;
  Assembler& x_;
  const RowScratch& scratch_;
  std::map<std::uint32_t, Reg64> cached_, cached_gathers_;  // by index
};

/// Prefetches the next row of each array, once for each row, since hardware prefetchers stop at page
/// boundaries. This is done in the longest phase, in which memory and core work at the same time. The target
/// is not the nearest cache, which is full of the present row.
class RowPrefetch {
 public:
  RowPrefetch(const RowsCode& code, Assembler& assembler, RowPointers& pointers)
      : x_(assembler),
        pointers_(pointers),
        row_bytes_(static_cast<std::size_t>(code.columns * assembler.element_bytes())) {
    constexpr std::size_t long_row = 1024, too_long = std::size_t{1} << 16U;  // bytes
    if (row_bytes_ < long_row || row_bytes_ > too_long) return;
    std::size_t longest = 0;
    for (const RowsCode::Phase& phase : code.phases) {
      constexpr std::size_t call = 20;  // cost of a call in instructions
      std::size_t length = 0;
      for (const VectorInst& step : phase.elements) {
        length += step.op == VectorOp::call ? call : 1;
        if (step.op == VectorOp::load || step.op == VectorOp::store) arrays_.insert(step.index);
      }
      if (length > longest) phase_ = &phase;
      longest = std::max(longest, length);
    }
  }

  /// Prefetches in this phase as much as `count` vectors after r13.
  void emit(const RowsCode::Phase& phase, std::int64_t count) {
    for (std::int64_t copy = 0; &phase == phase_ && copy < count; ++copy) {
      const auto at = static_cast<std::size_t>(copy * x_.vector_bytes());
      if (at % RowScratch::line != 0) continue;
      for (const std::uint32_t index : arrays_)
        x_.prefetcht1(ptr[pointers_.array(index) + r14 * x_.element_bytes() + (at + row_bytes_)]);
    }
  }

 private:
  Assembler& x_;
  RowPointers& pointers_;
  const std::size_t row_bytes_;
  const RowsCode::Phase* phase_ = nullptr;  // the longest one
  std::set<std::uint32_t> arrays_;
};

}  // namespace tidu::cpu_detail::x86
