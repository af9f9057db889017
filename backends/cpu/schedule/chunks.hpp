// chunks.hpp - how blocks of a loop that leaves sums are dealt: see Note [Chunks] in cpu/loop.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tidu::passes {

/// Chunks at most.
inline constexpr std::int64_t max_chunks = 8;

/// In how many chunks so many blocks are dealt whose sums take so many bytes together; of much memory for
/// sums in two. Where it takes long to add up a chunk's sums, all but a few chunks have four blocks. It
/// depends on the sizes alone.
constexpr std::int64_t sum_chunks(std::int64_t blocks, std::size_t sum_bytes) {
  constexpr std::size_t memory = std::size_t{1} << 22, long_sums = std::size_t{1} << 16;
  const auto fitting = static_cast<std::int64_t>(memory / std::max<std::size_t>(sum_bytes, 1));
  const std::int64_t most =
      sum_bytes < long_sums ? max_chunks : std::clamp<std::int64_t>(blocks / 4, 4, max_chunks);
  return std::min({blocks, most, std::max<std::int64_t>(2, fitting)});
}

}  // namespace tidu::passes
