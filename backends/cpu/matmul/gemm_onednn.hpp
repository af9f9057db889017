// gemm_onednn.hpp - GEMM by oneDNN's dnnl_sgemm, if tidu was built with it: the choice between oneDNN and
// tidu's kernels, and the division into pieces.
//
// oneDNN's bits depend on the sizes of a call and on its number of threads. Each call therefore uses one
// thread, and the pieces depend on the sizes and the machine's number of processors alone. The number of
// threads does not change the bits.
#pragma once

#include "cpu/matmul/gemm.hpp"

namespace tidu::cpu_detail::onednn {

/// Is oneDNN built in, and was it measured faster than tidu's kernels for such a GEMM (docs/matmul.md)?
/// Depends on the processor, and on the call's type, transposes, m, n, k, lda and ldb.
[[nodiscard]] bool is_faster(const GemmCall& call) noexcept;

/// Pieces of one batch member: their number along the rows and columns of C, and the units at whose multiples
/// they begin.
struct Cut {
  int row_pieces = 1, column_pieces = 1;
  std::int64_t row_unit = 1, column_unit = 1;
};

/// About as many pieces as the machine has processors, or fewer if they would be too small to be fast.
[[nodiscard]] Cut cut(const GemmCall& call) noexcept;

/// A GemmKernel for f32: computes a range of C on the calling thread. Throws std::bad_alloc if oneDNN finds
/// no memory. Must not be called if is_faster is always false.
void matmul(const GemmCall& call, const GemmRange& range, const void* a, const void* b, void* c);

/// Computes C = scale A B, or C += scale A B, for a range of C on the calling thread; `scale` is finite and
/// not 0. Returns false, and leaves C unchanged, if oneDNN finds no memory.
bool multiply(const GemmCall& call, const GemmRange& range, const void* a, const void* b, float scale,
              bool add, void* c) noexcept;

/// Approximate bytes that oneDNN allocates and uses for the range.
[[nodiscard]] std::size_t working_bytes(const GemmCall& call, const GemmRange& range) noexcept;

}  // namespace tidu::cpu_detail::onednn
