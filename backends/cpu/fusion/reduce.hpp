// reduce.hpp - the loops of reductions. The axes of the operand are merged into groups that are kept or
// reduced; sums are added in a fixed order.
//
// Note [Order of sums]: contiguous elements are reduced in 16 or 64 lanes over blocks of 1024 elements, and
// rows in chunks of 256. The results of blocks are reduced pairwise, and those of chunks sixteen by sixteen
// (see in_cascade). The order depends on the shapes alone and never on threads. The error grows with the
// logarithm of the count.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "cpu/cascade.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/kernels/reduce_line.hpp"
#include "tidu/graph/op.hpp"

namespace tidu::cpu_detail {

/// The axes of an operand; neighbours are merged if both are kept or both reduced.
struct ReductionShape {
  struct Axis {
    std::int64_t extent, stride;
  };
  std::vector<Axis> kept;        ///< outermost first, without the contiguous one if that is kept
  std::vector<Axis> reduced;     ///< outermost first, without the contiguous one if that is reduced
  bool inner_reduced = true;     ///< is the contiguous group reduced?
  std::int64_t inner = 1;        ///< its extent
  std::int64_t rows = 1;         ///< product of `kept`
  std::int64_t num_reduced = 1;  ///< product of `reduced`
  std::int64_t outputs = 1;
  int threads = 1;

  static ReductionShape of(Type operand, const Ints& axes, int threads);
};

/// Iterates over the index space of axes in row-major order, with the offset.
class Walk {
 public:
  explicit Walk(const std::vector<ReductionShape::Axis>& axes, std::int64_t start = 0) : axes_(axes) {
    for (std::size_t k = axes.size(); k-- > 0;) {
      at_[k] = axes[k].extent == 0 ? 0 : start % axes[k].extent;
      start = axes[k].extent == 0 ? 0 : start / axes[k].extent;
      offset_ += at_[k] * axes[k].stride;
    }
  }
  std::int64_t offset() const { return offset_; }
  void next() {
    for (std::size_t k = axes_.size(); k-- > 0;) {
      offset_ += axes_[k].stride;
      if (++at_[k] < axes_[k].extent) return;
      offset_ -= axes_[k].extent * axes_[k].stride;
      at_[k] = 0;
    }
  }

 private:
  const std::vector<ReductionShape::Axis>& axes_;
  std::array<std::int64_t, 64> at_;  // by axis; not cleared, which would take longer than a short reduction
  std::int64_t offset_ = 0;
};

/// Number of short lines that are reduced at the same time.
inline constexpr std::int64_t short_lines = 8;
/// `lines`, rounded down to a multiple of short_lines, but not to 0.
constexpr std::int64_t in_short_lines(std::int64_t lines) {
  return std::max(short_lines, lines / short_lines * short_lines);
}

/// Reduces each of `lines` contiguous short lines. Several run at the same time, so that reductions need not
/// wait for one another. The bits are those of reduce_line, except that another NaN of several may result.
template <class F, class T>
void reduce_short_lines(const T* x, std::int64_t length, std::int64_t lines, T* y) {
  constexpr std::int64_t together = short_lines;
  std::int64_t k = 0;
  for (; k + together <= lines; k += together, x += together * length) {
    T value[together];
    for (std::int64_t j = 0; j < together; ++j) value[j] = x[j * length];
    for (std::int64_t i = 1; i < length; ++i) {
      for (std::int64_t j = 0; j < together; ++j) value[j] = F()(value[j], x[j * length + i]);
    }
    std::copy_n(value, together, y + k);
  }
  for (; k < lines; ++k, x += length) y[k] = reduce_line<F>(x, length);
}

/// Reduces all elements of one output, which start at x; the contiguous group is reduced.
template <class F, class T>
T reduce_all(const ReductionShape& s, const T* x) {
  if (s.num_reduced == 1 && s.inner <= reduction_block) return reduce_line<F>(x, s.inner);
  Cascade<F, T> cascade;
  Walk walk(s.reduced);
  for (std::int64_t f = 0; f < s.num_reduced; ++f, walk.next()) {
    for (std::int64_t i = 0; i < s.inner; i += reduction_block) {
      cascade.add(reduce_line<F>(x + walk.offset() + i, std::min(reduction_block, s.inner - i)));
    }
  }
  return cascade.result();
}

/// Computes `columns` neighbouring outputs whose elements start at x; the contiguous group is kept.
template <class F, class T>
void reduce_rows(const ReductionShape& s, const T* x, std::int64_t columns, T* y) {
  Walk walk(s.reduced);
  const auto make = [&](std::int64_t chunk, T* to) {
    std::fill_n(to, columns, F::template identity<T>());
    const std::int64_t end = std::min((chunk + 1) * reduction_chunk, s.num_reduced);
    for (std::int64_t f = chunk * reduction_chunk; f < end; ++f, walk.next())
      reduce_into<F>(to, x + walk.offset(), columns);
  };
  const std::int64_t chunks = (s.num_reduced + reduction_chunk - 1) / reduction_chunk;
  if (chunks <= 1) return make(0, y);
  T parts[cascade_levels][reduction_columns];
  in_cascade(
      std::int64_t{0}, chunks, y, make, [&](std::int64_t level, std::int64_t) { return parts[level]; },
      [&](T* to, const T* from) { reduce_into<F>(to, from, columns); });
}

/// A reduction of contiguous elements to one element in two parts, with the bits of the whole kernel: `block`
/// reduces reduction_block elements (or fewer in the last block), and `finish` reduces the results of all
/// blocks, which have `count` elements together. Null for operations and dtypes that are no such reduction.
struct ReductionFunctions {
  void (*block)(const std::byte* x, std::int64_t count, std::byte* part) = nullptr;
  void (*finish)(const std::byte* parts, std::int64_t count, std::byte* result) = nullptr;
};
ReductionFunctions reduction_functions(const Primitive& primitive, DType dtype);

/// Calls line(x, y) for each output if the contiguous group is reduced, else rows(x, columns, y) for each
/// tile of outputs.
template <class T, class R, class Line, class Rows>
void for_outputs(const ReductionShape& s, const T* x, R* y, const Line& line, const Rows& rows) {
  const std::int64_t work = std::max<std::int64_t>(1, s.num_reduced * s.inner);
  const std::int64_t grain = std::max<std::int64_t>(1, 2 * element_grain / work);
  if (s.inner_reduced) {
    parallel_for(s.threads, s.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
      Walk walk(s.kept, begin);
      for (std::int64_t o = begin; o < end; ++o, walk.next()) line(x + walk.offset(), y + o);
    });
    return;
  }
  const std::int64_t tiles = (s.inner + reduction_columns - 1) / reduction_columns;
  const std::int64_t tile_grain = std::max<std::int64_t>(
      1, 2 * element_grain / std::max<std::int64_t>(1, s.num_reduced * std::min(s.inner, reduction_columns)));
  parallel_for(s.threads, s.rows * tiles, tile_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t row = t / tiles;
      const std::int64_t column = t % tiles * reduction_columns;
      const Walk walk(s.kept, row);
      rows(x + walk.offset() + column, std::min(reduction_columns, s.inner - column),
           y + row * s.inner + column);
    }
  });
}

}  // namespace tidu::cpu_detail
