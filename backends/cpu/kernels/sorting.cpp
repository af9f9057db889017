// sorting.cpp - kernels of sort and top_k. Every key becomes one or two unsigned words in whose order it is
// to stand; indices are sorted by these words, the lower index first where they are equal, and the operands
// gathered. Nothing depends on the dtype but the making of words.
#include <algorithm>
#include <bit>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/layout.hpp"

namespace tidu::cpu_detail {
namespace {

/// An element's word, and where in its line it stands.
struct Keyed {
  std::uint64_t word;
  std::int64_t index;
};

constexpr std::uint64_t top_bit = std::uint64_t{1} << 63U;
constexpr std::uint64_t not_a_number = ~std::uint64_t{0};

// Words in ascending order for the bits of a floating number whose sign is the highest of 64: NaN is
// last, and -0 the same as 0 unless zeros are signed.
template <bool signed_zeros>
std::uint64_t word_of_float(std::uint64_t bits, std::uint64_t infinity) {
  const std::uint64_t magnitude = bits & ~top_bit;
  if (magnitude > infinity) return not_a_number;
  if (magnitude == 0 && !signed_zeros) return top_bit;
  return (bits & top_bit) != 0 ? ~bits : bits | top_bit;
}

template <bool signed_zeros, class T>
std::uint64_t word_of(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return word_of_float<signed_zeros>(std::bit_cast<std::uint64_t>(x), 0x7ff0000000000000U);
  } else if constexpr (std::is_same_v<T, float>) {
    return word_of_float<signed_zeros>(std::uint64_t{std::bit_cast<std::uint32_t>(x)} << 32U,
                                       0x7f80000000000000U);
  } else if constexpr (std::is_same_v<T, bool>) {
    return x ? 1 : 0;
  } else {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) ^ top_bit;
  }
}

/// Calls body(i, word) for count elements that lie `stride` elements apart.
template <bool signed_zeros, class Body>
void for_words(DType dtype, const std::byte* from, std::int64_t stride, std::int64_t count,
               const Body& body) {
  const auto all = [&]<class T>(const T* x, std::int64_t step, const auto& word) {
    for (std::int64_t i = 0; i < count; ++i) body(i, word(x[i * step]));
  };
  const auto plain = []<class T>(T x) { return word_of<signed_zeros>(x); };
  const auto half = [&](std::uint64_t infinity) {
    all(reinterpret_cast<const std::uint16_t*>(from), stride,
        [=](std::uint16_t x) { return word_of_float<signed_zeros>(std::uint64_t{x} << 48U, infinity); });
  };
  switch (dtype) {
    case DType::boolean: return all(reinterpret_cast<const bool*>(from), stride, plain);
    case DType::i32: return all(reinterpret_cast<const std::int32_t*>(from), stride, plain);
    case DType::i64: return all(reinterpret_cast<const std::int64_t*>(from), stride, plain);
    case DType::f16: return half(0x7c00000000000000U);
    case DType::bf16: return half(0x7f80000000000000U);
    case DType::f32: return all(reinterpret_cast<const float*>(from), stride, plain);
    case DType::f64: return all(reinterpret_cast<const double*>(from), stride, plain);
    case DType::c64: return all(reinterpret_cast<const float*>(from), 2 * stride, plain);
    case DType::c128: return all(reinterpret_cast<const double*>(from), 2 * stride, plain);
  }
}

/// to[i * stride] = from[index(i) * stride] for elements of that many bytes.
template <class Index>
void gather(std::size_t size, const std::byte* from, std::byte* to, std::int64_t stride, std::int64_t count,
            const Index& index) {
  const auto as = [&]<class E>(const E* x, E* y) {
    for (std::int64_t i = 0; i < count; ++i) y[i * stride] = x[index(i) * stride];
  };
  switch (size) {
    case 1: return as(reinterpret_cast<const std::uint8_t*>(from), reinterpret_cast<std::uint8_t*>(to));
    case 2: return as(reinterpret_cast<const std::uint16_t*>(from), reinterpret_cast<std::uint16_t*>(to));
    case 4: return as(reinterpret_cast<const std::uint32_t*>(from), reinterpret_cast<std::uint32_t*>(to));
    case 8: return as(reinterpret_cast<const std::uint64_t*>(from), reinterpret_cast<std::uint64_t*>(to));
    default: return as(reinterpret_cast<const SixteenBytes*>(from), reinterpret_cast<SixteenBytes*>(to));
  }
}

struct SortState : AxisShape {
  struct Key {
    std::size_t operand;
    std::size_t part;  // bytes from an element to what is compared: its imaginary part's place, or 0
    DType dtype;
  };
  std::vector<Key> keys;
  std::vector<std::size_t> sizes;  // by operand: of an element
};

// Calls line(offset) with the place of the first element of every line.
template <class Line>
void for_lines(const SortState& s, const Line& line) {
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t j = 0; j < s.inner; ++j) line(o * s.extent * s.inner + j);
  }
}
template <class Index>
void gather_line(const SortState& s, const Call& call, std::int64_t offset, const Index& index) {
  for (std::size_t i = 0; i < s.sizes.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(offset) * s.sizes[i];
    gather(s.sizes[i], call.in[i] + at, call.out[i] + at, s.inner, s.extent, index);
  }
}
const std::byte* first_of(const SortState& s, const Call& call, const SortState::Key& key,
                          std::int64_t offset) {
  return call.in[key.operand] + static_cast<std::size_t>(offset) * s.sizes[key.operand] + key.part;
}

void sort_by_one(const SortState& s, const Call& call) {
  Keyed* const line = reinterpret_cast<Keyed*>(call.scratch);
  const SortState::Key& key = s.keys[0];
  for_lines(s, [&](std::int64_t offset) {
    for_words<false>(key.dtype, first_of(s, call, key, offset), s.inner, s.extent,
                     [&](std::int64_t i, std::uint64_t word) {
                       line[i] = {word, i};
                     });
    std::sort(line, line + s.extent, [](const Keyed& a, const Keyed& b) {
      return a.word < b.word || (a.word == b.word && a.index < b.index);
    });
    gather_line(s, call, offset, [=](std::int64_t i) { return line[i].index; });
  });
}

void sort_by_several(const SortState& s, const Call& call) {
  auto* const words = reinterpret_cast<std::uint64_t*>(call.scratch);
  const auto count = static_cast<std::int64_t>(s.keys.size());
  auto* const line = reinterpret_cast<std::int64_t*>(words + count * s.extent);
  for_lines(s, [&](std::int64_t offset) {
    for (std::int64_t k = 0; k < count; ++k) {
      const SortState::Key& key = s.keys[static_cast<std::size_t>(k)];
      for_words<false>(key.dtype, first_of(s, call, key, offset), s.inner, s.extent,
                       [&](std::int64_t i, std::uint64_t word) { words[i * count + k] = word; });
    }
    for (std::int64_t i = 0; i < s.extent; ++i) line[i] = i;
    std::sort(line, line + s.extent, [=](std::int64_t a, std::int64_t b) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::uint64_t x = words[a * count + k];
        const std::uint64_t y = words[b * count + k];
        if (x != y) return x < y;
      }
      return a < b;
    });
    gather_line(s, call, offset, [=](std::int64_t i) { return line[i]; });
  });
}

Plan plan_sort(const PlanRequest& request) {
  const auto axis = static_cast<std::size_t>(request.op.integer("dimension"));
  SortState state{AxisShape::of_lines(request.in[0], axis), {}, {}};
  for (const Type type : request.in) state.sizes.push_back(size_of(type.dtype()));
  for (std::size_t i = 0; i < static_cast<std::size_t>(request.op.integer("num_keys")); ++i) {
    const DType dtype = request.in[i].dtype();
    state.keys.push_back({i, 0, dtype});
    if (is_complex(dtype)) state.keys.push_back({i, size_of(dtype) / 2, dtype});
  }
  const auto n = static_cast<std::size_t>(state.extent);
  if (state.keys.size() == 1) return make_plan<SortState, sort_by_one>(std::move(state), n * sizeof(Keyed));
  const std::size_t scratch = n * (state.keys.size() + 1) * sizeof(std::uint64_t);
  return make_plan<SortState, sort_by_several>(std::move(state), scratch);
}

struct TopKState {
  std::int64_t rows, extent, k;
  DType dtype;
};
bool is_above(const Keyed& a, const Keyed& b) {
  return a.word > b.word || (a.word == b.word && a.index < b.index);
}

// The k first of a row, in order, to the beginning of `line`. Candidates are gathered until they are several
// times as many; then the k first of them stay, of which the last is what later ones have to be above.
template <class T>
void first_of_row(const T* x, std::int64_t extent, std::int64_t k, Keyed* line) {
  const std::int64_t most = std::min(extent, 2 * k + 16);
  std::int64_t i = 0;
  for (; i < most; ++i) line[i] = {word_of<true>(x[i]), i};
  std::int64_t count = most;
  const auto keep_first = [&] {
    if (k < count) std::nth_element(line, line + (k - 1), line + count, is_above);
    count = k;
  };
  while (i < extent) {
    keep_first();
    const std::uint64_t last = line[k - 1].word;
    const T least = x[line[k - 1].index];
    for (; i < extent && count < most; ++i) {
      if (x[i] < least) continue;  // most are
      const std::uint64_t word = word_of<true>(x[i]);
      if (word > last) line[count++] = {word, i};
    }
  }
  keep_first();
  std::sort(line, line + k, is_above);
}

void top_k(const TopKState& s, const Call& call) {
  Keyed* const line = reinterpret_cast<Keyed*>(call.scratch);
  const std::size_t size = size_of(s.dtype);
  std::int32_t* indices = call.result<std::int32_t>(1);
  for (std::int64_t row = 0; row < s.rows; ++row, indices += s.k) {
    const std::byte* from = call.in[0] + static_cast<std::size_t>(row * s.extent) * size;
    const auto first = [&]<class T>(std::type_identity<T>) {
      first_of_row(reinterpret_cast<const T*>(from), s.extent, s.k, line);
    };
    switch (s.dtype) {
      case DType::f32: first(std::type_identity<float>()); break;
      case DType::f64: first(std::type_identity<double>()); break;
      case DType::i32: first(std::type_identity<std::int32_t>()); break;
      case DType::i64: first(std::type_identity<std::int64_t>()); break;
      default:
        for_words<true>(s.dtype, from, 1, s.extent, [&](std::int64_t i, std::uint64_t word) {
          line[i] = {word, i};
        });
        if (s.k < s.extent) std::nth_element(line, line + s.k, line + s.extent, is_above);
        std::sort(line, line + s.k, is_above);
    }
    for (std::int64_t i = 0; i < s.k; ++i) indices[i] = static_cast<std::int32_t>(line[i].index);
    gather(size, from, call.out[0] + static_cast<std::size_t>(row * s.k) * size, 1, s.k,
           [=](std::int64_t i) { return line[i].index; });
  }
}
Plan plan_top_k(const PlanRequest& request) {
  const Type x = request.in[0];
  const std::int64_t k = request.op.integer("k");
  const std::int64_t extent = x.dim(x.rank() - 1);
  if (x.size() == 0 || k == 0) return make_plan<TopKState, top_k>({0, extent, k, x.dtype()});
  return make_plan<TopKState, top_k>({x.size() / extent, extent, k, x.dtype()},
                                     static_cast<std::size_t>(extent) * sizeof(Keyed));
}

constexpr KernelEntry sorting_entries[] = {
    {"sort", plan_sort, any_dtype, true},
    {"top_k", plan_top_k, ordered, true},
};

}  // namespace

std::span<const KernelEntry> sorting_kernels() { return sorting_entries; }

}  // namespace tidu::cpu_detail
