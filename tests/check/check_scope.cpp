// check_scope.cpp - the requirements of check_gradients on a graph and its set, and its notes on tests that
// could not run: optional rules, sets of few operations, values that are not finite, dtypes of 16 bits.
#include <cmath>

#include "check/faults.hpp"
#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::check_scope_cases {
namespace {

using namespace tidu::test;

const Type v3{f64, {3}};

void same_type(InferContext& c) { c.result(c.operand(0)); }
Values batched(BatchContext& c) { return emit(c.op(), std::array{c.operand(0)}); }

// y = sin x, its derivative 1% too large.
const Primitive steep{.name = "scope.steep",
                      .traits = Trait::elementwise,
                      .infer = same_type,
                      .jvp = [](JvpContext& c) -> Derivatives {
                        const Value slope = ops::cos(c.primal(0));
                        return *c.tangent(0) * (slope * ops::full_like(slope, 1.01));
                      },
                      .batch = batched};
// y = sin x: no rule but a jvp; and one whose jvp emits an operation without rules.
const Primitive no_batch{
    .name = "scope.no_batch",
    .traits = Trait::elementwise,
    .infer = same_type,
    .jvp = [](JvpContext& c) -> Derivatives { return *c.tangent(0) * ops::cos(c.primal(0)); }};
const Primitive no_rule{
    .name = "scope.no_rule", .traits = Trait::elementwise, .infer = same_type, .batch = batched};
const Primitive once{.name = "scope.once",
                     .traits = Trait::elementwise,
                     .infer = same_type,
                     .jvp = [](JvpContext& c) -> Derivatives {
                       return *c.tangent(0) * emit1(plain_op<no_rule>(), {c.primal(0)});
                     },
                     .batch = batched};

ReferenceExecutor executor() {
  const auto kernel = [](double (*f)(double)) {
    return [f](const KernelCall& call) {
      const auto x = call.input(0).elements<double>();
      const auto y = call.output().mutable_elements<double>();
      std::transform(x.begin(), x.end(), y.begin(), f);
    };
  };
  const auto sine = kernel([](double x) { return std::sin(x); });
  return reference()
      .with_kernel("scope.steep", sine)
      .with_kernel("scope.no_batch", sine)
      .with_kernel("scope.once", sine)
      .with_kernel("scope.no_rule", kernel([](double x) { return std::cos(x); }));
}
PrimitiveSet with_mine() { return standard_primitives().with({&steep, &no_batch, &no_rule, &once}); }

bool has_note(const CheckReport& report, std::string_view words) {
  return std::any_of(report.notes.begin(), report.notes.end(),
                     [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

TEST_CASE("check_gradients: options that would test nothing are refused") {
  const Graph graph = of_x(f64, [](Value x) { return ops::sin(x); });
  const auto refusal = [&](const CheckOptions& options) {
    const Result<CheckReport> result = try_check_gradients(graph, Tensors{scalar(0.3)}, reference(), options);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().kind() == ErrorKind::invalid_argument);
    return std::string(result.error().what());
  };
  CheckOptions options;
  options.directions = 0;
  CHECK(refusal(options) == "check_gradients: expected 1 or more directions, got 0");
  options.directions = 1;
  CHECK(check_gradients(graph, Tensors{scalar(0.3)}, reference(), options).ok);
  options.order = 3;
  CHECK(refusal(options) == "check_gradients: expected order 1 or 2, got 3");
}

TEST_CASE("check_gradients: a rule that no derivative needs may be missing while a fault is looked for") {
  const Graph goes_on = of_x(f64, [](Value x) { return ops::lt(x, ops::full_like(x, 3.0)); });
  const Graph body = of_x(f64, [](Value x) { return x + ops::full_like(x, 1.0); });
  const Graph rule = of_xy(f64, f64, [](Value x, Value dx) {
    const Value cosine = ops::cos(x);
    return Values{ops::sin(x), cosine * dx * ops::full_like(x, 1.01)};
  });
  GraphBuilder g("model");
  const Value x = g.input("x", f64);
  const Value w = ops::while_loop(goes_on, body, std::array{x})[0];
  const Value p = ops::gt(w, ops::full_like(w, 3.0));
  const Value z =
      ops::custom_jvp_call(of_x(f64, [](Value t) { return ops::sin(t); }), rule, std::array{x})[0];
  const CheckReport report =
      check_gradients(g.build({ops::select_n(p, z, z)}), Tensors{scalar(0.3)}, reference());
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].primitive == "custom_jvp_call");
}

TEST_CASE("check_gradients: a rule that is missing at second order hides no fault of the first") {
  GraphBuilder g("model", with_mine());
  const Value x = g.input("x", v3);
  const Value y = emit1(plain_op<once>(), {x}), z = emit1(plain_op<steep>(), {x});
  const CheckReport report = check_gradients(g.build({y, z}), Tensors{vector({0.3, -0.7, 1.1})}, executor());
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].primitive == "scope.steep");
}

const PrimitiveSet& few_words() {
  static const PrimitiveSet set({&steep, &prim::sin, &prim::cos, &prim::mul, &prim::neg, &prim::full},
                                nullptr, nullptr);
  return set;
}

TEST_CASE("check_gradients: a fault in a set that cannot add") {
  GraphBuilder g("model", few_words());
  const Graph f = g.build({emit1(plain_op<steep>(), {g.input("x", v3)})});
  const CheckReport report = check_gradients(f, Tensors{vector({0.3, -0.7, 1.1})}, executor());
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].primitive == "scope.steep");
}

const PrimitiveSet& adding_only() {
  static const PrimitiveSet set({&prim::add, &prim::sin, &prim::cos, &prim::mul, &prim::neg, &prim::full},
                                &prim::add, nullptr);
  return set;
}

TEST_CASE("check_gradients: sets that can neither broadcast nor show zeros") {
  GraphBuilder g("model", adding_only());
  const Value x = g.input("x", v3), y = g.input("y", v3);
  const Value a = ops::sin(x), b = ops::cos(y);
  const CheckReport report = check_gradients(
      g.build({a, b}), Tensors{vector({0.3, -0.7, 1.1}), vector({0.5, 1.5, -0.4})}, reference());
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(report.comparisons[check::index(CheckKind::batch)] > 0);

  GraphBuilder h("with a constant", adding_only());
  const Value t = h.input("x", v3);
  const Value sine = ops::sin(t), two = ops::full(h, v3, 2.0);
  const CheckReport partial =
      check_gradients(h.build({sine, two}), Tensors{vector({0.3, -0.7, 1.1})}, reference());
  INFO(to_text(partial));
  CHECK(partial.ok);
  CHECK(has_note(partial, "second order"));
}

TEST_CASE("check_gradients: an output that is not finite is noted beside other notes") {
  GraphBuilder g("model", with_mine());
  const Value x = g.input("x", v3);
  const Value y = emit1(plain_op<no_batch>(), {x}), z = ops::log(x);
  const CheckReport report = check_gradients(g.build({y, z}), Tensors{vector({0.3, -0.7, 1.1})}, executor());
  INFO(to_text(report));
  CHECK(has_note(report, "scope.no_batch"));
  CHECK(has_note(report, "output 1 is not finite"));
}

TEST_CASE("check_gradients: nothing agrees to infinity") {
  GraphBuilder g("model");
  const Value x = g.input("x", {f64, {2}});
  const Value zero = ops::full_like(x, 0.0), root = x * ops::rsqrt(x);
  const Value positive = ops::gt(x, zero);
  const Graph f = g.build({ops::reduce_sum(ops::select_n(positive, zero, root), {0})});
  const CheckReport report = check_gradients(f, Tensors{vector({4.0, 0.0})}, reference());
  const std::string text = to_text(report);
  INFO(text);
  CHECK(report.ok);
  CHECK(has_note(report, "are not finite where one of the two sides of a test is"));
  CHECK(text.find("to inf") == std::string::npos);
  for (const double worst : report.worst) CHECK(std::isfinite(worst));
}

// The reference without kernels for f32.
class SixteenBits final : public Executor {
 public:
  std::string_view name() const override { return "sixteen bits"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override {
    for (const Tensor& input : inputs)
      if (input.dtype() == f32) return Error(ErrorKind::execution, "expected no f32");
    return reference().try_run(graph, inputs);
  }
  bool supports(const Primitive& primitive, DType dtype) const override {
    return dtype != f32 && reference().supports(primitive, dtype);
  }
};

TEST_CASE("check_gradients: where f32 does not run, f16 is not compared with differences") {
  const Type type{f16, {3}};
  const Graph f = of_x(type, [](Value x) { return ops::sin(x); });
  const Tensors inputs{check::tensor_of(type, {0.3, -0.7, 1.1})};
  const std::size_t differences = check::index(CheckKind::differences);
  const CheckReport report = check_gradients(f, inputs, SixteenBits());
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(report.comparisons[differences] == 0);
  CHECK(report.comparisons[check::index(CheckKind::transpose)] > 0);
  CHECK(has_note(report, "jvp was not compared with differences"));
  CHECK(check_gradients(f, inputs, reference()).comparisons[differences] > 0);
}

// The reference, which counts its runs.
class Counting final : public Executor {
 public:
  std::string_view name() const override { return "counting"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override {
    ++runs;
    return executor_.try_run(graph, inputs);
  }
  bool supports(const Primitive& primitive, DType dtype) const override {
    return executor_.supports(primitive, dtype);
  }
  mutable std::size_t runs = 0;

 private:
  ReferenceExecutor executor_ = executor();
};

TEST_CASE("check_gradients: outputs that agree are not looked at again for those that do not") {
  const auto runs = [](std::size_t outputs) {
    GraphBuilder g("model", with_mine());
    const Value x = g.input("x", v3);
    std::vector<Value> values{emit1(plain_op<steep>(), {x})};
    for (std::size_t i = 1; i < outputs; ++i)
      values.push_back(ops::sin(x * ops::full_like(x, 1.0 + 0.01 * static_cast<double>(i))));
    const Counting counting;
    CheckOptions options;
    options.batch = 0;
    Tensors inputs{vector({0.3, -0.7, 1.1})};
    const check::Subject subject{g.build(values), {0}, inputs};
    const std::size_t faults = check::check_level(subject, check::difference_function(subject, counting),
                                                  counting, options, check::just(CheckKind::differences))
                                   .failed[check::index(CheckKind::differences)]
                                   .has_value();
    CHECK(faults == 1);
    return counting.runs;
  };
  CHECK(runs(80) < runs(2) + 3 * 80);
}

}  // namespace
}  // namespace tidu::check_scope_cases
