// faulty_rules.cpp - primitives of a user whose rules are wrong: what is not linear in the tangents is
// refused, and what a rule throws of its own comes out as an error with its place.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string_view>

#include "tidu/graph/builder.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::faulty_rules_cases {
namespace {

bool mentions(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

// y = x, by rules that add something to the tangent.
template <class F>
Derivatives tangent_and(JvpContext& c, const F& more) {
  return *c.tangent(0) + more(c.primal(0));
}
constinit const Primitive adds_primal{
    .name = "test.adds_primal",
    .infer = [](InferContext& c) { c.result(c.operand(0)); },
    .jvp = [](JvpContext& c) -> Derivatives { return tangent_and(c, [](Value x) { return x; }); }};
constinit const Primitive subtracts_one{
    .name = "test.subtracts_one",
    .infer = [](InferContext& c) { c.result(c.operand(0)); },
    .jvp = [](JvpContext& c) -> Derivatives { return ops::full_like(c.primal(0), 1.0) - *c.tangent(0); }};
constinit const Primitive adds_zeros{.name = "test.adds_zeros",
                                     .infer = [](InferContext& c) { c.result(c.operand(0)); },
                                     .jvp = [](JvpContext& c) -> Derivatives {
                                       return tangent_and(c, [](Value x) {
                                         return x * ops::full_like(x, 0.0) + zeros(*x.emitter(), x.type());
                                       });
                                     }};

TEST_CASE("a tangent plus what is not known to be zero is refused: reverse mode would lose it") {
  const PrimitiveSet set = standard_primitives().with({&adds_primal, &subtracts_one, &adds_zeros});
  const auto applied = [&](const Primitive& primitive) {
    GraphBuilder g("f", set);
    return g.build({emit1(Op::make(primitive), {ops::sin(g.input("x", {f64, {3}}))})});
  };
  const auto refused = [&](const Primitive& primitive, std::string_view got) {
    const auto result = try_linearize(applied(primitive));
    REQUIRE_FALSE(result.has_value());
    CHECK(dynamic_cast<const ADRuleError*>(&result.error()) != nullptr);
    for (const std::string_view part : {std::string_view("linear in the tangents"), got,
                                        std::string_view("rule: jvp, in operation 1 of \"f\"")})
      CHECK_MESSAGE(mentions(result.error(), part), result.error().what());
  };
  refused(adds_primal, "got add of a tangent and of operand 1");
  refused(subtracts_one, "got sub of a tangent and of operand 0");
  CHECK(try_linearize(applied(adds_zeros)).has_value());
}

template <class... C>
auto broken_rule(C&...) -> Derivatives {
  throw std::runtime_error("bent");
}
void same_as_operand(InferContext& c) { c.result(c.operand(0)); }
constinit const Primitive broken_jvp{
    .name = "test.broken_jvp", .infer = same_as_operand, .jvp = broken_rule<JvpContext>};
constinit const Primitive broken_linear{
    .name = "test.broken_linear",
    .linearity = linearity::linear,
    .infer = same_as_operand,
    .transpose = broken_rule<TransposeContext>,
    .batch = [](BatchContext&) -> Values { throw 3; }};  // NOLINT(hicpp-exception-baseclass)
constinit const Primitive broken_infer{.name = "test.broken_infer",
                                       .infer = [](InferContext&) { throw std::runtime_error("bent"); }};

TEST_CASE("what a rule throws that is no Error becomes one, which names the rule and the operation") {
  const PrimitiveSet set = standard_primitives().with({&broken_jvp, &broken_linear, &broken_infer});
  const auto applied = [&](const Primitive& primitive) {
    GraphBuilder g("f", set);
    return g.build({emit1(Op::make(primitive), {ops::sin(g.input("x", f64))})});
  };
  const auto refused = [](const auto& result, std::string_view rule, std::string_view got) {
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().kind() == ErrorKind::internal);
    for (const std::string_view part : {rule, got, std::string_view("in operation 1 of \"f\"")})
      CHECK_MESSAGE(mentions(result.error(), part), result.error().what());
  };
  refused(detail::capture([&] { return jvp(applied(broken_jvp)); }), "rule: jvp", "got bent");
  refused(detail::capture([&] { return vjp(applied(broken_linear)); }), "rule: transpose", "got bent");
  refused(try_batch(applied(broken_linear), 2), "rule: batch", "no std::exception");
  refused(detail::capture([&] { return applied(broken_infer); }), "type rule", "got bent");
}

}  // namespace
}  // namespace tidu::faulty_rules_cases
