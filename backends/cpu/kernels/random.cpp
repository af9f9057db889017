// random.cpp - random_bits: Threefry-2x32 on blocks of counters, a round for the whole block at a time.
#include <algorithm>

#include "cpu/kernel.hpp"
#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

using Word = std::uint32_t;
constexpr std::int64_t block = 256;

struct RandomState {
  std::int64_t keys, count;  // elements for each key
  int threads;
};

template <unsigned by>
void round(Word* x, Word* y) {
  for (std::int64_t i = 0; i < block; ++i) {
    x[i] += y[i];
    y[i] = ((y[i] << by) | (y[i] >> (32U - by))) ^ x[i];
  }
}
template <unsigned a, unsigned b, unsigned c, unsigned d>
void rounds(Word* x, Word* y, Word add_x, Word add_y) {
  round<a>(x, y);
  round<b>(x, y);
  round<c>(x, y);
  round<d>(x, y);
  for (std::int64_t i = 0; i < block; ++i) {
    x[i] += add_x;
    y[i] += add_y;
  }
}

// x, y: the bits of counters first, first + 1, …
void threefry(const std::int32_t* key, std::int64_t first, Word* x, Word* y) {
  const Word k0 = static_cast<Word>(key[0]), k1 = static_cast<Word>(key[1]), k2 = k0 ^ k1 ^ 0x1BD11BDAU;
  const auto start = static_cast<std::uint64_t>(first);
  for (std::int64_t i = 0; i < block; ++i) {
    const std::uint64_t counter = start + static_cast<std::uint64_t>(i);
    x[i] = static_cast<Word>(counter >> 32U) + k0;
    y[i] = static_cast<Word>(counter) + k1;
  }
  rounds<13, 15, 26, 6>(x, y, k1, k2 + 1);
  rounds<17, 29, 16, 24>(x, y, k2, k0 + 2);
  rounds<13, 15, 26, 6>(x, y, k0, k1 + 3);
  rounds<17, 29, 16, 24>(x, y, k1, k2 + 4);
  rounds<13, 15, 26, 6>(x, y, k2, k0 + 5);
}

template <class T>
void random_bits(const RandomState& s, const Call& call) {
  for (std::int64_t k = 0; k < s.keys; ++k) {
    const std::int32_t* key = call.operand<std::int32_t>(0) + 2 * k;
    T* out = call.result<T>() + k * s.count;
    parallel_for(s.threads, s.count, 16 * block, [=](std::int64_t begin, std::int64_t end) {
      Word x[block], y[block];
      for (std::int64_t at = begin; at < end; at += block) {
        threefry(key, at, x, y);
        const std::int64_t count = std::min(block, end - at);
        for (std::int64_t i = 0; i < count; ++i) {
          if constexpr (sizeof(T) == 4) {
            out[at + i] = static_cast<T>(x[i] ^ y[i]);
          } else {
            out[at + i] = static_cast<T>(static_cast<std::uint64_t>(x[i]) << 32U | y[i]);
          }
        }
      }
    });
  }
}

Plan plan_random_bits(const PlanRequest& request) {
  const std::int64_t keys = request.in[0].size() / 2;
  const RandomState state{keys, keys == 0 ? 0 : request.out[0].size() / keys, request.threads};
  return request.out[0].dtype() == i64 ? make_plan<RandomState, random_bits<std::int64_t>>(state)
                                       : make_plan<RandomState, random_bits<std::int32_t>>(state);
}

constexpr KernelEntry random_entries[] = {{"random_bits", plan_random_bits, integers}};

}  // namespace

std::span<const KernelEntry> random_kernels() { return random_entries; }

}  // namespace tidu::cpu_detail
