// folds.hpp - sums and extrema of f32 and f64 by vector instructions of the CPU that is there, with the bits
// of the same folds element by element: see Note [Order of sums] in reduce.hpp.
#pragma once

#include <cstdint>

namespace tidu::cpu_detail {

enum class Fold : std::uint8_t { sum, largest, smallest };

template <class T>
struct FoldKernel {
  /// `count` elements, 16 or more: in 16 lanes, from 128 on in 64, and these by halves.
  T (*line)(const T* x, std::int64_t count);
  /// to[i] = fold(to[i], x[i]).
  void (*row)(T* to, const T* x, std::int64_t count);
  /// The same of four arrays, one after another.
  void (*rows)(T* to, const T* const* x, std::int64_t count);
  /// The same of the rows of a matrix that lie `stride` elements apart. Some columns at a time stay in
  /// registers.
  void (*matrix)(T* to, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t count);
};

/// Of T float or double.
template <class T>
const FoldKernel<T>& fold_kernel(Fold fold);

}  // namespace tidu::cpu_detail
