// binary.cpp - kernels of two operands, comparisons, select_n and clamp.
#include <cmath>

#include "reference/elements.hpp"
#include "reference/special.hpp"

namespace tidu::ref {
namespace {

Int divide(Int x, Int y) {
  if (y == 0) return -1;
  return y == -1 ? wrap_sub(0, x) : x / y;
}

Int remainder(Int x, Int y) {
  if (y == 0) return x;
  return y == -1 ? 0 : x % y;
}

template <class T>
T multiply_no_nan(T x, T y) {
  return x == T(0) ? x : times(x, y);
}
template <class T>
T multiply_no_nan_of_both(T x, T y) {
  return y == T(0) ? y : multiply_no_nan(x, y);
}
NamedKernel multiply_no_nan_kernel() {
  const NamedKernel one = elementwise("multiply_no_nan", &multiply_no_nan<Real>, &multiply_no_nan<Complex>);
  const NamedKernel both =
      elementwise("multiply_no_nan", &multiply_no_nan_of_both<Real>, &multiply_no_nan_of_both<Complex>);
  return {one.primitive, one.supported,
          [one, both](const KernelCall& c) { (c.op().boolean("both") ? both : one).kernel(c); }};
}
template <class T>
T divide_no_nan(T x, T y) {
  if (x == T(0)) return x;
  if constexpr (std::is_same_v<T, Complex>) {
    return quotient(x, y);
  } else {
    return x / y;
  }
}

/// The number after x towards y among those with the bits of U, sign bit first and magnitudes in order.
template <class U>
U next(U x, U y, bool equal) {
  constexpr U sign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  if (equal) return y;
  if ((x & ~sign) == 0) return static_cast<U>((y & sign) | 1U);
  const bool x_negative = (x & sign) != 0, y_negative = (y & sign) != 0;
  const bool grows = x_negative == y_negative && (y & ~sign) > (x & ~sign);  // in magnitude
  return static_cast<U>(grows ? x + 1U : x - 1U);
}

template <class U>
void next_elements(const KernelCall& c) {
  U* out = reinterpret_cast<U*>(c.output().mutable_bytes());
  for (Int i = 0; i < c.output().size(); ++i) {
    const Real x = load<Real>(c.input(0), i), y = load<Real>(c.input(1), i);
    const auto at = static_cast<std::size_t>(i) * sizeof(U);
    const U x_bits = read<U>(c.input(0).bytes() + at), y_bits = read<U>(c.input(1).bytes() + at);
    out[i] = x != x ? x_bits : y != y ? y_bits : next<U>(x_bits, y_bits, x == y);
  }
}

void nextafter(const KernelCall& c) {
  switch (size_of(c.output().dtype())) {
    case 2: return next_elements<std::uint16_t>(c);
    case 4: return next_elements<std::uint32_t>(c);
    default: return next_elements<std::uint64_t>(c);
  }
}

void select_n(const KernelCall& c) {
  const Tensor& which = c.input(0);
  const Int last = static_cast<Int>(c.num_inputs()) - 2;
  const Writer out(c.output());
  for (Int i = 0; i < c.output().size(); ++i) {
    const Int at = which.rank() == 0 ? 0 : i;
    const Int chosen = is_bool(which.dtype()) ? Int{load<bool>(which, at)} : load<Int>(which, at);
    out.copy(i, c.input(1 + static_cast<std::size_t>(lesser_of(greater_of(chosen, Int{0}), last))), i);
  }
}

template <class T>
T clamp(T lo, T x, T hi) {
  return lesser_of(greater_of(x, lo), hi);
}

template <class T>
bool equal(T x, T y) {
  return x == y;
}
template <class T>
bool unequal(T x, T y) {
  return x != y;
}
template <class T>
bool less(T x, T y) {
  return x < y;
}
template <class T>
bool less_equal(T x, T y) {
  return x <= y;
}
template <class T>
bool greater(T x, T y) {
  return x > y;
}
template <class T>
bool greater_equal(T x, T y) {
  return x >= y;
}

}  // namespace

std::vector<NamedKernel> binary_kernels() {
  return {
      elementwise(
          "add", +[](Int x, Int y) { return plus(x, y); }, +[](Real x, Real y) { return x + y; },
          +[](Complex x, Complex y) { return x + y; }),
      elementwise(
          "sub", +[](Int x, Int y) { return wrap_sub(x, y); }, +[](Real x, Real y) { return x - y; },
          +[](Complex x, Complex y) { return x - y; }),
      elementwise(
          "mul", +[](Int x, Int y) { return times(x, y); }, +[](Real x, Real y) { return x * y; },
          +[](Complex x, Complex y) { return times(x, y); }),
      elementwise(
          "div", &divide, +[](Real x, Real y) { return x / y; },
          +[](Complex x, Complex y) { return quotient(x, y); }),
      multiply_no_nan_kernel(),
      elementwise("divide_no_nan", &divide_no_nan<Real>, &divide_no_nan<Complex>),
      elementwise(
          "rem", &remainder, +[](Real x, Real y) { return std::fmod(x, y); }),
      elementwise(
          "pow", +[](Real x, Real y) { return std::pow(x, y); },
          +[](Complex x, Complex y) { return pow(x, y); }),
      elementwise("max", &greater_of<bool>, &greater_of<Int>, &greater_of<Real>),
      elementwise("min", &lesser_of<bool>, &lesser_of<Int>, &lesser_of<Real>),
      elementwise(
          "atan2", +[](Real y, Real x) { return std::atan2(y, x); }),
      {"nextafter", dtypes::floats, nextafter},
      elementwise(
          "and", +[](bool x, bool y) { return x && y; }, +[](Int x, Int y) { return x & y; }),
      elementwise(
          "or", +[](bool x, bool y) { return x || y; }, +[](Int x, Int y) { return x | y; }),
      elementwise(
          "xor", +[](bool x, bool y) { return x != y; }, +[](Int x, Int y) { return x ^ y; }),
      elementwise("eq", &equal<bool>, &equal<Int>, &equal<Real>, &equal<Complex>),
      elementwise("ne", &unequal<bool>, &unequal<Int>, &unequal<Real>, &unequal<Complex>),
      elementwise("lt", &less<bool>, &less<Int>, &less<Real>),
      elementwise("le", &less_equal<bool>, &less_equal<Int>, &less_equal<Real>),
      elementwise("gt", &greater<bool>, &greater<Int>, &greater<Real>),
      elementwise("ge", &greater_equal<bool>, &greater_equal<Int>, &greater_equal<Real>),
      elementwise("clamp", &clamp<bool>, &clamp<Int>, &clamp<Real>),
      {"select_n", dtypes::all, select_n},
  };
}

}  // namespace tidu::ref
