// Indices of many positions: those that are all in range go another way than those of which some are not.
#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

namespace indexing_cases {

TEST_CASE("indexing of single elements and short rows, of many positions of which few are out of range") {
  std::mt19937_64 random(16);
  CpuOptions checking;
  checking.check_indices = true;
  for (const DType index : {i32, i64}) {
    for (const std::int64_t count : {255, 256, 257, 700}) {
      for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{0}, count / 2, count - 1}) {
        for (const std::int64_t inner : {1, 3, 4}) {
          const Type x(f64, {2, 5, inner}), places(index, {count}), rows(f64, {2, count, inner});
          Tensor at = random_tensor(places, {0, 4}, random);
          const std::int64_t out = bad % 2 == 0 ? 5 : -3;
          if (bad >= 0)
            std::memcpy(at.mutable_bytes() + static_cast<std::size_t>(bad) * size_of(index), &out,
                        size_of(index));
          const std::vector<Tensor> inputs{random_tensor(x, {}, random), at, random_tensor(rows, {}, random)};
          for (const char* mode : {"clip", "drop"}) {
            const Attributes attributes{{"axis", 1}, {"mode", mode}};
            const Graph take = graph_of(Op::make(prim::take, attributes), {x, places});
            const Graph scatter = graph_of(Op::make(prim::scatter_add, attributes), {x, places, rows});
            INFO(to_text(scatter), bad);
            for (const std::string& text : differences(take, {inputs[0], at}, cpu()))
              CHECK_MESSAGE(false, text);
            for (const std::string& text : differences(scatter, inputs, cpu())) CHECK_MESSAGE(false, text);
            const auto checked = cpu().with_options(checking).compile(scatter).try_run(inputs);
            REQUIRE(checked.has_value() == (bad < 0));
            if (bad < 0) continue;
            const std::string expected = detail::str("got ", out, " at position ", bad);
            CHECK(std::string(checked.error().what()).find(expected) != std::string::npos);
          }
        }
      }
    }
  }
  finish_checks();
}

}  // namespace indexing_cases
