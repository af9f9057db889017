// derived.hpp - a graph with its linearization, its transposition and the transposition of that, ready to be
// run at one point: residuals are computed once, and externals become inputs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "check/numeric.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/linearize/linearize.hpp"
#include "tidu/linearize/transpose.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::check {

/// A graph whose externals have become its first inputs.
struct Closed {
  Graph graph;
  std::vector<ValueKey> externals;
};
/// Fresh keys stand for the externals; inputs keep theirs. All outputs, or with `every_value` the results of
/// all operations instead.
Closed close(const Graph& graph, bool every_value = false);

/// The same graph under `primitives`, inputs named uniquely.
Graph rebuilt(const Graph& graph, const PrimitiveSet& primitives);

/// f's derivatives by the inputs in `wrt`, as graphs.
class Derived {
 public:
  /// Throws ADRuleError when a rule is missing. If a transpose rule throws (a loop without a bound), there is
  /// only forward mode.
  Derived(const Graph& f, std::span<const std::size_t> wrt);
  /// Otherwise vjp() and twice_transposed() are not to be called.
  bool has_reverse() const { return refusal_.empty(); }
  /// Why not.
  const std::string& refusal() const { return refusal_; }

  const Graph& graph() const { return linearization_.primal; }
  const Linearization& linearization() const { return linearization_; }
  const Closed& linear() const { return linear_; }
  std::span<const std::size_t> wrt() const { return linearization_.wrt; }
  /// Has the output a tangent?
  bool active(std::size_t output) const { return linearization_.tangent_of_output[output].has_value(); }

 private:
  friend class Point;
  Linearization linearization_;
  Graph forward_;  // outputs: f's, then residuals
  Closed linear_, transposed_, twice_;
  std::string refusal_;
  std::vector<std::optional<std::size_t>> cotangent_of_wrt_;  // position among transposed_'s outputs
  std::vector<std::optional<std::size_t>>
      twice_of_seed_;  // by output of linear_: position among twice_'s outputs
};

/// The derivatives at one point.
class Point {
 public:
  Point(const Derived& derived, std::span<const Tensor> inputs, const Executor& executor);
  const Derived& derived() const { return derived_; }
  const Tensors& inputs() const { return inputs_; }
  const Tensors& outputs() const { return outputs_; }
  /// By output of f, from a tangent for each input in wrt.
  MaybeTensors jvp(const Tensors& tangents) const;
  /// By input in wrt, from a cotangent for each output of f that is active; others are ignored.
  MaybeTensors vjp(const MaybeTensors& cotangents) const;
  /// The transpose of the transpose: as jvp.
  MaybeTensors twice_transposed(const Tensors& tangents) const;
  /// Are all outputs and residuals?
  bool all_finite() const;
  /// A random cotangent for each active output.
  MaybeTensors random_cotangents(Random& random) const;
  Tensors random_tangents(Random& random) const;
  /// Outputs of `closed` on `arguments`, its externals being residuals or values of f at this point.
  Tensors run(const Closed& closed, std::span<const Tensor> arguments) const;
  /// The tensors for the inputs of `closed`.
  Tensors inputs_of(const Closed& closed, std::span<const Tensor> arguments) const;
  /// The residual with that key.
  const Tensor& value(const ValueKey& key) const { return values_.at(key); }

 private:
  const Derived& derived_;
  const Executor& executor_;
  Tensors inputs_, outputs_;
  std::unordered_map<ValueKey, Tensor> values_;
};

/// Did a transpose rule that exists throw, so that a graph has no reverse mode?
bool is_refused_transpose(const Error& error, const PrimitiveSet& primitives);

/// One operation of a graph as a graph of its own: an input "operand.i" for each operand.
Graph single_operation(const Graph& graph, std::uint32_t operation);
/// The values of all inputs and results of `graph` at a point, by value id.
Tensors all_values(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor);

}  // namespace tidu::check
