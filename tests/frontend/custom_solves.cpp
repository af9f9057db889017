// custom_solves.cpp - custom_linear_solve and custom_root of Arrays: recorded on the tape as calls of graphs,
// compiled, traced, mapped and differentiated by the transforms of Arrays, against closed forms.
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "support.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

Graph of_inputs(std::size_t count, Type type, const std::function<Value(const std::vector<Value>&)>& f) {
  GraphBuilder g("f");
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < count; ++i) inputs.push_back(g.input(detail::str('x', i), type));
  return g.build({f(inputs)});
}
using Inputs = const std::vector<Value>&;

// b / d, by a loop without a bound: x = x + (b - d x) / 6 for d in (0, 12).
Graph richardson(Type type) {
  const Graph step = of_inputs(3, type,
                               [](Inputs v) {
                                 const Value missing = v[1] - v[0] * v[2];
                                 return v[2] + missing * ops::full_like(missing, 1.0 / 6.0);
                               }),
              until = of_inputs(3, type, [](Inputs v) {
                const Value missing = ops::abs(v[1] - v[0] * v[2]);
                return ops::reduce_or(ops::gt(missing, ops::full_like(missing, 1e-12)), {0});
              });
  return of_inputs(2, type, [&](Inputs v) {
    const Value operands[] = {v[0], v[1], ops::full_like(v[1], 0.0)};
    return ops::while_loop(until, step, operands, {2, {}})[0];
  });
}

// The x with d x = b.
Graph quotient() {
  const Type type(f64, {3});
  const Graph matvec = of_inputs(2, type, [](Inputs v) { return v[0] * v[1]; });
  return of_inputs(2, type, [&](Inputs v) {
    const Value operands[] = {v[0], v[1]};
    return ops::custom_linear_solve(matvec, richardson(type), operands, {1, {}, true})[0];
  });
}

// The x with x x = a, by Heron's steps, whatever the guess.
Graph heron() {
  const Type type(f64, {3});
  const Graph step = of_inputs(2, type,
                               [](Inputs v) {
                                 const Value sum = v[1] + v[0] / v[1];
                                 return sum * ops::full_like(sum, 0.5);
                               }),
              residual = of_inputs(2, type, [](Inputs v) { return v[1] * v[1] - v[0]; });
  const Graph until = of_inputs(2, type, [](Inputs v) {
    const Value missing = ops::abs(v[1] * v[1] - v[0]);
    return ops::reduce_or(ops::gt(missing, ops::full_like(missing, 1e-12)), {0});
  });
  const Graph solve = of_inputs(2, type, [&](Inputs v) {
    const Value operands[] = {v[0], v[1]};
    return ops::while_loop(until, step, operands, {1, {}})[0];
  });
  return of_inputs(1, type, [&](Inputs v) {
    const Value operands[] = {v[0], ops::full_like(v[0], 1.0)};
    return ops::custom_root(residual, solve, operands, {1, {}, {}})[0];
  });
}

const Array d0 = array({1.5, 2.0, 3.0}), b0 = array({0.5, -1.0, 2.0});

// The derivatives of order n: of b0 / d with respect to d, and of the square root.
Array quotient_derivative(int n, const Array& d) {
  const Array power = pow(d, -(n + 1.0));
  return b0 * power * std::pow(-1.0, n) * std::tgamma(n + 1);
}
Array root_derivative(int n, const Array& a) {
  double factor = 1.0;
  for (int k = 0; k < n; ++k) factor *= 0.5 - k;
  return factor * pow(a, 0.5 - n);
}

using Function = std::function<Array(const Array&)>;
struct Solve {
  const char* name;
  Function function;
  Array (*derivative)(int n, const Array& x);
};
std::vector<Solve> solves() {
  return {{"a quotient",
           [](const Array& d) {
             return call_graph(quotient(), {d, b0})[0];
           },
           quotient_derivative},
          {"a square root", [](const Array& a) { return call_graph(heron(), {a})[0]; }, root_derivative}};
}

TEST_CASE("custom_linear_solve and custom_root on the tape, to third order") {
  for (const Solve& solve : solves()) {
    CAPTURE(solve.name);
    const Array x = leaf(d0);
    Array y = solve.function(x);
    CHECK(distance(y, solve.derivative(0, d0)) < 1e-12);
    for (int n = 1; n <= 3; ++n) {
      y = grad_of(sum(y), {x}, {.create_graph = true})[0].value();
      CAPTURE(n);
      CHECK(distance(y, solve.derivative(n, d0)) < 1e-10);
    }
  }
  const Array d = leaf(d0), b = leaf(b0);
  sum(call_graph(quotient(), {d, b})[0]).backward();
  CHECK(distance(b.grad().value(), 1.0 / d0) < 1e-12);
}

TEST_CASE("custom_linear_solve and custom_root in the transforms of Arrays, compiled or not") {
  const Array ones = ones_like(d0);
  for (const Solve& solve : solves()) {
    CAPTURE(solve.name);
    const Function total = [&](const Array& x) { return sum(solve.function(x)); };
    const Function forward = [&](const Array& x) { return jvp(solve.function, x, ones).second; };
    const Function reverse = [&](const Array& x) { return grad(total)(x); };
    const std::pair<int, Function> derivatives[] = {
        {0, solve.function},
        {1, forward},
        {1, reverse},
        {2, [&](const Array& x) { return jvp(forward, x, ones).second; }},
        {2, [&](const Array& x) { return jvp(reverse, x, ones).second; }},
        {2, [&](const Array& x) { return grad([&](const Array& a) { return sum(forward(a)); })(x); }},
        {2, [&](const Array& x) { return grad([&](const Array& a) { return sum(reverse(a)); })(x); }}};
    for (const auto& derivative : derivatives) {
      CAPTURE(derivative.first);
      const Array expected = solve.derivative(derivative.first, d0);
      CHECK(distance(derivative.second(d0), expected) < 1e-10);
      CHECK(distance(compile(derivative.second)(d0), expected) < 1e-10);
      const Array rows = concatenate({reshape(d0, {1, 3}), reshape(2.0 * d0, {1, 3})}, 0);
      const Array mapped = vmap(derivative.second)(rows);
      CHECK(distance(mapped[0], expected) < 1e-10);
      CHECK(distance(mapped[1], solve.derivative(derivative.first, 2.0 * d0)) < 1e-10);
    }
  }
}

}  // namespace
}  // namespace tidu::test
