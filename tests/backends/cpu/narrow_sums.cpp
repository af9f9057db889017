// Sums of f16 and bf16 on the CPU and on the reference executor: accumulated in f32 and rounded once, so that
// they differ by the rounding of one 16-bit number, and partial sums have f32's range.
#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/primitives/convolution.hpp"

namespace narrow_sums {
namespace {

using namespace tidu;
using namespace tidu::test;

// x[1, 1, n] by every operation that sums.
Graph sums_of(DType dtype, std::int64_t n) {
  GraphBuilder builder("sums");
  const Value x = builder.input("x", Type(dtype, {1, 1, n})),
              ones = builder.input("y", Type(dtype, {1, 1, n}));
  return builder.build({ops::reduce_sum(x, {2}), ops::dot_general(x, ones, {{2}, {2}, {0}, {0}}),
                        ops::cumsum(x, 2), ops::reduce_window_sum(x, {1, 1, n}),
                        ops::conv_general_dilated(x, ones, {})});
}

std::uint16_t bits_of(DType dtype, double value) {
  return dtype == f16 ? double_to_half(value) : double_to_bfloat16(value);
}
Tensor tensor_of(DType dtype, const std::vector<double>& values) {
  Tensor t(Type(dtype, {1, 1, static_cast<std::int64_t>(values.size())}));
  for (std::size_t i = 0; i < values.size(); ++i)
    reinterpret_cast<std::uint16_t*>(t.mutable_bytes())[i] = bits_of(dtype, values[i]);
  return t;
}

}  // namespace

TEST_CASE("sums of 16 bits are the reference's but for one rounding") {
  std::mt19937_64 random(81);
  for (const DType dtype : {f16, bf16}) {
    for (const std::int64_t n : {1, 2, 7, 100, 1000, 20000}) {
      std::vector<double> values;
      double size = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        values.push_back(static_cast<double>(random() >> 11U) * 0x1p-53 - 0.25);
        size += std::fabs(values.back());
      }
      const std::vector<Tensor> in{tensor_of(dtype, values),
                                   tensor_of(dtype, std::vector<double>(values.size(), 1.0))};
      const Graph graph = sums_of(dtype, n);
      const std::vector<Tensor> got = cpu().run(graph, in), expected = reference().run(graph, in);
      for (std::size_t k = 0; k < got.size(); ++k) {
        for (std::int64_t i = 0; i < got[k].size(); ++i) {
          const double a = got[k].at(i).real(), b = expected[k].at(i).real();
          const double unit = std::ldexp(std::fabs(b), dtype == f16 ? -10 : -7) + 1e-5 * size;
          CHECK_MESSAGE(std::fabs(a - b) <= unit, "output ", k, " of ", n, " ", dtype, ": ", a, ", expected ",
                        b);
        }
      }
    }
  }
}

// 3e38 + 3e38 is no number of f32, and of f16 no sum of three is beyond it.
TEST_CASE("partial sums of 16 bits have the range of f32") {
  const std::vector<double> ones(3, 1.0);
  for (const auto& [dtype, values, want] :
       {std::tuple(bf16, std::vector<double>{3e38, 3e38, -3e38}, static_cast<double>(INFINITY)),
        std::tuple(f16, std::vector<double>{65504, 65504, -65504}, 65504.0)}) {
    const Graph graph = sums_of(dtype, 3);
    const double wanted = want;  // which clang 14's lambdas may read
    const std::vector<Tensor> in{tensor_of(dtype, values), tensor_of(dtype, ones)};
    for (const std::vector<Tensor>& results : {cpu().run(graph, in), reference().run(graph, in)}) {
      for (std::size_t k = 0; k < results.size(); ++k)
        CHECK_MESSAGE(results[k].at(results[k].size() - 1).real() == wanted, "output ", k, " of ",
                      graph.type(graph.inputs()[0]));
    }
  }
}

}  // namespace narrow_sums
