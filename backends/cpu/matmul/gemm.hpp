// gemm.hpp - GEMM on the CPU: C = op(A) op(B) or C += op(A) op(B), dense, row-major and batched, for six
// element types.
//
// A GemmPlan is made once and run many times. Planning checks the sizes, chooses the kernels for this CPU,
// and divides C into pieces for threads. tidu's kernels allocate only a packing buffer, once for each thread.
// If oneDNN is built in, larger f32 GEMMs use it; oneDNN allocates in each call. The order of each sum
// depends on the machine and on the sizes alone, so results are equal to the last bit from run to run and for
// any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "cpu/cpu_target.hpp"
#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail {

enum class GemmType : std::uint8_t { f32, f64, c64, c128, i32, i64 };

/// The instruction sets for which there are kernels.
using GemmIsa = InstructionSet;

/// Bytes of one element: 4, 8, 8, 16, 4, 8.
[[nodiscard]] std::int64_t gemm_element_size(GemmType type) noexcept;

/// Sizes of a GEMM, in elements. op(A) is m x k, op(B) is k x n, and C is m x n, all row-major. op(A) is A,
/// stored m x k with lda >= k, or (trans_a) its transpose without conjugation; A is then stored k x m with
/// lda >= m. The same holds for B. Members of a batch are `stride_a`, `stride_b` and `stride_c` apart; stride
/// 0 shares one A or B among all members. C overlaps neither A nor B.
struct GemmCall {
  GemmType type = GemmType::f32;
  bool trans_a = false;
  bool trans_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  bool add = false;       ///< C += op(A) op(B)
  bool add_zero = false;  ///< C = op(A) op(B) + 0.0, which turns -0.0 into 0.0
  /// Demanded elements: in row i of member q of C, the first row_ends[(q m + i) % row_period] elements (0 to
  /// n). The others are computed, or set to 0; with `add` they may stay unchanged. Null: all elements are
  /// demanded. Plans keep the pointer.
  const std::int32_t* row_ends = nullptr;
  std::int64_t row_period = 1;
  bool packed_b = false;  ///< B was packed by GemmPlan::pack
};

/// The call for C^T = op(B)^T op(A)^T, with A and B exchanged. The caller chooses ldc.
GemmCall transposed(GemmCall call);

/// Sizes that no memory could hold, or strides that contradict the sizes.
class GemmError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The rows, columns and batch members of C in one piece: [begin, end) of each.
struct GemmRange {
  std::int64_t batch_begin, batch_end, row_begin, row_end, column_begin, column_end;
};

/// Do `rows` rows, `row_bytes` apart, exceed their share of a first-level cache with 64 sets of 8 lines,
/// either by their number or because their distance maps them to few sets? The other operand needs as many
/// rows. (Internal linkage: see gemm_kernels.hpp.)
static constexpr bool is_crowded(std::int64_t rows, std::int64_t row_bytes) {
  constexpr std::int64_t most = 192;
  constexpr std::int64_t all_sets = CpuTarget::page;
  std::int64_t period = CpuTarget::line;  // the largest power of two that divides row_bytes, up to all sets
  while (period < all_sets && row_bytes % (2 * period) == 0) period *= 2;
  return rows > most || rows > all_sets / period * 8;
}
/// Bytes of the panels of a packed B with rows of `row_bytes`. Panel rows are a line, a half or a quarter of
/// one. (Internal linkage.)
static constexpr std::int64_t packed_panel_bytes(std::int64_t row_bytes, std::int64_t k) {
  return (row_bytes + 127) / 128 * 128 * k;
}
/// Minimum number of rows of C for which packing a crowded B pays.
inline constexpr std::int64_t kLeastCrowdedRows = 64;
/// Maximum number of terms that one kernel call adds up for inexact types. Longer sums are split, and their
/// parts are added in a cascade (cascade.hpp), so that the rounding error does not grow with the number of
/// terms.
inline constexpr std::int64_t kMostTerms = 64 * 384;
/// Maximum number of terms of a GEMM with an epilogue (GemmUpdate).
inline constexpr std::int64_t kMostUpdateTerms = 256;

using GemmKernel = void (*)(const GemmCall&, const GemmRange&, const void* a, const void* b, void* c);
using GemmPack = void (*)(const GemmCall&, const void* b, void* to);

/// An epilogue: C = X + scale (A B) or X - scale (A B), where each operation is rounded separately. X has the
/// layout of C and may be C; `scale` has one element. A B is stored too if `matmul` is not null.
struct GemmUpdate {
  const void* x = nullptr;
  const void* scale = nullptr;
  bool subtract = false;
  bool past_caches = false;  ///< store C past the caches if its rows are whole lines; also if is_apart()
  void* matmul = nullptr;    ///< destination of A B, or null; laid out as C, without overlap
};
/// Computes rows [begin, end) of an epilogue GEMM.
using GemmUpdates = void (*)(const GemmCall&, std::int64_t begin, std::int64_t end, const void* a,
                             const void* b, const GemmUpdate& how, void* c);

/// The kernels of one instruction set for one element type; all null if the build lacks the flags.
struct GemmFunctions {
  GemmKernel multiply = nullptr;
  GemmPack pack = nullptr;
  GemmUpdates update[2] = {};  ///< by trans_a; null for complex numbers and integers
  bool packs_crowded = false;  ///< does packing pay if is_crowded()?
};

/// A planned GEMM: checked sizes and chosen kernels. A value of less than a kilobyte without storage of its
/// own; any number of threads may use it at the same time.
class GemmPlan {
 public:
  /// Throws GemmError for negative sizes, leading dimensions that are too short, overlapping members of C,
  /// and extents whose bytes exceed an int64. `threads` below 1 counts as 1; small GEMMs use fewer threads.
  GemmPlan(const GemmCall& call, int threads);

  /// As above with tidu's kernels, whatever the sizes. `isa` is the best instruction set to use; if the CPU
  /// lacks it, the next lower one is used. For tests and measurements.
  GemmPlan(const GemmCall& call, int threads, GemmIsa isa);

  /// The chosen kernel. For tests.
  [[nodiscard]] GemmKernel kernel() const noexcept { return kernel_; }

  /// The number of pieces.
  [[nodiscard]] int pieces() const noexcept { return row_pieces_ * column_pieces_ * batch_pieces_; }

  /// Computes piece `index` of pieces() on the calling thread. Pieces have about the same work, write
  /// disjoint parts of C, and may run at the same time.
  void run_piece(int index, const void* a, const void* b, void* c) const;
  /// As run_piece with the same bits, but stores C past the caches, for readers on threads that share no
  /// cache. The piece is first computed in the thread's scratch. Pieces of batches, pieces of more than a
  /// MiB, and GEMMs with `add` are computed by run_piece.
  void run_piece_past_caches(int index, const void* a, const void* b, void* c) const;

  /// Computes all of C on this thread and at most threads - 1 helpers (run_pieces); stores past the caches if
  /// these share none. k == 0 writes zeros, or leaves C unchanged with `add`. Throws std::bad_alloc if there
  /// is no memory for packing.
  void run(const void* a, const void* b, void* c) const;

  /// Approximate bytes that another library allocates during a run on `threads` threads; 0 for tidu's
  /// kernels, whose buffers belong to the threads.
  [[nodiscard]] std::size_t library_bytes(int threads) const noexcept;

  /// Bytes of a packed B if packing it once for many runs pays, else 0. It is 0 for up to two rows, up to
  /// eight columns, batches, and GEMMs by another library.
  [[nodiscard]] std::int64_t packed_bytes() const noexcept;
  /// Packs B into memory aligned to 64 bytes. Like packed(), requires packed_bytes() > 0.
  void pack(const void* b, void* to) const;
  /// This plan for a packed B. The results have the same bits.
  [[nodiscard]] GemmPlan packed() const;

  /// Can the GEMM have an epilogue? It must be a single f32 or f64 GEMM without `add`, with a B that is not
  /// transposed, and with few terms. For tidu's kernels, B must also be near (in the second-level cache), and
  /// A near or not transposed.
  [[nodiscard]] bool can_update() const noexcept;
  /// Computes the epilogue GEMM on this thread and at most `threads` - 1 helpers. With tidu's kernels, A B
  /// has the same bits as without epilogue, except that subnormal numbers are never flushed to zero, since
  /// those of X must be kept. With oneDNN, scaling and adding may be rounded once. Requires can_update().
  /// Does not throw.
  void update(int threads, const void* a, const void* b, const GemmUpdate& how, void* c) const noexcept;

 private:
  [[nodiscard]] GemmRange range_of(int index) const;
  /// Computes a range by one kernel call, or in parts if there are many terms.
  void multiply(const GemmRange& range, const void* a, const void* b, void* c) const;
  void multiply_many_terms(const GemmRange& range, const std::byte* a, const std::byte* b,
                           std::byte* c) const;
  [[nodiscard]] bool has_many_terms() const noexcept {
    return call_.k > kMostTerms && call_.type <= GemmType::c128;
  }
  void update_piece(int index, const void* a, const void* b, const GemmUpdate& how, void* c) const;

  GemmCall call_;
  GemmKernel kernel_ = nullptr;
  GemmPack pack_ = nullptr;
  GemmUpdates update_ = nullptr;
  bool packs_crowded_ = false;
  bool swapped_ = false;     // A and B are exchanged
  bool gains_apart_ = true;  // threads gain even if they share no cache
  bool flushes_ = false;     // subnormal numbers count as zeros
  int threads_ = 1;
  std::int64_t row_unit_ = 1, column_unit_ = 1;  // pieces begin at multiples of these
  int row_pieces_ = 1, column_pieces_ = 1, batch_pieces_ = 1;
};

/// Plans and runs a GEMM that occurs once.
void gemm(const GemmCall& call, const void* a, const void* b, void* c, int threads);

/// Name of the code that runs such a GEMM on this CPU, for printing: "onednn", "tidu/avx512", "tidu/avx2" or
/// "tidu/baseline".
[[nodiscard]] const char* gemm_library(const GemmCall& call) noexcept;

}  // namespace tidu::cpu_detail
