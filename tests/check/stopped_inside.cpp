// stopped_inside.cpp - check_gradients of graphs that stop gradients in the steps of a loop, in branches and
// in rematerialized graphs: differences keep fixed the values that no tangent flows through there, too.
#include "check/helpers.hpp"
#include "support/support.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace stopped_inside_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

const Type v3{f64, {3}};

// x times its fixed copy, and a step of another kind; `error`: a rule of it is wrong by this factor.
Value stopped(Value x, Value y, double error) {
  const Graph sine = of_x(v3, [](Value t) { return ops::sin(t); });
  const Graph rule = of_xy(v3, v3, [&](Value p, Value t) {
    return Values{ops::sin(p), ops::cos(p) * t * ops::full_like(t, error)};
  });
  const Value wave = ops::custom_jvp_call(sine, rule, std::array{y})[0];
  return ops::stop_gradient(ops::exp(x)) * x + wave;
}

enum class In { scan, reversed, bounded, branch, recomputed, scan_in_call, scan_of_branches };
std::string_view name_of(In in) {
  constexpr std::array<std::string_view, 7> names{"scan",       "reversed",     "bounded",         "branch",
                                                  "recomputed", "scan_in_call", "scan_of_branches"};
  return names[static_cast<std::size_t>(in)];
}

Values two_of(const Values& values) { return {values[0], values[1]}; }

// (x, y) -> two results, by a body that stops gradients.
Graph model(In in, double error, std::int64_t length = 4) {
  const auto body_of = [&](std::string name) {
    GraphBuilder b(std::move(name));
    const Value x = b.input("x", v3), y = b.input("y", v3);
    const Value next = ops::tanh(stopped(x, y, error));
    return b.build({next, ops::sin(y) * next});
  };
  const Graph body = body_of("body");
  const Graph plain = of_xy(v3, v3, [](Value x, Value y) { return Values{ops::sin(x), y * x}; });
  const auto counted = [&](const Value& x, const Value& y, std::optional<std::int64_t> bound) {
    GraphBuilder c("cond"), b("step");
    const Value at = c.input("n", i32), cx = c.input("x", v3), cy = c.input("y", v3);
    static_cast<void>(cx), static_cast<void>(cy);
    const Graph cond = c.build({ops::lt(at, ops::full_like(at, static_cast<double>(length)))});
    const Value n = b.input("n", i32), bx = b.input("x", v3), by = b.input("y", v3);
    const Values next = ops::call(body, std::array{bx, by});
    const Graph step = b.build({n + ops::full_like(n, 1.0), next[0], next[1]});
    const Value zero = ops::full(*x.emitter(), Type(i32), 0.0);
    const Values results = ops::while_loop(cond, step, std::array{zero, x, y}, {0, bound});
    return Values{results[1], results[2]};
  };
  const auto apply = [&](const Value& x, const Value& y) -> Values {
    const std::array operands{x, y};
    switch (in) {
      case In::scan: return two_of(ops::scan(body, operands, {length, false, 0, 2}));
      case In::reversed: return two_of(ops::scan(body, operands, {length, true, 0, 2}));
      case In::bounded: return counted(x, y, length + 2);
      case In::branch: {
        const Value first = ops::reshape(ops::slice(x, {0}, {1}), {});
        return ops::cond(ops::lt(first, ops::full_like(first, 5.0)), std::array{plain, body}, operands);
      }
      case In::recomputed: return ops::checkpoint(body, operands);
      case In::scan_in_call: {
        const Graph inner = of_xy(v3, v3, [&](Value a, Value b) {
          return two_of(ops::scan(body, std::array{a, b}, {length, false, 0, 2}));
        });
        return ops::call(inner, operands);
      }
      default: {
        const Graph either = of_xy(v3, v3, [&](Value a, Value b) {
          const Value first = ops::reshape(ops::slice(b, {0}, {1}), {});
          return ops::cond(ops::lt(first, ops::full_like(first, 0.1)), std::array{plain, body},
                           std::array{a, b});
        });
        return two_of(ops::scan(either, operands, {length, false, 0, 2}));
      }
    }
  };
  GraphBuilder g("model");
  const Value x = g.input("x", v3), y = g.input("y", v3);
  const Values results = apply(ops::sin(x), y);
  return g.build({results[0], ops::exp(results[1])});
}

const Tensors& point() {
  static const Tensors inputs{Tensor::from<double>({3}, {0.3, -0.7, 1.1}),
                              Tensor::from<double>({3}, {-0.4, 0.9, 0.2})};
  return inputs;
}

CheckReport checked(const Graph& graph) { return check_gradients(graph, point(), reference()); }

TEST_CASE("check_gradients: gradients that are stopped inside of loops, branches and recomputed graphs") {
  std::size_t wrong_ones = 0;
  for (const In in : {In::scan, In::reversed, In::bounded, In::branch, In::recomputed, In::scan_in_call,
                      In::scan_of_branches}) {
    CAPTURE(name_of(in));
    const CheckReport right = checked(model(in, 1.0));
    INFO(to_text(right));
    CHECK(right.ok);
    CHECK(right.notes.empty());
    CHECK(right.comparisons[static_cast<std::size_t>(CheckKind::differences)] > 0);

    if (!test::sampled(wrong_ones++)) continue;
    const CheckReport wrong = checked(model(in, 1.01));
    INFO(to_text(wrong));
    REQUIRE(wrong.findings.size() == 1);
    CHECK(wrong.findings[0].primitive == "custom_jvp_call");
    CHECK(wrong.findings[0].kind == CheckKind::differences);
  }
}

TEST_CASE("check_gradients: if a loop cannot be unrolled, a note names the values that were not compared") {
  const CheckReport report = checked(model(In::scan, 1.0, 3000));
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(report.comparisons[static_cast<std::size_t>(CheckKind::differences)] == 0);
  CHECK(report.comparisons[static_cast<std::size_t>(CheckKind::linearity)] > 0);
  REQUIRE(!report.notes.empty());
  CHECK(
      report.notes[0] ==
      "jvp was not compared with differences in \"model\": it holds stop_gradient without tangent in a loop "
      "without a bound, or in more steps and branches than are written out for that");
}

}  // namespace
}  // namespace stopped_inside_cases
