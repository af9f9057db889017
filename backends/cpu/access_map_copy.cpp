// access_map_copy.cpp - AccessMap: finding and copying elements.
#include "cpu/access_map.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace tidu::cpu_detail {
namespace {

template <class Word>
void fill_words(const std::byte* element, std::int64_t count, std::byte* to) {
  Word word;
  std::memcpy(&word, element, sizeof word);
  std::fill_n(reinterpret_cast<Word*>(to), count, word);
}
void fill(const std::byte* element, std::size_t size, std::int64_t count, std::byte* to) {
  switch (size) {
    case 1: return fill_words<std::uint8_t>(element, count, to);
    case 2: return fill_words<std::uint16_t>(element, count, to);
    case 4: return fill_words<std::uint32_t>(element, count, to);
    case 8: return fill_words<std::uint64_t>(element, count, to);
    default:
      for (; count > 0; --count, to += size) std::memcpy(to, element, size);
  }
}

// Elements first, first + step, ...
template <class T>
void count_from(std::int64_t first, std::int64_t step, std::int64_t count, std::byte* to) {
  T* const elements = reinterpret_cast<T*>(to);
  if (step == 0) {
    std::fill_n(elements, count, static_cast<T>(first));
  } else {
    for (std::int64_t i = 0; i < count; ++i) elements[i] = static_cast<T>(first + i);
  }
}
void count_from(DType dtype, std::int64_t first, std::int64_t step, std::int64_t count, std::byte* to) {
  switch (dtype) {
    case DType::i32: return count_from<std::int32_t>(first, step, count, to);
    case DType::i64: return count_from<std::int64_t>(first, step, count, to);
    case DType::f32: return count_from<float>(first, step, count, to);
    default: return count_from<double>(first, step, count, to);
  }
}

// Copies lines of so many bytes, which are `step` bytes apart in the source and contiguous in the result.
template <std::size_t bytes>
void copy_short_lines(const std::byte* from, std::ptrdiff_t step, std::int64_t count, std::byte* to) {
  for (; count > 0; --count, from += step, to += bytes) std::memcpy(to, from, bytes);
}
void copy_lines(const std::byte* from, std::ptrdiff_t step, std::int64_t count, std::size_t bytes,
                std::byte* to) {
  switch (bytes) {
    case 8: return copy_short_lines<8>(from, step, count, to);
    case 16: return copy_short_lines<16>(from, step, count, to);
    case 32: return copy_short_lines<32>(from, step, count, to);
    case 64: return copy_short_lines<64>(from, step, count, to);
    case 128: return copy_short_lines<128>(from, step, count, to);
    default:
      for (; count > 0; --count, from += step, to += bytes) std::memcpy(to, from, bytes);
  }
}

// The position in the source's axis of the element at `index`; the source's first element is at 0.
std::int64_t in_source(const AccessAxis& axis, std::int64_t index) {
  if (axis.roll == 0) return index - axis.begin;
  return index < axis.roll ? index - axis.roll + axis.extent : index - axis.roll;
}

}  // namespace

bool AccessMap::are_equal() const {
  return std::all_of(axes.begin(), axes.end() - 1, [](const AccessAxis& axis) { return axis.stride == 0; });
}

bool AccessMap::has_padded_lines() const {
  return std::any_of(axes.begin(), axes.end() - 1,
                     [](const AccessAxis& axis) { return axis.count != axis.extent; });
}

bool AccessMap::is_there(std::int64_t number) const {
  std::int64_t rest = number;
  for (std::size_t k = axes.size() - 1; k-- > 0; rest /= k > 0 ? axes[k].extent : 1) {
    const std::int64_t there = in_source(axes[k], k > 0 ? rest % axes[k].extent : rest);
    if (there < 0 || there >= axes[k].count) return false;
  }
  return true;
}

AccessMap::Found AccessMap::find(std::int64_t in_line, std::int64_t number, std::int64_t count) const {
  const AccessAxis& line = axes.back();
  const std::int64_t end = in_line + count;
  Found found;
  found.at = offset + in_source(line, in_line) * line.stride;
  found.contiguous = line.stride == 1 && !counts() && in_line >= line.begin &&
                     end <= line.begin + line.count && (in_line >= line.roll || end <= line.roll);
  std::int64_t rest = number;
  for (std::size_t k = axes.size() - 1; k-- > 0; rest /= k > 0 ? axes[k].extent : 1) {
    const std::int64_t there = in_source(axes[k], k > 0 ? rest % axes[k].extent : rest);
    found.contiguous = found.contiguous && there >= 0 && there < axes[k].count;
    found.at += there * axes[k].stride;
  }
  return found;
}

// Copies lines without padding and rolls: only offsets change from one line to the next.
void AccessMap::copy_whole(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const {
  const std::int64_t extent = axes.back().extent;
  const std::size_t outer = axes.size() - 1;
  const auto bytes = [&](std::int64_t elements) { return elements * static_cast<std::int64_t>(size); };
  std::array<std::int64_t, max_access_axes> index{};
  std::int64_t in_line = at % extent, rest = at / extent, first = offset;
  for (std::size_t k = outer; k-- > 0; rest /= axes[k].extent) {
    index[k] = rest % axes[k].extent;
    first += index[k] * axes[k].stride;
  }
  const AccessAxis& last = axes[outer - 1];
  while (count > 0) {
    // A part of a line, or lines up to the end of their axis.
    const bool parts = in_line > 0 || count < extent;
    const std::int64_t lines = parts ? 1 : std::min(count / extent, last.extent - index[outer - 1]),
                       some = parts ? std::min(extent - in_line, count) : lines * extent;
    copy_lines(from + bytes(first + in_line), bytes(last.stride), lines,
               static_cast<std::size_t>(bytes(some / lines)), to);
    to += bytes(some);
    count -= some;
    in_line = 0;
    index[outer - 1] += lines;
    first += lines * last.stride;
    for (std::size_t k = outer - 1; k > 0 && index[k] == axes[k].extent; --k) {
      index[k] = 0;
      first += axes[k - 1].stride - axes[k].extent * axes[k].stride;
      ++index[k - 1];
    }
  }
}

void AccessMap::copy(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const {
  const bool are_whole = axes.size() > 1 && axes.back().stride == 1 && !counts() &&
                         std::ranges::all_of(axes, [](const AccessAxis& axis) { return axis.is_whole(); });
  if (are_whole) return copy_whole(from, at, count, to);
  const AccessAxis& line = axes.back();
  const std::size_t outer = axes.size() - 1;
  std::array<std::int64_t, max_access_axes> index{};
  std::int64_t in_line = at % line.extent, rest = at / line.extent;
  for (std::size_t k = outer; k-- > 0; rest /= axes[k].extent) index[k] = rest % axes[k].extent;
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * size; };
  const auto pad = [&](std::int64_t elements) {
    if (elements > 0) fill(padding.data(), size, elements, to);
    to += bytes(elements);
  };
  while (count > 0) {
    std::int64_t end = std::min(line.extent, in_line + count);
    if (in_line < line.roll) end = std::min(end, line.roll);
    std::int64_t first = offset + (in_source(line, in_line) - in_line) * line.stride;
    bool is_there = true;
    for (std::size_t k = 0; k < outer; ++k) {
      const std::int64_t position = in_source(axes[k], index[k]);
      is_there = is_there && position >= 0 && position < axes[k].count;
      first += position * axes[k].stride;
    }
    const std::int64_t begin_there = is_there ? std::clamp(line.begin, in_line, end) : end;
    const std::int64_t end_there = is_there ? std::clamp(line.begin + line.count, begin_there, end) : end;
    pad(begin_there - in_line);
    if (const std::int64_t there = end_there - begin_there; there > 0) {
      const std::int64_t position = first + begin_there * line.stride;
      if (counts()) {
        count_from(counted, position, line.stride, there, to);
      } else if (line.stride == 0) {
        fill(from + bytes(position), size, there, to);
      } else {
        std::memcpy(to, from + bytes(position), bytes(there));
      }
      to += bytes(there);
    }
    pad(end - end_there);
    count -= end - in_line;
    in_line = end;
    if (in_line < line.extent) continue;
    in_line = 0;
    for (std::size_t k = outer; k-- > 0;) {
      if (++index[k] < axes[k].extent) break;
      index[k] = 0;
    }
  }
}

}  // namespace tidu::cpu_detail
