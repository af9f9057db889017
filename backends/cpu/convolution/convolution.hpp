// convolution.hpp - convolution by matmuls: the division of a convolution into phases, blocks and GEMMs.
//
// Note [Convolution as matmuls]: lhs is padded with zeros where windows exceed it. If lhs is dilated, the
// windows that use the same kernel elements form a phase, so that no GEMM multiplies by the zeros in between.
// The elements of lhs that a phase uses are a strided view: windows by terms (features and kernel elements).
// Blocks of the view are copied ("patches", as im2col) and multiplied by the kernel: windows by terms times
// terms by result features, or the transpose, according to the layout of the result. A view that is already a
// matrix is multiplied in place. The blocks and the order of sums depend on the shapes alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/kernels/strided.hpp"
#include "cpu/matmul/gemm.hpp"

namespace tidu::cpu_detail {

/// Number of GEMMs of a block whose sum is added to the total at once, so that long sums are as accurate as
/// short ones.
inline constexpr std::int64_t matmuls_together = 16;

/// One spatial axis of a convolution.
struct ConvAxis {
  std::int64_t lhs, kernel, out;               ///< extents
  std::int64_t lhs_at, kernel_at, out_at;      ///< strides
  std::int64_t stride, spread, dilation, low;  ///< spread: dilation of lhs
};

/// The sizes and strides of a convolution, by the meaning of its axes.
struct ConvShape {
  std::int64_t batch, groups, terms, results;  ///< terms: lhs features of a group; results: its results
  std::int64_t lhs_batch, lhs_feature, kernel_result, kernel_feature, out_batch, out_feature;  ///< strides
  std::vector<ConvAxis> axes;
  static ConvShape of(const PlanRequest& request);
};

/// The division of an index range into blocks along one of its axes: blocks of equal size, and a last one
/// that may be smaller.
struct ConvCut {
  std::size_t axis = 0;       ///< the divided axis; those after it are whole in a block
  std::int64_t chunk = 1;     ///< elements of that axis in a block
  std::int64_t inner = 1;     ///< elements of all axes after it
  std::int64_t per_axis = 1;  ///< blocks along the axis
  std::int64_t blocks = 1;    ///< number of blocks
};

/// An axis of the windows or of the terms of a phase.
struct ConvIndex {
  std::int64_t extent;
  std::int64_t lhs;    ///< stride in the padded lhs
  std::int64_t other;  ///< stride in the result (for windows) or the kernel (for terms)
};

/// A block of windows by a block of terms.
struct ConvCell {
  std::int64_t windows, terms;
  StridedCopy pack;
  std::optional<GemmPlan> matmul;
};

/// The windows that use the same kernel elements; see Note [Convolution as matmuls].
struct ConvPhase {
  std::vector<ConvIndex> windows, terms;  ///< outermost first
  std::int64_t num_windows = 1, num_terms = 1;
  std::int64_t lhs_at = 0, kernel_at = 0, out_at = 0;  ///< offsets in elements
  ConvCut window_cut, term_cut;
  std::int64_t term_groups = 1;     ///< number of separate partial results, which are added at the end
  std::array<ConvCell, 4> cells;    ///< [last block of windows][last block of terms]
  bool packs_lhs = true;            ///< false: the view is a matrix with leading dimension `leading`
  bool windows_inner = false;       ///< are patches terms by windows?
  std::int64_t leading = 1;         ///< of the view or patches, unless it is the block's own
  bool windows_first = false;       ///< are results windows by results?
  bool direct = false;              ///< GEMMs write into the result
  std::int64_t result_leading = 1;  ///< leading dimension if `direct`
  bool separate = false;            ///< is each element of the divided axis a separate GEMM?
  bool packs_kernel = false;        ///< false: the kernel is read in place
  bool kernel_by_result = false;    ///< is the kernel results by terms?
  std::int64_t kernel_leading = 1;
  StridedCopy kernel_pack;           ///< of one group
  std::int64_t kernel_scratch = 0;   ///< offset of the packed groups, in elements
  std::array<StridedCopy, 2> store;  ///< copies of a block's results if not `direct`
  std::int64_t partial_scratch = 0;  ///< offset of the partial results, in elements
  std::int64_t first_task = 0, num_tasks = 0;
};

struct ConvState {
  ConvShape shape;  ///< with strides of the padded lhs, if it is padded
  GemmType type = GemmType::f32;
  std::int64_t element = 4;  ///< bytes
  int threads = 1;
  std::vector<ConvPhase> phases;
  bool pads = false;
  StridedCopy pad;
  std::int64_t pad_from = 0, pad_to = 0;                            ///< offsets in elements
  std::int64_t padded_size = 0, kernel_size = 0, partial_size = 0;  ///< sizes in scratch, in elements
  std::int64_t patch_size = 0, result_size = 0;  ///< sizes in scratch for each thread, in elements
  std::int64_t num_tasks = 0;
  std::int64_t out_size = 0;
  bool by_channels = false;  ///< without GEMMs: see Convolve::run_by_channels
  bool clears = false;       ///< is there a result element without any term?
  bool long_sums = false;    ///< are there more GEMMs than matmuls_together?
};

/// Sets `phases` and the sizes that depend on them, from shape, type, element and threads. Returns false if
/// GEMMs would do far more work than the convolution needs (hundreds of phases, or zeros many times as large
/// as the operands).
bool plan_matmuls(ConvState& state, std::int64_t operand_sizes);

}  // namespace tidu::cpu_detail
