// while_as_scan.cpp - a while with a bound as a scan.
//
// Note [Bounded loops]: steps after the loop's end pass their carries on, so that a while with a bound is a
// scan of known length. Its derivatives are those of the while. Whether to go on is a carry too: after the
// end neither body nor cond is computed.
#include "primitives/cond.hpp"
#include "primitives/gated_loops.hpp"
#include "primitives/scan.hpp"
#include "primitives/while.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

// The outputs of a graph; loops without a bound in it take no step where `gate` does not hold.
std::vector<Value> outputs_of(Emitter& emitter, const Graph& graph, std::vector<Value> inputs,
                              const std::optional<Value>& gate) {
  const bool told = gate && holds_unbounded(graph);
  if (told) inputs.push_back(*gate);
  const Graph inner = told ? gated(graph) : graph;
  const std::vector<Value> values = inline_graph(emitter, inner, inputs);
  std::vector<Value> outputs;
  for (const ValueId id : inner.outputs()) outputs.push_back(values[id]);
  return outputs;
}

// The results of a step on `inputs`, by operand that is not fixed, and whether to go on.
std::vector<Value> stepped(Emitter& emitter, const WhileParts& loop, std::vector<Value> inputs,
                           const std::optional<Value>& gate = {}) {
  const std::vector<Value> carries = outputs_of(emitter, loop.body, inputs, gate);
  std::vector<Value> next;
  for (std::size_t k = 0; k < loop.num_carry; ++k) {
    if (loop.stays(k)) continue;
    next.push_back(carries[k]);
    inputs[loop.carry(k)] = next.back();
  }
  next.push_back(outputs_of(emitter, loop.cond, inputs, gate)[0]);
  return next;
}

// A step, or the same carries again.
std::vector<Value> by_branch(const WhileParts& loop, const std::vector<Value>& inputs, Value goes_on) {
  CondBuilder step(std::vector<Graph>(2, loop.body));
  std::vector<Value> in_branch;
  for (std::size_t i = 0; i < loop.num_operands; ++i) {
    const std::vector<Value> places = step.add(detail::str('x', i), inputs[i]);
    in_branch.push_back(places[1]);
    if (!loop.is_fixed(i)) step.add_output(0, places[0]);
  }
  step.add_output(0, ops::constant(step.branch(0), Literal::scalar(DType::boolean, std::int64_t{0})));
  for (const Value& value : stepped(step.branch(1), loop, in_branch)) step.add_output(1, value);
  const Values results = step.emit(goes_on);
  return {results.begin(), results.end()};
}

// `linear`: by operand, is it masked (Note [Cases not taken])? No cotangent flows back to others.
std::vector<Value> by_select(const WhileParts& loop, const std::vector<Value>& inputs, Value goes_on,
                             const std::vector<bool>& linear) {
  std::vector<Value> read = inputs;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!linear[i] || !is_inexact(read[i].dtype())) continue;
    const Value which = ops::broadcast_scalar(goes_on, read[i].shape());
    const Value zero = ops::full_like(read[i], 0.0);
    read[i] = ops::select_n(which, zero, read[i]);
  }
  std::vector<Value> next = stepped(*goes_on.emitter(), loop, std::move(read), goes_on);
  for (std::size_t k = 0, j = 0; k < loop.num_carry; ++k) {
    if (loop.stays(k)) continue;
    const Value old = inputs[loop.carry(k)];
    const Value which = ops::broadcast_scalar(goes_on, old.shape());
    next[j] = ops::select_n(which, old, next[j]);
    ++j;
  }
  next.back() = ops::logical_and(goes_on, next.back());
  return next;
}

}  // namespace

Graph while_as_scan(const WhileParts& loop, IdleSteps idle, const std::vector<bool>& linear) {
  GraphBuilder outer(loop.body.name(), loop.body.primitives());
  std::vector<Value> operands;
  for (std::size_t i = 0; i < loop.num_operands; ++i)
    operands.push_back(outer.input(detail::str('x', i), loop.type(i)));
  ScanBuilder steps(loop.body.name(), loop.body.primitives());
  std::vector<Value> inputs(loop.num_operands);
  for (const bool fixed : {true, false}) {
    for (std::size_t i = 0; i < loop.num_operands; ++i) {
      const std::string name = detail::str('x', i);
      if (loop.is_fixed(i) != fixed) continue;
      inputs[i] = fixed ? steps.add_const(name, operands[i]) : steps.add_carry(name, operands[i]);
    }
  }
  const Value first = inline_graph(outer, loop.cond, operands)[loop.cond.outputs()[0]];
  const Value goes_on = steps.add_carry("goes_on", first);
  const std::vector<Value> next =
      idle == IdleSteps::branch ? by_branch(loop, inputs, goes_on) : by_select(loop, inputs, goes_on, linear);
  for (const Value& value : next) steps.add_output(value);
  const Values results = steps.emit(outer, loop.shape.max_steps.value_or(0), false);
  std::vector<Value> outputs;
  for (std::size_t k = 0, j = 0; k < loop.num_carry; ++k)
    outputs.push_back(loop.stays(k) ? operands[loop.carry(k)] : results[j++]);
  return outer.build(outputs);
}

}  // namespace tidu::prim
