// reduce_line.hpp - reductions of contiguous elements in a fixed order: blocks are reduced in several lanes,
// and the results of blocks pairwise, so that the error grows with the logarithm of the count (Higham, "The
// accuracy of floating point summation", 1993). See Note [Order of sums] in fusion/reduce.hpp. A reduction F
// has F()(a, b) and F::identity<T>().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {

/// Pairwise reduction of values in the order of arrival. It holds one partial result for each power of two.
template <class F, class T>
class Cascade {
 public:
  void add(T value) {
    std::uint64_t bits = count_++;
    std::size_t level = 0;
    for (; (bits & 1U) != 0; bits >>= 1U, ++level) value = F()(partial_[level], value);
    partial_[level] = value;
  }
  T result() const {
    T value = F::template identity<T>();
    bool any = false;
    for (std::size_t level = 0; level < 64; ++level) {
      if (((count_ >> level) & 1U) == 0) continue;
      value = any ? F()(partial_[level], value) : partial_[level];
      any = true;
    }
    return value;
  }

 private:
  std::array<T, 64> partial_;
  std::uint64_t count_ = 0;
};

inline constexpr std::int64_t reduction_block = 1024;
inline constexpr std::int64_t reduction_chunk = 256;
inline constexpr std::int64_t reduction_columns = 256;
/// Shorter lines are reduced element by element.
inline constexpr std::int64_t short_line = 16;

/// Reductions of floating-point numbers that generated code computes too, with the same bits.
enum class Reduction : std::uint8_t { sum, largest, smallest };

/// Reduces `count` elements, at least as many as there are lanes; the lanes are then reduced by halves.
template <std::int64_t lanes, class F, class T>
T reduce_in_lanes(const T* x, std::int64_t count) {
  T lane[lanes];
  for (std::int64_t k = 0; k < lanes; ++k) lane[k] = x[k];
  std::int64_t i = lanes;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t k = 0; k < lanes; ++k) lane[k] = F()(lane[k], x[i + k]);
  }
  for (std::int64_t k = 0; i < count; ++i, ++k) lane[k] = F()(lane[k], x[i]);
  for (std::int64_t step = lanes / 2; step > 0; step /= 2) {
    for (std::int64_t k = 0; k < step; ++k) lane[k] = F()(lane[k], lane[k + step]);
  }
  return lane[0];
}

/// Reduces at most reduction_block contiguous elements. An F with a member `reduction` takes 64 lanes for 128
/// elements and more of a floating-point type, so that one addition need not wait for the last.
template <class F, class T>
T reduce_line(const T* x, std::int64_t count) {
  constexpr std::int64_t few_lanes = short_line, many_lanes = 64, long_line = 128;
  if (count < few_lanes) {
    T value = F::template identity<T>();
    for (std::int64_t i = 0; i < count; ++i) value = i == 0 ? x[0] : F()(value, x[i]);
    return value;
  }
  if constexpr (RealNumber<T> && requires { F::reduction; }) {
    if (count >= long_line) return reduce_in_lanes<many_lanes, F>(x, count);
  }
  return reduce_in_lanes<few_lanes, F>(x, count);
}

/// to[i] = F()(to[i], from[i])
template <class F, class T>
void reduce_into(T* to, const T* from, std::int64_t count) {
  TIDU_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) to[i] = F()(to[i], from[i]);
}

}  // namespace tidu::cpu_detail
