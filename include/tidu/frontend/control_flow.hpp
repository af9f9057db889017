// control_flow.hpp - loops of functions of Arrays as one operation: scan, as jax.lax.scan. The function is
// traced once for each call (put compile() around it to trace once), whatever the number of steps, so it must
// not ask for data. Arrays that it uses beside its arguments count as they are, as if they were arguments:
// they have their gradients. Every transform goes through, to any order.
#pragma once

#include <cstdint>
#include <optional>
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
void require_same_carry(bool same, Where where);
/// The last carries, then the stacked ys, of a step that gave `num_carries` Arrays as the carry.
std::vector<Array> run_scan(const ScanCall& call, const Traced& step, std::size_t num_carries, bool reverse,
                            Where where);

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

}  // namespace tidu
