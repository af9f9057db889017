// linalg_lu.cpp - functions of the LU factors of a square matrix: solve, inv, det and slogdet.
//
// Note [Derivatives by LU factors]: they are derivatives of the equation that is solved, with the
// same factors, and not those of the factors, which take matmuls and two more solutions of the matrix's size.
// So each function is a custom_jvp_call, whose rule has the derivative of the value and computes the value
// itself by the factors: derivatives of second and higher order then include that of the factors.
#include "frontend/equations.hpp"
#include "primitives/custom_derivative.hpp"
#include "tidu/frontend/linalg.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::linalg {
namespace {

using frontend_detail::equation;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::invoke_many;
using frontend_detail::leading;
using frontend_detail::number;
using frontend_detail::require_square;
using frontend_detail::with_batch;
using prim::differentiated;

// U⁻¹ L⁻¹ P b by the LU factors of a.
Value by_factors(Value a, Value b) {
  const Shape batch = leading(b);
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

// x with a x = b: dx = a⁻¹ (db - da x).
Value solution(Value a, Value b) {
  const Value operands[] = {a, b};
  return differentiated(
      "solve", operands, [](const Values& v) { return Values{by_factors(v[0], v[1])}; },
      [](const Values& v, const Values& x, const Values& dv) {
        const Value da = with_batch(dv[0], leading(x[0]), 2);
        return Values{by_factors(v[0], dv[1] - prim::matrix_product(da, x[0]))};
      })[0];
}

Value inverse_by_factors(Value a) { return by_factors(a, prim::identity(*a.emitter(), a.type())); }

// x = a⁻¹: dx = -x da x.
Value inverse(Value a) {
  return differentiated(
      "inv", {&a, 1}, [](const Values& v) { return Values{inverse_by_factors(v[0])}; },
      [](const Values&, const Values& x, const Values& da) {
        return Values{-prim::matrix_product(x[0], prim::matrix_product(da[0], x[0]))};
      })[0];
}

// tr(a⁻¹ da)
Value relative_change(Value a, Value da) {
  const auto last = static_cast<std::int64_t>(a.rank()) - 1;
  return ops::reduce_sum(prim::transposed(inverse_by_factors(a)) * da, {last - 1, last});
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

// Explicit up to 3 x 3; then the product of U's diagonal, d = det a: dd = d tr(a⁻¹ da).
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
  return differentiated(
      "det", {&x, 1},
      [](const Values& v) {
        const Values lu = ops::lu(v[0]);
        const Ints last{static_cast<std::int64_t>(v[0].rank()) - 2};
        return Values{ops::reduce_prod(prim::diagonal(lu[0]), last) * parity(lu[1], v[0].dtype())};
      },
      [](const Values& v, const Values& d, const Values& dv) {
        return Values{d[0] * relative_change(v[0], dv[0])};
      })[0];
}

// Sign s and logarithm l of |det a|, the sum of the logarithms of U's diagonal. With c = tr(a⁻¹ da):
// dl = Re c, and of complex matrices ds = s i Im c.
Values sign_and_logarithm(Value x) {
  return differentiated(
      "slogdet", {&x, 1},
      [](const Values& v) {
        const Ints last{static_cast<std::int64_t>(v[0].rank()) - 2};
        const Values lu = ops::lu(v[0]);
        const Value diagonal = prim::diagonal(lu[0]);
        const Value signs = ops::reduce_prod(ops::sign(diagonal), last);
        const Value zero = ops::full_like(signs, 0.0);  // of a singular matrix 0, not -0
        return Values{signs * parity(lu[1], v[0].dtype()) + zero,
                      ops::reduce_sum(ops::log(ops::abs(diagonal)), last)};
      },
      [](const Values& v, const Values& results, const Values& dv) {
        const Value change = relative_change(v[0], dv[0]), sign = results[0];
        if (!is_complex(sign.dtype())) return Values{ops::full_like(sign, 0.0), change};
        const Value turn = ops::imag(change);
        return Values{sign * ops::complex(ops::full_like(turn, 0.0), turn), ops::real(change)};
      });
}

}  // namespace

Array solve(const Array& a, const Array& b, Where where) {
  return equation("linalg.solve", a, b, {}, true, where,
                  [](Value matrix, Value sides, const Shape&) { return solution(matrix, sides); });
}

Array inv(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"linalg.inv"}, operands,
      [](Emitter&, std::span<const Value> v) {
        require_square("linalg.inv", v[0]);
        return inverse(number(v[0]));
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

std::pair<Array, Array> slogdet(const Array& x, Where where) {
  std::vector<Array> both = invoke_many(
      {"linalg.slogdet"}, std::span(&x, 1),
      [](Emitter&, std::span<const Value> v) {
        require_square("linalg.slogdet", v[0]);
        return sign_and_logarithm(number(v[0]));
      },
      where);
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace tidu::linalg
