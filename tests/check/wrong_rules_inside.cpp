// wrong_rules_inside.cpp - check_gradients names a wrong rule that is used within an operation that holds
// graphs: in the body of a loop, the branch of a conditional, the graph of a call.
#include <cmath>

#include "check/helpers.hpp"
#include "support/support.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace wrong_rules_inside_cases {
namespace {

using namespace tidu;
using namespace tidu::test;
using Rule = ADRuleError::Rule;

const Type v3{f64, {3}};
void same_type(InferContext& c) { c.result(c.operand(0)); }
Values batch_same(BatchContext& c) { return emit(c.op(), std::array{c.operand(0)}); }

// y = x^3, its derivative 2 x^2.
const Primitive cube{.name = "my.cube",
                     .traits = Trait::elementwise,
                     .infer = same_type,
                     .jvp = [](JvpContext& c) -> Derivatives {
                       const Value x = c.primal(0);
                       return *c.tangent(0) * (x * x * ops::full_like(x, 2.0));
                     },
                     .batch = batch_same};
// y = 3 x, transposed as if it were x.
const Primitive triple{.name = "my.triple",
                       .traits = Trait::elementwise,
                       .linearity = linearity::linear,
                       .infer = same_type,
                       .transpose = [](TransposeContext& c) -> Derivatives { return c.cotangent(); },
                       .batch = batch_same};

using Function = std::function<Value(Value)>;
Value cubed(Value x) { return emit1(Op::make(cube), {x}); }
Value tripled(Value x) { return emit1(Op::make(triple), {ops::sin(x)}); }
Graph sine() {
  return of_x(v3, [](Value x) { return ops::sin(x); });
}
Value by_wrong_jvp(Value x) {
  const Graph rule = of_xy(v3, v3, [](Value p, Value t) {
    return Values{ops::sin(p), ops::cos(p) * t * ops::full_like(t, 1.01)};
  });
  return ops::custom_jvp_call(sine(), rule, std::array{x})[0];
}
Value by_wrong_vjp(Value x) {
  GraphBuilder g("forward");
  const Value p = g.input("p", v3);
  const Graph forward = g.build({ops::sin(p), ops::cos(p)});
  const Graph backward =
      of_xy(v3, v3, [](Value slope, Value ct) { return Values{slope * ct * ops::full_like(ct, 1.01)}; });
  return ops::custom_vjp_call(sine(), forward, backward, std::array{x})[0];
}
Value by_other_output(Value x) {
  const Graph rule = of_xy(v3, v3, [](Value p, Value t) {
    return Values{ops::sin(p) * ops::full_like(p, 1.01), ops::cos(p) * t};
  });
  return ops::custom_jvp_call(sine(), rule, std::array{x})[0];
}

const PrimitiveSet& the_set() {
  static const PrimitiveSet set = standard_primitives().with({&cube, &triple});
  return set;
}
Graph inner(const Function& f) {
  GraphBuilder g("inner", the_set());
  return g.build({f(g.input("x", v3))});
}
ReferenceExecutor the_executor() {
  const auto element_wise = [](double (*f)(double)) -> Kernel {
    return [f](const KernelCall& call) {
      const auto x = call.input(0).elements<double>();
      const auto y = call.output().mutable_elements<double>();
      std::transform(x.begin(), x.end(), y.begin(), f);
    };
  };
  return reference()
      .with_kernel("my.cube", element_wise([](double x) { return x * x * x; }))
      .with_kernel("my.triple", element_wise([](double x) { return 3.0 * x; }));
}

// f within an operation; the carry of scan and while is 0 at first, where cube shows nothing.
struct Holder {
  std::string_view primitive, place;
  std::function<Value(const Function&, Value)> emit;
};
const Holder holders[] = {
    {"scan", "of the body of scan",
     [](const Function& f, Value x) {
       GraphBuilder b("body", the_set());
       const Value a = b.input("a", v3), c = b.input("c", v3), y = b.input("y", v3);
       const Graph body = b.build({f(c) + a + y, c});
       const Value xs = ops::broadcast_in_dim(x, {4, 3}, {1});
       return ops::scan(body, std::array{x, ops::full_like(x, 0.0), xs},
                        {.length = 4, .reverse = true, .num_consts = 1, .num_carry = 1})[0];
     }},
    {"while", "of the body of while",
     [](const Function& f, Value x) {
       GraphBuilder b("body", the_set()), c("cond", the_set());
       const Value a = b.input("a", v3);
       const Graph body = b.build({f(b.input("x", v3)) + a});
       (void)c.input("a", v3);
       const Value sum = ops::reduce_sum(c.input("x", v3), {0});
       const Graph goes_on = c.build({ops::lt(sum, ops::full_like(sum, 100.0))});
       return ops::while_loop(goes_on, body, std::array{x, ops::full_like(x, 0.0)},
                              {.num_consts = 1, .max_steps = 3})[0];
     }},
    {"cond", "of branch 1 of cond",
     [](const Function& f, Value x) {
       const Value sum = ops::reduce_sum(x, {0});
       const std::array branches{inner([](Value y) { return y * y; }), inner(f)};
       return ops::cond(ops::lt(sum, ops::full_like(sum, 100.0)), branches, std::array{x})[0];
     }},
    {"checkpoint", "of the graph of checkpoint",
     [](const Function& f, Value x) { return ops::checkpoint(inner(f), std::array{x})[0]; }},
    {"call", "of the graph of call", [](const Function& f, Value x) {
       const Graph deeper = inner([&](Value y) { return ops::call(inner(f), std::array{y})[0]; });
       return ops::call(deeper, std::array{x})[0];
     }}};

CheckReport check_in(const Holder& holder, const Function& f) {
  GraphBuilder g("model", the_set());
  const Value x = g.input("x", v3);
  const Graph graph = g.build({holder.emit(f, ops::tanh(x))});
  return check_gradients(graph, Tensors{vector({0.5, -0.3, 0.8})}, the_executor());
}

void expect_named(const Holder& holder, const Function& f, Rule rule, std::string_view primitive) {
  const CheckReport report = check_in(holder, f);
  INFO(holder.primitive, ": ", to_text(report));
  REQUIRE(!report.findings.empty());
  const CheckFinding& finding = report.findings[0];
  CHECK(finding.operation_primitive == holder.primitive);
  CHECK(finding.primitive == primitive);
  CHECK(finding.rule == rule);
  CHECK(finding.message.find(detail::str(" of ", primitive, " is at fault")) != std::string::npos);
  CHECK(finding.message.find("found in operation ") != std::string::npos);
  CHECK(finding.message.find(holder.place) != std::string::npos);
}

}  // namespace

TEST_CASE("check_gradients: a wrong rule inside a held graph is named, not the operation") {
  std::size_t wrong_ones = 0;
  const auto expect = [&](const Holder& holder, const Function& f, Rule rule, std::string_view primitive) {
    if (test::sampled(wrong_ones++)) expect_named(holder, f, rule, primitive);
  };
  for (const Holder& holder : holders) {
    CHECK(check_in(holder, [](Value x) { return ops::sin(x); }).ok);
    expect(holder, cubed, Rule::jvp, "my.cube");
    expect(holder, tripled, Rule::transpose, "my.triple");
    expect(holder, by_wrong_jvp, Rule::jvp, "custom_jvp_call");
    expect(holder, by_wrong_vjp, Rule::transpose, "custom_vjp_call");
  }
}

TEST_CASE("check_gradients: outputs of a custom rule inside a held graph") {
  for (const Holder& holder : holders) {
    const CheckReport report = check_in(holder, by_other_output);
    INFO(holder.primitive, ": ", to_text(report));
    bool found = false;
    for (const CheckFinding& finding : report.findings)
      found =
          found || finding.message.find("output 0 of its graph jvp (\"f\") is not that") != std::string::npos;
    CHECK(found);
  }
}

TEST_CASE("check_gradients: a loop that is wrong itself, or in a late step, is not blamed on its body") {
  // In step 10 alone are the operands of cube not 0.
  GraphBuilder b("body", the_set());
  const Value c = b.input("c", v3), y = b.input("y", v3);
  const Graph body = b.build({c + cubed(y)});
  GraphBuilder g("model", the_set());
  const Value x = g.input("x", v3);
  const Value zeros = ops::full(g, Type(f64, {10, 3}), 0.0);
  const Value xs = ops::concatenate(std::array{zeros, ops::broadcast_in_dim(x, {1, 3}, {1})}, 0);
  const Graph f = g.build(ops::scan(body, std::array{x, xs}, {.length = 11, .num_carry = 1}));
  const CheckReport report = check_gradients(f, Tensors{vector({0.5, -0.3, 0.8})}, the_executor());
  INFO(to_text(report));
  REQUIRE(!report.findings.empty());
  CHECK(report.findings[0].message.find(
            "a rule of what the body of scan holds is at fault, or the jvp of scan") != std::string::npos);
}

}  // namespace wrong_rules_inside_cases
