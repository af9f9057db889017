// kinks.cpp - check_gradients if an operation's results have no derivative at the point, though a function of
// them has one: equal singular values and eigenvalues, equal operands of max. A note names the operation, and
// no rule is accused; a rule that is wrong at points nearby too, or beside such an operation, is found. The
// graphs compute the identity and exp(x): so only the chain rule does not hold.
#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/linalg.hpp"

namespace kink_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

Type square(std::int64_t n) { return {f64, {n, n}}; }

Tensor matrix(std::int64_t n, const std::function<double(std::int64_t, std::int64_t)>& element) {
  std::vector<double> elements;
  for (std::int64_t i = 0; i < n * n; ++i) elements.push_back(element(i / n, i % n));
  return Tensor::from<double>({n, n}, elements);
}
Tensor identity(std::int64_t n) {
  return matrix(n, [](std::int64_t i, std::int64_t j) { return i == j ? 1.0 : 0.0; });
}
// Rows of the identity: singular values 1 and sqrt 2, several times each, and zeros.
Tensor one_hot(std::int64_t n) {
  return matrix(n, [](std::int64_t i, std::int64_t j) { return j == i / 2 + (i > 4 ? 1 : 0) ? 1.0 : 0.0; });
}

Value matmul(Value a, Value b) { return ops::dot_general(a, b, {{1}, {0}, {}, {}}); }

// U diag(s) Vh = x
Value by_svd(Value x) {
  const Values parts = ops::svd(x);
  return matmul(parts[0] * ops::broadcast_in_dim(parts[1], x.shape(), {1}), parts[2]);
}
// V diag(exp w) VT = exp(x) of a symmetric x
Value exp_by_eigh(Value x) {
  const Values parts = ops::eigh(x);
  const Value v = parts[0];
  return matmul(v * ops::broadcast_in_dim(ops::exp(parts[1]), x.shape(), {1}), ops::transpose(v, {1, 0}));
}

CheckReport checked(const Graph& f, const Tensors& at) { return check_gradients(f, at, reference()); }
bool has_note(const CheckReport& report, std::string_view words) {
  return std::any_of(report.notes.begin(), report.notes.end(),
                     [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

TEST_CASE("check_gradients: functions of repeated singular values are noted and not accused") {
  for (const std::int64_t n : {4, 8}) {
    for (const Tensor& at : {identity(n), one_hot(n)}) {
      const CheckReport report = checked(of_x(square(n), by_svd), {at});
      INFO(to_text(report));
      CHECK(report.ok);
      CHECK(
          has_note(report, "jvp was not compared with differences in the whole of \"f\": operation 0, svd"));
      CHECK(has_note(report, "has no derivative there (results 0"));
      CHECK(report.comparisons[static_cast<std::size_t>(CheckKind::differences)] == 0);
      CHECK(report.comparisons[static_cast<std::size_t>(CheckKind::transpose)] > 0);
    }
  }
  const CheckReport report = checked(of_x(square(3), exp_by_eigh), {identity(3)});
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(has_note(report, "operation 0, eigh"));
}

// Singular values that differ by rounding: the derivative of U by the rule is 1e16 and more.
TEST_CASE("check_gradients: singular vectors of almost equal singular values are not accused") {
  const Graph f = of_x(square(3), [](Value x) { return ops::svd(x)[0]; });
  Tensor at = identity(3);
  at.mutable_elements<double>()[0] = 1.0 + 0x1p-52;
  const CheckReport report = checked(f, {at});
  CHECK_MESSAGE(report.ok, to_text(report));
}

TEST_CASE("check_gradients: an operation without derivative is named within a loop") {
  const Graph body = of_xy(square(3), f64, [](Value c, Value s) {
    const Value same = by_svd(c);
    return Values{same * ops::broadcast_in_dim(s, c.shape(), {}), s};
  });
  const Graph f = of_xy(square(3), {f64, {2}}, [&](Value x, Value s) {
    return Values{ops::scan(body, std::array{x, s}, {2, false, 0, 1})[0]};
  });
  const CheckReport report = checked(f, {identity(3), vector({0.5, 1.5})});
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(has_note(report, "operation 0, svd"));
  CHECK(has_note(report, " in the body of scan, which is operation 0, scan"));
}

// max(max(x, 0), 0) + min(x, 0) is x, and has slope 3/4 by the rules.
TEST_CASE("check_gradients: a sum of kinks that cancel is noted and not accused") {
  const Graph f = of_x({f64, {2}}, [](Value x) {
    const Value zero = ops::full_like(x, 0.0);
    const Value positive = ops::max(ops::max(x, zero), zero);
    return positive + ops::min(x, zero);
  });
  const CheckReport report = checked(f, {vector({0.0, 1.5})});
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(has_note(report, "operation 1, max"));
  CHECK(has_note(report, "has no derivative there (results 0)"));
}

TEST_CASE("check_gradients: wrong rules at and beside a point without derivative are found") {
  const Graph product = of_x(square(3), by_svd);
  const auto with_slope = [&](double slope) {
    const Graph rule = of_xy(square(3), square(3), [&](Value x, Value dx) {
      return Values{by_svd(x), dx * ops::full_like(dx, slope)};
    });
    return of_x(square(3), [&](Value x) { return ops::custom_jvp_call(product, rule, std::array{x})[0]; });
  };
  const CheckReport right = checked(with_slope(1.0), {identity(3)});
  CHECK_MESSAGE(right.ok, to_text(right));
  const CheckReport wrong = checked(with_slope(1.25), {identity(3)});
  CHECK_MESSAGE(!wrong.ok, to_text(wrong));
  const auto sine = [&](double slope) {
    const Graph graph = of_x(square(3), [](Value x) { return ops::sin(x); });
    const Graph rule = of_xy(square(3), square(3), [&](Value x, Value dx) {
      return Values{ops::sin(x), ops::cos(x) * dx * ops::full_like(dx, slope)};
    });
    return of_x(square(3),
                [&](Value x) { return by_svd(x) + ops::custom_jvp_call(graph, rule, std::array{x})[0]; });
  };
  const CheckReport right_beside = checked(sine(1.0), {identity(3)});
  CHECK_MESSAGE(right_beside.ok, to_text(right_beside));
  const CheckReport wrong_beside = checked(sine(1.25), {identity(3)});
  CHECK_MESSAGE(!wrong_beside.ok, to_text(wrong_beside));
}

// Differences at no step see how steep atan(1e17 x) is at 0; they do see how steep atan(1e6 x) is.
TEST_CASE("check_gradients: a function steeper than all steps is not accused, a wrong steep slope is") {
  const auto steep = [](double scale) {
    return of_x(f64, [scale](Value x) { return ops::atan(x * ops::full_like(x, scale)); });
  };
  const CheckReport jump = checked(steep(1e17), {scalar(0.0)});
  CHECK_MESSAGE(jump.ok, to_text(jump));
  const auto with_slope = [&](double slope) {
    const Graph rule = of_xy(f64, f64, [&](Value x, Value dx) {
      const Value scaled = x * ops::full_like(x, 1e6);
      const Value y = ops::atan(scaled);
      return Values{y, dx * ops::full_like(x, slope) / (ops::full_like(x, 1.0) + scaled * scaled)};
    });
    return of_x(f64, [&](Value x) { return ops::custom_jvp_call(steep(1e6), rule, std::array{x})[0]; });
  };
  const CheckReport right = checked(with_slope(1e6), {scalar(0.0)});
  CHECK_MESSAGE(right.ok, to_text(right));
  const CheckReport wrong = checked(with_slope(0.9e6), {scalar(0.0)});
  CHECK_MESSAGE(!wrong.ok, to_text(wrong));
}

}  // namespace
}  // namespace kink_cases
