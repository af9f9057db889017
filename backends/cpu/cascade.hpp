// cascade.hpp - cascade summation: the order in which partial results of a long reduction are combined.
// Sixteen parts form one part of the next level, and up to sixteen are added one after another, so the
// rounding error grows with the logarithm of the number of parts. The order depends on that number alone (not
// on threads).
#pragma once

#include <algorithm>
#include <cstdint>

namespace tidu::cpu_detail {

/// Number of `count` parts that form one of the at most 16 parts of the next level.
constexpr std::int64_t cascade_step(std::int64_t count) {
  constexpr std::int64_t together = 16;
  std::int64_t step = 1;
  while (step * together < count) step *= together;
  return step;
}
/// Combines the parts [0, count), numbered from `first`, into `to`. make(first, to) computes a part in `to`,
/// scratch(level, first) returns memory for a part, and add(to, from) combines two parts. Each level combines
/// up to 16 parts, or combinations of 16, 256, ... of them, in order. Requires count > 0.
template <class Target, class Make, class Scratch, class AddTo>
void in_cascade(std::int64_t first, std::int64_t count, Target to, const Make& make, const Scratch& scratch,
                const AddTo& add, std::int64_t level = 0) {
  if (count == 1) return make(first, to);
  const std::int64_t step = cascade_step(count);
  in_cascade(first, step, to, make, scratch, add, level + 1);
  for (std::int64_t at = step; at < count; at += step) {
    const Target part = scratch(level, first + at);
    in_cascade(first + at, std::min(step, count - at), part, make, scratch, add, level + 1);
    add(to, part);
  }
}
/// The most levels: enough for any 64-bit element count in chunks of 256 or more.
inline constexpr std::int64_t cascade_levels = 15;

}  // namespace tidu::cpu_detail
