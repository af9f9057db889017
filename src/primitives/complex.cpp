// complex.cpp - records of the real-linear operations between real and complex numbers. Transposes are with
// respect to <a, b> = Re(conj(a) b): a real operand's cotangent is real.
#include "primitives/elementwise_rules.hpp"

namespace tidu::prim {
namespace {

void infer_part(InferContext& c) {
  require_kind(c, 0, Kinds::complexes);
  c.result(c.operand(0).with_dtype(real_dtype(c.operand(0).dtype())));
}

void infer_complex(InferContext& c) {
  require_one_type(c);
  const Type part = c.operand(0);
  const std::optional<DType> dtype = complex_dtype(part.dtype());
  c.require(dtype.has_value(), "expected operands of dtype f32 or f64, got ", part);
  c.result(part.with_dtype(*dtype));
}

Value zeros_like(TransposeContext& c, Value x) { return tidu::zeros(c.emitter(), x.type()); }

}  // namespace

// z = Re x           linear: ct_x = ct + 0 i
constinit const Primitive real{
    .name = "real",
    .traits = Trait::elementwise | Trait::inexact,
    .linearity = linearity::linear,
    .infer = infer_part,
    .transpose = [](TransposeContext& c) -> Derivatives {
      return ops::complex(*c.cotangent(), zeros_like(c, *c.cotangent()));
    },
    .batch = batch_elementwise,
    .simplify = simplify_real,
};

// z = Im x           linear: ct_x = 0 + ct i
constinit const Primitive imag{
    .name = "imag",
    .traits = Trait::elementwise | Trait::inexact,
    .linearity = linearity::linear,
    .infer = infer_part,
    .transpose = [](TransposeContext& c) -> Derivatives {
      return ops::complex(zeros_like(c, *c.cotangent()), *c.cotangent());
    },
    .batch = batch_elementwise,
    .simplify = simplify_imag,
};

// z = x + y i        linear: ct_x = Re ct, ct_y = Im ct
constinit const Primitive complex{
    .name = "complex",
    .arity = 2,
    .traits = Trait::elementwise | Trait::inexact,
    .linearity = linearity::linear,
    .infer = infer_complex,
    .transpose = [](TransposeContext& c) -> Derivatives {
      Derivatives result = Derivatives::absent(2);
      if (c.linear(0)) result.set(0, ops::real(*c.cotangent()));
      if (c.linear(1)) result.set(1, ops::imag(*c.cotangent()));
      return result;
    },
    .batch = batch_elementwise,
    .simplify = simplify_complex,
};

// z = conj x         linear: ct_x = conj ct
constinit const Primitive conj{
    .name = "conj",
    .traits = Trait::elementwise | Trait::inexact,
    .linearity = linearity::linear,
    .infer = infer_of<Kinds::complexes>,
    .transpose = [](TransposeContext& c) -> Derivatives { return ops::conj(*c.cotangent()); },
    .batch = batch_elementwise,
    .simplify = simplify_conj,
};

}  // namespace tidu::prim
