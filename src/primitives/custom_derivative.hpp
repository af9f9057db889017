// custom_derivative.hpp - functions made of several primitives with their own JVP rule, since the chain rule
// over their parts would overflow, cancel or cost more. Each becomes one custom_jvp_call (jax.custom_jvp).
#pragma once

#include <span>
#include <string>

#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::prim {

/// The results of value(x), whose tangents are those that tangent(x, value(x), dx) gives, in the same order
/// and of the same types: linear in dx, one for each floating or complex operand. The graphs have no source
/// locations: those of the call are the user's.
template <class F, class Tangent>
Values differentiated(const char* name, std::span<const Value> x, const F& value, const Tangent& tangent) {
  GraphBuilder::Options options;
  options.record_where = false;
  GraphBuilder graph(name, x[0].emitter()->primitives(), options),
      rule(detail::str(name, " jvp"), x[0].emitter()->primitives(), options);
  Values inputs, primals, dx;
  for (const Value operand : x) {
    const std::string i = std::to_string(inputs.size());
    inputs.push_back(graph.input("x" + i, operand.type()));
    primals.push_back(rule.input("x" + i, operand.type()));
  }
  for (const Value operand : x) {
    if (is_inexact(operand.dtype())) dx.push_back(rule.input(detail::str("dx", dx.size()), operand.type()));
  }
  Values results = value(primals);
  for (const Value tangent_of : tangent(primals, results, dx)) results.push_back(tangent_of);
  return ops::custom_jvp_call(graph.build(value(inputs)), rule.build(results), x);
}

}  // namespace tidu::prim
