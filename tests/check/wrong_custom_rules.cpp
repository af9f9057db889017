// wrong_custom_rules.cpp - check_gradients holds rules of the user's against the graphs that they belong to,
// and names the primitive and the graph that is wrong, also within graphs that operations stand for.
#include <algorithm>

#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/custom.hpp"

namespace wrong_custom_rules_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

const Type v3{f64, {3}};
Graph sine() {
  return of_x(v3, [](Value x) { return ops::sin(x); });
}
Value times(Value x, double factor) { return x * ops::full_like(x, factor); }
// (factor_y sin x, factor cos(x) dx)
Graph jvp_rule(double factor, double factor_y = 1.0) {
  return of_xy(v3, v3, [=](Value x, Value dx) {
    return Values{times(ops::sin(x), factor_y), times(ops::cos(x) * dx, factor)};
  });
}
Graph forward_rule(double factor_y = 1.0) {
  GraphBuilder g("forward");
  const Value x = g.input("x", v3);
  return g.build({times(ops::sin(x), factor_y), ops::cos(x)});
}
Graph backward_rule(double factor, bool clipped = false) {
  return of_xy(v3, v3, [=](Value slope, Value ct) {
    const Value product = times(slope * ct, factor);
    return Values{clipped ? ops::clamp(ops::full_like(ct, -0.2), product, ops::full_like(ct, 0.2)) : product};
  });
}

enum class Place { alone, in_call, in_checkpoint };
using Emit = std::function<Values(const std::vector<Value>&)>;
CheckReport check_one(const Emit& custom, Place place) {
  Graph inner = [&] {
    GraphBuilder g("inner");
    return g.build({ops::exp(custom({g.input("x", v3)})[0])});
  }();
  GraphBuilder g("model");
  const Value x = g.input("x", v3), scale = g.input("scale", v3);
  const std::vector<Value> operands{x * scale};
  const Value y = place == Place::alone     ? custom(operands)[0]
                  : place == Place::in_call ? ops::call(inner, operands)[0]
                                            : ops::checkpoint(inner, operands)[0];
  const Graph f = g.build({ops::reduce_sum(y * x, {0})});
  return check_gradients(f, Tensors{vector({0.3, -0.7, 1.1}), vector({0.5, 1.5, -0.4})}, reference());
}
Emit by_jvp(double factor, double factor_y = 1.0) {
  return [=](const std::vector<Value>& x) {
    return ops::custom_jvp_call(sine(), jvp_rule(factor, factor_y), x);
  };
}
Emit by_vjp(double factor, bool clipped = false, double factor_y = 1.0) {
  return [=](const std::vector<Value>& x) {
    return ops::custom_vjp_call(sine(), forward_rule(factor_y), backward_rule(factor, clipped), x);
  };
}

void expect_fault(const CheckReport& report, std::string_view primitive, std::string_view words) {
  INFO(to_text(report));
  CHECK(!report.ok);
  REQUIRE(report.findings.size() == 1);
  const CheckFinding& finding = report.findings[0];
  CHECK(finding.primitive == primitive);
  CHECK(finding.operation == 1U);
  CHECK(finding.message.find(words) != std::string::npos);
}

}  // namespace

TEST_CASE("check_gradients: right custom rules pass") {
  for (const Place place : {Place::alone, Place::in_call, Place::in_checkpoint}) {
    for (const Emit& emit : {by_jvp(1.0), by_vjp(1.0)}) {
      const CheckReport report = check_one(emit, place);
      INFO(to_text(report));
      CHECK(report.ok);
    }
  }
}

TEST_CASE("check_gradients: a wrong custom rule is named as such") {
  for (const Place place : {Place::alone, Place::in_call, Place::in_checkpoint}) {
    CAPTURE(static_cast<int>(place));
    expect_fault(
        check_one(by_jvp(1.01), place), "custom_jvp_call",
        "the custom rule of custom_jvp_call is at fault: its graph jvp (\"f\") is not the derivative of "
        "its graph (\"f\")");
    const std::string_view backward =
        "the custom rule of custom_vjp_call is at fault: its graph backward (\"f\") is not the transposed "
        "derivative of its graph (\"f\")";
    expect_fault(check_one(by_vjp(1.01), place), "custom_vjp_call", backward);
    expect_fault(check_one(by_vjp(1.0, true), place), "custom_vjp_call", backward);
  }
}

TEST_CASE("check_gradients: a custom rule whose outputs are not those of its graph") {
  const auto finds = [](const CheckReport& report, std::string_view words) {
    INFO(to_text(report));
    CHECK(!report.ok);
    bool found = false;
    for (const CheckFinding& finding : report.findings)
      found = found || finding.message.find(words) != std::string::npos;
    CHECK(found);
  };
  for (const Place place : {Place::alone, Place::in_call, Place::in_checkpoint}) {
    finds(check_one(by_jvp(1.0, 1.01), place),
          "the custom rule of custom_jvp_call is at fault: output 0 of its graph jvp (\"f\") is not that of "
          "its graph");
    finds(check_one(by_vjp(1.0, false, 1.01), place),
          "the custom rule of custom_vjp_call is at fault: output 0 of its graph forward (\"forward\") is "
          "not that of");
  }
}

TEST_CASE("check_gradients: each of several wrong custom rules is found") {
  const auto finds = [](const CheckReport& report, std::size_t count) {
    INFO(to_text(report));
    CHECK(report.findings.size() == count);
    std::vector<std::uint32_t> operations;
    for (const CheckFinding& finding : report.findings) operations.push_back(finding.operation.value_or(99));
    std::sort(operations.begin(), operations.end());
    CHECK(operations == std::vector<std::uint32_t>{0, 1});
  };
  for (const DType dtype : {f64, f16}) {
    const Type type{dtype, {3}};
    const auto rule = [&](double factor_y, double factor) {
      return of_xy(type, type, [=](Value x, Value dx) {
        const Value slope = ops::cos(x) * dx;
        return Values{times(ops::sin(x), factor_y), times(slope, factor)};
      });
    };
    const Graph right = of_x(type, [](Value x) { return ops::sin(x); });
    const auto check_two = [&](const Graph& a, const Graph& b) {
      GraphBuilder g("model");
      const std::vector<Value> x{g.input("x", type)}, y{g.input("y", type)};
      const Value first = ops::custom_jvp_call(right, a, x)[0], second = ops::custom_jvp_call(right, b, y)[0];
      return check_gradients(
          g.build({first, second}),
          Tensors{check::tensor_of(type, {0.3, -0.7, 1.1}), check::tensor_of(type, {0.5, 1.5, -0.4})},
          reference());
    };
    CAPTURE(dtype == f64);
    finds(check_two(rule(1.0, 2.0), rule(1.0, 3.0)), 2);
    finds(check_two(rule(2.0, 1.0), rule(1.0, 3.0)), 2);
    finds(check_two(rule(1.0, 3.0), rule(2.0, 1.0)), 2);
    const CheckReport twice = check_two(rule(1.0, 2.0), rule(1.0, 2.0));
    INFO(to_text(twice));
    CHECK(twice.findings.size() == 1);  // one rule
  }
}

}  // namespace wrong_custom_rules_cases
