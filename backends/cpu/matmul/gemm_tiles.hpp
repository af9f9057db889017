// gemm_tiles.hpp - tiles of C in registers: the microkernel of GEMM for each number of rows and each width,
// and the limits that choose among them. Part of gemm_kernels.hpp, which explains TIDU_GEMM_ISA.
#pragma once

#include <cstdint>
#include <utility>

#include "cpu/cpu_target.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// The layout of A in a tile. `rows` (a row-major A): real row r starts at a + r * stride, and its terms are
/// contiguous. `columns` (a transposed A): row r starts at a + r, and its terms are `stride` apart. A complex
/// row is a pair of real rows.
enum class AOrder : std::uint8_t { rows, columns };

/// The epilogue in a tile: C = X + scale AB or X - scale AB. `x` is the address for the first tile, with rows
/// as far apart as those of C; `matmul`, the destination of AB, has the same layout.
template <class T>
struct TileUpdate {
  const T* x;
  T scale;
  bool subtract;
  bool past_caches;
  T* matmul;  // or null
};

/// Distances, in scalars, of A, B and C from one tile to the next.
struct TileSteps {
  Index a, b, c;
};

/// Prefetches R rows of `Bytes` bytes, `row` scalars apart, which are needed after the next tile.
template <class T, int R, int Bytes>
TIDU_GEMM_INLINE void bring_near(const T* at, Index row) {
  constexpr int kLine = 64;
  for (int r = 0; r < R; ++r, at += row) {
    for (int i = 0; i < Bytes; i += kLine) __builtin_prefetch(reinterpret_cast<const char*>(at) + i);
  }
}

template <class T>
using TileFunction = void (*)(Index count, const TileSteps& steps, Index k, const T* a, Index a_stride,
                              const T* b, Index b_stride, T* c, Index ldc, int last_lanes, Adding adding);
template <class T>
using UpdateFunction = void (*)(Index count, const TileSteps& steps, Index k, const T* a, Index a_stride,
                                const T* b, Index b_stride, T* c, Index ldc, int last_lanes,
                                const TileUpdate<T>& update);

/// Computes `count` tiles of C in succession, each with R real rows of V vectors; with Partial, the last
/// vector has `last_lanes` lanes. C = A B, C += A B or C = A B + 0.0; with Update, the epilogue.
template <class T, bool Complex, AOrder Order, int R, int V, bool Partial, int Bytes, bool Update>
TIDU_GEMM_INLINE void make_tiles(Index count, const TileSteps& steps, Index k, const T* a, Index a_stride,
                                 const T* b, Index b_stride, T* c, Index ldc, int last_lanes, Adding adding,
                                 const TileUpdate<T>* update) {
  constexpr int kStep = Complex ? 2 : 1;
  constexpr int kGroup = 3 * kStep;  // rows addressed from one pointer: at 0, 1 and 2 strides
  constexpr int kPointers = Order == AOrder::rows ? (R + kGroup - 1) / kGroup : 1;
  constexpr Index kWidth = kLanes<T, Bytes>;
  using Lanes = Vector<T, Bytes>;
  const TileSteps step = steps;
  const T* const first = c;
  for (; count > 0; --count, a += step.a, b += step.b, c += step.c) {
    if constexpr (Update) {
      bring_near<T, R, V * kVectorBytes>(update->x + (c - first), ldc);
      if (!update->past_caches) {
        bring_near<T, R, V * kVectorBytes>(c, ldc);
        if (update->matmul != nullptr) bring_near<T, R, V * kVectorBytes>(update->matmul + (c - first), ldc);
      }
    }
    Lanes sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = Lanes{};
    }
    const T* pointer[kPointers];
#pragma GCC unroll 8
    for (int g = 0; g < kPointers; ++g) pointer[g] = a + 3 * g * a_stride;
    const T* from = b;
    for (Index p = 0; p < k; ++p) {
      Lanes bv[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        if constexpr (Partial) {
          bv[v] = v == V - 1 ? load_first<T>(from + v * kWidth, last_lanes) : load<T>(from + v * kWidth);
        } else {
          bv[v] = load<T, Bytes>(from + v * kWidth);
        }
      }
      from += b_stride;
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        T factor;
        if constexpr (Order == AOrder::columns) {
          factor = pointer[0][r];
        } else if constexpr (Complex) {
          factor = pointer[r / kGroup][(r % kGroup) / 2 * a_stride + r % 2];
        } else {
          factor = pointer[r / kGroup][(r % kGroup) * a_stride];
        }
        const Lanes av = factor - Lanes{};
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] = av * bv[v] + sum[r][v];
      }
#pragma GCC unroll 8
      for (int g = 0; g < kPointers; ++g) pointer[g] += Order == AOrder::columns ? a_stride : kStep;
    }
    if constexpr (Complex) {
#pragma GCC unroll 16
      for (int r = 0; r < R; r += kStep) {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] += times_i<T, Bytes>(sum[r + 1][v]);
      }
    }
    T* to = c;
    if constexpr (Update) {
      const Vector<T> scale = (update->subtract ? -update->scale : update->scale) - Vector<T>{};
      const T* x = update->x + (c - first);
      if (update->matmul != nullptr) {
        T* matmul = update->matmul + (c - first);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r, matmul += ldc) {
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) {
            if (Partial && v == V - 1) {
              store_first<T>(matmul + v * kLanes<T>, sum[r][v], last_lanes);
            } else if (update->past_caches) {
              stream<T>(matmul + v * kLanes<T>, sum[r][v]);
            } else {
              store<T>(matmul + v * kLanes<T>, sum[r][v]);
            }
          }
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r, x += ldc) {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const Vector<T> old = Partial && v == V - 1 ? load_first<T>(x + v * kLanes<T>, last_lanes)
                                                      : load<T>(x + v * kLanes<T>);
          sum[r][v] = old + rounded<T>(sum[r][v] * scale);
        }
      }
    } else if (adding == Adding::to_zero) {
#pragma GCC unroll 16
      for (int r = 0; r < R; r += kStep) {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] += Lanes{};
      }
    } else if (adding == Adding::to_result) {
#pragma GCC unroll 16
      for (int r = 0; r < R; r += kStep, to += ldc) {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          if constexpr (Partial) {
            sum[r][v] += v == V - 1 ? load_first<T>(to + v * kWidth, last_lanes) : load<T>(to + v * kWidth);
          } else {
            sum[r][v] += load<T, Bytes>(to + v * kWidth);
          }
        }
      }
      to = c;
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r += kStep, to += ldc) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        if constexpr (Partial) {
          if (v == V - 1) {
            store_first<T>(to + v * kWidth, sum[r][v], last_lanes);
            continue;
          }
        }
        if constexpr (Update) {
          if (update->past_caches) {
            stream<T>(to + v * kWidth, sum[r][v]);
            continue;
          }
        }
        store<T, Bytes>(to + v * kWidth, sum[r][v]);
      }
    }
  }
}

template <class T, bool Complex, AOrder Order, int R, int V, bool Partial, int Bytes = kVectorBytes>
void tiles(Index count, const TileSteps& steps, Index k, const T* a, Index a_stride, const T* b,
           Index b_stride, T* c, Index ldc, int last_lanes, Adding adding) {
  make_tiles<T, Complex, Order, R, V, Partial, Bytes, false>(count, steps, k, a, a_stride, b, b_stride, c,
                                                             ldc, last_lanes, adding, nullptr);
}
template <class T, AOrder Order, int R, int V, bool Partial>
void update_tiles(Index count, const TileSteps& steps, Index k, const T* a, Index a_stride, const T* b,
                  Index b_stride, T* c, Index ldc, int last_lanes, const TileUpdate<T>& update) {
  make_tiles<T, false, Order, R, V, Partial, kVectorBytes, true>(count, steps, k, a, a_stride, b, b_stride, c,
                                                                 ldc, last_lanes, Adding::nothing, &update);
}

/// The widths of tiles, for the remaining columns of C: a whole tile, more than one vector, up to one vector,
/// half a vector, or one vector. Tiles of one vector or less may have more rows.
enum TileWidth : std::uint8_t { whole, most, narrow, half, one };

/// Bytes of half a vector, if half vectors pay: Zen 4 processes vectors of 64 bytes in halves, and AVX2
/// stores parts of vectors in several pieces.
inline constexpr int kHalfBytes = kVectorBytes == 16 ? kVectorBytes : kVectorBytes / 2;

/// Are there separate tiles for one whole vector and for a part of one? Masks of AVX-512 cost nothing.
inline constexpr bool kOneIsWhole = kVectorBytes == 32;

/// Maximum number of real rows of a tile of one vector.
inline constexpr int kNarrowRows = kVectorBytes == 64 ? 16 : kVectorBytes == 32 ? 12 : kTileRows;

/// Maximum number of real rows of a tile if B stays near. Reading B again for fewer rows is then cheap, and
/// smaller tiles reduce the pause between tiles.
inline constexpr int kNearRows = kVectorBytes == 64 ? 8 : kTileRows;

/// As kNearRows if the whole GEMM stays near. On Zen 4, a store occupies the port that reads the third
/// operand of a multiplication. Each of the 16 stores at the end of a tile of 8 rows therefore delays a
/// multiplication; the eight stores of a tile of 4 rows do not. (Measured.)
template <class T, bool Complex>
TIDU_GEMM_INLINE Index near_rows(Index m, Index width, Index k, Index ldc) {
  if constexpr (kVectorBytes < 64 || Complex) return kNearRows;
  constexpr Index kSize = sizeof(T), kFewRows = 4, kMostOfA = CpuTarget::first_level, kMostOfC = 128 * 1024,
                  kMostOfRow = 4095;
  const bool is_small =
      m * k * kSize <= kMostOfA && m * width * kSize <= kMostOfC && ldc * kSize <= kMostOfRow;
  return is_small && computes_in_halves() ? kFewRows : kNearRows;
}

/// The tile width for `width` remaining scalars of C, and the lanes of the last vector.
template <class T>
struct WidthOfTiles {
  static constexpr Index kWidth = kTileVectors * kLanes<T>;
  explicit WidthOfTiles(Index left)
      : kind(left >= kWidth              ? whole
             : left > kWidth - kLanes<T> ? most
             : 2 * left == kLanes<T>     ? half
             : left == kLanes<T>         ? one
                                         : narrow),
        last_lanes(static_cast<int>(kind == whole  ? kLanes<T>
                                    : kind == most ? left - (kWidth - kLanes<T>)
                                                   : left)) {}
  TileWidth kind;
  int last_lanes;
};

template <class T, bool Complex, AOrder Order, int... I, int... J>
TileFunction<T> find_tiles(TileWidth width, int rows, std::integer_sequence<int, I...>,
                           std::integer_sequence<int, J...>) {
  constexpr int kStep = Complex ? 2 : 1;
  static constexpr TileFunction<T> wide[2][sizeof...(I)] = {
      {tiles<T, Complex, Order, (I + 1) * kStep, kTileVectors, false>...},
      {tiles<T, Complex, Order, (I + 1) * kStep, kTileVectors, true>...}};
  static constexpr TileFunction<T> slim[sizeof...(J)] = {
      tiles<T, Complex, Order, (J + 1) * kStep, 1, true>...};
  if constexpr (kHalfBytes != kVectorBytes) {
    static constexpr TileFunction<T> halves[sizeof...(J)] = {
        tiles<T, Complex, Order, (J + 1) * kStep, 1, false, kHalfBytes>...};
    if (width == half) return halves[rows - 1];
  }
  if constexpr (kOneIsWhole) {
    static constexpr TileFunction<T> vectors[sizeof...(J)] = {
        tiles<T, Complex, Order, (J + 1) * kStep, 1, false>...};
    if (width == one) return vectors[rows - 1];
  }
  return width >= narrow ? slim[rows - 1] : wide[width][rows - 1];
}

/// The kernel for tiles of `rows` rows, counted in elements.
template <class T, bool Complex, AOrder Order>
TileFunction<T> find_tiles(TileWidth width, Index rows) {
  constexpr int kStep = Complex ? 2 : 1;
  return find_tiles<T, Complex, Order>(width, static_cast<int>(rows),
                                       std::make_integer_sequence<int, kTileRows / kStep>{},
                                       std::make_integer_sequence<int, kNarrowRows / kStep>{});
}

template <class T, AOrder Order, int... I>
constexpr UpdateFunction<T> find_update_tiles(TileWidth width, Index rows, std::integer_sequence<int, I...>) {
  constexpr UpdateFunction<T> table[3][sizeof...(I)] = {
      {update_tiles<T, Order, I + 1, kTileVectors, false>...},
      {update_tiles<T, Order, I + 1, kTileVectors, true>...},
      {update_tiles<T, Order, I + 1, 1, true>...}};
  return table[width >= narrow ? narrow : width][rows - 1];
}
/// The epilogue kernel for tiles of at most kNearRows rows.
template <class T, AOrder Order>
constexpr UpdateFunction<T> find_update_tiles(TileWidth width, Index rows) {
  return find_update_tiles<T, Order>(width, rows, std::make_integer_sequence<int, kNearRows>{});
}

/// Terms of the sum in one block, and thus the bytes of a block of A, which stays in the second-level cache.
/// Longer blocks were measured faster, since C is written less often, although a panel of B then fills the
/// first-level cache.
template <bool Complex>
inline constexpr Index kBlockTerms = Complex ? 256 : 384;

/// Bytes of a row of a block of B.
inline constexpr Index kBlockWidthBytes = 2048;

/// Maximum bytes of an operand that is near: it stays in the second-level cache and is read in place.
inline constexpr double kNear = CpuTarget::near;

/// Maximum bytes of A for reading all of it again for each of a few columns of tiles.
inline constexpr double kNearest = CpuTarget::nearest;

/// Rows that are multiples of this apart fall into the same cache sets, and into different pages.
inline constexpr double kPage = CpuTarget::page;

/// Does packing a crowded B pay? It was measured faster with AVX2 on Zen 3 and slower with AVX-512 on Zen 4,
/// whose larger tiles read less of B:
///     AVX2, Zen 3: up to half the time; AVX-512, Zen 4: up to 9 % more time
inline constexpr bool kPacksCrowded = kVectorBytes == 32;
template <class T>
constexpr bool is_crowded_here(Index rows, Index ld) {
  return kPacksCrowded && is_crowded(rows, ld * static_cast<Index>(sizeof(T)));
}

/// Rows of a tile if rows have ends, so that a tile has few elements that are not demanded.
inline constexpr Index kRowsOfEnds = kTileRows >= 8 ? 8 : 4;

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
