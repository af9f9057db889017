// windows_test.cpp - convolution, sliding windows and random bits: types, refusals, the operations that their
// rules are made of, and the first maximum at ties.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "refusal.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/convolution.hpp"
#include "tidu/primitives/random.hpp"
#include "tidu/reference/executor.hpp"

namespace windows_cases {
namespace {

using namespace tidu;
using test::infer;
using test::refusal;

Type f(const Shape& shape) { return Type(f64, shape); }

bool mentions(const std::string& message, const std::string& words) {
  CAPTURE(message);
  return message.find(words) != std::string::npos;
}

struct Conv {
  Ints strides{1, 1};
  IntLists padding{{0, 0}, {0, 0}};
  Ints lhs_dilation{1, 1}, rhs_dilation{1, 1};
  IntLists numbers{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
  std::int64_t groups = 1;
  Attributes attributes() const {
    return {{"window_strides", strides},    {"padding", padding},           {"lhs_dilation", lhs_dilation},
            {"rhs_dilation", rhs_dilation}, {"dimension_numbers", numbers}, {"feature_group_count", groups}};
  }
};
Type type_of(const Conv& conv, const Shape& lhs, const Shape& rhs) {
  return infer(prim::conv_general_dilated, conv.attributes(), {f(lhs), f(rhs)});
}
std::string refused(const Conv& conv, const Type& lhs, const Type& rhs) {
  return refusal(prim::conv_general_dilated, conv.attributes(), {lhs, rhs});
}

Attributes window(const Ints& extents, const Ints& strides, const IntLists& padding) {
  return {{"window_dimensions", extents}, {"window_strides", strides}, {"padding", padding}};
}

}  // namespace

TEST_CASE("convolutions have the extents of lax") {
  CHECK(type_of({}, {2, 3, 7, 6}, {4, 3, 3, 2}) == f({2, 4, 5, 5}));
  CHECK(type_of({{3, 2}, {{1, 2}, {0, 1}}}, {2, 3, 9, 8}, {4, 3, 3, 2}) == f({2, 4, 4, 4}));
  CHECK(type_of({{1, 1}, {{-1, 2}, {3, -2}}, {2, 1}, {1, 3}}, {1, 3, 4, 8}, {4, 3, 2, 2}) == f({1, 4, 7, 6}));
  CHECK(type_of({{1, 1}, {{0, 0}, {0, 0}}, {1, 1}, {1, 1}, {{3, 0, 1, 2}, {1, 2, 3, 0}, {2, 3, 0, 1}}},
                {3, 7, 6, 2}, {2, 4, 3, 3}) == f({5, 5, 2, 4}));
  CHECK(type_of({.groups = 3}, {2, 6, 4, 4}, {9, 2, 1, 1}) == f({2, 9, 4, 4}));
  CHECK(type_of({}, {2, 3, 2, 2}, {4, 3, 3, 1}) == f({2, 4, 0, 2}));
  CHECK(type_of({}, {0, 3, 4, 4}, {4, 3, 3, 1}) == f({0, 4, 2, 4}));
  CHECK(type_of({{}, {}, {}, {}, {{0, 1}, {0, 1}, {0, 1}}}, {3, 4}, {5, 4}) == f({3, 5}));
}

TEST_CASE("convolutions refuse operands that do not fit") {
  const Type lhs = f({2, 4, 6, 6}), rhs = f({6, 4, 3, 3});
  CHECK(mentions(refused({}, lhs, f({6, 3, 3, 3})), "to have 1 times the 3 features"));
  CHECK(mentions(refused({.groups = 3}, lhs, rhs), "to have 3 times the 4 features"));
  CHECK(mentions(refused({.groups = 4}, lhs, f({6, 1, 3, 3})), "a multiple of feature_group_count 4"));
  CHECK(mentions(refused({.groups = 0}, lhs, rhs), "feature_group_count >= 1"));
  CHECK(mentions(refused({}, lhs, Type(f32, rhs.shape())), "operands of one dtype"));
  CHECK(mentions(refused({}, Type(bool_, lhs.shape()), Type(bool_, rhs.shape())), "integer, floating"));
  CHECK(mentions(refused({}, lhs, f({6, 4, 3})), "operands of one rank"));
  CHECK(mentions(refused({}, f({3}), f({3})), "operands of one rank of at least 2"));
  CHECK(mentions(refused({.strides = {0, 1}}, lhs, rhs), "expected window_strides from 1"));
  CHECK(mentions(refused({.strides = {1}}, lhs, rhs), "window_strides of 2 entries"));
  CHECK(mentions(refused({.rhs_dilation = {1, -1}}, lhs, rhs), "expected rhs_dilation from 1"));
  CHECK(mentions(refused({.padding = {{0, 0}}}, lhs, rhs), "padding of 2 entries"));
  CHECK(mentions(refused({.padding = {{0, 0}, {0, 0, 0}}}, lhs, rhs), "[low, high]"));
  CHECK(
      mentions(refused({.padding = {{-4, -3}, {0, 0}}}, lhs, rhs), "cuts more than there is in dimension 2"));
  CHECK(mentions(refused({.numbers = {{0, 1, 2, 2}, {0, 1, 2, 3}, {0, 1, 2, 3}}}, lhs, rhs),
                 "lhs_spec without repetition"));
  CHECK(mentions(refused({.numbers = {{0, 1, 2, 3}, {0, 1, 2}, {0, 1, 2, 3}}}, lhs, rhs), "rhs_spec"));
  CHECK(mentions(refused({.numbers = {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 4}}}, lhs, rhs),
                 "out_spec in [0, 4)"));
  constexpr std::int64_t large = std::int64_t{1} << 40;
  CHECK(mentions(refused({.lhs_dilation = {large, large}}, f({1, 1, large, 1}), f({1, 1, 1, 1})),
                 "below 2^63"));
}

TEST_CASE("windows have the extents of lax, and refuse operands that do not fit") {
  const auto sum = [](const Attributes& a, const Type& x) { return infer(prim::reduce_window_sum, a, {x}); };
  CHECK(sum(window({1, 2}, {1, 2}, {{0, 0}, {0, 0}}), f({3, 7})) == f({3, 3}));
  CHECK(sum(window({2, 2}, {2, 1}, {{1, 0}, {-1, -2}}), f({3, 7})) == f({2, 3}));
  CHECK(sum(window({4, 1}, {1, 1}, {{0, 0}, {0, 0}}), f({3, 7})) == f({0, 7}));
  CHECK(sum(window({}, {}, {}), f({})) == f({}));
  const auto no = [](const Attributes& a, const Type& x) { return refusal(prim::reduce_window_max, a, {x}); };
  CHECK(mentions(no(window({2}, {1, 1}, {{0, 0}, {0, 0}}), f({3, 7})), "window_dimensions of 2 entries"));
  CHECK(mentions(no(window({0}, {1}, {{0, 0}}), f({3})), "window_dimensions from 1"));
  CHECK(mentions(no(window({1}, {-1}, {{0, 0}}), f({3})), "window_strides from 1"));
  CHECK(mentions(no(window({1}, {1}, {{0}}), f({3})), "[low, high]"));
  CHECK(mentions(no(window({1}, {1}, {{-2, -2}}), f({3})), "cuts more than there is"));
  CHECK(mentions(no(window({1}, {1}, {{0, 0}}), Type(c128, {3})), "integer or floating"));
}

TEST_CASE("keys are pairs of i32") {
  const auto type = [](const Type& key, DType dtype) {
    return infer(prim::random_bits, {{"shape", Ints{3, 2}}, {"dtype", dtype}}, {key});
  };
  const auto no = [](const Type& key, const Ints& shape, DType dtype) {
    return refusal(prim::random_bits, {{"shape", shape}, {"dtype", dtype}}, {key});
  };
  CHECK(type(Type(i32, {2}), i64) == Type(i64, {3, 2}));
  CHECK(type(Type(i32, {4, 2}), i32) == Type(i32, {4, 3, 2}));
  CHECK(mentions(no(Type(i32, {3}), {1}, i32), "a key of type i32[2]"));
  CHECK(mentions(no(Type(i64, {2}), {1}, i32), "a key of type i32[2]"));
  CHECK(mentions(no(Type(i32), {1}, i32), "a key of type i32[2]"));
  CHECK(mentions(no(Type(i32, {2}), {1}, f32), "dtype i32 or i64"));
  CHECK(mentions(no(Type(i32, {2}), {-1}, i32), "[random_bits] "));
}

TEST_CASE("the cotangent of a maximum goes to the first of equal ones") {
  GraphBuilder g("pool");
  const Value x = g.input("x", f({2, 6}));
  const Graph graph = g.build({ops::reduce_window_max(x, {2, 3}, {1, 2}, {{0, 1}, {1, 0}})});
  const Tensor ones = Tensor::from<double>({2, 6}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  const Tensor ct = Tensor::from<double>({2, 3}, {1, 2, 4, 8, 16, 32});
  const std::vector<Tensor> inputs{ones, ct};
  const std::vector<Tensor> results = reference().run(vjp(graph), std::span<const Tensor>(inputs));
  const std::vector<double> want{1, 2, 0, 4, 0, 0, 8, 16, 0, 32, 0, 0};
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(results.back().at(static_cast<std::int64_t>(i)).real() == want[i]);
}

TEST_CASE(
    "the cotangent of a maximum goes to the first of equal ones, and to the first NaN, in all windows") {
  struct Pool {
    Shape shape;
    Ints extents, strides;
    bool with_nan = false;
  };
  std::vector<Pool> pools{{{2, 6, 8}, {1, 2, 2}, {1, 2, 2}},
                          {{2, 7, 8}, {1, 3, 3}, {1, 2, 1}},
                          {{5, 7, 3}, {2, 3, 2}, {1, 3, 1}},
                          {{3, 9, 9}, {1, 5, 4}, {2, 2, 3}},
                          {{4, 40}, {1, 20}, {1, 7}},
                          {{6, 5}, {1, 1}, {2, 3}},
                          {{3, 7, 11}, {1, 2, 4}, {1, 2, 4}},
                          {{4, 2, 5}, {4, 1, 4}, {9, 1, 7}},
                          {{2, 3, 2, 4}, {2, 1, 2, 2}, {2, 1, 2, 2}},
                          {{7}, {7}, {1}}};
  for (std::size_t i = 0, count = pools.size(); i < count; ++i) {
    pools.push_back(pools[i]);
    pools.back().with_nan = true;
  }
  for (const Pool& pool : pools) {
    GraphBuilder g("pool");
    const Value x = g.input("x", f(pool.shape));
    const Graph graph = vjp(g.build({ops::reduce_window_max(x, pool.extents, pool.strides)}));
    const Type out = graph.type(graph.inputs()[1]);
    std::vector<double> elements, cts;
    for (std::int64_t i = 0; i < f(pool.shape).size(); ++i) {
      const bool is_nan = pool.with_nan && i * 7919 % 7 == 3;
      elements.push_back(is_nan ? std::numeric_limits<double>::quiet_NaN()
                                : static_cast<double>(i * 7919 % 31 % 5));
    }
    for (std::int64_t i = 0; i < out.size(); ++i) cts.push_back(static_cast<double>(i + 1));
    const std::vector<Tensor> inputs{Tensor::from<double>(pool.shape, elements),
                                     Tensor::from<double>(out.shape(), cts)};
    const Tensor got = reference().run(graph, std::span<const Tensor>(inputs)).back();
    std::vector<double> want(elements.size());
    const auto digits = [](std::int64_t n, const Shape& shape) {
      Ints result(shape.size());
      for (std::size_t k = shape.size(); k-- > 0; n /= shape[k]) result[k] = n % shape[k];
      return result;
    };
    for (std::int64_t w = 0; w < out.size(); ++w) {
      const Ints corner = digits(w, out.shape());
      std::size_t best = elements.size();
      for (std::int64_t p = 0; p < f(pool.extents).size(); ++p) {
        const Ints place = digits(p, pool.extents);
        std::int64_t at = 0;
        for (std::size_t k = 0; k < place.size(); ++k)
          at = at * pool.shape[k] + corner[k] * pool.strides[k] + place[k];
        const auto index = static_cast<std::size_t>(at);
        if (best == elements.size() || elements[index] > elements[best] ||
            (std::isnan(elements[index]) && !std::isnan(elements[best])))
          best = index;
      }
      want[best] += cts[static_cast<std::size_t>(w)];
    }
    for (std::size_t i = 0; i < want.size(); ++i)
      CHECK(got.at(static_cast<std::int64_t>(i)).real() == want[i]);
  }
}

TEST_CASE("cotangents of windows side by side are selected, not looked for") {
  const auto scatters = [](const Ints& extents, const Ints& strides) {
    GraphBuilder g("pool");
    const Graph graph = vjp(g.build({ops::reduce_window_max(g.input("x", f({3, 8, 9})), extents, strides)}));
    for (std::size_t i = 0; i < graph.num_operations(); ++i) {
      if (graph.operation(i).name() == "scatter_add") return true;
    }
    return false;
  };
  CHECK_FALSE(scatters({1, 2, 2}, {1, 2, 2}));
  CHECK_FALSE(scatters({1, 4, 4}, {1, 4, 4}));
  CHECK(scatters({1, 2, 2}, {1, 2, 1}));
  CHECK(scatters({1, 2, 2}, {1, 2, 3}));
  CHECK(scatters({1, 5, 4}, {1, 5, 4}));
}

}  // namespace windows_cases
