// wrong_rules.cpp - check_gradients finds a wrong rule and names it: one deliberately wrong rule of every
// kind, in the middle of a graph that is otherwise right.
#include <cmath>

#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;
using Rule = ADRuleError::Rule;

void same_type(InferContext& c) { c.result(c.operand(0)); }
Values batch_same(BatchContext& c) { return emit(c.op(), std::array{c.operand(0)}); }
Value apply(const Primitive& primitive, Value x, Where where = Where::current()) {
  return emit1(Op::make(primitive), {x}, where);
}

// y = sin x, its derivative 1% too large.
const Primitive factor{.name = "wrong.factor",
                       .traits = Trait::elementwise,
                       .infer = same_type,
                       .jvp = [](JvpContext& c) -> Derivatives {
                         const Value slope = ops::cos(c.primal(0));
                         return *c.tangent(0) * (slope * ops::full_like(slope, 1.01));
                       },
                       .batch = batch_same};
// y = 2 x, transposed with the wrong sign.
const Primitive doubled{
    .name = "wrong.doubled",
    .traits = Trait::elementwise,
    .linearity = linearity::linear,
    .infer = same_type,
    .transpose = [](TransposeContext& c) -> Derivatives { return -apply(doubled, *c.cotangent()); },
    .batch = batch_same};
// y = sin x; its jvp is right and made of `doubled`, whose transpose is wrong.
const Primitive through_doubled{.name = "wrong.through_doubled",
                                .traits = Trait::elementwise,
                                .infer = same_type,
                                .jvp = [](JvpContext& c) -> Derivatives {
                                  const Value half = ops::full_like(c.primal(0), 0.5);
                                  return apply(doubled, *c.tangent(0) * (half * ops::cos(c.primal(0))));
                                },
                                .batch = batch_same};
// y = sin x elementwise; the batch rule gives every example the elements the other way round.
const Primitive mixed_up{
    .name = "wrong.mixed_up",
    .traits = Trait::elementwise,
    .infer = same_type,
    .jvp = [](JvpContext& c) -> Derivatives { return *c.tangent(0) * ops::cos(c.primal(0)); },
    .batch = [](BatchContext& c) -> Values { return apply(mixed_up, ops::rev(c.operand(0), {1})); }};
// t -> |t|: says linear and is not.
const Primitive magnitude{.name = "wrong.magnitude",
                          .traits = Trait::elementwise,
                          .linearity = linearity::linear,
                          .infer = same_type,
                          .transpose = [](TransposeContext& c) -> Derivatives { return c.cotangent(); },
                          .batch = batch_same};
// y = sin x; its jvp hands the tangent to `magnitude`.
const Primitive not_linear{.name = "wrong.not_linear",
                           .traits = Trait::elementwise,
                           .infer = same_type,
                           .jvp = [](JvpContext& c) -> Derivatives {
                             return apply(magnitude, *c.tangent(0)) * ops::cos(c.primal(0));
                           },
                           .batch = batch_same};
// y = sin x; the residual has no derivative: right at first order, wrong at second.
const Primitive stopped{.name = "wrong.stopped",
                        .traits = Trait::elementwise,
                        .infer = same_type,
                        .jvp = [](JvpContext& c) -> Derivatives {
                          return *c.tangent(0) * ops::cos(ops::stop_gradient(c.primal(0)));
                        },
                        .batch = batch_same};
// y = cos x, its derivative of the wrong sign; and y = sin x, whose jvp uses it.
const Primitive helper{
    .name = "wrong.helper",
    .traits = Trait::elementwise,
    .infer = same_type,
    .jvp = [](JvpContext& c) -> Derivatives { return *c.tangent(0) * ops::sin(c.primal(0)); },
    .batch = batch_same};
const Primitive uses_helper{
    .name = "wrong.uses_helper",
    .traits = Trait::elementwise,
    .infer = same_type,
    .jvp = [](JvpContext& c) -> Derivatives { return *c.tangent(0) * apply(helper, c.primal(0)); },
    .batch = batch_same};
// y = sin x with right rules, and one without a batch rule.
const Primitive right{
    .name = "right.sin",
    .traits = Trait::elementwise,
    .infer = same_type,
    .jvp = [](JvpContext& c) -> Derivatives { return *c.tangent(0) * ops::cos(c.primal(0)); },
    .batch = batch_same};
const Primitive no_batch{
    .name = "right.no_batch", .traits = Trait::elementwise, .infer = same_type, .jvp = right.jvp};

PrimitiveSet the_set() {
  return standard_primitives().with({&factor, &doubled, &through_doubled, &mixed_up, &magnitude, &not_linear,
                                     &stopped, &helper, &uses_helper, &right, &no_batch});
}

template <class F>
Kernel element_wise(F f) {
  return [f](const KernelCall& call) {
    const auto x = call.input(0).elements<double>();
    const auto y = call.output().mutable_elements<double>();
    std::transform(x.begin(), x.end(), y.begin(), f);
  };
}
ReferenceExecutor the_executor() {
  ReferenceExecutor executor = reference();
  const auto sine = element_wise([](double x) { return std::sin(x); });
  for (const Primitive* p :
       {&factor, &through_doubled, &mixed_up, &not_linear, &stopped, &uses_helper, &right, &no_batch})
    executor = executor.with_kernel(p->name, sine);
  return executor.with_kernel("wrong.doubled", element_wise([](double x) { return 2.0 * x; }))
      .with_kernel("wrong.magnitude", element_wise([](double x) { return std::abs(x); }))
      .with_kernel("wrong.helper", element_wise([](double x) { return std::cos(x); }));
}

// exp(x scale), the primitive, a product with x: operation 2 is the primitive.
CheckReport check_one(const Primitive& primitive, int order = 2) {
  GraphBuilder g("model", the_set());
  const Value x = g.input("x", {f64, {4}}), scale = g.input("scale", {f64, {4}});
  const Graph f = g.build({ops::reduce_sum(apply(primitive, ops::exp(x * scale)) * x, {0})});
  CheckOptions options;
  options.order = order;
  return check_gradients(f, Tensors{vector({0.3, -0.7, 1.1, 0.2}), vector({0.5, 1.5, -0.4, 0.9})},
                         the_executor(), options);
}

void expect_only(const CheckReport& report, CheckKind kind, Rule rule, std::string_view primitive,
                 int order = 1) {
  INFO(to_text(report));
  CHECK(!report.ok);
  REQUIRE(report.findings.size() == 1);
  const CheckFinding& finding = report.findings[0];
  CHECK(finding.kind == kind);
  REQUIRE(finding.rule.has_value());
  CHECK(*finding.rule == rule);
  CHECK(finding.primitive == primitive);
  CHECK(finding.order == order);
  CHECK(finding.operation == 2U);
  CHECK(finding.message.find("in operation 2, ") != std::string::npos);
  CHECK(finding.message.find("wrong_rules.cpp:") != std::string::npos);
  CHECK(finding.message.find("of " + std::string(primitive)) != std::string::npos);
  CHECK(finding.message.find("is at fault") != std::string::npos);
}

}  // namespace

TEST_CASE("check_gradients: right rules pass, and the report says how well") {
  const CheckReport report = check_one(right);
  INFO(to_text(report));
  CHECK(report.ok);
  CHECK(report.notes.empty());
  for (std::size_t k = 0; k < num_check_kinds; ++k) {
    CHECK(report.comparisons[k] > 0);
    CHECK(report.worst[k] < 1e-9);
  }
  CHECK(to_text(report).find("jvp agrees with differences to ") != std::string::npos);
}

TEST_CASE("check_gradients: a jvp with a wrong factor") {
  const CheckReport report = check_one(factor);
  expect_only(report, CheckKind::differences, Rule::jvp, "wrong.factor");
  CHECK(report.findings[0].relative_error > 1e-4);
  CHECK(report.findings[0].relative_error < 0.5);
}

TEST_CASE("check_gradients: a wrong transpose, of the operation and of the operations of its jvp") {
  const CheckReport report = check_one(doubled);
  expect_only(report, CheckKind::transpose, Rule::transpose, "wrong.doubled");
  CHECK(report.findings[0].message.find("its jvp agrees with differences to ") != std::string::npos);
  CHECK(report.findings[0].message.find("in direction ") != std::string::npos);
  expect_only(check_one(through_doubled), CheckKind::transpose, Rule::transpose, "wrong.doubled");
}

TEST_CASE("check_gradients: a wrong transpose beside a derivative that is infinite") {
  for (const Primitive* primitive : {&through_doubled, &right}) {
    GraphBuilder g("model", the_set());
    const Value x = g.input("x", {f64, {4}}), y = g.input("y", {f64, {4}});
    const Graph f = g.build({ops::sqrt(x), apply(*primitive, y)});
    CheckOptions options;
    options.order = 1;
    const CheckReport report = check_gradients(
        f, Tensors{vector({0.3, 0.0, 1.1, 0.2}), vector({0.5, 1.5, -0.4, 0.9})}, the_executor(), options);
    INFO(to_text(report));
    CHECK(report.ok == (primitive == &right));
    for (const CheckFinding& finding : report.findings) CHECK(finding.kind == CheckKind::transpose);
  }
}

TEST_CASE("check_gradients: a wrong batch rule") {
  expect_only(check_one(mixed_up), CheckKind::batch, Rule::batch, "wrong.mixed_up");
}

TEST_CASE("check_gradients: a jvp that is not linear") {
  expect_only(check_one(not_linear), CheckKind::linearity, Rule::jvp, "wrong.not_linear");
}

TEST_CASE("check_gradients: a residual that is wrong at second order only") {
  CHECK(check_one(stopped, 1).ok);
  expect_only(check_one(stopped), CheckKind::differences, Rule::jvp, "wrong.stopped", 2);
  CHECK(check_one(uses_helper, 1).ok);
  expect_only(check_one(uses_helper), CheckKind::differences, Rule::jvp, "wrong.helper", 2);
}

TEST_CASE("check_gradients: tests that cannot run are noted, a missing rule is an error") {
  const CheckReport report = check_one(no_batch);
  INFO(to_text(report));
  CHECK(report.ok);
  REQUIRE(!report.notes.empty());
  CHECK(report.notes[0].find("right.no_batch") != std::string::npos);

  GraphBuilder g("f");
  const Graph f = g.build({ops::exp(g.input("x", f64))});
  CHECK(try_check_gradients(f, Tensors{}, reference()).error().kind() == ErrorKind::invalid_argument);
  CHECK(try_check_gradients(f, Tensors{Tensor::scalar(1.0F)}, reference()).error().kind() == ErrorKind::type);
  CheckOptions options;
  options.order = 3;
  CHECK(try_check_gradients(f, Tensors{scalar(1.0)}, reference(), options).error().kind() ==
        ErrorKind::invalid_argument);
}

TEST_CASE("check_gradients: kinks, stopped gradients, integers and poles are no faults") {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {4}}), indices = g.input("i", {i32, {3}});
  const Value relu = ops::max(x, ops::full_like(x, 0.0));
  const Value rounded = ops::floor(x) * x + ops::stop_gradient(x) * ops::abs(x);
  const Value taken = ops::take(x, indices, 0);
  const Graph f = g.build({relu, rounded, taken, ops::sqrt(relu), ops::argmax(x, 0)});
  const CheckReport report = check_gradients(
      f, Tensors{vector({0.0, -0.7, 1.1, 1.1}), Tensor::from<std::int32_t>({3}, {2, 2, 0})}, reference());
  INFO(to_text(report));
  CHECK(report.ok);
  // sqrt of the zeros that max makes: 0 times infinity.
  REQUIRE(!report.notes.empty());
  CHECK(report.notes[0].find("not finite") != std::string::npos);
}

TEST_CASE("check_gradients: results of a held graph in f32 or f16 have that precision") {
  for (const DType dtype : {f32, f16}) {
    GraphBuilder inner("inner");
    const Value t = ops::convert_element_type(inner.input("t", {f64, {3}}), dtype);
    const Graph body = inner.build({ops::convert_element_type(ops::sin(t * t), f64)});
    GraphBuilder g("f");
    const Graph f = g.build({ops::call(body, Values{g.input("x", {f64, {3}})})[0]});
    const CheckReport report =
        check_gradients(f, Tensors{check::tensor_of({f64, {3}}, {0.3, 1.1, -0.7})}, reference());
    INFO(to_text(report));
    CHECK(report.ok);
  }
}

TEST_CASE("check_gradients: many copies of shared nested graphs take no time to look at") {
  GraphBuilder innermost("innermost");
  Graph graph = innermost.build({ops::sin(innermost.input("x", f64))});
  for (int depth = 0; depth < 40; ++depth) {
    GraphBuilder g("level");
    const Value once = ops::call(graph, Values{g.input("x", f64)})[0];
    graph = g.build({ops::call(graph, Values{once})[0]});
  }
  CHECK_THROWS_AS(check_gradients(graph, Tensors{Tensor::scalar(f64, 0.5)}, reference()), Error);
}

TEST_CASE("check_gradients: complex, f32 and inner graphs") {
  GraphBuilder inner("inner");
  const Value t = inner.input("t", {c64, {2}});
  const Graph body = inner.build({ops::exp(t) * ops::conj(t)});
  GraphBuilder g("f");
  const Value z = g.input("z", {c64, {2}}), r = g.input("r", {f32, {2}});
  const Graph f = g.build({ops::abs(ops::call(body, Values{z})[0]) * r});
  const Tensors inputs{check::tensor_of({c64, {2}}, {Complex(0.3, -0.4), Complex(1.1, 0.2)}),
                       check::tensor_of({f32, {2}}, {1.5, -0.5})};
  const CheckReport report = check_gradients(f, inputs, reference());
  INFO(to_text(report));
  CHECK(report.ok);
}
