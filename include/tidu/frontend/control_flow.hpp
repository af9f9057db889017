// control_flow.hpp - loops of functions of Arrays, and choices between them, as one operation: scan,
// while_loop, fori_loop, cond and switch_case, as in jax.lax. The functions are traced once for each call
// (put compile() around it to trace once), whatever the number of steps and whichever is chosen, so they must
// not ask for data. Arrays that they use beside their arguments count as they are, as if they were arguments:
// they have their gradients. Every transform goes through, to any order, but reverse mode through a loop that
// nothing bounds.
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

/// What a scan is told, checked: Arrays like those that a step gets, and how many steps there are.
struct ScanCall {
  ScanCall(std::vector<Array> carries, std::vector<Array> xs, std::optional<std::int64_t> length,
           Where where);
  std::vector<Array> carries, xs;
  std::vector<Array> like;  ///< carries and slices of xs
  std::int64_t length;
};
/// Refuses a carry of another structure.
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
/// Of so many steps from lower to upper, of which at most max_steps are taken, refusing numbers that i32 does
/// not hold.
std::int64_t fori_length(std::int64_t lower, std::int64_t upper, std::optional<std::int64_t> max_steps,
                         Where where);
/// A bound as an i64; what that does not hold is its greatest.
template <class T>
std::int64_t bound_of(T x) {
  const auto bound = static_cast<std::int64_t>(x);
  return std::is_unsigned_v<T> && bound < 0 ? std::numeric_limits<std::int64_t>::max() : bound;
}
/// Arrays of one integer dtype: of one number that of the other, which has to hold it.
std::pair<Array, Array> fori_bounds(const Array& lower, const Array& upper, bool lower_is_number,
                                    bool upper_is_number, Where where);

/// The index of a cond that takes the true function: a scalar bool, of a number whether it is not 0.
Array condition(const ArrayLike& predicate);
/// The index of one of `count` branches, moved into range.
Array branch_index(const ArrayLike& index, std::size_t count);
/// Refuses an empty list of branches.
void require_branches(std::size_t count, Where where);
/// Refuses a branch whose result differs in structure.
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
/// as one operation; returns a pair of the last carry and the ys, stacked along a new leading axis. `init`,
/// `xs` and what f returns are Arrays or structures of such (see tree.hpp); xs are sliced along their leading
/// axes, which have one extent, `length` where it is given. Without xs (std::nullopt) length says how many
/// steps there are, and without ys f returns std::nullopt in their place. The carry that f returns has the
/// structure and types of the one that it gets; what is no Array in it stays as it is. `reverse`: from the
/// last slice to the first; ys lie where their xs do. Memory for a gradient grows with the number of steps by
/// what each of them keeps; checkpoint(f) keeps carries and slices alone. Throws Error (invalid_argument,
/// type) where these do not fit, and what tracing throws.
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
/// as one operation; returns the last carry. `init` and what body returns are Arrays or structures of such
/// (see tree.hpp), of one structure and types; what is no Array in them stays as it is. cond returns one
/// bool. cond and body are traced once, on Arrays without data. With `max_steps` the loop ends after so many
/// steps at the latest, whatever cond says, and has gradients, for which memory is taken as for a scan of
/// max_steps steps. Without, only forward mode goes through (jvp, jacfwd), and reverse mode throws Error
/// (ad_rule). Under vmap with examples that end apart all go on until the last one ends; body is then
/// computed of carries for which cond does not hold, too, whose results are dropped. What they compute of
/// captured Arrays alone is computed once, before the loop, whether it takes a step or not. A loop whose cond
/// always holds never ends: nothing looks for it, and nothing but the end of the process ends it. Throws
/// Error (invalid_argument, type) where these do not fit, and what tracing throws.
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

/// true_fn(operands...) where `predicate`, a scalar, holds, else false_fn(operands...), as one operation: the
/// function that is chosen runs alone, but where vmap maps over the predicate, or the executor knows no
/// control flow (CUDA): there both run, and what they give is chosen from. A predicate that is a number
/// counts as whether it is not 0. Operands and what the functions return are Arrays or structures of such
/// (see tree.hpp); both return the same structure, of Arrays of the same types, with what is no Array in it
/// equal. What the function that is not chosen would make (an infinity, a NaN) is in no gradient. Where both
/// run for what vmap maps, it meets cotangents of zero, as with where(), on the way to captured Arrays of
/// axes that vmap does not map, and on no other. What they compute of captured Arrays alone is a part of
/// them, too, and has no data when they are traced. Throws Error (invalid_argument, type) where these do not
/// fit, and what tracing throws.
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

/// branches[index](operands...), where `index`, a scalar of integers, is moved into range; else as cond.
/// `branches`: a tuple of functions, or a vector or array of such.
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
