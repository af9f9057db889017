// simplify_shapes.cpp - the rules of layout operations: chains collapse, identities are removed, and
// broadcasts and transposes sink towards the outputs.
#include <algorithm>
#include <cmath>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "primitives/simplify_matmuls.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

Shape without_ones(const Shape& shape) {
  Shape rest;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(rest), [](std::int64_t e) { return e != 1; });
  return rest;
}

// The operation that makes the value, if its result has the elements of its only operand in their order.
std::optional<Operation> view_producer(const SimplifyContext& c, Value value) {
  const auto made = c.producer(value);
  const bool view = made && made->primitive().has_trait(Trait::view) &&
                    !made->primitive().has_trait(Trait::barrier) && made->num_inputs() == 1 &&
                    made->output() == value.id();
  return view ? made : std::nullopt;
}

// reshape(broadcast x) as one broadcast of x: every axis of the result comes from one of the broadcast, or
// from such as x has not.
Values reshape_of_broadcast(const SimplifyContext& c, const Operation& made) {
  const Value x = c.input(made);
  const Op op = made.op();
  const Shape& from = op.ints("shape");
  const Shape& to = c.result_type().shape();
  const Ints& broadcast_dims = op.ints("broadcast_dimensions");
  if (c.result_type().size() == 0) return unchanged();
  Ints new_place(from.size(), -1);
  std::vector<bool> varies(from.size(), false);
  for (std::size_t i = 0; i < broadcast_dims.size(); ++i) varies[at(broadcast_dims[i])] = x.shape()[i] != 1;
  // Groups of neighbouring axes with one product of extents.
  for (std::size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    const std::size_t first_i = i, first_j = j;
    std::int64_t left = i < from.size() ? from[i++] : 1, right = j < to.size() ? to[j++] : 1;
    while (left != right) {
      if (left < right) {
        if (i == from.size()) return unchanged();
        left *= from[i++];
      } else {
        if (j == to.size()) return unchanged();
        right *= to[j++];
      }
    }
    std::size_t varying = 0;
    for (std::size_t k = first_i; k < i; ++k) {
      if (!varies[k]) continue;
      ++varying;
      std::size_t place = first_j;
      while (place < j && to[place] != left) ++place;
      if (from[k] != left || place == j) return unchanged();
      new_place[k] = static_cast<std::int64_t>(place);
    }
    if (varying > 1) return unchanged();
  }
  Ints dimensions;
  for (std::size_t i = 0; i < broadcast_dims.size(); ++i) {
    if (varies[at(broadcast_dims[i])]) dimensions.push_back(new_place[at(broadcast_dims[i])]);
  }
  return ops::broadcast_in_dim(ops::reshape(x, without_ones(x.shape())), to, dimensions);
}

// A transpose of a broadcast: a broadcast to other positions, of x or of x transposed.
Values transpose_of_broadcast(const SimplifyContext& c, const Operation& made, const Ints& permutation) {
  const Value x = c.input(made);
  const Ints place = inverse_permutation(permutation);
  const Op op = made.op();
  Ints dimensions;
  for (const std::int64_t axis : op.ints("broadcast_dimensions")) dimensions.push_back(place[at(axis)]);
  Ints order = range(0, static_cast<std::int64_t>(dimensions.size()));
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return dimensions[at(a)] < dimensions[at(b)]; });
  std::sort(dimensions.begin(), dimensions.end());
  return ops::broadcast_in_dim(ops::transpose(x, order), c.result_type().shape(), dimensions);
}

bool keeps_order_of_elements(const Shape& shape, const Ints& permutation) {
  std::int64_t last = -1;
  for (const std::int64_t axis : permutation) {
    if (shape[at(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

bool all_are(const Ints& list, std::int64_t value) {
  return std::all_of(list.begin(), list.end(), [=](std::int64_t entry) { return entry == value; });
}

// Are the last elements of the result, and so stretches of it, contiguous in the operand of the broadcast?
bool ends_with(const Shape& shape, const Ints& broadcast_dims, const Shape& result) {
  auto last = static_cast<std::int64_t>(result.size()) - 1;
  while (last > 0 && result[at(last)] == 1) --last;
  return !broadcast_dims.empty() && broadcast_dims.back() == last && shape.back() != 1;
}

// The number of elements of the result that are contiguous in the operand of the broadcast, so that they are
// copied as one; 1 if they are not.
std::int64_t copied_together(const Shape& shape, const Ints& broadcast_dims, const Shape& result) {
  std::int64_t count = 1;
  auto axis = static_cast<std::int64_t>(result.size()) - 1;
  for (std::size_t i = broadcast_dims.size(); axis >= 0; --axis) {
    if (result[at(axis)] == 1) continue;
    while (i > 0 && shape[i - 1] == 1) --i;
    if (i == 0 || broadcast_dims[i - 1] != axis) break;
    count *= result[at(axis)];
    --i;
  }
  return count;
}

// The number of consecutive elements of the result that are one element of the operand.
std::int64_t filled_together(const Shape& shape, const Ints& broadcast_dims, const Shape& result) {
  std::int64_t count = 1;
  for (auto axis = static_cast<std::int64_t>(result.size()) - 1; axis >= 0; --axis) {
    const auto found = std::find(broadcast_dims.begin(), broadcast_dims.end(), axis);
    if (found != broadcast_dims.end() && shape[at(found - broadcast_dims.begin())] != 1) break;
    count *= result[at(axis)];
  }
  return count;
}

// A slice that takes whole axes of x and part of the repeated ones: a broadcast with fewer repetitions.
Values slice_of_broadcast(const SimplifyContext& c, const Operation& made) {
  const Value x = c.input(made);
  const Op op = made.op();
  const Ints& broadcast_dims = op.ints("broadcast_dimensions");
  for (std::size_t i = 0; i < broadcast_dims.size(); ++i) {
    if (x.shape()[i] != 1 && c.result_type().dim(at(broadcast_dims[i])) != x.shape()[i]) return unchanged();
    if (x.shape()[i] != 1 && c.op().ints("strides")[at(broadcast_dims[i])] != 1) return unchanged();
  }
  return ops::broadcast_in_dim(x, c.result_type().shape(), broadcast_dims);
}

// A slice that lies in one operand of a concatenate.
Values slice_of_concatenate(const SimplifyContext& c, const Operation& made) {
  const Op op = made.op();
  const std::size_t axis = at(op.integer("dimension"));
  Ints start = c.op().ints("start_indices"), limit = c.op().ints("limit_indices");
  std::int64_t before = 0;
  for (std::size_t i = 0; i < made.num_inputs(); ++i) {
    const Value x = c.input(made, i);
    const std::int64_t after = before + x.shape()[axis];
    if (start[axis] >= before && limit[axis] <= after && start[axis] < limit[axis]) {
      start[axis] -= before;
      limit[axis] -= before;
      return ops::slice(x, start, limit, c.op().ints("strides"));
    }
    before = after;
  }
  return unchanged();
}

// A slice that lies within the operand of a pad.
Values slice_of_pad(const SimplifyContext& c, const Operation& made) {
  const Op op = made.op();
  const Value x = c.input(made);
  Ints start = c.op().ints("start_indices"), limit = c.op().ints("limit_indices");
  for (std::size_t i = 0; i < start.size(); ++i) {
    const Ints& entry = op.lists("padding_config")[i];
    start[i] -= entry[0];
    limit[i] -= entry[0];
    if (entry[2] != 0 || start[i] < 0 || limit[i] > x.shape()[i]) return unchanged();
  }
  return ops::slice(x, start, limit, c.op().ints("strides"));
}

// pad(x k) = pad(x) k for one number k; the zero around x times k must be 0.0. If x has other readers and is
// about as large, executors may pad it on read, so that several such products need no memory.
Values product_behind_pad(const SimplifyContext& c) {
  constexpr std::size_t least = std::size_t{1} << 16;  // bytes
  const Type type = c.result_type();
  const auto product = c.producer(c.operand(0), mul);
  if (!product || c.shared(0) || !is_real(type) || type.bytes() < least ||
      2 * type.size() > 3 * c.operand(0).type().size() || !is_number(c, c.operand(1), 0.0))
    return unchanged();
  const IntLists config = c.op().lists("padding_config");
  for (const Ints& entry : config) {
    if (entry[0] < 0 || entry[1] < 0 || entry[2] != 0) return unchanged();
  }
  for (const std::size_t i : {1U, 0U}) {
    const Value x = c.input(*product, 1 - i);
    const std::optional<Literal> factor = c.splat(c.input(*product, i));
    const std::optional<double> k = number_of(c, c.input(*product, i));
    const auto readers = k && std::isfinite(*k) ? c.readers(x) : std::nullopt;
    if (!readers || readers->size() < 2) continue;
    const double zero = std::signbit(*k) && !is_integer(type.dtype()) ? -0.0 : 0.0;
    const Value padded = ops::pad(x, ops::full(c.emitter(), Type(type.dtype()), zero), config);
    return ops::mul(padded, filled(c, type, *factor));
  }
  return unchanged();
}

}  // namespace

Values simplify_pass(SimplifyContext& c) { return c.operand(); }

Values simplify_view(SimplifyContext& c) {
  const Value x = c.operand();
  if (x.type() == c.result_type()) return x;
  if (Values result = filled_like_operands(c); !result.empty()) return result;
  if (const auto made = view_producer(c, x)) return ops::reshape(c.input(*made), c.result_type().shape());
  if (const auto made = c.producer(x, broadcast_in_dim)) return reshape_of_broadcast(c, *made);
  return unchanged();
}

Values simplify_transpose(SimplifyContext& c) {
  const Value x = c.operand();
  const Ints& permutation = c.op().ints("permutation");
  if (Values result = filled_like_operands(c); !result.empty()) return result;
  if (keeps_order_of_elements(x.shape(), permutation)) return ops::reshape(x, c.result_type().shape());
  if (const auto made = c.producer(x, transpose)) {
    const Op op = made->op();
    return ops::transpose(c.input(*made), extents_at(op.ints("permutation"), permutation));
  }
  if (const auto made = c.producer(x, broadcast_in_dim)) return transpose_of_broadcast(c, *made, permutation);
  if (const auto made = c.producer(x, dot_general); made && !c.shared())
    return transposed_product(c, *made, permutation);
  return unchanged();
}

Values simplify_broadcast(SimplifyContext& c) {
  const Value x = c.operand();
  const Type type = c.result_type();
  const Ints& broadcast_dims = c.op().ints("broadcast_dimensions");
  if (Values result = filled_like_operands(c); !result.empty()) return result;
  if (x.type().size() == type.size() && type.size() != 0) return ops::reshape(x, type.shape());
  if (const auto made = c.producer(x, broadcast_in_dim)) {
    const Op op = made->op();
    const Value source = c.input(*made);
    const Ints places = extents_at(broadcast_dims, op.ints("broadcast_dimensions"));
    const std::int64_t filled = filled_together(source.shape(), places, type.shape());
    const bool two_steps = source.type().size() > 1 && 2 * x.type().size() <= type.size() &&
                           !ends_with(source.shape(), places, type.shape()) &&
                           filled < copied_together(x.shape(), broadcast_dims, type.shape());
    if (!two_steps) return ops::broadcast_in_dim(source, type.shape(), places);
  }
  if (const auto made = view_producer(c, x)) {  // axes of extent 1 that come and go
    const Value source = c.input(*made);
    const Shape shape_without_ones = without_ones(source.shape());
    if (shape_without_ones == source.shape() && shape_without_ones == without_ones(x.shape())) {
      Ints dimensions;
      for (std::size_t i = 0; i < broadcast_dims.size(); ++i) {
        if (x.shape()[i] != 1) dimensions.push_back(broadcast_dims[i]);
      }
      return ops::broadcast_in_dim(source, type.shape(), dimensions);
    }
  }
  return unchanged();
}

Values simplify_rev(SimplifyContext& c) {
  const Value x = c.operand();
  const Ints& dimensions = c.op().ints("dimensions");
  if (all_are(extents_at(x.shape(), dimensions), 1)) return x;
  if (Values result = filled_like_operands(c); !result.empty()) return result;
  if (const auto made = c.producer(x, rev); made && made->op() == c.op()) return c.input(*made);
  return unchanged();
}

Values simplify_slice(SimplifyContext& c) {
  const Value x = c.operand();
  if (x.type() == c.result_type()) return x;
  if (Values result = filled_like_operands(c); !result.empty()) return result;
  if (c.result_type().size() == 0) return unchanged();
  if (const auto made = c.producer(x, slice)) {
    const Op op = made->op();
    Ints start = op.ints("start_indices"), limit = start, strides = op.ints("strides");
    for (std::size_t i = 0; i < start.size(); ++i) {
      start[i] += c.op().ints("start_indices")[i] * strides[i];
      strides[i] = c.result_type().dim(i) == 1 ? 1 : strides[i] * c.op().ints("strides")[i];
      limit[i] = start[i] + (c.result_type().dim(i) - 1) * strides[i] + 1;
    }
    return ops::slice(c.input(*made), start, limit, strides);
  }
  if (const auto made = c.producer(x, broadcast_in_dim)) return slice_of_broadcast(c, *made);
  if (const auto made = c.producer(x, concatenate)) return slice_of_concatenate(c, *made);
  if (const auto made = c.producer(x, pad)) return slice_of_pad(c, *made);
  if (Values result = slice_of_scattered(c); !result.empty()) return result;
  return slice_before_transpose(c);
}

Values simplify_pad(SimplifyContext& c) {
  const IntLists& config = c.op().lists("padding_config");
  const auto pads_nothing = [](const Ints& entry) { return all_are(entry, 0); };
  if (std::all_of(config.begin(), config.end(), pads_nothing)) return c.operand(0);
  Values result = filled_like_operands(c);
  if (result.empty()) result = product_behind_pad(c);
  return result.empty() ? pad_before_transpose(c) : result;
}

Values simplify_concatenate(SimplifyContext& c) {
  constexpr std::size_t max_operands = 64;
  if (c.num_operands() == 1) return c.operand(0);
  if (Values result = filled_like_operands(c); !result.empty()) return result;
  std::vector<Value> operands;
  bool nested = false;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const auto made = c.producer(c.operand(i), concatenate);
    const bool joins = made && made->op() == c.op() && !c.shared(i) && made->num_inputs() < max_operands;
    for (std::size_t k = 0; joins && k < made->num_inputs(); ++k) operands.push_back(c.input(*made, k));
    if (!joins) operands.push_back(c.operand(i));
    nested = nested || joins;
  }
  if (!nested || operands.size() > max_operands) return concatenate_before_transposes(c);
  return ops::concatenate(operands, c.op().integer("dimension"));
}

}  // namespace tidu::prim
