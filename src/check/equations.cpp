// equations.cpp - see equations.hpp.
#include "check/equations.hpp"

#include <algorithm>
#include <numeric>

#include "check/culprit.hpp"
#include "check/terms.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::check {
namespace {

bool is_root(const Operation& operation) { return operation.name() == prim::custom_root.name; }

std::string graph_text(std::string_view attribute, const Graph& graph) {
  return detail::str("its graph ", attribute, " (", detail::in_quotes(graph.name()), ')');
}

// The residual of the equation at the result.
double error_at_result(const Subject& one, const Executor& executor) {
  const Operation operation = one.graph.operation(0);
  const Subject equation = equation_of(one, executor).subject;
  const Tensors values = executor.run(equation.graph, equation.inputs);
  const std::size_t num_consts = one.inputs.size() - values.size();
  double worst = 0.0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const bool root = is_root(operation);
    const Tensor wanted = root ? Tensor::zeros(values[k].type()) : one.inputs[num_consts + k];
    const double terms = magnitude_of_terms(equation.graph, equation.inputs, k, executor);
    worst = std::max(worst, relative_error(values[k], wanted, terms));
  }
  return worst;
}

// The graph that gives a derivative, and the equation that it has to solve.
std::optional<std::string> derivative_fault(const Op& op, bool root, bool transposed) {
  const std::string_view equation = root ? "residual" : "matvec";
  const std::string of = graph_text(equation, op.graph(equation));
  const auto named = [&](std::string_view attribute, const Graph& graph) {
    return detail::str(graph_text(attribute, graph), " does not solve the ", transposed ? "transposed " : "",
                       root ? "linearized equation of " : "system of ", of,
                       transposed ? " for cotangents" : " for tangents");
  };
  const std::string_view list = !root        ? "transpose_solve"
                                : transposed ? "transpose_tangent_solve"
                                             : "tangent_solve";
  if (root || transposed) {
    if (const std::vector<Graph> graphs = op.graphs(list); !graphs.empty()) return named(list, graphs[0]);
  }
  if (root) return std::nullopt;  // by the dense Jacobian
  return named("solve", op.graph("solve")) + (transposed ? ", of which symmetric says that it does" : "");
}

}  // namespace

bool solves_equation(const Operation& operation) {
  return operation.name() == prim::custom_linear_solve.name || is_root(operation);
}

Execution equation_of(const Subject& one, const Executor& executor) {
  const Operation operation = one.graph.operation(0);
  const std::string_view name = is_root(operation) ? "residual" : "matvec";
  const auto num_consts = static_cast<std::size_t>(operation.op().integer("num_consts"));
  const Tensors results = executor.run(one.graph, one.inputs);
  Execution equation{{operation.op().graph(name), {}, one.inputs},
                     detail::str("the ", name, " of ", operation.name())};
  Subject& subject = equation.subject;
  std::copy(results.begin(), results.end(), subject.inputs.begin() + static_cast<std::ptrdiff_t>(num_consts));
  for (const std::size_t i : one.wrt)
    if (i < num_consts) subject.wrt.push_back(i);
  for (std::size_t i = num_consts; i < subject.inputs.size(); ++i) subject.wrt.push_back(i);
  return equation;
}

std::optional<std::string> equation_fault(const Subject& one, CheckKind kind, const Executor& executor,
                                          const CheckOptions& options) {
  const Operation operation = one.graph.operation(0);
  if (kind == CheckKind::batch) return std::nullopt;
  const bool root = is_root(operation);
  const std::string_view name = root ? "residual" : "matvec";
  const double error = error_at_result(one, executor);
  if (!(error <= difference_tolerance(one.graph, options, true))) {
    return detail::str(graph_text("solve", operation.op().graph("solve")), " does not solve ",
                       graph_text(name, operation.op().graph(name)), ": relative error ", figure(error));
  }
  const bool transposed = kind == CheckKind::transpose || kind == CheckKind::twice_transposed;
  return derivative_fault(operation.op(), root, transposed);
}

}  // namespace tidu::check
