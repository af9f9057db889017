// random.cpp - the record of random_bits. Keys may have leading axes, so that the batch rule is the same
// operation on more keys.
#include "tidu/primitives/random.hpp"

#include "axes.hpp"
#include "rules.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec random_attributes[] = {{"shape", AttributeKind::ints},
                                               {"dtype", AttributeKind::dtype}};

void infer_random_bits(InferContext& c) {
  const Type key = c.operand(0);
  const DType dtype = c.op().dtype("dtype");
  c.require(key.dtype() == i32 && key.rank() > 0 && key.shape().back() == 2,
            "expected a key of type i32[2], or i32[..., 2] for several, got ", key);
  c.require(is_integer(dtype), "expected dtype i32 or i64, got ", dtype);
  const Shape leading(key.shape().begin(), key.shape().end() - 1);
  give(c, dtype, joined({leading, c.op().ints("shape")}));
}

}  // namespace

// y_n = threefry2x32(key, n)
constinit const Primitive random_bits{.name = "random_bits",
                                      .attributes = random_attributes,
                                      .traits = Trait::no_tangent,
                                      .infer = infer_random_bits,
                                      .batch = [](BatchContext& c) -> Values {
                                        return c.emitter().emit(c.op(), std::vector<Value>{c.operand(0)});
                                      }};

}  // namespace tidu::prim

namespace tidu::ops {

Value random_bits(Value key, const Shape& shape, DType dtype, Where where) {
  return emit1(Op::make(prim::random_bits, {{"shape", shape}, {"dtype", dtype}}), {key}, where);
}

}  // namespace tidu::ops
