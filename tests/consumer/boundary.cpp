// Properties at the boundary between a program and tidu's libraries, above all shared ones: errors are caught
// by their own type, in either direction; addresses of primitives and of inline variables are one; memory
// allocated on one side, or in one thread, is freed on the other. Exit status 0, or the number of the check
// that failed.
#include <cmath>
#include <thread>
#include <tidu/tidu.hpp>

namespace {

using tidu::Array;
using tidu::DType;

const tidu::Primitive mine{.name = "mine.refuses", .infer = [](tidu::InferContext& c) {
                             c.fail("expected another operand, got ", c.operand(0));
                           }};
const tidu::Primitive rigid{.name = "mine.rigid",
                            .infer = [](tidu::InferContext& c) { c.result(c.operand(0)); }};

// Thrown in a library, caught here.
bool refuses_a_shape() {
  tidu::GraphBuilder g("f");
  const tidu::Value x = g.input("x", {DType::f64, {3}}), y = g.input("y", {DType::f64, {4}});
  try {
    tidu::ops::add(x, y);
  } catch (const std::invalid_argument&) {
    return false;
  } catch (const tidu::Error& error) {
    return error.kind() == tidu::ErrorKind::type;
  }
  return false;
}

// Thrown here, through a library and caught here; then made a Result by the library.
bool passes_an_error_through() {
  tidu::GraphBuilder g("f", tidu::PrimitiveSet({&mine, &rigid}, nullptr, nullptr));
  const tidu::Value x = g.input("x", DType::f64);
  try {
    tidu::emit1(tidu::Op::make(mine), {x});
    return false;
  } catch (const tidu::Error& error) {
    if (error.kind() != tidu::ErrorKind::type) return false;
  }
  const tidu::Graph f = g.build({tidu::emit1(tidu::Op::make(rigid), {x})});
  const auto df = tidu::try_grad(f);
  const auto* missing = df ? nullptr : dynamic_cast<const tidu::ADRuleError*>(&df.error());
  if (missing == nullptr || missing->primitive() != "mine.rigid") return false;
  try {
    tidu::grad(f);
  } catch (const tidu::ADRuleError& error) {
    return error.rule() == tidu::ADRuleError::Rule::jvp;
  } catch (const std::exception&) {
  }
  return false;
}

bool has_one_address() {
  tidu::GraphBuilder g("f");
  const tidu::Value x = g.input("x", DType::f64);
  const tidu::Graph f = g.build({tidu::ops::sin(x) * x});
  const tidu::Tensor none;
  return &f.operation(0).primitive() == &tidu::prim::sin && none.bytes() == tidu::detail::no_elements &&
         tidu::plain_op<tidu::prim::sin>() == tidu::Op::make(tidu::prim::sin);
}

double gradient(double at) {
  Array x = at;
  x.set_requires_grad();
  sum(sin(x) * x).backward();
  return x.grad()->item();
}

bool differentiates() {
  const double expected = std::cos(0.5) * 0.5 + std::sin(0.5);
  double elsewhere = 0;
  std::thread([&] { elsewhere = gradient(0.5); }).join();
  return std::abs(gradient(0.5) - expected) < 1e-15 && elsewhere == gradient(0.5);
}

tidu::Tensor from_another_thread() {
  tidu::Tensor tensor;
  std::thread([&] { tensor = Array(tidu::ones({100})).tensor(); }).join();
  return tensor;
}

}  // namespace

int main() {
  if (!refuses_a_shape()) return 1;
  if (!passes_an_error_through()) return 2;
  if (!has_one_address()) return 3;
  if (!differentiates()) return 4;
  if (from_another_thread().elements<double>()[99] != 1.0) return 5;
  return 0;
}
