// slopes.hpp - first derivatives of elementary functions of one number, as values that are
// differentiable themselves.
//
// Note [Slopes]: f'(x) is computed by a formula that does not overflow, underflow or cancel where its value
// is a number of the dtype, also from the x on where f has become constant. (1 - tanh² x is 0 from 19 on; 4 e
// / (1 + e)² with e = exp(-2|x|) is not.) The derivative of such a formula may cancel, so f''(x) is given
// separately. Numbers of 16 bits are computed as f32 and rounded once.
//
// Note [Masked slopes]: if a derivative is infinite or NaN at finite x, tangents are multiplied by it with
// multiply_no_nan, and divided with divide_no_nan: a tangent that is 0 (clip's at a bound) and a cotangent
// that is 0 (that of the branch that a select_n did not take) stay 0. The rules of the slopes do the same, so
// that this holds to every order.
#pragma once

#include <array>

#include "primitives/custom_derivative.hpp"
#include "primitives/elementwise_rules.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {

inline bool has_16_bits(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
/// x, as f32 where it has 16 bits.
inline Value wide(Value x) { return has_16_bits(x.dtype()) ? ops::convert_element_type(x, DType::f32) : x; }
/// x, at most `bound` from 0.
Value bounded(Value x, double bound);
/// x converted to this dtype, where it is of another one.
inline Value narrow(Value x, DType dtype) {
  return x.dtype() == dtype ? x : ops::convert_element_type(x, dtype);
}

/// Is a slope a number wherever its argument is one? See Note [Masked slopes].
enum class Slope : std::uint8_t { finite, unbounded };
template <Slope slope>
Value times(Value tangent, Value factor) {
  return slope == Slope::finite ? tangent * factor : ops::multiply_no_nan(tangent, factor);
}

/// t f(x) for the only operand's tangent; f does not compute in 16 bits.
template <Slope slope = Slope::finite, class F>
Derivatives times_slope(const JvpContext& c, const F& f) {
  const Value factor = narrow(f(wide(x_of(c))), x_of(c).dtype());
  return times<slope>(t_of(c), factor);
}

/// a b c, from the left: the caller passes a small and a large factor first, so that they cancel.
inline Value product(Value a, Value b, Value c) {
  const Value first = a * b;
  return first * c;
}

/// value(x), whose derivative is derivative(x, value(x)).
template <Slope slope = Slope::finite, class F, class G>
Value with_derivative(const char* name, Value x, const F& value, const G& derivative) {
  return differentiated(
      name, {&x, 1}, [&](const Values& v) { return Values{value(v[0])}; },
      [&](const Values& v, const Values& z, const Values& dv) {
        const Value factor = derivative(v[0], z[0]);
        return Values{times<slope>(dv[0], factor)};
      })[0];
}

/// value(x, z), where z is a function of x. derivative(x, z, value(x, z)) is the whole one by x, that by way
/// of z included.
template <Slope slope = Slope::finite, class F, class G>
Value with_derivative(const char* name, Value x, Value z, const F& value, const G& derivative) {
  return differentiated(
      name, std::array{x, z}, [&](const Values& v) { return Values{value(v[0], v[1])}; },
      [&](const Values& v, const Values& results, const Values& dv) {
        const Value factor = derivative(v[0], v[1], results[0]);
        return Values{times<slope>(dv[0], factor)};
      })[0];
}

/// For a real x of 32 or 64 bits: 1 / sqrt(1 - x²), 1 / (1 + x²), 1 / sqrt(1 + x²), 1 / sqrt(x² - 1),
/// 1 / (1 - x²).
Value slope_of_asin(Value x);
Value slope_of_atan(Value x);
Value slope_of_asinh(Value x);
Value slope_of_acosh(Value x);
Value slope_of_atanh(Value x);
/// 1 / cosh² x with z = tanh x, and 1 / (2 cosh(x/2))² with z = logistic x.
Value slope_of_tanh(Value x, Value z);
Value slope_of_logistic(Value x, Value z);
/// (2 / sqrt(pi)) e^(-x²)
Value slope_of_erf(Value x);
/// (sqrt(pi) / 2) e^(z²) with z = erf_inv x
Value slope_of_erf_inv(Value x, Value z);
/// The same for a complex x. The roots are principal ones, also on their cuts.
Value complex_slope_of_asin(Value x);
Value complex_slope_of_atan(Value x);
Value complex_slope_of_asinh(Value x);
Value complex_slope_of_acosh(Value x);
Value complex_slope_of_atanh(Value x);
Value complex_slope_of_tanh(Value x, Value z);
Value complex_slope_of_logistic(Value x);
/// 1 / cos² x with z = tan x
Value complex_slope_of_tan(Value x, Value z);
/// -z² with z = 1 / x, of a real or complex x of any precision
Value slope_of_reciprocal(Value x, Value z);
/// y x^(y-1), of real or complex numbers of 32 bits and more by part
Value slope_of_pow(Value x, Value y);

}  // namespace tidu::prim
