// singular_points.cpp - the table of singular points in docs/conventions.md, row by row: value, first
// derivative on the tape, traced, and by forward mode, and second derivative forward over reverse and reverse
// over reverse.
#include <limits>

#include "support.hpp"

namespace tidu::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  const char* name;
  Function f;
  std::vector<double> at;
  double value;
  std::vector<double> first, second;  // second: row by row
};

void check_equal(const Array& got, const std::vector<double>& expected) {
  REQUIRE(static_cast<std::size_t>(got.size()) == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double each = elements(got)[i];
    if (std::isinf(expected[i])) {
      CHECK(each == expected[i]);
    } else if (std::isnan(expected[i])) {
      CHECK(std::isnan(each));
    } else {
      CHECK(each == doctest::Approx(expected[i]).epsilon(1e-14));
    }
  }
}

Function at_each(Array (*f)(const Array&, Where)) {
  return [f](const Array& x) { return f(x[0], Where{}); };
}

std::vector<Row> rows() {
  const auto zeros_of = [](std::size_t n) { return std::vector<double>(n, 0.0); };
  return {
      {"abs", at_each(abs), {0.0}, 0.0, {0.0}, {0.0}},
      {"relu", [](const Array& x) { return relu(x[0]); }, {0.0}, 0.0, {0.0}, {0.0}},
      {"maximum", [](const Array& x) { return maximum(x[0], x[1]); }, {2, 2}, 2, {0.5, 0.5}, zeros_of(4)},
      {"max", [](const Array& x) { return max(x); }, {2, 2, 1}, 2, {0.5, 0.5, 0}, zeros_of(9)},
      {"cummax", [](const Array& x) { return cummax(x)[1]; }, {2, 2}, 2, {1, 0}, zeros_of(4)},
      {"clip, at lo",
       [](const Array& x) { return clip(x[1], x[0], x[2]); },
       {0, 0, 1},
       0,
       {1, 0, 0},
       zeros_of(9)},
      {"clip, at hi",
       [](const Array& x) { return clip(x[1], x[0], x[2]); },
       {0, 1, 1},
       1,
       {0, 0, 1},
       zeros_of(9)},
      {"clip, lo = hi",
       [](const Array& x) { return clip(x[1], x[0], x[2]); },
       {1, 1, 1},
       1,
       {0, 0, 1},
       zeros_of(9)},
      {"norm", [](const Array& x) { return linalg::norm(x); }, {0, 0}, 0, {0, 0}, zeros_of(4)},
      {"vector_norm 3",
       [](const Array& x) { return linalg::vector_norm(x, 3.0); },
       {0, 0},
       0,
       {0, 0},
       zeros_of(4)},
      {"vector_norm 1",
       [](const Array& x) { return linalg::vector_norm(x, 1.0); },
       {0, 2},
       2,
       {0, 1},
       zeros_of(4)},
      {"vector_norm 1/2",
       [](const Array& x) { return linalg::vector_norm(x, 0.5); },
       {0, 4},
       4,
       {0, 1},
       zeros_of(4)},
      {"vector_norm inf",
       [](const Array& x) { return linalg::vector_norm(x, inf); },
       {2, -2},
       2,
       {0.5, -0.5},
       zeros_of(4)},
      {"stddev", [](const Array& x) { return stddev(x); }, {3, 3}, 0, {0, 0}, zeros_of(4)},
      {"var", [](const Array& x) { return var(x); }, {3, 3}, 0, {0, 0}, {0.5, -0.5, -0.5, 0.5}},
      {"logsumexp of -inf",
       [](const Array& x) { return logsumexp(x); },
       {-inf, -inf},
       -inf,
       {0.5, 0.5},
       {0.25, -0.25, -0.25, 0.25}},
      {"logsumexp of inf", [](const Array& x) { return logsumexp(x); }, {inf, 1}, inf, {1, 0}, zeros_of(4)},
      {"logsumexp, one -inf", [](const Array& x) { return logsumexp(x); }, {-inf, 1}, 1, {0, 1}, zeros_of(4)},
      {"cumlogsumexp of -inf",
       [](const Array& x) { return cumlogsumexp(x)[1]; },
       {-inf, -inf},
       -inf,
       {0.5, 0.5},
       zeros_of(4)},
      {"acos of clip", [](const Array& x) { return acos(clip(x[0], -1.0, 1.0)); }, {1.5}, 0, {0}, {0}},
      {"log, masked", [](const Array& x) { return where(x[0] > 0.0, log(x[0]), 0.0); }, {0.0}, 0, {0}, {0}},
      {"1 / x, masked",
       [](const Array& x) { return where(x[0] != 0.0, 1.0 / x[0], 0.0); },
       {0.0},
       0,
       {0},
       {0}},
      {"softmax of -inf",
       [](const Array& x) { return softmax(x)[0]; },
       {-inf, -inf},
       nan,
       {nan, nan},
       std::vector<double>(4, nan)},
  };
}

TEST_CASE("singular points have the derivatives that the table of conventions says, in every mode") {
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    const Array x = array(row.at, {static_cast<std::int64_t>(row.at.size())});
    check_equal(row.f(x), {row.value});
    check_equal(grad(row.f)(x), row.first);
    check_equal(compile(grad(row.f))(x), row.first);
    check_equal(jacrev(row.f)(x), row.first);
    check_equal(jacfwd(row.f)(x), row.first);
    check_equal(hessian(row.f)(x), row.second);
    check_equal(jacrev(grad(row.f))(x), row.second);
  }
}

}  // namespace
}  // namespace tidu::test
