// Matrix products on the CPU: C = op(A) op(B), or C += op(A) op(B), dense, row-major, batched, for six
// element types.
//
// A product is planned once (sizes checked, the code for this CPU and the cut into pieces chosen) and run
// many times. Our kernels allocate nothing but, once per thread, a packing buffer; oneDNN, which larger
// products in f32 are left to where it was built in, allocates in each call. The order of the sums depends on
// the machine and on the sizes alone: results are equal to the last bit from run to run and for any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail {

enum class GemmType : std::uint8_t { f32, f64, c64, c128, i32, i64 };

/// The instruction sets there are kernels for.
using GemmIsa = InstructionSet;

/// Bytes of one element: 4, 8, 8, 16, 4, 8.
[[nodiscard]] std::int64_t gemm_element_size(GemmType type) noexcept;

/// The sizes of a product, all of them in elements. op(A) is m x k, op(B) is k x n, C is m x n, each
/// row-major; op(A) is A, stored m x k with lda >= k, or its transpose (not conjugated), A then being stored
/// k x m with lda >= m; likewise B. A batch of products reads A, B and writes C at multiples of the strides;
/// a stride of 0 gives the same A or B to all. C overlaps neither A nor B.
struct GemmCall {
  GemmType type = GemmType::f32;
  bool trans_a = false;
  bool trans_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  bool add = false;       ///< the product is added to C
  bool add_zero = false;  ///< or 0.0 to it, which makes 0.0 of -0.0
  /// Of row i of member q of C only the first row_ends[(q m + i) % row_period] elements (0 to n) are wanted.
  /// Those behind are made, or become 0, or, where the product is added, stay what they are. Null: all are
  /// wanted. Plans keep the pointer.
  const std::int32_t* row_ends = nullptr;
  std::int64_t row_period = 1;
  bool packed_b = false;  ///< B is what GemmPlan::pack made of it
};

/// C^T = op(B)^T op(A)^T, A and B having changed places; ldc is the caller's to choose.
GemmCall transposed(GemmCall call);

/// A product that no memory could hold, or whose strides contradict its sizes.
class GemmError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Which rows, columns and members of the batch of C one piece of a product covers: [begin, end) of each.
struct GemmRange {
  std::int64_t batch_begin, batch_end, row_begin, row_end, column_begin, column_end;
};

/// Do so many rows, so many bytes apart, not stay in a first-level cache of 8 lines in each of 64 sets beside
/// as many rows of another operand: for their distance, which brings them into few sets, or their number? (Of
/// internal linkage: see gemm_kernels.hpp.)
static constexpr bool is_crowded(std::int64_t rows, std::int64_t row_bytes) {
  constexpr std::int64_t most = 192;
  std::int64_t period = 64;  // the power of two that divides a row, up to all of the sets
  while (period < 4096 && row_bytes % (2 * period) == 0) period *= 2;
  return rows > most || rows > 4096 / period * 8;
}
/// Bytes of the panels of a packed B whose rows have so many, in lines of which a panel's row is one, a half
/// or a quarter. (Of internal linkage, too.)
static constexpr std::int64_t packed_panel_bytes(std::int64_t row_bytes, std::int64_t k) {
  return (row_bytes + 127) / 128 * 128 * k;
}
/// Rows of C that repay packing a B that is crowded.
inline constexpr std::int64_t kLeastCrowdedRows = 64;
/// Terms of an inexact product that are added up by one call of a kernel, at most: products of more are cut,
/// and their parts added up in a cascade, so that rounding does not grow with the number of terms.
inline constexpr std::int64_t kMostTerms = 64 * 384;
/// Terms of a product that may be an update, at most.
inline constexpr std::int64_t kMostUpdateTerms = 256;

using GemmKernel = void (*)(const GemmCall&, const GemmRange&, const void* a, const void* b, void* c);
using GemmPack = void (*)(const GemmCall&, const void* b, void* to);

/// What a kernel keeps of a product of which all that depends on its sizes has been found.
struct GemmReady {
  alignas(8) unsigned char bytes[512];
};
/// All of such a product.
using GemmReadyRun = void (*)(const GemmReady&, const void* a, const void* b, void* c);

/// C = X + scale (A B), or X - scale (A B), each operation rounded as it is alone. X lies as C does and may
/// be C; the scale is one element. The product is written, too, where there is a place for it.
struct GemmUpdate {
  const void* x = nullptr;
  const void* scale = nullptr;
  bool subtract = false;
  bool past_caches = false;  ///< C goes past the caches where its rows are whole lines; or when it is_apart()
  void* product = nullptr;   ///< where it is to be, or nowhere: as C, which it does not overlap
};
/// Rows [begin, end) of it.
using GemmUpdates = void (*)(const GemmCall&, std::int64_t begin, std::int64_t end, const void* a,
                             const void* b, const GemmUpdate& how, void* c);

/// What one instruction set has for one element type; all null where the build lacks the flags.
struct GemmFunctions {
  GemmKernel multiply = nullptr;
  /// What runs all of the product as `multiply` does, in less time where it is short, after this has prepared
  /// it; or null.
  GemmReadyRun (*make_ready)(const GemmCall&, GemmReady& to) = nullptr;
  GemmPack pack = nullptr;
  /// By a square B of 2, 4 or 8 columns, rows of A and C without gaps, A not transposed and rows without
  /// ends; null where a vector holds no two rows.
  GemmKernel narrow[3] = {};
  GemmUpdates update[2] = {};  ///< by trans_a; null of complex numbers and of integers
  bool packs_crowded = false;  ///< what is_crowded()
};

/// A product whose sizes are checked and whose code is chosen. A value of less than a kilobyte, without
/// storage of its own; safe to use from any number of threads at once.
class GemmPlan {
 public:
  /// Throws GemmError for negative sizes, leading dimensions that are too short, members of C that overlap,
  /// and extents whose bytes exceed an int64. `threads` below 1 counts as 1; products too small to gain from
  /// more threads take fewer.
  GemmPlan(const GemmCall& call, int threads);

  /// The same with our own kernels, whatever the sizes, `isa` being the best instruction set to use; one that
  /// the CPU lacks gives the next lower one. For tests and measurements.
  GemmPlan(const GemmCall& call, int threads, GemmIsa isa);

  /// The code that was chosen. For tests.
  [[nodiscard]] GemmKernel kernel() const noexcept { return kernel_; }

  /// How many pieces the product is cut into.
  [[nodiscard]] int pieces() const noexcept { return row_pieces_ * column_pieces_ * batch_pieces_; }

  /// Computes piece `index` of pieces(), on the calling thread. Pieces are of about the same work, write
  /// disjoint parts of C, and may run at the same time.
  void run_piece(int index, const void* a, const void* b, void* c) const;
  /// The same bits, written past the caches, for where threads that share no cache read them next: made in
  /// memory of the thread's own first. Pieces of batches, of more than a MiB, and of products that are added
  /// to C are written as run_piece does.
  void run_piece_past_caches(int index, const void* a, const void* b, void* c) const;

  /// Computes the whole product, on this thread and at most threads - 1 helpers (run_pieces), past the caches
  /// where those share none. k == 0 writes zeros, or leaves C. Throws std::bad_alloc where there is no memory
  /// for packing.
  void run(const void* a, const void* b, void* c) const;

  /// About the bytes that another library allocates while the product is made by so many threads; 0 where our
  /// kernels make it, whose memory stays with the threads.
  [[nodiscard]] std::size_t library_bytes(int threads) const noexcept;

  /// Where products with one B after another repay it that B is packed once for all of them: the bytes that
  /// this takes, otherwise 0. It is 0 of two rows or fewer, of eight columns or fewer, of members of a batch,
  /// and where another library multiplies.
  [[nodiscard]] std::int64_t packed_bytes() const noexcept;
  /// Packs B, to memory aligned to 64 bytes. Requires packed_bytes() > 0, as does packed().
  void pack(const void* b, void* to) const;
  /// This plan for a B that is packed. It gives the same bits.
  [[nodiscard]] GemmPlan packed() const;

  /// May it be an update? Of one product in f32 or f64, not added to C, by a B that is not transposed, of few
  /// terms, and, with our kernels, where B is near, and A is near or not transposed.
  [[nodiscard]] bool can_update() const noexcept;
  /// The update, on this thread and at most `threads` - 1 helpers. With our kernels the product has the bits
  /// that it has otherwise, but that subnormal numbers are never zeros: those of X have to stay. With oneDNN
  /// it may be scaled and added with one rounding. Requires can_update(). Throws nothing.
  void update(int threads, const void* a, const void* b, const GemmUpdate& how, void* c) const noexcept;

 private:
  [[nodiscard]] GemmRange range_of(int index) const;
  /// The product of a range: by one call of the kernel, or, of many terms, in parts.
  void multiply(const GemmRange& range, const void* a, const void* b, void* c) const;
  void multiply_many_terms(const GemmRange& range, const std::byte* a, const std::byte* b,
                           std::byte* c) const;
  [[nodiscard]] bool has_many_terms() const noexcept {
    return call_.k > kMostTerms && call_.type <= GemmType::c128;
  }
  void update_piece(int index, const void* a, const void* b, const GemmUpdate& how, void* c) const;

  GemmCall call_;
  GemmKernel kernel_ = nullptr;
  GemmReadyRun run_ready_ = nullptr;  // or null
  GemmReady ready_;
  GemmPack pack_ = nullptr;
  GemmUpdates update_ = nullptr;
  bool packs_crowded_ = false;
  bool swapped_ = false;     // A and B change places
  bool gains_apart_ = true;  // more than one thread gains, also where they share no cache
  bool flushes_ = false;     // subnormal numbers count as zeros
  int threads_ = 1;
  std::int64_t row_unit_ = 1, column_unit_ = 1;  // pieces begin at multiples of these
  int row_pieces_ = 1, column_pieces_ = 1, batch_pieces_ = 1;
};

/// Plans and runs: for products that occur once.
void gemm(const GemmCall& call, const void* a, const void* b, void* c, int threads);

/// The code that runs such a product on this CPU, for printing: "onednn", "tidu/avx512", "tidu/avx2" or
/// "tidu/baseline".
[[nodiscard]] const char* gemm_library(const GemmCall& call) noexcept;

}  // namespace tidu::cpu_detail
