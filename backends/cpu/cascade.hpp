// cascade.hpp - the order in which parts of a long sum are added up: sixteen by sixteen, so that rounding
// grows with the logarithm of their number, and of up to sixteen parts one after another. It depends on their
// number alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tidu::cpu_detail {

/// How many of `count` parts that are combined in a cascade make one of at most 16 parts of the next level.
constexpr std::int64_t cascade_step(std::int64_t count) {
  constexpr std::int64_t together = 16;
  std::int64_t step = 1;
  while (step * together < count) step *= together;
  return step;
}
/// Combines parts [0, count), numbered from `first` on, into the place `to`: make(first, to) computes a part
/// there, room(level, first) is a place for one, add(to, from) combines two. Up to 16 parts, or combinations
/// of 16, of 256, ..., are combined one after another. Requires count > 0.
template <class Target, class Make, class Room, class AddTo>
void in_cascade(std::int64_t first, std::int64_t count, Target to, const Make& make, const Room& room,
                const AddTo& add, std::int64_t level = 0) {
  if (count == 1) return make(first, to);
  const std::int64_t step = cascade_step(count);
  in_cascade(first, step, to, make, room, add, level + 1);
  for (std::int64_t at = step; at < count; at += step) {
    const Target part = room(level, first + at);
    in_cascade(first + at, std::min(step, count - at), part, make, room, add, level + 1);
    add(to, part);
  }
}
/// Levels at most, where a level has so many parts as a 64-bit count of chunks of 256 or more can be cut
/// into.
inline constexpr std::int64_t cascade_levels = 15;

}  // namespace tidu::cpu_detail
