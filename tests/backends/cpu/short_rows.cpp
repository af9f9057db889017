// Rows of two to four words brought to columns and back, by each instruction set that the CPU has.
#include "cpu/kernels/short_rows.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace tidu::cpu_detail;

namespace {

template <class Word>
void check_short_rows(InstructionSet best) {
  std::mt19937_64 random(5);
  for (std::int64_t row = min_short_row; row <= max_short_row; ++row) {
    for (std::int64_t count = 0; count <= 70; ++count) {
      // Which columns are wanted, by bits; the last row ends with the last of them.
      for (unsigned wanted = 1; wanted < 1U << row; ++wanted) {
        std::int64_t last = row - 1;
        while ((wanted >> last & 1U) == 0) --last;
        const std::int64_t words = count == 0 ? 0 : (count - 1) * row + last + 1;
        std::vector<Word> rows(static_cast<std::size_t>(words));
        for (Word& word : rows) word = static_cast<Word>(random());
        rows.shrink_to_fit();
        constexpr Word untouched = 77;
        std::vector<std::vector<Word>> columns(
            max_short_row, std::vector<Word>(static_cast<std::size_t>(count) + 1, untouched));
        Word* to[max_short_row] = {};
        for (std::size_t k = 0; k < max_short_row; ++k)
          to[k] = (wanted >> k & 1U) != 0 ? columns[k].data() : nullptr;
        split_short_rows(rows.data(), row, count, to, best);
        bool right = true;
        for (std::size_t k = 0; k < max_short_row; ++k) {
          right = right && columns[k].back() == untouched;
          for (std::int64_t i = 0; i < count; ++i) {
            const Word expected = to[k] == nullptr ? untouched : rows[static_cast<std::size_t>(i * row) + k];
            right = right && columns[k][static_cast<std::size_t>(i)] == expected;
          }
        }
        CHECK(right);
        if (wanted + 1 != 1U << row) continue;
        std::vector<Word> again(rows.size() + 1, untouched);
        join_short_rows<Word>(to, row, count, again.data(), best);
        CHECK(again.back() == untouched);
        again.pop_back();
        CHECK(again == rows);
      }
    }
  }
}

}  // namespace

TEST_CASE("rows of two to four words are split into columns and joined again") {
  for (const InstructionSet best : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    check_short_rows<std::uint32_t>(best);
    check_short_rows<std::uint64_t>(best);
  }
}
