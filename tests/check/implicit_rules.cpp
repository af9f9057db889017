// implicit_rules.cpp - check_gradients of rules that are right by the values of a function and not by its
// graph: a solve with a factorization after stop_gradient, a root found by bisection, a function that stops
// its own gradient. Right ones pass in any position, wrong ones are found, and other operations beside them
// are judged independently.
#include <cmath>

#include "check/helpers.hpp"
#include "support/support.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace implicit_rules_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

const Type v3{f64, {3}};
Value constant_like(Value x, double value) { return ops::full_like(x, value); }

// y solves a y = b, computed with s, which is a after stop_gradient: dy = factor (db - da y) / s.
Value solve(Value a, Value b, double factor) {
  GraphBuilder f("solve"), r("rule");
  f.input("a", v3);
  const Value s = f.input("s", v3), c = f.input("b", v3);
  const Graph graph = f.build({c / s});
  r.input("a", v3);
  const Value rs = r.input("s", v3), rb = r.input("b", v3), da = r.input("da", v3);
  r.input("ds", v3);
  const Value db = r.input("db", v3), y = rb / rs;
  const Value change = da * y;
  const Graph rule = r.build({y, (db - change) * constant_like(rs, factor) / rs});
  return ops::custom_jvp_call(graph, rule, std::array{a, ops::stop_gradient(a), b})[0];
}

// sin, by a rule of its own that is the derivative of its graph times `factor`.
Value sine(Value x, double factor) {
  const Graph graph = of_x(v3, [](Value t) { return ops::sin(t); });
  const Graph rule = of_xy(v3, v3, [&](Value t, Value dt) {
    return Values{ops::sin(t), ops::cos(t) * dt * constant_like(t, factor)};
  });
  return ops::custom_jvp_call(graph, rule, std::array{x})[0];
}

// The square root of a by bisection until the interval is smaller than `width`; dy = factor da / (2 y).
Value bisected(Value a, double width, double factor, bool by_vjp, std::optional<std::int64_t> bound) {
  const Graph root = of_x(f64, [&](Value x) {
    GraphBuilder c("goes_on"), b("halve");
    c.input("a", f64);
    const Value clo = c.input("lo", f64), chi = c.input("hi", f64);
    const Graph goes_on = c.build({ops::gt(chi - clo, constant_like(clo, width))});
    const Value ba = b.input("a", f64), lo = b.input("lo", f64), hi = b.input("hi", f64);
    const Value middle = (lo + hi) * constant_like(lo, 0.5);
    const Value up = ops::lt(middle * middle, ba);
    const Value next_lo = ops::select_n(up, lo, middle);
    const Graph halve = b.build({next_lo, ops::select_n(up, middle, hi)});
    const Value first = constant_like(x, 0.0);
    const Values ends =
        ops::while_loop(goes_on, halve, std::array{x, first, constant_like(x, 10.0)}, {1, bound});
    return (ends[0] + ends[1]) * constant_like(x, 0.5);
  });
  const auto root_of = [&](Value x) { return ops::call(root, std::array{x})[0]; };
  if (by_vjp) {
    const Graph forward = of_x(f64, root_of);
    GraphBuilder g("forward");
    const Value x = g.input("a", f64), y = root_of(x);
    const Graph with_residual = g.build({y, y});
    const Graph backward = of_xy(
        f64, f64, [&](Value y0, Value ct) { return Values{ct * constant_like(ct, 0.5 * factor) / y0}; });
    return ops::custom_vjp_call(root, with_residual, backward, std::array{a})[0];
  }
  const Graph rule = of_xy(f64, f64, [&](Value x, Value dx) {
    const Value y = root_of(x);
    return Values{y, dx * constant_like(dx, 0.5 * factor) / y};
  });
  return ops::custom_jvp_call(root, rule, std::array{a})[0];
}

CheckReport first_order(const Graph& f, const Tensors& at) {
  CheckOptions options;
  options.order = 1;
  return check_gradients(f, at, reference(), options);
}
const Tensors& point() {
  static const Tensors at{vector({0.3, -0.7, 1.1}), vector({0.5, 1.5, -0.4})};
  return at;
}

enum class Place { alone, call, scan };
Graph solves(Place place, double factor, double factor_of_sine = 1.0) {
  return of_xy(v3, v3, [&](Value x, Value y) {
    const auto body = [&](Value a, Value b) {
      const Value z = solve(ops::exp(a), b, factor);
      return Values{ops::sin(a), ops::tanh(z)};
    };
    const Value beside = sine(ops::stop_gradient(x) * x, factor_of_sine);
    Values results;
    const Graph inner = of_xy(v3, v3, body);
    switch (place) {
      case Place::alone: results = body(x, y); break;
      case Place::call: results = ops::call(inner, std::array{x, y}); break;
      default: results = ops::scan(inner, std::array{x, y}, {3, false, 0, 2}); break;
    }
    return Values{results[0], results[1], beside};
  });
}

TEST_CASE("check_gradients: a solve with a factor after stop_gradient is compared by its values") {
  std::size_t wrong_ones = 0;
  for (const Place place : {Place::alone, Place::call, Place::scan}) {
    CAPTURE(static_cast<int>(place));
    const CheckReport right = first_order(solves(place, 1.0), point());
    INFO(to_text(right));
    CHECK(right.ok);
    CHECK(right.comparisons[static_cast<std::size_t>(CheckKind::differences)] > 0);
    for (const double factor : {-1.0, 1.01, 0.0}) {
      if (!test::sampled(wrong_ones++)) continue;
      const CheckReport wrong = first_order(solves(place, factor), point());
      CHECK_MESSAGE(!wrong.ok, to_text(wrong));
    }
  }
}

TEST_CASE("check_gradients: beside an implicit rule only the wrong rule is accused") {
  const CheckReport report = first_order(solves(Place::alone, 1.0, 1.01), point());
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].message.find("\"f\"") != std::string::npos);
  CHECK(report.findings[0].message.find("solve") == std::string::npos);
}

TEST_CASE("check_gradients: an implicit rule is named in a note") {
  const CheckReport report =
      first_order(of_xy(v3, v3, [](Value x, Value y) { return Values{solve(x, y, 1.0)}; }),
                  Tensors{vector({0.3, -0.7, 1.1}), vector({0.5, 1.5, -0.4})});
  INFO(to_text(report));
  CHECK(report.ok);
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].starts_with("operation 1, custom_jvp_call ("));
}

TEST_CASE("check_gradients: a root by bisection") {
  const auto check_root = [](double width, double factor, bool by_vjp, std::optional<std::int64_t> bound) {
    return first_order(
        of_x(f64, [&](Value a) { return ops::exp(bisected(a, width, factor, by_vjp, bound)); }),
        {scalar(2.0)});
  };
  std::size_t combination = 0, wrong_ones = 0;
  for (const std::optional<std::int64_t> bound :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(80)}) {
    for (const bool by_vjp : {false, true}) {
      for (const double width : {1e-13, 1e-6, 1e-3}) {
        if (!test::sampled(combination++)) continue;
        CAPTURE(bound.has_value());
        CAPTURE(by_vjp);
        CAPTURE(width);
        const CheckReport right = check_root(width, 1.0, by_vjp, bound);
        CHECK_MESSAGE(right.ok, to_text(right));
        // That of the graph, 0, is right between two steps of the search.
        for (const double factor : {-1.0, 3.0}) {
          if (!test::sampled(wrong_ones++)) continue;
          CAPTURE(factor);
          const CheckReport wrong = check_root(width, factor, by_vjp, bound);
          CHECK_MESSAGE(!wrong.ok, to_text(wrong));
        }
      }
    }
  }
}

// (name, function, right slope): rules of functions that stop their own gradients.
TEST_CASE("check_gradients: a function that stops its gradient may be given that of its values, or its own") {
  const auto with_rule = [](const std::function<Value(Value)>& f, const std::function<Value(Value)>& slope) {
    const Graph rule = of_xy(v3, v3, [&](Value x, Value dx) { return Values{f(x), slope(x) * dx}; });
    return of_x(v3, [&](Value x) { return ops::custom_jvp_call(of_x(v3, f), rule, std::array{x})[0]; });
  };
  const auto f = [](Value x) { return x * ops::stop_gradient(ops::sin(x)); };
  const auto by_values = [](Value x) { return ops::sin(x) + x * ops::cos(x); };
  const auto stopped = [](Value x) { return ops::stop_gradient(ops::sin(x)); };
  const auto neither = [](Value x) { return x * ops::cos(x); };
  const Tensors at{vector({0.3, -0.7, 1.1})};
  for (const auto& slope : {std::function<Value(Value)>(by_values), std::function<Value(Value)>(stopped)}) {
    const CheckReport right = first_order(with_rule(f, slope), at);
    CHECK_MESSAGE(right.ok, to_text(right));
  }
  const CheckReport wrong = first_order(with_rule(f, neither), at);
  CHECK_MESSAGE(!wrong.ok, to_text(wrong));
}

TEST_CASE("check_gradients: an implicit rule that is right at first order alone is found at second") {
  const CheckReport report = check_gradients(
      of_xy(v3, v3, [](Value x, Value y) { return Values{solve(x, y, 1.0)}; }), point(), reference());
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].order == 2);
}

}  // namespace
}  // namespace implicit_rules_cases
