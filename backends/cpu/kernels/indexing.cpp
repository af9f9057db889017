// indexing.cpp - take, scatter_add and their forms with an index for each position. Mode clip moves an index
// into range, drop reads 0 and writes nothing; an executor that checks indices fails on one out of range,
// whatever the mode.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/layout.hpp"
#include "cpu/parallel.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

// x is [outer, extent, inner]; indices [count], or [outer, count, inner] along an axis.
struct IndexState : AxisShape {
  std::int64_t count;
  bool drop, check;
  std::size_t bytes;  // of an element
  int threads;
  std::string_view name;
  std::vector<bool> read{};  // of a result of single elements: see PlanRequest::reads
  bool reads(std::int64_t index) const {
    return read.empty() || read[static_cast<std::size_t>(index) % read.size()];
  }
};

[[noreturn]] void out_of_range(const IndexState& s, std::int64_t index, std::int64_t position) {
  throw Error(ErrorKind::execution, detail::str('[', s.name, "] expected indices in [0, ", s.extent,
                                                "), got ", index, " at position ", position));
}

// The index to use, or -1 for none. A negative index does not wrap.
template <class I>
std::int64_t resolve(const IndexState& s, const I* indices, std::int64_t position) {
  const auto index = static_cast<std::int64_t>(indices[position]);
  if (index >= 0 && index < s.extent) [[likely]]
    return index;
  if (s.check) out_of_range(s, index, position);
  if (s.drop || s.extent == 0) return -1;
  return index < 0 ? 0 : s.extent - 1;
}

// Are all in range, so that they are used as they are? Without a branch for each, in numbers as wide as they
// are: an index below zero, or the last one less an index beyond it, has the sign bit, which wraps to no
// other.
template <class I>
bool are_in_range(const IndexState& s, const I* indices, std::int64_t count) {
  using Bits = std::make_unsigned_t<I>;
  if (s.extent == 0) return count == 0;
  const auto last = static_cast<Bits>(std::min<std::int64_t>(s.extent - 1, std::numeric_limits<I>::max()));
  Bits signs = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<Bits>(indices[i]);
    signs |= index | (last - index);
  }
  return static_cast<I>(signs) >= 0;
}

// Threads share what moves more than that.
constexpr std::size_t bytes_of_piece = std::size_t{1} << 16;
constexpr std::int64_t max_pieces = 16;  // each of which reads all indices

// How many things of so many bytes make a piece.
std::int64_t piece_of(std::size_t bytes) {
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(bytes_of_piece / std::max<std::size_t>(bytes, 1)));
}

// For short loops only helpers that are awake.
template <class Body>
void share(int threads, std::int64_t count, std::size_t bytes_of_one, std::int64_t grain, const Body& body) {
  constexpr std::size_t long_loop = std::size_t{1} << 20;
  if (static_cast<std::size_t>(count) * bytes_of_one < long_loop) {
    parallel_for_awake(threads, count, grain, body);
  } else {
    parallel_for(threads, count, grain, body);
  }
}
template <class Body>
void share(int threads, std::int64_t count, std::size_t bytes_of_one, const Body& body) {
  share(threads, count, bytes_of_one, piece_of(bytes_of_one), body);
}

// Before threads share a loop: of several indices out of range the first one is named.
template <class I>
void check_all(const IndexState& s, const I* indices) {
  if (!s.check || are_in_range(s, indices, s.count)) return;
  for (std::int64_t i = 0; i < s.count; ++i) static_cast<void>(resolve(s, indices, i));
}

template <class I>
void take(const IndexState& s, const Call& call) {
  const I* const indices = call.operand<I>(1);
  const std::size_t row = static_cast<std::size_t>(s.inner) * s.bytes;
  check_all(s, indices);
  if (row == 0 || s.count == 0) return;
  share(s.threads, s.outer * s.count, row, [&](std::int64_t begin, std::int64_t end) {
    std::byte* to = call.out[0] + static_cast<std::size_t>(begin) * row;
    std::int64_t o = begin / s.count, i = begin % s.count;
    for (std::int64_t at = begin; at < end; ++at, to += row) {
      const std::int64_t index = resolve(s, indices, i);
      if (index < 0) {
        std::memset(to, 0, row);
      } else {
        std::memcpy(to, call.in[0] + static_cast<std::size_t>(o * s.extent + index) * row, row);
      }
      if (++i < s.count) continue;
      i = 0;
      ++o;
    }
  });
}

// The inner loops, of indices in range, with registers of their own.
template <class Row, class I>
[[gnu::noinline]] void take_all(Row* to, const Row* from, const I* indices, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[indices[i]];
}
template <class T, class I>
[[gnu::noinline]] void add_all(T* to, const T* update, const I* indices, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[indices[i]] = Add()(to[indices[i]], update[i]);
}

// The same for short rows, which move as one. Indices are looked at once, so many at a time.
template <class Row, class I>
void take_rows(const IndexState& s, const Call& call) {
  constexpr std::int64_t at_once = 256;
  const I* const indices = call.operand<I>(1);
  check_all(s, indices);
  // Of those lines, the rows of those indices.
  const auto part = [&](std::int64_t first_line, std::int64_t last_line, std::int64_t begin,
                        std::int64_t end) {
    std::int64_t entries[at_once];
    for (std::int64_t first = begin; first < end; first += at_once) {
      const std::int64_t n = std::min(at_once, end - first);
      const bool all = are_in_range(s, indices + first, n);
      for (std::int64_t i = 0; !all && i < n; ++i) entries[i] = resolve(s, indices, first + i);
      for (std::int64_t o = first_line; o < last_line; ++o) {
        const Row* const from = call.operand<Row>(0) + o * s.extent;
        Row* const to = call.result<Row>() + o * s.count + first;
        if (all) {
          take_all(to, from, indices + first, n);
        } else {
          for (std::int64_t i = 0; i < n; ++i) to[i] = entries[i] < 0 ? Row{} : from[entries[i]];
        }
      }
    }
  };
  if (s.outer == 1) {
    share(s.threads, s.count, sizeof(Row),
          [&](std::int64_t begin, std::int64_t end) { part(0, 1, begin, end); });
  } else {
    share(s.threads, s.outer, static_cast<std::size_t>(s.count) * sizeof(Row),
          [&](std::int64_t begin, std::int64_t end) { part(begin, end, 0, s.count); });
  }
}

// Goes through an index for each position, of several lines or of some slices of one. Calls line(position,
// first, n) for n positions whose indices are in range and count single elements from the one at `first`, and
// for others element(position, place) with the place in x that an index names, or -1.
template <class I, class Line, class Element>
void for_indices_along(const IndexState& s, const I* indices, const Line& line, const Element& element) {
  constexpr std::int64_t at_once = 256;
  const std::int64_t size = s.count * s.inner;
  if (size == 0) return;
  const std::int64_t lines = std::max<std::int64_t>(at_once / size, 1),
                     slices = lines > 1 ? s.count : std::max<std::int64_t>(at_once / s.inner, 1);
  std::int64_t position = 0;
  for (std::int64_t o = 0; o < s.outer; o += lines) {
    const std::int64_t last_line = std::min(o + lines, s.outer);
    for (std::int64_t i = 0; i < s.count; i += slices) {
      const std::int64_t n = std::min(slices, s.count - i);
      const bool all = are_in_range(s, indices + position, (last_line - o) * n * s.inner);
      for (std::int64_t at = o; at < last_line; ++at) {
        const std::int64_t first = at * s.extent;
        if (all && s.inner == 1) {
          line(position, first, n);
          position += n;
          continue;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          for (std::int64_t j = 0; j < s.inner; ++j, ++position) {
            const std::int64_t index =
                all ? static_cast<std::int64_t>(indices[position]) : resolve(s, indices, position);
            element(position, index < 0 ? -1 : (first + index) * s.inner + j);
          }
        }
      }
    }
  }
}

template <class Element, class I>
void take_along(const IndexState& s, const Call& call) {
  const I* const indices = call.operand<I>(1);
  const Element* const from = call.operand<Element>(0);
  Element* const to = call.result<Element>();
  for_indices_along(
      s, indices,
      [=](std::int64_t position, std::int64_t first, std::int64_t n) {
        take_all(to + position, from + first, indices + position, n);
      },
      [=](std::int64_t position, std::int64_t index) { to[position] = index < 0 ? Element{} : from[index]; });
}

// Operand 0, which may be in the result's place: see Note [Scattered].
template <class T>
void begin_as_operand(const Call& call, T* y, std::int64_t count) {
  if (call.operand<T>(0) != y) std::copy_n(call.operand<T>(0), count, y);
}

// Threads share lines; of one line, the rows that are added to, each of which all indices are looked through
// for: where rows are long.
template <class T, class I>
void scatter_add(const IndexState& s, const Call& call) {
  const I* const indices = call.operand<I>(1);
  T* const y = call.result<T>();
  check_all(s, indices);
  begin_as_operand(call, y, s.outer * s.extent * s.inner);
  // Of those lines, to those rows.
  const auto part = [&](std::int64_t first_line, std::int64_t last_line, std::int64_t begin,
                        std::int64_t end) {
    for (std::int64_t o = first_line; o < last_line; ++o) {
      const T* update = call.operand<T>(2) + o * s.count * s.inner;
      for (std::int64_t i = 0; i < s.count; ++i, update += s.inner) {
        const std::int64_t index = resolve(s, indices, i);
        if (index < begin || index >= end) continue;
        T* const row = y + (o * s.extent + index) * s.inner;
        for (std::int64_t j = 0; j < s.inner; ++j) row[j] = Add()(row[j], update[j]);
      }
    }
  };
  const std::size_t bytes = static_cast<std::size_t>(s.count * s.inner) * sizeof(T);
  if (s.outer != 1) {
    share(s.threads, s.outer, bytes,
          [&](std::int64_t begin, std::int64_t end) { part(begin, end, 0, s.extent); });
  } else {
    constexpr std::size_t long_row = 256;
    const std::int64_t pieces =
        static_cast<std::size_t>(s.inner) * sizeof(T) < long_row
            ? 1
            : std::min<std::int64_t>(max_pieces, static_cast<std::int64_t>(bytes / bytes_of_piece));
    const std::int64_t rows = std::max<std::int64_t>(1, s.extent);
    share(pieces < 2 ? 1 : s.threads, rows, bytes / static_cast<std::size_t>(rows),
          (rows + pieces - 1) / std::max<std::int64_t>(pieces, 1),
          [&](std::int64_t begin, std::int64_t end) { part(0, 1, begin, end); });
  }
}

// The same for slices of one element: places are found once, so many at a time, and only those that are read.
template <class T, class I>
void scatter_elements(const IndexState& s, const Call& call) {
  constexpr std::int64_t at_once = 256;
  const I* const indices = call.operand<I>(1);
  T* const y = call.result<T>();
  check_all(s, indices);
  begin_as_operand(call, y, s.outer * s.extent);
  const auto lines = [&](std::int64_t first_line, std::int64_t last_line) {
    std::int64_t entries[at_once], positions[at_once];
    for (std::int64_t first = 0; first < s.count; first += at_once) {
      const std::int64_t end = std::min(first + at_once, s.count);
      if (s.read.empty() && are_in_range(s, indices + first, end - first)) {
        for (std::int64_t o = first_line; o < last_line; ++o) {
          const T* const update = call.operand<T>(2) + o * s.count;
          T* const to = y + o * s.extent;
          add_all(to, update + first, indices + first, end - first);
        }
        continue;
      }
      std::int64_t n = 0;
      for (std::int64_t i = first; i < end; ++i) {
        const std::int64_t index = resolve(s, indices, i);
        if (index < 0 || !s.reads(index)) continue;
        entries[n] = index;
        positions[n++] = i;
      }
      for (std::int64_t o = first_line; o < last_line; ++o) {
        const T* const update = call.operand<T>(2) + o * s.count;
        T* const to = y + o * s.extent;
        for (std::int64_t i = 0; i < n; ++i) to[entries[i]] = Add()(to[entries[i]], update[positions[i]]);
      }
    }
  };
  share(s.threads, s.outer, static_cast<std::size_t>(s.count) * sizeof(T), lines);
}

template <class T, class I>
void scatter_add_along(const IndexState& s, const Call& call) {
  const I* const indices = call.operand<I>(1);
  const T* const update = call.operand<T>(2);
  T* const y = call.result<T>();
  begin_as_operand(call, y, s.outer * s.extent * s.inner);
  for_indices_along(
      s, indices,
      [=](std::int64_t position, std::int64_t first, std::int64_t n) {
        add_all(y + first, update + position, indices + position, n);
      },
      [=](std::int64_t position, std::int64_t index) {
        if (index >= 0) y[index] = Add()(y[index], update[position]);
      });
}

IndexState state_of(const PlanRequest& request, bool along) {
  const Type x = request.in[0];
  const auto axis = static_cast<std::size_t>(request.op.integer("axis"));
  return {AxisShape::of(x, axis),
          along ? request.in[1].dim(axis) : request.in[1].size(),
          request.op.string("mode") == "drop",
          request.check_indices,
          size_of(x.dtype()),
          request.threads,
          request.op.name()};
}

// take of rows of a few words.
template <class Word>
Plan plan_take_rows(const IndexState& state, bool wide) {
  const auto plan = [&]<class Row>(std::type_identity<Row>) {
    return wide ? make_plan<IndexState, take_rows<Row, std::int64_t>>(state)
                : make_plan<IndexState, take_rows<Row, std::int32_t>>(state);
  };
  switch (static_cast<std::size_t>(state.inner) * state.bytes / sizeof(Word)) {
    case 1: return plan(std::type_identity<Word>());
    case 2: return plan(std::type_identity<std::array<Word, 2>>());
    case 3: return plan(std::type_identity<std::array<Word, 3>>());
    case 4: return plan(std::type_identity<std::array<Word, 4>>());
    default:
      return wide ? make_plan<IndexState, take<std::int64_t>>(state)
                  : make_plan<IndexState, take<std::int32_t>>(state);
  }
}

template <class I>
Plan plan_take_along(const IndexState& state) {
  switch (state.bytes) {
    case 1: return make_plan<IndexState, take_along<std::uint8_t, I>>(state);
    case 2: return make_plan<IndexState, take_along<std::uint16_t, I>>(state);
    case 4: return make_plan<IndexState, take_along<std::uint32_t, I>>(state);
    case 8: return make_plan<IndexState, take_along<std::uint64_t, I>>(state);
    default: return make_plan<IndexState, take_along<SixteenBytes, I>>(state);
  }
}

template <bool along>
Plan plan_take(const PlanRequest& request) {
  const IndexState state = state_of(request, along);
  if (!along) {
    const bool wide = request.in[1].dtype() == i64;
    switch (request.in[0].dtype()) {
      case DType::f64:
      case DType::i64:
      case DType::c128: return plan_take_rows<std::uint64_t>(state, wide);
      case DType::f32:
      case DType::i32:
      case DType::c64: return plan_take_rows<std::uint32_t>(state, wide);
      default: break;
    }
  }
  if (request.in[1].dtype() == i64) {
    return along ? plan_take_along<std::int64_t>(state) : make_plan<IndexState, take<std::int64_t>>(state);
  }
  return along ? plan_take_along<std::int32_t>(state) : make_plan<IndexState, take<std::int32_t>>(state);
}
template <bool along>
Plan plan_scatter(const PlanRequest& request) {
  IndexState state = state_of(request, along);
  if (request.reads != nullptr && static_cast<std::size_t>(state.extent) % request.reads->size() == 0)
    state.read = *request.reads;
  return with_type(request.out[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (Boolean<T>) {
      return Plan();
    } else {
      if (!along && state.inner == 1) {
        return request.in[1].dtype() == i64 ? make_plan<IndexState, scatter_elements<T, std::int64_t>>(state)
                                            : make_plan<IndexState, scatter_elements<T, std::int32_t>>(state);
      }
      if (request.in[1].dtype() == i64) {
        return along ? make_plan<IndexState, scatter_add_along<T, std::int64_t>>(state)
                     : make_plan<IndexState, scatter_add<T, std::int64_t>>(state);
      }
      return along ? make_plan<IndexState, scatter_add_along<T, std::int32_t>>(state)
                   : make_plan<IndexState, scatter_add<T, std::int32_t>>(state);
    }
  });
}

constexpr KernelEntry indexing_entries[] = {
    {"take", plan_take<false>, any_dtype, true},
    {"scatter_add", plan_scatter<false>, numbers},
    {"take_along_axis", plan_take<true>, any_dtype, true},
    {"scatter_add_along_axis", plan_scatter<true>, numbers},
};

}  // namespace

std::span<const KernelEntry> indexing_kernels() { return indexing_entries; }

}  // namespace tidu::cpu_detail
