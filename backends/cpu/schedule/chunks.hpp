// chunks.hpp - chunks of the blocks of a tiled loop that reduces: see Note [Chunks] in cpu/loop.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tidu::passes {

/// Maximum number of chunks.
inline constexpr std::int64_t max_chunks = 8;

/// The number of chunks for `blocks` blocks whose accumulators take `sum_bytes` bytes together. It depends on
/// these sizes alone. Large accumulators limit the number to the available memory, but not below two. If
/// adding up the accumulators of a chunk is slow, a chunk has at least four blocks, except for a few chunks.
constexpr std::int64_t sum_chunks(std::int64_t blocks, std::size_t sum_bytes) {
  constexpr std::size_t memory = std::size_t{1} << 22, long_sums = std::size_t{1} << 16;
  const auto fitting = static_cast<std::int64_t>(memory / std::max<std::size_t>(sum_bytes, 1));
  const std::int64_t most =
      sum_bytes < long_sums ? max_chunks : std::clamp<std::int64_t>(blocks / 4, 4, max_chunks);
  return std::min({blocks, most, std::max<std::int64_t>(2, fitting)});
}

}  // namespace tidu::passes
