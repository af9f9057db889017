// quotients.cpp - complex quotients and reciprocals at the ends of the range, and powers with exponents
// beyond 32 bits, in the CPU and the reference executor.
#include "support/quotients.hpp"

#include "cpu/compare.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test::quotients_cases {
namespace {

std::vector<Tensor> results(const Graph& graph, const std::vector<Tensor>& inputs) {
  return {cpu().run(graph, inputs)[0], reference().run(graph, inputs)[0]};
}

template <class R>
void check_quotients() {
  using Complex = std::complex<R>;
  const ComplexQuotients<R> all;
  const auto n = static_cast<std::int64_t>(all.x.size());
  const Tensor x = Tensor::from<Complex>({n}, all.x), y = Tensor::from<Complex>({n}, all.y);
  for (const Primitive* const primitive : {&prim::div, &prim::divide_no_nan}) {
    for (const Tensor& got : results(graph_of(Op::make(*primitive, {}), {x.type(), y.type()}), {x, y}))
      for (std::size_t i = 0; i < all.x.size(); ++i)
        CHECK_MESSAGE(all.error(i, got.data<Complex>()[i]) <= 4, all.x[i], " / ", all.y[i], ": ",
                      got.data<Complex>()[i]);
  }
  for (const Tensor& got : results(graph_of(Op::make(prim::reciprocal, {}), {y.type()}), {y}))
    for (std::size_t i = 0; i < all.y.size(); ++i) {
      if (all.x[i] != Complex(R(1.3), 0)) continue;
      const auto scaled = all.exact[i] / static_cast<long double>(R(1.3));
      const std::complex<long double> one = got.data<Complex>()[i];
      if (std::abs(scaled) > std::numeric_limits<R>::max()) continue;
      CHECK(std::abs(one - scaled) <= 4 * (std::abs(scaled) * std::numeric_limits<R>::epsilon() +
                                           std::numeric_limits<R>::denorm_min()));
    }
}

}  // namespace

TEST_CASE("complex quotients are right wherever they are in the range") {
  check_quotients<double>();
  check_quotients<float>();
}

TEST_CASE("powers with exponents beyond 32 bits are right wherever they are in the range") {
  for (const WidePower& power : wide_powers()) {
    const Tensor x = Tensor::from<double>({1}, {power.x});
    const Tensor z = Tensor::from<std::complex<double>>({1}, {std::complex<double>(power.x, 0.0)});
    const Op op = Op::make(prim::integer_pow, {{"y", power.y}});
    const auto check = [&](double got) {
      const long double apart = std::abs(static_cast<long double>(got) - power.exact);
      CHECK_MESSAGE(apart <= power.allowed * power.exact + 0x1p-1073L, power.x, "^", power.y, ": ", got);
    };
    for (const Tensor& got : results(graph_of(op, {x.type()}), {x})) check(got.data<double>()[0]);
    for (const Tensor& got : results(graph_of(op, {z.type()}), {z}))
      check(got.data<std::complex<double>>()[0].real());
  }
  const Tensor x = Tensor::from<double>({2}, {-1.0, -0.0});
  for (const std::int64_t y :
       {(std::int64_t{1} << 53) + 1, -(std::int64_t{1} << 53) - 1, (std::int64_t{1} << 31) + 1})
    for (const Tensor& got : results(graph_of(Op::make(prim::integer_pow, {{"y", y}}), {x.type()}), {x})) {
      CHECK(got.data<double>()[0] == -1.0);
      CHECK(std::signbit(got.data<double>()[1]));
    }
}

}  // namespace tidu::test::quotients_cases
