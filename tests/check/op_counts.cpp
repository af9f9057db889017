// op_counts.cpp - the vector-Jacobian product that tidu derives has no more operations, after common
// subexpressions and dead code, than the one written by hand from the same primitives: a matrix product, a
// softmax, a layer norm, an attention, a Gaussian mixture, and the solution of linear equations by LU and by
// Cholesky factors.
#include <cmath>
#include <iostream>

#include "check/helpers.hpp"
#include "tidu/optimizer/passes.hpp"
#include "tidu/primitives/linalg.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

Value expand(Value x, const Shape& shape, const Ints& dimensions) {
  return ops::broadcast_in_dim(x, shape, dimensions);
}

// Counts, prints and compares; and both graphs must give the same numbers (where x has to be positive
// definite, of such a matrix).
void compare(const std::string& name, const Graph& derived, const Graph& by_hand, bool definite = false) {
  const Graph ours = prune(derived), hand = prune(by_hand);
  std::cout << "operations in the vjp of " << name << ": derived " << ours.num_operations() << ", by hand "
            << hand.num_operations() << "; in a program " << passes::simplify(ours, false).num_operations()
            << ", with fast_math " << passes::simplify(ours, true).num_operations() << '\n';
  INFO(name, "\n", to_text(ours), "\n", to_text(hand));
  CHECK(ours.num_operations() <= hand.num_operations());
  CHECK(passes::simplify(ours, false).num_operations() <= ours.num_operations());
  REQUIRE(ours.inputs().size() == hand.inputs().size());
  Random random(5);
  Tensors inputs;
  for (const ValueId id : ours.inputs()) inputs.push_back(check::random_tensor(random, ours.type(id)));
  if (definite) inputs[0] = Tensor::from<double>({4, 4}, {4, 1, 0, 2, 1, 5, 1, 0, 0, 1, 3, 1, 2, 0, 1, 6});
  const Tensors a = run(ours, inputs), b = run(hand, inputs);
  REQUIRE(a.size() == b.size());
  for (std::size_t k = 0; k < a.size(); ++k) CHECK(near(a[k], b[k], 1e-11));
}

// Over the last axis of x, and back to the shape of x.
Value along_last(Value x, Value (*reduce)(Value, const Ints&)) {
  const auto last = static_cast<std::int64_t>(x.shape().size()) - 1;
  Ints others;
  for (std::int64_t axis = 0; axis < last; ++axis) others.push_back(axis);
  return expand(reduce(x, {last}), x.shape(), others);
}
Value logsumexp_of(Value x, const Ints& axes) { return ops::logsumexp(x, axes); }

// exp(x - logsumexp(x)) over the last axis.
Value softmax(Value x) { return ops::exp(x - along_last(x, logsumexp_of)); }
// Σ x / Σ p over the last axis, Σ p being 1 except for rounding.
Value normalized_sum(Value x, Value p) {
  const auto last = static_cast<std::int64_t>(x.shape().size()) - 1;
  Ints others;
  for (std::int64_t axis = 0; axis < last; ++axis) others.push_back(axis);
  const Value inverse = ops::reciprocal(ops::reduce_sum(p, {last}));
  return expand(ops::reduce_sum(x, {last}) * inverse, x.shape(), others);
}
// ct_x = p (ct - Σ ct p / Σ p)
Value softmax_back(Value p, Value ct) { return p * (ct - normalized_sum(ct * p, p)); }

// (x - mean) / sqrt(var + eps) * gamma + beta over the last axis of x[n,d].
struct LayerNorm {
  Value x, gamma, beta, share, centred, variance, scale, normal, wide_gamma, y;
};
LayerNorm layer_norm(GraphBuilder& g) {
  constexpr std::int64_t n = 3, d = 4;
  const Shape wide{n, d};
  LayerNorm f;
  f.x = g.input("x", {f64, wide});
  f.gamma = g.input("gamma", {f64, {d}});
  f.beta = g.input("beta", {f64, {d}});
  f.share = ops::full(g, {f64, {n}}, 1.0 / d);
  f.centred = f.x - expand(ops::reduce_sum(f.x, {1}) * f.share, wide, {0});
  const Value variance = ops::reduce_sum(ops::square(f.centred), {1}) * f.share;
  f.variance = variance + ops::full_like(variance, 1e-5);
  f.scale = ops::rsqrt(f.variance);
  f.normal = f.centred * expand(f.scale, wide, {0});
  f.wide_gamma = expand(f.gamma, wide, {1});
  f.y = f.normal * f.wide_gamma + expand(f.beta, wide, {1});
  return f;
}

// The chain rule, line by line from the last to the first.
Graph layer_norm_by_hand() {
  GraphBuilder g("by hand");
  const LayerNorm f = layer_norm(g);
  const Shape& wide = f.x.shape();
  const Value ct = g.input("ct", f.x.type());
  const Value ct_normal = ct * f.wide_gamma;
  const Value ct_scale = ops::reduce_sum(ct_normal * f.centred, {1});
  // The scale s is v^(-1/2), its derivative -s/(2v).
  const Value slope = ops::full_like(f.scale, -0.5) * (f.scale / f.variance);
  const Value ct_variance = expand(ct_scale * slope * f.share, wide, {0});
  const Value ct_centred = ct_normal * expand(f.scale, wide, {0}) + ct_variance * (f.centred + f.centred);
  const Value ct_mean = ops::reduce_sum(ct_centred, {1}) * f.share;
  return g.build({f.y, ct_centred - expand(ct_mean, wide, {0}), ops::reduce_sum(ct * f.normal, {0}),
                  ops::reduce_sum(ct, {0})});
}

// With all lines seen at once: s (g - mean(g) - z mean(g z)), g = ct gamma, z the normalised values.
Graph layer_norm_across_lines() {
  GraphBuilder g("across lines");
  const LayerNorm f = layer_norm(g);
  const Shape& wide = f.x.shape();
  const Value ct = g.input("ct", f.x.type());
  const Value ct_normal = ct * f.wide_gamma;
  const auto mean = [&](Value x) { return expand(ops::reduce_sum(x, {1}) * f.share, wide, {0}); };
  const Value ct_x =
      (ct_normal - mean(ct_normal) - f.normal * mean(ct_normal * f.normal)) * expand(f.scale, wide, {0});
  return g.build({f.y, ct_x, ops::reduce_sum(ct * f.normal, {0}), ops::reduce_sum(ct, {0})});
}

// softmax(q kT / sqrt d) v for q, k and v of [batch, heads, time, d].
struct Attention {
  Value q, k, v, scale, p, y;
};
Attention attention(GraphBuilder& g) {
  const Type type{f64, {2, 2, 3, 4}};
  Attention f;
  f.q = g.input("q", type);
  f.k = g.input("k", type);
  f.v = g.input("v", type);
  const Value scores = ops::dot_general(f.q, f.k, {{3}, {3}, {0, 1}, {0, 1}});
  f.scale = ops::full_like(scores, 0.5);
  f.p = softmax(scores * f.scale);
  f.y = ops::dot_general(f.p, f.v, {{3}, {2}, {0, 1}, {0, 1}});
  return f;
}

// The Gaussian mixture of n points in d dimensions with k components.
struct Sizes {
  std::int64_t n = 5, k = 3, d = 4;
  std::int64_t triangle() const { return d * (d - 1) / 2; }
};

struct Mixture {
  Value alpha, means, q, l, x, half_gamma2;
};
Mixture mixture_inputs(GraphBuilder& g, const Sizes& s) {
  return {g.input("alpha", {f64, {s.k}}),  g.input("means", {f64, {s.k, s.d}}),
          g.input("q", {f64, {s.k, s.d}}), g.input("l", {f64, {s.k, s.triangle()}}),
          g.input("x", {f64, {s.n, s.d}}), g.input("half_gamma2", f64)};
}

// For each entry of the d x d matrix in row-major order its position in the row [0, l, exp q] of length 1 + s
// + d.
Tensor places(const Sizes& s) {
  std::vector<std::int32_t> index(static_cast<std::size_t>(s.d * s.d), 0);
  for (std::int64_t row = 0; row < s.d; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      const std::int64_t below = column * s.d - column * (column + 1) / 2 + (row - column - 1);
      index[static_cast<std::size_t>(row * s.d + column)] =
          static_cast<std::int32_t>(row == column ? 1 + s.triangle() + row : 1 + below);
    }
  }
  return Tensor::from<std::int32_t>({s.d * s.d}, index);
}

// Everything of the objective that its gradient needs again.
struct Forward {
  Value exp_q, factors, indices, y, half, minus_n, scores, lse, log_weights, objective;
};
Forward mixture_forward(GraphBuilder& g, const Mixture& in, const Sizes& s) {
  Forward f;
  f.exp_q = ops::exp(in.q);
  f.indices = ops::constant(g, places(s).to_literal());
  const Value row = ops::concatenate(std::array{ops::full(g, {f64, {s.k, 1}}, 0.0), in.l, f.exp_q}, 1);
  f.factors = ops::reshape(ops::take(row, f.indices, 1), {s.k, s.d, s.d});
  const Value qx = ops::dot_general(in.x, f.factors, {{1}, {2}, {}, {}});        // Q_k x_n, [n, k, d]
  const Value qm = ops::dot_general(f.factors, in.means, {{2}, {1}, {0}, {0}});  // Q_k mu_k, [k, d]
  f.y = qx - expand(qm, {s.n, s.k, s.d}, {1, 2});
  const Value weights = in.alpha + ops::reduce_sum(in.q, {1});
  const Value norms = ops::reduce_sum(ops::square(f.y), {2});
  f.half = ops::full_like(norms, 0.5);
  f.scores = expand(weights, {s.n, s.k}, {1}) - norms * f.half;
  f.lse = ops::logsumexp(f.scores, {1});
  f.log_weights = ops::logsumexp(in.alpha, {0});
  f.minus_n = ops::full(g, f64, -static_cast<double>(s.n));
  const Value squares =
      ops::reduce_sum(ops::square(f.exp_q), {0, 1}) + ops::reduce_sum(ops::square(in.l), {0, 1});
  f.objective = ops::reduce_sum(f.lse, {0}) + f.log_weights * f.minus_n + squares * in.half_gamma2;
  return f;
}

// Value and gradients by the chain rule, line by line from the last to the first. With `across_lines` also
// simplifications over several lines at once: 1/2 times 2, and the doubling of a scalar instead of two
// arrays.
Graph mixture_by_hand(const Sizes& s, bool across_lines) {
  GraphBuilder g("by hand");
  const Mixture in = mixture_inputs(g, s);
  const Value ct = g.input("ct", f64);
  const Forward f = mixture_forward(g, in, s);
  const Shape nk{s.n, s.k}, nkd{s.n, s.k, s.d};
  const Value ct_squares = ct * in.half_gamma2;
  const Value weights = ops::exp(f.scores - expand(f.lse, nk, {0}));
  const Value seeds = expand(ct, {s.n}, {}) * ops::reciprocal(ops::reduce_sum(weights, {1}));
  const Value ct_scores = expand(seeds, nk, {0}) * weights;
  const Value ct_weights = ops::reduce_sum(ct_scores, {0});
  const Value shares = ops::exp(in.alpha - expand(f.log_weights, {s.k}, {}));
  const Value inverse = ops::reciprocal(ops::reduce_sum(shares, {0}));
  const Value ct_alpha = ct_weights + expand(ct * f.minus_n * inverse, {s.k}, {}) * shares;
  // minus_y is the negative of the cotangent of y, and so that of the broadcast Q_k mu_k.
  const Value minus_y = across_lines ? expand(ct_scores, nkd, {0, 1}) * f.y
                                     : expand(ct_scores * f.half, nkd, {0, 1}) * (f.y + f.y);
  const Value ct_qm = ops::reduce_sum(minus_y, {0});
  const Value ct_means = ops::dot_general(ct_qm, f.factors, {{1}, {1}, {0}, {0}});
  const Value from_means = ops::dot_general(ct_qm, in.means, {{}, {}, {0}, {0}});
  const Value from_x = ops::dot_general(minus_y, in.x, {{0}, {0}, {}, {}});
  const Value ct_factors = ops::reshape(from_means - from_x, {s.k, s.d * s.d});
  const Value zero = ops::full(g, {f64, {s.k, 1 + s.triangle() + s.d}}, 0.0);
  const Value ct_row = ops::scatter_add(zero, f.indices, ct_factors, 1);
  const Value twice = across_lines ? ct_squares + ct_squares : ct_squares;
  const auto of_square = [&](Value x) { return expand(twice, x.shape(), {}) * (across_lines ? x : x + x); };
  const Value ct_l = ops::slice(ct_row, {0, 1}, {s.k, 1 + s.triangle()}) + of_square(in.l);
  const Value ct_exp_q =
      ops::slice(ct_row, {0, 1 + s.triangle()}, {s.k, 1 + s.triangle() + s.d}) + of_square(f.exp_q);
  const Value ct_q = ct_exp_q * f.exp_q + expand(ct_weights, {s.k, s.d}, {0});
  return g.build({f.objective, ct_alpha, ct_means, ct_q, ct_l});
}

// Words for the linear algebra below, of n x n matrices and one right-hand side in a column.
struct Matrices {
  GraphBuilder& g;
  Type type;
  Value row = ops::iota(g, {i32, type.shape()}, 0), column = ops::iota(g, {i32, type.shape()}, 1);
  Value zero = ops::full(g, type, 0.0);

  Value lower(Value x) const { return ops::select_n(ops::ge(row, column), zero, x); }
  Value strictly_lower(Value x) const { return ops::select_n(ops::gt(row, column), zero, x); }
  Value upper(Value x) const { return ops::select_n(ops::le(row, column), zero, x); }
  static Value times(Value x, Value y) { return ops::matmul(x, y); }
  static Value transposed_times(Value x, Value y) { return ops::dot_general(x, y, {{0}, {0}, {}, {}}); }
  static Value times_transposed(Value x, Value y) { return ops::dot_general(x, y, {{1}, {1}, {}, {}}); }
};
constexpr ops::TriangularSolve by_unit_lower{.left_side = true, .lower = true, .unit_diagonal = true};
constexpr ops::TriangularSolve by_upper{.left_side = true};
constexpr ops::TriangularSolve by_lower{.left_side = true, .lower = true};
constexpr ops::TriangularSolve transposed(ops::TriangularSolve how) {
  how.transpose_a = !how.transpose_a;
  return how;
}

struct LuSolution {
  Value factors, permutation, y, x;
};
LuSolution solve_by_lu(Value a, Value b) {
  const Values factors = ops::lu(a);
  const Value y = ops::triangular_solve(factors[0], ops::take(b, factors[2], 0), by_unit_lower);
  return {factors[0], factors[2], y, ops::triangular_solve(factors[0], y, by_upper)};
}

// The cotangents of both triangles, then that of the factorisation as PyTorch has it in its plu_backward:
// ct_A = Pᵀ L⁻ᵀ (tril(Lᵀ ct_L, -1) + triu(ct_U Uᵀ)) U⁻ᵀ.
Graph lu_by_hand(Type a_type, Type b_type) {
  GraphBuilder g("by hand");
  const Value a = g.input("x", a_type), b = g.input("y", b_type), ct = g.input("ct", b_type);
  const Matrices m{g, a_type};
  const LuSolution s = solve_by_lu(a, b);
  const Value ct_y = ops::triangular_solve(s.factors, ct, transposed(by_upper));
  const Value ct_u = m.upper(Matrices::times_transposed(ops::neg(ct_y), s.x));
  const Value ct_pb = ops::triangular_solve(s.factors, ct_y, transposed(by_unit_lower));
  const Value ct_l = m.strictly_lower(Matrices::times_transposed(ops::neg(ct_pb), s.y));
  const Value ct_b = ops::scatter_add(ops::full(g, b_type, 0.0), s.permutation, ct_pb, 0);
  const Value ct_factors = ct_l + ct_u;
  const Value one = ops::convert_element_type(ops::eq(m.row, m.column), a_type.dtype());
  const Value l = ops::select_n(ops::gt(m.row, m.column), one, s.factors), u = m.upper(s.factors);
  const Value w = m.strictly_lower(Matrices::transposed_times(l, ct_factors)) +
                  m.upper(Matrices::times_transposed(ct_factors, u));
  const Value right = ops::triangular_solve(u, w, {.transpose_a = true});
  const Value ct_pa = ops::triangular_solve(l, right, transposed(by_unit_lower));
  return g.build({s.x, ops::scatter_add(m.zero, s.permutation, ct_pa, 0), ct_b});
}

struct CholeskySolution {
  Value l, y, x;
};
CholeskySolution solve_by_cholesky(Value a, Value b) {
  const Value l = ops::cholesky(a);
  const Value y = ops::triangular_solve(l, b, by_lower);
  return {l, y, ops::triangular_solve(l, y, transposed(by_lower))};
}

// The cotangents of L from both solves, then that of the factorisation (Murray, arXiv 1602.07527): ct_A is
// the symmetric part of L⁻ᵀ Φ(Lᵀ ct_L) L⁻¹, Φ the lower triangle with its diagonal halved.
Graph cholesky_by_hand(Type a_type, Type b_type) {
  GraphBuilder g("by hand");
  const Value a = g.input("x", a_type), b = g.input("y", b_type), ct = g.input("ct", b_type);
  const Matrices m{g, a_type};
  const CholeskySolution s = solve_by_cholesky(a, b);
  const Value ct_y = ops::triangular_solve(s.l, ct, by_lower);
  const Value first = m.lower(Matrices::times_transposed(s.x, ops::neg(ct_y)));
  const Value ct_b = ops::triangular_solve(s.l, ct_y, transposed(by_lower));
  const Value second = m.lower(Matrices::times_transposed(ops::neg(ct_b), s.y));
  const Value quarter = ops::full(g, a_type, 0.25), half = ops::full(g, a_type, 0.5);
  const Value weights =
      ops::select_n(ops::gt(m.row, m.column), ops::select_n(ops::ge(m.row, m.column), m.zero, quarter), half);
  const Value w = Matrices::transposed_times(s.l, first + second) * weights;
  const Value left = ops::triangular_solve(s.l, w, transposed(by_lower));
  const Value both = ops::triangular_solve(s.l, left, {.lower = true});
  return g.build({s.x, both + ops::transpose(both, {1, 0}), ct_b});
}

// With all lines seen at once: ct_b = A⁻ᵀ ct, ct_A = -ct_b xᵀ.
Graph lu_across_lines(Type a_type, Type b_type) {
  GraphBuilder g("across lines");
  const Value a = g.input("x", a_type), b = g.input("y", b_type), ct = g.input("ct", b_type);
  const LuSolution s = solve_by_lu(a, b);
  const Value ct_y = ops::triangular_solve(s.factors, ct, transposed(by_upper));
  const Value ct_pb = ops::triangular_solve(s.factors, ct_y, transposed(by_unit_lower));
  const Value ct_b = ops::scatter_add(ops::full(g, b_type, 0.0), s.permutation, ct_pb, 0);
  return g.build({s.x, Matrices::times_transposed(ops::neg(ct_b), s.x), ct_b});
}

}  // namespace

TEST_CASE("operation counts: a matrix product") {
  const Type a{f64, {3, 4}}, b{f64, {4, 5}}, c{f64, {3, 5}};
  const Graph f = of_xy(a, b, [](Value x, Value y) { return ops::matmul(x, y); });
  GraphBuilder g("by hand");
  const Value x = g.input("x", a), y = g.input("y", b), ct = g.input("ct", c);
  compare("a matrix product", vjp(f),
          g.build({ops::matmul(x, y), ops::dot_general(ct, y, {{1}, {1}, {}, {}}),
                   ops::dot_general(x, ct, {{0}, {0}, {}, {}})}));
}

TEST_CASE("operation counts: a softmax") {
  const Type type{f64, {3, 4}};
  const Graph f = of_x(type, [](Value x) { return softmax(x); });
  GraphBuilder g("by hand");
  const Value x = g.input("x", type), ct = g.input("ct", type);
  const Value p = softmax(x);
  compare("a softmax", vjp(f), g.build({p, softmax_back(p, ct)}));
}

TEST_CASE("operation counts: a layer norm") {
  GraphBuilder g("layer norm");
  const LayerNorm f = layer_norm(g);
  compare("a layer norm", vjp(g.build({f.y})), layer_norm_by_hand());
  std::cout << "  (by hand and with what cancels across lines taken out: "
            << prune(layer_norm_across_lines()).num_operations() << ")\n";
}

TEST_CASE("operation counts: attention") {
  GraphBuilder g("attention");
  const Attention f = attention(g);
  GraphBuilder by_hand("by hand");
  const Attention a = attention(by_hand);
  const Value ct = by_hand.input("ct", a.y.type());
  const Value ct_s = softmax_back(a.p, ops::dot_general(ct, a.v, {{3}, {3}, {0, 1}, {0, 1}})) * a.scale;
  compare("attention", vjp(g.build({f.y})),
          by_hand.build({a.y, ops::dot_general(ct_s, a.k, {{3}, {2}, {0, 1}, {0, 1}}),
                         ops::dot_general(ct_s, a.q, {{2}, {2}, {0, 1}, {0, 1}}),
                         ops::dot_general(a.p, ct, {{2}, {2}, {0, 1}, {0, 1}})}));
}

TEST_CASE("operation counts: a Gaussian mixture") {
  const Sizes s;
  GraphBuilder g("gmm");
  const Mixture in = mixture_inputs(g, s);
  const Graph f = g.build({mixture_forward(g, in, s).objective});
  compare("a Gaussian mixture", vjp(f, {"alpha", "means", "q", "l"}), mixture_by_hand(s, false));
  std::cout << "  (by hand and with what cancels across lines taken out: "
            << prune(mixture_by_hand(s, true)).num_operations() << ")\n";
}

TEST_CASE("operation counts: linear equations solved by LU and by Cholesky factors") {
  const Type a{f64, {4, 4}}, b{f64, {4, 1}};
  const Graph by_lu = of_xy(a, b, [](Value x, Value y) { return solve_by_lu(x, y).x; });
  compare("an LU solve", vjp(by_lu), lu_by_hand(a, b));
  std::cout << "  (by hand and with what cancels across lines taken out: "
            << prune(lu_across_lines(a, b)).num_operations() << ")\n";
  const Graph by_factor = of_xy(a, b, [](Value x, Value y) { return solve_by_cholesky(x, y).x; });
  compare("a Cholesky solve", vjp(by_factor), cholesky_by_hand(a, b), true);
}
