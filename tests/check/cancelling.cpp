// cancelling.cpp - check_gradients where derivatives cancel, and where 16 bits are too few for differences.
#include <array>

#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::cancelling_cases {
namespace {

using namespace tidu::test;

// sin with a jvp that is `factor` times too large.
Graph sine(Type type, double factor) {
  const Graph graph = of_x(type, [](Value x) { return ops::sin(x); });
  GraphBuilder rule("rule");
  const Value primal = rule.input("x", type), tangent = rule.input("t", type);
  const Graph jvp =
      rule.build({ops::sin(primal), tangent * (ops::cos(primal) * ops::full(rule, type, factor))});
  GraphBuilder g("f");
  const Value x = g.input("x", type);
  return g.build({emit1(
      Op::make(*standard_primitives().find("custom_jvp_call"), {{"graph", graph}, {"jvp", jvp}}), {x})});
}

TEST_CASE("derivatives that cancel are no fault") {
  for (const DType dtype : {f64, f32}) {
    const Type type(dtype, {3});
    const Graph ones = of_x(type, [&](Value x) {
      const Value e = ops::exp(x);
      return ops::reduce_sum(e / ops::broadcast_in_dim(ops::reduce_sum(e, {0}), {3}, {}), {0});
    });
    const Graph zeros = of_x(type, [](Value x) { return ops::log(ops::exp(x)) - x; });
    const Tensor at = check::tensor_of(type, {0.1, 0.2, 0.7});
    for (const Graph& f : {ones, zeros}) {
      const CheckReport report = check_gradients(f, std::span(&at, 1), reference());
      CHECK_MESSAGE(report.ok, to_text(report));
    }
  }
}

// The report of a test of f at `at`, rounded to the dtype.
CheckReport report_at(DType dtype, const Numbers& at, const std::function<Value(Value)>& f) {
  const Type type(dtype, {static_cast<std::int64_t>(at.size())});
  const Tensor input = check::tensor_of(type, at);
  return check_gradients(of_x(type, f), std::span(&input, 1), reference());
}
Value constant_like(Value x, double number) { return ops::full_like(x, number); }
Value mean(Value x) {
  const Value sum = ops::reduce_sum(x, {0});
  return sum / constant_like(sum, static_cast<double>(x.type().size()));
}

TEST_CASE("errors that differences round away are no fault: saturation, large operands, sums that cancel") {
  const auto right = [](DType dtype, const Numbers& at, const std::function<Value(Value)>& f) {
    const CheckReport report = report_at(dtype, at, f);
    CHECK_MESSAGE(report.ok, to_text(report));
  };
  const auto tanh = [](Value x) { return ops::tanh(x); };
  const auto sin = [](Value x) { return ops::sin(x); };
  for (const Numbers& at : {Numbers{9.0}, {9.5, 12.0}, {10.0}, {15.0}}) right(f64, at, tanh);
  right(f64, {25.0, 30.0}, [](Value x) { return ops::logistic(x); });
  for (const double x : {1e5, 1e6, 1e8, 1e10}) right(f64, {x, 2.0 * x}, sin);
  right(f64, {1e3, 1e6, 1e8, 1e10}, sin);
  for (const double k : {1e5, 1e6, 1e8})
    right(f64, {0.5, -0.25}, [=](Value x) { return (x + constant_like(x, k)) - constant_like(x, k); });
  right(f64, {1.7e9, 1.7e9 + 3600.0},
        [](Value t) { return ops::sin((t - constant_like(t, 1.7e9)) / constant_like(t, 86400.0)); });
  const auto variance = [](Value x) { return mean(x * x) - mean(x) * mean(x); };
  const auto distance = [](Value x) {
    const Value d = x - ops::broadcast_in_dim(mean(x), x.type().shape(), {});
    return ops::sqrt(ops::reduce_sum(d * d, {0}));
  };
  for (const DType dtype : {f64, f32}) {
    right(dtype, {100.2, 100.7, 100.9, 100.1}, variance);
    right(dtype, {450000.2, 450000.7, 450000.9, 450000.1}, distance);
  }
  right(f64, {1e6 + 7.0, 1e6 + 8.0, 1e6 + 9.0}, variance);
  // It oscillates within the steps.
  right(f64, {100001.106, 99999.757, 99999.976}, [](Value x) { return ops::sin(x * x) * (x * x); });
}

TEST_CASE("errors that differences round away within a loop are no fault") {
  GraphBuilder b("body");
  const Value c = b.input("c", {f64, {2}}), y = b.input("y", {f64, {2}});
  const Value big = constant_like(c, 1e8);
  const Graph body = b.build({(c + big) - big + ops::sin(y)});
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {2}}), ys = g.input("ys", {f64, {3, 2}});
  const Graph f = g.build(ops::scan(body, std::array{x, ys}, {.length = 3, .num_carry = 1}));
  const Tensor slices = Tensor::from<double>({3, 2}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6});
  const CheckReport report = check_gradients(f, Tensors{vector({0.5, -0.25}), slices}, reference());
  CHECK_MESSAGE(report.ok, to_text(report));
}

TEST_CASE("a wrong rule is found where differences are inexact too") {
  for (const double x : {1.0, 1e3, 1e5, 1e6, 1e7}) {
    for (const double factor : {1.0, 1.01, 0.99}) {
      const Tensor at = scalar(x + 0.3);
      const CheckReport report = check_gradients(sine(f64, factor), std::span(&at, 1), reference());
      CHECK_MESSAGE(report.ok == (factor == 1.0), x, ", ", factor, '\n', to_text(report));
    }
  }
}

TEST_CASE("a fault that only an operation by itself shows is reported with its operands") {
  // The sum hides sin beside 1e12 x - 1e12 x.
  const auto custom = sine(f64, 1.01);
  GraphBuilder g("f");
  const Value x = g.input("x", f64), big = constant_like(x, 1e12);
  const Value y = emit1(custom.operation(0).op(), {x * constant_like(x, 2.0)});
  const Graph f = g.build({(x * big + y) - x * big});
  const Tensor at = scalar(0.7);
  const CheckReport report = check_gradients(f, std::span(&at, 1), reference());
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  const CheckFinding& finding = report.findings[0];
  CHECK(finding.primitive == "custom_jvp_call");
  CHECK(finding.input == detail::str("operand 0 of operation ", *finding.operation));
  CHECK(finding.message.find(" in direction ") != std::string::npos);
  CHECK(finding.message.find(" of " + finding.input + '\n') != std::string::npos);
  CHECK(finding.message.find("operand.") == std::string::npos);
}

TEST_CASE("a wrong rule of 16 bits is found, and a right one agrees within the limit") {
  for (const DType dtype : {f16, bf16}) {
    const Tensor at = check::tensor_of(Type(dtype), {0.7});
    for (const double factor : {1.0, 1.5, 2.0, 0.5, -1.0}) {
      const CheckReport report = check_gradients(sine(Type(dtype), factor), std::span(&at, 1), reference());
      CHECK_MESSAGE(report.ok == (factor == 1.0), to_text(report));
      CHECK_FALSE(report.notes.empty());
      if (report.ok) CHECK(report.worst[1] < 2e-3);
    }
  }
}

TEST_CASE("a graph with a kink everywhere is reported as having no differences") {
  const Graph f = of_x(f64, [](Value x) { return ops::abs(x); });
  const Tensor at = scalar(0.0);
  const CheckReport report = check_gradients(f, std::span(&at, 1), reference());
  CHECK(report.ok);
  REQUIRE_FALSE(report.notes.empty());
  CHECK(report.notes[0].find("not compared with differences in output 0") != std::string::npos);
}

}  // namespace
}  // namespace tidu::cancelling_cases
