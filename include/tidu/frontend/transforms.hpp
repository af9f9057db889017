// transforms.hpp - derivatives of functions of Arrays: grad, value_and_grad, vjp, jvp, hvp, jacrev, jacfwd,
// hessian. (vmap is in vmap.hpp.) They return functions of Arrays again, so they nest to any order.
//
// grad, value_and_grad, vjp and hvp run the function once and use the tape. jvp, jacfwd, jacrev, hessian and
// vmap trace it and transform the graph, so it must not read data (item(), tensor()). Arrays that a function
// captures keep their meaning: if they require a gradient, so do the results.
//
// Arguments are Arrays, floating numbers, vectors of Arrays, or any other type, which is passed on unchanged.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/frontend/tree.hpp"
#include "tidu/frontend/vmap.hpp"
#include "tidu/linearize/transforms.hpp"

namespace tidu {

namespace frontend_detail {

struct ValueAndGradients {
  std::vector<Array> outputs;
  std::vector<Array> gradients;
};
/// Gradients of the first output by the arguments at `wrt`.
ValueAndGradients value_and_gradients(const FlatFunction& f, const std::vector<Array>& arguments,
                                      const std::vector<std::size_t>& wrt, const char* name, Where where);

/// From cotangents of all outputs (those of integers are not read) to those of all arguments.
using FlatPullback = std::function<std::vector<Array>(const std::vector<Array>&)>;
/// `kept`: f, to be called later, where cotangents are traced; empty for one that cannot be copied.
std::pair<std::vector<Array>, FlatPullback> vjp_flat(const FlatFunction& f, FlatFunction kept,
                                                     const std::vector<Array>& arguments, Where where);
/// Outputs and their tangents.
std::pair<std::vector<Array>, std::vector<Array>> jvp_flat(const FlatFunction& f,
                                                           const std::vector<Array>& arguments,
                                                           const std::vector<Array>& tangents, Where where);
std::vector<Array> hvp_flat(const FlatFunction& f, const std::vector<Array>& arguments,
                            const std::vector<Array>& tangents, Where where);
enum class Jacobian { forward, reverse, hessian };
/// One Array for each output and each argument at `wrt`; for the Hessian one for each pair of arguments.
std::vector<Array> jacobian_flat(Jacobian kind, const FlatFunction& f, const std::vector<Array>& arguments,
                                 const std::vector<std::size_t>& wrt, Where where);
/// Which arguments, and whether one was meant (by an int) or a list.
struct Argnums {
  std::vector<int> positions;
  bool one;
  /// Positions in the flat list. Throws Error (invalid_argument) for an argument that there is not.
  std::vector<std::size_t> in(const std::vector<std::size_t>& offsets, const char* name, Where where) const;
  /// The one that is meant, of arguments that are of one type. To be called after in(), which checks.
  template <class First, class... Rest>
  const First& of(const std::tuple<First, Rest...>& arguments) const {
    const auto pointers = std::apply([](const auto&... items) { return std::array{&items...}; }, arguments);
    const int position = positions[0];
    return *pointers[static_cast<std::size_t>(position < 0 ? position + static_cast<int>(pointers.size())
                                                           : position)];
  }
};

template <class... Ts>
inline constexpr bool all_arrays = (std::is_same_v<Ts, Array> && ...);

}  // namespace frontend_detail

/// grad(f) or value_and_grad(f): call it as f.
template <class F, bool WithValue>
class GradientFunction {
 public:
  /// See grad and value_and_grad.
  GradientFunction(F f, frontend_detail::Argnums argnums, Where where)
      : f_(std::move(f)), argnums_(std::move(argnums)), where_(where) {}

  /// Assigns the results of f to `result`, and returns the gradients. For the derived classes.
  template <class... Args>
  std::vector<Array> gradients(
      std::optional<std::decay_t<std::invoke_result_t<const F&, const Args&...>>>& result,
      const std::tuple<Args...>& arguments) const {
    const char* const name = WithValue ? "value_and_grad" : "grad";
    auto computed = frontend_detail::value_and_gradients(
        frontend_detail::flat_function(f_, arguments, result), frontend_detail::arrays_of(arguments),
        argnums_.in(frontend_detail::offsets(arguments), name, where_), name, where_);
    frontend_detail::replace_arrays(*result, computed.outputs);
    return std::move(computed.gradients);
  }

 protected:
  /// The gradients alone, or with f's value.
  template <class Value, class Gradients>
  static auto answer(std::optional<Value>& value, Gradients gradients) {
    if constexpr (WithValue) {
      return std::pair<Value, Gradients>(std::move(*value), std::move(gradients));
    } else {
      return gradients;
    }
  }

  F f_;                               ///< the function
  frontend_detail::Argnums argnums_;  ///< by which arguments
  Where where_;                       ///< where grad was called
};

/// With respect to arguments that are known at compile time. For one argument the gradient has its structure;
/// for several it is a tuple.
template <class F, bool WithValue, int... argnums>
class FormedGradient : public GradientFunction<F, WithValue> {
 public:
  /// See grad and value_and_grad.
  FormedGradient(F f, Where where)
      : GradientFunction<F, WithValue>(std::move(f), {{argnums...}, sizeof...(argnums) == 1}, where) {}

  /// The gradient, or the result of f and the gradient.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using frontend_detail::Argument;
    static_assert(((argnums >= 0 && argnums < static_cast<int>(sizeof...(Args))) && ...),
                  "grad by an argument that f is not given: argnums are counted from 0");
    using Arguments = std::tuple<Argument<Args>...>;
    const Arguments arguments(args...);
    std::optional<frontend_detail::ResultOf<F, Argument<Args>...>> value;
    const std::vector<Array> flat = this->gradients(value, arguments);
    std::tuple<std::tuple_element_t<argnums, Arguments>...> gradients(std::get<argnums>(arguments)...);
    frontend_detail::replace_arrays(gradients, flat);
    if constexpr (sizeof...(argnums) == 1) {
      return this->answer(value, std::get<0>(std::move(gradients)));
    } else {
      return this->answer(value, std::move(gradients));
    }
  }
};

/// With respect to arguments that are known at run time. For one (an int) the gradient has the argument's
/// structure if all arguments are of one type, Arrays for example. Otherwise, and for a list, it is a vector
/// of Arrays.
template <class F, bool WithValue, bool One>
class Gradient : public GradientFunction<F, WithValue> {
 public:
  using GradientFunction<F, WithValue>::GradientFunction;

  /// The gradients, or the result of f and the gradients.
  template <class First, class... Args>
  auto operator()(const First& first, const Args&... args) const {
    using frontend_detail::Argument;
    const std::tuple<Argument<First>, Argument<Args>...> arguments(first, args...);
    std::optional<frontend_detail::ResultOf<F, Argument<First>, Argument<Args>...>> value;
    std::vector<Array> gradients = this->gradients(value, arguments);
    if constexpr (One && (std::is_same_v<Argument<First>, Argument<Args>> && ...)) {
      return this->answer(value, frontend_detail::in_form_of(this->argnums_.of(arguments), gradients));
    } else {
      return this->answer(value, std::move(gradients));
    }
  }
};

/// The gradient of f with respect to its first argument; the (first) result of f is a floating scalar. The
/// gradient has the argument's structure: an Array, or a structure of Arrays. Members that are no Arrays are
/// unchanged. The gradient of an Array on which the result does not depend is zeros. Throws Error
/// (invalid_argument, type) for another result or an integer argument, and the exceptions of f.
template <frontend_detail::FunctionOfArrays F>
FormedGradient<std::decay_t<F>, false, 0> grad(F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), where};
}
/// grad<1>(f): by another argument. grad<0, 2>(f): by several, as a tuple.
template <int first, int... more, frontend_detail::FunctionOfArrays F>
FormedGradient<std::decay_t<F>, false, first, more...> grad(F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), where};
}
/// By an argument that is chosen at run time, counted from the end where negative: its gradient has its form
/// where all arguments are of one type, and is a vector of Arrays where they are not.
template <frontend_detail::FunctionOfArrays F>
Gradient<std::decay_t<F>, false, true> grad(F&& f, int argnum, Where where = Where::current()) {
  return {std::forward<F>(f), frontend_detail::Argnums{{argnum}, true}, where};
}
/// The same by several arguments: a vector of the gradients of all Arrays in them.
template <frontend_detail::FunctionOfArrays F>
Gradient<std::decay_t<F>, false, false> grad(F&& f, std::initializer_list<int> argnums,
                                             Where where = Where::current()) {
  return {std::forward<F>(f), frontend_detail::Argnums{argnums, false}, where};
}
template <frontend_detail::FunctionOfArrays F>
Gradient<std::decay_t<F>, false, false> grad(F&& f, const std::vector<int>& argnums,
                                             Where where = Where::current()) {
  return {std::forward<F>(f), frontend_detail::Argnums{argnums, false}, where};
}

/// The same with the result of f: auto [value, gradient] = value_and_grad(f)(w, x). f may return a pair or
/// tuple; its first Array is differentiated.
template <frontend_detail::FunctionOfArrays F>
FormedGradient<std::decay_t<F>, true, 0> value_and_grad(F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), where};
}
/// By another argument, or by several: auto [value, gradients] = value_and_grad<0, 1>(f)(w, b, x).
template <int first, int... more, frontend_detail::FunctionOfArrays F>
FormedGradient<std::decay_t<F>, true, first, more...> value_and_grad(F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), where};
}
/// By an argument that is chosen at run time: see grad.
template <frontend_detail::FunctionOfArrays F>
Gradient<std::decay_t<F>, true, true> value_and_grad(F&& f, int argnum, Where where = Where::current()) {
  return {std::forward<F>(f), frontend_detail::Argnums{{argnum}, true}, where};
}
/// The same by several arguments: a vector of the gradients of all Arrays in them.
template <frontend_detail::FunctionOfArrays F>
Gradient<std::decay_t<F>, true, false> value_and_grad(F&& f, std::initializer_list<int> argnums,
                                                      Where where = Where::current()) {
  return {std::forward<F>(f), frontend_detail::Argnums{argnums, false}, where};
}
template <frontend_detail::FunctionOfArrays F>
Gradient<std::decay_t<F>, true, false> value_and_grad(F&& f, const std::vector<int>& argnums,
                                                      Where where = Where::current()) {
  return {std::forward<F>(f), frontend_detail::Argnums{argnums, false}, where};
}

/// The pullback of f: takes the cotangent of f's result (of the same structure), and returns the cotangents
/// of its arguments. It may be called any number of times. For one argument it returns the argument's
/// structure, for several Arrays a vector, for others a tuple of the arguments' structures; members that are
/// no Arrays are unchanged. It may be mapped and compiled: vmap(pullback)(eye(n)). On traced cotangents it
/// traces a copy of f: objects that f refers to must still exist, are read as they are then, and f must not
/// read data. It throws Error (invalid_argument) if f cannot be copied, and Error (tape) if an argument or an
/// Array that f read was changed in place meanwhile.
template <class Out, class... Args>
class VjpPullback {
 public:
  /// For vjp.
  VjpPullback(frontend_detail::FlatPullback apply, std::tuple<Args...> forms)
      : apply_(std::move(apply)), forms_(std::move(forms)) {}
  /// The cotangents of the arguments.
  auto operator()(const frontend_detail::Argument<Out>& cotangent) const {
    std::vector<Array> result = apply_(frontend_detail::arrays_of(cotangent));
    if constexpr (sizeof...(Args) == 1) {
      return frontend_detail::in_form_of(std::get<0>(forms_), result);
    } else if constexpr (frontend_detail::all_arrays<Args...>) {
      return result;
    } else {
      return frontend_detail::in_form_of(forms_, result);
    }
  }

 private:
  frontend_detail::FlatPullback apply_;
  std::tuple<Args...> forms_;  ///< the arguments, without their data
};

/// auto [y, pullback] = vjp(f, x); auto ct_x = pullback(ct_y).
template <frontend_detail::FunctionOfArrays F, class... Args>
requires(
    sizeof...(Args) > 0 &&
    std::is_invocable_v<const F&, const frontend_detail::Argument<Args>&...>) auto vjp(const F& f,
                                                                                       const Args&... args) {
  using frontend_detail::Argument;
  const std::tuple<Argument<Args>...> arguments(args...);
  using Out = std::decay_t<std::invoke_result_t<const F&, const Argument<Args>&...>>;
  using FormedPullback = VjpPullback<Out, Argument<Args>...>;
  std::optional<Out> result;
  const std::vector<Array> arrays = frontend_detail::arrays_of(arguments);
  const frontend_detail::FlatFunction flat = frontend_detail::flat_function(f, arguments, result);
  std::tuple<Argument<Args>...> forms = arguments;
  frontend_detail::visit_arrays(forms, [](Array& array) { array = Array(); });
  auto [outputs, pullback] =
      frontend_detail::vjp_flat(flat, frontend_detail::kept_function(f, forms), arrays, {});
  frontend_detail::replace_arrays(*result, outputs);
  return std::pair<Out, FormedPullback>(std::move(*result),
                                        FormedPullback(std::move(pullback), std::move(forms)));
}

namespace frontend_detail {
/// x as a tuple of arguments: a tuple is one already.
template <class T>
auto as_arguments(const T& x) {
  if constexpr (is_product<T>) {
    return x;
  } else {
    return std::tuple<Argument<T>>(x);
  }
}
}  // namespace frontend_detail

/// f's result and its tangent. x is f's one argument or a tuple of all, and `tangent` has its structure.
template <frontend_detail::FunctionOfArrays F, class X>
auto jvp(const F& f, const X& x, const X& tangent, Where where = Where::current()) {
  const auto arguments = frontend_detail::as_arguments(x);
  using Out = std::decay_t<decltype(std::apply(f, arguments))>;
  std::optional<Out> result;
  auto [outputs, tangents] = frontend_detail::jvp_flat(
      frontend_detail::flat_function(f, arguments, result), frontend_detail::arrays_of(arguments),
      frontend_detail::arrays_of(frontend_detail::as_arguments(tangent)), where);
  Out tangent_result = *result;
  frontend_detail::replace_arrays(*result, outputs);
  frontend_detail::replace_arrays(tangent_result, tangents);
  return std::pair<Out, Out>(std::move(*result), std::move(tangent_result));
}

/// The product of the Hessian of f, a scalar, at x with v: reverse over reverse. x is f's one argument or a
/// tuple of all; v and the result have its structure.
template <frontend_detail::FunctionOfArrays F, class X>
frontend_detail::Argument<X> hvp(const F& f, const X& x, const X& v, Where where = Where::current()) {
  const auto arguments = frontend_detail::as_arguments(x);
  using Out = std::decay_t<decltype(std::apply(f, arguments))>;
  std::optional<Out> result;
  const std::vector<Array> products = frontend_detail::hvp_flat(
      frontend_detail::flat_function(f, arguments, result), frontend_detail::arrays_of(arguments),
      frontend_detail::arrays_of(frontend_detail::as_arguments(v)), where);
  frontend_detail::Argument<X> structure(x);
  frontend_detail::replace_arrays(structure, products);
  return structure;
}

/// jacrev(f), jacfwd(f), hessian(f): call it as f. With an `argnum`, or by one that is chosen at run time.
template <class F, frontend_detail::Jacobian kind, int... argnum>
class JacobianFunction {
 public:
  /// See jacrev, jacfwd, hessian.
  JacobianFunction(F f, int position, Where where)
      : f_(std::move(f)), argnums_{{position}, true}, where_(where) {}

  /// The Jacobian or Hessian at these arguments.
  template <class First, class... Args>
  auto operator()(const First& first, const Args&... args) const {
    using frontend_detail::Argument;
    using frontend_detail::Jacobian;
    static_assert(((argnum >= 0 && argnum <= static_cast<int>(sizeof...(Args))) && ...),
                  "the Jacobian by an argument that f is not given: argnums are counted from 0");
    const std::tuple<Argument<First>, Argument<Args>...> arguments(first, args...);
    using Out = frontend_detail::ResultOf<F, Argument<First>, Argument<Args>...>;
    std::optional<Out> result;
    const std::vector<Array> blocks = frontend_detail::jacobian_flat(
        kind, frontend_detail::flat_function(f_, arguments, result), frontend_detail::arrays_of(arguments),
        argnums_.in(frontend_detail::offsets(arguments), "jacobian", where_), where_);
    if constexpr (sizeof...(argnum) == 1) {
      return formed(std::get<argnum...>(arguments), *result, blocks);
    } else if constexpr ((std::is_same_v<Argument<First>, Argument<Args>> && ...)) {
      return formed(argnums_.of(arguments), *result, blocks);
    } else {
      return blocks;
    }
  }

 private:
  template <class Argument, class Out>
  static auto formed(const Argument& argument, const Out& result, const std::vector<Array>& blocks) {
    if constexpr (kind == frontend_detail::Jacobian::hessian && std::is_same_v<Argument, Array>) {
      return Array(blocks[0]);
    } else if constexpr (kind != frontend_detail::Jacobian::hessian && std::is_same_v<Out, Array>) {
      return frontend_detail::in_form_of(argument, blocks);
    } else if constexpr (kind != frontend_detail::Jacobian::hessian && std::is_same_v<Argument, Array>) {
      return frontend_detail::in_form_of(result, blocks);
    } else {
      return blocks;
    }
  }

  F f_;
  frontend_detail::Argnums argnums_;
  Where where_;
};

/// The Jacobian of f with respect to its first argument, of shape result + argument. jacrev takes one
/// backward pass per element of the result, jacfwd one forward pass per element of the argument, all passes
/// at once. If f returns an Array, the Jacobian has the argument's structure. If the argument is an Array, it
/// has the result's structure. Otherwise it is a vector, by Array of the result and then of the argument.
/// Throws Error (invalid_argument) for complex Arrays.
template <frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::reverse, 0> jacrev(
    F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), 0, where};
}
/// jacrev<1>(f): by another argument.
template <int argnum, frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::reverse, argnum> jacrev(
    F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), argnum, where};
}
/// By an argument that is chosen at run time, counted from the end where negative: a vector where arguments
/// are of several types.
template <frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::reverse> jacrev(F&& f, int argnum,
                                                                             Where where = Where::current()) {
  return {std::forward<F>(f), argnum, where};
}
/// See jacrev.
template <frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::forward, 0> jacfwd(
    F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), 0, where};
}
/// See jacrev.
template <int argnum, frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::forward, argnum> jacfwd(
    F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), argnum, where};
}
/// See jacrev.
template <frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::forward> jacfwd(F&& f, int argnum,
                                                                             Where where = Where::current()) {
  return {std::forward<F>(f), argnum, where};
}
/// The second derivatives of f, a floating scalar, of shape argument + argument; by an argument that is no
/// Array a vector, for each Array of it by each.
template <frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::hessian, 0> hessian(
    F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), 0, where};
}
/// hessian<1>(f): by another argument.
template <int argnum, frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::hessian, argnum> hessian(
    F&& f, Where where = Where::current()) {
  return {std::forward<F>(f), argnum, where};
}
/// By an argument that is chosen at run time: see jacrev.
template <frontend_detail::FunctionOfArrays F>
JacobianFunction<std::decay_t<F>, frontend_detail::Jacobian::hessian> hessian(
    F&& f, int argnum, Where where = Where::current()) {
  return {std::forward<F>(f), argnum, where};
}

}  // namespace tidu
