// at_several.cpp - x[{rows, columns}] and x.at({rows, columns}).set(v): an index for each of the first axes,
// against plain loops; gradients against differences, and in all modes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "support.hpp"

namespace tidu::test {
namespace at_several_cases {
namespace {

constexpr std::int64_t n = 4, m = 3, depth = 2;

// Row and column indices of all kinds, together [2, 3].
const Array rows = array({{3, -1, 0}, {9, -9, 2}});
const Array columns = array({2, -3, 7});

// Calls visit(k, r, c) with the rows and columns that pair k of the six names; `clamps`: those out of range
// as the nearest, otherwise not at all.
void each_pair(bool clamps, const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) {
  const std::vector<double> r = elements(rows), c = elements(columns);
  for (std::size_t k = 0; k < r.size(); ++k) {
    const auto place = [&](double index, std::int64_t extent) -> std::optional<std::int64_t> {
      const auto whole = static_cast<std::int64_t>(index);
      const std::int64_t i = whole < 0 ? whole + extent : whole;
      if (!clamps && (i < 0 || i >= extent)) return std::nullopt;
      return std::clamp<std::int64_t>(i, 0, extent - 1);
    };
    const auto row = place(r[k], n), column = place(c[k % 3], m);
    if (row && column) visit(k, static_cast<std::size_t>(*row), static_cast<std::size_t>(*column));
  }
}

bool same(const Array& a, const Array& b) { return a.type() == b.type() && elements(a) == elements(b); }

template <class F, class... Args>
void check_modes(const F& f, const Array& expected, const Args&... args) {
  CHECK(same(f(args...), expected));
  CHECK(same(compile(f)(args...), expected));
  CHECK(same(call_graph(trace(f, args...), {args...})[0], expected));
  const Lazy lazy;
  CHECK(same(f(args...), expected));
}

TEST_CASE("the elements at rows and columns") {
  const Array x = random_array({n, m, depth}, 1);
  std::vector<double> expected(6 * depth);
  const std::vector<double> from = elements(x);
  each_pair(true, [&](std::size_t k, std::size_t r, std::size_t c) {
    for (std::size_t d = 0; d < depth; ++d) expected[k * depth + d] = from[(r * m + c) * depth + d];
  });
  const auto f = [](const Array& a, const Array& i, const Array& j) { return a[{i, j}]; };
  check_modes(f, array(expected, {2, 3, depth}), x, rows, columns);
  check_modes(f, array(expected, {2, 3, depth}), x, rows.to(i32), columns);
  check_modes(f, array(expected, {2, 3, depth}), x, rows.to(i32), columns.to(i32));
  CHECK(same(x.at({rows, columns}).get(), array(expected, {2, 3, depth})));
  CHECK(same(x[{rows}], x[rows]));
  CHECK(same(x[{arange(3), Array(1), Array(-1)}], x.slice({{0, 3}, {1, 2}, {1, 2}}).reshape({3})));
  CHECK(same(x[{Array(1), Array(2), Array(0)}], x[1][2][0]));
  check_gradient(
      "x[{rows, columns}]",
      [](const Array& a) {
        return a[{rows, columns}];
      },
      x);
  const auto energy = [](const Array& a) { return sum(pow(a[{rows, columns}], 3)); };
  check_gradient(
      "second order", [&](const Array& a) { return grad(energy)(a); }, x, 1e-5);
  // The element of the right class in each row, and its gradient.
  const Array scores = random_array({n, m}, 2), labels = array({2, 0, 1, 1});
  const auto chosen = [&](const Array& a) { return sum(a[{arange(n), labels}]); };
  CHECK(same(grad(chosen)(scores), one_hot(labels, m)));
  const Array many = stack({x, -x});
  CHECK(same(vmap([](const Array& a) { return a[{rows, columns}]; })(many)[1], -x[{rows, columns}]));
  const Array places = stack({columns, flip(columns)});
  CHECK(same(vmap([&](const Array& j) { return x[{rows, j}]; })(places)[1], x[{rows, flip(columns)}]));
}

template <class Op>
Array at_pairs(const Array& x, const Array& v, const Op& op) {
  std::vector<double> result = elements(x);
  const std::vector<double> values = elements(broadcast_to(v, {2, 3, depth}));
  each_pair(false, [&](std::size_t k, std::size_t r, std::size_t c) {
    for (std::size_t d = 0; d < depth; ++d) {
      double& element = result[(r * m + c) * depth + d];
      element = op(element, values[k * depth + d]);
    }
  });
  return array(result, x.shape());
}

TEST_CASE("elements at rows and columns are set, added to and compared") {
  const Array x = random_array({n, m, depth}, 3);
  using Updated = Array (*)(const Array&, const Array&, const Array&, const Array&);
  const std::pair<Updated, double (*)(double, double)> cases[] = {
      {[](const Array& a, const Array& i, const Array& j, const Array& v) {
         return a.at({i, j}).set(v);
       },
       [](double, double v) { return v; }},
      {[](const Array& a, const Array& i, const Array& j, const Array& v) {
         return a.at({i, j}).add(v);
       },
       [](double a, double v) { return a + v; }},
      {[](const Array& a, const Array& i, const Array& j, const Array& v) {
         return a.at({i, j}).min(v);
       },
       [](double a, double v) { return std::min(a, v); }},
      {[](const Array& a, const Array& i, const Array& j, const Array& v) {
         return a.at({i, j}).max(v);
       },
       [](double a, double v) { return std::max(a, v); }}};
  for (const auto& [f, op] : cases) {
    for (const Shape& shape : {Shape{2, 3, depth}, Shape{depth}, Shape{}, Shape{3, 1}}) {
      const Array v = random_array(shape, 4);
      const auto updated = f;
      check_modes(
          [&](const Array& a, const Array& i, const Array& j, const Array& b) { return updated(a, i, j, b); },
          at_pairs(x, v, op), x, rows, columns, v);
      check_gradient(
          "by x", [&](const Array& a) { return updated(a, rows, columns, v); }, x);
      check_gradient(
          "by v", [&](const Array& b) { return updated(x, rows, columns, b); }, v);
    }
  }
  CHECK(same(zeros({2, 2}).at({array({0, 1}), array({1, 0})}).set(array({5.0, 6.0})),
             array({{0.0, 5.0}, {6.0, 0.0}})));
  CHECK(same(zeros({0, 2}).at({array({0}), array({1})}).add(1.0), zeros({0, 2})));
  const Array mapped = vmap([&](const Array& v) { return x.at({rows, columns}).add(v); })(array({1.0, 2.0}));
  CHECK(same(mapped[1], x.at({rows, columns}).add(2.0)));
}

TEST_CASE("misuse of several indices") {
  const Array x = ones({5, 3}, f32), i = arange(2), j = arange(3);
  const auto refused = [](const std::string& error, const std::string& what, int line) {
    CAPTURE(error);
    CHECK(contains(error, what));
    CHECK(contains(error, "at_several.cpp:" + std::to_string(line)));
  };
  refused(error_of([&] {
            (void)x[{i, i, i}];
          }),
          "[index] expected at most 2 subscripts for f32[5,3], got 3", __LINE__ - 2);
  refused(error_of([&] { (void)x[{i, x}]; }), "[index] expected integers, got f32[5,3]", __LINE__);
  refused(error_of([&] { (void)x[{x > 0, i}]; }), "[index] expected integers, got bool[5,3]", __LINE__);
  refused(error_of([&] { (void)x[{i, j}]; }), "[index] expected shapes that broadcast", __LINE__);
  refused(error_of([&] { (void)x.at({i, j}).set(1); }), "[at.set] expected shapes that broadcast", __LINE__);
  refused(error_of([&] { (void)x.at({i, i}).multiply(2); }), "[at.multiply] expected a position", __LINE__);
  refused(error_of([&] {
            (void)x.at({i, i}).set(ones({2, 1}, f32));
          }),
          "broadcast to the indexed shape, [2] of f32[5,3]", __LINE__ - 2);
}

}  // namespace
}  // namespace at_several_cases
}  // namespace tidu::test
