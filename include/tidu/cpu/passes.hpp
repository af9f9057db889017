// passes.hpp - CpuPass: names of the CPU executor's rewrites, which can be disabled one by one, to find the
// one that changes a result, time or memory. bench/ablation.py measures the effect of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidu {

/// A rewrite of the scheduler or of the CPU compiler. Other rewrites have options of their own: see
/// ProgramOptions and OptimizeOptions.
enum class CpuPass : std::uint8_t {
  row_fusion,           ///< element-wise operations fused along the last axis with reductions of rows
  rematerialize,        ///< fusions recompute cheap values instead of reading them from memory
  delay_matmuls,        ///< matmuls with large results run right before their reader
  accumulate_in_place,  ///< sums over tiles and in scans are accumulated in the result's memory
  gather_prologues,     ///< fusions gather columns and rows as they read them
  fused_loads,          ///< fusions read slices, pads, broadcasts, iotas and rolls through access maps
  matmul_epilogues,     ///< x + c AB in the matmul's tiles
  copy_elision,         ///< matmuls read and write transposes, slices and concatenations through access
                        ///< maps; copies of copies are elided
  inplace_updates,      ///< scatter and similar operations update an operand that nothing reads later
  concat_in_place,      ///< operands of a concatenation are computed within its result
  donation,             ///< outputs take the memory of donated inputs
  straight_line,        ///< sequences of operations on short arrays become one kernel
  demanded_elements,    ///< matmuls skip tiles that no operation reads
  vector_code           ///< generated vector code for element-wise operations
};
/// Number of enumerators.
inline constexpr std::size_t num_cpu_passes = 14;

/// The enumerator as text.
constexpr std::string_view to_string(CpuPass pass) {
  constexpr std::array<std::string_view, num_cpu_passes> names{
      "row_fusion",  "rematerialize",    "delay_matmuls",     "accumulate_in_place", "gather_prologues",
      "fused_loads", "matmul_epilogues", "copy_elision",      "inplace_updates",     "concat_in_place",
      "donation",    "straight_line",    "demanded_elements", "vector_code"};
  return names[static_cast<std::size_t>(pass)];
}
/// The pass of that name, or nothing.
constexpr std::optional<CpuPass> cpu_pass_of(std::string_view name) {
  for (std::size_t i = 0; i < num_cpu_passes; ++i)
    if (to_string(static_cast<CpuPass>(i)) == name) return static_cast<CpuPass>(i);
  return std::nullopt;
}

/// A set of enabled passes; by default all.
class CpuPasses {
 public:
  /// Is the pass enabled?
  constexpr bool runs(CpuPass pass) const { return (left_out_ & bit(pass)) == 0; }
  /// The set without this pass.
  constexpr CpuPasses without(CpuPass pass) const {
    CpuPasses passes = *this;
    passes.left_out_ |= bit(pass);
    return passes;
  }
  friend constexpr bool operator==(const CpuPasses&, const CpuPasses&) = default;

 private:
  static constexpr std::uint32_t bit(CpuPass pass) { return 1U << static_cast<unsigned>(pass); }
  std::uint32_t left_out_ = 0;
};

}  // namespace tidu
