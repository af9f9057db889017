// strided.cpp - the loops of strided copies.
#include "cpu/kernels/strided.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "cpu/cpu_target.hpp"
#include "cpu/kernels/columns.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/kernels/short_rows.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::int64_t tile = 64;  // rows
// Every axis has at least 2 elements, so that no more than this many fit into an address space.
constexpr std::size_t max_axes = 64;

template <std::size_t bytes>
void copy_ends(const std::byte* from, std::byte* to, std::size_t count) {
  std::memcpy(to, from, bytes);
  std::memcpy(to + count - bytes, from + count - bytes, bytes);
}
constexpr std::size_t short_line = 128;
// 2 to 128 bytes, as two halves that overlap: a call of memcpy would take most of the time.
inline void copy_short(const std::byte* from, std::byte* to, std::size_t count) {
  if (count >= 64) return copy_ends<64>(from, to, count);
  if (count >= 32) return copy_ends<32>(from, to, count);
  if (count >= 16) return copy_ends<16>(from, to, count);
  if (count >= 8) return copy_ends<8>(from, to, count);
  if (count >= 4) return copy_ends<4>(from, to, count);
  copy_ends<2>(from, to, count);
}
template <std::size_t bytes, class E>
void copy_lines_of(const StridedAxis& outer, const E* from, E* to) {
  const auto [extent, to_stride, from_stride] = outer;  // of its own, as what is written might be these
  for (std::int64_t i = 0; i < extent; ++i, to += to_stride, from += from_stride)
    std::memcpy(to, from, bytes);
}
// Lines of 2 to 128 bytes. Not inlined: the walk over other lines takes longer with it.
template <class E>
__attribute__((noinline)) void copy_short_lines(const StridedAxis& outer, std::size_t bytes, const E* from,
                                                E* to) {
  switch (bytes) {
    case 8: return copy_lines_of<8>(outer, from, to);
    case 12: return copy_lines_of<12>(outer, from, to);
    case 16: return copy_lines_of<16>(outer, from, to);
    case 24: return copy_lines_of<24>(outer, from, to);
    case 32: return copy_lines_of<32>(outer, from, to);
    case 64: return copy_lines_of<64>(outer, from, to);
    default: break;
  }
  const auto [extent, to_stride, from_stride] = outer;  // as above
  for (std::int64_t i = 0; i < extent; ++i, to += to_stride, from += from_stride)
    copy_short(reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to), bytes);
}
// Each element twice, in `lines` lines that are `line` apart.
template <class E>
void copy_twice(std::int64_t count, std::int64_t lines, std::int64_t line, const E* from, E* to) {
  std::int64_t i = 0;
  if constexpr (sizeof(E) == 4) {
    using Four = std::uint32_t __attribute__((vector_size(16)));
    for (; i + 4 <= count; i += 4) {
      Four x;
      std::memcpy(&x, from + i, sizeof x);
      const Four low = __builtin_shufflevector(x, x, 0, 0, 1, 1),
                 high = __builtin_shufflevector(x, x, 2, 2, 3, 3);
      for (std::int64_t k = 0; k < lines; ++k) {
        std::memcpy(to + k * line + 2 * i, &low, sizeof low);
        std::memcpy(to + k * line + 2 * i + 4, &high, sizeof high);
      }
    }
  }
  for (; i < count; ++i) {
    const E element = from[i];
    for (std::int64_t k = 0; k < lines; ++k) to[k * line + 2 * i] = to[k * line + 2 * i + 1] = element;
  }
}
template <class E>
constexpr bool is_word = std::is_same_v<E, std::uint32_t> || std::is_same_v<E, std::uint64_t>;
// The first element of each row of so few.
template <class E>
void copy_first_of_rows(std::int64_t count, std::int64_t row, const E* from, E* to) {
  if constexpr (is_word<E>) {
    E* const columns[max_short_row] = {to};
    split_short_rows(from, row, count, columns);
  }
}
template <class E>
void copy_line(const StridedAxis& axis, const E* from, E* to) {
  if (axis.to == 1 && axis.from == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(axis.extent) * sizeof(E));
  } else if (axis.to == 1 && axis.from == 0) {
    std::fill_n(to, axis.extent, *from);
  } else if (is_word<E> && axis.to == 1 && is_short_row(axis.from)) {
    copy_first_of_rows(axis.extent, axis.from, from, to);
  } else {
    TIDU_INDEPENDENT
    for (std::int64_t i = 0; i < axis.extent; ++i) to[i * axis.to] = from[i * axis.from];
  }
}
// Lines of so few elements that the loop over one is written out, `step` apart in `from`.
template <int count, class E>
void copy_narrow_lines(const StridedAxis& outer, std::int64_t step, const E* from, E* to) {
  const auto [extent, to_stride, from_stride] = outer;  // of their own, as what is written might be these
  if (step == 0) {
    for (std::int64_t i = 0; i < extent; ++i, to += to_stride, from += from_stride) {
      const E element = *from;
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) to[k] = element;
    }
    return;
  }
  for (std::int64_t i = 0; i < extent; ++i, to += to_stride, from += from_stride) {
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) to[k] = from[k * step];
  }
}
constexpr std::int64_t max_narrow = 8;
template <class E>
void copy_narrow(const StridedAxis& outer, const StridedAxis& inner, const E* from, E* to) {
  if constexpr (is_word<E>) {
    if (is_short_row(inner.extent) && outer.from == 1 && outer.to == inner.extent) {
      const E* columns[max_short_row] = {};
      for (std::int64_t k = 0; k < inner.extent; ++k) columns[k] = from + k * inner.from;
      return join_short_rows(columns, inner.extent, outer.extent, to);
    }
  }
  switch (inner.extent) {
    case 2: return copy_narrow_lines<2>(outer, inner.from, from, to);
    case 3: return copy_narrow_lines<3>(outer, inner.from, from, to);
    case 4: return copy_narrow_lines<4>(outer, inner.from, from, to);
    case 5: return copy_narrow_lines<5>(outer, inner.from, from, to);
    case 6: return copy_narrow_lines<6>(outer, inner.from, from, to);
    case 7: return copy_narrow_lines<7>(outer, inner.from, from, to);
    default: return copy_narrow_lines<8>(outer, inner.from, from, to);
  }
}
template <class E>
void copy_lines(const StridedAxis& outer, const StridedAxis& inner, const E* from, E* to) {
  const std::size_t bytes = static_cast<std::size_t>(inner.extent) * sizeof(E);
  if (inner.to == 1 && inner.from == 1 && bytes >= 2 && bytes <= short_line) {
    copy_short_lines(outer, bytes, from, to);
  } else if (inner.to == 1 && inner.extent >= 2 && inner.extent <= max_narrow) {
    copy_narrow(outer, inner, from, to);
  } else {
    for (std::int64_t i = 0; i < outer.extent; ++i)
      copy_line(inner, from + i * outer.from, to + i * outer.to);
  }
}
// to[i * step + j] = from[i + j * row_stride] for `rows` j, at most as many as a tile has. Words go by
// squares through registers, of few rows of `to` at a time, so that their lines are filled soon. Where rows
// of `from` alone are a power of two apart, of which few lines fit into the nearest cache at once, those are
// used up.
template <class E>
void copy_tile(std::int64_t count, std::int64_t step, std::int64_t rows, std::int64_t row_stride,
               const E* from, E* to) {
  if constexpr (is_word<E>) {
    if (is_short_row(count) && row_stride == count) {
      E* columns[max_short_row] = {};
      for (std::int64_t i = 0; i < count; ++i) columns[i] = to + i * step;
      return split_short_rows(from, count, rows, columns);
    }
    if (count >= static_cast<std::int64_t>(16 / sizeof(E))) {
      const auto few_fit = [](std::int64_t stride) {
        return stride * static_cast<std::int64_t>(sizeof(E)) % (CpuTarget::page / 2) == 0;
      };
      const std::int64_t line =
          few_fit(row_stride) && !few_fit(step) ? static_cast<std::int64_t>(64 / sizeof(E)) : 8;
      std::array<std::int64_t, tile> offsets;
      for (std::int64_t j = 0; j < rows; ++j) offsets[static_cast<std::size_t>(j)] = j * row_stride;
      for (std::int64_t i = 0; i < count; i += line)
        gather_columns_kernel<E>()(from + i, offsets.data(), rows, std::min(line, count - i), to + i * step,
                                   step);
      return;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    TIDU_INDEPENDENT
    for (std::int64_t j = 0; j < rows; ++j) to[i * step + j] = from[i + j * row_stride];
  }
}

}  // namespace

StridedCopy::StridedCopy(std::vector<StridedAxis> axes, std::size_t element_size, int threads)
    : element_size_(element_size), threads_(threads), empty_(false) {
  for (const StridedAxis& axis : axes) empty_ = empty_ || axis.extent == 0;
  if (empty_) return;
  std::erase_if(axes, [](const StridedAxis& axis) { return axis.extent == 1; });
  std::stable_sort(axes.begin(), axes.end(),
                   [](const StridedAxis& a, const StridedAxis& b) { return a.to > b.to; });
  for (const StridedAxis& axis : axes) {
    if (!axes_.empty()) {
      StridedAxis& outer = axes_.back();
      if (outer.to == axis.to * axis.extent && outer.from == axis.from * axis.extent) {
        outer = {outer.extent * axis.extent, axis.to, axis.from};
        continue;
      }
    }
    axes_.push_back(axis);
  }
  if (axes_.empty()) axes_.push_back({1, 1, 1});
  const StridedAxis& last = axes_.back();
  if (axes_.size() > 1 && last.to == 1 && last.from != 0 && last.from != 1) {
    const auto contiguous =
        std::find_if(axes_.begin(), axes_.end() - 1, [](const StridedAxis& axis) { return axis.from == 1; });
    if (contiguous != axes_.end() - 1) {
      std::rotate(contiguous, contiguous + 1, axes_.end() - 1);
      tiled_ = true;
    }
  }
  if (!tiled_) find_doubled();
}

// What repeats rows, and each element of a row twice, as pooling's cotangents and larger pictures are made:
// planes of rows, a row's repetitions, its elements, the two of each.
void StridedCopy::find_doubled() {
  if (axes_.size() < 3 || axes_.size() > 4) return;
  const StridedAxis two = axes_.back(), row = axes_[axes_.size() - 2], rows = axes_[axes_.size() - 3];
  // One plane is for one thread.
  if (row.extent > 4 * element_grain / rows.extent) return;
  doubled_ =
      two.extent == 2 && two.to == 1 && two.from == 0 && row.to == 2 && row.from == 1 && rows.from == 0;
}

template <class E>
void StridedCopy::run_doubled(const E* from, E* to) const {
  const StridedAxis row = axes_[axes_.size() - 2], rows = axes_[axes_.size() - 3];
  const StridedAxis planes = axes_.size() > 3 ? axes_[0] : StridedAxis{1, 0, 0};
  const std::int64_t grain = std::max<std::int64_t>(1, 2 * element_grain / (row.extent * rows.extent));
  parallel_for(threads_, planes.extent, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      copy_twice(row.extent, rows.extent, rows.to, from + i * planes.from, to + i * planes.to);
  });
}

// Planes that are transposed, by tiles of rows of `from`.
template <class E>
void StridedCopy::run_tiled(const E* from, E* to) const {
  const std::size_t outer = axes_.size() - 2;
  const StridedAxis line = axes_[outer], rows = axes_.back();
  const std::int64_t tiles = (rows.extent + tile - 1) / tile;
  std::int64_t planes = 1;
  for (std::size_t k = 0; k < outer; ++k) planes *= axes_[k].extent;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 4 * element_grain / (line.extent * std::min(rows.extent, tile)));
  parallel_for(threads_, planes * tiles, grain, [=, this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % tiles * tile;
      std::int64_t from_at = first * rows.from, to_at = first, left = i / tiles;
      for (std::size_t k = outer; k-- > 0; left /= axes_[k].extent) {
        from_at += left % axes_[k].extent * axes_[k].from;
        to_at += left % axes_[k].extent * axes_[k].to;
      }
      copy_tile(line.extent, line.to, std::min(tile, rows.extent - first), rows.from, from + from_at,
                to + to_at);
    }
  });
}

template <class E>
void StridedCopy::run_as(const std::byte* from, std::byte* to) const {
  const E* const source = reinterpret_cast<const E*>(from);
  E* const target = reinterpret_cast<E*>(to);
  if (doubled_) return run_doubled(source, target);
  if (tiled_) return run_tiled(source, target);
  const std::int64_t last_two = axes_.size() > 1 ? axes_[axes_.size() - 2].extent * axes_.back().extent : 0;
  // One long line at a time leaves more to share between threads.
  const std::size_t inner = last_two > 0 && last_two <= 4 * element_grain ? 2 : 1;
  const StridedAxis& last = axes_.back();
  const std::size_t outer = axes_.size() - inner;
  std::int64_t blocks = 1;
  for (std::size_t k = 0; k < outer; ++k) blocks *= axes_[k].extent;
  std::int64_t block_size = 1;
  for (std::size_t k = outer; k < axes_.size(); ++k) block_size *= axes_[k].extent;
  const std::int64_t grain = std::max<std::int64_t>(1, 4 * element_grain / block_size);
  parallel_for(threads_, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, max_axes> at;
    std::int64_t left = begin, to_at = 0, from_at = 0;
    for (std::size_t k = outer; k-- > 0;) {
      at[k] = left % axes_[k].extent;
      left /= axes_[k].extent;
      to_at += at[k] * axes_[k].to;
      from_at += at[k] * axes_[k].from;
    }
    for (std::int64_t i = begin; i < end;) {
      // Lines of one axis that follow each other are copied together: a call for each short one takes longer.
      std::int64_t steps = 1;
      if (inner == 1 && outer > 0) {
        const StridedAxis& lines = axes_[outer - 1];
        steps = std::min(end - i, lines.extent - at[outer - 1]);
        copy_lines({steps, lines.to, lines.from}, last, source + from_at, target + to_at);
      } else if (inner == 2) {
        copy_lines(axes_[axes_.size() - 2], last, source + from_at, target + to_at);
      } else {
        copy_line(last, source + from_at, target + to_at);
      }
      i += steps;
      for (std::size_t k = outer; k-- > 0; steps = 1) {
        to_at += steps * axes_[k].to;
        from_at += steps * axes_[k].from;
        if ((at[k] += steps) < axes_[k].extent) break;
        to_at -= axes_[k].extent * axes_[k].to;
        from_at -= axes_[k].extent * axes_[k].from;
        at[k] = 0;
      }
    }
  });
}

void StridedCopy::run(const std::byte* from, std::byte* to) const {
  if (empty_) return;
  switch (element_size_) {
    case 1: return run_as<std::uint8_t>(from, to);
    case 2: return run_as<std::uint16_t>(from, to);
    case 4: return run_as<std::uint32_t>(from, to);
    case 8: return run_as<std::uint64_t>(from, to);
    default: return run_as<SixteenBytes>(from, to);
  }
}

}  // namespace tidu::cpu_detail
