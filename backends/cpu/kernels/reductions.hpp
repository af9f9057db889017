// reductions.hpp - sums, minima and maxima of f32 and f64 by vector instructions of this CPU, with the bits
// of the reductions in reduce_line.hpp: see Note [Order of sums] in reduce.hpp.
#pragma once

#include <cstdint>

namespace tidu::cpu_detail {

enum class Reduction : std::uint8_t { sum, largest, smallest };

template <class T>
struct ReductionKernel {
  /// Reduces `count` elements, 16 or more: in 16 lanes, or in 64 lanes from 128 elements on; the lanes are
  /// then reduced by halves.
  T (*line)(const T* x, std::int64_t count);
  /// to[i] = reduce(to[i], x[i]).
  void (*row)(T* to, const T* x, std::int64_t count);
  /// As `row` for four arrays, one after another.
  void (*rows)(T* to, const T* const* x, std::int64_t count);
  /// As `row` for the rows of a matrix, `stride` elements apart. Some columns at a time stay in registers.
  void (*matrix)(T* to, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t count);
};

/// The kernel for this CPU; T is float or double.
template <class T>
const ReductionKernel<T>& reduction_kernel(Reduction reduction);

}  // namespace tidu::cpu_detail
