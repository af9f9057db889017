// lgamma, digamma and polygamma over their whole range, compared with Boost's, which the reference executor
// calls.
#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

namespace special_cases {

Tensor numbers_of(DType dtype, const std::vector<double>& numbers) {
  Tensor x(Type(dtype, {static_cast<std::int64_t>(numbers.size())}));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == f32) x.mutable_data<float>()[i] = static_cast<float>(numbers[i]);
    if (dtype == f64) x.mutable_data<double>()[i] = numbers[i];
  }
  return x;
}

bool close_to(double a, double b, double relative) {
  if (std::isnan(b) || std::isinf(b)) return a == b || (std::isnan(a) && std::isnan(b));
  return std::fabs(a - b) <= relative * std::fabs(b);
}

TEST_CASE("digamma and polygamma over their range") {
  std::mt19937_64 random(36);
  std::vector<double> numbers{NAN, INFINITY, -INFINITY, 0.0,   -0.0,  -1,  -2,  1,    2,     9.999999,
                              10,  10.00001, 11,        1e-20, 3e-19, 1e8, 1e9, 1e17, 1e-37, 1e37};
  const auto between = [&](double low, double high, int count) {
    for (int i = 0; i < count; ++i)
      numbers.push_back(low + (high - low) * static_cast<double>(random() >> 11U) * 0x1p-53);
  };
  between(0, 1, 300);
  between(1, 12, 600);
  between(12, 1000, 100);
  between(1e3, 1e9, 50);
  for (const int whole : {-1'000'000'000, -123'456, -100'001, -4000, -102, -101, -100, -99})
    between(whole + 0.05, whole + 0.45, 3);
  for (int whole = -12; whole < 0; ++whole) between(whole + 0.05, whole + 0.45, 10);  // no root of odd orders
  std::vector<double> positive;  // derivatives of even order have roots between the poles
  for (const double x : numbers) {
    if (!(x < 0)) positive.push_back(x);
  }
  for (const DType dtype : {f32, f64}) {
    for (int m = 0; m <= 30; m += m < 5 ? 1 : 4) {
      const Tensor x = numbers_of(dtype, m % 2 == 0 ? positive : numbers);
      const Graph graph = m == 0 ? graph_of(Op::make(prim::digamma), {x.type()})
                                 : graph_of(Op::make(prim::polygamma, {{"m", m}}), {x.type()});
      const Tensor got = cpu().run(graph, std::vector<Tensor>{x})[0],
                   expected = reference().run(graph, std::vector<Tensor>{x})[0];
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const double a = got.at(i).real(), b = expected.at(i).real(), at = x.at(i).real();
        // digamma has a root near 1.46
        const double least = m == 0 ? 1.0 : 0.0, relative = dtype == f32 ? 2e-7 : 2e-14;
        const bool tiny = std::fabs(b) < (dtype == f32 ? 1e-37 : 1e-300);
        const bool near = std::isfinite(b)
                              ? std::fabs(a - b) <= relative * std::max(std::fabs(b), least) || tiny
                              : a == b || (std::isnan(a) && std::isnan(b));
        CHECK_MESSAGE(near, "m = ", m, ", x = ", at, ": ", a, ", expected ", b);
      }
    }
  }
}

// m! and zeta(m + 1, x) are no numbers, or one of them, where their product is: by 60 digits.
TEST_CASE("polygamma of high orders") {
  struct OfOrder {
    std::int64_t m;
    double x, want;
  };
  for (const OfOrder& row : std::initializer_list<OfOrder>{
           {50, 1e6, -6.082970712101283e-238},
           {60, 10, -8.345955089401754e+20},
           {60, -2.75, -4.424195609128541e+118},
           {60, 318481.5, -9.057574295649007e-251},
           {99, 1461, 4.882361232434413e-160},
           {150, 100, -7.358175392528281e-40},
           {150, 1000, -4.101778391925375e-190},
           {170, 25, -6.50986542482698e+67},
           {171, 40, 3.513395552857754e+33},
           {200, 75, -0.010992082544222388},
           {300, -0.875, -INFINITY},
           {500, 180.5, -4164.09994115406},
           {1000, 370, -0.000732645657980637},
           {1000, 600, -5.837036756391904e-214},
       }) {
    const Tensor x = Tensor::scalar(row.x);
    const Graph graph = graph_of(Op::make(prim::polygamma, {{"m", row.m}}), {x.type()});
    for (const Executor* executor :
         {static_cast<const Executor*>(&cpu()), static_cast<const Executor*>(&reference())}) {
      const double got = executor->run(graph, std::vector<Tensor>{x})[0].item<double>();
      CHECK_MESSAGE(close_to(got, row.want, 5e-14), "m = ", row.m, ", x = ", row.x, ": ", got);
    }
  }
}

TEST_CASE("lgamma over its range, near its roots, of few numbers and of many") {
  std::mt19937_64 random(40);
  std::vector<double> numbers{NAN,   INFINITY, -INFINITY, 0.0, -0.0,   -1,  -2,   1,    2,
                              1e-30, 1e-38,    9.9999,    10,  10.001, 1e8, 1e29, 1e31, 3e38};
  const auto between = [&](double low, double high, int count) {
    for (int i = 0; i < count; ++i)
      numbers.push_back(low + (high - low) * static_cast<double>(random() >> 11U) * 0x1p-53);
  };
  between(-6, 0, 100);
  between(0, 3, 500);
  between(3, 40, 300);
  for (int power = 1; power < 23; ++power) {
    for (const double root : {1.0, 2.0}) {
      numbers.push_back(root + std::ldexp(1.0, -power));
      numbers.push_back(root - std::ldexp(1.0, -power));
    }
  }
  for (const DType dtype : {f32, f64}) {
    for (const std::size_t count : {std::size_t{20}, std::size_t{64}, std::size_t{129}, numbers.size()}) {
      for (const std::size_t first : {std::size_t{0}, numbers.size() - count}) {
        const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(first);
        const Tensor x = numbers_of(dtype, {begin, begin + static_cast<std::ptrdiff_t>(count)});
        const Graph graph = graph_of(Op::make(prim::lgamma), {x.type()});
        const Tensor got = cpu().run(graph, std::vector<Tensor>{x})[0];
        for (std::int64_t i = 0; i < x.size(); ++i) {
          const double at = x.at(i).real(), a = got.at(i).real(), b = std::lgamma(at);
          const double rounded = dtype == f32 ? static_cast<double>(static_cast<float>(b)) : b;
          CHECK_MESSAGE(close_to(a, rounded, dtype == f32 ? 4e-7 : 1e-15), "x = ", at, ": ", a, ", expected ",
                        b);
        }
      }
    }
  }
}

}  // namespace special_cases
