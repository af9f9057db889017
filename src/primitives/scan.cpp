// scan.cpp - scan: its record, type rule and batch rule, and functions that its rules share. Derivatives are
// in scan_derivatives.cpp.
#include "primitives/scan.hpp"

#include <numeric>

#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec scan_attributes[] = {{"body", AttributeKind::graph},
                                             {"length", AttributeKind::integer},
                                             {"reverse", AttributeKind::boolean},
                                             {"num_consts", AttributeKind::integer},
                                             {"num_carry", AttributeKind::integer}};

void infer_scan(InferContext& c) {
  const Graph body = c.op().graph("body");
  const std::int64_t length = c.op().integer("length");
  c.require(length >= 0, "expected length >= 0, got ", length);
  const auto inputs = static_cast<std::int64_t>(body.inputs().size());
  const auto outputs = static_cast<std::int64_t>(body.outputs().size());
  const std::int64_t num_consts = c.op().integer("num_consts"), num_carry = c.op().integer("num_carry");
  c.require(num_consts >= 0 && num_carry >= 0 && num_consts <= inputs && num_carry <= inputs - num_consts,
            "expected num_consts and num_carry to be at least 0 and at most ", inputs,
            " together, the inputs of body ", detail::in_quotes(body.name()), ", got ", num_consts, " and ",
            num_carry);
  c.require(outputs > 0 && outputs >= num_carry, "expected a body with ",
            std::max<std::int64_t>(num_carry, 1), " outputs or more, got ", detail::in_quotes(body.name()),
            " with ", outputs);
  c.require(c.num_operands() == body.inputs().size(), "expected ", inputs, " operands for body ",
            detail::in_quotes(body.name()), ", got ", c.num_operands());
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const Type input = body.type(body.inputs()[i]);
    const auto at = static_cast<std::int64_t>(i);
    const bool is_x = at >= num_consts + num_carry;
    const Type expected = is_x ? with_leading_axis(input, length) : input;
    const std::string_view kind = is_x ? "x" : at < num_consts ? "const" : "carry";
    const std::int64_t index = is_x ? at - num_consts - num_carry : at < num_consts ? at : at - num_consts;
    c.require(c.operand(i) == expected, "expected ", expected, " for operand ", i, ", ", kind, ' ', index,
              " (input ", detail::in_quotes(body.input_name(i)), " of body ", detail::in_quotes(body.name()),
              "), got ", c.operand(i));
  }
  for (std::size_t k = 0; k < body.outputs().size(); ++k) {
    const Type output = body.type(body.outputs()[k]);
    if (static_cast<std::int64_t>(k) >= num_carry) {
      c.result(with_leading_axis(output, length));
      continue;
    }
    const Type carry = c.operand(static_cast<std::size_t>(num_consts) + k);
    c.require(output == carry, "expected body ", detail::in_quotes(body.name()), " to give carry ", k,
              " as it came in, ", carry, ", got ", output);
    c.result(output);
  }
  refuse_effects(c, body, "body");
}

// Exchanges the axes 0 and 1, of a batch and of steps.
Value with_axes_changed(Value x) {
  Ints permutation(x.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[0], permutation[1]);
  return ops::transpose(x, permutation);
}

}  // namespace

Value broadcast_to_batch(Value x, std::int64_t size) {
  Ints dimensions(x.rank());
  std::iota(dimensions.begin(), dimensions.end(), 1);
  return ops::broadcast_in_dim(x, with_leading_axis(x.type(), size).shape(), dimensions);
}

Type with_leading_axis(Type type, std::int64_t extent) {
  Shape shape{extent};
  shape.insert(shape.end(), type.shape().begin(), type.shape().end());
  return type.with_shape(shape);
}
Type without_leading_axis(Type type) {
  return type.with_shape(Shape(type.shape().begin() + 1, type.shape().end()));
}

ScanParts::ScanParts(const Op& op)
    : body(op.graph("body")),
      shape{op.integer("length"), op.boolean("reverse"), static_cast<std::size_t>(op.integer("num_consts")),
            static_cast<std::size_t>(op.integer("num_carry"))},
      num_inputs(body.inputs().size()),
      num_outputs(body.outputs().size()) {}

std::vector<bool> ScanParts::spread(std::vector<bool>& inputs, bool inexact) const {
  while (true) {
    std::vector<bool> depends = depending_on(body, inputs);
    bool grew = false;
    for (std::size_t k = 0; k < shape.num_carry; ++k) {
      if (!depends[output(k)] || inputs[carry(k)]) continue;
      if (inexact && !is_inexact(body.type(output(k)).dtype())) continue;
      inputs[carry(k)] = grew = true;
    }
    if (!grew) return depends;
  }
}

Value ScanBuilder::add_const(std::string_view name, Value operand) {
  ++shape_.num_consts;
  operands_.push_back(operand);
  return builder_.input(name, operand.type());
}
Value ScanBuilder::add_carry(std::string_view name, Value first) {
  ++shape_.num_carry;
  operands_.push_back(first);
  return builder_.input(name, first.type());
}
Value ScanBuilder::add_x(std::string_view name, Value operand) {
  operands_.push_back(operand);
  return builder_.input(name, without_leading_axis(operand.type()));
}
Values ScanBuilder::emit(Emitter& emitter, std::int64_t length, bool reverse) {
  shape_.length = length;
  shape_.reverse = reverse;
  return ops::scan(emitter, prune(builder_.build(outputs_)), operands_, shape_);
}

// A carry is batched if its input is or if, in some step, it depends on batched values. Other carries are
// not, as the counter of a loop, which is the same for all.
Values batch_scan(BatchContext& c) {
  const ScanParts parts(c.op());
  std::vector<bool> batched = batched_operands(c);
  const std::vector<bool> depends = parts.spread(batched, false);
  const Graph mapped = c.host().batch(parts.body, batched, c.size());
  const auto is_batched = [&](std::size_t k) {
    return parts.is_y(k) ? bool(depends[parts.output(k)]) : bool(batched[parts.carry(k)]);
  };

  ScanBuilder builder(parts.body.name(), parts.body.primitives());
  std::vector<Value> inputs, plain(parts.num_inputs);
  for (std::size_t i = 0; i < parts.num_inputs; ++i) {
    const std::string name = detail::str('x', i);
    Value operand = c.operand(i);
    if (parts.is_x(i)) {
      inputs.push_back(builder.add_x(name, c.batched(i) ? with_axes_changed(operand) : operand));
    } else if (parts.is_const(i)) {
      inputs.push_back(builder.add_const(name, operand));
    } else {
      inputs.push_back(builder.add_carry(
          name, batched[i] && !c.batched(i) ? broadcast_to_batch(operand, c.size()) : operand));
    }
    if (!batched[i]) plain[i] = inputs[i];
  }
  // Values of the batched body, and of the body for values that are not batched.
  std::vector<ValueId> of_mapped, of_body;
  for (std::size_t k = 0; k < parts.num_outputs; ++k) {
    if (is_batched(k)) {
      of_mapped.push_back(mapped.outputs()[k]);
    } else {
      of_body.push_back(parts.output(k));
    }
  }
  const std::vector<Value> values = outputs_given(builder.body(), mapped, inputs, of_mapped);
  const std::vector<Value> unmapped = outputs_given(builder.body(), parts.body, plain, of_body);
  auto next_mapped = values.begin(), next_unmapped = unmapped.begin();
  for (std::size_t k = 0; k < parts.num_outputs; ++k)
    builder.add_output(is_batched(k) ? *next_mapped++ : *next_unmapped++);

  Values results = builder.emit(c.emitter(), parts.shape.length, parts.shape.reverse);
  for (std::size_t k = 0; k < parts.num_outputs; ++k) {
    if (is_batched(k) && parts.is_y(k)) results[k] = with_axes_changed(results[k]);
  }
  return results;
}

std::vector<RegionBinding> bindings_of_scan(const Op& op) {
  const ScanParts parts(op);
  std::vector<RegionBinding> region_bindings;
  for (std::size_t i = 0; i < parts.num_inputs; ++i) {
    RegionBinding& binding = region_bindings.emplace_back();
    binding.operands = {i};
    binding.inputs = {{0, i}};
    if (parts.is_const(i)) {
      binding.count = "num_consts";
    } else if (!parts.is_x(i)) {
      const std::size_t k = i - parts.shape.num_consts;
      binding.results = {k};
      binding.outputs = {{0, k}};
      binding.count = "num_carry";
    }
  }
  for (std::size_t k = parts.shape.num_carry; k < parts.num_outputs; ++k) {
    RegionBinding& binding = region_bindings.emplace_back();
    binding.results = {k};
    binding.outputs = {{0, k}};
  }
  return region_bindings;
}

// (c, y) = body(consts, c, x), step by step: see scan_derivatives.cpp.
constinit const Primitive scan{.name = "scan",
                               .arity = variadic,
                               .num_outputs = variadic,
                               .attributes = scan_attributes,
                               .traits = Trait::holds_graph,
                               .linearity = linearity::linear,
                               .infer = infer_scan,
                               .jvp = jvp_scan,
                               .transpose = transpose_scan,
                               .batch = batch_scan,
                               .region_bindings = bindings_of_scan};

std::vector<const Primitive*> control_flow_primitives() { return {&scan, &cond, &while_loop}; }

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Op scan_op(const Graph& body, const ScanShape& shape) {
  return Op::make(prim::scan, {{"body", body},
                               {"length", shape.length},
                               {"reverse", shape.reverse},
                               {"num_consts", static_cast<std::int64_t>(shape.num_consts)},
                               {"num_carry", static_cast<std::int64_t>(shape.num_carry)}});
}

}  // namespace

Values scan(Emitter& emitter, const Graph& body, std::span<const Value> operands, const ScanShape& shape,
            Where where) {
  return emitter.emit(scan_op(body, shape), operands, where);
}

Values scan(const Graph& body, std::span<const Value> operands, const ScanShape& shape, Where where) {
  return emit(scan_op(body, shape), operands, where);
}

}  // namespace tidu::ops
