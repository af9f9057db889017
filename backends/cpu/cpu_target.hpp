// cpu_target.hpp - CpuTarget: the sizes of the memory system for which the schedule and the kernels are
// tuned.
#pragma once

#include <cstdint>

namespace tidu::cpu_detail {

/// Sizes in bytes. They are those of one core of a server processor with AVX2 or AVX-512, and are not read
/// from the machine: tiles, blocks and the order of sums depend on some of them, and the bits of results may
/// not depend on the machine.
struct CpuTarget {
  static constexpr std::int64_t line = 64;  ///< a cache line
  /// Rows that are a multiple of a page apart fall into the same cache sets.
  static constexpr std::int64_t page = 4096;
  static constexpr std::int64_t first_level = 32 * 1024;
  static constexpr std::int64_t second_level = 1024 * 1024;
  static constexpr std::int64_t last_level = 16 * 1024 * 1024;  ///< a core's share
  /// An operand of this size stays in the second-level cache while the others are read once.
  static constexpr std::int64_t near = second_level / 2;
  /// As `near` for an operand that is read again for each of a few columns of tiles.
  static constexpr std::int64_t nearest = second_level / 4;
};

}  // namespace tidu::cpu_detail
