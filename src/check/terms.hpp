// terms.hpp - the magnitude of the terms of which an output is the sum: if they cancel, their rounding
// remains.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "check/derived.hpp"
#include "check/numeric.hpp"
#include "check/perturb.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::check {

/// For every value x of `graph` (inner graphs inlined) the sum of |x| |dy/dx| over its elements, y being the
/// output: the effect on y of relative changes of x. The largest of them, for one element of y on average. A
/// sum 1e8 - 1e8 has 1e8. At least as large as an element of y if y is linear in some value, except for
/// random signs. 0 if there is no derivative. The graph has no externals.
class Terms {
 public:
  Terms(const Graph& graph, std::size_t output, const Executor& executor);
  double at(std::span<const Tensor> inputs) const;

 private:
  const Executor& executor_;
  Type type_;
  Perturbed perturbed_;             // without the graph's own inputs
  std::optional<Derived> derived_;  // nothing where there is no derivative
};
/// The same at one point.
double magnitude_of_terms(const Graph& graph, std::span<const Tensor> inputs, std::size_t output,
                          const Executor& executor);

}  // namespace tidu::check
