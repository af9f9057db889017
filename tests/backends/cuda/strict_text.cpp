// strict_text.cpp - for the host's compiler what NVRTC has of itself, put before the device branch of a
// kernel's text. -fsanitize=thread makes the compiler call __tsan_read4 and its like at each access of
// memory; they are defined here, and no sanitizer's runtime is linked.
#include <stdexcept>
#include <string>

#include "cuda/strict.hpp"

namespace tidu::test {

std::string_view strict_text() {
  return R"text(
#include <cmath>
#include <cstring>
#define __CUDACC__ 1
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define UNCHECKED __attribute__((no_sanitize("thread")))
struct strict_dim { unsigned x, y, z; };
struct strict_device {
  strict_dim thread, block, threads, grid;
  void (*access)(const void* at, unsigned long bytes, bool writes, bool aligned);
  void (*barrier)(const void* called_from);
  unsigned (*shuffle)(unsigned mask, unsigned value, unsigned from, unsigned operation);
};
extern "C" { strict_device* tidu_strict; }
UNCHECKED static inline strict_dim strict_thread() { return tidu_strict->thread; }
UNCHECKED static inline strict_dim strict_block() { return tidu_strict->block; }
UNCHECKED static inline strict_dim strict_threads() { return tidu_strict->threads; }
UNCHECKED static inline strict_dim strict_grid() { return tidu_strict->grid; }
UNCHECKED static inline void strict_barrier(const void* called_from) { tidu_strict->barrier(called_from); }
#define threadIdx strict_thread()
#define blockIdx strict_block()
#define blockDim strict_threads()
#define gridDim strict_grid()
// In together::barrier(): by whom that is called.
#define __syncthreads() strict_barrier(__builtin_return_address(0))
template <class To, class From>
static inline To strict_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
#define __float_as_uint(x) strict_bits<unsigned>((float)(x))
#define __uint_as_float(x) strict_bits<float>((unsigned)(x))
#define __double_as_longlong(x) strict_bits<long long>((double)(x))
#define __longlong_as_double(x) strict_bits<double>((long long)(x))
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline float rsqrtf(float x) { return (float)(1 / ::sqrt((double)x)); }
static inline double rsqrt(double x) { return 1 / ::sqrt(x); }
UNCHECKED static inline unsigned strict_lane() { return tidu_strict->thread.x % 32; }
UNCHECKED static inline unsigned __shfl_xor_sync(unsigned mask, unsigned value, unsigned by) {
  return tidu_strict->shuffle(mask, value, strict_lane() ^ by, 2 * by);
}
UNCHECKED static inline unsigned __shfl_up_sync(unsigned mask, unsigned value, unsigned by) {
  const unsigned lane = strict_lane();
  return tidu_strict->shuffle(mask, value, lane < by ? lane : lane - by, 2 * by + 1);
}
// cvt.f32.f16 and cvt.rn.f16.f32 of PTX, by arithmetic: not every compiler has _Float16.
static inline float strict_half_value(unsigned short x) {
  const int exponent = x >> 10 & 31, fraction = x & 1023;
  const float size = exponent == 31  ? (fraction != 0 ? NAN : HUGE_VALF)
                     : exponent == 0 ? ldexpf((float)fraction, -24)
                                     : ldexpf((float)(1024 + fraction), exponent - 25);
  return x & 0x8000 ? -size : size;
}
static inline unsigned short strict_half_bits(float x) {
  if (x != x) return 0x7fff;
  const unsigned short sign = std::signbit(x) ? 0x8000 : 0;
  const float size = fabsf(x);
  if (size >= 65520) return sign | 0x7c00;
  int exponent = 0;
  frexpf(size, &exponent);
  const int last = size < 0x1p-14f ? -24 : exponent - 11;  // exponent of the last bit
  // A fraction that is rounded up to 2048 makes the next exponent, whose bits follow.
  const int rounded = (int)nearbyintf(ldexpf(size, -last));
  return sign | (unsigned short)(rounded + (last + 24) * 1024);
}
#define ACCESS(name, bytes, writes, aligned) \
  extern "C" UNCHECKED __attribute__((visibility("hidden"))) void __tsan_##name(void* at) { \
    tidu_strict->access(at, bytes, writes, aligned); \
  }
#define ACCESSES(bytes) \
  ACCESS(read##bytes, bytes, false, true) \
  ACCESS(write##bytes, bytes, true, true) \
  ACCESS(unaligned_read##bytes, bytes, false, false) \
  ACCESS(unaligned_write##bytes, bytes, true, false)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
extern "C" {
UNCHECKED __attribute__((visibility("hidden"))) void __tsan_read_range(void* at, unsigned long bytes) {
  tidu_strict->access(at, bytes, false, false);
}
UNCHECKED __attribute__((visibility("hidden"))) void __tsan_write_range(void* at, unsigned long bytes) {
  tidu_strict->access(at, bytes, true, false);
}
UNCHECKED __attribute__((visibility("hidden"))) void __tsan_func_entry(void*) {}
UNCHECKED __attribute__((visibility("hidden"))) void __tsan_func_exit() {}
UNCHECKED __attribute__((visibility("hidden"))) void __tsan_init() {}
}
)text";
}

void replace_ptx(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> known[] = {
      {R"(asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));)", "y = strict_half_value(x);"},
      {R"(asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));)", "y = strict_half_bits(x);"}};
  for (const auto& [ptx, words] : known) {
    const std::size_t at = text.find(ptx);
    if (at != std::string::npos) text.replace(at, ptx.size(), words);
  }
  if (const std::size_t at = text.find("asm("); at != std::string::npos)
    throw std::runtime_error("strict emulator: expected PTX that strict_text.cpp knows, got " +
                             text.substr(at, 80));
}

}  // namespace tidu::test
