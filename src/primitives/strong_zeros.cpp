// strong_zeros.cpp - see strong_zeros.hpp.
//
// Note [Annihilation]: mul becomes multiply_no_nan of both operands, and div divide_no_nan. The product rule
// of such a product guards the same way at the next order, where a residual that is zero meets a tangent that
// is infinite, and a cotangent that happens to be zero keeps its own derivative.
#include "tidu/primitives/strong_zeros.hpp"

#include <memory>

#include "primitives/cond.hpp"
#include "primitives/elementwise_rules.hpp"
#include "primitives/scan.hpp"
#include "primitives/while.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace {

Value is_zero(Value x) { return ops::eq(x, ops::full_like(x, 0.0)); }
// x, or 0 where `mask` holds.
Value cleared(Value x, Value mask) { return ops::select_n(mask, x, ops::full_like(x, 0.0)); }

Value strong_mul(Value a, Value b) {
  static const Op op = Op::make(prim::multiply_no_nan, {{"both", true}});
  return a.emitter()->emit_one(op, std::array{a, b});
}

// If a zero met infinity or NaN, the product of the finite parts.
Value strong_dot(const Op& op, Value a, Value b) {
  Emitter& emitter = *a.emitter();
  const auto dot = [&](Value x, Value y) { return emitter.emit_one(op, std::array{x, y}); };
  const DType counted =
      is_complex(a.dtype()) ? (a.dtype() == DType::c64 ? DType::f32 : DType::f64) : a.dtype();
  const auto number = [&](Value mask) { return ops::convert_element_type(mask, counted); };
  const Value a_bad = ops::logical_not(prim::is_finite_number(a)),
              b_bad = ops::logical_not(prim::is_finite_number(b));
  const Value a_zero = number(is_zero(a)), met_in_b = dot(a_zero, number(b_bad));
  const Value a_number = number(a_bad), met_in_a = dot(a_number, number(is_zero(b)));
  const Value met = ops::add(met_in_b, met_in_a), a_clean = cleared(a, a_bad);
  const Value clean = dot(a_clean, cleared(b, b_bad));
  const Value any = ops::ne(met, ops::full_like(met, 0.0));
  return ops::select_n(any, dot(a, b), clean);
}

// Graphs nest at most max_graph_depth deep, and so does this.
Graph guarded(const Graph& graph, const std::vector<bool>& linear_inputs);

class Guard {
 public:
  Guard(const Graph& graph, const std::vector<bool>& linear_inputs)
      : graph_(graph),
        depends_(prim::depending_on(graph, linear_inputs)),
        builder_(graph.name(), graph.primitives()) {}

  Graph run() {
    values_.resize(graph_.num_values());
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      values_[id] = builder_.input(graph_.input_key(i), graph_.type(id), graph_.label(id));
    }
    for (const ValueId id : graph_.externals())
      values_[id] = builder_.external(graph_.key(id), graph_.type(id));
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      const Values results = apply(operation);
      for (std::size_t slot = 0; slot < results.size(); ++slot)
        values_[operation.output(slot)] = results[slot];
    }
    std::vector<Value> outputs;
    for (const ValueId id : graph_.outputs()) outputs.push_back(values_[id]);
    return builder_.build(outputs);
  }

 private:
  Values apply(const Operation& operation) {
    std::vector<Value> operands;
    std::vector<bool> linear;
    bool any = false;
    for (const ValueId id : operation.inputs()) {
      operands.push_back(values_[id]);
      linear.push_back(depends_[id]);
      any = any || depends_[id];
    }
    const Primitive* primitive = &operation.primitive();
    if (!any) return copy(operation, operands);
    if (primitive->has_trait(Trait::holds_graph)) return inner(operation, operands, linear);
    if (operation.num_inputs() != 2 || !is_inexact(operands[0].dtype())) return copy(operation, operands);
    if (operation.name() == prim::mul.name) return strong_mul(operands[0], operands[1]);
    if (operation.name() == prim::div.name) return ops::divide_no_nan(operands[0], operands[1]);
    if (operation.name() == prim::dot_general.name)
      return strong_dot(operation.op(), operands[0], operands[1]);
    return copy(operation, operands);
  }

  Values inner(const Operation& operation, const std::vector<Value>& operands,
               const std::vector<bool>& linear) {
    const Op op = operation.op();
    if (op.name() == prim::scan.name) {
      const prim::ScanParts parts(op);
      std::vector<bool> in_some_step = linear;
      parts.spread(in_some_step, false);
      return ops::scan(builder_, guarded(parts.body, in_some_step), operands, parts.shape);
    }
    if (op.name() == prim::cond.name) {
      std::vector<Graph> branches = op.graphs("branches");
      const std::vector<bool> of_branches(linear.begin() + 1, linear.end());
      for (Graph& branch : branches) branch = guarded(branch, of_branches);
      return ops::cond(operands[0], branches, std::span(operands).subspan(1));
    }
    if (op.name() == prim::while_loop.name) {
      const prim::WhileParts parts(op);
      std::vector<bool> in_some_step = linear;
      parts.spread(in_some_step);
      return ops::while_loop(builder_, parts.cond, guarded(parts.body, in_some_step), operands, parts.shape);
    }
    bool found = false;
    for (const AttributeSpec& spec : operation.primitive().attributes)
      found = found || (spec.kind == AttributeKind::graph && spec.name == "graph");
    if (!found) return copy(operation, operands);
    const Graph graph = guarded(op.graph("graph"), linear);
    if (op.name() == prim::checkpoint.name) return ops::checkpoint(builder_, graph, operands);
    return ops::call(builder_, graph, operands);
  }

  Values copy(const Operation& operation, const std::vector<Value>& operands) {
    std::vector<ValueId> ids;
    for (const Value& operand : operands) ids.push_back(operand.id());
    GraphBuilder::Extra extra;
    extra.origin = operation.origin();
    if (operation.is_linear()) {
      const auto flags = std::make_unique<bool[]>(ids.size());
      for (std::size_t i = 0; i < ids.size(); ++i) flags[i] = operation.is_linear_in(i);
      extra.role = builder_.make_role(std::span<const bool>(flags.get(), ids.size()));
    }
    const OperationRecord& record = operation.record();
    const ValueId first = builder_.add_typed(record.op, ids, graph_.data().types.data() + record.first_output,
                                             record.num_outputs, extra);
    Values results;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
      results.push_back(builder_.value(first + slot));
    return results;
  }

  const Graph& graph_;
  std::vector<bool> depends_;
  GraphBuilder builder_;
  std::vector<Value> values_;
};

Graph guarded(const Graph& graph, const std::vector<bool>& linear_inputs) {
  return Guard(graph, linear_inputs).run();
}

}  // namespace

Graph strong_zeros(const Graph& linear) {
  return guarded(linear, std::vector<bool>(linear.inputs().size(), true));
}

}  // namespace tidu
