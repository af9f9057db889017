// Functions of the kernels' prelude against values to 30 digits at the ends of their range; on the host, or
// on the device where TIDU_TEST_DEVICE=1 asks for it, whose library is some units in the last place off.
#include "support/function_values.hpp"

#include <cmath>
#include <complex>
#include <limits>

#include "cpu/compare.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "cuda/this_machine.hpp"
#include "support/accuracy_data.hpp"
#include "support/quotients.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::test {
namespace {

// Nothing in builds that neither emulate nor have a device.
template <class T>
std::vector<T> results_of(const Op& op, const std::vector<Tensor>& x) {
  std::vector<Type> types;
  for (const Tensor& each : x) types.push_back(each.type());
  const Graph graph = graph_of(op, types);
  std::vector<Tensor> got;
  if (const CudaExecutor* const device = chosen_device()) {
    got = run_there(*device, graph, x);
  } else if (Emulator::is_enabled()) {
    got = Emulator::shared().run(graph, cuda_detail::plan_nodes(graph), x);
  } else {
    return {};
  }
  return {got.at(0).data<T>(), got.at(0).data<T>() + got.at(0).size()};
}
template <class T>
std::vector<T> results_of(const Primitive& f, const std::vector<T>& x) {
  return results_of<T>(Op::make(f, {}), {Tensor::from<T>({static_cast<std::int64_t>(x.size())}, x)});
}

template <class T>
void check_values(const Primitive& f, const std::vector<FunctionValue>& values, double units_allowed) {
  std::vector<T> x;
  for (const FunctionValue& value : values) x.push_back(static_cast<T>(value.x));
  const std::vector<T> got = results_of(f, x);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double apart = units_apart(got[i], values[i].y);
    CHECK_MESSAGE(apart <= units_allowed, f.name, " of ", x[i], ": ", got[i], ", ", apart,
                  " units in the last place off");
  }
}

template <class T>
void check_exp2(const std::vector<ComplexValue>& values) {
  std::vector<std::complex<T>> x;
  for (const ComplexValue& value : values) x.emplace_back(static_cast<T>(value.re), static_cast<T>(value.im));
  const std::vector<std::complex<T>> got = results_of(prim::exp2, x);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double re = units_apart(got[i].real(), values[i].y_re),
                 im = units_apart(got[i].imag(), values[i].y_im);
    CHECK_MESSAGE(std::max(re, im) <= 5, "exp2 of ", x[i], ": ", got[i], ", ", re, " and ", im,
                  " units in the last place off");
  }
}

// Largest errors of the values of tests/data/accuracy. A device's library is some units in the last place
// off.
constexpr double units_allowed = 16;

template <class T>
void check_points(const Primitive& f, const ComplexPoints& points, const std::string& dtype) {
  const std::vector<std::complex<T>> x(points.operands[0].begin(), points.operands[0].end()),
      got = results_of(f, x);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = error_of_number(got[i], points.references[0][i], format_of(dtype));
    CHECK_MESSAGE(error <= units_allowed, f.name, " of ", x[i], ": ", got[i], ", ", error,
                  " units in the last place off");
  }
}
template <class T>
void check_points(const Primitive& f, const RealPoints& points, const std::string& dtype) {
  const std::vector<T> x(points.operands[0].begin(), points.operands[0].end()), got = results_of(f, x);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = error_of_number(got[i], points.references[0][i], format_of(dtype));
    CHECK_MESSAGE(error <= units_allowed, f.name, " of ", x[i], ": ", got[i], ", ", error,
                  " units in the last place off");
  }
}

// log(1 + (n - 1) e^-gap) of rows with one 0, at any position, and n - 1 times -gap.
template <class T>
void check_saturated(const Shape& shape, std::int64_t axis, double gap) {
  const std::int64_t n = shape[static_cast<std::size_t>(axis)], rows = shape[0] * shape[1] / n;
  std::vector<T> x(static_cast<std::size_t>(n * rows), static_cast<T>(-gap));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * n / rows;
    x[static_cast<std::size_t>(axis == 1 ? row * n + at : at * rows + row)] = T(0);
  }
  const double expected = std::log1p(static_cast<double>(n - 1) * std::exp(-gap));
  const Op op = Op::make(prim::logsumexp, {{"axes", Ints{axis}}});
  for (const T y : results_of<T>(op, {Tensor::from<T>(shape, x)}))
    CHECK(std::abs(static_cast<double>(y) - expected) <= expected * (sizeof(T) == 8 ? 1e-13 : 3e-5));
}

template <class R>
void check_quotients() {
  using Complex = std::complex<R>;
  const ComplexQuotients<R> all;
  const auto n = static_cast<std::int64_t>(all.x.size());
  const std::vector<Complex> got = results_of<Complex>(
      Op::make(prim::div, {}), {Tensor::from<Complex>({n}, all.x), Tensor::from<Complex>({n}, all.y)});
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK_MESSAGE(all.error(i, got[i]) <= 8, all.x[i], " / ", all.y[i], ": ", got[i]);
}

}  // namespace

TEST_CASE("complex quotients of kernels are right wherever they are in the range") {
  check_quotients<double>();
  check_quotients<float>();
}

TEST_CASE("powers of kernels with exponents beyond 32 bits are right wherever they are in the range") {
  for (const WidePower& power : wide_powers())
    for (const double got : results_of<double>(Op::make(prim::integer_pow, {{"y", power.y}}),
                                               {Tensor::from<double>({1}, {power.x})})) {
      const long double apart = std::abs(static_cast<long double>(got) - power.exact);
      CHECK_MESSAGE(apart <= power.allowed * power.exact + 0x1p-1073L, power.x, "^", power.y, ": ", got);
    }
  for (const std::int64_t y : {(std::int64_t{1} << 53) + 1, (std::int64_t{1} << 25) + 1}) {
    const Op op = Op::make(prim::integer_pow, {{"y", y}});
    for (const double got : results_of<double>(op, {Tensor::from<double>({1}, {-1.0})})) CHECK(got == -1.0);
    for (const float got : results_of<float>(op, {Tensor::from<float>({1}, {-1.0F})})) CHECK(got == -1.0F);
  }
}

TEST_CASE("logsumexp of kernels is exact where one element exceeds all others") {
  for (const double gap : {1.0, 20.0, 40.0, 80.0}) {
    for (const std::int64_t n : {1, 2, 70, 3000}) {
      check_saturated<double>({3, n}, 1, gap);
      check_saturated<double>({n, 40}, 0, gap);
      check_saturated<float>({3, n}, 1, gap);
      check_saturated<float>({n, 40}, 0, gap);
    }
    check_saturated<float>({1, 70001}, 1, gap);
  }
  const double infinity = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{-infinity, -infinity, infinity, infinity,  1.0,
                              infinity,  nan,       1.0,      -infinity, 1.0};
  const std::vector<double> expected{-infinity, infinity, infinity, nan, 1.0};
  const std::vector<double> got =
      results_of<double>(Op::make(prim::logsumexp, {{"axes", Ints{1}}}), {Tensor::from<double>({5, 2}, x)});
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK((got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))));
  for (const double y :
       results_of<double>(Op::make(prim::logsumexp, {{"axes", Ints{1}}}), {Tensor(Type(f64, {2, 0}))}))
    CHECK(y == -infinity);
}

TEST_CASE("functions of kernels are right over the whole range") {
  using prim::exp, prim::exp2, prim::expm1, prim::log, prim::log1p, prim::sqrt, prim::rsqrt, prim::reciprocal,
      prim::square, prim::sin, prim::cos, prim::tan, prim::sinh, prim::cosh, prim::tanh, prim::asin,
      prim::acos, prim::atan, prim::asinh, prim::acosh, prim::atanh, prim::logistic;
  for (const Primitive* f :
       {&exp, &exp2, &expm1, &log,  &log1p, &sqrt, &rsqrt, &reciprocal, &square, &sin,   &cos,
        &tan, &sinh, &cosh,  &tanh, &asin,  &acos, &atan,  &asinh,      &acosh,  &atanh, &logistic}) {
    const std::string name(f->name);
    for (const auto& [dtype, points] : load_complex(name)) {
      dtype == "c64" ? check_points<float>(*f, points, dtype) : check_points<double>(*f, points, dtype);
    }
  }
  for (const Primitive* f :
       {&exp,        &exp2,       &expm1,     &log,        &log1p,         &sqrt,         &rsqrt,
        &reciprocal, &square,     &sin,       &cos,        &tan,           &sinh,         &cosh,
        &tanh,       &asin,       &acos,      &atan,       &asinh,         &acosh,        &atanh,
        &logistic,   &prim::cbrt, &prim::erf, &prim::erfc, &prim::erf_inv, &prim::lgamma, &prim::digamma}) {
    for (const auto& [dtype, points] : load_real(std::string(f->name))) {
      if (dtype == "f64") check_points<double>(*f, points, dtype);
      if (dtype == "f32") check_points<float>(*f, points, dtype);
    }
  }
}

TEST_CASE("functions of kernels are right where results or steps on the way to them leave the range") {
  check_values<double>(prim::erf_inv, erf_inv_f64, 6);
  check_values<float>(prim::erf_inv, erf_inv_f32, 6);
  check_values<double>(prim::logistic, logistic_f64, 4);
  check_values<float>(prim::logistic, logistic_f32, 4);
  check_exp2<double>(exp2_c128);
  check_exp2<float>(exp2_c64);
}

}  // namespace tidu::test
