// Functions whose formulas overflow, underflow or cancel on the way to a result that is a number: on the
// reference executor and on the CPU, with every kind of vectors and without, of one element, few and many,
// alone and fused, against values to 30 digits.
#include "support/function_values.hpp"

#include <complex>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"

namespace function_values {
namespace {

using namespace tidu;
using namespace tidu::test;

CpuExecutor with_units(VectorUnits units) {
  CpuOptions options;
  options.vector_units = units;
  return CpuExecutor(options);
}

// f of x, or of -(-x) where that is to be fused with something.
Graph graph_of_function(const Primitive& f, Type type, bool fused) {
  GraphBuilder builder("function");
  Value x = builder.input("x", type);
  if (fused) x = ops::neg(ops::neg(x));
  return builder.build({builder.emit_one(Op::make(f, {}), std::vector<Value>{x})});
}

// Results for all of `x`, by `count` at a time.
template <class T>
std::vector<T> results_of(const Primitive& f, const std::vector<T>& x, std::size_t count, bool fused,
                          const std::function<Tensor(const Graph&, const Tensor&)>& run) {
  std::vector<T> results;
  for (std::size_t at = 0; at < x.size(); at += count) {
    const std::size_t some = std::min(count, x.size() - at);
    const Tensor part = Tensor::from<T>({static_cast<std::int64_t>(some)},
                                        std::vector<T>(x.begin() + static_cast<std::ptrdiff_t>(at),
                                                       x.begin() + static_cast<std::ptrdiff_t>(at + some)));
    const Tensor y = run(graph_of_function(f, part.type(), fused), part);
    results.insert(results.end(), y.data<T>(), y.data<T>() + some);
  }
  return results;
}

// Calls check(results, who) for each way to compute f of x.
template <class T, class Check>
void in_every_way(const Primitive& f, const std::vector<T>& x, const Check& check) {
  check(results_of(f, x, x.size(), false,
                   [](const Graph& g, const Tensor& part) {
                     return reference().run(g, std::vector<Tensor>{part})[0];
                   }),
        "reference");
  std::vector<VectorUnits> kinds = units();
  kinds.push_back(VectorUnits::none);
  for (const VectorUnits kind : kinds) {
    const CpuExecutor executor = with_units(kind);
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{3}, std::size_t{7}, std::size_t{8}, x.size()}) {
      for (const bool fused : {false, true}) {
        check(results_of(f, x, count, fused,
                         [&](const Graph& g, const Tensor& part) {
                           return executor.run(g, std::vector<Tensor>{part})[0];
                         }),
              detail::str("vectors of kind ", static_cast<int>(kind), ", ", count, " elements",
                          fused ? ", fused" : ""));
      }
    }
  }
}

template <class T>
void check_values(const Primitive& f, const std::vector<FunctionValue>& values, double units_allowed,
                  bool is_odd = false) {
  std::vector<T> x;
  std::vector<long double> want;
  for (const FunctionValue& value : values) {
    x.push_back(static_cast<T>(value.x));
    want.push_back(value.y);
    if (!is_odd) continue;
    x.push_back(static_cast<T>(-value.x));
    want.push_back(-value.y);
  }
  in_every_way(f, x, [&](const std::vector<T>& got, const std::string& who) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double apart = units_apart(got[i], want[i]);
      CHECK_MESSAGE(apart <= units_allowed, f.name, " of ", x[i], " by ", who, ": ", got[i], ", ", apart,
                    " units in the last place from ", static_cast<double>(want[i]));
    }
  });
}

}  // namespace

TEST_CASE("erf_inv is right next to 1, -1 and 0") {
  check_values<double>(prim::erf_inv, erf_inv_f64, 6, true);
  check_values<float>(prim::erf_inv, erf_inv_f32, 6, true);
}

TEST_CASE("logistic keeps results that are subnormal") {
  check_values<double>(prim::logistic, logistic_f64, 2);
  check_values<float>(prim::logistic, logistic_f32, 2);
}

// 16-bit results are those of f32, rounded.
TEST_CASE("logistic of 16 bits keeps results that are subnormal") {
  for (const DType dtype : {f16, bf16}) {
    std::vector<double> x;
    for (double at = -100; at < 20; at += 0.5) x.push_back(at);
    Tensor in(Type(dtype, {static_cast<std::int64_t>(x.size())}));
    auto* const bits = reinterpret_cast<std::uint16_t*>(in.mutable_bytes());
    for (std::size_t i = 0; i < x.size(); ++i)
      bits[i] = dtype == f16 ? double_to_half(x[i]) : double_to_bfloat16(x[i]);
    const Graph graph = graph_of_function(prim::logistic, in.type(), false);
    for (const VectorUnits kind : {VectorUnits::automatic, VectorUnits::none}) {
      const Tensor y = with_units(kind).run(graph, std::vector<Tensor>{in})[0];
      for (std::int64_t i = 0; i < y.size(); ++i) {
        const double want = 1 / (1 + std::exp(-in.at(i).real()));
        const int digits = dtype == f16 ? 11 : 8, least = dtype == f16 ? -14 : -126;
        const double unit = std::ldexp(1.0, std::max(std::ilogb(want), least) - digits + 1);
        CHECK_MESSAGE(std::fabs(y.at(i).real() - want) <= unit, "logistic of ", in.at(i).real(), " in ",
                      dtype, ": ", y.at(i).real(), ", expected ", want);
      }
    }
  }
}

TEST_CASE("complex logistic is a number where e^-z is none") {
  const std::vector<std::complex<double>> x{{-800, 1}, {-720, 0.5}, {-700, 2}, {-1, 3}, {2, -1}, {800, 2}};
  in_every_way(prim::logistic, x, [&](const std::vector<std::complex<double>>& got, const std::string& who) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::complex<long double> z(x[i]), e = std::exp(z);
      const std::complex<long double> want = z.real() < 0 ? e / (1.0L + e) : 1.0L / (1.0L + 1.0L / e);
      const double least = 0x1p-1070, size = static_cast<double>(std::abs(want));
      CHECK_MESSAGE(std::abs(std::complex<long double>(got[i]) - want) <= 1e-15 * size + least,
                    "logistic of ", x[i], " by ", who, ": ", got[i]);
    }
  });
}

template <class T>
void check_exp2(const std::vector<ComplexValue>& values) {
  std::vector<std::complex<T>> x;
  for (const ComplexValue& value : values) x.emplace_back(static_cast<T>(value.re), static_cast<T>(value.im));
  in_every_way(prim::exp2, x, [&](const std::vector<std::complex<T>>& got, const std::string& who) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double re = units_apart(got[i].real(), values[i].y_re),
                   im = units_apart(got[i].imag(), values[i].y_im);
      CHECK_MESSAGE(std::max(re, im) <= 3, "exp2 of ", x[i], " by ", who, ": ", got[i], ", ", re, " and ", im,
                    " units in the last place off");
    }
  });
}

TEST_CASE("exp2 of complex numbers rounds neither the exponent nor the angle") {
  check_exp2<double>(exp2_c128);
  check_exp2<float>(exp2_c64);
}

}  // namespace function_values
