// linalg.cpp - see linalg.hpp: factorizations are primitives, the other functions are composed of them.
#include "tidu/frontend/linalg.hpp"

#include <bit>
#include <cmath>

#include "frontend/equations.hpp"
#include "frontend/norms.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::linalg {
namespace {

using frontend_detail::equation;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::invoke_many;
using frontend_detail::number;
using frontend_detail::with_batch;

std::vector<Array> factors(const char* name, const Array& x, Values (*factor)(Value, Where), Where where) {
  return invoke_many(
      {name}, std::span(&x, 1),
      [factor](Emitter&, std::span<const Value> v) { return factor(number(v[0]), Where{}); }, where);
}
std::tuple<Array, Array, Array> three(std::vector<Array> of) {
  return {std::move(of[0]), std::move(of[1]), std::move(of[2])};
}

}  // namespace

Array cholesky(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"linalg.cholesky"}, operands,
      [](Emitter&, std::span<const Value> v) { return ops::cholesky(number(v[0])); }, where);
}

std::tuple<Array, Array, Array> lu(const Array& x, Where where) {
  return three(factors("linalg.lu", x, ops::lu, where));
}

std::pair<Array, Array> qr(const Array& x, Where where) {
  std::vector<Array> both = factors("linalg.qr", x, ops::qr, where);
  return {std::move(both[0]), std::move(both[1])};
}

std::pair<Array, Array> eigh(const Array& x, Where where) {
  std::vector<Array> both = factors("linalg.eigh", x, ops::eigh, where);
  return {std::move(both[1]), std::move(both[0])};
}

std::tuple<Array, Array, Array> svd(const Array& x, Where where) {
  return three(factors("linalg.svd", x, ops::svd, where));
}

Array solve_triangular(const Array& a, const Array& b, const Triangle& how, Where where) {
  const std::int64_t static_args[] = {how.lower ? 1 : 0, how.transpose ? 1 : 0, how.conjugate ? 1 : 0,
                                      how.unit_diagonal ? 1 : 0, how.left_side ? 1 : 0};
  return equation("linalg.solve_triangular", a, b, static_args, how.left_side, where,
                  [&](Value matrix, Value sides, const Shape& batch) {
                    return ops::triangular_solve(with_batch(matrix, batch, 2), sides,
                                                 {.left_side = how.left_side,
                                                  .lower = how.lower,
                                                  .transpose_a = how.transpose,
                                                  .conjugate_a = how.conjugate,
                                                  .unit_diagonal = how.unit_diagonal});
                  });
}

Array cho_solve(const Array& factor, const Array& b, bool lower, Where where) {
  const std::int64_t static_args[] = {lower ? 1 : 0};
  return equation("linalg.cho_solve", factor, b, static_args, true, where,
                  [&](Value matrix, Value sides, const Shape& batch) {
                    const Value f = with_batch(matrix, batch, 2);
                    const ops::TriangularSolve is{.left_side = true, .lower = lower};
                    ops::TriangularSolve adjoint = is;
                    adjoint.transpose_a = true;
                    adjoint.conjugate_a = is_complex(f.dtype());
                    const Value y = ops::triangular_solve(f, sides, lower ? is : adjoint);
                    return ops::triangular_solve(f, y, lower ? adjoint : is);
                  });
}

Array vector_norm(const Array& x, double ord, const Axes& axes, bool keepdims, Where where) {
  const Ints list = frontend_detail::normal_axes(axes, x, "linalg.norm", where);
  Ints static_args{std::bit_cast<std::int64_t>(ord), keepdims ? 1 : 0};
  static_args.insert(static_args.end(), list.begin(), list.end());
  const Input operands[] = {x};
  return invoke(
      {"linalg.norm", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Value reduced = frontend_detail::norm_of(number(v[0]), ord, list);
        return keepdims && !list.empty() ? ops::expand_dims(reduced, list) : reduced;
      },
      where);
}

Array norm(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return vector_norm(x, 2.0, axes, keepdims, where);
}

}  // namespace tidu::linalg
