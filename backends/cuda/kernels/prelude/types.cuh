// types.cuh - the prelude's first part, which every kernel has: a device's threads or a host's, types of
// elements in memory (boolean, i32, i64, f16, bf16, f32, f64, c64, c128) and what they are computed in (bool
// for boolean, float for f16 and bf16), accesses of sixteen bytes, reductions and scans of a block.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

#ifdef __CUDACC__
#define FN static __device__ __forceinline__
#define SHARED __shared__
FN u32 thread_index() { return threadIdx.x; }
FN u32 block_threads() { return blockDim.x; }
FN u32 block_x() { return blockIdx.x; }
FN u32 block_y() { return blockIdx.y; }
FN u32 block_z() { return blockIdx.z; }
FN u32 grid_x() { return gridDim.x; }
FN u32 float_bits(float x) { return __float_as_uint(x); }
FN float bits_float(u32 x) { return __uint_as_float(x); }
FN u64 double_bits(double x) { return (u64)__double_as_longlong(x); }
FN double bits_double(u64 x) { return __longlong_as_double((i64)x); }
#else
#include <cmath>
#include <cstring>
#define FN static inline
#define __device__
#define SHARED static
#define __global__
#define __launch_bounds__(...)
struct tidu_block {
  u32 thread, threads, x, y, z, grid_x;
  void (*wait)();
  alignas(16) u8 exchange[1024][32];
};
extern "C" tidu_block tidu_now;
FN u32 thread_index() { return tidu_now.thread; }
FN u32 block_threads() { return tidu_now.threads; }
FN u32 block_x() { return tidu_now.x; }
FN u32 block_y() { return tidu_now.y; }
FN u32 block_z() { return tidu_now.z; }
FN u32 grid_x() { return tidu_now.grid_x; }
FN u32 float_bits(float x) {
  u32 y;
  memcpy(&y, &x, 4);
  return y;
}
FN float bits_float(u32 x) {
  float y;
  memcpy(&y, &x, 4);
  return y;
}
FN u64 double_bits(double x) {
  u64 y;
  memcpy(&y, &x, 8);
  return y;
}
FN double bits_double(u64 x) {
  double y;
  memcpy(&y, &x, 8);
  return y;
}
#endif

struct boolean {
  u8 byte;
};
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

#ifdef __CUDACC__
FN float half_value(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
FN u16 half_bits(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#else
FN float half_value(u16 x) {
  const u32 sign = (u32)(x & 0x8000u) << 16, magnitude = x & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x400u) {
    const float y = (float)magnitude * 5.9604644775390625e-8f;
    return sign ? -y : y;
  }
  return bits_float(sign | ((magnitude << 13) + (112u << 23)));
}
FN u16 half_bits(float x) {
  const u32 bits = float_bits(x), magnitude = bits & 0x7fffffffu;
  const u16 sign = (u16)((bits >> 16) & 0x8000u);
  if (magnitude > 0x7f800000u) return (u16)(sign | 0x7fffu);
  if (magnitude >= 0x477ff000u) return (u16)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) return (u16)(sign | (u16)nearbyintf(bits_float(magnitude) * 16777216.0f));
  const u32 rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return (u16)(sign | ((rounded >> 13) - (112u << 10)));
}
#endif
FN float bfloat_value(u16 x) { return bits_float((u32)x << 16); }
FN u16 bfloat_bits(float x) {
  const u32 bits = float_bits(x);
  if (x != x) return (u16)((bits >> 16) | 0x40u);
  return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// What an element in memory is computed in, and back.
FN bool value(boolean x) { return x.byte != 0; }
FN float value(f16 x) { return half_value(x.bits); }
FN float value(bf16 x) { return bfloat_value(x.bits); }
template <class T>
FN T value(T x) {
  return x;
}
FN void store(boolean& to, bool x) { to.byte = x ? 1 : 0; }
FN void store(f16& to, float x) { to.bits = half_bits(x); }
FN void store(bf16& to, float x) { to.bits = bfloat_bits(x); }
template <class T>
FN void store(T& to, T x) {
  to = x;
}

// A result of type M, rounded as it is when it is stored.
template <class M>
struct rounded {
  template <class T>
  FN T of(T x) {
    return x;
  }
};
template <>
struct rounded<f16> {
  FN float of(float x) { return half_value(half_bits(x)); }
};
template <>
struct rounded<bf16> {
  FN float of(float x) { return bfloat_value(bfloat_bits(x)); }
};

// `count` elements that are read and written at once where they are aligned, one by one elsewhere.
template <class T, int count>
struct alignas(sizeof(T) * count) pack {
  T at[count];
};
template <int count, class T>
FN pack<T, count> load_pack(const T* from, bool aligned) {
  if (aligned) return *reinterpret_cast<const pack<T, count>*>(from);
  pack<T, count> x;
#pragma unroll
  for (int k = 0; k < count; ++k) x.at[k] = from[k];
  return x;
}
template <int count, class T>
FN void store_pack(T* to, const pack<T, count>& x, bool aligned) {
  if (aligned) {
    *reinterpret_cast<pack<T, count>*>(to) = x;
    return;
  }
#pragma unroll
  for (int k = 0; k < count; ++k) to[k] = x.at[k];
}
FN bool aligned16(const void* at) { return ((u64)at & 15u) == 0; }

// What all threads of a block do at one time, or all lanes of a warp. Every thread of the block calls it.
namespace together {
#ifdef __CUDACC__
FN void barrier() { __syncthreads(); }
template <class T>
struct words {
  u32 at[(sizeof(T) + 3) / 4];
  FN words of(T x) {
    words w;
    memcpy(w.at, &x, sizeof(T));
    return w;
  }
  __device__ __forceinline__ T get() const {
    T x;
    memcpy(&x, at, sizeof(T));
    return x;
  }
};
template <class T>
FN T lane_xor(T x, u32 mask) {
  words<T> w = words<T>::of(x);
#pragma unroll
  for (u32 i = 0; i < sizeof(w.at) / 4; ++i) w.at[i] = __shfl_xor_sync(0xffffffffu, w.at[i], mask);
  return w.get();
}
template <class T>
FN T lane_up(T x, u32 by) {
  words<T> w = words<T>::of(x);
#pragma unroll
  for (u32 i = 0; i < sizeof(w.at) / 4; ++i) w.at[i] = __shfl_up_sync(0xffffffffu, w.at[i], by);
  return w.get();
}
#else
FN void barrier() { tidu_now.wait(); }
template <class T>
FN T other(T x, u32 thread) {
  static_assert(sizeof(T) <= 32, "");
  memcpy((void*)tidu_now.exchange[thread_index()], (const void*)&x, sizeof(T));
  barrier();
  T y;
  memcpy((void*)&y, (const void*)tidu_now.exchange[thread], sizeof(T));
  barrier();
  return y;
}
template <class T>
FN T lane_xor(T x, u32 mask) {
  return other(x, thread_index() ^ mask);
}
template <class T>
FN T lane_up(T x, u32 by) {
  return other(x, (thread_index() & 31u) < by ? thread_index() : thread_index() - by);
}
#endif
// f over the values of `lanes` neighbours (a power of two up to 32), the same in each of them.
template <class T, class F>
FN T warp_reduce(T x, F f, u32 lanes) {
  for (u32 mask = lanes / 2; mask > 0; mask /= 2) x = f(x, lane_xor(x, mask));
  return x;
}
// f over the values of a block's threads, the same in each of them; threads are a multiple of 32.
template <class T, class F>
FN T block_reduce(T x, F f, T identity) {
  alignas(16) SHARED u8 memory[32 * sizeof(T)];
  T* const of_warp = reinterpret_cast<T*>(memory);
  x = warp_reduce(x, f, 32);
  if (block_threads() == 32) return x;
  barrier();
  if (thread_index() % 32 == 0) of_warp[thread_index() / 32] = x;
  barrier();
  const u32 lane = thread_index() % 32;
  return warp_reduce(lane < block_threads() / 32 ? of_warp[lane] : identity, f, 32);
}
// f over the values of threads whose indices are equal modulo `width`, in their order, for the first `width`
// threads of at most 256.
template <class T, class F>
FN T columns_reduce(T x, F f, u32 width) {
  alignas(16) SHARED u8 memory[256 * sizeof(T)];
  T* const of_thread = reinterpret_cast<T*>(memory);
  barrier();
  of_thread[thread_index()] = x;
  barrier();
  if (thread_index() < width) {
    for (u32 other = thread_index() + width; other < block_threads(); other += width)
      x = f(x, of_thread[other]);
  }
  return x;
}
// f over the values of threads 0 to this one, in order, and over all of them in `total`.
template <class T, class F>
FN T block_scan(T x, F f, T identity, T& total) {
  alignas(16) SHARED u8 memory[32 * sizeof(T)];
  T* const of_warp = reinterpret_cast<T*>(memory);
  const u32 lane = thread_index() % 32, warp = thread_index() / 32, warps = block_threads() / 32;
  for (u32 by = 1; by < 32; by *= 2) {
    const T before = lane_up(x, by);
    if (lane >= by) x = f(before, x);
  }
  barrier();
  if (lane == 31) of_warp[warp] = x;
  barrier();
  T sum = of_warp[0], before = identity;
  for (u32 w = 1; w <= warps; ++w) {
    if (w == warp) before = sum;
    if (w < warps) sum = f(sum, of_warp[w]);
  }
  total = sum;
  return warp == 0 ? x : f(before, x);
}
}  // namespace together
