// kinds_linalg.cpp - linear algebra in random graphs, of matrices that are far from singular, and from equal
// singular values, eigenvalues and pivots, for any operands.
#include <array>

#include "fuzz/generator.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

using G = Generator;
constexpr unsigned linalg_numbers = G::smooth | G::real | G::complex;

Value adjoint(G& g, Value x) {
  Ints axes{1, 0};
  if (x.rank() == 3) axes = {0, 2, 1};
  const Value turned = ops::transpose(x, axes);
  return g.is_complex() ? ops::conj(turned) : turned;
}

Value product(Value a, Value b) {
  const Ints batch = a.rank() == 3 ? Ints{0} : Ints{};
  const auto last = static_cast<std::int64_t>(a.rank()) - 1;
  return ops::dot_general(a, b, {{last}, {last - 1}, batch, batch});
}

// The diagonal 1, 3, 5, … plus small elements; rows in any order if `pivoted`.
Value dominated(G& g, bool pivoted = false) {
  const Value x = g.of_rank(2);
  const std::int64_t e = g.extent();
  check::Numbers diagonal(static_cast<std::size_t>(e * e), 0.0);
  const std::int64_t first = pivoted ? g.choices().between(0, e - 1) : 0;
  for (std::int64_t i = 0; i < e; ++i)
    diagonal[static_cast<std::size_t>((i + first) % e * e + i)] = 1.0 + 2.0 * static_cast<double>(i);
  const Tensor constant = check::tensor_of(x.type(), diagonal);
  return g.around(0, 0.2, x) + ops::constant(*x.emitter(), constant.to_literal());
}

// One such matrix, or a batch of two.
Value matrices(G& g, bool pivoted = false) {
  const Value one = dominated(g, pivoted);
  if (!g.choices().one_in(3)) return one;
  return ops::concatenate(
      std::array{ops::expand_dims(one, {0}), ops::expand_dims(dominated(g, pivoted), {0})}, 0);
}

// Square, or with rows or columns more, which are small.
Value rectangle(G& g, bool pivoted = false) {
  const Value x = matrices(g, pivoted);
  const std::size_t shape = g.choices().below(4);
  if (x.rank() == 3 || shape > 1) return x;
  return ops::concatenate(std::array{x, g.around(0, 0.2, g.like(x))}, static_cast<std::int64_t>(shape));
}

Values factor(G& g) {
  const Value x = g.bounded(g.of_rank(2));
  return {ops::cholesky(product(x, adjoint(g, x)) + dominated(g))};
}

Values solved(G& g) {
  const auto flag = [&] { return g.choices().below(2) == 0; };
  const bool left = flag(), lower = flag(), transposed = flag(), conjugated = flag(), unit = flag();
  return {ops::triangular_solve(dominated(g), g.of_rank(2), {left, lower, transposed, conjugated, unit})};
}

// u diag(s) v, in which the phases of vectors cancel.
Value recomposed(G& g, Value u, Value s, Value v) {
  Ints axes{1};
  if (u.rank() == 3) axes = {0, 2};
  return product(u * ops::broadcast_in_dim(g.as_value(ops::sin(s)), u.shape(), axes), v);
}

Values spectrum(G& g) {
  const Values vw = ops::eigh(matrices(g));
  if (!g.is_complex()) return {vw[0], vw[1]};
  return {vw[1], recomposed(g, vw[0], vw[1], adjoint(g, vw[0]))};
}

Values singular(G& g) {
  const Values usv = ops::svd(rectangle(g));
  if (!g.is_complex()) return {usv[0], usv[1], usv[2]};
  return {usv[1], recomposed(g, usv[0], usv[1], usv[2])};
}

// A complex Q has the phases that reflections give it, which jump where an element becomes real.
Values orthogonal(G& g) {
  Values q_r = ops::qr(rectangle(g));
  if (g.is_complex()) {
    const Shape weights = q_r[0].rank() == 3 ? Shape{2, g.extent()} : Shape{g.extent()};
    q_r[0] = recomposed(g, q_r[0], g.whole(f64, weights, 1, 3), adjoint(g, q_r[0]));
    q_r[1] = product(adjoint(g, q_r[1]), q_r[1]);
  }
  return q_r;
}

constexpr G::Kind linalg_table[] = {
    {"cholesky", linalg_numbers, factor},
    {"triangular_solve", linalg_numbers, solved},
    {"lu", linalg_numbers, [](G& g) -> Values { return {ops::lu(rectangle(g, true))[0]}; }},
    {"qr", linalg_numbers, orthogonal},
    {"eigh", linalg_numbers, spectrum},
    {"svd", linalg_numbers, singular}};

}  // namespace

std::span<const Generator::Kind> linalg_kinds() { return linalg_table; }

}  // namespace tidu::test
