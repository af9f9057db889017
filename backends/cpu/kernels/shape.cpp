// shape.cpp - kernels that move elements: transpose, broadcast_in_dim, rev, slice, pad, concatenate, and
// those whose result has the operand's elements where they are, which a Program leaves out but where memory
// must change hands.
#include <algorithm>
#include <cstring>

#include "cpu/kernel.hpp"
#include "cpu/kernels/columns.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/kernels/short_rows.hpp"
#include "cpu/kernels/strided.hpp"
#include "cpu/layout.hpp"
#include "cpu/parallel.hpp"

namespace tidu::cpu_detail {
namespace {

struct StridedCopyState {
  StridedCopy copy;
  std::ptrdiff_t offset;  // bytes from the operand's first element to the one at index 0
};
void copy_strided(const StridedCopyState& s, const Call& call) noexcept {
  s.copy.run(call.in[0] + s.offset, call.out[0]);
}

// from[k] is the operand's stride along axis k of the result.
Plan plan_strided_copy(const PlanRequest& request, const std::vector<std::int64_t>& from,
                       std::int64_t offset) {
  const Type result = request.out[0];
  const std::vector<std::int64_t> to = strides_of(result);
  const std::size_t size = size_of(result.dtype());
  std::vector<StridedAxis> axes;
  for (std::size_t k = 0; k < result.rank(); ++k) axes.push_back({result.dim(k), to[k], from[k]});
  return make_plan<StridedCopyState, copy_strided>(
      {StridedCopy(std::move(axes), size, request.threads), offset * static_cast<std::ptrdiff_t>(size)});
}

Plan plan_transpose(const PlanRequest& request) {
  const std::vector<std::int64_t> strides = strides_of(request.in[0]);
  std::vector<std::int64_t> from;
  for (const std::int64_t axis : request.op.ints("permutation"))
    from.push_back(strides[static_cast<std::size_t>(axis)]);
  return plan_strided_copy(request, from, 0);
}
Plan plan_broadcast(const PlanRequest& request) {
  const std::vector<std::int64_t> strides = strides_of(request.in[0]);
  std::vector<std::int64_t> from(request.out[0].rank(), 0);
  const Ints& dimensions = request.op.ints("broadcast_dimensions");
  for (std::size_t k = 0; k < dimensions.size(); ++k) {
    if (request.in[0].dim(k) != 1) from[static_cast<std::size_t>(dimensions[k])] = strides[k];
  }
  return plan_strided_copy(request, from, 0);
}
Plan plan_rev(const PlanRequest& request) {
  std::vector<std::int64_t> from = strides_of(request.in[0]);
  std::int64_t offset = 0;
  if (request.in[0].size() == 0) return plan_strided_copy(request, from, 0);
  for (const std::int64_t axis : request.op.ints("dimensions")) {
    const auto k = static_cast<std::size_t>(axis);
    offset += (request.in[0].dim(k) - 1) * from[k];
    from[k] = -from[k];
  }
  return plan_strided_copy(request, from, offset);
}
Plan plan_slice(const PlanRequest& request) {
  std::vector<std::int64_t> from = strides_of(request.in[0]);
  const Ints& starts = request.op.ints("start_indices");
  const Ints& steps = request.op.ints("strides");
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < from.size(); ++k) {
    offset += starts[k] * from[k];
    if (!steps.empty() && request.out[0].dim(k) > 1) from[k] *= steps[k];
  }
  if (request.out[0].size() == 0) offset = 0;
  return plan_strided_copy(request, from, offset);
}

struct PadState {
  std::size_t size;  // of an element
  std::int64_t count;
  StridedCopy copy;
  std::ptrdiff_t from, to;  // bytes
};
void fill_bytes(std::byte* to, const std::byte* element, std::size_t size, std::int64_t count) {
  if (count == 0) return;
  // Doubling what is filled already.
  std::memcpy(to, element, size);
  const std::size_t total = size * static_cast<std::size_t>(count);
  for (std::size_t done = size; done < total;) {
    const std::size_t next = std::min({done, total - done, std::size_t{4096}});
    std::memcpy(to + done, to, next);
    done += next;
  }
}
void pad(const PadState& s, const Call& call) noexcept {
  fill_bytes(call.out[0], call.in[1], s.size, s.count);
  s.copy.run(call.in[0] + s.from, call.out[0] + s.to);
}
Plan plan_pad(const PlanRequest& request) {
  const IntLists& config = request.op.lists("padding_config");
  const std::vector<std::int64_t> from = strides_of(request.in[0]);
  const std::vector<std::int64_t> to = strides_of(request.out[0]);
  const std::size_t size = size_of(request.out[0].dtype());
  std::vector<StridedAxis> axes;
  std::int64_t from_offset = 0, to_offset = 0;
  bool empty = request.out[0].size() == 0;
  for (std::size_t k = 0; k < from.size(); ++k) {
    // Element i lands at low + i step; those with 0 <= place < extent are copied.
    const std::int64_t low = config[k][0];
    const std::int64_t step = config[k][2] + 1;
    const std::int64_t extent = request.out[0].dim(k);
    const std::int64_t first = low >= 0 ? 0 : (-low + step - 1) / step;
    const std::int64_t last =
        low >= extent ? 0 : std::min(request.in[0].dim(k), (extent - low + step - 1) / step);
    if (last <= first) {
      empty = true;
      break;
    }
    axes.push_back({last - first, last - first == 1 ? to[k] : to[k] * step, from[k]});
    from_offset += first * from[k];
    to_offset += (low + first * step) * to[k];
  }
  PadState state{size, request.out[0].size(), StridedCopy(), 0, 0};
  if (!empty) {
    state.copy = StridedCopy(std::move(axes), size, request.threads);
    state.from = from_offset * static_cast<std::ptrdiff_t>(size);
    state.to = to_offset * static_cast<std::ptrdiff_t>(size);
  }
  return make_plan<PadState, pad>(std::move(state));
}

struct ConcatenateState {
  std::int64_t outer;
  std::vector<std::size_t> bytes;  // by operand: of its part of one outer index
  std::size_t row;                 // all of them
  std::size_t word;                // what short parts are moved by; 0: parts are copied whole
  int threads;
};
// Columns of one word, fewer than an Interleave takes, into rows [begin, end).
template <int count, class Word>
void columns_to_rows(const Word* const* columns, std::size_t begin, std::size_t end, Word* to,
                     std::size_t row) {
  const Word* from[count];
  for (int k = 0; k < count; ++k) from[k] = columns[k];
  if (row == count) {  // which the compiler makes vectors of
    TIDU_INDEPENDENT
    for (std::size_t o = begin; o < end; ++o) {
      for (int k = 0; k < count; ++k) to[o * count + static_cast<std::size_t>(k)] = from[k][o];
    }
    return;
  }
  for (std::size_t o = begin; o < end; ++o) {
    for (int k = 0; k < count; ++k) to[o * row + static_cast<std::size_t>(k)] = from[k][o];
  }
}
// A part of so many words into rows [begin, end).
template <std::size_t words, class Word>
void part_to_rows(const Word* part, std::size_t begin, std::size_t end, Word* to, std::size_t row) {
  for (std::size_t o = begin; o < end; ++o) std::memcpy(to + o * row, part + o * words, words * sizeof(Word));
}
template <class Word>
void part_to_rows(const Word* part, std::size_t words, std::size_t begin, std::size_t end, Word* to,
                  std::size_t row) {
  switch (words) {
    case 1: return part_to_rows<1>(part, begin, end, to, row);
    case 2: return part_to_rows<2>(part, begin, end, to, row);
    case 3: return part_to_rows<3>(part, begin, end, to, row);
    case 4: return part_to_rows<4>(part, begin, end, to, row);
    case 5: return part_to_rows<5>(part, begin, end, to, row);
    case 6: return part_to_rows<6>(part, begin, end, to, row);
    case 7: return part_to_rows<7>(part, begin, end, to, row);
    case 8: return part_to_rows<8>(part, begin, end, to, row);
    default: break;
  }
  for (std::size_t o = begin; o < end; ++o) {
    for (std::size_t k = 0; k < words; ++k) to[o * row + k] = part[o * words + k];
  }
}
// Rows [begin, end) of the result of short parts: operands of one word some at a time, then every other
// operand, each read in order.
template <class Word>
void concatenate_words(const ConcatenateState& s, const Call& call, std::int64_t begin, std::int64_t end) {
  const std::size_t row = s.row / sizeof(Word), count = s.bytes.size();
  const auto first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end);
  std::size_t at = 0;
  for (std::size_t i = 0; i < count;) {
    std::size_t singles = i;
    while (singles < count && s.bytes[singles] == sizeof(Word)) ++singles;
    if constexpr (sizeof(Word) >= 4) {
      constexpr auto together = static_cast<std::size_t>(interleaved<Word>);
      if (singles - i >= together) {
        const auto interleave = interleave_kernel<Word>();
        while (i < singles) {  // the last of them perhaps anew, beside those that are left
          const std::size_t back = i + together > singles ? i + together - singles : 0;
          const Word* from[together];
          for (std::size_t k = 0; k < together; ++k) from[k] = call.operand<Word>(i - back + k);
          interleave(from, begin, end, call.result<Word>() + at - back, static_cast<std::int64_t>(row));
          i += together - back;
          at += together - back;
        }
        continue;
      }
    }
    Word* const to = call.result<Word>() + at;
    if (const std::size_t few = std::min<std::size_t>(singles - i, 4); few >= 2) {
      const Word* from[4];
      for (std::size_t k = 0; k < few; ++k) from[k] = call.operand<Word>(i + k);
      if constexpr (sizeof(Word) >= 4) {
        if (few == row) {
          for (std::size_t k = 0; k < few; ++k) from[k] += begin;
          return join_short_rows(from, static_cast<std::int64_t>(row), end - begin, to + first * row);
        }
      }
      if (few == 2) columns_to_rows<2>(from, first, last, to, row);
      if (few == 3) columns_to_rows<3>(from, first, last, to, row);
      if (few == 4) columns_to_rows<4>(from, first, last, to, row);
      i += few;
      at += few;
      continue;
    }
    const std::size_t words = s.bytes[i] / sizeof(Word);
    part_to_rows(call.operand<Word>(i), words, first, last, to, row);
    ++i;
    at += words;
  }
}
void concatenate_rows(const ConcatenateState& s, const Call& call, std::int64_t begin, std::int64_t end) {
  // Of the result, which stay in the cache meanwhile.
  const auto rows = static_cast<std::int64_t>(1024 / std::clamp<std::size_t>(s.row, 1, 16));
  for (; s.word != 0 && begin < end; begin += rows) {
    const std::int64_t stop = std::min(begin + rows, end), after = std::min(stop + rows, end);
    // What is written next is on its way meanwhile.
    for (std::size_t at = static_cast<std::size_t>(stop) * s.row;
         at < static_cast<std::size_t>(after) * s.row; at += 64)
      __builtin_prefetch(call.out[0] + at, 1);
    switch (s.word) {
      case 8: concatenate_words<std::uint64_t>(s, call, begin, stop); break;
      case 4: concatenate_words<std::uint32_t>(s, call, begin, stop); break;
      case 2: concatenate_words<std::uint16_t>(s, call, begin, stop); break;
      default: concatenate_words<std::uint8_t>(s, call, begin, stop); break;
    }
  }
  std::byte* to = call.out[0] + static_cast<std::size_t>(begin) * s.row;
  for (std::int64_t o = begin; o < end; ++o) {
    for (std::size_t i = 0; i < s.bytes.size(); ++i) {
      if (s.bytes[i] == 0) continue;
      const std::byte* const part = call.in[i] + static_cast<std::size_t>(o) * s.bytes[i];
      if (part != to)
        std::memcpy(to, part, s.bytes[i]);  // else it was made there, see steps/concat_in_place.cpp
      to += s.bytes[i];
    }
  }
}
void concatenate(const ConcatenateState& s, const Call& call) noexcept {
  constexpr std::size_t bytes_of_piece = std::size_t{1} << 18;
  const auto grain = static_cast<std::int64_t>(bytes_of_piece / std::max<std::size_t>(s.row, 1) + 1);
  parallel_for(s.threads, s.outer, grain,
               [&](std::int64_t begin, std::int64_t end) { concatenate_rows(s, call, begin, end); });
}
Plan plan_concatenate(const PlanRequest& request) {
  const auto axis = static_cast<std::size_t>(request.op.integer("dimension"));
  // Words are as aligned as the elements, of complex numbers their parts.
  const DType dtype = request.out[0].dtype();
  const std::size_t element = size_of(dtype) / (is_complex(dtype) ? 2 : 1);
  ConcatenateState state{AxisShape::of(request.out[0], axis).outer, {}, 0, element, request.threads};
  std::size_t longest = 0;
  for (const Type type : request.in) {
    const AxisShape part = AxisShape::of(type, axis);
    const std::size_t bytes = static_cast<std::size_t>(part.extent * part.inner) * size_of(type.dtype());
    state.bytes.push_back(bytes);
    state.row += bytes;
    longest = std::max(longest, bytes);
  }
  constexpr std::size_t short_part = 128;
  if (longest > short_part) state.word = 0;
  return make_plan<ConcatenateState, concatenate>(std::move(state));
}

struct CopyState {
  std::vector<std::size_t> bytes;
};
void copy_all(const CopyState& s, const Call& call) noexcept {
  for (std::size_t i = 0; i < s.bytes.size(); ++i) {
    if (s.bytes[i] != 0 && call.in[i] != call.out[i]) std::memcpy(call.out[i], call.in[i], s.bytes[i]);
  }
}
Plan plan_copy(const PlanRequest& request) {
  CopyState state;
  for (const Type type : request.out) state.bytes.push_back(type.bytes());
  return make_plan<CopyState, copy_all>(std::move(state));
}

// What is in a graph was written out when the Program was made; a graph that could not be has no kernel. A
// loop is planned by those who compile programs (cpu/scan.hpp, cpu/while.hpp), and so are a choice
// (cpu/cond.hpp) and a composition of others (cpu/composed.hpp).
Plan plan_call(const PlanRequest&) { return Plan(); }

constexpr KernelEntry shape_entries[] = {
    {"reshape", plan_copy, any_dtype, true},
    {"squeeze", plan_copy, any_dtype, true},
    {"expand_dims", plan_copy, any_dtype, true},
    {"stop_gradient", plan_copy, any_dtype, true},
    {"device_put", plan_copy, any_dtype, true},
    {"optimization_barrier", plan_copy, any_dtype, true},
    {"transpose", plan_transpose, any_dtype, true},
    {"broadcast_in_dim", plan_broadcast, any_dtype, true},
    {"rev", plan_rev, any_dtype, true},
    {"slice", plan_slice, any_dtype, true},
    {"pad", plan_pad, any_dtype, true},
    {"concatenate", plan_concatenate, any_dtype, true},
    {"call", plan_call, any_dtype, true},
    {"custom_jvp_call", plan_call, any_dtype, true},
    {"custom_jvp_transpose", plan_call, any_dtype, true},
    {"custom_vjp_call", plan_call, any_dtype, true},
    {"linear_call", plan_call, any_dtype, true},
    {"custom_linear_solve", plan_call, any_dtype, true},
    {"custom_root", plan_call, any_dtype, true},
    {"checkpoint", plan_call, any_dtype, true},
    {"scan", plan_call, any_dtype, true},
    {"cond", plan_call, any_dtype, true},
    {"while", plan_call, any_dtype, true},
    {"logsumexp", plan_call, floats, true},
};

}  // namespace

std::span<const KernelEntry> shape_kernels() { return shape_entries; }

}  // namespace tidu::cpu_detail
