// Rows of words transposed to columns, and the offsets where they lie, by the kernels of this CPU.
#include "cpu/kernels/columns.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace tidu::cpu_detail;

namespace {

// Tables with rows longer than the gathered part, the last position at the very end.
template <class Word>
void check_gather_columns() {
  constexpr std::int64_t most = 13, width = 14, rows = 9, stride = 40;
  std::mt19937_64 random(12);
  std::vector<Word> table(rows * width - 1);
  for (Word& word : table) word = static_cast<Word>(random());
  for (std::int64_t columns = 1; columns <= most; ++columns) {
    for (std::int64_t count = 0; count <= 27; ++count) {
      std::vector<std::int64_t> places;
      for (std::int64_t i = 0; i < count; ++i)
        places.push_back(i % 5 == 4 ? static_cast<std::int64_t>(table.size()) - columns
                                    : static_cast<std::int64_t>(random() % rows) * width);
      for (std::int64_t& place : places)
        place = std::min(place, static_cast<std::int64_t>(table.size()) - columns);
      std::vector<Word> got(static_cast<std::size_t>(most * stride), 7), expected = got;
      for (std::int64_t k = 0; k < columns; ++k) {
        for (std::int64_t i = 0; i < count; ++i)
          expected[static_cast<std::size_t>(k * stride + i)] =
              table[static_cast<std::size_t>(places[static_cast<std::size_t>(i)] + k)];
      }
      // In memory that ends where the table does, so that a reading beyond is found.
      const std::vector<Word> ends(table);
      gather_columns_kernel<Word>()(ends.data(), places.data(), count, columns, got.data(), stride);
      CHECK(got == expected);
    }
  }
}

template <class Index>
void check_find_offsets() {
  const std::vector<Index> indices{
      0, 1, -1, 5, std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max(), -7, 6, 4, 99, 3, 2};
  for (const auto& [last, step] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {4, 11}, {0, 3}, {100, 1}, {std::int64_t{1} << 40, 2}, {4, std::int64_t{1} << 40}}) {
    for (std::size_t count = 0; count <= indices.size(); ++count) {
      std::vector<std::int64_t> got(count, -1), expected;
      for (std::size_t i = 0; i < count; ++i)
        expected.push_back(std::clamp<std::int64_t>(indices[i], 0, last) * step);
      find_offsets(indices.data(), static_cast<std::int64_t>(count), last, step, got.data());
      CHECK(got == expected);
    }
  }
}

}  // namespace

TEST_CASE("[columns] any rows are brought to any columns, and nothing else is read or written") {
  check_gather_columns<std::uint32_t>();
  check_gather_columns<std::uint64_t>();
}

TEST_CASE("[columns] indices are clamped to the array") {
  check_find_offsets<std::int32_t>();
  check_find_offsets<std::int64_t>();
}
