// simplify_indexing.cpp - the rule of take.
//
// Note [Rows of matmuls]: if few rows of a matmul's result are read, a matmul of few rows is enough.
// Element-wise operations, broadcasts and transposes without other readers may be between the two. Gathering
// an element costs some 12 times as much as a multiply-add, so the other operand of the matmul must have
// enough columns.
//
// Note [Gather before use]: executors read gathered rows without copying them (docs/schedule.md,
// "Row fusion"). So a sum or product with one row for all is applied to gathered rows, and not before the
// gather, unless that is much more work.
#include <algorithm>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr int farthest = 8;  // operations between the rows and the product

bool has_one_reader(const SimplifyContext& c, Value value) {
  const auto readers = c.readers(value);
  return readers && readers->size() == 1;
}

// The operand of a product that has the axis of its result, and which axis that is there; or nothing for one
// of the batch.
struct OperandAxis {
  std::size_t operand;
  std::int64_t axis;
  std::int64_t columns;  // of the other operand
};
std::optional<OperandAxis> place_in_product(const SimplifyContext& c, const Operation& product,
                                            std::int64_t axis) {
  const Op op = product.op();
  const IntLists& numbers = op.lists("dimension_numbers");
  auto left = static_cast<std::size_t>(axis);
  if (left < numbers[2].size()) return std::nullopt;
  left -= numbers[2].size();
  const auto columns = [&](std::size_t operand, const Ints& axes) {
    std::int64_t count = 1;
    for (const std::int64_t k : axes) count *= c.input(product, operand).shape()[at(k)];
    return count;
  };
  const Ints rows = remaining(c.input(product, 0).rank(), numbers[0], numbers[2]),
             others = remaining(c.input(product, 1).rank(), numbers[1], numbers[3]);
  if (left < rows.size()) return OperandAxis{0, rows[left], columns(1, others)};
  return OperandAxis{1, others[left - rows.size()], columns(0, rows)};
}

// The rows of an axis that indices name, `read` of them everywhere.
class Rows {
 public:
  Rows(SimplifyContext& c, Value indices, std::int64_t read)
      : c_(c), indices_(indices), count_(indices.type().size()), read_(read) {}

  // Is there a product to gain by?
  bool gain(Value x, std::int64_t axis, int far = 0) const {
    const auto made = far < farthest ? c_.producer(x) : std::nullopt;
    if (!made || c_.splat(x) || (far > 0 && !has_one_reader(c_, x))) return false;
    const Primitive& primitive = made->primitive();
    const Op op = made->op();
    if (&primitive == &transpose) return gain(c_.input(*made), op.ints("permutation")[at(axis)], far + 1);
    if (&primitive == &dot_general) {
      const auto place = place_in_product(c_, *made, axis);
      constexpr std::int64_t pick = 12;
      return place && x.shape()[at(axis)] * place->columns > read_ * (pick + place->columns);
    }
    if (!is_elementwise(*made)) return false;
    bool any = false;
    for (std::size_t i = 0; i < made->num_inputs(); ++i) {
      const Value operand = c_.input(*made, i);
      any = any || (operand.rank() > 0 && gain(operand, axis, far + 1));
    }
    return any;
  }

  Value of(Value x, std::int64_t axis, int far = 0) {
    const auto made = far < farthest ? c_.producer(x) : std::nullopt;
    Shape shape = x.shape();
    shape[at(axis)] = count_;
    if (const auto element = c_.splat(x)) return filled(c_, x.type().with_shape(shape), *element);
    if (!made || (far > 0 && &made->primitive() != &broadcast_in_dim && !has_one_reader(c_, x)))
      return ops::take(x, indices_, axis);
    const Primitive& primitive = made->primitive();
    const Op op = made->op();
    Values operands;
    for (std::size_t i = 0; i < made->num_inputs(); ++i) operands.push_back(c_.input(*made, i));
    if (&primitive == &broadcast_in_dim) {
      const Ints& broadcast_dims = op.ints("broadcast_dimensions");
      const auto found = std::find(broadcast_dims.begin(), broadcast_dims.end(), axis);
      const auto i = static_cast<std::size_t>(found - broadcast_dims.begin());
      const bool repeated = found == broadcast_dims.end() || operands[0].shape()[i] == 1;
      const Value inner = repeated ? operands[0] : of(operands[0], static_cast<std::int64_t>(i), far + 1);
      return ops::broadcast_in_dim(inner, shape, broadcast_dims);
    }
    if (&primitive == &transpose) {
      const Ints& permutation = op.ints("permutation");
      return ops::transpose(of(operands[0], permutation[at(axis)], far + 1), permutation);
    }
    if (&primitive == &dot_general) {
      const auto place = place_in_product(c_, *made, axis);
      if (!place) return ops::take(x, indices_, axis);
      operands[place->operand] = ops::take(operands[place->operand], indices_, place->axis);
      return c_.emitter().emit_one(op, operands);
    }
    if (!is_elementwise(*made)) return ops::take(x, indices_, axis);
    for (Value& operand : operands) {
      if (operand.rank() > 0) operand = of(operand, axis, far + 1);
    }
    return c_.emitter().emit_one(op, operands);
  }

 private:
  static bool is_elementwise(const Operation& made) {
    const Primitive& primitive = made.primitive();
    return primitive.has_trait(Trait::elementwise) && !primitive.has_trait(Trait::impure) &&
           !primitive.has_trait(Trait::barrier) && made.num_outputs() == 1 && made.num_inputs() > 0;
  }

  SimplifyContext& c_;
  const Value indices_;
  const std::int64_t count_;
  const std::int64_t read_;
};

}  // namespace

namespace {

// (x y)[indices] = x[indices] y
Values take_before_product(SimplifyContext& c) {
  const Value x = c.operand(0), indices = c.operand(1);
  const std::int64_t axis = c.op().integer("axis");
  if (indices.rank() != 1 || c.result_type().size() == 0 || x.type().size() == 0 ||
      c.op().string("mode") != "clip" || is_integer(x.dtype()) ||
      indices.type().size() >= x.shape()[at(axis)])
    return unchanged();
  const auto made = c.producer(x);
  if (!made || c.splat(x)) return unchanged();
  if (!made->primitive().has_trait(Trait::elementwise) && &made->primitive() != &transpose &&
      &made->primitive() != &dot_general)
    return unchanged();
  const auto readers = c.readers(x);
  if (!readers || readers->empty()) return unchanged();
  const std::int64_t row = x.type().size() / x.shape()[at(axis)];
  std::int64_t read = 0;
  for (const ValueReader& reader : *readers) {
    if (!(reader.op == c.op())) return unchanged();
    read += reader.result.size() / row;
  }
  Rows rows(c, indices, read);
  if (!rows.gain(x, axis)) return unchanged();
  return rows.of(x, axis);
}

// One row, repeated.
bool repeats_along(const SimplifyContext& c, const Value& x, std::int64_t axis) {
  if (x.rank() == 0 || c.splat(x)) return true;
  const auto made = c.producer(x, broadcast_in_dim);
  if (!made) return false;
  const Op op = made->op();
  const Ints& broadcast_dims = op.ints("broadcast_dimensions");
  const auto found = std::find(broadcast_dims.begin(), broadcast_dims.end(), axis);
  return found == broadcast_dims.end() ||
         c.input(*made).shape()[static_cast<std::size_t>(found - broadcast_dims.begin())] == 1;
}
Value repeated_along(const SimplifyContext& c, const Value& x, const Shape& shape) {
  if (x.rank() == 0) return x;
  if (const auto element = c.splat(x)) return filled(c, x.type().with_shape(shape), *element);
  const auto made = c.producer(x, broadcast_in_dim);
  return ops::broadcast_in_dim(c.input(*made), shape, made->op().ints("broadcast_dimensions"));
}

// (x + broadcast y)[indices] = x[indices] + broadcast y, for long rows: see Note [Gather before use].
Values take_before_sum(const SimplifyContext& c) {
  constexpr std::int64_t long_row = 16, max_taken = 2;
  const Value x = c.operand(0), indices = c.operand(1);
  const std::int64_t axis = c.op().integer("axis");
  if (indices.rank() != 1 || (x.dtype() != f32 && x.dtype() != f64) || c.op().string("mode") != "clip")
    return unchanged();
  const Shape& from = x.shape();
  const std::int64_t extent = from[at(axis)];
  const std::int64_t row = num_elements(Shape(from.begin() + axis + 1, from.end()));
  if (row < long_row || row * extent != x.type().size() || indices.type().size() > max_taken * extent)
    return unchanged();
  const auto made = c.producer(x);
  if (!made || c.splat(x) ||
      (&made->primitive() != &add && &made->primitive() != &sub && &made->primitive() != &mul))
    return unchanged();
  const auto readers = c.readers(x);
  if (!readers || readers->size() > 1) return unchanged();  // none: a value that a rule made just now
  const bool first = repeats_along(c, c.input(*made, 0), axis);
  if (first == repeats_along(c, c.input(*made, 1), axis)) return unchanged();
  Shape shape = from;
  shape[at(axis)] = indices.type().size();
  const Value picked = ops::take(c.input(*made, first ? 1 : 0), indices, axis);
  const Value repeated = repeated_along(c, c.input(*made, first ? 0 : 1), shape);
  const Value operands[] = {first ? repeated : picked, first ? picked : repeated};
  return c.emitter().emit_one(made->op(), operands);
}

}  // namespace

Values simplify_take(SimplifyContext& c) {
  Values results = take_before_product(c);
  if (results.empty()) results = take_before_sum(c);
  return results.empty() ? take_before_transpose(c) : results;
}

}  // namespace tidu::prim
