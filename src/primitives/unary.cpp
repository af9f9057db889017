// unary.cpp - records of the elementary functions of one operand: arithmetic, roots, powers, exponentials,
// logarithms, circular and hyperbolic functions. z = f(x), dz = f'(x) dx: one linear operation each, all
// others are residual.
//
// Note [Order of operations]: in all rules an expression that emits operations is a statement of its own, or
// has one emitting operand only. C++ does not specify the order in which operands are evaluated, but derived
// graphs must be the same for all compilers.
#include <limits>
#include <numbers>

#include "primitives/slopes.hpp"

namespace tidu::prim {
namespace {

constexpr Primitive unary(std::string_view name, Trait traits, Primitive::InferRule infer,
                          Primitive::JvpRule jvp, Primitive::SimplifyRule simplify = simplify_elementwise) {
  return {
      .name = name,
      .traits = Trait::elementwise | traits,
      .infer = infer,
      .jvp = jvp,
      .batch = batch_elementwise,
      .simplify = simplify,
  };
}

// An analytic function of floating and complex numbers.
constexpr Primitive analytic(std::string_view name, Primitive::JvpRule jvp,
                             Primitive::SimplifyRule simplify = simplify_elementwise) {
  return unary(name, Trait::inexact, infer_of<kinds::inexact>, jvp, simplify);
}

void infer_abs(InferContext& c) {
  require_kind(c, 0, kinds::number);
  c.result(c.operand(0).with_dtype(real_dtype(c.operand(0).dtype())));
}

void infer_integer_pow(InferContext& c) {
  require_kind(c, 0, kinds::number);
  c.require(c.op().integer("y") >= 0 || is_inexact(c.operand(0).dtype()),
            "expected a floating or complex operand for the negative power y=", c.op().integer("y"), ", got ",
            c.operand(0));
  c.require(c.op().integer("y") != std::numeric_limits<std::int64_t>::min(),
            "expected a power that another one is below, got y=", c.op().integer("y"));
  c.result(c.operand(0));
}

// |x|^(-1/2) of complex numbers, 1 at 0. It is in the range of the dtype even if 1 / |x| is not. Subnormal
// |x| has few digits, and |x| of the greatest numbers overflows, so that of x times a power of 4 is computed.
Value root_of_reciprocal_size(Value x) {
  const Value size = ops::abs(x), one = like(size, 1.0);
  const bool wide = size.dtype() == DType::f64;
  const Value small = ops::lt(size, like(size, wide ? 0x1p-900 : 0x1p-80));
  const Value large = ops::gt(size, like(size, wide ? 0x1p1000 : 0x1p120));
  const auto by_size = [&](double of_small, double of_large) {
    const Value others = ops::select_n(large, one, like(size, of_large));
    return ops::select_n(small, others, like(size, of_small));
  };
  const Value scale = wide ? by_size(0x1p600, 0x1p-100) : by_size(0x1p60, 0x1p-20);
  const Value root_of_scale = wide ? by_size(0x1p300, 0x1p-50) : by_size(0x1p30, 0x1p-10);
  const Value re = ops::real(x) * scale, im = ops::imag(x) * scale;
  const Value root = ops::rsqrt(ops::abs(ops::complex(re, im))) * root_of_scale;
  return ops::select_n(ops::eq(size, like(size, 0.0)), root, one);
}

constexpr AttributeSpec integer_pow_attributes[] = {{.name = "y", .kind = AttributeKind::integer}};

}  // namespace

// z = -x             linear: ct_x = -ct
constinit const Primitive neg{
    .name = "neg",
    .traits = Trait::elementwise,
    .linearity = linearity::linear,
    .infer = infer_of<kinds::number>,
    .transpose = [](TransposeContext& c) -> Derivatives { return ops::neg(*c.cotangent()); },
    .batch = batch_elementwise,
    .simplify = simplify_neg,
};

// z = |x|            real: dz = sign(x) dx, complex: dz = Re(conj(sign(x)) dx); 0 at 0
constinit const Primitive abs = unary(
    "abs", Trait::none, infer_abs,
    [](JvpContext& c) -> Derivatives {
      const Value slope = ops::sign(x_of(c));
      return is_complex(slope.dtype()) ? ops::real(t_of(c) * ops::conj(slope)) : t_of(c) * slope;
    },
    simplify_even);

// z = x / |x|, 0 at 0          real: dz = 0, complex: dz = i z Im(dx conj(z)) / |x|, 0 at 0
constinit const Primitive sign =
    unary("sign", Trait::none, infer_of<kinds::number>, [](JvpContext& c) -> Derivatives {
      if (!is_complex(x_of(c).dtype())) return std::nullopt;
      const Value factor = root_of_reciprocal_size(x_of(c));
      const Value re = ops::real(z_of(c)) * factor, im = ops::imag(z_of(c)) * factor;
      const Value w = ops::complex(-im, re);  // dz = w Re(dx conj(w)) does not overflow before dz does
      const Value turn = ops::real(t_of(c) * ops::conj(w));
      return ops::complex(turn, tidu::zeros(c.emitter(), turn.type())) * w;
    });

// z = x^2            dz = 2 x dx
constinit const Primitive square = unary(
    "square", Trait::none, infer_of<kinds::number>,
    [](JvpContext& c) -> Derivatives { return t_of(c) * (x_of(c) + x_of(c)); }, simplify_even);

// z = 1 / x          dz = -z^2 dx
constinit const Primitive reciprocal = analytic("reciprocal", [](JvpContext& c) -> Derivatives {
  return ops::multiply_no_nan(t_of(c), slope_of_reciprocal(x_of(c), z_of(c)));
});

// z = x^y            dz = y x^(y-1) dx
constinit const Primitive integer_pow{
    .name = "integer_pow",
    .attributes = integer_pow_attributes,
    .traits = Trait::elementwise,
    .infer = infer_integer_pow,
    .jvp = [](JvpContext& c) -> Derivatives {
      const std::int64_t y = c.op().integer("y");
      const Value x = x_of(c);
      if (y == 0) return std::nullopt;
      if (y == 1) return t_of(c);
      const Value power = y == 2 ? x : y == 3 ? ops::square(x) : ops::integer_pow(x, y - 1);
      const Value slope = like(x, static_cast<double>(y)) * power;
      return y < 0 ? ops::multiply_no_nan(t_of(c), slope) : t_of(c) * slope;
    },
    .batch = batch_elementwise,
    .simplify = simplify_integer_pow,
};

// z = x^(1/2)        dz = dx / (2 z)
constinit const Primitive sqrt = analytic("sqrt", [](JvpContext& c) -> Derivatives {
  return ops::multiply_no_nan(t_of(c), like(z_of(c), 0.5) / z_of(c));
});

// z = x^(-1/2)       dz = -z / (2 x) dx
constinit const Primitive rsqrt = analytic("rsqrt", [](JvpContext& c) -> Derivatives {
  const Value half = like(z_of(c), -0.5) * z_of(c);
  return ops::multiply_no_nan(t_of(c), half / x_of(c));
});

// z = x^(1/3)        dz = dx / (3 z^2)
constinit const Primitive cbrt =
    unary("cbrt", Trait::inexact, infer_of<Kinds::floats>, [](JvpContext& c) -> Derivatives {
      const Value squared = ops::square(z_of(c));
      return ops::multiply_no_nan(t_of(c), like(squared, 1.0 / 3.0) / squared);
    });

// z = e^x            dz = z dx
constinit const Primitive exp =
    analytic("exp", [](JvpContext& c) -> Derivatives { return t_of(c) * z_of(c); });

// z = 2^x            dz = 2^(x-1) 2 ln 2 dx, a number up to where z / 1.44 is
constinit const Primitive exp2 = analytic("exp2", [](JvpContext& c) -> Derivatives {
  const Value x = x_of(c), half = ops::exp2(x - like(x, 1.0));
  return t_of(c) * (like(x, 2.0 * std::numbers::ln2) * half);
});

// z = e^x - 1        dz = e^x dx
constinit const Primitive expm1 =
    analytic("expm1", [](JvpContext& c) -> Derivatives { return t_of(c) * ops::exp(x_of(c)); });

// z = ln x           dz = dx / x
constinit const Primitive log =
    analytic("log", [](JvpContext& c) -> Derivatives { return ops::divide_no_nan(t_of(c), x_of(c)); });

// z = ln(1 + x)      dz = dx / (1 + x)
constinit const Primitive log1p = analytic("log1p", [](JvpContext& c) -> Derivatives {
  return ops::divide_no_nan(t_of(c), x_of(c) + like(x_of(c), 1.0));
});

// z = sin x          dz = cos x dx
constinit const Primitive sin =
    analytic("sin", [](JvpContext& c) -> Derivatives { return t_of(c) * ops::cos(x_of(c)); });

// z = cos x          dz = -sin x dx
constinit const Primitive cos =
    analytic("cos", [](JvpContext& c) -> Derivatives { return t_of(c) * -ops::sin(x_of(c)); });

// z = tan x          dz = (1 + z^2) dx, of a complex x dx / cos^2 x
constinit const Primitive tan = analytic("tan", [](JvpContext& c) -> Derivatives {
  if (is_complex(x_of(c).dtype())) return t_of(c) * complex_slope_of_tan(x_of(c), z_of(c));
  const Value squared = ops::square(z_of(c));
  return t_of(c) * (like(squared, 1.0) + squared);
});

// t f(x) of a real x and t g(x) of a complex one, where g has poles, and f as `of_real` says.
template <Slope of_real = Slope::finite>
Derivatives real_or_complex(const JvpContext& c, Value (*f)(Value), Value (*g)(Value)) {
  if (is_complex(x_of(c).dtype())) return ops::multiply_no_nan(t_of(c), g(x_of(c)));
  return times_slope<of_real>(c, f);
}

// z = asin x         dz = dx / sqrt(1 - x^2)
constinit const Primitive asin = analytic("asin", [](JvpContext& c) -> Derivatives {
  return real_or_complex<Slope::unbounded>(c, slope_of_asin, complex_slope_of_asin);
});

// z = acos x         dz = -dx / sqrt(1 - x^2)
constinit const Primitive acos = analytic("acos", [](JvpContext& c) -> Derivatives {
  return real_or_complex<Slope::unbounded>(
      c, [](Value x) { return -slope_of_asin(x); }, [](Value x) { return -complex_slope_of_asin(x); });
});

// z = atan x         dz = dx / (1 + x^2)
constinit const Primitive atan = analytic("atan", [](JvpContext& c) -> Derivatives {
  return real_or_complex(c, slope_of_atan, complex_slope_of_atan);
});

// z = sinh x         dz = cosh x dx
constinit const Primitive sinh =
    analytic("sinh", [](JvpContext& c) -> Derivatives { return t_of(c) * ops::cosh(x_of(c)); });

// z = cosh x         dz = sinh x dx
constinit const Primitive cosh =
    analytic("cosh", [](JvpContext& c) -> Derivatives { return t_of(c) * ops::sinh(x_of(c)); });

// z = tanh x         dz = dx / cosh^2 x
constinit const Primitive tanh = analytic("tanh", [](JvpContext& c) -> Derivatives {
  if (is_complex(x_of(c).dtype())) return t_of(c) * complex_slope_of_tanh(x_of(c), z_of(c));
  return times_slope(c, [&](Value x) { return slope_of_tanh(x, wide(z_of(c))); });
});

// z = asinh x        dz = dx / sqrt(x^2 + 1)
constinit const Primitive asinh = analytic("asinh", [](JvpContext& c) -> Derivatives {
  return real_or_complex(c, slope_of_asinh, complex_slope_of_asinh);
});

// z = acosh x        dz = dx / (sqrt(x - 1) sqrt(x + 1)); separate roots for complex x with Re x < 0, and for
// a large x, whose square would overflow
constinit const Primitive acosh = analytic("acosh", [](JvpContext& c) -> Derivatives {
  return real_or_complex<Slope::unbounded>(c, slope_of_acosh, complex_slope_of_acosh);
});

// z = atanh x        dz = dx / ((1 - x) (1 + x))
constinit const Primitive atanh = analytic("atanh", [](JvpContext& c) -> Derivatives {
  return real_or_complex<Slope::unbounded>(c, slope_of_atanh, complex_slope_of_atanh);
});

// z = 1 / (1 + e^-x)           dz = dx / (2 cosh(x/2))^2
constinit const Primitive logistic = analytic(
    "logistic",
    [](JvpContext& c) -> Derivatives {
      if (is_complex(x_of(c).dtype())) return t_of(c) * complex_slope_of_logistic(x_of(c));
      return times_slope(c, [&](Value x) { return slope_of_logistic(x, wide(z_of(c))); });
    },
    simplify_logistic);

}  // namespace tidu::prim
