// elementwise_list.cpp - the element-wise records, in the order of the documentation's table.
#include "tidu/primitives/elementwise.hpp"

namespace tidu::prim {

std::vector<const Primitive*> elementwise_primitives() {
  return {&constant, &iota, &full,
          // unary
          &neg, &abs, &sign, &floor, &ceil, &round, &exp, &exp2, &expm1, &log, &log1p, &sqrt, &rsqrt, &cbrt,
          &sin, &cos, &tan, &asin, &acos, &atan, &sinh, &cosh, &tanh, &asinh, &acosh, &atanh, &logistic, &erf,
          &erfc, &erf_inv, &lgamma, &digamma, &polygamma, &square, &reciprocal, &is_finite, &not_,
          &integer_pow,
          // complex
          &real, &imag, &complex, &conj,
          // binary
          &add, &sub, &mul, &div, &multiply_no_nan, &divide_no_nan, &pow, &max, &min, &atan2, &rem,
          &nextafter, &and_, &or_, &xor_,
          // comparison
          &eq, &ne, &lt, &le, &gt, &ge,
          // ternary
          &select_n, &clamp};
}

}  // namespace tidu::prim
