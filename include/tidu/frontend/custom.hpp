// custom.hpp - functions of Arrays with derivatives of the user's own, and functions whose derivative
// computes anew what it reads: custom_jvp, custom_vjp, checkpoint. Called like the function, which they trace
// at each call (put compile() around them to trace once). Arguments and results are Arrays, of floating or
// complex dtype for the first two, or vectors and tuples of such. Other Arrays that the functions use count
// as they are for checkpoint, as if they were arguments; for the first two they are constants, and refused
// where they require a gradient or are traced.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/frontend/trace.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu {

namespace frontend_detail {

/// One operation on these Arrays, made by `emit` in a graph of its own and recorded as one node.
std::vector<Array> call_custom_jvp(const Graph& graph, const Graph& jvp, const std::vector<Array>& arguments,
                                   Where where);
std::vector<Array> call_custom_vjp(const Graph& graph, const Graph& forward, const Graph& backward,
                                   const std::vector<Array>& arguments, Where where);
std::vector<Array> call_checkpoint(const Graph& graph, const CheckpointPolicy& policy,
                                   const std::vector<Array>& arguments, Where where);

/// f of the tuple's items, traced; what it returned is kept in `result`.
template <class F, class Arguments, class Result>
Traced trace_items(const F& f, const Arguments& arguments, std::optional<Result>& result,
                   const std::string& name, Where where) {
  const std::vector<Array> flat = arrays_of(arguments);
  require_arrays(flat, name, where);
  return trace_flat(flat_function(f, arguments, result), flat, name, where);
}

/// The graph of a function given to `custom`, with the data that it uses as constants. Refuses other Arrays.
Graph close_rule(const Traced& traced, std::string_view custom, Where where);
template <class F, class Arguments, class Result>
Graph trace_rule(std::string_view custom, const F& f, const Arguments& arguments,
                 std::optional<Result>& result, const std::string& name, Where where) {
  return close_rule(trace_items(f, arguments, result, name, where), custom, where);
}

}  // namespace frontend_detail

/// What custom_jvp returns.
template <class F, class Jvp>
class CustomJvp {
 public:
  /// See custom_jvp.
  CustomJvp(F f, Jvp rule, Where where) : f_(std::move(f)), jvp_(std::move(rule)), where_(where) {}

  /// f of these arguments, recorded with its rule.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using namespace frontend_detail;
    const std::tuple<Argument<Args>...> arguments(args...);
    using Out = std::decay_t<decltype(std::apply(f_, arguments))>;
    std::optional<Out> result;
    const Graph graph = trace_rule("custom_jvp", f_, arguments, result, "function", where_);
    const auto both = std::tuple_cat(arguments, arguments);
    using Rule = std::decay_t<decltype(std::apply(jvp_, both))>;
    std::optional<Rule> rule_result;
    const Graph rule = trace_rule("custom_jvp", jvp_, both, rule_result, "jvp", where_);
    replace_arrays(*result, call_custom_jvp(graph, rule, arrays_of(arguments), where_));
    return std::move(*result);
  }

 private:
  F f_;
  Jvp jvp_;
  Where where_;
};

/// f with the JVP `rule`: rule(primals..., tangents...) returns a pair of f's result and its tangent, and is
/// linear in the tangents. See ops::custom_jvp_call. Throws what tracing throws; Error (type) where rule does
/// not fit f; Error (invalid_argument) where f or rule uses an Array that requires a gradient (but under
/// no_grad) or is traced, and is no argument. Data that changes from call to call belongs in an argument:
/// what f and rule capture becomes part of their graphs, of which each is derived, compiled and kept by
/// itself, up to a number of graphs and not of bytes.
template <class F, class Jvp>
CustomJvp<std::decay_t<F>, std::decay_t<Jvp>> custom_jvp(F&& f, Jvp&& rule, Where where = Where::current()) {
  return {std::forward<F>(f), std::forward<Jvp>(rule), where};
}

/// What custom_vjp returns.
template <class F, class Forward, class Backward>
class CustomVjp {
 public:
  /// See custom_vjp.
  CustomVjp(F f, Forward forward, Backward backward, Where where)
      : f_(std::move(f)), forward_(std::move(forward)), backward_(std::move(backward)), where_(where) {}

  /// f of these arguments, recorded with its rule.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using namespace frontend_detail;
    const std::tuple<Argument<Args>...> arguments(args...);
    using Out = std::decay_t<decltype(std::apply(f_, arguments))>;
    std::optional<Out> result;
    const Graph graph = trace_rule("custom_vjp", f_, arguments, result, "function", where_);
    using Pair = std::decay_t<decltype(std::apply(forward_, arguments))>;
    std::optional<Pair> kept;
    const Graph forward = trace_rule("custom_vjp", forward_, arguments, kept, "forward", where_);
    const std::tuple<std::decay_t<decltype(kept->second)>, Out> given(kept->second, *result);
    using Cotangents = std::decay_t<decltype(std::apply(backward_, given))>;
    std::optional<Cotangents> cotangents;
    const Graph backward = trace_rule("custom_vjp", backward_, given, cotangents, "backward", where_);
    replace_arrays(*result, call_custom_vjp(graph, forward, backward, arrays_of(arguments), where_));
    return std::move(*result);
  }

 private:
  F f_;
  Forward forward_;
  Backward backward_;
  Where where_;
};

/// f whose reverse mode is the user's: forward(arguments...) returns a pair of f's result and the residuals,
/// backward(residuals, cotangent) the cotangents of the arguments (an Array, or a tuple or vector of Arrays).
/// See ops::custom_vjp_call. Where backward is not f's derivative (a straight-through estimator) derivatives
/// of second order tell how they were taken: on the tape (hvp, grad of grad) f's result counts as what
/// backward differentiates, as in PyTorch; in graphs (hessian, compile) as what forward computes, as in JAX.
/// In a traced function two calls on the same Arrays are one, so that a backward which is not linear sees the
/// sum of their cotangents. Data that changes is an argument or a residual, and no capture: see custom_jvp.
/// Throws as custom_jvp.
template <class F, class Forward, class Backward>
CustomVjp<std::decay_t<F>, std::decay_t<Forward>, std::decay_t<Backward>> custom_vjp(
    F&& f, Forward&& forward, Backward&& backward, Where where = Where::current()) {
  return {std::forward<F>(f), std::forward<Forward>(forward), std::forward<Backward>(backward), where};
}

/// What checkpoint returns.
template <class F>
class Checkpointed {
 public:
  /// See checkpoint.
  Checkpointed(F f, CheckpointPolicy policy, Where where)
      : f_(std::move(f)), policy_(std::move(policy)), where_(where) {}

  /// f of these arguments.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using namespace frontend_detail;
    const std::tuple<Argument<Args>...> arguments(args...);
    using Out = std::decay_t<decltype(std::apply(f_, arguments))>;
    std::optional<Out> result;
    const Traced traced = trace_items(f_, arguments, result, "function", where_);
    std::vector<Array> operands = arrays_of(arguments);
    operands.insert(operands.end(), traced.captured.begin(), traced.captured.end());
    replace_arrays(*result, call_checkpoint(traced.graph, policy_, operands, where_));
    return std::move(*result);
  }

 private:
  F f_;
  CheckpointPolicy policy_;
  Where where_;
};

/// f, of whose intermediate values its derivative keeps what `policy` says and computes the others anew. What
/// f uses beside its arguments is kept, and has its derivative. See ops::checkpoint.
template <class F>
Checkpointed<std::decay_t<F>> checkpoint(F&& f, CheckpointPolicy policy = CheckpointPolicy::nothing(),
                                         Where where = Where::current()) {
  return {std::forward<F>(f), std::move(policy), where};
}

}  // namespace tidu
