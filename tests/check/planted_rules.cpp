// planted_rules.cpp - rules with one fault each, planted in every place where an operation may stand: each is
// found, and the right rule in the same place is not accused. Faults: sign, factor, a missing operand,
// swapped operands, one element, an untransposed matrix, a rule that is right at first order only.
#include <array>

#include "check/helpers.hpp"
#include "support/support.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/linalg.hpp"

namespace planted_rules_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

enum class Fault { none, sign, factor, missing, swapped, element, second };
constexpr std::array<std::string_view, 7> fault_names{"none",    "sign",    "factor", "missing",
                                                      "swapped", "element", "second"};
enum class Place { alone, call, checkpoint, scan, scan_in_scan, bounded, unbounded, branch, stopped };
constexpr std::array<std::string_view, 9> place_names{
    "alone", "call", "checkpoint", "scan", "scan_in_scan", "bounded", "unbounded", "branch", "stopped"};

Value scaled(Value x, double factor) { return x * ops::full_like(x, factor); }
// One of three elements is 20 % larger.
Value in_one_element(Value x) {
  const Value weights =
      ops::constant(*x.emitter(), Literal::of<double>({f64, {3}}, std::vector<double>{1, 1, 1.2}));
  return x * (x.dtype() == f64 ? weights : ops::convert_element_type(weights, x.dtype()));
}

// z = y sin x + exp y, and its slopes by x and y, of which the first has the fault.
Value function(Value x, Value y) { return y * ops::sin(x) + ops::exp(y); }
Value slope_x(Value x, Value y, Fault fault) {
  const Value slope = y * ops::cos(fault == Fault::second ? ops::stop_gradient(x) : x);
  switch (fault) {
    case Fault::sign: return -slope;
    case Fault::factor: return scaled(slope, x.dtype() == f64 ? 1.01 : 1.1);
    case Fault::missing: return scaled(slope, 0.0);
    case Fault::element: return in_one_element(slope);
    default: return slope;
  }
}
Value slope_y(Value x, Value y) { return ops::sin(x) + ops::exp(y); }

Graph graph_of(Type t) {
  return of_xy(t, t, [](Value x, Value y) { return Values{function(x, y)}; });
}
Values by_jvp(Value x, Value y, Fault fault) {
  GraphBuilder g("rule");
  const Type t = x.type();
  const Value a = g.input("x", t), b = g.input("y", t), da = g.input("dx", t), db = g.input("dy", t);
  const Value first = fault == Fault::swapped ? db : da, second = fault == Fault::swapped ? da : db;
  const Value slope = slope_x(a, b, fault);
  const Value along_x = slope * first;
  const Value along_y = slope_y(a, b) * second;
  const Value z = function(a, b);
  return ops::custom_jvp_call(graph_of(t), g.build({z, along_x + along_y}), std::array{x, y});
}
Values by_vjp(Value x, Value y, Fault fault) {
  const Type t = x.type();
  GraphBuilder f("forward"), g("backward");
  const Value a = f.input("x", t), b = f.input("y", t);
  const Value z = function(a, b);
  const Graph forward = f.build({z, a, b});
  const Value p = g.input("x", t), q = g.input("y", t), ct = g.input("ct", t);
  const Value slope = slope_x(p, q, fault);
  const Value by_x = slope * ct;
  const Value by_y = slope_y(p, q) * ct;
  const Graph backward = fault == Fault::swapped ? g.build({by_y, by_x}) : g.build({by_x, by_y});
  return ops::custom_vjp_call(graph_of(t), forward, backward, std::array{x, y});
}
using Emit = Values (*)(Value, Value, Fault);

// (x, y) -> (x', y') with the operation in it.
Graph step(Type t, Emit emit, Fault fault) {
  return of_xy(t, t, [&](Value x, Value y) {
    const Value z = emit(x, y, fault)[0];
    return Values{ops::tanh(z), ops::sin(y)};
  });
}
Values loop(Value x, Value y, const Graph& body, std::optional<std::int64_t> bound) {
  const Type t = x.type();
  GraphBuilder c("goes_on"), b("step");
  const Value at = c.input("n", i32);
  c.input("x", t), c.input("y", t);
  const Graph goes_on = c.build({ops::lt(at, ops::full_like(at, 3.0))});
  const Value n = b.input("n", i32), bx = b.input("x", t), by = b.input("y", t);
  const Values next = ops::call(body, std::array{bx, by});
  const Value counted = n + ops::full_like(n, 1.0);
  const Value zero = ops::full(*x.emitter(), Type(i32), 0.0);
  const Values results =
      ops::while_loop(goes_on, b.build({counted, next[0], next[1]}), std::array{zero, x, y}, {0, bound});
  return {results[1], results[2]};
}
Values apply(Place place, Value x, Value y, Emit emit, Fault fault) {
  const Graph body = step(x.type(), emit, fault);
  const std::array operands{x, y};
  switch (place) {
    case Place::call: return ops::call(body, operands);
    case Place::checkpoint: return ops::checkpoint(body, operands);
    case Place::scan: return ops::scan(body, operands, {3, false, 0, 2});
    case Place::scan_in_scan: {
      const Graph outer = of_xy(x.type(), x.type(), [&](Value a, Value b) {
        return ops::scan(body, std::array{a, b}, {2, true, 0, 2});
      });
      return ops::scan(outer, operands, {2, false, 0, 2});
    }
    case Place::bounded: return loop(x, y, body, 5);
    case Place::unbounded: return loop(x, y, body, std::nullopt);
    case Place::branch: {
      const Graph plain = of_xy(x.type(), x.type(), [](Value a, Value b) {
        return Values{ops::sin(a), b * a};
      });
      const Value first = ops::reshape(ops::slice(x, {0}, {1}), {});
      return ops::cond(ops::lt(first, ops::full_like(first, 5.0)), std::array{plain, body}, operands);
    }
    case Place::stopped: {
      const Value z = emit(x * ops::stop_gradient(x), y, fault)[0];
      return {z, z * ops::stop_gradient(z)};
    }
    default: {
      const Value z = emit(x, y, fault)[0];
      return {ops::tanh(z), y};
    }
  }
}

CheckReport checked(Place place, Emit emit, Fault fault, DType dtype) {
  const Type t{dtype, {3}};
  GraphBuilder g("model");
  const Value x = g.input("x", t), y = g.input("y", t);
  const Value inner = ops::sin(x);
  const Values results = apply(place, inner, y, emit, fault);
  const Value product = results[0] * y;
  return check_gradients(
      g.build({product, ops::exp(results[1])}),
      Tensors{check::tensor_of(t, {0.3, -0.7, 1.1}), check::tensor_of(t, {0.5, 0.9, -0.4})}, reference());
}

TEST_CASE("check_gradients: planted faults of custom rules are found in every place, right rules pass") {
  std::size_t combination = 0;
  for (const Emit emit : {&by_jvp, &by_vjp}) {
    for (std::size_t place = 0; place < place_names.size(); ++place) {
      for (std::size_t fault = 0; fault < fault_names.size(); ++fault) {
        for (const DType dtype : {f64, f32}) {
          // A fault that three steps make small does not show in f32.
          const auto at = static_cast<Place>(place);
          if (dtype == f32 && at >= Place::scan && at <= Place::unbounded && fault != 0) continue;
          if (!test::sampled(combination++)) continue;
          CAPTURE(emit == &by_jvp);
          CAPTURE(place_names[place]);
          CAPTURE(fault_names[fault]);
          CAPTURE(dtype == f64);
          const CheckReport report =
              checked(static_cast<Place>(place), emit, static_cast<Fault>(fault), dtype);
          INFO(to_text(report));
          const bool right = fault == 0;
          CHECK(report.ok == right);
          if (right || report.ok) continue;
          const bool second = static_cast<Fault>(fault) == Fault::second;
          CHECK(report.findings[0].order == (second ? 2 : 1));
          if (!second)
            CHECK(report.findings[0].primitive == (emit == &by_jvp ? "custom_jvp_call" : "custom_vjp_call"));
        }
      }
    }
  }
}

// z = A x, transposed by A' or wrongly by A.
TEST_CASE("check_gradients: an untransposed matrix is found, in and out of loops") {
  const Type matrix{f64, {3, 3}}, v{f64, {3}};
  const auto linear = [&](bool transposed) {
    GraphBuilder f("apply"), g("transpose");
    const Value a = f.input("a", matrix), x = f.input("x", v);
    const Graph apply_graph = f.build({ops::matmul(a, x)});
    const Value b = g.input("a", matrix), ct = g.input("ct", v);
    const Graph transpose = g.build({ops::matmul(transposed ? ops::transpose(b, {1, 0}) : b, ct)});
    return [=](Value p, Value q) { return ops::linear_call(apply_graph, transpose, 1, std::array{p, q})[0]; };
  };
  for (const bool transposed : {true, false}) {
    for (const bool in_scan : {false, true}) {
      CAPTURE(transposed);
      CAPTURE(in_scan);
      const auto apply_linear = linear(transposed);
      const Graph f = of_xy(matrix, v, [&](Value a, Value x) {
        if (!in_scan) return Values{ops::sin(apply_linear(a, x))};
        const Graph body =
            of_xy(matrix, v, [&](Value p, Value q) { return Values{ops::tanh(apply_linear(p, q))}; });
        return ops::scan(body, std::array{a, x}, {3, false, 1, 1});
      });
      const CheckReport report = check_gradients(
          f,
          Tensors{Tensor::from<double>({3, 3}, {0.3, -0.7, 1.1, 0.4, 0.2, -0.9, 1.3, 0.1, -0.2}),
                  vector({0.5, 0.9, -0.4})},
          reference());
      INFO(to_text(report));
      CHECK(report.ok == transposed);
      if (!report.ok) CHECK(report.findings[0].primitive == "linear_call");
    }
  }
}

}  // namespace
}  // namespace planted_rules_cases
