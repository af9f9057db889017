// control_flow.hpp - loops and conditionals over functions of Arrays, each as one operation: scan,
// while_loop, fori_loop, cond and switch_case, as in jax.lax. The functions are traced once for each call,
// whatever the number of steps or the choice, so they must not read data. With compile() around the call they
// are traced once. Arrays that the functions capture are treated as arguments: they have gradients. All
// transforms apply, to any order, except reverse mode through a loop without a bound on its steps.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/frontend/trace.hpp"

namespace tidu {

namespace frontend_detail {

/// The checked arguments of a scan: Arrays of the types that a step gets, and the number of steps.
struct ScanCall {
  ScanCall(std::vector<Array> carries, std::vector<Array> xs, std::optional<std::int64_t> length,
           Where where);
  std::vector<Array> carries, xs;
  std::vector<Array> like;  ///< carries and slices of xs
  std::int64_t length;
};
/// Throws for a carry of another structure.
void require_same_carry(bool same, Where where, std::string_view function = "scan");
/// The last carries, then the stacked ys, of a step that gave `num_carries` Arrays as the carry.
std::vector<Array> run_scan(const ScanCall& call, const Traced& step, std::size_t num_carries, bool reverse,
                            Where where);

/// The last carries of a loop whose step gave whether to go on, of the carry it got, and the next one.
/// `counts`: the first carry is the number of the step, and is not returned.
std::vector<Array> run_while(const std::vector<Array>& carries, const Traced& step, bool counts,
                             std::optional<std::int64_t> max_steps, Where where);
/// The last carries of `length` steps, of which `first` is the first one's number, that got it and a carry.
std::vector<Array> run_fori(const std::vector<Array>& carries, const Traced& step, std::int64_t first,
                            std::int64_t length, Where where);
/// The number of steps from lower to upper, at most max_steps. Throws for numbers that i32 cannot represent.
std::int64_t fori_length(std::int64_t lower, std::int64_t upper, std::optional<std::int64_t> max_steps,
                         Where where);
/// A bound as an i64; larger ones saturate.
template <class T>
std::int64_t bound_of(T x) {
  const auto bound = static_cast<std::int64_t>(x);
  return std::is_unsigned_v<T> && bound < 0 ? std::numeric_limits<std::int64_t>::max() : bound;
}
/// Both bounds as Arrays of one integer dtype: a number takes the dtype of the other one, which has to
/// represent it.
std::pair<Array, Array> fori_bounds(const Array& lower, const Array& upper, bool lower_is_number,
                                    bool upper_is_number, Where where);

/// The index of a cond that takes the true function: a scalar bool, of a number whether it is not 0.
Array condition(const ArrayLike& predicate);
/// The index of one of `count` branches, clamped to the range.
Array branch_index(const ArrayLike& index, std::size_t count);
/// Throws for an empty list of branches.
void require_branches(std::size_t count, Where where);
/// Throws for a branch whose result differs in structure.
void require_same_result(std::string_view name, std::size_t branch, bool same, Where where);
/// The Arrays that the branch at `index` gives.
std::vector<Array> run_cond(std::string_view name, const Array& index, std::span<const Traced> branches,
                            std::span<const Array> arguments, Where where);

/// The branches of one cond, which are traced one after another, on arguments of one form.
template <class Out, class Arguments>
class Branches {
 public:
  Branches(std::string_view name, const Arguments& arguments, Where where)
      : name_(name), arguments_(arguments), where_(where), operands_(arrays_of(arguments)) {
    require_arrays(operands_, name, where, "operands");
  }
  template <class F>
  void add(const F& f, const std::string& called) {
    static_assert(
        std::is_same_v<Out, std::decay_t<decltype(std::apply(f, std::declval<const Arguments&>()))>>,
        "cond, switch_case: expected branches that return the same type");
    std::optional<Out> own;
    traced_.push_back(trace_flat(flat_function(f, arguments_, own), operands_, called, where_, false, true));
    if (traced_.size() == 1) {
      result_.emplace(std::move(*own));
    } else {
      require_same_result(name_, traced_.size() - 1, same_form(*result_, *own), where_);
    }
  }
  std::size_t size() const { return traced_.size(); }
  Out choose(const Array& index) {
    replace_arrays(*result_, run_cond(name_, index, traced_, operands_, where_));
    return Out(std::move(*result_));
  }

 private:
  std::string_view name_;
  const Arguments& arguments_;
  Where where_;
  std::vector<Array> operands_;
  std::vector<Traced> traced_;
  std::optional<Out> result_;
};

template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;
template <class A, class B>
inline constexpr bool is_pair<std::tuple<A, B>> = true;

}  // namespace frontend_detail

/// The loop
///
///   carry = init;  for each slice x of xs:  (carry, y) = f(carry, x)
///
/// as one operation. Returns a pair of the last carry and the ys, stacked along a new leading axis. `init`,
/// `xs` and the results of f are Arrays or structures of Arrays (see tree.hpp). xs are sliced along their
/// leading axes, which have one extent, `length` if it is given. Without xs (std::nullopt) length is the
/// number of steps, and without ys f returns std::nullopt for them. The carry that f returns has the
/// structure and types of its argument; members that are no Arrays are unchanged. `reverse`: from the last
/// slice to the first; each y has the index of its x. Memory for a gradient is the residuals of a step times
/// the number of steps; with checkpoint(f) it is carries and slices alone. Throws Error (invalid_argument,
/// type) when these do not fit, and the errors of tracing.
template <class F, class Init, class Xs>
auto scan(const F& f, const Init& init, const Xs& xs, std::optional<std::int64_t> length = std::nullopt,
          bool reverse = false, Where where = Where::current()) {
  using namespace frontend_detail;
  const std::tuple<Argument<Init>, Argument<Xs>> arguments(init, xs);
  using Out = std::decay_t<decltype(std::apply(f, arguments))>;
  static_assert(is_pair<Out>, "scan: expected a function that returns a pair of the carry and y");
  const ScanCall call(arrays_of(std::get<0>(arguments)), arrays_of(std::get<1>(arguments)), length, where);
  std::optional<Out> result;
  const Traced step = trace_flat(flat_function(f, arguments, result), call.like, "step", where);
  const auto& carry = std::get<0>(*result);
  if constexpr (std::is_same_v<std::decay_t<decltype(carry)>, Argument<Init>>)
    require_same_carry(same_form(std::get<0>(arguments), carry), where);
  const std::size_t num_carries = arrays_of(carry).size();
  replace_arrays(*result, run_scan(call, step, num_carries, reverse, where));
  return Out(std::move(*result));
}

/// The loop
///
///   carry = init;  while (cond(carry)) carry = body(carry)
///
/// as one operation. Returns the last carry. `init` and the results of body are Arrays or structures of
/// Arrays (see tree.hpp), of one structure and types; members that are no Arrays are unchanged. cond returns
/// one bool. cond and body are traced once, on Arrays without data.
///
/// With `max_steps` the loop ends after that many steps at the latest, and has gradients, whose memory is
/// that of a scan of max_steps steps. Without it only forward mode applies (jvp, jacfwd), and reverse mode
/// throws Error (ad_rule). Under vmap all examples go on until the last one ends: body is then also evaluated
/// on carries of examples that have ended, and those results are dropped. Computations on captured Arrays
/// alone run once, before the loop, even if it takes no step. A loop whose cond always holds never ends; tidu
/// does not detect it. Throws Error (invalid_argument, type) when these do not fit, and the errors of
/// tracing.
template <class Cond, class Body, class Init>
auto while_loop(const Cond& cond, const Body& body, const Init& init,
                std::optional<std::int64_t> max_steps = std::nullopt, Where where = Where::current()) {
  using namespace frontend_detail;
  using Carry = Argument<Init>;
  static_assert(std::is_convertible_v<decltype(body(std::declval<const Carry&>())), Carry>,
                "while_loop: expected a body that returns the carry");
  const std::tuple<Carry> arguments(init);
  const auto step = [&](const Carry& carry) {
    Array goes_on = cond(carry);
    return std::pair<Array, Carry>(std::move(goes_on), body(carry));
  };
  std::optional<std::pair<Array, Carry>> result;
  const std::vector<Array> carries = arrays_of(arguments);
  require_arrays(carries, "while_loop", where, "carries");
  const Traced traced = trace_flat(flat_function(step, arguments, result), carries, "step", where);
  Carry& last = result->second;
  require_same_carry(same_form(std::get<0>(arguments), last), where, "while_loop");
  replace_arrays(last, run_while(carries, traced, false, max_steps, where));
  return Carry(std::move(last));
}

/// The loop
///
///   carry = init;  for (i = lower; i < upper; ++i) carry = body(i, carry)
///
/// as one operation; returns the last carry. i is an Array without axes, i32 or of the dtype of the bounds.
/// With plain numbers as bounds it is a scan of so many steps, which has gradients; with Arrays, which need
/// have no data yet, it is a while_loop, and has gradients with `max_steps` alone. All else is as there.
template <class Lower, class Upper, class Body, class Init>
auto fori_loop(const Lower& lower, const Upper& upper, const Body& body, const Init& init,
               std::optional<std::int64_t> max_steps = std::nullopt, Where where = Where::current()) {
  using namespace frontend_detail;
  using Carry = Argument<Init>;
  static_assert(
      std::is_convertible_v<decltype(body(std::declval<const Array&>(), std::declval<const Carry&>())),
                            Carry>,
      "fori_loop: expected a body that returns the carry");
  constexpr bool lower_is_number = std::is_integral_v<Lower>, upper_is_number = std::is_integral_v<Upper>;
  using Numbered = std::tuple<Array, Carry>;
  const auto next = [&](const Array& i, const Carry& carry) -> Carry { return body(i, carry); };
  if constexpr (lower_is_number && upper_is_number) {
    const std::int64_t first = bound_of(lower);
    const std::int64_t length = fori_length(first, bound_of(upper), max_steps, where);
    const Numbered arguments(Array(static_cast<std::int32_t>(first)), init);
    std::optional<Carry> result;
    std::vector<Array> carries = arrays_of(std::get<1>(arguments));
    require_arrays(carries, "fori_loop", where, "carries");
    const Traced traced =
        trace_flat(flat_function(next, arguments, result), arrays_of(arguments), "step", where);
    require_same_carry(same_form(std::get<1>(arguments), *result), where, "fori_loop");
    replace_arrays(*result, run_fori(carries, traced, first, length, where));
    return Carry(std::move(*result));
  } else {
    const auto [from, to] = fori_bounds(lower, upper, lower_is_number, upper_is_number, where);
    const Numbered arguments(from, init);
    const auto step = [&, end = to](const Array& i, const Carry& carry) {
      Array following = i;
      following += ArrayLike(1, where);
      return std::tuple<Array, Array, Carry>(ArrayLike(i, where) < end, following, next(i, carry));
    };
    std::optional<std::tuple<Array, Array, Carry>> result;
    const std::vector<Array> carries = arrays_of(arguments);
    require_arrays(carries, "fori_loop", where, "carries");
    const Traced traced = trace_flat(flat_function(step, arguments, result), carries, "step", where);
    Carry& last = std::get<2>(*result);
    require_same_carry(same_form(std::get<1>(arguments), last), where, "fori_loop");
    replace_arrays(last, run_while(carries, traced, true, max_steps, where));
    return Carry(std::move(last));
  }
}

/// true_fn(operands...) if `predicate`, a scalar, holds, else false_fn(operands...), as one operation. Only
/// the chosen function runs, with two exceptions: under vmap over the predicate, and on executors without
/// control flow (CUDA). There both run, and a selection follows. A predicate that is a number holds if it is
/// not 0. Operands and the results of the functions are Arrays or structures of Arrays (see tree.hpp). Both
/// functions return the same structure, of Arrays of the same types, with equal members otherwise.
///
/// The results of the function that is not chosen (an infinity, a NaN) are in no gradient. When both run
/// under vmap, it gets cotangents of zero, as with where(), on the way to captured Arrays without a mapped
/// axis, and no cotangents otherwise. Computations on captured Arrays alone belong to the functions too, and
/// have no data while they are traced. Throws Error (invalid_argument, type) when these do not fit, and the
/// errors of tracing.
template <class TrueF, class FalseF, class... Operands>
auto cond(const ArrayLike& predicate, const TrueF& true_fn, const FalseF& false_fn,
          const Operands&... operands) {
  using namespace frontend_detail;
  const std::tuple<Argument<Operands>...> arguments(operands...);
  using Out = std::decay_t<decltype(std::apply(true_fn, arguments))>;
  const Array index = condition(predicate);
  Branches<Out, std::tuple<Argument<Operands>...>> branches("cond", arguments, predicate.where());
  branches.add(false_fn, "false_fn");
  branches.add(true_fn, "true_fn");
  return branches.choose(index);
}

/// branches[index](operands...), where `index`, an integer scalar, is clamped to the range; else as cond.
/// `branches`: a tuple of functions, or a vector or array of functions.
template <class Functions, class... Operands>
auto switch_case(const ArrayLike& index, const Functions& branches, const Operands&... operands) {
  using namespace frontend_detail;
  const std::tuple<Argument<Operands>...> arguments(operands...);
  using Arguments = std::tuple<Argument<Operands>...>;
  const auto run = [&]<class Out>(std::type_identity<Out>, const auto& each) {
    Branches<Out, Arguments> traced("switch_case", arguments, index.where());
    each([&traced](const auto& f) { traced.add(f, "branch" + std::to_string(traced.size())); });
    return traced.choose(branch_index(index, traced.size()));
  };
  if constexpr (is_product<Functions>) {
    using Out = std::decay_t<decltype(std::apply(std::get<0>(branches), arguments))>;
    return run(std::type_identity<Out>(), [&branches](const auto& add) {
      std::apply([&add](const auto&... f) { (add(f), ...); }, branches);
    });
  } else {
    using Out = std::decay_t<decltype(std::apply(*std::begin(branches), arguments))>;
    require_branches(std::size(branches), index.where());
    return run(std::type_identity<Out>(), [&branches](const auto& add) {
      for (const auto& f : branches) add(f);
    });
  }
}

}  // namespace tidu
