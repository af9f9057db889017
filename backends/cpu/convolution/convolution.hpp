// convolution.hpp - how a convolution is cut into matrix products.
//
// Note [Convolution as products]: zeros are put around lhs where windows reach beyond it. Where lhs is
// dilated, windows that meet the same places of the kernel form a phase, so that no product has the zeros in
// between as a factor. The elements that the windows of a phase meet, windows by terms (features and kernel
// places), are then a strided view of lhs. Blocks of it are copied ("patches") and multiplied by the kernel,
// windows by terms times terms by result features or the other way round, as the result lies in memory. A
// view that is a matrix already is multiplied where it is. Blocks, and the order of sums, follow from the
// shapes alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/kernels/strided.hpp"
#include "cpu/products/gemm.hpp"

namespace tidu::cpu_detail {

/// Products of a block that are added up one after another, before they are added to those of all: sums of
/// many terms stay as exact as those of few.
inline constexpr std::int64_t products_together = 16;

/// One spatial axis of a convolution.
struct ConvAxis {
  std::int64_t lhs, kernel, out;               ///< extents
  std::int64_t lhs_at, kernel_at, out_at;      ///< strides
  std::int64_t stride, spread, dilation, low;  ///< spread: of lhs
};

/// A convolution, its axes by what they mean.
struct ConvShape {
  std::int64_t batch, groups, terms, results;  ///< terms: features of lhs in a group; results likewise
  std::int64_t lhs_batch, lhs_feature, kernel_result, kernel_feature, out_batch, out_feature;  ///< strides
  std::vector<ConvAxis> axes;
  static ConvShape of(const PlanRequest& request);
};

/// A range of an index that is cut along one of its axes: [at, at + count) of all, as blocks of equal size
/// and a last one that may be smaller.
struct ConvCut {
  std::size_t axis = 0;       ///< the axis that is cut; those after it are whole in a block
  std::int64_t chunk = 1;     ///< elements of that axis in a block
  std::int64_t inner = 1;     ///< elements of all axes after it
  std::int64_t per_axis = 1;  ///< blocks along the axis
  std::int64_t blocks = 1;    ///< in all
};

/// An axis of the windows or of the terms of a phase.
struct ConvIndex {
  std::int64_t extent;
  std::int64_t lhs;    ///< stride in lhs with its zeros
  std::int64_t other;  ///< stride in the result (windows) or the kernel (terms)
};

/// A block of windows by a block of terms.
struct ConvCell {
  std::int64_t windows, terms;
  StridedCopy pack;
  std::optional<GemmPlan> product;
};

/// The windows that meet the same places of the kernel; see Note [Convolution as products].
struct ConvPhase {
  std::vector<ConvIndex> windows, terms;  ///< outermost first
  std::int64_t num_windows = 1, num_terms = 1;
  std::int64_t lhs_at = 0, kernel_at = 0, out_at = 0;  ///< offsets, elements
  ConvCut window_cut, term_cut;
  std::int64_t term_groups = 1;     ///< partial results of their own, added up at the end
  std::array<ConvCell, 4> cells;    ///< [last block of windows][last block of terms]
  bool packs_lhs = true;            ///< else the view is a matrix, of that leading dimension
  bool windows_inner = false;       ///< of patches: are they terms by windows?
  std::int64_t leading = 1;         ///< of the view or patches, where not the block's own
  bool windows_first = false;       ///< of results: windows by results?
  bool direct = false;              ///< products write to the result
  std::int64_t result_leading = 1;  ///< then
  bool apart = false;               ///< is each element of the axis that is cut a product of its own?
  bool packs_kernel = false;        ///< else it is read in place
  bool kernel_by_result = false;    ///< results by terms?
  std::int64_t kernel_leading = 1;
  StridedCopy kernel_pack;           ///< of one group
  std::int64_t kernel_scratch = 0;   ///< offset of its packed groups, elements
  std::array<StridedCopy, 2> store;  ///< of a block's results that were not written directly
  std::int64_t partial_scratch = 0;  ///< offset of its partial results, elements
  std::int64_t first_task = 0, num_tasks = 0;
};

struct ConvState {
  ConvShape shape;  ///< strides of lhs: with its zeros, where they were put around it
  GemmType type = GemmType::f32;
  std::int64_t element = 4;  ///< bytes
  int threads = 1;
  std::vector<ConvPhase> phases;
  bool pads = false;
  StridedCopy pad;
  std::int64_t pad_from = 0, pad_to = 0;                            ///< offsets, elements
  std::int64_t padded_size = 0, kernel_size = 0, partial_size = 0;  ///< of scratch, elements
  std::int64_t patch_size = 0, result_size = 0;                     ///< likewise, for each thread
  std::int64_t num_tasks = 0;
  std::int64_t out_size = 0;
  bool by_channels = false;  ///< no products: see Convolve::run_by_channels
  bool clears = false;       ///< is there a result that no term adds to?
  bool long_sums = false;    ///< of more products than products_together?
};

/// Fills in `phases` and what they need, by shape, type, element and threads. False, where products would do
/// far more than the convolution needs (hundreds of phases, or zeros many times as large as the operands).
bool plan_products(ConvState& state, std::int64_t operand_sizes);

}  // namespace tidu::cpu_detail
