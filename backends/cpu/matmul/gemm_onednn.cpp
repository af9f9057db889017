// The calls of oneDNN; without it, nothing is faster there.
#include "cpu/matmul/gemm_onednn.hpp"

#if defined(TIDU_WITH_ONEDNN)

#include <oneapi/dnnl/dnnl.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string>

#include "cpu/cpu_target.hpp"
#include "cpu/matmul/onednn.hpp"

namespace tidu::cpu_detail::onednn {
namespace {

using Index = std::int64_t;

constexpr double kLeastWork = 1 << 22;       // multiply-adds of a matmul
constexpr double kLeastPieceWork = 1 << 21;  // and of a piece
// By a transposed B with AVX-512: of a matmul, or else columns.
constexpr double kLeastTransposedWork = 1 << 30;
constexpr Index kLeastTransposedColumns = 1025;
constexpr double kLeastWorkWithAvx2 = 1 << 27;  // on AMD's processors with AVX2 and no more
constexpr Index kLeastPieceRows = 48, kLeastPieceColumns = 64;
constexpr Index kColumns = 48, kFewColumns = 16;  // of a tile, and of a vector

double work_of(const GemmCall& g) {
  return static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
}

/// With AVX-512, matmuls by a transposed B were measured slower than ours, unless they are large.
bool has_avx512() {
#if defined(__x86_64__)
  static const bool is = __builtin_cpu_supports("avx512f") != 0;
  return is;
#else
  return false;
#endif
}

/// On AMD CPUs without AVX-512, matmuls were measured no faster than ours, unless they are large and no
/// operand is crowded.
bool is_amd_with_avx2_alone() {
#if defined(__x86_64__)
  static const bool is = __builtin_cpu_is("amd") != 0 && __builtin_cpu_supports("avx512f") == 0 &&
                         __builtin_cpu_supports("avx2") != 0;
  return is;
#else
  return false;
#endif
}

/// Are rows of B, or columns of A, at distances at which few of them stay in the first-level cache?
bool has_crowded(const GemmCall& g) {
  constexpr Index kDistance = 1024 / sizeof(float);
  return g.ldb % kDistance == 0 || (g.trans_a && g.lda % kDistance == 0);
}

/// How many terms oneDNN adds up in one call. It packs a transposed A, here by rows that lie at a multiple of
/// 2 KiB from one another, more slowly the more than 256 there are at once, which few columns do not make up
/// for: 1024 x 256 of 1024 terms took 4.0 ms, and 3.4 in four parts (Xeon with AVX-512, one thread).
Index terms_at_once(const GemmCall& g) {
  constexpr Index kDistance = 2048 / sizeof(float), kMostColumns = 512, kMostTerms = 256;
  static_assert(kMostUpdateTerms <= kMostTerms);  // see sgemm
  if (!g.trans_a || g.lda % kDistance != 0 || g.n > kMostColumns || g.k <= kMostTerms) return g.k;
  const Index parts = (g.k + kMostTerms - 1) / kMostTerms;
  return (g.k + parts - 1) / parts;
}

/// The processors of the machine, whether or not this process may use them: one number for all runs.
int processors() {
  static const int count = static_cast<int>(std::clamp(sysconf(_SC_NPROCESSORS_CONF), 1L, 256L));
  return count;
}

/// What pieces of n columns begin at multiples of: whole tiles, unless vectors give a longest piece that is
/// so much shorter that its last tile may be a part of one.
Index column_unit(Index n, int pieces) {
  const auto longest = [&](Index unit) {
    const Index units = (n + unit - 1) / unit;
    return (units + pieces - 1) / pieces * unit;
  };
  return longest(kColumns) * 31 > longest(kFewColumns) * 32 ? kFewColumns : kColumns;
}

}  // namespace

bool is_faster(const GemmCall& g) noexcept {
  const Index min_rows = !g.trans_a ? 2 : g.trans_b ? 64 : 16;
  const bool is_large = g.n >= 16 && g.m >= min_rows && work_of(g) >= kLeastWork;
  if (g.type != GemmType::f32 || !is_large) return false;
  if (is_amd_with_avx2_alone()) return work_of(g) >= kLeastWorkWithAvx2 && !has_crowded(g);
  if (g.trans_a || !g.trans_b || !has_avx512()) return true;
  return work_of(g) >= kLeastTransposedWork || g.n >= kLeastTransposedColumns;
}

Cut cut(const GemmCall& g) noexcept {
  Cut cut;
  cut.row_unit = 8;
  cut.column_unit = kColumns;
  const double wanted = std::min(static_cast<double>(processors()) / static_cast<double>(g.batch),
                                 work_of(g) / kLeastPieceWork);
  while (cut.row_pieces * cut.column_pieces < wanted) {
    const Index rows = g.m / (2 * cut.row_pieces);
    const Index columns = g.n / (2 * cut.column_pieces);
    // Few rows cost more than few columns do, as each piece packs its columns of B.
    if (rows >= kLeastPieceRows && 3 * rows >= columns) {
      cut.row_pieces *= 2;
    } else if (columns >= kLeastPieceColumns) {
      cut.column_pieces *= 2;
    } else if (rows >= kLeastPieceRows) {
      cut.row_pieces *= 2;
    } else {
      break;
    }
  }
  cut.column_unit = column_unit(g.n, cut.column_pieces);
  return cut;
}

namespace {

// How oneDNN 2 and 3 multiply in f32 (gemm_driver.cpp and gemm_info.cpp of oneDNN 2.6, whose m and n are n
// and m here): where both operands repay it they are copied, blocks of B and up to `rows` rows of A at a
// time, and otherwise a few tiles of them.
struct Blocks {
  Index columns, rows, terms, max_terms_at_once, tile_columns, tile_rows;
  double min_reuse;  // copies above it: 1 / (1 / m + 1 / n)
};
constexpr Blocks blocks_of_avx512{9984, 384, 384, 384, 48, 8, 1 / 0.00196};
constexpr Blocks blocks_of_avx2{10000, 384, 192, 256, 24, 4, 1 / 0.0038};

bool copies(const GemmCall& g, Index rows, Index columns, const Blocks& blocks) {
  if (has_avx512()) {
    const bool far = g.ldb % 1024 == 0;
    const bool crowded = g.lda % 256 == 0 && g.ldb % 256 == 0;
    if (!g.trans_a && g.trans_b && columns > 100 && ((columns < 1200 && rows < 200 && g.k < 1200) || crowded))
      return true;
    if (!g.trans_a && !g.trans_b && far && g.k > 500 && rows > 100) return true;
    if (g.trans_a && !g.trans_b && far && columns >= 32 && rows > 16) return true;
  }
  return 1.0 / static_cast<double>(rows) + 1.0 / static_cast<double>(columns) < 1 / blocks.min_reuse;
}

constexpr Index rounded_up(Index extent, Index unit) { return (extent + unit - 1) / unit * unit; }

bool copies(const GemmCall& g, const GemmRange& range) {
  const Index rows = range.row_end - range.row_begin, columns = range.column_end - range.column_begin;
  return rows > 0 && columns > 0 &&
         copies(g, rows, columns, has_avx512() ? blocks_of_avx512 : blocks_of_avx2);
}

}  // namespace

std::size_t working_bytes(const GemmCall& g, const GemmRange& range) noexcept {
  const Index rows = range.row_end - range.row_begin, columns = range.column_end - range.column_begin;
  const Blocks& blocks = has_avx512() ? blocks_of_avx512 : blocks_of_avx2;
  if (rows <= 0 || columns <= 0) return 0;
  constexpr std::size_t kPage = CpuTarget::page;
  if (!copies(g, range)) return (!has_avx512() ? 5 : g.trans_b ? 18 : 2) * kPage;
  const Index given = terms_at_once(g);
  const Index terms = given <= blocks.max_terms_at_once ? std::max<Index>(given, 128)
                      : given < 2 * blocks.terms        ? (given + 1) / 2
                                                        : blocks.terms;
  // Where all rows of A fit, B is copied tile by tile to one place.
  const Index of_b = rows <= blocks.rows ? blocks.tile_columns
                                         : rounded_up(std::min(columns, blocks.columns), blocks.tile_columns);
  const Index of_a = rounded_up(std::min(rows, blocks.rows), blocks.tile_rows);
  return static_cast<std::size_t>(terms * (of_b + of_a)) * sizeof(float);
}

namespace {

// Before oneDNN allocates much: until version 2.38 glibc cuts an aligned block from one that is a little
// larger, and keeps the ends among seven small blocks of each size for the thread, so that, freed, the block
// is too short for the next of its size. The process grows by up to eight blocks a thread. Here a thread has
// seven of each size before, and those that came last, ends among them, are freed last, when seven are kept:
// these join what lies beside them.
void give_up_ends() {
#if defined(__GLIBC__)
  constexpr std::size_t kSizes = 10, kWanted = 7 + 3, kUnit = 16;  // ends of alignments up to 128 bytes
  constexpr std::size_t kMost = 64;          // blocks, of which some are larger: that is how it lies
  std::array<void* volatile, kMost> blocks;  // or a compiler leaves all of it out
  for (std::size_t i = 1; i <= kSizes; ++i) {
    const std::size_t bytes = i * kUnit + kUnit / 2;
    std::size_t count = 0, fitting = 0;
    for (; fitting < kWanted && count < kMost; ++count) {
      blocks[count] = std::malloc(bytes);
      if (malloc_usable_size(blocks[count]) == bytes) ++fitting;
    }
    while (count > 0) std::free(blocks[--count]);
  }
#endif
}

// C += alpha A B, or C = alpha A B, of a range of C. If it fails after the first of several calls, C is
// neither; matmuls with as few terms as updates have take one call.
dnnl_status_t sgemm(const GemmCall& g, const GemmRange& range, const void* a, const void* b, float alpha,
                    bool add, void* c) {
  const Index rows = range.row_end - range.row_begin, columns = range.column_end - range.column_begin;
  if (rows <= 0 || columns <= 0) return dnnl_success;
  // A matrix of one row needs no leading dimension, but oneDNN looks at it.
  const Index lda = std::max(g.lda, g.trans_a ? g.m : g.k);
  const Index ldb = std::max(g.ldb, g.trans_b ? g.k : g.n);
  const Index terms = terms_at_once(g);
  const OneThread one_thread;
  if (copies(g, range)) give_up_ends();
  for (Index q = range.batch_begin; q < range.batch_end; ++q) {
    const float* aq = static_cast<const float*>(a) + q * g.stride_a + range.row_begin * (g.trans_a ? 1 : lda);
    const float* bq =
        static_cast<const float*>(b) + q * g.stride_b + range.column_begin * (g.trans_b ? ldb : 1);
    float* cq = static_cast<float*>(c) + q * g.stride_c + range.row_begin * g.ldc + range.column_begin;
    Index first = 0;
    do {
      const Index some = std::min(terms, g.k - first);
      const dnnl_status_t status =
          dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', rows, columns, some, alpha,
                     aq + first * (g.trans_a ? lda : 1), lda, bq + first * (g.trans_b ? 1 : ldb), ldb,
                     add || first > 0 ? 1.0f : 0.0f, cq, std::max(g.ldc, columns));
      if (status != dnnl_success) return status;
      first += some;
    } while (first < g.k);
  }
  return dnnl_success;
}

void add_zero(const GemmCall& g, const GemmRange& range, float* c) {
  for (Index q = range.batch_begin; q < range.batch_end; ++q) {
    for (Index i = range.row_begin; i < range.row_end; ++i) {
      float* const row = c + q * g.stride_c + i * g.ldc;
      for (Index j = range.column_begin; j < range.column_end; ++j) row[j] += 0.0f;
    }
  }
}

}  // namespace

void matmul(const GemmCall& g, const GemmRange& range, const void* a, const void* b, void* c) {
  const dnnl_status_t status = sgemm(g, range, a, b, 1.0f, g.add, c);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    throw GemmError("[gemm] expected dnnl_sgemm to succeed, got its status " +
                    std::to_string(static_cast<int>(status)));
  }
  if (g.add_zero) add_zero(g, range, static_cast<float*>(c));
}

bool multiply(const GemmCall& g, const GemmRange& range, const void* a, const void* b, float scale, bool add,
              void* c) noexcept {
  return sgemm(g, range, a, b, scale, add, c) == dnnl_success;
}

}  // namespace tidu::cpu_detail::onednn

#else

namespace tidu::cpu_detail::onednn {

bool is_faster(const GemmCall&) noexcept { return false; }

Cut cut(const GemmCall&) noexcept { return Cut(); }

void matmul(const GemmCall&, const GemmRange&, const void*, const void*, void*) {}

bool multiply(const GemmCall&, const GemmRange&, const void*, const void*, float, bool, void*) noexcept {
  return false;
}

std::size_t working_bytes(const GemmCall&, const GemmRange&) noexcept { return 0; }

}  // namespace tidu::cpu_detail::onednn

#endif
