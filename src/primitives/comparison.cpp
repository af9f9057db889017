// comparison.cpp - records of the comparisons of two operands of one type. Results are bool and have no
// tangent.
#include "primitives/elementwise_rules.hpp"

namespace tidu::prim {
namespace {

constexpr Primitive comparison(std::string_view name, Primitive::InferRule infer) {
  return {
      .name = name,
      .arity = 2,
      .traits = Trait::elementwise | Trait::no_tangent,
      .infer = infer,
      .batch = batch_elementwise,
      .simplify = simplify_comparison,
  };
}

}  // namespace

constinit const Primitive eq = comparison("eq", infer_comparison);
constinit const Primitive ne = comparison("ne", infer_comparison);
constinit const Primitive lt = comparison("lt", infer_predicate<kinds::ordered>);
constinit const Primitive le = comparison("le", infer_predicate<kinds::ordered>);
constinit const Primitive gt = comparison("gt", infer_predicate<kinds::ordered>);
constinit const Primitive ge = comparison("ge", infer_predicate<kinds::ordered>);

}  // namespace tidu::prim
