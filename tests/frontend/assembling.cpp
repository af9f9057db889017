// assembling.cpp - stacks, grids, diagonals, differences and further matmuls of Arrays, compared with plain
// loops and other functions; gradients compared with differences.
#include "support.hpp"

namespace tidu::test {
namespace assembling_cases {
namespace {

bool is(const Array& got, const Array& wanted) {
  return got.type() == wanted.type() && elements(got) == elements(wanted);
}

TEST_CASE("side by side, and one above the other") {
  const Array a = array({1, 2}), b = array({3, 4}), m = array({{1, 2}, {3, 4}});
  CHECK(is(hstack({a, b}), array({1, 2, 3, 4})));
  CHECK(is(hstack({m, m}), array({{1, 2, 1, 2}, {3, 4, 3, 4}})));
  CHECK(is(hstack({Array(std::int64_t{1}), a}), array({1, 1, 2})));
  CHECK(is(vstack({a, b}), array({{1, 2}, {3, 4}})));
  CHECK(is(vstack({m, a}), array({{1, 2}, {3, 4}, {1, 2}})));
  CHECK(is(vstack({Array(1.5), Array(2.5)}), array({{1.5}, {2.5}})));
  CHECK(vstack({m, a.to(f64)}).dtype() == f64);
  const Array x = random_array({3}, 1);
  check_gradient(
      "vstack",
      [&](const Array& v) {
        return vstack({v, v * v});
      },
      x);
  check_gradient(
      "hstack",
      [&](const Array& v) {
        return hstack({v, x, v * v});
      },
      x);
  CHECK(contains(error_of([&] { (void)hstack(std::vector<Array>{}); }), "[hstack] expected at least one"));
  CHECK(contains(error_of([&] { (void)vstack({m, x}); }), "in vstack"));
}

TEST_CASE("grids") {
  const Array x = arange(3), y = arange(2) + 10, z = arange(4.0);
  const auto ij = meshgrid({x, y, z}, "ij"), xy = meshgrid({x, y, z});
  REQUIRE(ij.size() == 3);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 4; ++k) {
        CHECK(ij[0][i][j][k].item() == i);
        CHECK(ij[1][i][j][k].item() == 10 + j);
        CHECK(ij[2][i][j][k].item() == k);
      }
  for (std::size_t i = 0; i < 3; ++i) CHECK(is(xy[i], swapaxes(ij[i], 0, 1)));
  CHECK(ij[2].dtype() == f64);
  CHECK(is(meshgrid({x})[0], x));
  CHECK(meshgrid({}).empty());
  check_gradient(
      "meshgrid",
      [&](const Array& v) {
        return meshgrid({v, v})[0] * meshgrid({v, v})[1];
      },
      z);
  CHECK(contains(error_of([&] { (void)meshgrid({x, eye(2)}); }), "[meshgrid] expected Arrays of one axis"));
  CHECK(contains(error_of([&] { (void)meshgrid({x, y}, "yx"); }), "got \"yx\""));
}

TEST_CASE("diagonals and differences of neighbours") {
  const Array v = random_array({3}, 2), m = random_array({4, 5}, 3);
  for (const std::int64_t k : {-5, -3, -1, 0, 1, 2, 5}) {
    const Array full = diag(v, k);
    const std::int64_t n = 3 + std::abs(k);
    REQUIRE(full.shape() == Shape{n, n});
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        CHECK(full[i][j].item() == (j - i == k ? v[k < 0 ? j : i].item() : 0.0));
    CHECK(is(diag(full, k), v));
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 4; ++i)
      if (i + k >= 0 && i + k < 5) expected.push_back(m[i][i + k].item());
    CHECK(elements(diag(m, k)) == expected);
    check_gradient(
        "diag of a vector", [&](const Array& a) { return diag(a, k); }, v);
    if (!expected.empty())
      check_gradient(
          "diag of a matrix", [&](const Array& a) { return diag(a, k); }, m);
  }
  CHECK(is(diag(array({true, false})), array({{true, false}, {false, false}})));
  CHECK(contains(error_of([&] { (void)diag(Array(1.0)); }), "[diag] expected an Array of one or two axes"));
  CHECK(is(diff(array({1, 4, 9, 16})), array({3, 5, 7})));
  CHECK(is(diff(array({1, 4, 9, 16}), 2), array({2, 2})));
  CHECK(diff(array({1, 4}), 5).shape() == Shape{0});
  CHECK(is(diff(array({true, true, false})), array({false, true})));
  CHECK(is(diff(m, 1, 0), m.slice({{1}}) - m.slice({{0, 3}})));
  CHECK(is(slice(m, {{1}}), m.slice({{1}})));
  CHECK(is(diff(m, 0), m));
  check_gradient(
      "diff", [](const Array& a) { return diff(a, 2, 0); }, m);
  CHECK(contains(error_of([&] { (void)diff(m, -1); }), "[diff] expected a count of 0 or more, got -1"));
}

TEST_CASE("products of vectors along an axis, of matrices in blocks") {
  const Array a = random_array({2, 3}, 4), b = random_array({4, 3}, 5), c = random_array({3}, 6);
  CHECK(distance(inner(a, b), matmul(a, b.T())) < 1e-15);
  CHECK(distance(inner(c, c), sum(c * c)) < 1e-15);
  CHECK(distance(inner(a, Array(2.0)), 2.0 * a) == 0);
  CHECK(inner(random_array({2, 5, 3}, 7), b).shape() == Shape{2, 5, 4});
  check_gradient(
      "inner", [&](const Array& v) { return inner(v, b); }, a);
  CHECK(contains(error_of([&] { (void)inner(a, arange(2)); }), "[inner] expected the last extents"));
  const Array blocks = kron(a, b);
  REQUIRE(blocks.shape() == Shape{8, 9});
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = 0; j < 9; ++j)
      CHECK(blocks[i][j].item() == a[i / 4][j / 3].item() * b[i % 4][j % 3].item());
  CHECK(is(kron(c, b), kron(c.reshape({1, 3}), b)));
  CHECK(is(kron(Array(2.0), c), 2.0 * c));
  CHECK(is(kron(array({true, false}), array({true, true})), array({true, true, false, false})));
  check_gradient(
      "kron", [&](const Array& v) { return kron(v, b); }, a);
  const Array u = random_array({4, 3}, 8);
  const Array product = cross(u, b);
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 3; ++k) {
      const int l = (k + 1) % 3, m = (k + 2) % 3;
      CHECK(product[i][k].item() ==
            doctest::Approx(u[i][l].item() * b[i][m].item() - u[i][m].item() * b[i][l].item()));
    }
  CHECK(is(cross(u, c), cross(u, broadcast_to(c, {4, 3}))));
  CHECK(is(cross(u.T(), b.T(), 0), product.T()));
  CHECK(is(vmap([](const Array& x, const Array& y) { return cross(x, y); })(u, b), product));
  check_gradient(
      "cross", [&](const Array& v) { return cross(v, c); }, u);
  CHECK(contains(error_of([&] { (void)cross(arange(2), arange(2)); }), "[cross] expected an extent of 3"));
}

}  // namespace
}  // namespace assembling_cases
}  // namespace tidu::test
