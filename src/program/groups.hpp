// groups.hpp - limits of fused groups, for the passes that make them and change them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidu::passes {

// Operations in one group, and values that it reads from memory, at most.
inline constexpr std::size_t most_in_group = 512;
inline constexpr std::size_t most_operands = 20;
// Elements of a period of several rows of a group, at least and at most.
inline constexpr std::int64_t fewest_in_period = 512;
inline constexpr std::int64_t most_in_period = 65536;

}  // namespace tidu::passes
