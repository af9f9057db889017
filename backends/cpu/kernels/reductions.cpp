// reductions.cpp - the reductions, once for each instruction set.
//
// A function that is compiled for an instruction set must not be one that other code shares, and so could run
// on a CPU without these instructions. Shared functions are therefore always inlined here.
#include "cpu/kernels/reductions.hpp"

#include <cstring>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of what g++ 12's own header leaves undefined
#endif
#include <immintrin.h>
#endif

namespace tidu::cpu_detail {
namespace {

// Elements from which on there are many lanes, so that one addition need not wait for the last.
constexpr std::int64_t long_line = 128;
constexpr std::int64_t few_lanes = 16, many_lanes = 64;

// As the functors Add, Maximum and Minimum.
template <Reduction reduction, class T>
inline __attribute__((always_inline)) T combined(T a, T b) {
  if constexpr (reduction == Reduction::sum) return a + b;
  if constexpr (reduction == Reduction::largest) return a > b || a != a ? a : b;
  return a < b || a != a ? a : b;
}

// The reduction of a and the elements i of four arrays.
template <Reduction reduction, class T>
inline __attribute__((always_inline)) T combined_rows(T a, const T* const* x, std::int64_t i) {
  for (int k = 0; k < 4; ++k) a = combined<reduction>(a, x[k][i]);
  return a;
}

template <Reduction reduction, std::int64_t lanes, class T>
inline __attribute__((always_inline)) T finish(T* each, const T* x, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) each[k] = combined<reduction>(each[k], x[k]);
  for (std::int64_t step = lanes / 2; step > 0; step /= 2) {
    for (std::int64_t k = 0; k < step; ++k) each[k] = combined<reduction>(each[k], each[k + step]);
  }
  return each[0];
}

template <Reduction reduction, class T>
struct Baseline {
  static T line(const T* x, std::int64_t count) {
    return count < long_line ? in_vectors<few_lanes>(x, count) : in_vectors<many_lanes>(x, count);
  }
  template <std::int64_t lanes>
  static T in_vectors(const T* x, std::int64_t count) {
    T each[lanes];
    for (std::int64_t k = 0; k < lanes; ++k) each[k] = x[k];
    std::int64_t i = lanes;
    for (; i + lanes <= count; i += lanes) {
      for (std::int64_t k = 0; k < lanes; ++k) each[k] = combined<reduction>(each[k], x[i + k]);
    }
    return finish<reduction, lanes>(each, x + i, count - i);
  }
  static void row(T* to, const T* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = combined<reduction>(to[i], x[i]);
  }
  static void rows(T* to, const T* const* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = combined_rows<reduction>(to[i], x, i);
  }
  static void matrix(T* to, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t count) {
    for (std::int64_t r = 0; r < rows; ++r) row(to, x + r * stride, count);
  }
};

#if defined(__x86_64__)

// The last elements, fewer than there are lanes, and then all lanes to one, as `finish` does in memory.
template <class Kernel, int vectors>
__attribute__((target("avx2"), always_inline)) inline float finish_in_registers(__m256* lane, const float* x,
                                                                                std::int64_t count) {
  const __m256i positions = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (int k = 0; k < vectors && count > 8 * k; ++k) {
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count) - 8 * k), positions);
    const __m256 sum = Kernel::with(lane[k], _mm256_maskload_ps(x + 8 * k, mask));
    lane[k] = _mm256_blendv_ps(lane[k], sum, _mm256_castsi256_ps(mask));
  }
  for (int step = vectors / 2; step > 0; step /= 2) {
    for (int k = 0; k < step; ++k) lane[k] = Kernel::with(lane[k], lane[k + step]);
  }
  __m256 all = Kernel::with(lane[0], _mm256_permute2f128_ps(lane[0], lane[0], 0x01));
  all = Kernel::with(all, _mm256_permute_ps(all, 0x0e));
  return _mm256_cvtss_f32(Kernel::with(all, _mm256_permute_ps(all, 0x01)));
}
template <class Kernel, int vectors>
__attribute__((target("avx2"), always_inline)) inline double finish_in_registers(__m256d* lane,
                                                                                 const double* x,
                                                                                 std::int64_t count) {
  const __m256i positions = _mm256_setr_epi64x(0, 1, 2, 3);
  for (int k = 0; k < vectors && count > 4 * k; ++k) {
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count - 4 * k), positions);
    const __m256d sum = Kernel::with(lane[k], _mm256_maskload_pd(x + 4 * k, mask));
    lane[k] = _mm256_blendv_pd(lane[k], sum, _mm256_castsi256_pd(mask));
  }
  for (int step = vectors / 2; step > 0; step /= 2) {
    for (int k = 0; k < step; ++k) lane[k] = Kernel::with(lane[k], lane[k + step]);
  }
  const __m256d all = Kernel::with(lane[0], _mm256_permute2f128_pd(lane[0], lane[0], 0x01));
  return _mm256_cvtsd_f64(Kernel::with(all, _mm256_permute_pd(all, 0x01)));
}
template <class Kernel, int vectors>
__attribute__((target("avx512f"), always_inline)) inline double finish_in_registers(__m512d* lane,
                                                                                    const double* x,
                                                                                    std::int64_t count) {
  for (int k = 0; k < vectors && count > 8 * k; ++k) {
    const auto mask = static_cast<__mmask8>(count >= 8 * k + 8 ? 0xffU : (1U << (count - 8 * k)) - 1U);
    lane[k] =
        _mm512_mask_mov_pd(lane[k], mask, Kernel::with(lane[k], _mm512_maskz_loadu_pd(mask, x + 8 * k)));
  }
  for (int step = vectors / 2; step > 0; step /= 2) {
    for (int k = 0; k < step; ++k) lane[k] = Kernel::with(lane[k], lane[k + step]);
  }
  __m512d all = Kernel::with(lane[0], _mm512_shuffle_f64x2(lane[0], lane[0], 0x0e));
  all = Kernel::with(all, _mm512_shuffle_f64x2(all, all, 0x01));
  return _mm512_cvtsd_f64(Kernel::with(all, _mm512_permute_pd(all, 0x01)));
}
template <class Kernel, int vectors>
__attribute__((target("avx512f"), always_inline)) inline float finish_in_registers(__m512* lane,
                                                                                   const float* x,
                                                                                   std::int64_t count) {
  for (int k = 0; k < vectors && count > 16 * k; ++k) {
    const auto mask = static_cast<__mmask16>(count >= 16 * k + 16 ? 0xffffU : (1U << (count - 16 * k)) - 1U);
    lane[k] =
        _mm512_mask_mov_ps(lane[k], mask, Kernel::with(lane[k], _mm512_maskz_loadu_ps(mask, x + 16 * k)));
  }
  for (int step = vectors / 2; step > 0; step /= 2) {
    for (int k = 0; k < step; ++k) lane[k] = Kernel::with(lane[k], lane[k + step]);
  }
  __m512 all = Kernel::with(lane[0], _mm512_shuffle_f32x4(lane[0], lane[0], 0x0e));
  all = Kernel::with(all, _mm512_shuffle_f32x4(all, all, 0x01));
  all = Kernel::with(all, _mm512_permute_ps(all, 0x0e));
  return _mm512_cvtss_f32(Kernel::with(all, _mm512_permute_ps(all, 0x01)));
}
// max(a, b) of the hardware is b where either is NaN: a NaN in a is put back.
// clang-format off
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TIDU_FOLDS(Isa, targets, T, V, width, load, add, max, min, keep, store)                            \
  template <Reduction the_reduction>                                                                                 \
  struct Isa<the_reduction, T> {                                                                                \
    static constexpr Reduction reduction = the_reduction;                                                                 \
    __attribute__((target(targets), always_inline)) static inline V with(V a, V b) {                       \
      if constexpr (reduction == Reduction::sum) return add(a, b);                                                   \
      if constexpr (reduction == Reduction::largest) return keep(a, max(a, b));                                      \
      return keep(a, min(a, b));                                                                           \
    }                                                                                                      \
    __attribute__((target(targets))) static T line(const T* x, std::int64_t count) {                       \
      return count < long_line ? in_vectors<few_lanes>(x, count) : in_vectors<many_lanes>(x, count);           \
    }                                                                                                      \
    template <std::int64_t lanes>                                                                          \
    __attribute__((target(targets))) static T in_vectors(const T* x, std::int64_t count) {                   \
      constexpr int vectors = static_cast<int>(lanes) / (width);                                           \
      V lane[vectors];                                                                                     \
      for (int k = 0; k < vectors; ++k) lane[k] = load(x + k * (width));                                   \
      std::int64_t i = lanes;                                                                              \
      for (; i + lanes <= count; i += lanes) {                                                             \
        for (int k = 0; k < vectors; ++k) lane[k] = with(lane[k], load(x + i + k * (width)));              \
      }                                                                                                    \
      return finish_in_registers<Isa, vectors>(lane, x + i, count - i);                                    \
    }                                                                                                      \
    __attribute__((target(targets))) static void row(T* to, const T* x, std::int64_t count) {              \
      std::int64_t i = 0;                                                                                  \
      for (; i + (width) <= count; i += (width)) store(to + i, with(load(to + i), load(x + i)));           \
      for (; i < count; ++i) to[i] = combined<reduction>(to[i], x[i]);                                          \
    }                                                                                                      \
    __attribute__((target(targets))) static void rows(T* to, const T* const* x, std::int64_t count) {      \
      const T *const x0 = x[0], *const x1 = x[1], *const x2 = x[2], *const x3 = x[3];                      \
      std::int64_t i = 0;                                                                                  \
      for (; i + (width) <= count; i += (width)) {                                                         \
        const V two = with(with(load(to + i), load(x0 + i)), load(x1 + i));                                \
        store(to + i, with(with(two, load(x2 + i)), load(x3 + i)));                                        \
      }                                                                                                    \
      for (; i < count; ++i) to[i] = combined_rows<reduction>(to[i], x, i);                                     \
    }                                                                                                      \
    template <int vectors>                                                                                 \
    __attribute__((target(targets), always_inline)) static inline void columns(                            \
        T* to, const T* x, std::int64_t rows, std::int64_t stride) {                                       \
      V lane[vectors];                                                                                     \
      _Pragma("GCC unroll 8") for (int k = 0; k < vectors; ++k) lane[k] = load(to + k * (width));                                  \
      for (std::int64_t r = 0; r < rows; ++r, x += stride) {                                               \
        _Pragma("GCC unroll 8") for (int k = 0; k < vectors; ++k) lane[k] = with(lane[k], load(x + k * (width)));                  \
      }                                                                                                    \
      for (int k = 0; k < vectors; ++k) store(to + k * (width), lane[k]);                                  \
    }                                                                                                      \
    __attribute__((target(targets))) static void matrix(T* to, const T* x, std::int64_t rows,              \
                                                        std::int64_t stride, std::int64_t count) {         \
      std::int64_t i = 0;                                                                                  \
      for (; i + 8 * (width) <= count; i += 8 * (width)) columns<8>(to + i, x + i, rows, stride);          \
      if (i + 4 * (width) <= count) columns<4>(to + i, x + i, rows, stride), i += 4 * (width);             \
      for (; i + (width) <= count; i += (width)) columns<1>(to + i, x + i, rows, stride);                  \
      for (std::int64_t r = 0; i < count && r < rows; ++r) {                                               \
        for (std::int64_t k = i; k < count; ++k) to[k] = combined<reduction>(to[k], x[r * stride + k]);         \
      }                                                                                                    \
    }                                                                                                      \
  };
#define TIDU_KEEP_PS256(a, m) _mm256_blendv_ps(m, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q))
#define TIDU_KEEP_PD256(a, m) _mm256_blendv_pd(m, a, _mm256_cmp_pd(a, a, _CMP_UNORD_Q))
#define TIDU_KEEP_PS512(a, m) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), m, a)
#define TIDU_KEEP_PD512(a, m) _mm512_mask_blend_pd(_mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q), m, a)

template <Reduction reduction, class T>
struct Avx2;
TIDU_FOLDS(Avx2, "avx2", float, __m256, 8, _mm256_loadu_ps, _mm256_add_ps, _mm256_max_ps,
           _mm256_min_ps, TIDU_KEEP_PS256, _mm256_storeu_ps)
TIDU_FOLDS(Avx2, "avx2", double, __m256d, 4, _mm256_loadu_pd, _mm256_add_pd, _mm256_max_pd,
           _mm256_min_pd, TIDU_KEEP_PD256, _mm256_storeu_pd)
template <Reduction reduction, class T>
struct Avx512;
TIDU_FOLDS(Avx512, "avx512f", float, __m512, 16, _mm512_loadu_ps, _mm512_add_ps,
           _mm512_max_ps, _mm512_min_ps, TIDU_KEEP_PS512, _mm512_storeu_ps)
TIDU_FOLDS(Avx512, "avx512f", double, __m512d, 8, _mm512_loadu_pd, _mm512_add_pd,
           _mm512_max_pd, _mm512_min_pd, TIDU_KEEP_PD512, _mm512_storeu_pd)
// NOLINTEND(bugprone-macro-parentheses)
// clang-format on
#endif

template <template <Reduction, class> class Kernels, Reduction reduction, class T>
constexpr ReductionKernel<T> kernel{Kernels<reduction, T>::line, Kernels<reduction, T>::row,
                                    Kernels<reduction, T>::rows, Kernels<reduction, T>::matrix};

template <Reduction reduction, class T>
ReductionKernel<T> choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kernel<Avx512, reduction, T>;
  if (__builtin_cpu_supports("avx2")) return kernel<Avx2, reduction, T>;
#endif
  return kernel<Baseline, reduction, T>;
}

}  // namespace

template <class T>
const ReductionKernel<T>& reduction_kernel(Reduction reduction) {
  static const ReductionKernel<T> kernels[] = {choose<Reduction::sum, T>(), choose<Reduction::largest, T>(),
                                               choose<Reduction::smallest, T>()};
  return kernels[static_cast<int>(reduction)];
}
template const ReductionKernel<float>& reduction_kernel<float>(Reduction reduction);
template const ReductionKernel<double>& reduction_kernel<double>(Reduction reduction);

}  // namespace tidu::cpu_detail
