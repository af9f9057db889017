// compose.hpp - plans made of plans, and how axes of an array merge: what rules that call libraries share.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/plan.hpp"

namespace tidu::cuda_detail {

/// Takes `bytes` of the plan's scratch memory.
BufferRef take_scratch(Plan& plan, std::size_t bytes);

/// Adds the steps of `part`, whose operands and results are at these places of `plan`. Not supported when
/// `part` is not.
void append(Plan& plan, const Plan& part, std::span<const BufferRef> operands,
            std::span<const BufferRef> results);

/// Adds what makes `type` at `from` into its transpose at `to`: a copy where no axis moves.
void append_transposed(Plan& plan, Type type, const Ints& permutation, BufferRef from, BufferRef to,
                       const PlanRequest& like);
/// Adds a conversion of `count` elements.
void append_converted(Plan& plan, DType from_dtype, DType to_dtype, std::int64_t count, BufferRef from,
                      BufferRef to, const PlanRequest& like);

/// Adds the sort of so many segments, in several calls where the library, which counts the elements of many
/// segments in 32 bits, does not take all at once.
void append_sort(Plan& plan, const SortStep& sort);

/// A kernel of 256 threads a block whose text is a function ENTRY over `work` elements: it finds them by
/// `for (u64 at = first; at < work; at += step)`, see elements_begin.
Launch launch_elements(std::string_view name, const std::string& text, std::int64_t work,
                       std::vector<Argument> arguments, int multiprocessors);
/// "extern "C" __global__ void ENTRY(PARAMETERS, const u64 work) {" and the loop over elements `at`, which
/// "}}" ends. The launch's last argument is the work, added by launch_elements.
std::string elements_begin(const std::string& parameters);

/// Strides of dense row-major axes, in elements.
Ints dense_strides(const Shape& shape);
/// Several axes walked as one.
struct MergedAxis {
  std::int64_t extent = 1, stride = 0;
};
/// The axes, in this order, as one, if walking them is walking one.
std::optional<MergedAxis> merge_axes(const Shape& shape, const Ints& axes);

}  // namespace tidu::cuda_detail
