// Convolutions, sliding windows and random bits on the CPU compared with the reference interpreter: every
// dtype, layout and way to split a convolution, and random shapes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/primitives/convolution.hpp"
#include "tidu/primitives/random.hpp"

namespace windows_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

constexpr DType number_dtypes[] = {i32, i64, f16, bf16, f32, f64, c64, c128};

struct Conv {
  Shape lhs, rhs;  // batch, feature, spatial; result, feature, spatial
  Ints strides{}, lhs_dilation{}, rhs_dilation{};
  IntLists padding{};
  std::int64_t groups = 1;
};

// Axis k of the description is at spec[k].
Shape placed(const Shape& shape, const Ints& spec) {
  Shape result(shape.size());
  for (std::size_t k = 0; k < spec.size(); ++k) result[static_cast<std::size_t>(spec[k])] = shape[k];
  return result;
}

void check_convolution(const Conv& conv, const IntLists& specs, DType dtype, std::mt19937_64& random) {
  const std::size_t count = conv.strides.size();
  const Op op = Op::make(prim::conv_general_dilated,
                         {{"window_strides", conv.strides},
                          {"padding", conv.padding.empty() ? IntLists(count, Ints{0, 0}) : conv.padding},
                          {"lhs_dilation", conv.lhs_dilation.empty() ? Ints(count, 1) : conv.lhs_dilation},
                          {"rhs_dilation", conv.rhs_dilation.empty() ? Ints(count, 1) : conv.rhs_dilation},
                          {"dimension_numbers", specs},
                          {"feature_group_count", conv.groups}});
  // Where rounding would show, terms that do not cancel each other.
  std::int64_t terms = 1;
  for (std::size_t k = 1; k < conv.rhs.size(); ++k) terms *= conv.rhs[k];
  const bool rounds = is_floating(dtype) && (size_of(dtype) == 2 || terms > 2000);
  check_operation(op, {Type(dtype, placed(conv.lhs, specs[0])), Type(dtype, placed(conv.rhs, specs[1]))},
                  {rounds ? Domain{0.1, 0.5} : Domain{-1, 1}}, random);
}

Ints counting(std::size_t count) {
  Ints list(count);
  std::iota(list.begin(), list.end(), 0);
  return list;
}
// Features first, features last.
IntLists first(std::size_t rank) { return IntLists(3, counting(rank)); }
IntLists last(std::size_t rank) {
  Ints data{0}, kernel{static_cast<std::int64_t>(rank) - 1, static_cast<std::int64_t>(rank) - 2};
  data.push_back(static_cast<std::int64_t>(rank) - 1);
  for (std::int64_t k = 1; k + 1 < static_cast<std::int64_t>(rank); ++k) {
    data.push_back(k);
    kernel.push_back(k - 1);
  }
  return {data, kernel, data};
}

}  // namespace

TEST_CASE("convolutions in every dtype, features first and last") {
  std::mt19937_64 random(21);
  const std::vector<Conv> rows{
      {{2, 3, 7, 6}, {4, 3, 3, 2}, {1, 1}, {}, {}, {{1, 1}, {0, 1}}},
      {{2, 3, 9, 8}, {4, 3, 3, 2}, {3, 2}, {}, {1, 2}, {{-1, 2}, {1, -1}}},
      {{1, 2, 4, 5}, {3, 2, 3, 3}, {1, 2}, {2, 3}, {2, 1}, {{3, 1}, {0, 2}}},
      {{2, 4, 5, 5}, {6, 2, 2, 3}, {1, 1}, {}, {}, {{0, 0}, {1, 1}}, 2},
      {{2, 5, 6, 6}, {5, 1, 3, 3}, {1, 1}, {}, {}, {{1, 1}, {1, 1}}, 5},
      {{2, 9, 6, 5}, {9, 1, 3, 2}, {1, 2}, {2, 1}, {}, {{1, 1}, {0, 1}}, 9},
      {{2, 6, 5, 4}, {4, 6, 1, 1}, {1, 1}},
      {{2, 6, 5, 4}, {4, 6, 1, 1}, {2, 3}},
      {{3, 2, 9, 8}, {2, 2, 8, 8}, {1, 1}},
      {{3, 4, 11}, {5, 4, 4}, {2}},
      {{2, 2, 4, 5, 4}, {3, 2, 2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {}, {{0, 1}, {1, 1}, {1, 0}}},
      {{3, 4}, {5, 4}, {}},
      {{2, 3, 2, 9}, {4, 3, 3, 3}, {1, 1}},
      {{0, 3, 4, 4}, {4, 3, 3, 3}, {1, 1}},
      {{2, 0, 4, 4}, {4, 0, 3, 3}, {1, 1}},
      {{2, 3, 4, 4}, {0, 3, 3, 3}, {1, 1}},
      {{2, 3, 4, 4}, {2, 3, 0, 3}, {1, 1}},
      {{2, 3, 0, 4}, {2, 3, 2, 3}, {1, 1}, {}, {}, {{2, 2}, {0, 0}}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}}};
  for (const Conv& row : rows) {
    for (const DType dtype : number_dtypes) {
      check_convolution(row, first(row.lhs.size()), dtype, random);
      check_convolution(row, last(row.lhs.size()), dtype, random);
    }
  }
  finish_checks();
}

TEST_CASE("convolutions that take many blocks, parts of sums, or neither") {
  std::mt19937_64 random(22);
  const std::vector<Conv> rows{
      {{3, 2, 40, 41}, {4, 2, 5, 5}, {1, 1}, {}, {}, {{2, 2}, {2, 2}}},
      {{2, 300, 6, 6}, {5, 300, 3, 3}, {1, 1}, {}, {}, {{1, 1}, {1, 1}}},      // 2,700 terms
      {{3, 7, 40, 40}, {2, 7, 36, 36}, {1, 1}},                                // a cotangent as the kernel
      {{2, 3, 17, 17}, {4, 3, 15, 13}, {1, 1}, {}, {2, 1}, {{7, 6}, {0, 0}}},  // and of a strided one
      {{2, 4, 30, 31}, {6, 4, 3, 3}, {1, 1}, {2, 2}, {}, {{1, 2}, {2, 2}}},    // phases
      {{1, 1, 3, 3}, {2, 1, 40, 40}, {1, 1}, {40, 40}, {}, {{39, 39}, {39, 39}}},  // 1,600 phases
      {{1, 1, 3}, {1, 1, 2}, {400000}, {}, {1000000}, {{999999, 999999}}}};        // zeros alone in between
  const bool both = !shortened();  // layouts; else one of the two
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (both || i % 2 == 0) check_convolution(rows[i], first(rows[i].lhs.size()), f32, random);
    if (both || i % 2 == 1) check_convolution(rows[i], last(rows[i].lhs.size()), f64, random);
  }
  finish_checks();
}

TEST_CASE("convolutions drawn at random") {
  std::mt19937_64 random(23);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (std::size_t i = 0; i < scaled(200); ++i) {
    const std::size_t spatial = 1 + random() % 2;
    Conv conv;
    conv.groups = below(3) == 0 ? 2 : 1;
    conv.lhs = {1 + below(3), conv.groups * (1 + below(4))};
    conv.rhs = {conv.groups * (1 + below(4)), conv.lhs[1] / conv.groups};
    for (std::size_t k = 0; k < spatial; ++k) {
      conv.lhs.push_back(1 + below(8));
      conv.rhs.push_back(1 + below(4));
      conv.strides.push_back(1 + below(3));
      conv.lhs_dilation.push_back(1 + below(3));
      conv.rhs_dilation.push_back(1 + below(3));
      const std::int64_t low = below(6) - 2;
      conv.padding.push_back({low, std::max<std::int64_t>(below(6) - 2, -low - 1)});
    }
    IntLists specs = first(conv.lhs.size());
    for (Ints& spec : specs) std::shuffle(spec.begin(), spec.end(), random);
    check_convolution(conv, specs, f64, random);
  }
  finish_checks();
}

TEST_CASE("sliding windows in every dtype") {
  std::mt19937_64 random(24);
  struct Row {
    Shape shape;
    Ints extents, strides;
    IntLists padding;
  };
  const std::vector<Row> rows{{{2, 3, 8, 6}, {1, 1, 2, 2}, {1, 1, 2, 2}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}},
                              {{2, 9, 7, 5}, {1, 3, 3, 1}, {1, 2, 2, 1}, {{0, 0}, {1, 1}, {0, 2}, {0, 0}}},
                              {{3, 11}, {2, 4}, {1, 3}, {{1, 0}, {2, 5}}},
                              {{7, 8}, {2, 3}, {1, 2}, {{-1, 0}, {2, -2}}},
                              {{200}, {90}, {3}, {{20, 0}}},
                              {{5, 4}, {3, 1}, {4, 2}, {{6, 5}, {0, 0}}},
                              {{3, 4}, {5, 2}, {1, 1}, {{0, 0}, {0, 0}}},
                              {{0, 4}, {2, 2}, {1, 1}, {{3, 0}, {0, 0}}},
                              {{6}, {1}, {1}, {{0, 0}}},
                              {{}, {}, {}, {}},
                              {{64, 40, 5}, {1, 3, 1}, {1, 1, 1}, {{0, 0}, {1, 1}, {0, 0}}},
                              {{300, 64}, {1, 5}, {1, 1}, {{0, 0}, {2, 2}}},
                              {{40, 30, 34}, {1, 2, 2}, {1, 2, 2}, {{0, 0}, {0, 0}, {0, 0}}},
                              {{3, 40005}, {1, 2}, {1, 3}, {{0, 0}, {0, 0}}},
                              {{2, 40002}, {1, 2}, {1, 2}, {{0, 0}, {0, 0}}},
                              {{5, 600}, {1, 100}, {1, 100}, {{0, 0}, {0, 0}}}};
  std::size_t turn = 0;
  for (const Row& row : rows) {
    const Attributes attributes{
        {"window_dimensions", row.extents}, {"window_strides", row.strides}, {"padding", row.padding}};
    for (const DType dtype : number_dtypes) {
      if (shortened() && turn++ % 3 != 0) continue;
      check_operation(Op::make(prim::reduce_window_sum, attributes), {Type(dtype, row.shape)}, {{-1, 1}},
                      random);
      if (is_complex(dtype)) continue;
      check_operation(Op::make(prim::reduce_window_max, attributes), {Type(dtype, row.shape)},
                      {{-2, 2}, {-2, 2, true}}, random);
      check_operation(Op::make(prim::reduce_window_max, attributes), {Type(dtype, row.shape)},
                      {{-2, 2, true}}, random);
    }
  }
  finish_checks();
}

// Values for which the order of comparisons or of sums shows.
TEST_CASE("squares of 2 by 2 are the same bits in f32 as in f64, which has no code of its own for them") {
  std::mt19937_64 random(26);
  constexpr float values[] = {std::numeric_limits<float>::quiet_NaN(), -0.0F, 0.0F, 1, -1,
                              -std::numeric_limits<float>::infinity()};
  for (const std::int64_t width : {2, 8, 24, 30, 32, 34, 64, 70}) {
    const Type type(f32, {3, 6, width});
    std::vector<float> elements(static_cast<std::size_t>(type.size()));
    for (float& element : elements) element = values[random() % std::size(values)];
    GraphBuilder g("squares");
    const Value x = g.input("x", type), wide = ops::convert_element_type(x, f64);
    const auto squares = [](const auto& reduce, Value v) { return reduce(v, Ints{1, 2, 2}, Ints{1, 2, 2}); };
    const auto largest = [](Value v, const Ints& w, const Ints& s) {
      return ops::reduce_window_max(v, w, s);
    };
    const auto sum = [](Value v, const Ints& w, const Ints& s) { return ops::reduce_window_sum(v, w, s); };
    const Graph graph =
        g.build({squares(largest, x), squares(largest, wide), squares(sum, x), squares(sum, wide)});
    const std::vector<Tensor> inputs{Tensor::from<float>(type.shape(), elements)};
    const std::vector<Tensor> results = CpuExecutor().run(graph, std::span<const Tensor>(inputs));
    for (std::size_t which = 0; which < 4; which += 2) {
      for (std::int64_t i = 0; i < results[which].type().size(); ++i) {
        const double got = results[which].at(i).real(), want = results[which + 1].at(i).real();
        CAPTURE(width);
        CHECK((std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want)));
      }
    }
  }
}

TEST_CASE("random bits of many sizes, under one key and several") {
  std::mt19937_64 random(25);
  for (const DType dtype : {i32, i64}) {
    for (const Shape& key : {Shape{2}, Shape{3, 2}, Shape{0, 2}, Shape{2, 1, 2}}) {
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{0}, Shape{255}, Shape{3, 172}, Shape{20000}}) {
        check_operation(Op::make(prim::random_bits, {{"shape", shape}, {"dtype", dtype}}), {Type(i32, key)},
                        {{-100, 100, true}}, random);
      }
    }
  }
  finish_checks();
}

}  // namespace windows_cases
