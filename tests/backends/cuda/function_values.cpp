// Functions of the kernels' prelude against values to 30 digits at the ends of their range; on the host, or
// on the device where TIDU_TEST_DEVICE=1 asks for it, whose library is some units in the last place off.
#include "support/function_values.hpp"

#include <complex>

#include "cpu/compare.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "cuda/this_machine.hpp"
#include "support/accuracy_data.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::test {
namespace {

// Nothing in builds that neither emulate nor have a device.
template <class T>
std::vector<T> results_of(const Primitive& f, const std::vector<T>& x) {
  const Tensor in = Tensor::from<T>({static_cast<std::int64_t>(x.size())}, x);
  const Graph graph = graph_of(Op::make(f, {}), {in.type()});
  std::vector<Tensor> got;
  if (const CudaExecutor* const device = chosen_device()) {
    got = run_there(*device, graph, std::span(&in, 1));
  } else if (Emulator::is_enabled()) {
    got = Emulator::shared().run(graph, cuda_detail::plan_nodes(graph), std::span(&in, 1));
  } else {
    return {};
  }
  return {got.at(0).data<T>(), got.at(0).data<T>() + x.size()};
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

}  // namespace

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
