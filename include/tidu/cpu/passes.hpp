// passes.hpp - rewrites of the CPU executor by name, so that each can be left out: to see which one makes a
// difference to a result, to time or to memory. bench/ablation.py measures that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidu {

/// A rewrite of the scheduler, or of the compiler behind it. Others are options of their own: see
/// ProgramOptions and OptimizeOptions.
enum class CpuPass : std::uint8_t {
  row_fusion,           ///< element-wise operations fused along the last axis with reductions of rows
  rematerialize,        ///< fusions compute cheap values again that others would leave in memory
  delay_matmuls,        ///< large results of matmuls are made right before they are read
  accumulate_in_place,  ///< sums over tiles are added to where they lie
  gather_prologues,     ///< fusions read columns and gathered rows where they lie
  fused_loads,          ///< fusions read slices, pads and broadcasts where their elements lie
  matmul_epilogues,     ///< x + c AB in the matmul's tiles
  copy_elision,         ///< matmuls read transposes, slices and concatenations where their elements lie
  transpose_epilogues,  ///< row fusions write their results transposed
  inplace_updates,      ///< scatter and its like change an operand that nobody reads later
  concat_in_place,      ///< operands of a concatenation are made within its result
  donation,             ///< results take the memory of inputs that the caller gives away
  straight_line,        ///< operations on short arrays, one after another, as one piece of vector code
  demanded_elements,    ///< matmuls leave out tiles that nobody reads
  vector_code           ///< element-wise operations by vector code that is generated for them
};
/// How many there are.
inline constexpr std::size_t num_cpu_passes = 15;

/// The name as in the enumeration.
constexpr std::string_view to_string(CpuPass pass) {
  constexpr std::array<std::string_view, num_cpu_passes> names{
      "row_fusion",      "rematerialize",    "delay_matmuls", "accumulate_in_place", "gather_prologues",
      "fused_loads",     "matmul_epilogues", "copy_elision",  "transpose_epilogues", "inplace_updates",
      "concat_in_place", "donation",         "straight_line", "demanded_elements",   "vector_code"};
  return names[static_cast<std::size_t>(pass)];
}
/// The pass of that name, or none.
constexpr std::optional<CpuPass> cpu_pass_of(std::string_view name) {
  for (std::size_t i = 0; i < num_cpu_passes; ++i)
    if (to_string(static_cast<CpuPass>(i)) == name) return static_cast<CpuPass>(i);
  return std::nullopt;
}

/// Which passes run: all, unless some are left out.
class CpuPasses {
 public:
  /// Is it not left out?
  constexpr bool runs(CpuPass pass) const { return (left_out_ & bit(pass)) == 0; }
  /// The same without this one.
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
