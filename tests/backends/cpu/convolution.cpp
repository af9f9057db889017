// Convolutions in f32 that are large enough for oneDNN, and their gradients, with integers for elements:
// every sum is exact in any order, so they equal those in f64, which are never oneDNN's, to the last bit.
#include <numeric>
#include <thread>

#include "cpu/compare.hpp"
#include "cpu/in_double.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/convolution.hpp"

namespace convolution_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

// Operands as batch, features, spatial axes and as result, features, spatial axes.
struct Case {
  Shape lhs, rhs;
  ops::Convolution how{};
};

Shape placed(const Shape& shape, const Ints& spec) {
  if (spec.empty()) return shape;
  Shape result(shape.size());
  for (std::size_t k = 0; k < spec.size(); ++k) result[static_cast<std::size_t>(spec[k])] = shape[k];
  return result;
}

// The convolution with its gradients: inputs lhs, rhs and the cotangent, outputs the result and both
// cotangents.
Graph gradient_of(const Case& c, DType dtype) {
  GraphBuilder builder("convolution");
  const Value lhs = builder.input("lhs", Type(dtype, placed(c.lhs, c.how.dimension_numbers.lhs_spec)));
  const Value rhs = builder.input("rhs", Type(dtype, placed(c.rhs, c.how.dimension_numbers.rhs_spec)));
  const Value out = ops::conv_general_dilated(lhs, rhs, c.how);
  return vjp(builder.build({out}));
}

std::vector<Tensor> whole_numbers(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    std::vector<float> elements(static_cast<std::size_t>(graph.type(id).size()));
    for (float& element : elements) element = static_cast<float>(static_cast<int>(random() % 7) - 3);
    inputs.push_back(Tensor::from<float>(graph.type(id).shape(), elements));
  }
  return inputs;
}

CpuExecutor with_threads(int threads) {
  CpuOptions options;
  options.threads = threads;
  return CpuExecutor(options);
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
    const auto bytes = static_cast<std::size_t>(x.size()) * size_of(x.dtype());
    return x.type() == y.type() && (bytes == 0 || std::memcmp(x.bytes(), y.bytes(), bytes) == 0);
  });
}

void check(const Case& c, std::mt19937_64& random) {
  const Graph graph = gradient_of(c, f32);
  const std::vector<Tensor> inputs = whole_numbers(graph, random);
  const std::vector<Tensor> got = with_threads(2).run(graph, std::span<const Tensor>(inputs));
  const std::vector<Tensor> doubles = in_double(inputs);
  const std::vector<Tensor> expected =
      with_threads(1).run(gradient_of(c, f64), std::span<const Tensor>(doubles));
  REQUIRE(got.size() == expected.size());
  const std::vector<Tensor> widened = in_double(got);
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("lhs ", detail::list(c.lhs), ", rhs ", detail::list(c.rhs), ", strides ",
         detail::list(c.how.window_strides), ", lhs_dilation ", detail::list(c.how.lhs_dilation),
         ", rhs_dilation ", detail::list(c.how.rhs_dilation), ", groups ", c.how.feature_group_count,
         ", lhs_spec ", detail::list(c.how.dimension_numbers.lhs_spec), ", output ", i);
    for (const Ints& padding : c.how.padding) INFO("padding ", detail::list(padding));
    CHECK(difference(widened[i], expected[i], 0) == "");
  }
}

Ints counting(std::size_t count) {
  Ints list(count);
  std::iota(list.begin(), list.end(), 0);
  return list;
}

std::vector<Case> layers() {
  return {{{16, 16, 12, 12}, {32, 16, 5, 5}, {}},
          {{12, 1, 28, 28}, {32, 1, 5, 5}, {}},
          {{3, 32, 29, 28}, {48, 32, 3, 3}, {.window_strides = {2, 2}, .padding = {{1, 1}, {1, 0}}}},
          {{1, 32, 30, 30}, {64, 32, 3, 3}, {.padding = {{1, 1}, {1, 1}}}},
          {{2, 64, 14, 14}, {192, 64, 3, 3}, {.padding = {{1, 1}, {1, 1}}}},
          {{2, 40, 33, 31}, {24, 40, 3, 4}, {.padding = {{-2, 3}, {4, -3}}, .rhs_dilation = {2, 1}}},
          {{4, 48, 20, 20}, {64, 24, 3, 3}, {.padding = {{1, 1}, {1, 1}}, .feature_group_count = 2}},
          {{3, 40, 700}, {48, 40, 5}, {.window_strides = {2}, .padding = {{0, 3}}}},
          {{2, 16, 9, 10, 11},
           {32, 16, 3, 2, 3},
           {.window_strides = {1, 2, 1}, .padding = {{1, 1}, {0, 1}, {2, 0}}}},
          {{3, 256, 15, 15}, {128, 256, 1, 1}, {.window_strides = {2, 2}}},
          {{2, 32, 15, 14}, {24, 32, 4, 3}, {.padding = {{3, 3}, {2, 2}}, .lhs_dilation = {2, 2}}},
          {{5, 64, 9, 9}, {80, 64, 7, 7}, {}}};
}

}  // namespace

TEST_CASE("large convolutions and their gradients") {
  std::mt19937_64 random(31);
  for (const Case& c : layers()) check(c, random);
}

TEST_CASE("large convolutions drawn at random, and their gradients") {
  std::mt19937_64 random(32);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (std::size_t i = 0; i < scaled(40); ++i) {
    const std::size_t spatial = 1 + random() % 3;
    Case c;
    c.how.feature_group_count = below(4) == 0 ? 2 : 1;
    const std::int64_t groups = c.how.feature_group_count;
    c.lhs = {0, groups * (4 + below(40))};
    c.rhs = {groups * (1 + below(64)), c.lhs[1] / groups};
    double member = static_cast<double>(c.rhs[0] * c.rhs[1]);
    for (std::size_t k = 0; k < spatial; ++k) {
      const bool spreads = below(6) == 0;
      c.lhs.push_back(4 + below(spatial == 1 ? 300 : spatial == 2 ? 20 : 7));
      c.rhs.push_back(1 + below(4));
      c.how.window_strides.push_back(1 + below(3));
      c.how.lhs_dilation.push_back(spreads ? 2 : 1);
      c.how.rhs_dilation.push_back(1 + below(2));
      c.how.padding.push_back({below(6) - 1, below(6) - 1});
      const Ints& padding = c.how.padding.back();
      const std::int64_t extent =
          (c.lhs.back() - 1) * c.how.lhs_dilation.back() + 1 + padding[0] + padding[1];
      const std::int64_t window = (c.rhs.back() - 1) * c.how.rhs_dilation.back() + 1;
      const std::int64_t out = extent < window ? 0 : (extent - window) / c.how.window_strides.back() + 1;
      member *= static_cast<double>(out * c.rhs.back());
    }
    c.lhs[0] = 1 + std::min<std::int64_t>(below(3) + static_cast<std::int64_t>(6e6 / (1 + member)), 60);
    if (below(2) == 0) {
      const auto shuffled = [&] {
        Ints spec = counting(spatial + 2);
        for (std::size_t k = spec.size(); k-- > 1;) std::swap(spec[k], spec[random() % (k + 1)]);
        return spec;
      };
      c.how.dimension_numbers.lhs_spec = shuffled();
      c.how.dimension_numbers.rhs_spec = shuffled();
      c.how.dimension_numbers.out_spec = shuffled();
    }
    check(c, random);
  }
}

TEST_CASE("large convolutions against the reference interpreter") {
  std::mt19937_64 random(33);
  const std::vector<Case> cases = layers();
  for (const std::size_t i : {std::size_t{6}, std::size_t{0}, std::size_t{2}}) {
    if (shortened()) break;  // the interpreter takes long; the case above compares by matmuls
    const Graph graph = gradient_of(cases[i], f32);
    const std::vector<Tensor> inputs = whole_numbers(graph, random);
    CHECK(differences(graph, inputs, with_threads(1)) == std::vector<std::string>{});
  }
}

TEST_CASE("large convolutions have the same bits from run to run, for any number of threads, at once") {
  std::mt19937_64 random(34);
  for (const Case& c : layers()) {
    const Graph graph = gradient_of(c, f32);
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
    const Executable one = with_threads(1).compile(graph), three = with_threads(3).compile(graph);
    const std::vector<Tensor> expected = one.run(inputs);
    CHECK(same_bits(one.run(inputs), expected));
    CHECK(same_bits(three.run(inputs), expected));
    CHECK(same_bits(with_threads(2).run(graph, std::span<const Tensor>(inputs)), expected));
    std::vector<Tensor> elsewhere;
    std::thread other([&] { elsewhere = three.run(inputs); });
    const std::vector<Tensor> here = three.run(inputs);
    other.join();
    CHECK(same_bits(here, expected));
    CHECK(same_bits(elsewhere, expected));
  }
}

TEST_CASE("a net of convolutions and pools has the same bits for any number of threads") {
  GraphBuilder builder("net");
  const Value x = builder.input("x", Type(f32, {48, 1, 28, 28}));
  const Value first = builder.input("first", Type(f32, {16, 1, 5, 5}));
  const Value second = builder.input("second", Type(f32, {32, 16, 5, 5}));
  const auto layer = [](Value from, Value kernel) {
    const Value out = ops::conv_general_dilated(from, kernel, {});
    return ops::reduce_window_max(ops::max(out, ops::full_like(out, 0.0)), {1, 1, 2, 2}, {1, 1, 2, 2});
  };
  const Value y = layer(layer(x, first), second);
  const Graph graph = vjp(builder.build({ops::reduce_sum(ops::square(y), {0, 1, 2, 3})}));
  std::mt19937_64 random(35);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  const std::vector<Tensor> expected = with_threads(1).run(graph, std::span<const Tensor>(inputs));
  for (const int threads : {1, 2, 3, 8})
    CHECK(same_bits(with_threads(threads).run(graph, std::span<const Tensor>(inputs)), expected));
}

TEST_CASE("depthwise convolutions of every order of axes are the reference's") {
  std::mt19937_64 random(5);
  const Ints orders[] = {{0, 1, 2}, {0, 2, 1}, {2, 0, 1}, {1, 2, 0}};
  for (const std::int64_t width : {1, 4}) {
    for (const Ints& lhs : orders) {
      for (const Ints& rhs : orders) {
        for (const Ints& out : orders) {
          Case c{{1, 8, width}, {8, 1, 2}};
          c.how.padding = {{1, 1}};
          c.how.window_strides = c.how.lhs_dilation = c.how.rhs_dilation = {1};
          c.how.dimension_numbers = {lhs, rhs, out};
          c.how.feature_group_count = 8;
          const Graph graph = gradient_of(c, f64);
          const std::vector<Tensor> inputs = in_double(whole_numbers(graph, random));
          const std::vector<Tensor> got = cpu().run(graph, inputs), expected = reference().run(graph, inputs);
          for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i]) == "");
        }
      }
    }
  }
}

}  // namespace convolution_cases
