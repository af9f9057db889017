// singular_points.cpp - check_gradients at points where functions or their slopes are infinite: log and sqrt
// at 0, poles, masked or not. No rule is accused, a note names operation, operand and index, and a rule that
// is wrong elsewhere, or not finite where the function has a slope, is still found.
#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace singular_points_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

struct Row {
  std::string name;
  std::function<Value(Value)> f;
  Numbers at;  // the second element is an ordinary point
};

std::vector<Row> rows() {
  const auto one = [](Value x) { return ops::full_like(x, 1.0); };
  return {{"log", [](Value x) { return ops::log(x); }, {0.0, 1.5, -2.0}},
          {"log1p", [](Value x) { return ops::log1p(x); }, {-1.0, 0.5, -2.0}},
          {"sqrt", [](Value x) { return ops::sqrt(x); }, {0.0, 1.5, -2.0}},
          {"rsqrt", [](Value x) { return ops::rsqrt(x); }, {0.0, 1.5, -2.0}},
          {"cbrt", [](Value x) { return ops::cbrt(x); }, {0.0, 1.5, -2.0}},
          {"reciprocal", [](Value x) { return ops::reciprocal(x); }, {0.0, 1.5, -2.0}},
          {"1 / x", [=](Value x) { return one(x) / x; }, {0.0, 1.5, -2.0}},
          {"sin x / x", [](Value x) { return ops::sin(x) / x; }, {0.0, 1.5, -2.0}},
          {"x / (x + x x)", [](Value x) { return x / (x + x * x); }, {0.0, 1.5, -1.0}},
          {"x log x", [](Value x) { return x * ops::log(x); }, {0.0, 1.5, 2.0}},
          {"x^0.5", [](Value x) { return ops::pow(x, ops::full_like(x, 0.5)); }, {0.0, 1.5, 2.0}},
          {"x^1.5", [](Value x) { return ops::pow(x, ops::full_like(x, 1.5)); }, {0.0, 1.5, 2.0}},
          {"x^x", [](Value x) { return ops::pow(x, x); }, {0.0, 1.5, 2.0}},
          {"x^-2", [](Value x) { return ops::integer_pow(x, -2); }, {0.0, 1.5, 2.0}},
          {"asin", [](Value x) { return ops::asin(x); }, {1.0, 0.5, -1.0}},
          {"acosh", [](Value x) { return ops::acosh(x); }, {1.0, 1.5, 0.5}},
          {"atanh", [](Value x) { return ops::atanh(x); }, {1.0, 0.5, -1.0}},
          {"lgamma", [](Value x) { return ops::lgamma(x); }, {0.0, 0.5, -1.0}},
          {"digamma", [](Value x) { return ops::digamma(x); }, {0.0, 0.5, -1.0}},
          {"sqrt |x|", [](Value x) { return ops::sqrt(ops::abs(x)); }, {0.0, 0.5, -1.0}},
          {"sqrt(x x)", [](Value x) { return ops::sqrt(x * x); }, {0.0, 0.5, -1.0}},
          {"atan2(x, x)", [](Value x) { return ops::atan2(x, x); }, {0.0, 0.5, -1.0}},
          {"exp sqrt", [](Value x) { return ops::exp(ops::sqrt(x)); }, {0.0, 0.5, 1.0}},
          {"exp(-1 / x^2)", [](Value x) { return ops::exp(-ops::reciprocal(x * x)); }, {0.0, 0.5, 1.0}},
          {"erf_inv", [](Value x) { return ops::erf_inv(x); }, {1.0, 0.5, -1.0}},
          {"5 mod x", [](Value x) { return ops::rem(ops::full_like(x, 5.0), x); }, {0.0, 0.7, 2.25}}};
}

// f at x; masked: zeros at all elements but the second.
Graph model(const Row& row, DType dtype, bool masked, bool sum) {
  return of_x({dtype, {3}}, [&](Value x) {
    Value y = row.f(x);
    if (masked) {
      const Value keep =
          ops::constant(*x.emitter(), Literal::of<double>({f64, {3}}, std::vector<double>{0, 1, 0}));
      y = ops::select_n(ops::gt(keep, ops::full_like(keep, 0.5)), ops::full_like(y, 0.0), y);
    }
    return sum ? ops::reduce_sum(y, {0}) : y;
  });
}

CheckReport checked(const Graph& f, const Tensors& at) { return check_gradients(f, at, reference()); }
bool has_note(const CheckReport& report, std::string_view words) {
  return std::any_of(report.notes.begin(), report.notes.end(),
                     [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

TEST_CASE("check_gradients: singular points are noted and no rule is accused") {
  for (const Row& row : rows()) {
    for (const DType dtype : {f64, f32}) {
      for (const bool masked : {false, true}) {
        for (const bool sum : {false, true}) {
          CAPTURE(row.name);
          CAPTURE(dtype == f64);
          CAPTURE(masked);
          CAPTURE(sum);
          const Graph f = model(row, dtype, masked, sum);
          const CheckReport report = checked(f, {check::tensor_of({dtype, {3}}, row.at)});
          INFO(to_text(report));
          CHECK(report.ok);
          // x^x has a finite slope by its rule at 0, where differences have none.
          CHECK((masked || row.name == "x^x" || !report.notes.empty()));
        }
      }
    }
  }
}

TEST_CASE("check_gradients: a note names operation, operand and index of a singular point") {
  const Type v2{f64, {2}};
  const auto note_of = [&](const Graph& f, const Tensors& at, std::string_view words) {
    const CheckReport report = checked(f, at);
    INFO(to_text(report));
    CHECK(report.ok);
    CHECK(has_note(report, words));
  };
  const Graph division = of_x(v2, [](Value x) {
    const Value zero = ops::full_like(x, 0.0), one = ops::full_like(x, 1.0);
    const Value quotient = one / x;
    return ops::select_n(ops::gt(x, zero), zero, quotient);
  });
  note_of(division, {vector({0.0, 1.5})}, "operation 2, div (");
  note_of(division, {vector({0.0, 1.5})}, "), is not finite at operand 1 [0] and was not compared there");
  const Graph root = of_x({f64, {2, 3}}, [](Value x) { return ops::sqrt(x); });
  note_of(root, {Tensor::from<double>({2, 3}, {1, 2, 3, 4, 0, 6})},
          "), is not finite at operand 0 [1,1] and was not compared there");
  note_of(root, {Tensor::from<double>({2, 3}, {1, 2, 3, 4, 0, 6})}, "the derivative of operation 0, sqrt (");
  const Graph power = of_x(v2, [](Value x) { return ops::pow(x, ops::full_like(x, 1.5)); });
  note_of(power, {vector({0.5, 0.0})}, "the second derivative of operation 1, pow (");
  const Graph many = of_x({f64, {6}}, [](Value x) { return ops::log(x); });
  note_of(many, {vector({0.0, 0.0, 0.0, 0.0, 0.0, 0.0})}, "operand 0 [0] [1] [2] [3] and 2 more");
  const Graph scalar_log = of_x(f64, [](Value x) { return ops::log(x); });
  note_of(scalar_log, {scalar(0.0)}, "), is not finite at operand 0 and was not compared there");
  const Graph body = of_xy(f64, f64, [](Value c, Value x) { return Values{c + ops::log(x), c}; });
  const Graph loop = of_xy(f64, v2, [&](Value c, Value x) {
    return Values{ops::scan(body, std::array{c, x}, {2, false, 0, 1})[0]};
  });
  note_of(loop, {scalar(1.0), vector({2.0, 0.0})}, " in the body of scan, which is operation 0, scan (");
}

TEST_CASE("check_gradients: a wrong rule beside a singular point is found") {
  const Type v3{f64, {3}};
  const Graph root = of_x(v3, [](Value x) { return ops::sqrt(x); });
  const auto with_rule = [&](const std::function<Value(Value, Value)>& slope) {
    const Graph rule = of_xy(v3, v3, [&](Value x, Value dx) { return Values{ops::sqrt(x), slope(x, dx)}; });
    return of_x(v3, [&](Value x) { return ops::custom_jvp_call(root, rule, std::array{x})[0]; });
  };
  const auto half = [](Value x) { return ops::full_like(x, 0.5); };
  const Tensors at{vector({0.0, 1.5, 2.0})};
  const CheckReport right =
      checked(with_rule([&](Value x, Value dx) { return half(x) * dx / ops::sqrt(x); }), at);
  CHECK_MESSAGE(right.ok, to_text(right));
  const CheckReport wrong =
      checked(with_rule([&](Value x, Value dx) { return half(x) * dx / ops::sqrt(x + x); }), at);
  CHECK_MESSAGE(!wrong.ok, to_text(wrong));
  // Not finite where the function has a slope: (x - 1.5) / (x - 1.5) is NaN at the second element.
  const auto undefined = [&](Value x, Value dx) {
    const Value off = x - ops::full_like(x, 1.5);
    return half(x) * dx / ops::sqrt(x) * (off / off);
  };
  const CheckReport nan = checked(with_rule(undefined), at);
  CHECK_MESSAGE(!nan.ok, to_text(nan));
}

}  // namespace
}  // namespace singular_points_cases
