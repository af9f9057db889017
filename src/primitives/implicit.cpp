// implicit.cpp - see implicit.hpp.
#include "primitives/implicit.hpp"

#include <algorithm>

#include "primitives/matrices.hpp"
#include "primitives/scan.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {

std::optional<Graph> optional_graph(const Op& op, std::string_view attribute) {
  const std::vector<Graph> graphs = op.graphs(attribute);
  return graphs.empty() ? std::nullopt : std::optional<Graph>(graphs[0]);
}

std::size_t require_num_consts(const InferContext& c) {
  const std::int64_t consts = c.op().integer("num_consts");
  c.require(c.num_operands() > 0, "expected one operand or more, got none");
  c.require(consts >= 0 && static_cast<std::size_t>(consts) < c.num_operands(),
            "expected num_consts from 0 to ", c.num_operands() - 1, ", got ", consts);
  const auto count = static_cast<std::size_t>(consts);
  for (std::size_t i = count; i < c.num_operands(); ++i) {
    c.require(is_inexact(c.operand(i).dtype()), "expected a floating or complex operand ", i,
              ", which is no const, got ", c.operand(i));
  }
  return count;
}

void require_optional(const InferContext& c, std::string_view attribute) {
  const std::size_t count = c.op().graphs(attribute).size();
  c.require(count <= 1, "expected one graph or none in attribute ", attribute, ", got ", count);
}

std::vector<Slot> operand_slots(const InferContext& c, std::size_t num_consts, std::string_view others) {
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const bool is_const = i < num_consts;
    slots.push_back({c.operand(i), is_const ? "which is const" : others, is_const ? i : i - num_consts});
  }
  return slots;
}

std::vector<std::optional<Value>> tangents_by_consts(JvpContext& c, const Graph& graph,
                                                     std::size_t num_consts, std::span<const Value> x) {
  std::vector<std::optional<Value>> result(graph.outputs().size());
  std::vector<bool> active(graph.inputs().size(), false);
  for (std::size_t i = 0; i < num_consts; ++i) active[i] = c.active(i);
  if (std::find(active.begin(), active.end(), true) == active.end()) return result;
  const InnerLinearization inner = c.host().linearize(graph, active);
  if (inner.linear.outputs().empty()) return result;

  std::vector<std::size_t> residuals;
  for (std::size_t k = result.size(); k < inner.primal.outputs().size(); ++k) residuals.push_back(k);
  std::vector<Value> operands;
  if (!residuals.empty()) {
    std::vector<Value> at(c.primals().begin(), c.primals().begin() + static_cast<std::ptrdiff_t>(num_consts));
    at.insert(at.end(), x.begin(), x.end());
    const Graph kept = restricted(inner.primal, std::vector<bool>(at.size(), true), residuals);
    const Values values = ops::call(c.emitter(), kept, at);
    operands.assign(values.begin(), values.end());
  }
  for (std::size_t i = 0; i < num_consts; ++i) {
    if (active[i]) operands.push_back(*c.tangent(i));
  }
  const Values tangents = ops::call(c.emitter(), inner.linear, operands);
  for (std::size_t k = 0; k < result.size(); ++k) {
    if (const auto& at = inner.tangent_of_output[k]) result[k] = tangents[*at];
  }
  return result;
}

Graph transposed_graph(RuleServices& host, const Graph& graph, const std::vector<bool>& linear) {
  const std::vector<bool> depends = depending_on(graph, linear);
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> arguments, results;
  for (std::size_t i = 0; i < linear.size(); ++i) {
    if (!linear[i])
      arguments.push_back(builder.input(detail::str("const.", i), graph.type(graph.inputs()[i])));
  }
  std::vector<std::size_t> outputs;
  for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
    const ValueId id = graph.outputs()[k];
    const Value cotangent = builder.input(detail::str("cotangent.", k), graph.type(id));
    if (!depends[id]) continue;
    outputs.push_back(k);
    arguments.push_back(cotangent);
  }
  std::vector<std::optional<Value>> cotangents(linear.size());
  if (!outputs.empty()) {
    const Graph read = restricted(graph, std::vector<bool>(linear.size(), true), outputs);
    const InnerTransposition inner =
        host.transpose(separated(read, linear), linear, std::vector<bool>(outputs.size(), true));
    const std::vector<Value> values = inline_graph(builder, inner.graph, arguments);
    for (std::size_t i = 0; i < linear.size(); ++i) {
      if (const auto& at = inner.cotangent_of_input[i]) cotangents[i] = values[inner.graph.outputs()[*at]];
    }
  }
  for (std::size_t i = 0; i < linear.size(); ++i) {
    if (!linear[i]) continue;
    results.push_back(cotangents[i] ? *cotangents[i] : zeros(builder, graph.type(graph.inputs()[i])));
  }
  return builder.build(results);
}

namespace {

std::int64_t num_reals(Type type) { return type.size() * (is_complex(type.dtype()) ? 2 : 1); }

Shape shape_of_rows(std::int64_t rows, Type type) {
  Shape shape{rows};
  shape.insert(shape.end(), type.shape().begin(), type.shape().end());
  return shape;
}

// Values with a leading axis as rows of one matrix, of complex ones the real parts, then the imaginary parts.
Value joined_rows(std::span<const Value> values) {
  std::vector<Value> parts;
  for (const Value value : values) {
    const std::int64_t rows = value.shape()[0];  // one or more
    const auto add = [&](Value part) {
      parts.push_back(ops::reshape(part, {rows, part.type().size() / rows}));
    };
    if (is_complex(value.dtype())) {
      add(ops::real(value));
      add(ops::imag(value));
    } else {
      add(value);
    }
  }
  return parts.size() == 1 ? parts[0] : ops::concatenate(parts, 1);
}

// The other way.
std::vector<Value> split_rows(Value matrix, std::span<const Type> types) {
  const std::int64_t rows = matrix.shape()[0];
  std::int64_t at = 0;
  const auto next = [&](Type type) {
    const Value part = ops::slice(matrix, {0, at}, {rows, at + type.size()});
    at += type.size();
    return ops::reshape(part, shape_of_rows(rows, type));
  };
  std::vector<Value> values;
  for (const Type type : types) {
    const Value part = next(type);
    values.push_back(is_complex(type.dtype()) ? ops::complex(part, next(type)) : part);
  }
  return values;
}

// x with a x = b for a [n, n], b [n, 1].
Value solved(Value a, Value b) {
  const Values factors = ops::lu(a);
  const Value rows = ops::take(b, factors[2], 0);
  const Value y =
      ops::triangular_solve(factors[0], rows, {.left_side = true, .lower = true, .unit_diagonal = true});
  return ops::triangular_solve(factors[0], y, {.left_side = true, .lower = false});
}

}  // namespace

bool has_dense_solution(std::span<const Type> unknowns) {
  const DType first = real_dtype(unknowns[0].dtype());
  return (first == DType::f32 || first == DType::f64) &&
         std::all_of(unknowns.begin(), unknowns.end(),
                     [&](Type type) { return real_dtype(type.dtype()) == first; });
}

Graph dense_solution(RuleServices& host, const Graph& map, std::size_t count, bool transposed) {
  GraphBuilder builder(map.name() + ".dense", map.primitives());
  std::vector<Value> arguments, right;
  std::vector<Type> types;
  std::vector<bool> batched(map.inputs().size(), true);
  std::fill_n(batched.begin(), count, false);
  std::int64_t n = 0;
  for (std::size_t i = 0; i < map.inputs().size(); ++i) {
    const Type type = map.type(map.inputs()[i]);
    if (i < count) {
      arguments.push_back(builder.input(detail::str("const.", i), type));
      continue;
    }
    right.push_back(builder.input(detail::str("rhs.", i - count), type));
    types.push_back(type);
    n += num_reals(type);
  }
  if (n == 0) return builder.build(right);
  const Type matrix_type(real_dtype(types[0].dtype()), {n, n});
  for (const Value column : split_rows(prim::identity(builder, matrix_type), types))
    arguments.push_back(column);
  // Row i is the map's value at the i-th unit vector: this is the transposed matrix.
  const Graph mapped = host.batch(map, batched, n);
  const Values rows = ops::call(builder, mapped, arguments);
  const Value matrix = joined_rows(std::span<const Value>(rows.begin(), rows.end()));
  for (Value& value : right) value = ops::reshape(value, shape_of_rows(1, value.type()));
  const Value b = ops::reshape(joined_rows(right), {n, 1});
  const Value x = solved(transposed ? matrix : prim::transposed(matrix), b);
  std::vector<Value> results = split_rows(ops::reshape(x, {1, n}), types);
  for (std::size_t k = 0; k < results.size(); ++k) results[k] = ops::reshape(results[k], types[k].shape());
  return builder.build(results);
}

}  // namespace tidu::prim
