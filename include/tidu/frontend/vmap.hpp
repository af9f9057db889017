// vmap.hpp - functions of Arrays mapped over examples. The function is traced for one example and its graph
// is batched, so it must not read data (item(), tensor()). Arguments and results are those of the transforms.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/frontend/tree.hpp"

namespace tidu {

/// Along which axis each argument of vmap has the examples, counted from the end where negative; nothing for
/// one that is the same for all examples. A number is the axis of all arguments; left out: 0.
class InAxes {
 public:
  InAxes() = default;
  /// The axis of all arguments.
  InAxes(int axis) : axes_{axis}, for_all_(true) {}
  /// By argument.
  InAxes(std::initializer_list<std::optional<int>> axes) : axes_(axes) {}
  /// By argument.
  InAxes(std::vector<std::optional<int>> axes) : axes_(std::move(axes)) {}
  /// By argument; if for_all(), one for all; if empty, axis 0 for all.
  const std::vector<std::optional<int>>& axes() const { return axes_; }
  /// Is one axis that of all arguments?
  bool for_all() const { return for_all_; }

 private:
  std::vector<std::optional<int>> axes_;
  bool for_all_ = false;
};

/// Along which axis results of vmap have the examples: one for each item of a pair or tuple, or one for all;
/// left out: 0.
class OutAxes {
 public:
  OutAxes() = default;
  /// The axis of all results.
  OutAxes(int axis) : axes_{axis} {}
  /// By item of the result.
  OutAxes(std::initializer_list<int> axes) : axes_(axes) {}
  /// By item of the result.
  OutAxes(std::vector<int> axes) : axes_(std::move(axes)) {}
  /// By item; one for all, or none: axis 0.
  const std::vector<int>& axes() const { return axes_; }

 private:
  std::vector<int> axes_;
};

namespace frontend_detail {

/// By Array: the axes of the arguments that hold them. Throws Error (invalid_argument) for another number of
/// them than there are arguments.
std::vector<std::optional<int>> axes_of_arguments(const InAxes& in_axes,
                                                  const std::vector<std::size_t>& offsets, Where where);
/// f mapped over these axes of the Arrays among its arguments; those without one are whole for all.
std::vector<Array> vmap_flat(const FlatFunction& f, const std::vector<Array>& arguments,
                             const std::vector<std::optional<int>>& axes, Where where);

/// The examples from axis 0 to these of the results, of which item i has the Arrays from offsets[i] on.
/// Throws Error (invalid_argument) for another number of them and for axes that are not there.
void move_examples(std::vector<Array>& outputs, const std::vector<int>& out_axes,
                   const std::vector<std::size_t>& offsets, Where where);

/// The index of the first Array of each item (of the whole, if it is no pair or tuple), and the number of
/// items.
template <class Out>
std::vector<std::size_t> offsets_of_results(const Out& result) {
  if constexpr (is_product<Out>) {
    return std::apply([](const auto&... items) { return offsets(std::tie(items...)); }, result);
  } else {
    return {0, arrays_of(result).size()};
  }
}

}  // namespace frontend_detail

/// vmap(f): call it as f, on Arrays that have an axis more.
template <class F>
class Vmap {
 public:
  /// See vmap.
  Vmap(F f, InAxes in_axes, OutAxes out_axes, Where where)
      : f_(std::move(f)), in_axes_(std::move(in_axes)), out_axes_(std::move(out_axes)), where_(where) {}

  /// The results of f for all examples.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using frontend_detail::Argument;
    const std::tuple<Argument<Args>...> arguments(args...);
    using Out = frontend_detail::ResultOf<F, Argument<Args>...>;
    std::optional<Out> result;
    std::vector<Array> outputs = frontend_detail::vmap_flat(
        frontend_detail::flat_function(f_, arguments, result), frontend_detail::arrays_of(arguments),
        frontend_detail::axes_of_arguments(in_axes_, frontend_detail::offsets(arguments), where_), where_);
    if (!out_axes_.axes().empty())
      frontend_detail::move_examples(outputs, out_axes_.axes(), frontend_detail::offsets_of_results(*result),
                                     where_);
    frontend_detail::replace_arrays(*result, outputs);
    return Out(std::move(*result));
  }

 private:
  F f_;
  InAxes in_axes_;
  OutAxes out_axes_;
  Where where_;
};

/// f for all examples at once, written for one. in_axes has, for each argument, the axis along which the
/// examples lie (from the end if negative), or nothing for an argument that all examples share. A number is
/// the axis of all arguments, as in vmap(f, 1, 0); the default is axis 0 for all. All Arrays of a vector have
/// one axis. out_axes has the axis for each item of the pair or tuple that f returns, or one for all; the
/// default is axis 0. For example, vmap(grad(loss), {std::nullopt, 0, 0})(w, xs, ys) computes a gradient for
/// each example. The call throws Error (invalid_argument) for axes that do not exist or differ in extent, and
/// if no argument has an axis; Error (ad_rule) for a primitive without a batch rule; and the exceptions of f.
template <frontend_detail::FunctionOfArrays F>
Vmap<std::decay_t<F>> vmap(F&& f, InAxes in_axes = {}, OutAxes out_axes = {},
                           Where where = Where::current()) {
  return {std::forward<F>(f), std::move(in_axes), std::move(out_axes), where};
}

}  // namespace tidu
