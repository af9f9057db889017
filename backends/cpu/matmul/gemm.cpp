// Planning of matmuls, the choice of code for this CPU, and the cut into pieces for threads. The kernels are
// in gemm_kernels.hpp, what was measured in docs/matmul.md.
//
// Invariants: a piece writes a part of C that no other piece writes; what is computed does not depend on the
// number of threads. Our kernels give the same bits however the matmul is cut; oneDNN does not, so there the
// cut depends on the sizes and the machine alone.
#include "cpu/matmul/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>
#include <string>

#include "cpu/cpu_target.hpp"
#include "cpu/kernels/interleave.hpp"
#include "cpu/matmul/call_checks.hpp"
#include "cpu/matmul/gemm_onednn.hpp"
#include "cpu/matmul/scratch.hpp"
#include "cpu/matmul/subnormal.hpp"
#include "cpu/parallel.hpp"
#include "graph/thread_kept.hpp"

namespace tidu::cpu_detail {

namespace avx512 {
extern const GemmFunctions functions[6];
}  // namespace avx512
namespace avx2 {
extern const GemmFunctions functions[6];
}  // namespace avx2
namespace baseline {
extern const GemmFunctions functions[6];
}  // namespace baseline

namespace {

struct PackedScratch : Scratch {};
struct PieceScratch : Scratch {};  // of C, before it goes past the caches

}  // namespace

void* gemm_workspace(std::int64_t bytes) { return tidu::detail::ThreadKept<PackedScratch>::get().of(bytes); }

namespace {

using Index = std::int64_t;

// Does the CPU have it, and this build its kernels?
bool is_there(GemmIsa isa) {
#if defined(__x86_64__)
  if (isa == GemmIsa::avx512) return cpu_has(isa) && avx512::functions[0].multiply != nullptr;
  if (isa == GemmIsa::avx2) return cpu_has(isa) && avx2::functions[0].multiply != nullptr;
#endif
  return isa == GemmIsa::baseline;
}

/// The best that the CPU has, no better than `limit`.
GemmIsa choose_isa(GemmIsa limit) {
  if (limit >= GemmIsa::avx512 && is_there(GemmIsa::avx512)) return GemmIsa::avx512;
  if (limit >= GemmIsa::avx2 && is_there(GemmIsa::avx2)) return GemmIsa::avx2;
  return GemmIsa::baseline;
}

const GemmFunctions& functions_for(GemmType type, GemmIsa isa) {
  const auto index = static_cast<std::size_t>(type);
#if defined(__x86_64__)
  if (isa == GemmIsa::avx512) return avx512::functions[index];
  if (isa == GemmIsa::avx2) return avx2::functions[index];
#endif
  (void)isa;
  return baseline::functions[index];
}

// ---- the cut into pieces
// -------------------------------------------------------------------------------------------------------

/// Part `index` of `parts` of [0, size), boundaries at multiples of `unit`.
std::pair<Index, Index> part_of(Index size, Index unit, int index, int parts) {
  const Index units = (size + unit - 1) / unit;
  const auto boundary = [&](Index i) {
    return std::min(size, (units / parts * i + std::min<Index>(i, units % parts)) * unit);
  };
  return {boundary(index), boundary(index + 1)};
}

/// A tile's height with AVX-512; its width is 128 bytes, two cache lines.
constexpr Index kRowUnit = 14;
/// That of a tile where rows have ends.
constexpr Index kRowUnitOfEnds = 8;

/// Minimum multiply-adds of real numbers for each further thread. The minimum for f64 is higher: its small
/// matmuls often stand between steps that one thread runs, and fetching their operands from the other
/// thread's cache costs as much as a short matmul gains.
constexpr double kLeastWork = 128 * 1024, kLeastWorkOfDoubles = 384 * 1024;

/// Does more than one thread gain where processors share no cache? Measured with two: nanoseconds that each
/// real multiply-add spares, that a loop takes to begin and to end, and that bytes take which the other has
/// read, and which it reads. Members of a batch that are shared out (`by_members`) are read and written by
/// the thread that also has them before and behind, but for few; so are rows of A where those of C are shared
/// out (`by_rows`).
bool gains_apart(const GemmCall& g, double work, bool is_double, bool by_members, bool by_rows) {
  constexpr double spared = 1.0 / 118, loop = 700, of_others = 0.1;
  const double share = by_members ? of_others : 1, written = 0.22 * share, read = 0.04 * share;
  const double size = static_cast<double>(gemm_element_size(g.type));
  const auto bytes = [&](Index rows, Index columns, bool repeated) {
    return size * static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(repeated ? 1 : g.batch);
  };
  const double in = (by_rows ? 0 : bytes(g.m, g.k, g.stride_a == 0)) + bytes(g.k, g.n, g.stride_b == 0);
  return work * spared * (is_double ? 2 : 1) > loop + written * bytes(g.m, g.n, false) + read * in;
}

/// Multiply-adds of real numbers from which on subnormal numbers count as zeros.
constexpr double kLeastFlushed = 32 * 1024;

/// Do tiles that rows' ends leave out repay that those of the others are lower?
bool gains_by_ends(const GemmCall& call) {
  if (call.row_ends == nullptr) return false;
  constexpr double max_left = 0.8;
  const Index lanes = 64 / gemm_element_size(call.type), rows = std::lcm(call.row_period, kRowUnitOfEnds);
  Index made = 0;
  for (Index i = 0; i < rows; i += kRowUnitOfEnds) {
    Index end = 0;
    for (Index r = i; r < i + kRowUnitOfEnds; ++r)
      end = std::max<Index>(end, call.row_ends[r % call.row_period]);
    made += kRowUnitOfEnds * ((end + lanes - 1) / lanes);
  }
  const Index vectors = (call.n + lanes - 1) / lanes;
  const double whole = static_cast<double>(rows) * static_cast<double>(vectors);
  return static_cast<double>(made) <= max_left * whole;
}

}  // namespace

std::int64_t gemm_element_size(GemmType type) noexcept {
  constexpr std::int64_t sizes[6] = {4, 8, 8, 16, 4, 8};
  return sizes[static_cast<std::size_t>(type)];
}

GemmPlan::GemmPlan(const GemmCall& call, int threads) : GemmPlan(call, threads, GemmIsa::avx512) {
  if (call_.batch == 0 || call_.row_ends != nullptr || !onednn::is_faster(call_)) return;
  const onednn::Cut cut = onednn::cut(call_);
  kernel_ = onednn::matmul;
  pack_ = nullptr;
  threads_ = std::max(threads, 1);
  row_unit_ = cut.row_unit;
  column_unit_ = cut.column_unit;
  row_pieces_ = cut.row_pieces;
  column_pieces_ = cut.column_pieces;
  batch_pieces_ = static_cast<int>(std::min<Index>(call_.batch, 4096));
}

GemmCall transposed(GemmCall call) {
  std::swap(call.m, call.n);
  std::swap(call.lda, call.ldb);
  std::swap(call.stride_a, call.stride_b);
  const bool trans_a = call.trans_a;
  call.trans_a = !call.trans_b;
  call.trans_b = !trans_a;
  return call;
}

GemmPlan::GemmPlan(const GemmCall& call, int threads, GemmIsa isa) : call_(call) {
  check_gemm_call(call);
  if (call_.m == 0 || call_.n == 0 || call_.batch == 0) {
    call_.batch = 0;
    return;
  }
  const GemmFunctions& functions = functions_for(call_.type, choose_isa(isa));
  kernel_ = functions.multiply;
  pack_ = functions.pack;
  update_ = functions.update[call_.trans_a ? 1 : 0];
  packs_crowded_ = functions.packs_crowded;
  // One B for all, A and C without gaps: one taller matmul.
  if (call_.batch > 1 && call_.stride_b == 0 && !call_.trans_a && call_.stride_a == call_.m * call_.lda &&
      call_.stride_c == call_.m * call_.ldc) {
    call_.m *= call_.batch;
    call_.batch = 1;
  }
  // A column C is the row C^T = op(B)^T op(A)^T.
  if (call_.n == 1 && call_.m > 1 && call_.ldc == 1) {
    swapped_ = true;
    call_ = transposed(call_);
    call_.row_ends = nullptr;
  }
  if (!gains_by_ends(call_)) call_.row_ends = nullptr;
  // A column of A without gaps is a row.
  if (call_.m == 1 && call_.trans_a && call_.lda == 1) {
    call_.trans_a = false;
    call_.lda = call_.k;
  }
  // A column B without gaps is a row of B^T: with a row A, an inner product.
  if (call_.m == 1 && call_.n == 1 && !call_.trans_a && !call_.trans_b && call_.ldb == 1) {
    call_.trans_b = true;
    call_.ldb = call_.k;
  }
  const bool is_complex = call_.type == GemmType::c64 || call_.type == GemmType::c128;
  const double work = static_cast<double>(call_.m) * static_cast<double>(call_.n) *
                      static_cast<double>(call_.k) * static_cast<double>(call_.batch) * (is_complex ? 4 : 1);
  flushes_ = work >= kLeastFlushed && call_.type <= GemmType::c128;
  const bool is_double = call_.type == GemmType::f64 || call_.type == GemmType::c128;
  int wanted = static_cast<int>(std::min(
      {work / (is_double ? kLeastWorkOfDoubles : kLeastWork), static_cast<double>(threads), 4096.0}));
  threads_ = std::max(wanted, 1);
  if (call_.batch >= wanted) {
    batch_pieces_ = std::max(wanted, 1);
    gains_apart_ = gains_apart(call_, work, is_double, call_.batch > 1, false);
    return;
  }
  row_unit_ = call_.row_ends == nullptr ? kRowUnit : kRowUnitOfEnds;
  column_unit_ = 128 / gemm_element_size(call_.type);
  for (int factor = 2; wanted > 1;) {
    if (wanted % factor != 0) {
      ++factor;
      continue;
    }
    wanted /= factor;
    const Index columns = (call_.n + column_unit_ - 1) / column_unit_ / (column_pieces_ * factor);
    const Index rows = (call_.m + row_unit_ - 1) / row_unit_ / (row_pieces_ * factor);
    if (columns * column_unit_ >= rows * row_unit_ && columns > 0) {
      column_pieces_ *= factor;
    } else if (rows > 0) {
      row_pieces_ *= factor;
    }
  }
  gains_apart_ = gains_apart(call_, work, is_double, false, column_pieces_ == 1 && !call_.trans_a);
}

GemmRange GemmPlan::range_of(int index) const {
  const auto [batch_begin, batch_end] = part_of(call_.batch, 1, index % batch_pieces_, batch_pieces_);
  index /= batch_pieces_;
  const auto [row_begin, row_end] =
      part_of(call_.m, row_pieces_ == 1 ? call_.m : row_unit_, index % row_pieces_, row_pieces_);
  index /= row_pieces_;
  const auto [column_begin, column_end] =
      part_of(call_.n, column_pieces_ == 1 ? call_.n : column_unit_, index, column_pieces_);
  return {batch_begin, batch_end, row_begin, row_end, column_begin, column_end};
}

void GemmPlan::run_piece(int index, const void* a, const void* b, void* c) const {
  if (call_.batch == 0) return;
  const SubnormalsAreZeros flush(flushes_);
  multiply(range_of(index), swapped_ ? b : a, swapped_ ? a : b, c);
}

void GemmPlan::multiply(const GemmRange& range, const void* a, const void* b, void* c) const {
  if (!has_many_terms()) return kernel_(call_, range, a, b, c);
  multiply_many_terms(range, static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
                      static_cast<std::byte*>(c));
}

void GemmPlan::run_piece_past_caches(int index, const void* a, const void* b, void* c) const {
  constexpr Index most = 1 << 20;  // bytes from the first row of a piece to its last
  const Index size = gemm_element_size(call_.type), row = call_.ldc * size;
  if (call_.batch != 1 || call_.add || row < 64) return run_piece(index, a, b, c);
  const GemmRange range = range_of(index);
  const Index rows = range.row_end - range.row_begin, begin = range.column_begin * size;
  if (rows > most / row) return run_piece(index, a, b, c);
  // The same call, so that no bit differs, of a C that would have the piece's first row here. It may begin
  // before the scratch: no arithmetic on pointers leads there.
  auto* const scratch = static_cast<std::byte*>(tidu::detail::ThreadKept<PieceScratch>::get().of(rows * row));
  const auto first =
      reinterpret_cast<std::uintptr_t>(scratch) - static_cast<std::uintptr_t>(range.row_begin * row);
  auto* const moved = reinterpret_cast<void*>(first);  // NOLINT(performance-no-int-to-ptr)
  const SubnormalsAreZeros flush(flushes_);
  multiply(range, swapped_ ? b : a, swapped_ ? a : b, moved);
  std::byte* const to = static_cast<std::byte*>(c) + range.row_begin * row + begin;
  const auto bytes = static_cast<std::size_t>((range.column_end - range.column_begin) * size);
  for (Index r = 0; r < rows; ++r) copy_past_caches(scratch + r * row + begin, to + r * row, bytes);
  finish_past_caches();
}

void GemmPlan::run(const void* a, const void* b, void* c) const {
  const int count = pieces();
  const bool alone = threads_ == 1 || (!gains_apart_ && too_far_apart());
  // Avoids the divisions of run_piece, which take time in tiny matmuls. The bits of oneDNN depend on pieces.
  if (count == 1 || (alone && kernel_ != onednn::matmul)) {
    if (call_.batch == 0) return;
    const SubnormalsAreZeros flush(flushes_);
    multiply({0, call_.batch, 0, call_.m, 0, call_.n}, swapped_ ? b : a, swapped_ ? a : b, c);
    return;
  }
  if (alone) {
    for (int i = 0; i < count; ++i) run_piece(i, a, b, c);
    return;
  }
  struct Context {
    const GemmPlan& plan;
    const void *a, *b;
    void* c;
  } context{*this, a, b, c};
  run_pieces(
      threads_, count,
      [](void* untyped, std::int64_t piece) {
        const Context& at = *static_cast<const Context*>(untyped);
        const auto index = static_cast<int>(piece);
        // See Note [Apart] in parallel.cpp: others read what is written here.
        is_apart() ? at.plan.run_piece_past_caches(index, at.a, at.b, at.c)
                   : at.plan.run_piece(index, at.a, at.b, at.c);
      },
      &context);
}

std::size_t GemmPlan::library_bytes(int threads) const noexcept {
  if (call_.batch == 0 || kernel_ != onednn::matmul) return 0;
  std::size_t most = 0;
  for (int i = 0; i < pieces(); i += batch_pieces_)  // of one member
    most = std::max(most, onednn::working_bytes(call_, range_of(i)));
  return most * static_cast<std::size_t>(std::clamp(threads, 1, pieces()));
}

namespace {

// Bytes of B in panels of all terms each, and of two numbers for each panel that say which terms it has.
Index packed_size(const GemmCall& call) {
  constexpr Index narrowest = 32, terms = 16;  // bytes
  const Index row = call.n * gemm_element_size(call.type);
  return packed_panel_bytes(row, call.k) + (row + narrowest - 1) / narrowest * terms;
}

}  // namespace

std::int64_t GemmPlan::packed_bytes() const noexcept {
  constexpr Index few = 8;  // columns; a narrower matmul may use another method
  const bool gains = pack_ != nullptr && !has_many_terms() && call_.batch == 1 && !swapped_ &&
                     call_.trans_b && call_.m > 2 && call_.n > few;
  return gains ? packed_size(call_) : 0;
}

void GemmPlan::pack(const void* b, void* to) const { pack_(call_, b, to); }

GemmPlan GemmPlan::packed() const {
  GemmPlan plan = *this;
  plan.call_.packed_b = true;
  return plan;
}

bool GemmPlan::can_update() const noexcept {
  constexpr Index row = 256;  // bytes
  const Index size = gemm_element_size(call_.type);
  const auto is_near = [&](Index rows, Index ld) {
    return rows <= CpuTarget::near / size / std::max<Index>(ld, 1) &&
           (ld * size < CpuTarget::page || rows < 32);
  };
  return update_ != nullptr && call_.batch == 1 && !swapped_ && !call_.add && !call_.add_zero &&
         call_.row_ends == nullptr && !call_.packed_b && !call_.trans_b && call_.m > 2 &&
         call_.n * size >= row && call_.k > 0 && call_.k <= kMostUpdateTerms &&
         (kernel_ == onednn::matmul ||
          (is_near(call_.k, call_.ldb) && (!call_.trans_a || is_near(call_.k, call_.lda))));
}

// Updates a piece: copies X first, unless it is C. Our kernels compute what oneDNN does not support.
void GemmPlan::update_piece(int index, const void* a, const void* b, const GemmUpdate& how, void* c) const {
  const GemmRange range = range_of(index);
  const float factor = *static_cast<const float*>(how.scale), scale = how.subtract ? -factor : factor;
  const Index columns = range.column_end - range.column_begin;
  const Index first = range.row_begin * call_.ldc + range.column_begin;
  const float* const x = static_cast<const float*>(how.x) + first;
  float* const to = static_cast<float*>(c) + first;
  const Index rows = range.row_end - range.row_begin;
  if (how.matmul != nullptr) {
    if (onednn::multiply(call_, range, a, b, 1, false, how.matmul)) {
      const float* const matmul = static_cast<const float*>(how.matmul) + first;
      for (Index r = 0; r < rows; ++r) {
        const Index row = r * call_.ldc;
        for (Index i = row; i < row + columns; ++i) to[i] = x[i] + scale * matmul[i];
      }
      return;
    }
  } else if (std::isfinite(scale) && scale != 0) {
    for (Index r = 0; x != to && r < rows; ++r) std::copy_n(x + r * call_.ldc, columns, to + r * call_.ldc);
    if (onednn::multiply(call_, range, a, b, scale, true, c)) return;
  }
  GemmCall call = call_;
  call.n = columns;
  GemmUpdate here = how;
  here.x = static_cast<const float*>(how.x) + range.column_begin;
  if (how.matmul != nullptr) here.matmul = static_cast<float*>(how.matmul) + range.column_begin;
  update_(call, range.row_begin, range.row_end, a, static_cast<const float*>(b) + range.column_begin, here,
          static_cast<float*>(c) + range.column_begin);
}

void GemmPlan::update(int threads, const void* a, const void* b, const GemmUpdate& how,
                      void* c) const noexcept {
  if (kernel_ == onednn::matmul) {
    return parallel_for(threads, pieces(), 1, [&](Index begin, Index end) {
      for (Index piece = begin; piece < end; ++piece) update_piece(static_cast<int>(piece), a, b, how, c);
    });
  }
  GemmCall call = call_;
  if (packs_crowded_ && call.m >= kLeastCrowdedRows &&
      is_crowded(call.k, call.ldb * gemm_element_size(call.type))) {
    try {
      void* const scratch = gemm_workspace(packed_size(call));
      pack_(call, b, scratch);
      call.packed_b = true;
      b = scratch;
    } catch (const std::bad_alloc&) {  // where it is it has the same bits
    }
  }
  // Multiply-adds of a piece: no fewer, and where all have enough no more; rows.
  const Index size = gemm_element_size(call_.type);
  constexpr Index least = 1 << 17, most = 1 << 19, unit = 8;
  const Index work = call_.m * call_.n * call_.k, round = threads * most;
  const Index pieces = std::max<Index>(1, std::min(work / least, threads * ((work + round - 1) / round)));
  const Index even = (call_.m + pieces - 1) / pieces;
  const Index rows = even < 2 * unit ? even : (even + unit - 1) / unit * unit;
  // See Note [Apart] in parallel.cpp: for the next matmul, all threads read what is written here.
  const auto at = reinterpret_cast<std::uintptr_t>(c) | reinterpret_cast<std::uintptr_t>(how.matmul);
  const bool aligned = call_.ldc * size % CpuTarget::line == 0 && at % std::size_t{CpuTarget::line} == 0;
  parallel_for(pieces < 2 ? 1 : threads, call_.m, call_.m < 2 * rows ? call_.m / 2 : rows,
               [&](Index begin, Index end) {
                 GemmUpdate here = how;
                 here.past_caches = (how.past_caches || is_apart()) && aligned;
                 update_(call, begin, end, a, b, here, c);
                 if (here.past_caches) finish_past_caches();
               });
}

void gemm(const GemmCall& call, const void* a, const void* b, void* c, int threads) {
  GemmPlan(call, threads).run(a, b, c);
}

const char* gemm_library(const GemmCall& call) noexcept {
  if (onednn::is_faster(call)) return "onednn";
  switch (choose_isa(GemmIsa::avx512)) {
    case GemmIsa::avx512: return "tidu/avx512";
    case GemmIsa::avx2: return "tidu/avx2";
    case GemmIsa::baseline: break;
  }
  return "tidu/baseline";
}

}  // namespace tidu::cpu_detail
