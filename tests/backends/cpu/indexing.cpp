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

TEST_CASE("indexing of arrays without elements reads and writes nothing") {
  std::mt19937_64 random(19);
  for (const std::int64_t outer : {0, 2}) {
    for (const std::int64_t extent : {0, 4}) {
      for (const std::int64_t inner : {0, 1, 3}) {
        for (const std::int64_t count : {0, 5}) {
          if (extent == 0 && count > 0) continue;  // refused
          const Type x(f64, {outer, extent, inner}), places(i32, {count}), rows(f64, {outer, count, inner});
          const Tensor at = random_tensor(places, {0, 3}, random);
          for (const char* mode : {"clip", "drop"}) {
            const Attributes attributes{{"axis", 1}, {"mode", mode}};
            const Graph take = graph_of(Op::make(prim::take, attributes), {x, places});
            const Graph scatter = graph_of(Op::make(prim::scatter_add, attributes), {x, places, rows});
            INFO(to_text(scatter));
            for (const std::string& text : differences(take, {random_tensor(x, {}, random), at}, cpu()))
              CHECK_MESSAGE(false, text);
            const std::vector<Tensor> inputs{random_tensor(x, {}, random), at,
                                             random_tensor(rows, {}, random)};
            for (const std::string& text : differences(scatter, inputs, cpu())) CHECK_MESSAGE(false, text);
            // Memory after a buffer of no bytes is not written.
            if (outer != 0) continue;
            const Executable executable = cpu().compile(scatter);
            std::vector<std::vector<Tensor>> results;
            std::vector<Tensor> others;
            for (int repeat = 0; repeat < 64; ++repeat) {
              others.push_back(random_tensor(Type(f64, {4}), {7.25, 7.25}, random));
              results.push_back(executable.run(inputs));
            }
            for (const Tensor& other : others) CHECK(other.at(3) == 7.25);
          }
        }
      }
    }
  }
}

TEST_CASE("indexing of single elements and slices by an index for each, of which few are out of range") {
  std::mt19937_64 random(17);
  CpuOptions checking;
  checking.check_indices = true;
  const auto each = [&](Type x, Type places, std::int64_t axis, std::int64_t bad) {
    Tensor at =
        random_tensor(places, {0, static_cast<double>(x.dim(static_cast<std::size_t>(axis)) - 1)}, random);
    const std::int64_t out = bad % 2 == 0 ? x.dim(static_cast<std::size_t>(axis)) : -1;
    if (bad >= 0)
      std::memcpy(at.mutable_bytes() + static_cast<std::size_t>(bad) * size_of(places.dtype()), &out,
                  size_of(places.dtype()));
    const Type updates = places.with_dtype(x.dtype());
    const std::vector<Tensor> inputs{random_tensor(x, {}, random), at, random_tensor(updates, {}, random)};
    for (const char* mode : {"clip", "drop"}) {
      const Attributes attributes{{"axis", axis}, {"mode", mode}};
      const Graph take = graph_of(Op::make(prim::take_along_axis, attributes), {x, places});
      const Graph scatter =
          graph_of(Op::make(prim::scatter_add_along_axis, attributes), {x, places, updates});
      INFO(to_text(scatter), bad);
      for (const std::string& text : differences(take, {inputs[0], at}, cpu())) CHECK_MESSAGE(false, text);
      for (const std::string& text : differences(scatter, inputs, cpu())) CHECK_MESSAGE(false, text);
      for (const Graph& graph : {take, scatter}) {
        const std::span<const Tensor> given(inputs.data(), graph.inputs().size());
        const auto checked = cpu().with_options(checking).compile(graph).try_run(given);
        REQUIRE(checked.has_value() == (bad < 0));
        if (bad < 0) continue;
        const std::string expected = detail::str("got ", out, " at position ", bad);
        CHECK(std::string(checked.error().what()).find(expected) != std::string::npos);
      }
    }
  };
  for (const DType index : {i32, i64}) {
    for (const std::int64_t count : {1, 2, 85, 86, 127, 128, 129, 256, 257, 600}) {
      for (const std::int64_t inner : {1, 2, 3, 300}) {
        if (inner == 300 && count > 2) continue;
        const Type x(f32, {3, 7, inner}), places(index, {3, count, inner});
        for (const std::int64_t bad :
             {std::int64_t{-1}, std::int64_t{0}, places.size() / 2, places.size() - 1})
          each(x, places, 1, bad);
      }
    }
    for (const DType dtype : {i32, i64, f64, f16, bf16, c64, c128})
      each(Type(dtype, {130, 4}), Type(index, {130, 3}), 1, -1);
    each(Type(f32, {0, 4}), Type(index, {0, 3}), 1, -1);
    each(Type(f32, {3, 4}), Type(index, {3, 0}), 1, -1);
  }
  finish_checks();
}

TEST_CASE("indices near the ends of their dtypes are out of range") {
  for (const char* mode : {"clip", "drop"}) {
    const Attributes attributes{{"axis", 0}, {"mode", mode}};
    const auto each = [&](const Tensor& at) {
      const Graph take = graph_of(Op::make(prim::take, attributes), {Type(i32, {5}), at.type()});
      const Tensor x = Tensor::from<std::int32_t>({5}, {1, 2, 3, 4, 5});
      for (const std::string& text : differences(take, {x, at}, cpu())) CHECK_MESSAGE(false, text);
    };
    constexpr auto least = std::numeric_limits<std::int64_t>::min(),
                   most = std::numeric_limits<std::int64_t>::max();
    constexpr auto least32 = std::numeric_limits<std::int32_t>::min(),
                   most32 = std::numeric_limits<std::int32_t>::max();
    for (const std::int64_t index : {least, least + 1, least + 4, least + 5, std::int64_t{-1}, most, most - 4,
                                     std::int64_t{1} << 32, (std::int64_t{1} << 32) + 2})
      each(Tensor::from<std::int64_t>({3}, {1, index, 2}));
    for (const std::int32_t index : {least32, least32 + 1, least32 + 4, least32 + 5, -1, most32, most32 - 4})
      each(Tensor::from<std::int32_t>({3}, {1, index, 2}));
  }
  finish_checks();
}

}  // namespace indexing_cases
