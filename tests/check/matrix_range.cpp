// matrix_range.cpp - derivatives of decompositions and solutions at every scale of the dtype, in every mode,
// on both executors, by a scaling law: vectors and other parts of c A are those of A. So f(c A) = f(A) of a
// function f of these alone, its derivative along c V at c A is that along V at A, and its gradient and
// Hessian times c and c² are those at A.
#include <array>

#include "check/helpers.hpp"
#include "primitives/matrices.hpp"
#include "support/support.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/linalg.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::matrix_range_cases {
namespace {

using namespace tidu::test;

// Re <weights, x>
Value paired(Value weights, Value x) {
  Ints axes;
  for (std::size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (is_complex(x.dtype())) weights = ops::conj(weights);
  const Value sum = ops::reduce_sum(weights * x, axes);
  return is_complex(x.dtype()) ? ops::real(sum) : sum;
}

// Columns of u times 1, 2, ..., in which signs and phases of vectors are left to cancel.
Value numbered(Value u) {
  const Value numbers =
      ops::iota(*u.emitter(), Type(i32, u.shape()), static_cast<std::int64_t>(u.rank()) - 1);
  return u * (ops::convert_element_type(numbers, u.dtype()) + ops::full_like(u, 1.0));
}

// Σ_k k <weights, u_k v_kᴴ>, and the same of eigenvectors.
Value of_singular(Value x, Value weights) {
  const Values f = ops::svd(x);
  return paired(weights, prim::matrix_product(numbered(f[0]), f[2]));
}
Value of_eigenvectors(Value x, Value weights) {
  const Value v = ops::eigh(x)[0];
  return paired(weights, prim::matrix_product(numbered(v), prim::As::is, v, prim::As::adjoint));
}

using Function = Value (*)(Value, Value);

// The first result of a graph on these values.
Value first_of(Emitter& builder, const Graph& graph, std::span<const Value> inputs) {
  return inline_graph(builder, graph, inputs)[graph.outputs()[0]];
}

Value of_q(Value x, Value weights) { return paired(weights, ops::qr(x)[0]); }
Value of_l(Value x, Value weights) {
  return paired(weights, prim::part_of(ops::lu(x)[0], prim::Part::strictly_lower));
}
// By rows divided by the elements of the diagonal.
Value of_cholesky(Value x, Value weights) {
  const Value l = ops::cholesky(x);
  return paired(weights, l / prim::by_row(prim::diagonal(l), l.shape()));
}
// The result of a function of Arrays.
Value called(Array (*f)(const Array&), Value x) {
  return first_of(*x.emitter(), trace(f, x.type()), std::array{x});
}
Value of_solve(Value x, Value weights) {
  return paired(weights, called([](const Array& a) { return linalg::solve(a, flip(a, {-1})); }, x));
}
Value of_inv(Value x, Value weights) {
  return paired(weights, called([](const Array& a) { return matmul(linalg::inv(a), flip(a, {-1})); }, x));
}
Value of_slogdet(Value x, Value weights) {
  return called([](const Array& a) { return tidu::sum(linalg::slogdet(a).second); }, x) +
         paired(weights, ops::full_like(weights, 0.0));
}

// Of x, weights and a direction: f's derivative along it, its gradient, the gradient's derivative along it
// (forward over reverse) and the gradient of the gradient along it (reverse over reverse).
Graph all_modes(Function f, Type type) {
  GraphBuilder g("f");
  const Value x = g.input("x", type), weights = g.input("weights", type);
  const Graph value = g.build({f(x, weights)});
  const Graph gradient = grad(value, {"x"}, {.named_inputs = true});
  GraphBuilder h("along");
  const Value at = h.input("x", type), with = h.input("weights", type), along = h.input("along", type);
  const Value slope = paired(along, first_of(h, gradient, std::array{at, with}));
  const Graph second = grad(h.build({slope}), {"x"}, {.named_inputs = true});
  const Graph forward = tangents_of(value, {"x"}), forward_over_reverse = tangents_of(gradient, {"x"});
  GraphBuilder b("all");
  const Value p = b.input("x", type), q = b.input("weights", type), r = b.input("along", type);
  const std::array inputs{p, q, r};
  return b.build({first_of(b, forward, inputs), first_of(b, gradient, std::array{p, q}),
                  first_of(b, forward_over_reverse, inputs), first_of(b, second, inputs)});
}

Numbers scaled_by(double c, Numbers x) {
  for (Complex& z : x) z *= c;
  return x;
}

// Elements that f32 has.
Numbers drawn(Type type, std::uint64_t seed) {
  check::Random random(seed);
  const Type single(is_complex(type.dtype()) ? c64 : f32, type.shape());
  return check::numbers_of(check::random_tensor(random, single));
}

// Results of all_modes at c times `x` along c times `along`, times 1, c, c and c.
std::vector<Numbers> at_scale(const Executor& executor, Function f, Type type, double c, const Numbers& x,
                              const Numbers& weights, const Numbers& along) {
  const Tensors inputs{check::tensor_of(type, scaled_by(c, x)), check::tensor_of(type, weights),
                       check::tensor_of(type, scaled_by(c, along))};
  std::vector<Numbers> results;
  for (const Tensor& result : executor.run(all_modes(f, type), inputs)) {
    Numbers numbers;
    for (std::int64_t i = 0; i < result.size(); ++i)
      numbers.push_back(result.at(i) * (results.empty() ? 1.0 : c));
    results.push_back(numbers);
  }
  return results;
}

double distance(const Numbers& a, const Numbers& b) {
  double most = 0, size = 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    size = std::max(size, std::abs(b[i]));
    most = off <= most ? most : off;  // NaN, too
  }
  return most / size;
}

// `diagonal` is added to the elements of x there.
void check_scales(Function f, const Shape& shape, std::uint64_t seed, double diagonal = 0) {
  for (const DType dtype : {f64, c128, f32, c64}) {
    const bool wide = dtype == f64 || dtype == c128;
    const Type type(dtype, shape), exact(is_complex(dtype) ? c128 : f64, shape);
    Numbers x = drawn(type, seed);
    const std::int64_t rows = prim::rows_of(type), columns = prim::columns_of(type);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) % (rows * columns);
      if (at / columns == at % columns) x[i] += diagonal;
    }
    const Numbers weights = drawn(type, seed + 1), along = drawn(type, seed + 2);
    const std::vector<Numbers> expected = at_scale(reference(), f, exact, 1.0, x, weights, along);
    CHECK(distance(expected[2], expected[3]) < 1e-10);
    const std::array<double, 9> scales =
        wide ? std::array{0x1p-996, 0x1p-530, 0x1p-70, 0x1p-10, 1.0, 0x1p10, 0x1p70, 0x1p530, 0x1p996}
             : std::array{0x1p-120, 0x1p-70, 0x1p-30, 0x1p-10, 1.0, 0x1p10, 0x1p30, 0x1p70, 0x1p120};
    for (const double c : scales) {
      for (const Executor* executor :
           {static_cast<const Executor*>(&cpu()), static_cast<const Executor*>(&reference())}) {
        const std::vector<Numbers> got = at_scale(*executor, f, type, c, x, weights, along);
        for (std::size_t mode = 0; mode < 4; ++mode) {
          CAPTURE(type);
          CAPTURE(c);
          CAPTURE(mode);
          CAPTURE(executor == &cpu());
          CHECK(distance(got[mode], expected[mode]) < (wide ? 1e-9 : 2e-3));
        }
      }
    }
  }
}

TEST_CASE("derivatives of singular vectors follow the matrix' scale over the whole range") {
  std::uint64_t seed = 1;
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}, Shape{2, 3, 2}, Shape{1, 1}})
    check_scales(of_singular, shape, seed += 3);
}

TEST_CASE("derivatives of eigenvectors follow the matrix' scale over the whole range") {
  std::uint64_t seed = 31;
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 3, 3}, Shape{1, 1}})
    check_scales(of_eigenvectors, shape, seed += 3);
}

TEST_CASE("derivatives of factorizations and solutions follow the matrix' scale over the whole range") {
  std::uint64_t seed = 61;
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 3, 3}, Shape{1, 1}}) {
    for (const Function f : {of_q, of_l, of_cholesky, of_solve, of_inv, of_slogdet})
      check_scales(f, shape, seed += 3, 4);
  }
  check_scales(of_q, {4, 2}, seed, 2);
  check_scales(of_l, {4, 2}, seed, 2);
  check_scales(of_q, {2, 2}, seed + 3, 2);
}

// f = (v₁)₀² = (1 + d/r)/2 of [[a, b], [b, c]], d = a - c and r = √(d² + 4b²), v₁ the vector of the greater
// eigenvalue: ∂f/∂a = 2b²/r³ and ∂²f/∂a² = -6b²d/r⁵, by the symmetric part of the matrix.
TEST_CASE("derivatives of an eigenvector are those of the closed form") {
  const auto squared = [](Value x) {
    const Value v = ops::slice(ops::eigh(x)[0], {0, 1}, {1, 2});
    return ops::reshape(v * v, {});
  };
  for (const double gap : {1.0, 1e-3, 1e-6}) {
    const double d = gap, b = gap / 2, r = std::sqrt(d * d + 4 * b * b);
    const Tensor x = Tensor::from<double>({2, 2}, {1 + d, b, b, 1}),
                 along = Tensor::from<double>({2, 2}, {1, 0, 0, 0});
    const Graph f = of_x({f64, {2, 2}}, squared), gradient = grad(f);
    CHECK(run(gradient, {x})[0].at(0).real() ==
          doctest::Approx(2 * b * b / (r * r * r)).epsilon(1e-15 / gap));
    CHECK(run(tangents_of(gradient), {x, along})[0].at(0).real() ==
          doctest::Approx(-6 * b * b * d / std::pow(r, 5)).epsilon(1e-14 / gap));
  }
}

}  // namespace
}  // namespace tidu::matrix_range_cases
