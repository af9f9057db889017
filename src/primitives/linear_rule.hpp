// linear_rule.hpp - a linear graph with its transpose, as linear_call has them, for the operands of an
// operation that have a tangent.
#pragma once

#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::prim {

struct LinearRule {
  std::vector<std::size_t> inputs;   // of graph: with a tangent, and a cotangent in backward
  std::vector<std::size_t> outputs;  // of graph: with a tangent
  std::vector<Value> residuals;      // the first inputs of both graphs
  Graph linear, backward;
};
void drop_unused_residuals(LinearRule& rule);
/// Those of its outputs: the linear_call of its residuals and the tangents of its inputs.
Values tangents_by(JvpContext& c, const LinearRule& rule);

}  // namespace tidu::prim
