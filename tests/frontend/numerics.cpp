// numerics.cpp - functions of Arrays for order, positions, sums over named axes, windows and linear
// algebra: values against plain loops, identities or JAX's results, gradients of all of them against
// differences, on the tape and traced, and how they refuse.
#include <algorithm>
#include <map>
#include <numeric>

#include "support.hpp"

namespace tidu::test {
namespace {

using Doubles = std::vector<double>;

Array matrix(std::int64_t m, std::int64_t n, unsigned seed) { return random_array({m, n}, seed); }
// Far from singular, not symmetric.
Array regular(std::int64_t n, unsigned seed) { return matrix(n, n, seed) + 3.0 * eye(n); }
Array definite(std::int64_t n, unsigned seed) {
  const Array a = matrix(n, n, seed);
  return matmul(a, a.T()) + eye(n);
}
Array adjoint(const Array& x) { return swapaxes(x, -1, -2); }

TEST_CASE("order") {
  const Array x = array({{3.0, -1, 2, 2}, {0.5, 7, -7, 1}});
  CHECK(elements(sort(x)) == Doubles{-1, 2, 2, 3, -7, 0.5, 1, 7});
  CHECK(elements(sort(x, 0)) == Doubles{0.5, -1, -7, 1, 3, 7, 2, 2});
  CHECK(argsort(x).dtype() == i32);
  CHECK(elements(argsort(x)) == Doubles{1, 2, 3, 0, 2, 0, 3, 1});
  CHECK(elements(argsort(x, -2)) == Doubles{1, 0, 1, 1, 0, 1, 0, 0});
  const auto [keys, moved] = sort_key_val(x, arange(8).reshape({2, 4}));
  CHECK(elements(keys) == elements(sort(x)));
  CHECK(elements(moved) == Doubles{1, 2, 3, 0, 6, 4, 7, 5});
  const auto columns = sort_all({array({1, 0, 1, 0}), array({2.0, 9, 1, 3}), array({0, 1, 2, 3})}, 0, 2);
  CHECK(elements(columns[1]) == Doubles{3, 9, 1, 2});
  CHECK(elements(columns[2]) == Doubles{3, 1, 2, 0});
  const auto [values, places] = top_k(x, 2);
  CHECK(elements(values) == Doubles{3, 2, 7, 1});
  CHECK(elements(places) == Doubles{0, 2, 1, 3});
  CHECK(elements(top_k(x, 1, 0).first) == Doubles{3, 7, 2, 2});
}

TEST_CASE("accumulations, positions and shapes") {
  const Array x = array({{1.0, 3, 2}, {4, -1, 5}});
  CHECK(elements(cumprod(x, 1)) == Doubles{1, 3, 6, 4, -4, -20});
  CHECK(elements(cummax(x, 1)) == Doubles{1, 3, 3, 4, 4, 5});
  CHECK(elements(cummin(x, -1, true)) == Doubles{1, 2, 2, -1, -1, 5});
  CHECK(elements(cummax(array({1, 0, 2}))) == Doubles{1, 1, 2});
  CHECK(distance(cumlogsumexp(x, 0), log(cumsum(exp(x), 0))) < 1e-14);
  CHECK(elements(isnan(array({0.0, 1.0}) / 0.0)) == Doubles{1, 0});
  CHECK(elements(isinf(array({0.0, 1.0}) / 0.0)) == Doubles{0, 1});
  CHECK(elements(polygamma(1, array({1.0})))[0] == doctest::Approx(1.6449340668482264));
  CHECK(elements(polygamma(0, array({1.0})))[0] == doctest::Approx(-0.5772156649015329));
  CHECK(nextafter(array({1.0}), 2.0)[0].item() == std::nextafter(1.0, 2.0));
  CHECK(complex(array({1.0, 2.0}), -1.0).tensor().at(1) == std::complex<double>(2, -1));

  CHECK(elements(dynamic_slice(x, {array({0, 1})[1], 1}, {1, 2})) == Doubles{-1, 5});
  CHECK(elements(dynamic_slice(x, {7, -9}, {2, 1})) == Doubles{1, 4});
  CHECK(elements(dynamic_update_slice(x, array({{8, 9}}), {1, 5})) == Doubles{1, 3, 2, 4, 8, 9});
  CHECK(elements(scatter_add(x, array({1, 1}), array({{1, 1, 1}, {10, 10, 10}}))) ==
        Doubles{1, 3, 2, 15, 10, 16});
  CHECK(elements(scatter_add(x, array({2, 0}), array({{1, 2}, {3, 4}}), 1)) == Doubles{3, 3, 3, 8, -1, 8});
  CHECK(elements(scatter_add_along_axis(x, array({{2, 2}, {0, 1}}), array({{1, 2}, {3, 4}}), -1)) ==
        Doubles{1, 3, 5, 7, 3, 5});
  CHECK(elements(pad(array({1.0, 2.0}), {{1, 2, 1}}, 7)) == Doubles{7, 1, 7, 2, 7, 7});
  CHECK(elements(pad(x, {{-1, 0}, {0, 1}})) == Doubles{4, -1, 5, 0});
  CHECK(pad(x, {{1, 1}}).shape() == Shape{4, 5});
  CHECK(elements(tril(x)) == Doubles{1, 0, 0, 4, -1, 0});
  CHECK(elements(triu(x, 1)) == Doubles{0, 3, 2, 0, 0, 5});
  CHECK(elements(diagonal(x)) == Doubles{1, -1});
  CHECK(elements(diagonal(x.T())) == Doubles{1, -1});
}

// Every term of the sum, one after another: for specs with "->" and without "...".
Array plain_einsum(const std::string& spec, const std::vector<Array>& operands) {
  std::vector<std::string> terms{""};
  const std::size_t arrow = spec.find("->");
  for (const char c : spec.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  const std::string result = spec.substr(arrow + 2);
  std::map<char, std::int64_t> extents, at;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t k = 0; k < terms[i].size(); ++k) extents[terms[i][k]] = operands[i].shape()[k];
  Shape shape;
  for (const char c : result) shape.push_back(extents[c]);
  Doubles sums(static_cast<std::size_t>(num_elements(shape)));
  std::int64_t count = 1;
  for (const auto& [label, extent] : extents) count *= extent;
  const auto flat = [&](const std::string& term) {
    std::int64_t position = 0;
    for (const char c : term) position = position * extents[c] + at[c];
    return position;
  };
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t rest = n;
    for (const auto& [label, extent] : extents) at[label] = rest % extent, rest /= extent;
    double product = 1.0;
    for (std::size_t i = 0; i < terms.size(); ++i) product *= operands[i].tensor().at(flat(terms[i])).real();
    sums[static_cast<std::size_t>(flat(result))] += product;
  }
  return array(sums, shape);
}

TEST_CASE("einsum and tensordot") {
  const std::map<char, std::int64_t> extents{{'i', 2}, {'j', 3}, {'k', 4}, {'l', 2}, {'m', 3}};
  for (const std::string spec :
       {"ij->ji",       "ij->",      "ii->i",        "iij->j",        "iji->ij",       "kk->",
        "iijj->ji",     "ij,jk->ik", "ij,jk->ki",    "i,j->ij",       "i,i->",         "ij,ij->i",
        "ijk,ikl->ijl", "ijk,jkl->", "ij,jk,kl->il", "i,ij,j->",      "ij,ik,il->jkl", "ij,jk,ik->ik",
        "iik,kl->il",   "ij,km->jm", "ij,,jk->ik",   "ijk,ijk,ijk->k"}) {
    CAPTURE(spec);
    std::vector<Array> operands;
    std::vector<Shape> shapes(1);
    for (const char c : spec.substr(0, spec.find("->"))) {
      if (c == ',') {
        shapes.emplace_back();
      } else {
        shapes.back().push_back(extents.at(c));
      }
    }
    for (const Shape& shape : shapes)
      operands.push_back(random_array(shape, 7U + static_cast<unsigned>(operands.size())));
    CHECK(distance(einsum(spec, operands), plain_einsum(spec, operands)) < 1e-13);
  }
  const Array x = random_array({5, 2, 3}, 1), y = random_array({3, 4}, 2), z = random_array({1, 3, 4}, 3);
  CHECK(distance(einsum("ij,jk", {x[0], y}), matmul(x[0], y)) < 1e-14);
  CHECK(distance(einsum("ba", {y}), y.T()) == 0.0);
  CHECK(distance(einsum(" ...ij, jk -> ...ik ", {x, y}), matmul(x, y)) < 1e-14);
  CHECK(distance(einsum("...ij,...jk", {x, z}), matmul(x, z)) < 1e-14);
  CHECK(distance(einsum("...j,...j->...", {x, x[0]}), sum(x * x[0], -1)) < 1e-14);
  CHECK(distance(einsum("i...->...", {x}), sum(x, 0)) < 1e-14);
  CHECK(einsum("i,i", {array({1, 2}), array({0.5, 1.0})}).item() == 2.5);
  // Extents of 1 are broadcast.
  const Array row = random_array({1, 4}, 4), one = random_array({1, 1}, 5), square = random_array({3, 3}, 6);
  CHECK(distance(einsum("ij,ij->ij", {row, y}), row * y) < 1e-14);
  CHECK(distance(einsum("ij,ij->", {y, row}), sum(row * y)) < 1e-13);
  CHECK(distance(einsum("ij,ij->j", {row, row}), row[0] * row[0]) < 1e-14);
  CHECK(distance(einsum("ii,ij->ij", {one, y}), one * y) < 1e-14);
  CHECK(distance(einsum("ii,ij,jj->i", {square, row, one}), diagonal(square) * sum(row * one)) < 1e-13);
  CHECK(distance(grad([&](const Array& a) {
                   return sum(einsum("ij,ij->ij", {a, y}));
                 })(row),
                 sum(y, 0, true)) < 1e-13);
  CHECK(distance(tensordot(x, y, 1), einsum("abc,cd->abd", {x, y})) < 1e-14);
  CHECK(distance(tensordot(x, x, 3), sum(x * x)) < 1e-13);
  CHECK(distance(tensordot(x, y, {{-1}, {0}}), tensordot(x, y, 1)) == 0.0);
  CHECK(distance(tensordot(x, x, {{0, 2}, {0, 2}}), einsum("abc,adc->bd", {x, x})) < 1e-13);
  CHECK(tensordot(x, y, 0).shape() == Shape{5, 2, 3, 3, 4});
}

// conv2d with low padding, in loops.
Array plain_conv2d(const Array& x, const Array& kernel, std::int64_t stride, std::int64_t low,
                   std::int64_t dilation, const Shape& shape) {
  std::vector<double> out;
  const auto at = [](const Array& of, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    if (c < 0 || d < 0 || c >= of.shape()[2] || d >= of.shape()[3]) return 0.0;
    return of.tensor().at(((a * of.shape()[1] + b) * of.shape()[2] + c) * of.shape()[3] + d).real();
  };
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t o = 0; o < shape[1]; ++o)
      for (std::int64_t p = 0; p < shape[2]; ++p)
        for (std::int64_t q = 0; q < shape[3]; ++q) {
          double total = 0.0;
          for (std::int64_t i = 0; i < x.shape()[1]; ++i)
            for (std::int64_t k = 0; k < kernel.shape()[2]; ++k)
              for (std::int64_t l = 0; l < kernel.shape()[3]; ++l)
                total += at(kernel, o, i, k, l) *
                         at(x, b, i, p * stride + k * dilation - low, q * stride + l * dilation - low);
          out.push_back(total);
        }
  return array(out, shape);
}

TEST_CASE("windows") {
  const Array x = random_array({2, 3, 7, 6}, 1), kernel = random_array({4, 3, 3, 2}, 2);
  CHECK(distance(conv2d(x, kernel), plain_conv2d(x, kernel, 1, 0, 1, {2, 4, 5, 5})) < 1e-13);
  CHECK(distance(conv2d(x, kernel, {2, 2}, 1), plain_conv2d(x, kernel, 2, 1, 1, {2, 4, 4, 4})) < 1e-13);
  CHECK(distance(conv2d(x, kernel, {}, {{2, 1}, {2, 0}}, {2, 2}),
                 plain_conv2d(x, kernel, 1, 2, 2, {2, 4, 6, 6})) < 1e-13);
  CHECK(conv2d(x, kernel, {2, 2}, "SAME").shape() == Shape{2, 4, 4, 3});
  const Array same = conv2d(x, kernel, {}, "SAME");  // of an even kernel the odd zero comes after
  CHECK(distance(same, conv2d(x, kernel, {}, {{1, 1}, {0, 1}})) == 0.0);
  CHECK(distance(conv2d(x, kernel, {2, 2}, 1),
                 conv_general_dilated(x, kernel, {.window_strides = {2, 2}, .padding = {{1, 1}, {1, 1}}})) ==
        0.0);
  const Array grouped = conv2d(x, kernel.slice({{0, 3}, {0, 1}}), {}, "VALID", {}, 3);
  CHECK(distance(grouped.slice({{}, {1, 2}}), conv2d(x.slice({{}, {1, 2}}), kernel.slice({{1, 2}, {0, 1}}))) <
        1e-14);

  const Array y = arange(16, f64).reshape({1, 1, 4, 4}), line = array({{{1.0, -2, 3, -4, 5}}});
  CHECK(elements(max_pool(y, {2, 2})) == Doubles{5, 7, 13, 15});
  CHECK(elements(avg_pool(y, {2, 2})) == Doubles{2.5, 4.5, 10.5, 12.5});
  CHECK(elements(max_pool(y, {2, 2}, {1, 1})) == Doubles{5, 6, 7, 9, 10, 11, 13, 14, 15});
  CHECK(elements(max_pool(line, {2}, {2}, "SAME")) == Doubles{1, 3, 5});
  CHECK(elements(max_pool(line, {2}, {2}, {{1, 0}})) == Doubles{1, 3, 5});
  CHECK(elements(avg_pool(line, {3}, {1}, 1)) == Doubles{-1.0 / 3, 2.0 / 3, -1, 4.0 / 3, 1.0 / 3});
  CHECK(elements(max_pool(array({{{1, 3, 2}}}), {2}, {1})) == Doubles{3, 3});
}

TEST_CASE("linear algebra") {
  using namespace linalg;
  const Array a = random_array({2, 4, 4}, 1) + 3.0 * eye(4), b = random_array({2, 4, 3}, 2),
              v = random_array({4}, 3), s = matmul(a, adjoint(a));
  CHECK(distance(matmul(a, solve(a, b)), b) < 1e-13);
  const auto times = [](const Array& p, const Array& q) { return einsum("...ij,...j->...i", {p, q}); };
  CHECK(distance(times(a, solve(a, v)), broadcast_to(v, {2, 4})) < 1e-13);
  CHECK(distance(matmul(a[0], solve(a[0], b)), b) < 1e-13);  // one matrix for several
  CHECK(distance(matmul(a[0], solve(a[0], b[1])), b[1]) < 1e-13);
  CHECK(distance(matmul(inv(a), a), broadcast_to(eye(4), {2, 4, 4})) < 1e-13);
  const Array l = linalg::cholesky(s);
  CHECK(distance(matmul(l, adjoint(l)), s) < 1e-12);
  CHECK(distance(cho_solve(l, b), solve(s, b)) < 1e-12);
  CHECK(distance(cho_solve(adjoint(l), v, false), solve(s, v)) < 1e-12);
  CHECK(distance(matmul(l, solve_triangular(l, b, {.lower = true})), b) < 1e-13);
  CHECK(distance(times(triu(a), solve_triangular(a, v)), broadcast_to(v, {2, 4})) < 1e-13);
  CHECK(distance(matmul(adjoint(l), solve_triangular(l, b, {.lower = true, .transpose = true})), b) < 1e-13);
  const Array left = solve_triangular(a, adjoint(b), {.unit_diagonal = true, .left_side = false});
  CHECK(distance(matmul(left, triu(a, 1) + eye(4)), adjoint(b)) < 1e-13);
  CHECK(distance(matmul(solve_triangular(a[1], v, {.left_side = false}), triu(a[1])), v) < 1e-13);

  const auto [factors, pivots, permutation] = lu(a[0]);
  CHECK(distance(matmul(tril(factors, -1) + eye(4), triu(factors)), take(a[0], permutation)) < 1e-14);
  CHECK(pivots.type() == Type(i32, {4}));
  const auto [q, r] = qr(b);
  CHECK(distance(matmul(q, r), b) < 1e-14);
  CHECK(distance(matmul(adjoint(q), q), broadcast_to(eye(3), {2, 3, 3})) < 1e-14);
  const auto [w, vectors] = eigh(s);
  CHECK(w.shape() == Shape{2, 4});
  CHECK(distance(matmul(s, vectors), vectors * expand_dims(w, 1)) < 1e-12);
  const auto [u, sigma, vh] = svd(b);
  CHECK(distance(matmul(u * expand_dims(sigma, 1), vh), b) < 1e-13);

  for (std::int64_t n = 0; n < 6; ++n) {  // explicit formulas, and factors
    CAPTURE(n);
    const Array x = random_array({2, n, n}, 9U + static_cast<unsigned>(n));
    const auto [sign, logarithm] = slogdet(x);
    CHECK(distance(sign * exp(logarithm), det(x)) < 1e-12);
    CHECK(distance(det(matmul(x, x)), square(det(x))) < 1e-9);
    CHECK(distance(det(swapaxes(x, 1, 2)), det(x)) < 1e-12);
  }
  CHECK(det(array({{2, 1}, {7, 4}})).item() == 1.0);
  CHECK(det(array({{2.0, 1, 3}, {7, 4, 0}, {1, 1, 1}})).item() == 10.0);
  CHECK(det(flip(eye(4), 0) * array({1.0, 2.0, 3.0, 4.0})).item() == 24.0);
  CHECK(elements(slogdet(ones({4, 4})).second)[0] == -INFINITY);
  const Array z = complex(a[0], a[1]);
  const auto [phase, magnitude] = slogdet(z);
  CHECK(distance(phase * exp(magnitude), det(z)) < 1e-10);
  CHECK(distance(matmul(z, inv(z)), eye(4).to(c128)) < 1e-13);

  const Array x = array({{3.0, -4.0}, {0.0, 12.0}});
  CHECK(linalg::norm(x).item() == 13.0);
  CHECK(elements(linalg::norm(x, 1)) == Doubles{5, 12});
  CHECK(linalg::norm(x, -1, true).shape() == Shape{2, 1});
  CHECK(linalg::norm(complex(array({3.0}), array({-4.0}))).item() == 5.0);
  CHECK(elements(vector_norm(x, 1, 0)) == Doubles{3, 16});
  CHECK(vector_norm(x, INFINITY).item() == 12.0);
  CHECK(vector_norm(x, -INFINITY).item() == 0.0);
  for (const double ord : {0.0, 1.0, 2.0, 3.0, HUGE_VAL}) {
    CHECK(vector_norm(zeros({0}), ord).item() == 0.0);
    CHECK(elements(vector_norm(zeros({2, 0}), ord, 1)) == Doubles{0, 0});
  }
  CHECK(vector_norm(zeros({0}), -INFINITY).item() == INFINITY);
  CHECK(vector_norm(zeros({0}), -1).item() == INFINITY);
  CHECK(vector_norm(x, 0).item() == 3.0);
  CHECK(vector_norm(x, 3).item() == doctest::Approx(std::cbrt(27.0 + 64 + 1728)));
}

// jax.random 0.10.2, jax_threefry_partitionable, of key(0x123456789ab).
TEST_CASE("gradients") {
  using namespace linalg;
  const Array x = random_array({3, 4}, 31), y = random_array({4, 2}, 32),
              image = random_array({1, 2, 5, 4}, 33), kernel = random_array({3, 2, 2, 3}, 34),
              square_ = regular(4, 35), spd = definite(4, 36), sides = random_array({4, 2}, 37),
              batch = random_array({2, 3, 3}, 38) + 3.0 * eye(3);
  const Array l = linalg::cholesky(spd),
              singular = matmul(random_array({3, 2}, 39), random_array({2, 3}, 40));
  struct Row {
    const char* name;
    Function f;
    const Array& at;
  };
  const Row rows[] = {
      {"sort", [](const Array& a) { return sort(a); }, x},
      {"sort 0", [](const Array& a) { return sort(a, 0); }, x},
      {"sort_key_val", [&](const Array& a) { return sort_key_val(x, a * a).second; }, x},
      {"sort_all",
       [](const Array& a) {
         return sort_all({a, sin(a)}, 0)[1] + sort_all({a, a}, 0)[0];
       },
       x},
      {"top_k", [](const Array& a) { return top_k(a, 2, 0).first; }, x},
      {"cumprod", [](const Array& a) { return cumprod(a, 1); }, x},
      {"cummax", [](const Array& a) { return cummax(a, 1); }, x},
      {"cummin", [](const Array& a) { return cummin(a, 0, true); }, x},
      {"cumlogsumexp", [](const Array& a) { return cumlogsumexp(a, -1, true); }, x},
      {"polygamma", [](const Array& a) { return polygamma(1, a * a + 1.0); }, x},
      {"complex", [](const Array& a) { return abs(complex(a, 2 * a + 1.0)); }, x},
      {"dynamic_slice",
       [](const Array& a) {
         return dynamic_slice(a, {1, 2}, {2, 1});
       },
       x},
      {"dynamic_update_slice",
       [&](const Array& a) {
         return dynamic_update_slice(a, square(a).slice({{0, 2}, {0, 2}}), {9, 1});
       },
       x},
      {"scatter_add",
       [&](const Array& a) {
         return scatter_add(y, array({1, 1, 3}), a.slice({{}, {0, 2}}));
       },
       x},
      {"scatter_add_along_axis",
       [&](const Array& a) {
         return scatter_add_along_axis(a, array({{0, 0}, {1, 3}, {2, 2}}),
                                       y.slice({{1, 4}}) + a.slice({{}, {0, 2}}), 1);
       },
       x},
      {"pad",
       [](const Array& a) {
         return pad(a, {{1, 0, 1}, {-1, 2}}, 3.0);
       },
       x},
      {"pad value",
       [&](const Array& a) {
         return pad(x, {{1, 0, 1}, {-1, 2}}, a[0][0]);
       },
       x},
      {"tril", [](const Array& a) { return tril(a, 1) + triu(a) * 2; }, x},
      {"diagonal", [](const Array& a) { return diagonal(a); }, x},
      {"einsum",
       [&](const Array& a) {
         return einsum("ij,jk,ij->ki", {a, y, a});
       },
       x},
      {"einsum diagonal",
       [](const Array& a) {
         return einsum("ii,...i->...i", {a, a});
       },
       square_},
      {"tensordot",
       [&](const Array& a) {
         return tensordot(y, a, {{0}, {1}});
       },
       x},
      {"conv2d image",
       [&](const Array& a) {
         return conv2d(a, kernel, {2, 1}, "SAME");
       },
       image},
      {"conv2d kernel",
       [&](const Array& a) {
         return conv2d(image, a, {}, 1, {2, 1});
       },
       kernel},
      {"max_pool",
       [](const Array& a) {
         return max_pool(a, {2, 3}, {1, 2}, "SAME");
       },
       image},
      {"avg_pool",
       [](const Array& a) {
         return avg_pool(a, {2, 2});
       },
       image},
      {"cholesky", [](const Array& a) { return linalg::cholesky(a); }, spd},
      {"lu", [](const Array& a) { return std::get<0>(lu(a)); }, square_},
      {"qr", [](const Array& a) { return matmul(qr(a).first, qr(a).second + 1.0); }, square_},
      {"eigh", [](const Array& a) { return square(eigh(a).second) * eigh(a).first; }, spd},
      {"svd", [](const Array& a) { return square(std::get<0>(svd(a))) * std::get<1>(svd(a)); }, square_},
      {"solve matrix", [&](const Array& a) { return solve(a, sides); }, square_},
      {"solve sides", [&](const Array& a) { return solve(square_, a); }, sides},
      {"solve batch", [&](const Array& a) { return solve(a, x); }, batch},
      {"solve_triangular", [&](const Array& a) { return solve_triangular(a, sides, {.lower = true}); }, l},
      {"cho_solve", [&](const Array& a) { return cho_solve(linalg::cholesky(a), sides); }, spd},
      {"inv", [](const Array& a) { return inv(a); }, batch},
      {"det", [](const Array& a) { return det(a); }, square_},
      {"det 3", [](const Array& a) { return det(a); }, batch},
      {"det singular", [](const Array& a) { return det(a); }, singular},
      {"slogdet", [](const Array& a) { return slogdet(a).second; }, square_},
      {"norm", [](const Array& a) { return linalg::norm(a, 1); }, x},
      {"vector_norm", [](const Array& a) { return vector_norm(a, 3, 0, true); }, x},
  };
  for (const Row& row : rows) check_gradient(row.name, row.f, row.at, 1e-5);

  // A result without gradient needs none; each of several results has its own.
  Array leaf = x.copy();
  leaf.set_requires_grad();
  CHECK_FALSE(argsort(leaf).requires_grad());
  CHECK_FALSE(isnan(leaf).requires_grad());
  const auto [values, places] = top_k(leaf, 2);
  CHECK(values.requires_grad());
  CHECK_FALSE(places.requires_grad());
}

TEST_CASE("numerical functions name the expected and the actual argument, and the location") {
  const Array x = random_array({3, 4}, 1), v = random_array({4}, 2), key = random::key(0);
  struct Row {
    std::function<void()> call;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {[&] { sort(x, 2); }, {"[sort] expected an axis of an Array with 2 dimensions, got 2"}},
      {[&] {
         sort_all({x, v});
       },
       {"[sort] expected operands of one shape", "in sort_all(f64[3,4], f64[4])"}},
      {[&] { top_k(x, 5); }, {"[top_k] expected k in [0, 4]", "f64[3,4]"}},
      {[&] {
         dynamic_slice(x, {0}, {1, 1});
       },
       {"[dynamic_slice] expected a start for each of 2 axes", "got 1"}},
      {[&] {
         dynamic_slice(x, {0, 0}, {4, 1});
       },
       {"[dynamic_slice]", "f64[3,4]"}},
      {[&] { scatter_add(x, array({0}), v); }, {"[scatter_add]", "in scatter_add(f64[3,4], i64[1], f64[4])"}},
      {[&] {
         pad(x, {{1, 1}, {1, 1}, {1, 1}});
       },
       {"[pad] expected one width or one for each of 2 axes", "got 3"}},
      {[&] { tril(v); }, {"[tril] expected an Array of two axes or more, got f64[4]"}},
      {[&] {
         einsum("ij,jk->ik", {x, x});
       },
       {"[einsum] expected extent 4 of \"j\" everywhere, got 3 in dimension 0 of operand 1, f64[3,4]"}},
      {[&] {
         einsum("ii->i", {ones({1, 3})});
       },
       {"[einsum] expected extent 1 of \"i\" everywhere, got 3 in dimension 1 of operand 0, f64[1,3]"}},
      {[&] { einsum("ij->ik", {x}); }, {"expected axes of operands in the result, got \"k\" in \"ij->ik\""}},
      {[&] { einsum("ij->ii", {x}); }, {"expected each axis once in the result, got \"i\" twice"}},
      {[&] { einsum("ij,j", {x}); }, {"expected 2 operands, got 1 in \"ij,j\""}},
      {[&] { einsum("ijk", {x}); }, {"expected 3 axes as \"ijk\" has for operand 0, got f64[3,4]"}},
      {[&] { einsum("i1", {x}); }, {"expected letters", "got \"1\" in \"i1\""}},
      {[&] { tensordot(x, v, 2); }, {"[tensordot] expected a number of axes", "got 2"}},
      {[&] {
         tensordot(x, v, {{0, 1}, {0}});
       },
       {"expected as many axes of f64[3,4] as of f64[4]"}},
      {[&] {
         tensordot(x, v, {{0}, {0}});
       },
       {"[dot_general]", "in tensordot(f64[3,4], f64[4])"}},
      {[&] { conv2d(x, x); }, {"[conv2d] expected x [batch, features, height, width]", "f64[3,4]"}},
      {[&] {
         conv2d(ones({1, 1, 3, 3}), ones({1, 1, 2, 2}), {1});
       },
       {"expected strides of 2 entries from 1 to 2^40, got [1]"}},
      {[&] {
         max_pool(ones({1, 1, 4}), {2, 2});
       },
       {"[max_pool] expected a window of 1 entries from 1 to 2^40, got [2,2]"}},
      {[&] {
         max_pool(ones({1, 1, 4}), {2}, {1}, "same");
       },
       {"expected \"VALID\" or \"SAME\", got \"same\""}},
      {[&] { linalg::solve(x, v); }, {"[linalg.solve] expected square matrices, got f64[3,4]"}},
      {[&] { linalg::solve(eye(3), v); },
       {"as many rows of the right-hand side as the matrix has", "f64[4]"}},
      {[&] { linalg::det(v); }, {"[linalg.det] expected square matrices, got f64[4]"}},
      {[&] { linalg::cholesky(x); }, {"[cholesky] expected square matrices, got f64[3,4]"}},
      {[&] { random::normal(key, {2}, i32); }, {"[random.normal] expected dtype f32 or f64, got i32"}},
      {[&] { random::bits(x, {2}); }, {"[random_bits] expected a key of type i32[2]", "got f64[3,4]"}},
      {[&] { random::split(key, -1); }, {"[random.split] expected a count >= 0, got -1"}},
      {[&] { polygamma(-1, x); }, {"[polygamma] expected n >= 0, got -1"}},
  };
  for (const Row& row : rows) {
    const std::string message = error_of(row.call);
    CAPTURE(message);
    for (const std::string& part : row.parts) CHECK_MESSAGE(contains(message, part), part);
    // WindowPadding is made before the function is called.
    if (!contains(message, "WindowPadding")) CHECK(contains(message, "numerics.cpp:"));
  }
}

}  // namespace
}  // namespace tidu::test
