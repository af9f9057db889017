// scan_body.cpp - which values of a scan's body depend on consts alone, and to which carries it only adds.
#include "cpu/scan_body.hpp"

#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::cpu_detail {
namespace {

// The carries whose output is the sum of the carry and a value that does not depend on it, if nothing else
// reads either.
std::vector<std::uint32_t> find_sums(const Graph& body, std::size_t num_consts, std::size_t num_carry) {
  std::vector<std::uint32_t> reads(body.num_values(), 0), gives(body.num_values(), 0), sums;
  for (const ValueId id : body.data().operands) ++reads[id];
  for (const ValueId id : body.outputs()) ++gives[id];
  for (std::size_t k = 0; k < num_carry; ++k) {
    const ValueId carry = body.inputs()[num_consts + k], sum = body.outputs()[k];
    const auto producer = body.producer(sum);
    if (!producer || body.type(sum).size() <= 1) continue;
    const Operation addition = body.operation(*producer);
    if (&addition.primitive() != body.primitives().add() || addition.input(0) != carry) continue;
    if (reads[carry] == 1 && reads[sum] == 0 && gives[carry] == 0 && gives[sum] == 1)
      sums.push_back(static_cast<std::uint32_t>(k));
  }
  return sums;
}

// By value: is it to be made before the steps? What only repeats or names elements is left in a step, where
// it costs no memory, and its operands are made.
std::vector<bool> find_made(const Graph& body, std::size_t num_consts) {
  std::vector<bool> in_steps(body.num_values(), false), of_consts(body.num_values(), false);
  for (std::size_t i = 0; i < body.inputs().size(); ++i)
    (i < num_consts ? of_consts : in_steps)[body.inputs()[i]] = true;
  for (std::size_t i = 0; i < body.num_operations(); ++i) {
    const Operation operation = body.operation(i);
    bool steps = operation.primitive().has_trait(Trait::barrier), consts = false;
    for (const ValueId id : operation.inputs()) {
      steps = steps || in_steps[id];
      consts = consts || of_consts[id];
    }
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      in_steps[operation.output(slot)] = steps;
      of_consts[operation.output(slot)] = consts && !steps;
    }
  }
  std::vector<bool> made(body.num_values(), false), left(body.num_values(), false);
  const auto want = [&](ValueId id) {
    const auto producer = body.producer(id);
    if (!of_consts[id] || !producer) return;
    const Primitive& primitive = body.operation(*producer).primitive();
    (primitive.has_trait(Trait::repeats) || primitive.has_trait(Trait::view) ? left : made)[id] = true;
  };
  for (const ValueId id : body.outputs()) want(id);
  for (std::size_t i = body.num_operations(); i-- > 0;) {
    const Operation operation = body.operation(i);
    bool stays = false;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      stays = stays || in_steps[operation.output(slot)] || left[operation.output(slot)];
    if (!stays) continue;
    for (const ValueId id : operation.inputs()) want(id);
  }
  return made;
}

}  // namespace

ScanBody split_scan_body(const Graph& given, std::size_t num_consts, std::size_t num_carry, bool adds,
                         std::size_t max_operations) {
  const Graph body = passes::inline_graphs(given, max_operations);
  ScanBody result;
  const std::vector<bool> is_made = find_made(body, num_consts);
  std::vector<ValueId> made;
  for (ValueId id = 0; id < is_made.size(); ++id) {
    if (is_made[id]) made.push_back(id);
  }
  result.num_made = made.size();
  if (adds) result.sums = find_sums(body, num_consts, num_carry);
  std::vector<Value> values;
  const auto add_input = [&](GraphBuilder& builder, std::size_t i) {
    const ValueId id = body.inputs()[i];
    return values[id] = builder.input(body.input_key(i), body.type(id), body.label(id));
  };
  const auto outputs_of = [&](std::span<const ValueId> ids) {
    std::vector<Value> outputs;
    for (const ValueId id : ids) outputs.push_back(values[id]);
    return outputs;
  };

  GraphBuilder before(body.name(), body.primitives());
  std::vector<Value> consts(body.inputs().size());
  values.resize(body.num_values());
  for (std::size_t i = 0; i < num_consts; ++i) consts[i] = add_input(before, i);
  const std::vector<bool> needed = reachable(body, made);
  values = inline_graph(before, body, consts, {}, &needed);
  result.before = before.build(outputs_of(made));

  GraphBuilder step(body.name(), body.primitives());
  values.assign(body.num_values(), Value());
  std::vector<bool> is_last(body.inputs().size(), false);
  for (const std::uint32_t k : result.sums) is_last[num_consts + k] = true;
  std::size_t next = 0, next_last = body.inputs().size() + made.size() - result.sums.size();
  for (std::size_t i = 0; i <= body.inputs().size(); ++i) {
    if (i == num_consts) {
      for (const ValueId id : made) {
        values[id] = step.input(detail::str("made before.", result.positions.size()), body.type(id));
        result.positions.push_back(next++);
      }
    }
    if (i == body.inputs().size()) break;
    if (!is_last[i]) add_input(step, i);
    result.positions.push_back(is_last[i] ? next_last++ : next++);
  }
  for (const std::uint32_t k : result.sums) add_input(step, num_consts + k);
  std::vector<bool> wanted(body.num_values(), false);
  for (const ValueId id : body.outputs()) wanted[id] = true;
  std::vector<bool> kept(body.num_operations(), false);
  for (std::size_t i = body.num_operations(); i-- > 0;) {
    const Operation operation = body.operation(i);
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      kept[i] = kept[i] || (wanted[operation.output(slot)] && !is_made[operation.output(slot)]);
    if (!kept[i]) continue;
    for (const ValueId id : operation.inputs()) wanted[id] = true;
  }
  std::vector<Value> operands;
  for (std::size_t i = 0; i < body.num_operations(); ++i) {
    if (!kept[i]) continue;
    const Operation operation = body.operation(i);
    operands.clear();
    for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
    const Values results = step.emit(operation.op(), operands);
    for (std::size_t slot = 0; slot < results.size(); ++slot) {
      if (!is_made[operation.output(slot)]) values[operation.output(slot)] = results[slot];
    }
  }
  result.step = step.build(outputs_of(body.outputs()));
  return result;
}

}  // namespace tidu::cpu_detail
