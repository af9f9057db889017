// elementwise_test.cpp - type rules, messages, structure and emission of the element-wise primitives.
#include <doctest/doctest.h>

#include <algorithm>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "tidu/tidu.hpp"

using namespace tidu;

namespace elementwise_cases {
namespace {

// b: bool, i: integers, f: floating, c: complex
std::string kind_letter(DType dtype) {
  return is_bool(dtype) ? "b" : is_integer(dtype) ? "i" : is_floating(dtype) ? "f" : "c";
}

struct Row {
  const Primitive& primitive;
  const char* kinds;   // admitted
  const char* result;  // "same", "bool" or "real"
};

const Row rows[] = {
    {prim::neg, "ifc", "same"},          {prim::abs, "ifc", "real"},
    {prim::sign, "ifc", "same"},         {prim::floor, "f", "same"},
    {prim::ceil, "f", "same"},           {prim::round, "f", "same"},
    {prim::exp, "fc", "same"},           {prim::exp2, "fc", "same"},
    {prim::expm1, "fc", "same"},         {prim::log, "fc", "same"},
    {prim::log1p, "fc", "same"},         {prim::sqrt, "fc", "same"},
    {prim::rsqrt, "fc", "same"},         {prim::cbrt, "f", "same"},
    {prim::sin, "fc", "same"},           {prim::cos, "fc", "same"},
    {prim::tan, "fc", "same"},           {prim::asin, "fc", "same"},
    {prim::acos, "fc", "same"},          {prim::atan, "fc", "same"},
    {prim::sinh, "fc", "same"},          {prim::cosh, "fc", "same"},
    {prim::tanh, "fc", "same"},          {prim::asinh, "fc", "same"},
    {prim::acosh, "fc", "same"},         {prim::atanh, "fc", "same"},
    {prim::logistic, "fc", "same"},      {prim::erf, "f", "same"},
    {prim::erfc, "f", "same"},           {prim::erf_inv, "f", "same"},
    {prim::lgamma, "f", "same"},         {prim::digamma, "f", "same"},
    {prim::polygamma, "f", "same"},      {prim::square, "ifc", "same"},
    {prim::reciprocal, "fc", "same"},    {prim::is_finite, "f", "bool"},
    {prim::not_, "bi", "same"},          {prim::integer_pow, "ifc", "same"},
    {prim::real, "c", "real"},           {prim::imag, "c", "real"},
    {prim::conj, "c", "same"},           {prim::add, "ifc", "same"},
    {prim::sub, "ifc", "same"},          {prim::mul, "ifc", "same"},
    {prim::div, "ifc", "same"},          {prim::multiply_no_nan, "fc", "same"},
    {prim::divide_no_nan, "fc", "same"}, {prim::pow, "fc", "same"},
    {prim::max, "bif", "same"},          {prim::min, "bif", "same"},
    {prim::atan2, "f", "same"},          {prim::rem, "if", "same"},
    {prim::nextafter, "f", "same"},      {prim::and_, "bi", "same"},
    {prim::or_, "bi", "same"},           {prim::xor_, "bi", "same"},
    {prim::eq, "bifc", "bool"},          {prim::ne, "bifc", "bool"},
    {prim::lt, "bif", "bool"},           {prim::le, "bif", "bool"},
    {prim::gt, "bif", "bool"},           {prim::ge, "bif", "bool"},
    {prim::clamp, "bif", "same"},
};

constexpr DType all_dtypes[] = {bool_, i32, i64, f16, bf16, f32, f64, c64, c128};

Op op_of(const Primitive& primitive) {
  if (&primitive == &prim::polygamma) return Op::make(primitive, {{"m", 1}});
  if (&primitive == &prim::integer_pow) return Op::make(primitive, {{"y", 3}});
  return Op::make(primitive);
}

std::string message_of(const Op& op, const std::vector<Type>& operands) {
  try {
    infer_types(op, operands);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::type);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("every dtype is admitted or refused as the table says, by name") {
  for (const Row& row : rows) {
    const auto count = static_cast<std::size_t>(row.primitive.arity);
    for (const DType dtype : all_dtypes) {
      const Type type(dtype, {2, 3});
      CAPTURE(row.primitive.name);
      CAPTURE(to_string(dtype));
      const std::vector<Type> operands(count, type);
      const Op op = op_of(row.primitive);
      if (std::string(row.kinds).find(kind_letter(dtype)) == std::string::npos) {
        const std::string message = message_of(op, operands);
        CHECK(message.starts_with("[" + std::string(row.primitive.name) + "] expected "));
        CHECK(message.find("got " + to_string(type)) != std::string::npos);
        continue;
      }
      const std::string result = row.result;
      const DType expected = result == "bool" ? bool_ : result == "real" ? real_dtype(dtype) : dtype;
      CHECK(infer_types(op, operands) == std::vector<Type>{Type(expected, {2, 3})});
    }
  }
}

TEST_CASE("the table has every record but those with rules of their own") {
  std::vector<const Primitive*> covered;
  for (const Row& row : rows) covered.push_back(&row.primitive);
  for (const Primitive* other : {&prim::constant, &prim::iota, &prim::full, &prim::complex, &prim::select_n})
    covered.push_back(other);
  const std::vector<const Primitive*> all = prim::elementwise_primitives();
  CHECK(covered.size() == all.size());
  for (const Primitive* primitive : all) {
    CAPTURE(primitive->name);
    CHECK(std::count(covered.begin(), covered.end(), primitive) == 1);
    CHECK(standard_primitives().find(primitive->name) == primitive);
  }
}

TEST_CASE("operands of different types are refused with both types") {
  CHECK(message_of(plain_op<prim::add>(), {Type(f64, {3}), Type(f64, {4})}) ==
        "[add] expected operands of one type, got f64[3] and f64[4]");
  CHECK(message_of(plain_op<prim::mul>(), {Type(f64, {3}), Type(f32, {3})}) ==
        "[mul] expected operands of one type, got f64[3] and f32[3]");
  CHECK(message_of(plain_op<prim::lt>(), {Type(i32), Type(i32, {1})}) ==
        "[lt] expected operands of one type, got i32[] and i32[1]");
  CHECK(message_of(plain_op<prim::complex>(), {Type(f64, {2}), Type(f64)}) ==
        "[complex] expected operands of one type, got f64[2] and f64[]");
  CHECK(message_of(plain_op<prim::not_>(), {Type(f64)}) ==
        "[not] expected a bool or integer operand, got f64[]");
  CHECK(message_of(plain_op<prim::neg>(), {Type(bool_)}) ==
        "[neg] expected an integer, floating or complex operand, got bool[]");
  CHECK(message_of(plain_op<prim::add>(), {Type(f64)}) == "[add] expected 2 operands, got 1");
}

TEST_CASE("complex joins f32 and f64 parts and refuses others") {
  CHECK(infer_types(plain_op<prim::complex>(), std::vector<Type>(2, Type(f32, {2})))[0] == Type(c64, {2}));
  CHECK(infer_types(plain_op<prim::complex>(), std::vector<Type>(2, Type(f64)))[0] == Type(c128));
  for (const DType dtype : {bool_, i32, f16, bf16, c64, c128})
    CHECK(message_of(plain_op<prim::complex>(), std::vector<Type>(2, Type(dtype)))
              .starts_with("[complex] expected"));
}

TEST_CASE("select_n takes a scalar or full `which`, and two cases for bool") {
  const Op op = plain_op<prim::select_n>();
  const Type x(f64, {2, 3});
  CHECK(infer_types(op, std::vector{Type(bool_), x, x})[0] == x);
  CHECK(infer_types(op, std::vector{Type(bool_, {2, 3}), x, x})[0] == x);
  CHECK(infer_types(op, std::vector{Type(i32, {2, 3}), x, x, x, x})[0] == x);
  CHECK(infer_types(op, std::vector{Type(i32), x})[0] == x);
  CHECK(message_of(op, {Type(bool_, {2}), x, x}) ==
        "[select_n] expected `which` to be a scalar or of the cases' shape, got bool[2] and f64[2,3]");
  CHECK(message_of(op, {Type(bool_), x, x, x}) ==
        "[select_n] expected 2 cases for `which` of dtype bool, got 3");
  CHECK(message_of(op, {Type(bool_), x, Type(f32, {2, 3})}) ==
        "[select_n] expected cases of one type, got f64[2,3] and f32[2,3] (operand 2)");
  CHECK(message_of(op, {Type(i64), x, x}) == "[select_n] expected `which` of dtype bool or i32, got i64[]");
  CHECK(message_of(op, {Type(i32)}) == "[select_n] expected `which` and at least one case, got 1 operands");
}

TEST_CASE("clamp takes bounds that are scalars or have x's shape") {
  const Op op = plain_op<prim::clamp>();
  const Type x(f64, {4}), scalar(f64);
  CHECK(infer_types(op, std::vector{scalar, x, x})[0] == x);
  CHECK(infer_types(op, std::vector{scalar, x, scalar})[0] == x);
  CHECK(message_of(op, {scalar, x, Type(f64, {3})}) ==
        "[clamp] expected the upper bound to be a scalar or of x's shape, and of its dtype, got f64[3] and "
        "f64[4]");
  CHECK(message_of(op, {Type(f32), x, scalar}) ==
        "[clamp] expected the lower bound to be a scalar or of x's shape, and of its dtype, got f32[] and "
        "f64[4]");
}

TEST_CASE("attributes out of range are refused") {
  CHECK(message_of(Op::make(prim::round, {{"rounding_method", "up"}}), {Type(f64)}) ==
        "[round] expected rounding_method \"to_nearest_even\" or \"away_from_zero\", got \"up\"");
  CHECK(message_of(Op::make(prim::polygamma, {{"m", 0}}), {Type(f64)}) ==
        "[polygamma] expected m of at least 1, got 0");
  CHECK(message_of(Op::make(prim::integer_pow, {{"y", -1}}), {Type(i32, {2})}) ==
        "[integer_pow] expected a floating or complex operand for the negative power y=-1, got i32[2]");
  CHECK(infer_types(Op::make(prim::integer_pow, {{"y", -1}}), std::vector{Type(c128)})[0] == Type(c128));
  const auto iota = [](DType dtype, Ints shape, int dimension) {
    return Op::make(prim::iota, {{"dtype", dtype}, {"shape", std::move(shape)}, {"dimension", dimension}});
  };
  CHECK(infer_types(iota(f32, {2, 3}, 1), {})[0] == Type(f32, {2, 3}));
  CHECK(message_of(iota(f32, {2, 3}, 2), {}) == "[iota] expected dimension to be an axis of f32[2,3], got 2");
  CHECK(message_of(iota(f32, {}, 0), {}) == "[iota] expected dimension to be an axis of f32[], got 0");
  CHECK(message_of(iota(bool_, {2}, 0), {}) == "[iota] expected a dtype of numbers, got bool[2]");
  CHECK(message_of(iota(f32, {-2}, 0), {}).starts_with("[iota] "));
  const Op huge = Op::make(prim::full, {{"value", 1}, {"dtype", f64}, {"shape", Ints{1LL << 40, 1LL << 40}}});
  CHECK(message_of(huge, {}).starts_with("[full] "));
}

TEST_CASE("records are complete: rules, traits and attributes") {
  for (const Primitive* p : prim::elementwise_primitives()) {
    CAPTURE(p->name);
    const bool has_type_rule = p->infer != nullptr;
    CHECK(has_type_rule);
    CHECK(p->num_outputs == 1);
    CHECK(p->has_trait(Trait::constant) == (p->arity == 0));
    CHECK(p->has_trait(Trait::elementwise) == (p->arity != 0));
    CHECK((p->batch != nullptr) == (p->arity != 0));
    CHECK(p->differentiable() != p->has_trait(Trait::no_tangent));
    CHECK((p->transpose != nullptr) == (p->linearity.kind != Linearity::Kind::none));
    CHECK(p->has_trait(Trait::additive) == (p == &prim::add));
  }
  const auto names = [](const Primitive& p) {
    std::string all;
    for (const AttributeSpec& spec : p.attributes) all += std::string(spec.name) + " ";
    return all;
  };
  CHECK(names(prim::constant) == "value ");
  CHECK(names(prim::iota) == "dtype shape dimension ");
  CHECK(names(prim::full) == "value dtype shape ");
  CHECK(names(prim::polygamma) == "m ");
  CHECK(names(prim::integer_pow) == "y ");
  CHECK(to_string(Op::make(prim::round)) == "round");
  CHECK(Op::make(prim::round) == Op::make(prim::round, {{"rounding_method", "to_nearest_even"}}));
}

TEST_CASE("emitting functions write the operation of their name") {
  GraphBuilder b("f");
  const Type type(f64, {2});
  const Value x = b.input("x", type), y = b.input("y", type), z = b.input("z", Type(c128, {2}));
  const Value p = b.input("p", Type(bool_, {2}));
  const std::vector<std::pair<Value, const char*>> cases = {
      {ops::neg(x), "neg"},
      {ops::abs(x), "abs"},
      {ops::sign(x), "sign"},
      {ops::floor(x), "floor"},
      {ops::ceil(x), "ceil"},
      {ops::round(x), "round"},
      {ops::exp(x), "exp"},
      {ops::exp2(x), "exp2"},
      {ops::expm1(x), "expm1"},
      {ops::log(x), "log"},
      {ops::log1p(x), "log1p"},
      {ops::sqrt(x), "sqrt"},
      {ops::rsqrt(x), "rsqrt"},
      {ops::cbrt(x), "cbrt"},
      {ops::sin(x), "sin"},
      {ops::cos(x), "cos"},
      {ops::tan(x), "tan"},
      {ops::asin(x), "asin"},
      {ops::acos(x), "acos"},
      {ops::atan(x), "atan"},
      {ops::sinh(x), "sinh"},
      {ops::cosh(x), "cosh"},
      {ops::tanh(x), "tanh"},
      {ops::asinh(x), "asinh"},
      {ops::acosh(x), "acosh"},
      {ops::atanh(x), "atanh"},
      {ops::logistic(x), "logistic"},
      {ops::erf(x), "erf"},
      {ops::erfc(x), "erfc"},
      {ops::erf_inv(x), "erf_inv"},
      {ops::lgamma(x), "lgamma"},
      {ops::digamma(x), "digamma"},
      {ops::polygamma(x, 2), "polygamma"},
      {ops::polygamma(x, 0), "digamma"},
      {ops::square(x), "square"},
      {ops::reciprocal(x), "reciprocal"},
      {ops::is_finite(x), "is_finite"},
      {ops::logical_not(p), "not"},
      {ops::integer_pow(x, -2), "integer_pow"},
      {ops::real(z), "real"},
      {ops::imag(z), "imag"},
      {ops::complex(x, y), "complex"},
      {ops::conj(z), "conj"},
      {x + y, "add"},
      {x - y, "sub"},
      {x * y, "mul"},
      {x / y, "div"},
      {-y, "neg"},
      {ops::multiply_no_nan(x, y), "multiply_no_nan"},
      {ops::divide_no_nan(x, y), "divide_no_nan"},
      {ops::pow(x, y), "pow"},
      {ops::max(x, y), "max"},
      {ops::min(x, y), "min"},
      {ops::atan2(x, y), "atan2"},
      {ops::rem(x, y), "rem"},
      {ops::nextafter(x, y), "nextafter"},
      {ops::logical_and(p, p), "and"},
      {ops::logical_or(p, p), "or"},
      {ops::logical_xor(p, p), "xor"},
      {ops::eq(x, y), "eq"},
      {ops::ne(x, y), "ne"},
      {ops::lt(x, y), "lt"},
      {ops::le(x, y), "le"},
      {ops::gt(x, y), "gt"},
      {ops::ge(x, y), "ge"},
      {ops::select_n(p, x, y), "select_n"},
      {ops::clamp(x, y, x), "clamp"},
      {ops::iota(b, type, 0), "iota"},
      {ops::full(b, type, 1.5), "full"},
      {ops::full_like(x, 2.5), "full"},
      {ops::constant(b, Literal::scalar(f64, 3.0)), "constant"}};
  std::vector<ValueId> ids;
  for (const auto& [value, name] : cases) ids.push_back(value.id());
  CHECK(ops::sub(x, y).id() == cases[44].first.id());
  const Graph g = b.build_ids(ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    CHECK(g.operation(*g.producer(ids[i])).name() == cases[i].second);
  CHECK(g.num_operations() == ids.size() - 1);  // digamma(x) is written once
  verify(g);
}

TEST_CASE("full takes the dtype of its type, keeps -0.0 apart and makes equal constants once") {
  GraphBuilder b("f");
  const Type type(f32, {2, 2});
  const Value one = ops::full(b, type, 1.0);
  CHECK(one.type() == type);
  CHECK(ops::full(b, type, 1.0) == one);
  CHECK(ops::full(b, type, Literal::scalar(f32, 1.0)) == one);
  CHECK(ops::full(b, type.with_dtype(f64), 1.0) != one);
  CHECK(ops::full(b, type, 0.0) != ops::full(b, type, -0.0));
  CHECK_THROWS_AS(ops::full(b, type, Literal::scalar(f64, 1.0)), Error);
  std::vector<ValueId> ids;
  for (int i = 0; i < 2000; ++i)
    ids.push_back(ops::full(b, Type(c64), i % 1000).id());  // more than is cached, twice
  const Graph g = b.build_ids(ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Literal literal = g.operation(*g.producer(ids[i])).op().literal("value");
    REQUIRE(literal.type() == Type(c64));
    REQUIRE(literal.at(0) == std::complex<double>(static_cast<double>(i % 1000), 0.0));
    REQUIRE(ids[i] == ids[i % 1000]);
  }
}

TEST_CASE("emitting on nothing is an error") {
  CHECK_THROWS_AS(ops::sin(Value()), Error);
  CHECK_THROWS_AS(ops::full_like(Value(), 1.0), Error);
  GraphBuilder b("f");
  const Value x = b.input("x", f64);
  CHECK_THROWS_AS(x + Value(), Error);
}

}  // namespace elementwise_cases
