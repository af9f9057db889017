// special.cpp - records of rounding, of the error and gamma functions, and of the predicates of one operand.
#include <limits>
#include <numbers>

#include "primitives/slopes.hpp"

namespace tidu::prim {
namespace {

constexpr Primitive of_floating(std::string_view name, Primitive::JvpRule jvp) {
  return {
      .name = name,
      .traits = Trait::elementwise | Trait::inexact,
      .infer = infer_of<Kinds::floats>,
      .jvp = jvp,
      .batch = batch_elementwise,
      .simplify = simplify_elementwise,
  };
}

// Constant between its steps.
constexpr Primitive flat(std::string_view name, Primitive::InferRule infer,
                         Primitive::SimplifyRule simplify = simplify_elementwise) {
  return {
      .name = name,
      .traits = Trait::elementwise | Trait::no_tangent,
      .infer = infer,
      .batch = batch_elementwise,
      .simplify = simplify,
  };
}

void infer_round(InferContext& c) {
  infer_of<Kinds::floats>(c);
  const std::string& method = c.op().string("rounding_method");
  c.require(method == "to_nearest_even" || method == "away_from_zero",
            "expected rounding_method \"to_nearest_even\" or \"away_from_zero\", got ",
            detail::in_quotes(method));
}

void infer_polygamma(InferContext& c) {
  infer_of<Kinds::floats>(c);
  c.require(c.op().integer("m") >= 1, "expected m of at least 1, got ", c.op().integer("m"));
  c.require(c.op().integer("m") != std::numeric_limits<std::int64_t>::max(),
            "expected m that another one is above, got ", c.op().integer("m"));
}

constexpr AttributeSpec round_attributes[] = {{.name = "rounding_method",
                                               .kind = AttributeKind::string,
                                               .has_default = true,
                                               .default_string = "to_nearest_even"}};
constexpr AttributeSpec polygamma_attributes[] = {{.name = "m", .kind = AttributeKind::integer}};

}  // namespace

constinit const Primitive floor = flat("floor", infer_of<Kinds::floats>);
constinit const Primitive ceil = flat("ceil", infer_of<Kinds::floats>);
constinit const Primitive round{
    .name = "round",
    .attributes = round_attributes,
    .traits = Trait::elementwise | Trait::no_tangent,
    .infer = infer_round,
    .batch = batch_elementwise,
    .simplify = simplify_elementwise,
};
constinit const Primitive is_finite = flat("is_finite", infer_predicate<Kinds::floats>);
constinit const Primitive not_ = flat("not", infer_of<kinds::bits>, simplify_not);

// z = erf x          dz = 2 / sqrt(pi) e^(-x^2) dx
constinit const Primitive erf =
    of_floating("erf", [](JvpContext& c) -> Derivatives { return times_slope(c, slope_of_erf); });

// z = 1 - erf x      dz = -2 / sqrt(pi) e^(-x^2) dx
constinit const Primitive erfc = of_floating("erfc", [](JvpContext& c) -> Derivatives {
  return times_slope(c, [](Value x) { return -slope_of_erf(x); });
});

// x = erf z          dz = sqrt(pi) / 2 e^(z^2) dx
constinit const Primitive erf_inv = of_floating("erf_inv", [](JvpContext& c) -> Derivatives {
  const Value z = has_16_bits(x_of(c).dtype()) ? ops::erf_inv(wide(x_of(c))) : z_of(c);
  return ops::multiply_no_nan(t_of(c), narrow(slope_of_erf_inv(wide(x_of(c)), z), x_of(c).dtype()));
});

// z = ln |gamma(x)|  dz = digamma(x) dx
constinit const Primitive lgamma = of_floating("lgamma", [](JvpContext& c) -> Derivatives {
  return ops::multiply_no_nan(t_of(c), ops::digamma(x_of(c)));
});

// z = lgamma'(x)     dz = polygamma(1, x) dx
constinit const Primitive digamma = of_floating("digamma", [](JvpContext& c) -> Derivatives {
  return ops::multiply_no_nan(t_of(c), ops::polygamma(x_of(c), 1));
});

// z = digamma^(m)(x)           dz = polygamma(m + 1, x) dx
constinit const Primitive polygamma{
    .name = "polygamma",
    .attributes = polygamma_attributes,
    .traits = Trait::elementwise | Trait::inexact,
    .infer = infer_polygamma,
    .jvp = [](JvpContext& c) -> Derivatives {
      return ops::multiply_no_nan(t_of(c), ops::polygamma(x_of(c), c.op().integer("m") + 1));
    },
    .batch = batch_elementwise,
    .simplify = simplify_elementwise,
};

}  // namespace tidu::prim
