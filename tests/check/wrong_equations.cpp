// wrong_equations.cpp - check_gradients names the graph of the user's that is at fault in a
// custom_linear_solve or custom_root: one that does not solve, for results, for tangents or for cotangents,
// or a rule in the equation. Right ones pass.
#include <array>
#include <functional>

#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/custom.hpp"

namespace wrong_equation_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

const Type v2{f64, {2}};

Value scaled(Value x, double factor) { return x * ops::full_like(x, factor); }
Graph graph_of(const char* name, std::size_t inputs, const std::function<Value(std::span<const Value>)>& f) {
  GraphBuilder g(name);
  std::vector<Value> values;
  for (std::size_t i = 0; i < inputs; ++i) values.push_back(g.input(detail::str('x', i), v2));
  return g.build({f(values)});
}

// x x, of which the rule of the user's has that factor.
Value square_by_rule(Value x, double factor) {
  const Graph graph = graph_of("square", 1, [](auto v) { return v[0] * v[0]; });
  GraphBuilder g("square_jvp");
  const Value a = g.input("a", v2), da = g.input("da", v2);
  const Value slope = scaled(a, 2.0 * factor);
  const Graph jvp = g.build({a * a, slope * da});
  return ops::custom_jvp_call(graph, jvp, std::array{x})[0];
}

struct Factors {
  double solve = 1.0, transpose_solve = 1.0, rule = 1.0;
};
// a² x = b
Graph linear(const Factors& factors, bool symmetric = false) {
  const Graph matvec =
      graph_of("times_square", 2, [&](auto v) { return square_by_rule(v[0], factors.rule) * v[1]; });
  const auto solution = [](const char* name, double factor) {
    return graph_of(name, 2, [=](auto v) { return scaled(v[1] / (v[0] * v[0]), factor); });
  };
  LinearSolve how{1, {}, symmetric};
  if (!symmetric) how.transpose_solve = solution("by_square_transposed", factors.transpose_solve);
  const Graph solve = solution("by_square", factors.solve);
  return graph_of("f", 2, [&](auto v) { return ops::custom_linear_solve(matvec, solve, v, how)[0]; });
}
// x² = a
Graph root(const Factors& factors, double tangent_solve = 1.0, bool dense = false) {
  const Graph residual =
      graph_of("square_less", 2, [&](auto v) { return square_by_rule(v[1], factors.rule) - v[0]; });
  const auto linearized = [](const char* name, double factor) {
    return graph_of(name, 3, [=](auto v) { return scaled(v[2] / scaled(v[1], 2.0), factor); });
  };
  RootSolve how{1, {}, {}};
  if (!dense) {
    how.tangent_solve = linearized("by_double", tangent_solve);
    how.transpose_tangent_solve = linearized("by_double_transposed", factors.transpose_solve);
  }
  const Graph solve = graph_of(
      "square_root", 2, [&](auto v) { return scaled(ops::sqrt(v[0]), factors.solve) + scaled(v[1], 0.0); });
  return graph_of("f", 2, [&](auto v) { return ops::custom_root(residual, solve, v, how)[0]; });
}

CheckReport checked(const Graph& f) {
  return check_gradients(f, Tensors{vector({1.2, 0.7}), vector({0.5, 1.5})}, reference());
}
void accuses(const Graph& f, std::string_view words) {
  const CheckReport report = checked(f);
  INFO(to_text(report));
  REQUIRE(!report.ok);
  CHECK(report.findings[0].message.find(words) != std::string::npos);
}

TEST_CASE("check_gradients: right equations pass") {
  for (const Graph& f : {linear({}), linear({}, true), root({}), root({}, 1.0, true)}) {
    const CheckReport report = checked(f);
    CHECK_MESSAGE(report.ok, to_text(report));
  }
}

TEST_CASE("check_gradients: the wrong graph of a custom_linear_solve is named") {
  accuses(
      linear({.solve = 1.01}),
      "the equation of custom_linear_solve is at fault: its graph solve (\"by_square\") does not solve its "
      "graph matvec (\"times_square\"): relative error 0.0");
  accuses(linear({.transpose_solve = 1.01}),
          "its graph transpose_solve (\"by_square_transposed\") does not solve the transposed system of its "
          "graph matvec (\"times_square\") for cotangents");
  accuses(linear({.rule = 1.01}), "found in operation 0 of the matvec of custom_linear_solve");
}

TEST_CASE("check_gradients: the wrong graph of a custom_root is named") {
  for (const bool dense : {false, true}) {
    accuses(
        root({.solve = 1.01}, 1.0, dense),
        "the equation of custom_root is at fault: its graph solve (\"square_root\") does not solve its graph "
        "residual (\"square_less\"): relative error ");
  }
  accuses(
      root({}, 1.01),
      "its graph tangent_solve (\"by_double\") does not solve the linearized equation of its graph residual "
      "(\"square_less\") for tangents");
  accuses(
      root({.transpose_solve = 1.01}),
      "its graph transpose_tangent_solve (\"by_double_transposed\") does not solve the transposed linearized "
      "equation of its graph residual (\"square_less\") for cotangents");
  accuses(root({.rule = 1.01}, 1.0, true), "found in operation 0 of the residual of custom_root");
}

}  // namespace
}  // namespace wrong_equation_cases
