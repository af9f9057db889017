// kernel_table.hpp - which rule plans the operations of which primitive on a device.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cuda/plan.hpp"

namespace tidu::cuda_detail {

/// Dtypes as a set of bits.
using DTypeBits = std::uint32_t;
constexpr DTypeBits bit(DType dtype) { return 1U << static_cast<unsigned>(dtype); }
inline constexpr DTypeBits halves = bit(f16) | bit(bf16);
inline constexpr DTypeBits floats = halves | bit(f32) | bit(f64);
inline constexpr DTypeBits complexes = bit(c64) | bit(c128);
inline constexpr DTypeBits integers = bit(i32) | bit(i64);
inline constexpr DTypeBits numbers = integers | floats | complexes;
inline constexpr DTypeBits ordered = bit(bool_) | integers | floats;
inline constexpr DTypeBits any_dtype = bit(bool_) | numbers;

/// A row of the table.
struct KernelEntry {
  std::string_view name;
  PlanRule rule;
  DTypeBits dtypes;  ///< of the data that the operation works on
};

/// The row of a primitive, or null.
const KernelEntry* find_kernel(std::string_view primitive);
/// Is there a kernel of that primitive for that dtype?
bool has_kernel(std::string_view primitive, DType dtype);
/// The plan of one operation; `supported` is false where there is none for these types. An operation whose
/// results have no elements has a plan without steps.
Plan plan_operation(const PlanRequest& request);

// The rows, by family.
std::span<const KernelEntry> expression_kernels();
std::span<const KernelEntry> layout_kernels();
std::span<const KernelEntry> reduction_kernels();
std::span<const KernelEntry> scan_kernels();
std::span<const KernelEntry> scatter_kernels();

}  // namespace tidu::cuda_detail
