// forward_only.cpp - check_gradients of graphs without reverse mode: a while without a bound. Forward mode is
// checked at both orders, a wrong rule in it is found, and a note says that reverse mode was not and why.
#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace forward_only_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

// sin by a rule of its own, wrong by `factor`, until x is small.
Graph model(double factor) {
  const Graph sine = of_x(f64, [](Value x) { return ops::sin(x); });
  const Graph rule = of_xy(f64, f64, [&](Value x, Value dx) {
    return Values{ops::sin(x), ops::cos(x) * dx * ops::full_like(dx, factor)};
  });
  const Graph goes_on = of_x(f64, [](Value x) { return ops::gt(x, ops::full_like(x, 0.8)); });
  const Graph body = of_x(f64, [&](Value x) { return ops::custom_jvp_call(sine, rule, std::array{x})[0]; });
  return of_x(f64, [&](Value x) { return ops::exp(ops::while_loop(goes_on, body, std::array{x})[0]); });
}

TEST_CASE("check_gradients: without reverse mode forward mode is checked, and a note says so") {
  const CheckReport report = check_gradients(model(1.0), Tensors{scalar(1.4)}, reference());
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(report.comparisons[static_cast<std::size_t>(CheckKind::differences)] > 3);
  CHECK(report.comparisons[static_cast<std::size_t>(CheckKind::linearity)] > 3);
  CHECK(report.comparisons[static_cast<std::size_t>(CheckKind::transpose)] == 0);
  REQUIRE(report.notes.size() == 1);
  CHECK(
      report.notes[0].starts_with("forward mode was checked and reverse mode was not, which \"f\" has not: "
                                  "[while] expected a loop with a bound for reverse mode"));
}

TEST_CASE("check_gradients: without reverse mode a wrong rule is found") {
  const CheckReport report = check_gradients(model(1.01), Tensors{scalar(1.4)}, reference());
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].primitive == "custom_jvp_call");
}

}  // namespace
}  // namespace forward_only_cases
