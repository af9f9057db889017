// random.cpp - the kernel of random_bits: Threefry-2x32 on one counter after another.
#include <array>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

using Word = std::uint32_t;
using Words = std::array<Word, 2>;

Word rotated(Word x, unsigned by) { return (x << by) | (x >> (32U - by)); }

// 20 rounds in groups of 4, after each of which the key schedule is added.
Words threefry(Words key, Words x) {
  constexpr unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Word schedule[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAU};
  x[0] += schedule[0];
  x[1] += schedule[1];
  for (Word group = 1; group <= 5; ++group) {
    for (const unsigned by : rotations[(group - 1) % 2]) {
      x[0] += x[1];
      x[1] = rotated(x[1], by) ^ x[0];
    }
    x[0] += schedule[group % 3];
    x[1] += schedule[(group + 1) % 3] + group;
  }
  return x;
}

Word word(Int value) { return static_cast<Word>(static_cast<std::uint64_t>(value)); }

void random_bits(const KernelCall& c) {
  const Tensor& key = c.input(0);
  const Int keys = key.size() / 2;
  const Int count = keys == 0 ? 0 : c.output().size() / keys;
  const bool wide = c.output().dtype() == i64;
  const Writer out(c.output());
  for (Int i = 0; i < c.output().size(); ++i) {
    const Int k = i / count, n = i % count;
    const Words bits =
        threefry({word(load<Int>(key, 2 * k)), word(load<Int>(key, 2 * k + 1))}, {word(n >> 32), word(n)});
    const std::uint64_t value =
        wide ? static_cast<std::uint64_t>(bits[0]) << 32U | bits[1] : std::uint64_t{bits[0] ^ bits[1]};
    out.store<Int>(i, static_cast<Int>(value));
  }
}

}  // namespace

std::vector<NamedKernel> random_kernels() { return {{"random_bits", dtypes::integers, random_bits}}; }

}  // namespace tidu::ref
