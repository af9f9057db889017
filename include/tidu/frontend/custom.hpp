// custom.hpp - functions of Arrays with derivatives of the user, custom_jvp and custom_vjp, and functions
// whose derivative rematerializes, checkpoint. They are called like the function, which they trace at each
// call (with compile() around them, once). Arguments and results are Arrays, of floating or complex dtype for
// the first two, or vectors and tuples of Arrays. Captured Arrays have derivatives in checkpoint, as if they
// were arguments. In the first two they are constants, and an error if they require a gradient or are traced.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tidu/frontend/trace.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu {

namespace frontend_detail {

/// One operation on these Arrays, made in a graph of its own and recorded as one node.
std::vector<Array> call_custom(const Primitive& primitive, Attributes attributes,
                               const std::vector<Array>& arguments, Where where);
std::vector<Array> call_checkpoint(const Graph& graph, const CheckpointPolicy& policy,
                                   const std::vector<Array>& arguments, Where where);

/// Traces f on the tuple's items; its result is kept in `result`.
template <class F, class Arguments, class Result>
Traced trace_items(const F& f, const Arguments& arguments, std::optional<Result>& result,
                   const std::string& name, Where where) {
  const std::vector<Array> flat = arrays_of(arguments);
  require_arrays(flat, name, where);
  return trace_flat(flat_function(f, arguments, result), flat, name, where);
}

/// The graph of a function given to `custom`, with captured data as constants. Throws for other captured
/// Arrays.
Graph close_rule(const Traced& traced, std::string_view custom, Where where);
template <class F, class Arguments, class Result>
Graph trace_rule(std::string_view custom, const F& f, const Arguments& arguments,
                 std::optional<Result>& result, const std::string& name, Where where) {
  return close_rule(trace_items(f, arguments, result, name, where), custom, where);
}

/// Arguments of the same form, whose Arrays have types and nothing else.
template <class Arguments>
Arguments forms_of(const Arguments& arguments) {
  std::vector<Array> flat = arrays_of(arguments);
  for (Array& array : flat) array = placeholder(array.type());
  Arguments forms = arguments;
  replace_arrays(forms, flat);
  return forms;
}

/// Which custom function it is: the one whose functions hold nothing of that type, or one of its own, which
/// its copies share.
Key128 identity_of_type(const char* type);
template <class... F>
Key128 identity_of() {
  if constexpr ((std::is_empty_v<F> && ...)) {
    return identity_of_type(typeid(std::tuple<F...>).name());
  } else {
    return detail::fresh_instance();
  }
}

/// The rules of a custom function, traced for some arguments, as attributes of these names.
using TraceRules = std::function<std::vector<Graph>()>;
/// The rules that `trace` makes. If the rule of the same function (`identity`, and `function`, its graph) is
/// being traced already on this thread, or rules nest too deep, the rules are deferred: the result of `later`
/// traces them when a derivative needs them.
Attributes rules_of(const Key128& identity, const Graph& function, const std::vector<std::string>& names,
                    const TraceRules& trace, const std::function<TraceRules()>& later);

}  // namespace frontend_detail

/// The result of custom_jvp.
template <class F, class Jvp>
class CustomJvp {
 public:
  /// See custom_jvp.
  CustomJvp(F f, Jvp rule, Where where)
      : f_(std::move(f)),
        jvp_(std::move(rule)),
        where_(where),
        identity_(frontend_detail::identity_of<F, Jvp>()) {}

  /// f of these arguments, recorded with its rule.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using namespace frontend_detail;
    const std::tuple<Argument<Args>...> arguments(args...);
    using Out = std::decay_t<decltype(std::apply(f_, arguments))>;
    std::optional<Out> result;
    Attributes attributes{{"graph", trace_rule("custom_jvp", f_, arguments, result, "function", where_)}};
    const Graph graph(*attributes[0].second.template get_if<std::shared_ptr<const GraphData>>());
    const auto later = [&]() -> TraceRules {
      return [self = *this, forms = forms_of(arguments)] { return self.trace_rules(forms); };
    };
    const Attributes rules = rules_of(
        identity_, graph, {"jvp"}, [&] { return trace_rules(arguments); }, later);
    attributes.insert(attributes.end(), rules.begin(), rules.end());
    replace_arrays(*result,
                   call_custom(prim::custom_jvp_call, std::move(attributes), arrays_of(arguments), where_));
    return std::move(*result);
  }

 private:
  template <class... Args>
  std::vector<Graph> trace_rules(const std::tuple<Args...>& arguments) const {
    using namespace frontend_detail;
    const auto both = std::tuple_cat(arguments, arguments);
    if constexpr (std::is_invocable_v<const Jvp&, const Args&..., const Args&...>) {
      using Pair = std::decay_t<decltype(std::apply(jvp_, both))>;
      std::optional<Pair> result;
      return {trace_rule("custom_jvp", jvp_, both, result, "jvp", where_)};
    } else {
      const auto given_result = [this](const Args&... primals, const Args&... tangents) {
        const auto y = f_(primals...);
        return std::pair(y, jvp_(primals..., y, tangents...));
      };
      using Pair = std::decay_t<decltype(std::apply(given_result, both))>;
      std::optional<Pair> result;
      return {trace_rule("custom_jvp", given_result, both, result, "jvp", where_)};
    }
  }

  F f_;
  Jvp jvp_;
  Where where_;
  Key128 identity_;
};

/// f with the JVP `rule`, which is linear in the tangents: rule(primals..., tangents...) returns a pair of
/// f's result and its tangent, or rule(primals..., result, tangents...) the tangent alone. The result of the
/// call has this rule as its derivative, at every order and in every mode. So the derivatives of any order
/// are right even if no step of f has a derivative, as of a root found by bisection.
///
/// A rule may call f with its rule, as returned by custom_jvp. Such a rule is traced for derivatives of
/// higher order on demand, so objects that it captures by reference have to live as long. Data that changes
/// from call to call belongs in an argument: captured data becomes part of the graphs of f and rule, and each
/// such graph is derived, compiled and cached by itself, up to a number of graphs and of bytes
/// (eager::set_cached_graph_bytes_limit, compile_cache()). See ops::custom_jvp_call. Throws the errors of
/// tracing; Error (type) if rule does not fit f; Error (invalid_argument) if f or rule captures an Array that
/// is traced, or that requires a gradient (except under no_grad).
template <class F, class Jvp>
CustomJvp<std::decay_t<F>, std::decay_t<Jvp>> custom_jvp(F&& f, Jvp&& rule, Where where = Where::current()) {
  return {std::forward<F>(f), std::forward<Jvp>(rule), where};
}

namespace frontend_detail {

/// The forward of a custom_vjp whose backward takes arguments and result.
template <class F>
struct KeepsAll {
  template <class... Args>
  auto operator()(const Args&... args) const {
    const auto y = f(args...);
    return std::pair(y, std::pair(std::tuple<Args...>(args...), y));
  }
  F f;
};
template <class Backward>
struct TakesAll {
  template <class Kept, class Cotangent>
  auto operator()(const Kept& kept, const Cotangent& cotangent) const {
    return std::apply([&](const auto&... args) { return backward(args..., kept.second, cotangent); },
                      kept.first);
  }
  Backward backward;
};

}  // namespace frontend_detail

/// The result of custom_vjp.
template <class F, class Forward, class Backward>
class CustomVjp {
 public:
  /// See custom_vjp.
  CustomVjp(F f, Forward forward, Backward backward, Where where)
      : f_(std::move(f)),
        forward_(std::move(forward)),
        backward_(std::move(backward)),
        where_(where),
        identity_(frontend_detail::identity_of<F, Forward, Backward>()) {}

  /// f of these arguments, recorded with its rule.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using namespace frontend_detail;
    const std::tuple<Argument<Args>...> arguments(args...);
    using Out = std::decay_t<decltype(std::apply(f_, arguments))>;
    std::optional<Out> result;
    Attributes attributes{{"graph", trace_rule("custom_vjp", f_, arguments, result, "function", where_)}};
    const Graph graph(*attributes[0].second.template get_if<std::shared_ptr<const GraphData>>());
    const auto later = [&]() -> TraceRules {
      return [self = *this, forms = forms_of(arguments), result = forms_of(*result)] {
        return self.trace_rules(forms, result);
      };
    };
    const Attributes rules = rules_of(
        identity_, graph, {"forward", "backward"}, [&] { return trace_rules(arguments, *result); }, later);
    attributes.insert(attributes.end(), rules.begin(), rules.end());
    replace_arrays(*result,
                   call_custom(prim::custom_vjp_call, std::move(attributes), arrays_of(arguments), where_));
    return std::move(*result);
  }

 private:
  template <class Arguments, class Out>
  std::vector<Graph> trace_rules(const Arguments& arguments, const Out& result) const {
    using namespace frontend_detail;
    using Pair = std::decay_t<decltype(std::apply(forward_, arguments))>;
    std::optional<Pair> kept;
    const Graph forward = trace_rule("custom_vjp", forward_, arguments, kept, "forward", where_);
    const std::tuple<std::decay_t<decltype(kept->second)>, Out> given(kept->second, result);
    using Cotangents = std::decay_t<decltype(std::apply(backward_, given))>;
    std::optional<Cotangents> cotangents;
    return {forward, trace_rule("custom_vjp", backward_, given, cotangents, "backward", where_)};
  }

  F f_;
  Forward forward_;
  Backward backward_;
  Where where_;
  Key128 identity_;
};

/// f whose reverse mode is the user's: forward(arguments...) returns a pair of f's result and the residuals,
/// backward(residuals, cotangent) the cotangents of the arguments (an Array, or a tuple or vector of Arrays).
/// See ops::custom_vjp_call. The result is the one of the call, with this rule as its derivative, at every
/// order and in every mode, also where forward keeps it as a residual. Backward may call f with its rule: see
/// custom_jvp. In a traced function two calls on the same Arrays are one, so that a backward which is not
/// linear sees the sum of their cotangents. Data that changes is an argument or a residual, and no capture:
/// see custom_jvp. Throws as custom_jvp.
template <class F, class Forward, class Backward>
CustomVjp<std::decay_t<F>, std::decay_t<Forward>, std::decay_t<Backward>> custom_vjp(
    F&& f, Forward&& forward, Backward&& backward, Where where = Where::current()) {
  return {std::forward<F>(f), std::forward<Forward>(forward), std::forward<Backward>(backward), where};
}
/// The same with the arguments and the result as residuals: backward(arguments..., result, cotangent).
template <class F, class Backward>
requires(!std::is_same_v<std::decay_t<Backward>, Where>) auto custom_vjp(F&& f, Backward&& backward,
                                                                         Where where = Where::current()) {
  using Forward = frontend_detail::KeepsAll<std::decay_t<F>>;
  using Taking = frontend_detail::TakesAll<std::decay_t<Backward>>;
  return CustomVjp<std::decay_t<F>, Forward, Taking>(f, Forward{f}, Taking{std::forward<Backward>(backward)},
                                                     where);
}

/// The result of checkpoint.
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

/// f with rematerialization: its derivative keeps the intermediate values that `policy` selects and
/// recomputes the others. Captured Arrays are kept, and have derivatives. See ops::checkpoint.
template <class F>
Checkpointed<std::decay_t<F>> checkpoint(F&& f, CheckpointPolicy policy = CheckpointPolicy::nothing(),
                                         Where where = Where::current()) {
  return {std::forward<F>(f), std::move(policy), where};
}

}  // namespace tidu
