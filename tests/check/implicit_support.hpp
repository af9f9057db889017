// implicit_support.hpp - helpers of the tests of custom_linear_solve and custom_root: systems solved by LU
// factors, by conjugate gradients and by bicgstab in a `while`, and derivatives of two graphs compared, in
// both modes and their pairs. Differentiated LU factors serve as oracle.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "check/helpers.hpp"
#include "check/same_function.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::test::implicit_cases {

inline Value conjugate(Value x) { return is_complex(x.dtype()) ? ops::conj(x) : x; }
inline Value real_part(Value x) { return is_complex(x.dtype()) ? ops::real(x) : x; }
inline Value adjoint(Value a) { return ops::transpose(conjugate(a), {1, 0}); }
inline Value scaled(Value x, double factor) { return x * ops::full_like(x, factor); }
inline Value dot(Value x, Value y) { return ops::reduce_sum(conjugate(x) * y, {0}); }
/// s times each element of x.
inline Value times(Value s, Value x) { return ops::broadcast_scalar(s, x.shape()) * x; }

/// factor * I of the type of `a`.
inline Value diagonal_like(Value a, double factor) {
  const Type indices(i32, a.shape());
  Emitter& emitter = *a.emitter();
  const Value row = ops::iota(emitter, indices, 0), column = ops::iota(emitter, indices, 1);
  return scaled(ops::convert_element_type(ops::eq(row, column), a.dtype()), factor);
}

/// x with a x = b for a [n, n], b [n].
inline Value by_factors(Value a, Value b) {
  const std::int64_t n = b.shape()[0];
  const Values factors = ops::lu(a);
  const Value rows = ops::reshape(ops::take(b, factors[2], 0), {n, 1});
  const Value y =
      ops::triangular_solve(factors[0], rows, {.left_side = true, .lower = true, .unit_diagonal = true});
  return ops::reshape(ops::triangular_solve(factors[0], y, {.left_side = true}), {n});
}

enum class By { factors, conjugate_gradients, bicgstab };

/// Goes on while the first carry, squared, is above the threshold for zero, for 60 steps at most.
inline Values iterated(const Graph& step, const std::vector<Value>& operands) {
  GraphBuilder until("until");
  std::vector<Value> inputs;
  for (const Value& operand : operands)
    inputs.push_back(until.input(detail::str('c', inputs.size()), operand.type()));
  const Value b = inputs[1], r = inputs[3], steps = inputs.back();
  const Value size = real_part(dot(b, b)), left = real_part(dot(r, r));
  const double zero = real_dtype(b.dtype()) == f32 ? 1e-11 : 1e-25;
  const Value more = ops::gt(left, scaled(size, zero));
  const Value few = ops::lt(steps, ops::full_like(steps, 60));
  return ops::while_loop(until.build({ops::logical_and(more, few)}), step, operands, {2, {}});
}

/// Consts a, b; carries x, r, p, the square of r and a counter.
inline Value conjugate_gradients(Value a, Value b) {
  GraphBuilder g("step");
  const Type scalar(b.dtype()), v = b.type();
  const Value m = g.input("a", a.type());
  (void)g.input("b", v);
  const Value x = g.input("x", v), r = g.input("r", v), p = g.input("p", v), square = g.input("rr", scalar),
              n = g.input("n", i32);
  const Value q = ops::matmul(m, p), alpha = square / dot(p, q);
  const Value next = r - times(alpha, q), next_square = dot(next, next);
  const Value beta = next_square / square;
  const Graph step =
      g.build({x + times(alpha, p), next, next + times(beta, p), next_square, n + ops::full_like(n, 1)});
  const Value none = ops::full(*b.emitter(), Type(i32), 0.0);
  return iterated(step, {a, b, ops::full_like(b, 0.0), b, b, dot(b, b), none})[0];
}

/// Consts a, b; carries x, r, p, v, three scalars and a counter; the shadow residual is b.
inline Value bicgstab(Value a, Value b) {
  GraphBuilder g("step");
  const Type scalar(b.dtype()), type = b.type();
  const Value m = g.input("a", a.type()), shadow = g.input("b", type);
  const Value x = g.input("x", type), r = g.input("r", type), p = g.input("p", type), v = g.input("v", type),
              rho = g.input("rho", scalar), alpha = g.input("alpha", scalar),
              omega = g.input("omega", scalar), n = g.input("n", i32);
  const Value new_rho = dot(shadow, r), beta = (new_rho / rho) * (alpha / omega);
  const Value new_p = r + times(beta, p - times(omega, v)), new_v = ops::matmul(m, new_p);
  const Value new_alpha = new_rho / dot(shadow, new_v), s = r - times(new_alpha, new_v);
  const Value t = ops::matmul(m, s), square = dot(t, t);
  // Half a step may have been enough.
  const Value done = ops::eq(square, ops::full_like(square, 0.0));
  const Value new_omega = dot(t, s) / ops::select_n(done, square, ops::full_like(square, 1.0));
  const Value new_x = x + times(new_alpha, new_p);
  const Graph step = g.build({new_x + times(new_omega, s), s - times(new_omega, t), new_p, new_v, new_rho,
                              new_alpha, new_omega, n + ops::full_like(n, 1)});
  const Value zero = ops::full_like(b, 0.0), one = ops::full(*b.emitter(), scalar, 1.0);
  const Value none = ops::full(*b.emitter(), Type(i32), 0.0);
  return iterated(step, {a, b, zero, b, zero, zero, one, one, one, none})[0];
}

/// The graph of (a, b) that solves a x = b, or the system of the adjoint matrix.
inline Graph solve_graph(Type a, Type b, By by, bool transposed = false) {
  GraphBuilder g("solve");
  const Value given = g.input("a", a), right = g.input("b", b);
  const Value m = transposed ? adjoint(given) : given;
  return g.build({by == By::factors               ? by_factors(m, right)
                  : by == By::conjugate_gradients ? conjugate_gradients(m, right)
                                                  : bicgstab(m, right)});
}
inline Graph matvec_graph(Type a, Type x) {
  GraphBuilder g("matvec");
  const Value m = g.input("a", a), v = g.input("x", x);
  return g.build({ops::matmul(m, v)});
}

/// x with a x = b by custom_linear_solve; conjugate gradients say symmetric and give no transpose_solve.
inline Value solved(Value a, Value b, By by) {
  const bool symmetric = by == By::conjugate_gradients;
  LinearSolve how{1, {}, symmetric};
  if (!symmetric) how.transpose_solve = solve_graph(a.type(), b.type(), by, true);
  return ops::custom_linear_solve(matvec_graph(a.type(), b.type()), solve_graph(a.type(), b.type(), by),
                                  std::array{a, b}, how)[0];
}

using Transform = Graph (*)(const Graph&, const Names&);
inline constexpr Transform forward_mode = [](const Graph& f, const Names& wrt) { return jvp(f, wrt); };
inline constexpr Transform reverse_mode = [](const Graph& f, const Names& wrt) { return vjp(f, wrt); };

/// The value, both modes, their four pairs, two of third order, and mapped over an axis.
inline void same_derivatives(const Graph& f, const Graph& expected, const Names& wrt = {},
                             double tolerance = 1e-10) {
  same_function(f, expected, tolerance);
  for (const Transform inner : {forward_mode, reverse_mode}) {
    CAPTURE((inner == forward_mode));
    const Graph first = inner(f, wrt), first_expected = inner(expected, wrt);
    same_function(first, first_expected, tolerance);
    same_function(vmap(first, 2), vmap(first_expected, 2), tolerance);
    for (const Transform outer : {forward_mode, reverse_mode}) {
      CAPTURE((outer == forward_mode));
      const Graph second = outer(first, wrt), second_expected = outer(first_expected, wrt);
      same_function(second, second_expected, tolerance);
      if (inner == outer) same_function(inner(second, wrt), inner(second_expected, wrt), tolerance);
    }
  }
}

}  // namespace tidu::test::implicit_cases
