// gemm_vectors.hpp - vectors of one instruction set, and the copies that pack B into panels. The compiler
// flags of the including file decide the width of a vector. Part of gemm_kernels.hpp, which explains
// TIDU_GEMM_ISA.
#pragma once

#include <cstdint>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

using Index = std::int64_t;

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kTileRows = 14, kTileVectors = 2;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32, kTileRows = 6, kTileVectors = 2;
#else
inline constexpr int kVectorBytes = 16, kTileRows = 6, kTileVectors = 2;
#endif

#define TIDU_GEMM_INLINE inline __attribute__((always_inline))

template <class T, int Bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes)));
};
template <class T, int Bytes = kVectorBytes>
using Vector = typename VectorOf<T, Bytes>::type;

template <class T, int Bytes = kVectorBytes>
inline constexpr int kLanes = Bytes / static_cast<int>(sizeof(T));

TIDU_GEMM_INLINE Index least(Index x, Index y) { return x < y ? x : y; }
TIDU_GEMM_INLINE Index ceil_div(Index x, Index y) { return (x + y - 1) / y; }

/// The summand to which a GEMM is added: none, the present C, or 0.0, which turns -0.0 into 0.0.
enum class Adding : std::uint8_t { nothing, to_result, to_zero };

template <class T>
TIDU_GEMM_INLINE T added(Adding adding, const T* c, T value) {
  return adding == Adding::to_result ? *c + value : adding == Adding::to_zero ? value + T(0) : value;
}

// ---- vectors

template <class T, int Bytes = kVectorBytes>
TIDU_GEMM_INLINE Vector<T, Bytes> load(const T* p) {
  Vector<T, Bytes> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class T, int Bytes = kVectorBytes>
TIDU_GEMM_INLINE void store(T* p, Vector<T, Bytes> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

/// Stores to an aligned address, past the caches if the CPU supports it.
template <class T>
TIDU_GEMM_INLINE void stream(T* p, Vector<T> v) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(v));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(v));
#else
  store<T>(p, v);
#endif
}

/// Is each lane a zero of either sign?
template <class T>
TIDU_GEMM_INLINE bool is_zero(Vector<T> v) {
#if defined(__AVX512F__)
  if constexpr (static_cast<T>(0.5) == static_cast<T>(0)) {
    return _mm512_test_epi64_mask(reinterpret_cast<__m512i>(v), reinterpret_cast<__m512i>(v)) == 0;
  } else if constexpr (sizeof(T) == 4) {
    return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(v), _mm512_setzero_ps(), _CMP_NEQ_UQ) == 0;
  } else {
    return _mm512_cmp_pd_mask(reinterpret_cast<__m512d>(v), _mm512_setzero_pd(), _CMP_NEQ_UQ) == 0;
  }
#else
  const auto differs = v != Vector<T>{};
#if defined(__AVX2__)
  return _mm256_testz_si256(reinterpret_cast<__m256i>(differs), reinterpret_cast<__m256i>(differs)) != 0;
#else
  std::int64_t parts[kVectorBytes / 8];
  __builtin_memcpy(parts, &differs, sizeof parts);
  std::int64_t any = 0;
  for (const std::int64_t part : parts) any |= part;
  return any == 0;
#endif
#endif
}

/// A barrier against fused multiply-add: the product is rounded before it is used in an addition.
template <class T>
TIDU_GEMM_INLINE Vector<T> rounded(Vector<T> product) {
#if defined(__AVX512F__)
  asm("" : "+v"(product));
#elif defined(__x86_64__)
  asm("" : "+x"(product));
#else
  T lanes[kLanes<T>];
  store<T>(lanes, product);
  for (volatile T& lane : lanes) lane = T(lane);
  product = load<T>(lanes);
#endif
  return product;
}

#if defined(__AVX512F__)
/// Loads the first `count` lanes (1 to all) and touches no other memory; other lanes are zero.
template <class T>
TIDU_GEMM_INLINE Vector<T> load_first(const T* p, int count) {
  if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<Vector<T>>(
        _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << count) - 1u), p));
  } else {
    return reinterpret_cast<Vector<T>>(
        _mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << count) - 1u), p));
  }
}

template <class T>
TIDU_GEMM_INLINE void store_first(T* p, Vector<T> v, int count) {
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << count) - 1u), reinterpret_cast<__m512i>(v));
  } else {
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << count) - 1u), reinterpret_cast<__m512i>(v));
  }
}
#elif defined(__AVX2__)
TIDU_GEMM_INLINE __m256i first_lanes32(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
TIDU_GEMM_INLINE __m256i first_lanes64(int count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}

/// Loads the first `count` lanes (1 to all) and touches no other memory; other lanes are zero.
template <class T>
TIDU_GEMM_INLINE Vector<T> load_first(const T* p, int count) {
  if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<Vector<T>>(
        _mm256_maskload_epi32(reinterpret_cast<const int*>(p), first_lanes32(count)));
  } else {
    return reinterpret_cast<Vector<T>>(
        _mm256_maskload_epi64(reinterpret_cast<const long long*>(p), first_lanes64(count)));
  }
}

/// Stores in pieces, since a masked store takes 12 cycles on AMD's processors.
template <class T>
TIDU_GEMM_INLINE void store_first(T* p, Vector<T> v, int count) {
  if (count == kLanes<T>) return store<T>(p, v);
  constexpr int kHalf = kLanes<T> / 2;
  const __m256i all = reinterpret_cast<__m256i>(v);
  __m128i left = _mm256_castsi256_si128(all);
  if (count >= kHalf) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), left);
    left = _mm256_extracti128_si256(all, 1);
    p += kHalf;
    count -= kHalf;
  }
  constexpr int kQuarter = 8 / static_cast<int>(sizeof(T));
  if (count >= kQuarter) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), left);
    left = _mm_unpackhi_epi64(left, left);
    p += kQuarter;
    count -= kQuarter;
  }
  if (count > 0) {  // four bytes
    const int last = _mm_cvtsi128_si32(left);
    __builtin_memcpy(p, &last, sizeof last);
  }
}
#else
/// Loads the first `count` lanes (1 to all) and touches no other memory; other lanes are zero.
template <class T>
TIDU_GEMM_INLINE Vector<T> load_first(const T* p, int count) {
  Vector<T> v = {};
  for (int i = 0; i < count; ++i) v[i] = p[i];
  return v;
}

template <class T>
TIDU_GEMM_INLINE void store_first(T* p, Vector<T> v, int count) {
  for (int i = 0; i < count; ++i) p[i] = v[i];
}
#endif

template <class T, int Bytes = kVectorBytes, int... I>
TIDU_GEMM_INLINE Vector<T, Bytes> swap_pairs(Vector<T, Bytes> v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (I ^ 1)...);
}

template <class T, int Bytes = kVectorBytes, int... I>
TIDU_GEMM_INLINE Vector<T, Bytes> alternating_signs(std::integer_sequence<int, I...>) {
  return Vector<T, Bytes>{static_cast<T>(I % 2 == 0 ? -1 : 1)...};
}

/// Multiplies interleaved complex numbers (p, q) by i: (-q, p).
template <class T, int Bytes = kVectorBytes>
TIDU_GEMM_INLINE Vector<T, Bytes> times_i(Vector<T, Bytes> v) {
  using Lanes = std::make_integer_sequence<int, kLanes<T, Bytes>>;
  return swap_pairs<T, Bytes>(v, Lanes{}) * alternating_signs<T, Bytes>(Lanes{});
}

// ---- copies of B

/// Transposes a square of 32 bytes by 32 bytes, with elements of 4 bytes (8 x 8) or 8 bytes (4 x 4).
typedef std::uint32_t Words __attribute__((vector_size(32)));
typedef std::uint64_t LongWords __attribute__((vector_size(32)));

#if defined(__AVX2__)
TIDU_GEMM_INLINE void transpose_square(const char* from, Index from_bytes, char* to, Index to_bytes,
                                       std::integral_constant<int, 4>) {
  // Halves of rows are loaded into their final position, which saves a shuffle.
  const auto halves = [&](Index row, Index byte) __attribute__((always_inline)) {
    const auto half = [&](Index of) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + of * from_bytes + byte));
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(half(row)), half(row + 4), 1);
  };
#pragma GCC unroll 2
  for (Index i = 0; i < 8; i += 4) {
    const Index byte = i * 4;
    const __m256i r0 = halves(0, byte), r1 = halves(1, byte), r2 = halves(2, byte), r3 = halves(3, byte);
    const __m256i s0 = _mm256_unpacklo_epi32(r0, r1), s1 = _mm256_unpackhi_epi32(r0, r1);
    const __m256i s2 = _mm256_unpacklo_epi32(r2, r3), s3 = _mm256_unpackhi_epi32(r2, r3);
    const auto put = [&](Index row, __m256i v) __attribute__((always_inline)) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + row) * to_bytes), v);
    };
    put(0, _mm256_unpacklo_epi64(s0, s2));
    put(1, _mm256_unpackhi_epi64(s0, s2));
    put(2, _mm256_unpacklo_epi64(s1, s3));
    put(3, _mm256_unpackhi_epi64(s1, s3));
  }
}
#else
TIDU_GEMM_INLINE void transpose_square(const char* from, Index from_bytes, char* to, Index to_bytes,
                                       std::integral_constant<int, 4>) {
  Words r[8];
  for (int i = 0; i < 8; ++i) __builtin_memcpy(&r[i], from + i * from_bytes, 32);
  Words s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    const Words low = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    const Words high = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    __builtin_memcpy(to + i * to_bytes, &low, 32);
    __builtin_memcpy(to + (i + 4) * to_bytes, &high, 32);
  }
}
#endif

TIDU_GEMM_INLINE void transpose_square(const char* from, Index from_bytes, char* to, Index to_bytes,
                                       std::integral_constant<int, 8>) {
  LongWords r[4];
  for (int i = 0; i < 4; ++i) __builtin_memcpy(&r[i], from + i * from_bytes, 32);
  const LongWords s0 = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6);
  const LongWords s1 = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
  const LongWords s2 = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6);
  const LongWords s3 = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
  r[0] = __builtin_shufflevector(s0, s2, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(s1, s3, 0, 1, 4, 5);
  r[2] = __builtin_shufflevector(s0, s2, 2, 3, 6, 7);
  r[3] = __builtin_shufflevector(s1, s3, 2, 3, 6, 7);
  for (int i = 0; i < 4; ++i) __builtin_memcpy(to + i * to_bytes, &r[i], 32);
}

/// to[p, j] = from[j, p] for j < n, p < k; elements have Bytes bytes, and row distances are in bytes.
template <int Bytes>
void transpose_copy(Index n, Index k, const char* from, Index from_bytes, char* to, Index to_bytes) {
  constexpr Index kSide = Bytes <= 8 ? 32 / Bytes : 1;
  Index p = 0, squares = 0;  // rows and columns of `to` that consist of squares
  if constexpr (kSide > 1) {
    squares = n / kSide * kSide;
    // All of a cache line of each row of `from` is used before the next rows, since rows that are pages apart
    // fall into the same cache sets. Rows of `to` are written completely, a few at a time.
    constexpr Index kLine = 256 / Bytes;
    for (Index end = 0; p + kSide <= k; p = end) {
      end = p + least(kLine, (k - p) / kSide * kSide);
      for (Index j = 0; j < squares; j += kSide) {
        for (Index i = p; i < end; i += kSide)
          transpose_square(from + j * from_bytes + i * Bytes, from_bytes, to + i * to_bytes + j * Bytes,
                           to_bytes, std::integral_constant<int, Bytes>{});
      }
    }
  }
  for (; p < k; ++p) {
    for (Index j = 0; j < squares; ++j)
      __builtin_memcpy(to + p * to_bytes + j * Bytes, from + j * from_bytes + p * Bytes, Bytes);
  }
  for (Index j = squares; j < n; ++j) {
    for (p = 0; p < k; ++p)
      __builtin_memcpy(to + p * to_bytes + j * Bytes, from + j * from_bytes + p * Bytes, Bytes);
  }
}

/// Copies `count` elements, whole vectors first.
template <class T>
TIDU_GEMM_INLINE void copy(const T* from, T* to, Index count) {
  Index i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) store<T>(to + i, load<T>(from + i));
  if (i < count)
    store_first<T>(to + i, load_first<T>(from + i, static_cast<int>(count - i)), static_cast<int>(count - i));
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
