// Derivatives of higher order through custom rules: in every mode those of the declared derivative, which is
// closed in form here, where the function's own graph has another one or none.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/frontend/control_flow.hpp"
#include "tidu/frontend/custom.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/linalg.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/frontend/transforms.hpp"
#include "tidu/frontend/vmap.hpp"

namespace {

using namespace tidu;
using Scalar = std::function<Array(const Array&)>;

// y with y² = a, by bisection: its own derivative is 0.
Array bisected(const Array& a) {
  struct Interval {
    Array low, high;
  };
  const Interval found =
      while_loop([](const Interval& c) { return c.high - c.low > 1e-15; },
                 [&](const Interval& c) {
                   const Array middle = 0.5 * (c.low + c.high);
                   const Array below = middle * middle < a;
                   return Interval{where(below, middle, c.low), where(below, c.high, middle)};
                 },
                 Interval{zeros_like(a), zeros_like(a) + 10.0}, 80);
  return 0.5 * (found.low + found.high);
}
const auto root_by_jvp = custom_jvp(bisected, [](const Array& a, const Array& da) {
  const Array y = bisected(a);
  return std::pair(y, da / (2.0 * y));
});
const auto root_by_vjp = custom_vjp(
    bisected,
    [](const Array& a) {
      const Array y = bisected(a);
      return std::pair(y, y);
    },
    [](const Array& y, const Array& ct) { return ct / (2.0 * y); });

// The second derivative of f at a, in every way to it.
std::vector<std::pair<std::string, double>> second_orders(const Scalar& f, double at) {
  const Array a(at), one(1.0);
  const Scalar compiled = [inner = compile([f](const Array& x) { return f(x); })](const Array& x) {
    return inner(x);
  };
  const auto kept = checkpoint([f](const Array& x) { return f(x); });
  const auto of = [&](const Array& value) { return value.item<double>(); };
  const Graph graph = trace([&](const Array& x) { return f(x); }, Type(f64));
  const auto twice = [&](const Graph& g) { return cpu().run(g, {a.tensor()})[0].at(0).real(); };
  return {{"hessian", of(hessian(f)(a))},
          {"hvp", of(hvp(f, a, one))},
          {"grad of grad", of(grad(grad(f))(a))},
          {"jvp of grad", of(jvp(grad(f), a, one).second)},
          {"grad of jvp", of(grad([&](const Array& x) { return jvp(f, x, one).second; })(a))},
          {"jvp of jvp", of(jvp([&](const Array& x) { return jvp(f, x, one).second; }, a, one).second)},
          {"compiled hvp", of(compile([&](const Array& x) { return hvp(f, x, one); })(a))},
          {"hvp of compiled", of(hvp(compiled, a, one))},
          {"hvp of checkpoint", of(hvp([&](const Array& x) { return kept(x); }, a, one))},
          {"hessian of checkpoint", of(hessian([&](const Array& x) { return kept(x); })(a))},
          {"graph", twice(grad(grad(graph)))},
          {"vmap", of(vmap(grad(grad(f)))(reshape(a, {1}))[0])}};
}
void check_second_order(const Scalar& f, double at, double expected) {
  for (const auto& way : second_orders(f, at)) {
    CAPTURE(way.first);
    CHECK(way.second == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("custom rules: the second order of a root is that of its rule, in every mode") {
  const double a = 2.0;
  const Scalar by_jvp = [](const Array& x) { return root_by_jvp(x); };
  const Scalar by_vjp = [](const Array& x) { return root_by_vjp(x); };
  for (const Scalar& y : {by_jvp, by_vjp}) {
    check_second_order(y, a, -0.25 / std::pow(a, 1.5));
    check_second_order([y](const Array& x) { return square(y(x)); }, a, 0.0);
    check_second_order([y](const Array& x) { return y(x) * y(x) * y(x); }, a, 0.75 / std::sqrt(a));
    check_second_order([y](const Array& x) { return sin(y(x)) * x; }, a,
                       [a] {
                         const double s = std::sqrt(a);
                         return std::cos(s) / s - std::sin(s) / 4.0 - std::cos(s) / (4.0 * s);
                       }());
    CHECK(grad(grad(grad(y)))(Array(a)).item<double>() == doctest::Approx(0.375 / std::pow(a, 2.5)));
    CHECK(hessian(grad(y))(Array(a)).item<double>() == doctest::Approx(0.375 / std::pow(a, 2.5)));
  }
}

TEST_CASE("custom rules: a declared derivative that is not the graph's is the same in every mode") {
  // f = sin with f' declared as 2 cos: (f(f(x)))'' follows from that alone.
  const auto f =
      custom_jvp([](const Array& x) { return sin(x); },
                 [](const Array& x, const Array& t) { return std::pair(sin(x), 2.0 * cos(x) * t); });
  const auto g =
      custom_vjp([](const Array& x) { return sin(x); }, [](const Array& x) { return std::pair(sin(x), x); },
                 [](const Array& x, const Array& ct) { return 2.0 * cos(x) * ct; });
  const double x = 2.0, y = std::sin(x);
  const double expected = -8.0 * std::sin(y) * std::cos(x) * std::cos(x) - 4.0 * std::cos(y) * std::sin(x);
  check_second_order([f](const Array& a) { return f(f(a)); }, x, expected);
  check_second_order([g](const Array& a) { return g(g(a)); }, x, expected);
  check_second_order([f](const Array& a) { return f(checkpoint([f](const Array& b) { return f(b); })(a)); },
                     x, expected);
}

// a y = b for y, whose graph has no derivative by a; the rule of order k solves by the function of order k
// - 1.
using Solver = std::function<Array(const Array&, const Array&)>;
const Solver plain_solver = [](const Array& a, const Array& b) { return b / stop_gradient(a); };
Solver solver_by_jvp(int orders) {
  if (orders == 0) return plain_solver;
  const Solver inner = solver_by_jvp(orders - 1);
  return custom_jvp(plain_solver, [inner](const Array& a, const Array& b, const Array& da, const Array& db) {
    const Array y = plain_solver(a, b);
    return std::pair(y, inner(a, db - da * y));
  });
}
// The same by a loop, whose graph is not linear in b: y becomes b / a by Newton's method on 1 / a.
Array iterated(const Array& a, const Array& b) {
  struct State {
    Array y;
  };
  return while_loop([a, b](const State& s) { return abs(a * s.y - b) > 1e-13; },
                    [a, b](const State& s) { return State{s.y + 0.4 * (b - a * s.y)}; }, State{zeros_like(b)})
      .y;
}
Solver solver_by_vjp(int orders) {
  if (orders == 0) return plain_solver;
  const Solver inner = solver_by_vjp(orders - 1);
  return custom_vjp(
      iterated,
      [](const Array& a, const Array& b) {
        const Array y = iterated(a, b);
        return std::pair(y, std::tuple(a, y));
      },
      [inner](const std::tuple<Array, Array>& kept, const Array& ct) {
        const auto& [k, y] = kept;
        const Array w = inner(k, ct);
        return std::tuple(-w * y, w);
      });
}

TEST_CASE("custom rules: a rule that solves by a function with a rule has its derivatives at every order") {
  const double a = 2.0, b = 3.0;
  for (const Solver& solve : {solver_by_jvp(4), solver_by_vjp(4)}) {
    // b / a, by a alone and by both along (1, x)
    check_second_order([&](const Array& x) { return solve(x, Array(b)); }, a, 2.0 * b / (a * a * a));
    check_second_order([&](const Array& x) { return solve(x, sin(x)) * x; }, a, -std::sin(a));
    check_second_order([&](const Array& x) { return square(solve(x, x * x * x)); }, a, 12.0 * a * a);  // x⁴
    const Scalar of_a = [&](const Array& x) { return solve(x, Array(b)); };
    CHECK(grad(grad(grad(of_a)))(Array(a)).item<double>() == doctest::Approx(-6.0 * b / std::pow(a, 4)));
    CHECK(jacfwd(jacfwd(of_a))(Array(a)).item<double>() == doctest::Approx(2.0 * b / std::pow(a, 3)));
  }
}

TEST_CASE("custom rules: rules within rules in loops and branches, and over a batch") {
  const Solver solve = solver_by_jvp(3);
  const auto in_scan = [&](const Array& x) {
    return scan([&](const Array& c, const auto&) { return std::pair(solve(x, c), std::nullopt); }, Array(3.0),
                std::nullopt, 3)
        .first;
  };  // 3 / x³
  check_second_order(in_scan, 2.0, 36.0 / std::pow(2.0, 5));
  const auto in_branch = [&](const Array& x) {
    return cond(
        x > 0.0, [&](const Array& v) { return solve(v, square(v) * v); }, [](const Array& v) { return v; },
        x);
  };  // x²
  check_second_order(in_branch, 2.0, 2.0);
  const Array a = array({1.0, 2.0, 4.0}), b = array({3.0, 5.0, 7.0});
  const auto each = vmap([&](const Array& x, const Array& y) {
    return hvp([&](const Array& v) { return solve(v, y * v * v * v); }, x, Array(1.0));
  });
  const Array got = each(a, b);
  for (std::int64_t i = 0; i < 3; ++i)
    CHECK(got[i].item<double>() == doctest::Approx(2.0 * b[i].item<double>()));
}

// w with Aᵀ w = c, by steps that go on until they are enough: no rule transposes that.
Array solved_by_steps(const Array& a, const Array& c) {
  struct State {
    Array w;
  };
  return while_loop([a, c](const State& s) { return sum(square(matmul(s.w, a) - c)) > 1e-28; },
                    [a, c](const State& s) { return State{s.w + 0.3 * (c - matmul(s.w, a))}; },
                    State{zeros_like(c)})
      .w;
}
// x with A x = b, whose own graph has no derivative.
const auto solve_by_steps =
    custom_vjp([](const Array& a, const Array& b) { return stop_gradient(linalg::solve(a, b)); },
               [](const Array& a, const Array& b) {
                 const Array x = linalg::solve(a, b);
                 return std::pair(x, std::tuple(a, x));
               },
               [](const std::tuple<Array, Array>& kept, const Array& ct) {
                 const auto& [a, x] = kept;
                 const Array w = solved_by_steps(a, ct);
                 return std::tuple(-outer(w, x), w);
               });

TEST_CASE("custom rules: forward mode of a backward that iterates without a bound is its transpose") {
  const Array a = array({{3.0, 0.5, -0.2}, {0.1, 2.5, 0.4}, {-0.3, 0.2, 2.0}}), b = array({1.0, -2.0, 0.5});
  const Array da = array({{0.2, -0.1, 0.3}, {0.5, 0.1, -0.4}, {0.0, 0.7, 0.2}}), db = array({0.3, 0.1, -0.6});
  const auto f = [](const Array& m, const Array& v) { return solve_by_steps(m, v); };
  // dx = A⁻¹ (db - dA x), d²x along the same = -2 A⁻¹ dA dx
  const Array x = linalg::solve(a, b), dx = linalg::solve(a, db - matmul(da, x)),
              ddx = -2.0 * linalg::solve(a, matmul(da, dx));
  const auto along = [&](const Array& s) { return f(a + s * da, b + s * db); };
  const Array zero(0.0), one(1.0);
  const auto slope = [&](const Array& s) { return jvp(along, s, one).second; };
  const auto is = [](const Array& got, const Array& expected) {
    const double distance = max(abs(got - expected)).item<double>();
    CHECK(distance < 1e-12);
  };
  is(slope(zero), dx);
  is(compile(slope)(zero), dx);
  is(jacfwd(along)(zero), dx);
  is(jvp(checkpoint(along), zero, one).second, dx);
  is(vmap(slope)(zeros({2}))[1], dx);
  is(jacrev(along)(zero), dx);
  is(jvp(slope, zero, one).second, ddx);
  const auto loss = [&](const Array& s) { return sum(along(s)); };
  is(jvp(grad(loss), zero, one).second, sum(ddx));
  is(hessian(loss)(zero), sum(ddx));
  CHECK_THROWS_AS(grad(grad(loss))(zero), ADRuleError);
}

}  // namespace
