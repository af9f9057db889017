// Kernels in the ways that only large or odd shapes take, against the reference interpreter; and which
// primitives have kernels at all.
#include <cmath>
#include <complex>
#include <set>
#include <vector>

#include "cpu/compare.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "cuda/rules.hpp"
#include "cuda/this_machine.hpp"
#include "support/midpoints.hpp"
#include "support/support.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/random.hpp"

namespace tidu::test {
namespace {

constexpr DType some_dtypes[] = {i32, i64, bf16, f32, f64, c64};

}  // namespace

TEST_CASE("folds in parts, along rows and columns") {
  std::mt19937_64 random(31);
  for (const DType dtype : some_dtypes) {
    for (const auto& [shape, axes] :
         {std::pair(Shape{70001}, Ints{0}), std::pair(Shape{3, 20000}, Ints{1}),
          std::pair(Shape{20000, 3}, Ints{0}), std::pair(Shape{9000, 40}, Ints{0}),
          std::pair(Shape{40, 3, 300, 2}, Ints{0, 2}), std::pair(Shape{5, 1, 2000, 1}, Ints{1, 2})}) {
      const Type type(dtype, shape);
      check_operation(Op::make(prim::reduce_sum, {{"axes", axes}}), {type}, {{0, 0.001}}, random);
      if (is_complex(dtype)) continue;
      check_operation(Op::make(prim::reduce_max, {{"axes", axes}}), {type}, {{-5, 5, true}}, random);
      if (is_floating(dtype))
        check_operation(Op::make(prim::logsumexp, {{"axes", axes}}), {type}, {{-5, 5}}, random);
      if (axes.size() == 1)
        check_operation(Op::make(prim::argmin, {{"axis", axes[0]}, {"index_dtype", i32}}), {type}, {{-5, 5}},
                        random);
    }
  }
  for (const Primitive* const primitive : {&prim::reduce_max, &prim::reduce_min}) {
    check_operation(Op::make(*primitive, {{"axes", Ints{0}}}), {Type(bool_, {20000, 3})}, {{}}, random);
    check_operation(Op::make(*primitive, {{"axes", Ints{1}}}), {Type(bool_, {3, 7})}, {{}}, random);
  }
  for (const Primitive* const primitive : {&prim::argmax, &prim::argmin})
    check_operation(Op::make(*primitive, {{"axis", 0}, {"index_dtype", i64}}), {Type(bool_, {2000, 3})}, {{}},
                    random);
  // Columns in parts although there are many.
  if (!shortened())
    check_operation(Op::make(prim::reduce_sum, {{"axes", Ints{0}}}), {Type(f32, {350, 12800})}, {{0, 0.001}},
                    random);
  finish_checks();
}

TEST_CASE("scans of long lines, in parts, across memory") {
  std::mt19937_64 random(32);
  for (const DType dtype : some_dtypes) {
    for (const Shape& shape : {Shape{40000}, Shape{2, 700}, Shape{300, 2}, Shape{40, 9000}}) {
      for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
        for (const bool reverse : {false, true}) {
          if (shape == Shape{40, 9000} && axis == 0 && (reverse || shortened())) continue;
          const Attributes attributes{{"axis", axis}, {"reverse", reverse}};
          check_operation(Op::make(prim::cumsum, attributes), {Type(dtype, shape)},
                          {is_integer(dtype) ? Domain{} : Domain{0, 0.001}}, random);
          if (is_complex(dtype)) continue;
          check_operation(Op::make(prim::cummax, attributes), {Type(dtype, shape)}, {{-50, 50}}, random);
          if (is_floating(dtype))
            check_operation(Op::make(prim::cumlogsumexp, attributes), {Type(dtype, shape)}, {{-5, 5}},
                            random);
        }
      }
    }
  }
  finish_checks();
}

TEST_CASE("updates of few lines are sorted") {
  std::mt19937_64 random(33);
  for (const DType dtype : some_dtypes) {
    for (const char* mode : {"clip", "drop"}) {
      for (const DType index : {i32, i64}) {
        const Attributes attributes{{"axis", 1}, {"mode", mode}};
        // Runs of 60 to 70 and more, some of which begin or end where a warp looks.
        check_operation(Op::make(prim::scatter_add, attributes),
                        {Type(dtype, {2, 9, 3}), Type(index, {570}), Type(dtype, {2, 570, 3})},
                        {{-1, 1}, {-1, 9.9}, {0, 0.01}}, random);
        check_operation(Op::make(prim::scatter_add_along_axis, attributes),
                        {Type(dtype, {2, 9, 3}), Type(index, {2, 570, 3}), Type(dtype, {2, 570, 3})},
                        {{-1, 1}, {-1, 9.9}, {0, 0.01}}, random);
        check_operation(Op::make(prim::scatter_add, attributes),
                        {Type(dtype, {2, 1, 3}), Type(index, {130}), Type(dtype, {2, 130, 3})},
                        {{-1, 1}, {0, 0.9}, {0, 0.01}}, random);
        check_operation(Op::make(prim::scatter_add, attributes),
                        {Type(dtype, {3, 20, 2}), Type(index, {30, 10}), Type(dtype, {3, 30, 10, 2})},
                        {{-1, 1}, {-3, 24}, {-0.1, 0.1}}, random);
        check_operation(Op::make(prim::scatter_add_along_axis, attributes),
                        {Type(dtype, {3, 20, 2}), Type(index, {3, 100, 2}), Type(dtype, {3, 100, 2})},
                        {{-1, 1}, {-3, 24}, {-0.1, 0.1}}, random);
      }
    }
  }
  finish_checks();
}

TEST_CASE("transpositions by tiles, concatenations of many parts") {
  std::mt19937_64 random(34);
  for (const DType dtype : every_dtype) {
    for (const auto& [shape, order] :
         {std::pair(Shape{100, 70}, Ints{1, 0}), std::pair(Shape{9, 33, 40}, Ints{2, 0, 1}),
          std::pair(Shape{4, 10, 3, 34}, Ints{0, 3, 2, 1}), std::pair(Shape{4, 10, 1, 34}, Ints{3, 2, 0, 1}),
          std::pair(Shape{1, 5, 1}, Ints{2, 1, 0}), std::pair(Shape{5, 6, 40}, Ints{1, 0, 2})}) {
      check_operation(Op::make(prim::transpose, {{"permutation", order}}), {Type(dtype, shape)}, {{}},
                      random);
    }
    for (const std::int64_t axis : {0, 1}) {
      std::vector<Type> parts;
      for (std::int64_t k = 0; k < 20; ++k)
        parts.emplace_back(dtype, axis == 0 ? Shape{k % 3, 7} : Shape{7, k % 3});
      check_operation(Op::make(prim::concatenate, {{"dimension", axis}}), parts, {{}}, random);
    }
  }
  finish_checks();
}

TEST_CASE("kernels round numbers that become 16 bits once") {
  if (!Emulator::is_enabled()) return;
  const auto check = [](DType dtype, const Midpoints& all) {
    GraphBuilder g("narrow");
    const Value x = g.input("x", all.numbers.type());
    const Graph graph = optimize(g.build({ops::convert_element_type(x, dtype)}));
    const std::vector<cuda_detail::Node> nodes = cuda_detail::plan_nodes(graph);
    CHECK(count_wrong(Emulator::shared().run(graph, nodes, std::span(&all.numbers, 1)).at(0), all.bits) == 0);
  };
  for (const DType dtype : {f16, bf16}) {
    check(dtype, midpoints_of<double>(dtype));
    check(dtype, midpoints_of<std::int32_t>(dtype));
    check(dtype, midpoints_of<std::int64_t>(dtype));
  }
}

TEST_CASE("infinite results, and poles, are what the reference gives") {
  const auto check = [](const Op& op, const Tensor& x) {
    const Graph graph = graph_of(op, {x.type()});
    std::vector<Tensor> got;
    if (const CudaExecutor* const device = chosen_device()) {
      got = run_there(*device, graph, std::span(&x, 1));
    } else if (Emulator::is_enabled()) {
      got = Emulator::shared().run(graph, cuda_detail::plan_nodes(graph), std::span(&x, 1));
    } else {
      return;
    }
    INFO(to_string(op), " of ", x.type());
    CHECK(difference(got.at(0), reference().run(graph, std::span(&x, 1)).at(0)) == "");
  };
  const double inf = INFINITY;
  const std::vector<std::complex<double>> numbers{{90, 0},   {-90, 0},   {0, 90},  {0, -90}, {inf, 0},
                                                  {-inf, 0}, {90, -0.0}, {0, inf}, {0, 0},   {1, 0}};
  std::vector<std::complex<float>> narrow(numbers.begin(), numbers.end());
  std::vector<std::complex<double>> wide = numbers;
  for (std::complex<double>& x : wide)
    if (std::isfinite(std::abs(x))) x *= 8.0;  // beyond 710
  const auto count = static_cast<std::int64_t>(numbers.size());
  for (const Primitive* const primitive : {&prim::cosh, &prim::sinh, &prim::exp}) {
    check(Op::make(*primitive, {}), Tensor::from<std::complex<float>>({count}, narrow));
    check(Op::make(*primitive, {}), Tensor::from<std::complex<double>>({count}, wide));
  }
  for (const Primitive* const primitive : {&prim::cos, &prim::sin})
    check(Op::make(*primitive, {}),
          Tensor::from<std::complex<double>>({5}, {{0, 720}, {0, -720}, {0, 0}, {inf, 0}, {0, inf}}));
  for (const std::int64_t m : {1, 2, 3, 4}) {
    const Op op = Op::make(prim::polygamma, {{"m", m}});
    check(op, Tensor::from<double>({8}, {0, -1, -2, -7, -1e6, -1e300, inf, -inf}));
    check(op, Tensor::from<float>({4}, {0, -1, -2e5F, 3}));
  }
  for (const std::int64_t m : {60, 150, 1000})  // m! or a power of 1 / x alone is no number
    check(Op::make(prim::polygamma, {{"m", m}}),
          Tensor::from<double>({6}, {10, 100, 370.5, 1000, 1e5, -0.25}));
}

TEST_CASE("every primitive that the CPU executor computes has a kernel for a device, for the same dtypes") {
  // What runs whole graphs, which are written out before.
  const std::set<std::string_view> not_operations{"call",
                                                  "custom_jvp_call",
                                                  "custom_jvp_transpose",
                                                  "custom_vjp_call",
                                                  "linear_call",
                                                  "custom_linear_solve",
                                                  "custom_root",
                                                  "checkpoint",
                                                  "scan",
                                                  "cond",
                                                  "while"};
  const std::set<std::string_view> of_libraries{
      "psum", "all_gather", "reduce_scatter", "ppermute",         "dot_general", "conv_general_dilated",
      "sort", "top_k",      "cholesky",       "triangular_solve", "lu",          "qr",
      "eigh", "svd"};
  for (const Primitive* primitive : standard_primitives().primitives()) {
    if (not_operations.count(primitive->name) != 0 || of_libraries.count(primitive->name) != 0) continue;
    const cuda_detail::RuleEntry* entry = cuda_detail::find_rule(primitive->name);
    CHECK_MESSAGE((entry != nullptr || !cpu().supports(*primitive, f32)), primitive->name);
    for (const DType dtype : every_dtype) {
      if (entry != nullptr && cpu().supports(*primitive, dtype))
        CHECK_MESSAGE(entry->dtypes.contains(dtype), primitive->name, " ", to_string(dtype));
    }
  }
}

}  // namespace tidu::test
