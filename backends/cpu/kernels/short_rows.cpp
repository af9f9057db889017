// short_rows.cpp - see short_rows.hpp; by AVX2 or AVX-512 where they are there.
//
// Note [Shuffles]: as many vectors as a row has words are rows one behind the other. A word of a result is in
// the first two of them or in the others, so two shuffles of two vectors give it (of four words three), with
// the places of words known to the compiler.
#include "cpu/kernels/short_rows.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail {
namespace {

template <class Word>
void split_one_by_one(const Word* from, std::int64_t row, std::int64_t begin, std::int64_t end,
                      Word* const* to) {
  for (std::int64_t k = 0; k < row; ++k) {
    if (to[k] == nullptr) continue;
    for (std::int64_t i = begin; i < end; ++i) to[k][i] = from[i * row + k];
  }
}
template <class Word>
void join_one_by_one(const Word* const* from, std::int64_t row, std::int64_t begin, std::int64_t end,
                     Word* to) {
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t k = 0; k < row; ++k) to[i * row + k] = from[k][i];
  }
}

#if defined(__x86_64__)

// A vector of `Lanes` words; how many bytes it has says which instructions it takes.
template <class Word, int Lanes>
struct VectorOf;
template <>
struct VectorOf<std::uint32_t, 8> {
  using type = std::uint32_t __attribute__((vector_size(32)));
};
template <>
struct VectorOf<std::uint64_t, 4> {
  using type = std::uint64_t __attribute__((vector_size(32)));
};
template <>
struct VectorOf<std::uint32_t, 16> {
  using type = std::uint32_t __attribute__((vector_size(64)));
};
template <>
struct VectorOf<std::uint64_t, 8> {
  using type = std::uint64_t __attribute__((vector_size(64)));
};

// Where word i of a column is among those of all vectors, and word j of the v-th vector of rows among those
// of all columns, which are then words of vector j % Row.
constexpr int in_rows(int row, int k, int i) { return i * row + k; }

// ShuffleIndices for a shuffle of the first two vectors, of the others, and of what both give.
template <int Lanes>
struct ShuffleIndices {
  int first[Lanes], second[Lanes], both[Lanes];
};
template <int Row, int Lanes>
constexpr ShuffleIndices<Lanes> column_indices(int k) {
  ShuffleIndices<Lanes> indices{};
  for (int i = 0; i < Lanes; ++i) {
    const int at = in_rows(Row, k, i);
    const bool is_first = at < 2 * Lanes;
    indices.first[i] = is_first ? at : 0;
    indices.second[i] = is_first ? 0 : at - 2 * Lanes;
    indices.both[i] = is_first ? i : Row == 3 ? at - Lanes : Lanes + i;
  }
  return indices;
}
template <int Row, int Lanes>
constexpr ShuffleIndices<Lanes> row_indices(int v) {
  ShuffleIndices<Lanes> indices{};
  for (int j = 0; j < Lanes; ++j) {
    const int at = v * Lanes + j, i = at / Row, k = at % Row;
    const bool is_first = k < 2;
    indices.first[j] = is_first ? k * Lanes + i : 0;
    indices.second[j] = is_first ? 0 : (k - 2) * Lanes + i;
    indices.both[j] = is_first ? j : Row == 3 ? Lanes + i : Lanes + j;
  }
  return indices;
}

// Functions of what a target attribute allows, written once for both.
#define TIDU_SHORT_ROWS(name, isa)                                                                         \
  struct name {                                                                                            \
    template <class Vector, class P, std::size_t... i>                                                     \
    __attribute__((target(isa), always_inline)) static inline Vector shuffled(const Vector* x, P,          \
                                                                              std::index_sequence<i...>) { \
      constexpr auto p = P::value();                                                                       \
      if constexpr (P::row == 2) {                                                                         \
        return __builtin_shufflevector(x[0], x[1], p.first[i]...);                                         \
      } else if constexpr (P::row == 3) {                                                                  \
        const Vector first = __builtin_shufflevector(x[0], x[1], p.first[i]...);                           \
        return __builtin_shufflevector(first, x[2], p.both[i]...);                                         \
      } else {                                                                                             \
        const Vector first = __builtin_shufflevector(x[0], x[1], p.first[i]...);                           \
        const Vector second = __builtin_shufflevector(x[2], x[3], p.second[i]...);                         \
        return __builtin_shufflevector(first, second, p.both[i]...);                                       \
      }                                                                                                    \
    }                                                                                                      \
    template <class Word, int Lanes, int Row, int... k>                                                    \
    __attribute__((target(isa))) static std::int64_t split(const Word* from, std::int64_t count,           \
                                                           Word* const* to,                                \
                                                           std::integer_sequence<int, k...>) {             \
      using Vector = typename VectorOf<Word, Lanes>::type;                                                 \
      std::int64_t i = 0;                                                                                  \
      const std::int64_t end = to[Row - 1] != nullptr ? count : count - 1;                                 \
      for (; i + Lanes <= end; i += Lanes) {                                                               \
        Vector x[Row];                                                                                     \
        std::memcpy(x, from + i * Row, sizeof x);                                                          \
        const auto put = [&](Word * column, const Vector& words) __attribute__((always_inline)) {          \
          if (column != nullptr) std::memcpy(column + i, &words, sizeof words);                            \
        };                                                                                                 \
        (put(to[k], shuffled(x, ColumnShuffle<Row, Lanes, k>(), std::make_index_sequence<Lanes>())), ...); \
      }                                                                                                    \
      return i;                                                                                            \
    }                                                                                                      \
    template <class Word, int Lanes, int Row, int... v>                                                    \
    __attribute__((target(isa))) static std::int64_t join(const Word* const* from, std::int64_t count,     \
                                                          Word* to, std::integer_sequence<int, v...>) {    \
      using Vector = typename VectorOf<Word, Lanes>::type;                                                 \
      std::int64_t i = 0;                                                                                  \
      for (; i + Lanes <= count; i += Lanes) {                                                             \
        Vector x[Row];                                                                                     \
        for (int k = 0; k < Row; ++k) std::memcpy(&x[k], from[k] + i, sizeof x[k]);                        \
        const Vector rows[] = {                                                                            \
            shuffled(x, RowShuffle<Row, Lanes, v>(), std::make_index_sequence<Lanes>())...};               \
        std::memcpy(to + i * Row, rows, sizeof rows);                                                      \
      }                                                                                                    \
      return i;                                                                                            \
    }                                                                                                      \
  };

template <int Row, int Lanes, int k>
struct ColumnShuffle {
  static constexpr int row = Row;
  static constexpr ShuffleIndices<Lanes> value() { return column_indices<Row, Lanes>(k); }
};
template <int Row, int Lanes, int v>
struct RowShuffle {
  static constexpr int row = Row;
  static constexpr ShuffleIndices<Lanes> value() { return row_indices<Row, Lanes>(v); }
};
TIDU_SHORT_ROWS(ByAvx2, "avx2")
TIDU_SHORT_ROWS(ByAvx512, "avx512f")
#undef TIDU_SHORT_ROWS

template <class By, class Word, int Lanes>
std::int64_t split_vectors(const Word* from, std::int64_t row, std::int64_t count, Word* const* to) {
  switch (row) {
    case 2: return By::template split<Word, Lanes, 2>(from, count, to, std::make_integer_sequence<int, 2>());
    case 3: return By::template split<Word, Lanes, 3>(from, count, to, std::make_integer_sequence<int, 3>());
    default: return By::template split<Word, Lanes, 4>(from, count, to, std::make_integer_sequence<int, 4>());
  }
}
template <class By, class Word, int Lanes>
std::int64_t join_vectors(const Word* const* from, std::int64_t row, std::int64_t count, Word* to) {
  switch (row) {
    case 2: return By::template join<Word, Lanes, 2>(from, count, to, std::make_integer_sequence<int, 2>());
    case 3: return By::template join<Word, Lanes, 3>(from, count, to, std::make_integer_sequence<int, 3>());
    default: return By::template join<Word, Lanes, 4>(from, count, to, std::make_integer_sequence<int, 4>());
  }
}

#endif

}  // namespace

template <class Word>
void split_short_rows(const Word* from, std::int64_t row, std::int64_t count, Word* const* to,
                      [[maybe_unused]] InstructionSet best) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  constexpr int lanes = static_cast<int>(32 / sizeof(Word));
  if (best == InstructionSet::avx512 && cpu_has(best)) {
    done = split_vectors<ByAvx512, Word, 2 * lanes>(from, row, count, to);
  } else if (best != InstructionSet::baseline && cpu_has(InstructionSet::avx2)) {
    done = split_vectors<ByAvx2, Word, lanes>(from, row, count, to);
  }
#endif
  split_one_by_one(from, row, done, count, to);
}
template <class Word>
void join_short_rows(const Word* const* from, std::int64_t row, std::int64_t count, Word* to,
                     [[maybe_unused]] InstructionSet best) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  constexpr int lanes = static_cast<int>(32 / sizeof(Word));
  if (best == InstructionSet::avx512 && cpu_has(best)) {
    done = join_vectors<ByAvx512, Word, 2 * lanes>(from, row, count, to);
  } else if (best != InstructionSet::baseline && cpu_has(InstructionSet::avx2)) {
    done = join_vectors<ByAvx2, Word, lanes>(from, row, count, to);
  }
#endif
  join_one_by_one(from, row, done, count, to);
}
template void split_short_rows(const std::uint32_t*, std::int64_t, std::int64_t, std::uint32_t* const*,
                               InstructionSet);
template void split_short_rows(const std::uint64_t*, std::int64_t, std::int64_t, std::uint64_t* const*,
                               InstructionSet);
template void join_short_rows(const std::uint32_t* const*, std::int64_t, std::int64_t, std::uint32_t*,
                              InstructionSet);
template void join_short_rows(const std::uint64_t* const*, std::int64_t, std::int64_t, std::uint64_t*,
                              InstructionSet);

}  // namespace tidu::cpu_detail
