// gemm_transposed.hpp - tiles for a transposed B, which is transposed in registers while the processor
// multiplies. Part of gemm_kernels.hpp, which explains TIDU_GEMM_ISA.
//
// A tile is one vector wide. For as many terms as 16 bytes hold, it loads 16 bytes of each row of B that is
// one of its columns, and shuffles them into vectors along rows of C. The shuffles do not use the ports of
// multiplications, whose factors from A are memory operands.
#pragma once

#include "cpu/matmul/gemm_tiles.hpp"
#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// Are there such tiles? Only for floating-point types, with enough registers and with factors as memory
/// operands.
template <class T, bool Complex>
inline constexpr bool kTransposes =
    kVectorBytes == 64 && !Complex && static_cast<T>(0.5) != static_cast<T>(0);

/// The minimum number of terms from which such tiles beat packed panels, for C with `vectors` vectors of
/// columns. The tiles take longer to start, and a panel with few columns is soon packed for tiles with twice
/// as many sums. (Measured.)
template <class T>
constexpr Index min_transposed_elements(Index m, Index vectors) {
  constexpr bool kWords = sizeof(T) == 4;
  if (m > kNarrowRows) return 32;
  if (vectors == 2) return m < 8 ? (kWords ? 28 : 48) : (kWords ? 12 : 20);
  if (m < 8 && (vectors == 3 || vectors == 4)) return kWords ? 10 : m <= 4 ? 32 : 12;
  return 8;
}

/// Are such tiles faster than packed panels with half vectors? They need the same time for half a vector as
/// for a whole one. If rows of B are multiples of a page apart, or rows of both operands multiples of half a
/// page, they fall into few sets of the first-level cache, and are evicted before the next terms are
/// transposed. `lda` is 0 for a transposed A.
template <class T>
constexpr bool gains_by_transposing(Index m, Index n, Index k, Index lda, Index ldb) {
  constexpr Index kHalfPage = 2048 / static_cast<Index>(sizeof(T));
  if (ldb % (2 * kHalfPage) == 0 || (lda != 0 && lda % kHalfPage == 0 && ldb % kHalfPage == 0)) return false;
  const Index last = n % kLanes<T>;
  return (last == 0 || 2 * last > kLanes<T> || n >= 8 * kLanes<T>)&&k >=
         min_transposed_elements<T>(m, ceil_div(n, kLanes<T>));
}

/// Is it cheaper to transpose A and C than B? Vectors then lie along columns of C instead of rows.
template <class T, bool Complex>
constexpr bool is_better_transposed(bool trans_a, Index m, Index n, Index k, Index lda, Index ldb) {
  if (Complex) return false;
  constexpr Index kToTranspose = 4;  // elements that are transposed in the time of one vector multiplication
  const Index vectors = ceil_div(n, kLanes<T>) * k;
  Index straight = m * vectors + n * k / kToTranspose;
  if (kTransposes<T, Complex> && gains_by_transposing<T>(m, n, k, trans_a ? 0 : lda, ldb))
    straight = (m > 7 ? m : (2 * m + 8) / 3) * vectors * 17 / 16;  // with few rows, shuffles dominate
  const Index transposed = n * ceil_div(m, kLanes<T>) * k + ((trans_a ? 0 : m * k) + m * n) / kToTranspose;
  return transposed < straight;
}

/// Number of terms that are transposed at a time.
template <class T>
inline constexpr int kTransposed = 16 / static_cast<int>(sizeof(T));

/// Loads 16 bytes, or those of the first `terms` elements, from four addresses into one vector.
template <class T, bool Whole>
TIDU_GEMM_INLINE Vector<T> four_places(const T* b, const Index* at, Index terms) {
#if defined(__AVX512F__)
  const auto place = [&](int i) __attribute__((always_inline)) {
    // Loaded each time: in a register, it would displace operands of multiplications.
    Index distance;
    asm volatile("movq %1, %0" : "=r"(distance) : "m"(at[i]));
    const T* const from = b + distance;
    if constexpr (Whole) {
      (void)terms;
      return _mm_loadu_ps(reinterpret_cast<const float*>(from));
    } else {
      const auto words = static_cast<unsigned>(terms * static_cast<Index>(sizeof(T)) / 4);
      return _mm_maskz_loadu_ps(static_cast<__mmask8>((1u << words) - 1u), from);
    }
  };
  const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(place(0)), place(1), 1);
  const __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(place(2)), place(3), 1);
  return reinterpret_cast<Vector<T>>(_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1));
#else
  Vector<T> rows{};
  for (int i = 0; i < 4; ++i) {
    for (Index p = 0; p < (Whole ? kTransposed<T> : terms); ++p) rows[i * kTransposed<T> + p] = b[at[i] + p];
  }
  return rows;
#endif
}

/// Interleaves pieces of Piece lanes from the first halves (Second: second halves) of the 16-byte parts of x
/// and y: x, y, x, y.
template <class T, bool Second, int Piece, int... I>
TIDU_GEMM_INLINE Vector<T> unpack(Vector<T> x, Vector<T> y, std::integer_sequence<int, I...>) {
  constexpr int kPart = kLanes<T, 16>, kAll = kLanes<T>;
  return __builtin_shufflevector(x, y,
                                 (I / kPart * kPart + (Second ? kPart / 2 : 0) +
                                  I % kPart / (2 * Piece) * Piece + I % Piece + (I / Piece % 2) * kAll)...);
}

/// Transposes: column[i][j] = b[at[order of j] + i] for i < kTransposed. `at` is in the order in which a
/// vector takes the rows: 0, 4, 8, 12, 1, 5, ... for 4-byte elements, and 0, 2, 4, 6, 1, 3, 5, 7 for 8-byte
/// elements.
template <class T, bool Whole>
TIDU_GEMM_INLINE void transpose(const T* b, const Index* at, Index terms, Vector<T>* column) {
  constexpr std::make_integer_sequence<int, kLanes<T>> lanes;
  const Vector<T> r0 = four_places<T, Whole>(b, at, terms), r1 = four_places<T, Whole>(b, at + 4, terms);
  if constexpr (sizeof(T) == 4) {
    const Vector<T> r2 = four_places<T, Whole>(b, at + 8, terms),
                    r3 = four_places<T, Whole>(b, at + 12, terms);
    const Vector<T> s0 = unpack<T, false, 1>(r0, r1, lanes), s1 = unpack<T, true, 1>(r0, r1, lanes);
    const Vector<T> s2 = unpack<T, false, 1>(r2, r3, lanes), s3 = unpack<T, true, 1>(r2, r3, lanes);
    column[0] = unpack<T, false, 2>(s0, s2, lanes);
    column[1] = unpack<T, true, 2>(s0, s2, lanes);
    column[2] = unpack<T, false, 2>(s1, s3, lanes);
    column[3] = unpack<T, true, 2>(s1, s3, lanes);
  } else {
    column[0] = unpack<T, false, 1>(r0, r1, lanes);
    column[1] = unpack<T, true, 1>(r0, r1, lanes);
  }
}

/// Offsets of the rows of B that are a tile's columns, in the order of transpose().
template <class T>
struct TransposedRows {
  /// Only the first `columns` lanes are columns of C.
  TransposedRows(int columns_of, Index ldb) : columns(columns_of) {
    constexpr int kLong = kLanes<T> / 4;
    for (int i = 0; i < kLanes<T>; ++i) at[i % kLong * 4 + i / kLong] = (i < columns ? i : columns - 1) * ldb;
  }
  int columns;
  Index at[kLanes<T>];
};

template <class T>
using TransposingFunction = void (*)(Index count, const TileSteps& steps, Index blocks, Index k, const T* a,
                                     Index a_stride, const T* b, const TransposedRows<T>& rows, T* panel,
                                     T* c, Index ldc, Adding adding);

/// Computes `count` times `blocks` tiles below one another, each with R rows and one vector. `b` is the start
/// of the rows of B for the first tile. If `panel` is not null, the transposed rows are stored there, in rows
/// of kTileVectors vectors; successive tiles are side by side.
template <class T, AOrder Order, int R>
void transposing_tiles(Index count, const TileSteps& steps, Index blocks, Index k, const T* a, Index a_stride,
                       const T* b, const TransposedRows<T>& rows, T* panel, T* c, Index ldc, Adding adding) {
  constexpr int kGroup = 3, kTerms = kTransposed<T>;
  constexpr int kPointers = Order == AOrder::rows ? (R + kGroup - 1) / kGroup : 1;
  const TileSteps step = steps;
  Index at[kLanes<T>];  // a local copy, so that no register need point to it
  __builtin_memcpy(at, rows.at, sizeof at);
  const int columns = rows.columns;
  const Index down = Order == AOrder::rows ? R * a_stride : R;
  for (Index block = 0; count > 0;) {
    Vector<T> sum[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sum[r] = Vector<T>{};
    const T* pointer[kPointers];
#pragma GCC unroll 8
    for (int g = 0; g < kPointers; ++g) pointer[g] = a + kGroup * g * a_stride;
    // Later terms are at fixed offsets from the pointers, in succession; computed offsets would take
    // registers.
    const auto multiply = [&](Vector<T> bv) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const T factor =
            Order == AOrder::columns ? pointer[0][r] : pointer[r / kGroup][r % kGroup * a_stride];
        sum[r] = (factor - Vector<T>{}) * bv + sum[r];
      }
#pragma GCC unroll 8
      for (int g = 0; g < kPointers; ++g) {
        pointer[g] += Order == AOrder::columns ? a_stride : 1;
        asm("" : "+r"(pointer[g]));
      }
    };
    T* to = panel;
    Index p = 0;
    for (; p + kTerms <= k; p += kTerms) {
      Vector<T> column[kTerms];
      transpose<T, true>(b + p, at, kTerms, column);
#pragma GCC unroll 4
      for (int i = 0; i < kTerms; ++i) {
        if (to != nullptr) store_halves<T>(to + i * kTileVectors * kLanes<T>, column[i]);
        multiply(column[i]);
      }
      if (to != nullptr) to += kTerms * kTileVectors * kLanes<T>;
    }
    if (p < k) {
      Vector<T> column[kTerms];
      transpose<T, false>(b + p, at, k - p, column);
      for (int i = 0; i < kTerms - 1 && p < k; ++p, ++i) {
        if (to != nullptr) store<T>(to + i * kTileVectors * kLanes<T>, column[i]);
        multiply(column[i]);
      }
    }
    if (panel != nullptr) panel += kLanes<T>;
    T* row = c;
    const bool is_whole = columns == kLanes<T>;
#pragma GCC unroll 16
    for (int r = 0; adding == Adding::to_result && r < R; ++r, row += ldc)
      sum[r] += load_first<T>(row, columns);
#pragma GCC unroll 16
    for (int r = 0; adding == Adding::to_zero && r < R; ++r) sum[r] += Vector<T>{};
    row = c;
#pragma GCC unroll 16
    for (int r = 0; is_whole && r < R; ++r, row += ldc) store<T>(row, sum[r]);
#pragma GCC unroll 16
    for (int r = 0; !is_whole && r < R; ++r, row += ldc) store_first<T>(row, sum[r], columns);
    if (++block < blocks) {
      a += down;
      c += R * ldc;
    } else {
      --count;
      a += step.a - (blocks - 1) * down;
      b += step.b;
      c += step.c - (blocks - 1) * R * ldc;
      block = 0;
    }
  }
}

template <class T, AOrder Order, int... I>
TransposingFunction<T> find_transposing_tiles(Index rows, std::integer_sequence<int, I...>) {
  static constexpr TransposingFunction<T> table[] = {transposing_tiles<T, Order, I + 1>...};
  return table[rows - 1];
}
/// The kernel for `rows` rows, 1 to kNarrowRows.
template <class T, AOrder Order>
TransposingFunction<T> find_transposing_tiles(Index rows) {
  return find_transposing_tiles<T, Order>(rows, std::make_integer_sequence<int, kNarrowRows>{});
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
