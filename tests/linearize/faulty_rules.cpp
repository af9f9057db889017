// faulty_rules.cpp - primitives of a user whose rules are wrong: results that are not linear in the tangents
// are errors, and an exception of a rule becomes an error with its location.
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

TEST_CASE("a tangent plus a value that is not known to be zero is refused: reverse mode would lose it") {
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

TEST_CASE("an exception of a rule that is no Error becomes one, which names the rule and the operation") {
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

constexpr Where user{"src/user.cpp", 12};

// y = `primitive` of sin x at user.cpp:12, as a sum.
Graph used(const Primitive& primitive) {
  GraphBuilder g("f", standard_primitives().with({&primitive}));
  return g.build(
      {ops::reduce_sum(emit1(Op::make(primitive), {ops::sin(g.input("x", {f64, {3}}))}, user), {0})});
}

template <class Result>
void says(const Result& result, ErrorKind kind, const std::string& message) {
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().kind() == kind);
  CHECK(std::string(result.error().what()) == message);
}

constinit const Primitive no_transpose{
    .name = "test.no_transpose", .linearity = linearity::linear, .infer = same_as_operand};
constinit const Primitive three_cotangents{
    .name = "test.three_cotangents",
    .linearity = linearity::linear,
    .infer = same_as_operand,
    .transpose = [](TransposeContext&) -> Derivatives { return Derivatives::absent(3); }};
constinit const Primitive wrong_types{.name = "test.wrong_types",
                                      .linearity = linearity::linear,
                                      .infer = same_as_operand,
                                      .transpose = [](TransposeContext& c) -> Derivatives {
                                        return *c.cotangent() + ops::full(c.emitter(), {f64, {2}}, 1.0);
                                      }};

TEST_CASE("errors of transpose rules name the user's place") {
  const auto transposed = [](const Primitive& primitive) {
    return detail::capture([&] { return grad(used(primitive)); });
  };
  says(transposed(no_transpose), ErrorKind::ad_rule,
       "[test.no_transpose] expected a transpose rule, got a record without one\n"
       "  rule: transpose, in operation 1 of \"f\" (derived from operation 1), user.cpp:12");
  says(transposed(three_cotangents), ErrorKind::ad_rule,
       "[test.three_cotangents] expected 1 cotangents from the transpose rule, got 3\n"
       "  rule: transpose, in operation 1 of \"f\" (derived from operation 1), user.cpp:12");
  says(transposed(wrong_types), ErrorKind::type,
       "[add] expected operands of one type, got f64[3] and f64[2]\n"
       "  in the transpose rule of test.wrong_types, in operation 1 of \"f\" (derived from operation 1), "
       "user.cpp:12");
  says(transposed(broken_linear), ErrorKind::internal,
       "[test.broken_linear] expected the transpose rule to run, got bent\n"
       "  rule: transpose, in operation 1 of \"f\" (derived from operation 1), user.cpp:12");
}

constinit const Primitive forgets{.name = "test.forgets",
                                  .linearity = linearity::linear,
                                  .infer = same_as_operand,
                                  .jvp = [](JvpContext& c) -> Derivatives {
                                    Value dy;  // set in one branch only
                                    if (!c.op().attributes().empty()) dy = *c.tangent(0);
                                    return dy;
                                  },
                                  .batch = [](BatchContext&) -> Values { return Value(); }};
constinit const Primitive forgets_cotangent{
    .name = "test.forgets_cotangent",
    .linearity = linearity::linear,
    .infer = same_as_operand,
    .transpose = [](TransposeContext&) -> Derivatives { return {std::optional<Value>(Value())}; }};
constinit const Primitive multiplies_by_none{
    .name = "test.multiplies_by_none",
    .infer = same_as_operand,
    .jvp = [](JvpContext& c) -> Derivatives { return *c.tangent(0) * Value(); },
    .batch = [](BatchContext& c) -> Values {
      return ops::full_like(Value().type().rank() ? c.operand(0) : Value(), 1.0);
    }};

TEST_CASE("a default-constructed Value from a rule is refused, an absent derivative is a zero") {
  says(try_linearize(used(forgets)), ErrorKind::ad_rule,
       "[test.forgets] expected tangent 0 to be a value of the rule, or std::nullopt where it is zero, got a "
       "default-constructed Value\n  rule: jvp, in operation 1 of \"f\", user.cpp:12");
  says(try_batch(used(forgets), 2), ErrorKind::ad_rule,
       "[test.forgets] expected result 0 of type f64[2,3], got a default-constructed Value\n"
       "  rule: batch, in operation 1 of \"f\", user.cpp:12");
  says(detail::capture([] { return grad(used(forgets_cotangent)); }), ErrorKind::ad_rule,
       "[test.forgets_cotangent] expected cotangent 0 to be a value of the rule, or std::nullopt where it is "
       "zero, got a default-constructed Value\n"
       "  rule: transpose, in operation 1 of \"f\" (derived from operation 1), user.cpp:12");
  says(try_linearize(used(multiplies_by_none)), ErrorKind::invalid_argument,
       "[mul] expected operand 1 to be a value of the rule that runs, got a default-constructed Value\n"
       "  in the jvp rule of test.multiplies_by_none, in operation 1 of \"f\", user.cpp:12");
  says(try_batch(used(multiplies_by_none), 2), ErrorKind::invalid_argument,
       "[Value] expected a value that belongs to an emitter, got a default-constructed Value\n"
       "  in the batch rule of test.multiplies_by_none, in operation 1 of \"f\", user.cpp:12");
  CHECK(Derivatives(std::nullopt).unset(0) == false);
  CHECK(Derivatives::absent(2).unset(1) == false);
  CHECK(Derivatives(std::optional<Value>()).unset(0) == false);
  CHECK(Derivatives(Value()).unset(0));
}

std::optional<Value> kept;
constinit const Primitive keeps{
    .name = "test.keeps", .infer = same_as_operand, .jvp = [](JvpContext& c) -> Derivatives {
      if (!kept) kept = *c.tangent(0) * c.primal(0);
      return *kept;
    }};

TEST_CASE("a Value that outlived its emitter is refused, also where another emitter has its memory") {
  kept.reset();
  CHECK(try_linearize(used(keeps)).has_value());
  for (int i = 0; i < 3; ++i) {
    says(try_linearize(used(keeps)), ErrorKind::ad_rule,
         "[test.keeps] expected tangent 0 to depend linearly on the operands' tangents, got a value of "
         "another "
         "emitter\n  rule: jvp, in operation 1 of \"f\", user.cpp:12");
  }
  // The second builder is where the first one was.
  std::optional<GraphBuilder> builder(std::in_place, "f");
  const Value old = builder->input("x", f64);
  builder.reset();
  builder.emplace("g");
  const Value x = builder->input("x", f64);
  says(detail::capture([&] { return ops::mul(x, old, user); }), ErrorKind::invalid_argument,
       "[mul] expected operand 1 to be a value of this builder (\"g\"), got one of another\n"
       "  in operation 0 of \"g\", user.cpp:12");
}

TEST_CASE("types and values that are refused while a graph is recorded have a place") {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {2}}), y = g.input("y", {f64, {3}});
  says(detail::capture([&] { return ops::add(x, y, user); }), ErrorKind::type,
       "[add] expected operands of one type, got f64[2] and f64[3]\n  in operation 0 of \"f\", user.cpp:12");
  says(detail::capture([&] { return ops::add(x, Value(), user); }), ErrorKind::invalid_argument,
       "[add] expected operand 1 to be a value of this builder (\"f\"), got a default-constructed Value\n"
       "  in operation 0 of \"f\", user.cpp:12");
  says(
      detail::capture([&] { return ops::add(Value(), x, user); }), ErrorKind::invalid_argument,
      "[add] expected operands that belong to an emitter, got a default-constructed Value\n  at user.cpp:12");
  says(detail::capture([&] { return emit1(Op::make(no_transpose), {x}, user); }),
       ErrorKind::unknown_primitive,
       "[test.no_transpose] expected a primitive of the graph's set, which has no such name (nearest: "
       "transpose)\n"
       "  in operation 0 of \"f\", user.cpp:12");
}

}  // namespace
}  // namespace tidu::faulty_rules_cases
