// linalg.cpp - see linalg.hpp: factors are primitives, the rest is written with them.
#include "tidu/frontend/linalg.hpp"

#include <bit>
#include <cmath>

#include "frontend/broadcast.hpp"
#include "primitives/matrices.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::linalg {
namespace {

using frontend_detail::broadcast;
using frontend_detail::broadcast_shapes;
using frontend_detail::convert;
using frontend_detail::inexact;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::invoke_many;

Value number(Value x) { return convert(x, inexact(x.dtype())); }

std::vector<Array> factors(const char* name, const Array& x, Values (*factor)(Value, Where), Where where) {
  return invoke_many(
      {name}, std::span(&x, 1),
      [factor](Emitter&, std::span<const Value> v) { return factor(number(v[0]), Where{}); }, where);
}
std::tuple<Array, Array, Array> three(std::vector<Array> of) {
  return {std::move(of[0]), std::move(of[1]), std::move(of[2])};
}

[[noreturn]] void refuse_type(const char* name, const char* expected, Value x) {
  throw Error(ErrorKind::type, detail::str('[', name, "] expected ", expected, ", got ", x.type()));
}

void require_square(const char* name, Value x) {
  if (x.rank() < 2 || prim::rows_of(x.type()) != prim::columns_of(x.type()))
    refuse_type(name, "square matrices", x);
}

// x's last `rest` axes after leading axes `batch`.
Value with_batch(Value x, const Shape& batch, std::size_t rest) {
  Shape shape = batch;
  shape.insert(shape.end(), x.shape().end() - static_cast<std::ptrdiff_t>(rest), x.shape().end());
  return broadcast(x, shape);
}

Shape leading(Value x) { return {x.shape().begin(), x.shape().end() - 2}; }

// A matrix a and right-hand sides b as matrices of one dtype. `solved` of both, with one batch, is given back
// in the form of b.
template <class F>
Value solved_for(const char* name, Value a, Value b, bool left_side, const F& solved) {
  require_square(name, a);
  if (b.rank() == 0) refuse_type(name, "a right-hand side of one axis or more", b);
  const DType common = inexact(promote(a.dtype(), b.dtype()));
  const Value matrix = convert(a, common);
  const std::int64_t beside = left_side ? 1 : 0;
  const bool vector = b.rank() == 1;
  const Value sides = vector ? ops::expand_dims(convert(b, common), {beside}) : convert(b, common);
  const std::int64_t n = left_side ? prim::rows_of(sides.type()) : prim::columns_of(sides.type());
  if (n != prim::rows_of(a.type())) {
    throw Error(ErrorKind::type,
                detail::str('[', name, "] expected as many ", left_side ? "rows" : "columns",
                            " of the right-hand side as the matrix has, got ", a.type(), " and ", b.type()));
  }
  const Shape batch = broadcast_shapes(leading(matrix), leading(sides), name);
  const Value x = solved(matrix, with_batch(sides, batch, 2), batch);
  return vector ? ops::squeeze(x, {static_cast<std::int64_t>(batch.size()) + beside}) : x;
}

template <class F>
Array equation(const char* name, const Array& a, const Array& b, std::span<const std::int64_t> words,
               bool left_side, Where where, const F& solved) {
  const Input operands[] = {a, b};
  return invoke(
      {name, words}, operands,
      [&](Emitter&, std::span<const Value> v) { return solved_for(name, v[0], v[1], left_side, solved); },
      where);
}

// x with a x = b by the LU factors of a.
Value solve_by_lu(Value a, Value b, const Shape& batch) {
  const Values lu = ops::lu(a);
  const Value both = with_batch(lu[0], batch, 2);
  const Value permutation = with_batch(lu[2], batch, 1);
  const std::int64_t rows = static_cast<std::int64_t>(b.rank()) - 2;
  const Value moved = rows == 0 ? ops::take(b, permutation, 0)
                                : ops::take_along_axis(b, prim::by_row(permutation, b.shape()), rows);
  const Value y =
      ops::triangular_solve(both, moved, {.left_side = true, .lower = true, .unit_diagonal = true});
  return ops::triangular_solve(both, y, {.left_side = true, .lower = false});
}

// x[..., i, j]
Value entry(Value x, std::int64_t i, std::int64_t j) {
  Ints start(x.rank(), 0), limit = x.shape();
  const std::size_t row = x.rank() - 2, column = x.rank() - 1;
  start[row] = i;
  limit[row] = i + 1;
  start[column] = j;
  limit[column] = j + 1;
  return ops::squeeze(ops::slice(x, start, limit),
                      {static_cast<std::int64_t>(row), static_cast<std::int64_t>(column)});
}

// x_ai x_bj - x_aj x_bi
Value minor(Value x, std::int64_t a, std::int64_t b, std::int64_t i, std::int64_t j) {
  const auto product = [&](std::int64_t p, std::int64_t q) {
    const Value upper = entry(x, a, p);
    return upper * entry(x, b, q);
  };
  const Value first = product(i, j);
  return first - product(j, i);
}

// (-1) to the number of rows that were exchanged.
Value parity(Value pivots, DType dtype) {
  const auto last = static_cast<std::int64_t>(pivots.rank()) - 1;
  const Value in_place = ops::iota(*pivots.emitter(), pivots.type(), last);
  const Value exchanged = ops::convert_element_type(ops::ne(pivots, in_place), i32);
  const Value count = ops::reduce_sum(exchanged, {last});
  const Value odd = ops::convert_element_type(ops::rem(count, ops::full_like(count, 2.0)), dtype);
  const Value twice = odd + odd;
  return ops::full_like(odd, 1.0) - twice;
}

Value determinant(Value x) {
  const std::int64_t n = prim::rows_of(x.type());
  if (n == 1) return entry(x, 0, 0);
  if (n == 2) return minor(x, 0, 1, 0, 1);
  if (n == 3) {
    const Value a = entry(x, 0, 0), b = entry(x, 0, 1), c = entry(x, 0, 2);
    const Value with_a = a * minor(x, 1, 2, 1, 2);
    const Value with_b = b * minor(x, 1, 2, 2, 0);
    const Value with_c = c * minor(x, 1, 2, 0, 1);
    return with_a + with_b + with_c;
  }
  const Values lu = ops::lu(x);
  const Value product = ops::reduce_prod(prim::diagonal(lu[0]), {static_cast<std::int64_t>(x.rank()) - 2});
  return product * parity(lu[1], x.dtype());
}

Value sum_of_squares(Value x, const Ints& axes) {
  if (!is_complex(x.dtype())) return ops::reduce_sum(ops::square(x), axes);
  const Value re = ops::square(ops::real(x));
  return ops::reduce_sum(re + ops::square(ops::imag(x)), axes);
}

Value norm_of(Value x, double ord, const Ints& axes) {
  if (ord == 2.0) return ops::sqrt(sum_of_squares(x, axes));
  const Value size = ops::abs(x);
  if (ord == INFINITY) return ops::reduce_max(size, axes);
  if (ord == -INFINITY) return ops::reduce_min(size, axes);
  if (ord == 1.0) return ops::reduce_sum(size, axes);
  if (ord == 0.0) {
    const Value zero = ops::full_like(size, 0.0);
    return ops::reduce_sum(ops::convert_element_type(ops::ne(size, zero), size.dtype()), axes);
  }
  const Value total = ops::reduce_sum(ops::pow(size, ops::full_like(size, ord)), axes);
  return ops::pow(total, ops::full_like(total, 1.0 / ord));
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
  const std::int64_t words[] = {how.lower ? 1 : 0, how.transpose ? 1 : 0, how.conjugate ? 1 : 0,
                                how.unit_diagonal ? 1 : 0, how.left_side ? 1 : 0};
  return equation("linalg.solve_triangular", a, b, words, how.left_side, where,
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
  const std::int64_t words[] = {lower ? 1 : 0};
  return equation("linalg.cho_solve", factor, b, words, true, where,
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

Array solve(const Array& a, const Array& b, Where where) {
  return equation("linalg.solve", a, b, {}, true, where, solve_by_lu);
}

Array inv(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"linalg.inv"}, operands,
      [](Emitter& emitter, std::span<const Value> v) {
        require_square("linalg.inv", v[0]);
        const Value matrix = number(v[0]);
        return solve_by_lu(matrix, prim::identity(emitter, matrix.type()), leading(matrix));
      },
      where);
}

Array det(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"linalg.det"}, operands,
      [](Emitter&, std::span<const Value> v) {
        require_square("linalg.det", v[0]);
        return determinant(number(v[0]));
      },
      where);
}

// Of a triangular matrix log|det| is the sum of the logarithms of its diagonal.
std::pair<Array, Array> slogdet(const Array& x, Where where) {
  std::vector<Array> both = invoke_many(
      {"linalg.slogdet"}, std::span(&x, 1),
      [](Emitter&, std::span<const Value> v) -> Values {
        require_square("linalg.slogdet", v[0]);
        const Value matrix = number(v[0]);
        const Ints last{static_cast<std::int64_t>(matrix.rank()) - 2};
        const Values lu = ops::lu(matrix);
        const Value diagonal = prim::diagonal(lu[0]);
        const Value signs = ops::reduce_prod(ops::sign(diagonal), last);
        const Value sign = signs * parity(lu[1], matrix.dtype());
        return {sign, ops::reduce_sum(ops::log(ops::abs(diagonal)), last)};
      },
      where);
  return {std::move(both[0]), std::move(both[1])};
}

Array vector_norm(const Array& x, double ord, const Axes& axes, bool keepdims, Where where) {
  const Ints list = frontend_detail::normal_axes(axes, x, "linalg.norm", where);
  Ints words{std::bit_cast<std::int64_t>(ord), keepdims ? 1 : 0};
  words.insert(words.end(), list.begin(), list.end());
  const Input operands[] = {x};
  return invoke(
      {"linalg.norm", words}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Value reduced = norm_of(number(v[0]), ord, list);
        return keepdims && !list.empty() ? ops::expand_dims(reduced, list) : reduced;
      },
      where);
}

Array norm(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return vector_norm(x, 2.0, axes, keepdims, where);
}

}  // namespace tidu::linalg
