// cancelling.cpp - check_gradients where derivatives cancel, and where 16 bits are too few for differences.
#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"

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

TEST_CASE("what has a kink everywhere is told to be without differences") {
  const Graph f = of_x(f64, [](Value x) { return ops::abs(x); });
  const Tensor at = scalar(0.0);
  const CheckReport report = check_gradients(f, std::span(&at, 1), reference());
  CHECK(report.ok);
  REQUIRE_FALSE(report.notes.empty());
  CHECK(report.notes[0].find("not compared with differences in output 0") != std::string::npos);
}

}  // namespace
}  // namespace tidu::cancelling_cases
