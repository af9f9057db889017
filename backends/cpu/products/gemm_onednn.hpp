// Products by oneDNN's dnnl_sgemm, where tidu was built with it: which products gain from it, and how they
// are cut into pieces.
//
// oneDNN's bits depend on the sizes of a call and on its number of threads. So each call is made with one
// thread, and the cut into calls follows from the sizes and from the processors of the machine, never from
// the number of threads: any number of them gives the same bits.
#pragma once

#include "cpu/products/gemm.hpp"

namespace tidu::cpu_detail::onednn {

/// Whether oneDNN was built in and measured faster than our kernels for such a product (docs/products.md);
/// decided by type, transposes, m, n and k.
[[nodiscard]] bool is_faster(const GemmCall& call) noexcept;

/// Pieces of one member of a batch: how many along the rows and the columns of C, and the units at whose
/// multiples they begin.
struct Cut {
  int row_pieces = 1, column_pieces = 1;
  std::int64_t row_unit = 1, column_unit = 1;
};

/// About as many pieces as the machine has processors, fewer where they would be too small to be fast.
[[nodiscard]] Cut cut(const GemmCall& call) noexcept;

/// A GemmKernel for f32: a range of C on the calling thread. Throws std::bad_alloc where oneDNN finds no
/// memory. Not to be called where is_faster is always false.
void product(const GemmCall& call, const GemmRange& range, const void* a, const void* b, void* c);

/// C = scale A B, or C += scale A B, of a range of C, likewise; `scale` is finite and not 0. False, with
/// nothing done, where oneDNN finds no memory.
bool multiply(const GemmCall& call, const GemmRange& range, const void* a, const void* b, float scale,
              bool add, void* c) noexcept;

/// About the bytes that oneDNN allocates for that, and uses.
[[nodiscard]] std::size_t working_bytes(const GemmCall& call, const GemmRange& range) noexcept;

}  // namespace tidu::cpu_detail::onednn
