// while.cpp - planning and running of whiles.
//
// Note [Steps of a while]: a step is the body, and cond of the carries that it returns. Both are one program,
// compiled once, in memory that the loop has for all steps; cond of the first carries is a program of its
// own. As in a scan (see Note [Steps of a scan]), a carry alternates between two buffers, a carry that is
// only added to, or updated in place, stays in the result, and values that depend on consts alone are
// computed before the first step. Carries that the body returns unchanged are consts. The number of steps is
// known at the end: if the last step wrote to the other buffer, carries are copied once. Steps allocate
// nothing.
#include "cpu/while.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/step_runner.hpp"
#include "primitives/while.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::cpu_detail {
namespace {

// The assumed number of steps, if there is no bound.
constexpr std::int64_t usual_steps = 64;

struct WhileCarry {
  std::size_t operand, result;
  std::size_t bytes;
  std::size_t other;  // offset of its second buffer
  bool stays;
};
struct WhileConst {
  std::size_t operand;
  std::optional<std::size_t> result;  // that it is too
  std::size_t bytes;
};

struct WhileState {
  std::shared_ptr<const Compiled> first;  // what cond says of the first carries
  StepRunner steps;
  std::int64_t max_steps = -1;  // negative: no bound
  std::vector<WhileConst> consts;
  std::vector<WhileCarry> carries;
  std::size_t goes_on = 0;  // offset
};

void copy_value(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

bool goes_on(const std::byte* flag) {
  bool value = false;
  std::memcpy(&value, flag, sizeof value);
  return value;
}

void run_while(const WhileState& s, const Call& call) {
  std::byte* const scratch = call.scratch;
  std::byte* const flag = scratch + s.goes_on;
  if (s.max_steps != 0) {
    s.first->prepare_inner(s.steps.memory(scratch));
    s.first->run_inner(s.steps.memory(scratch), call.in, &flag);
  }
  for (const WhileConst& fixed : s.consts) {
    if (fixed.result) copy_value(call.out[*fixed.result], call.in[fixed.operand], fixed.bytes);
  }
  const bool none = s.max_steps == 0 || !goes_on(flag);
  for (const WhileCarry& carry : s.carries) {
    if (none || carry.stays) copy_value(call.out[carry.result], call.in[carry.operand], carry.bytes);
  }
  if (none) return;

  const std::size_t num_carry = s.carries.size();
  const std::byte** const in = s.steps.inputs(scratch);
  std::byte** const out = s.steps.outputs(scratch);
  for (std::size_t i = 0; i < s.consts.size(); ++i) in[i] = call.in[s.consts[i].operand];
  s.steps.begin(scratch);
  const std::size_t* const carry_at = s.steps.behind_consts();
  for (std::size_t k = 0; k < num_carry; ++k) {
    const WhileCarry& carry = s.carries[k];
    in[carry_at[k]] = call.in[carry.operand];
    if (carry.stays) in[carry_at[k]] = out[k] = call.out[carry.result];
  }
  out[num_carry] = flag;
  std::int64_t steps = 0;
  do {
    for (std::size_t k = 0; k < num_carry; ++k) {
      const WhileCarry& carry = s.carries[k];
      if (!carry.stays) out[k] = steps % 2 == 0 ? call.out[carry.result] : scratch + carry.other;
    }
    s.steps.run(scratch);
    for (std::size_t k = 0; k < num_carry; ++k) in[carry_at[k]] = out[k];
    ++steps;
  } while (steps != s.max_steps && goes_on(flag));
  for (std::size_t k = 0; k < num_carry; ++k)
    copy_value(call.out[s.carries[k].result], out[k], s.carries[k].bytes);
}

// Inputs: what is fixed, then the carries that are not. Outputs: the next such carries, and whether to go on.
Graph step_of(const prim::WhileParts& loop) {
  GraphBuilder builder(loop.body.name(), loop.body.primitives());
  std::vector<Value> inputs(loop.num_operands);
  for (const bool fixed : {true, false}) {
    for (std::size_t i = 0; i < loop.num_operands; ++i) {
      if (loop.is_fixed(i) == fixed) inputs[i] = builder.input(detail::str('x', i), loop.type(i));
    }
  }
  const std::vector<Value> body = inline_graph(builder, loop.body, inputs);
  std::vector<Value> next = inputs, outputs;
  for (std::size_t k = 0; k < loop.num_carry; ++k) {
    if (loop.stays(k)) continue;
    next[loop.carry(k)] = body[loop.body.outputs()[k]];
    outputs.push_back(next[loop.carry(k)]);
  }
  outputs.push_back(inline_graph(builder, loop.cond, next)[loop.cond.outputs()[0]]);
  return builder.build(outputs);
}

void find_operands(const prim::WhileParts& loop, WhileState& s) {
  for (std::size_t i = 0; i < loop.num_operands; ++i) {
    const bool is_const = i < loop.shape.num_consts;
    const std::size_t result = is_const ? 0 : i - loop.shape.num_consts, bytes = loop.type(i).bytes();
    if (!loop.is_fixed(i)) {
      s.carries.push_back({i, result, bytes, 0, false});
    } else {
      s.consts.push_back({i, is_const ? std::nullopt : std::optional(result), bytes});
    }
  }
}

}  // namespace

bool is_while(const Operation& operation) { return &operation.primitive() == &prim::while_loop; }

Plan plan_while(const Operation& operation, const InnerContext& context) {
  const prim::WhileParts loop(operation.op());
  WhileState s;
  s.max_steps = loop.shape.max_steps.value_or(-1);
  find_operands(loop, s);
  const ScanBody parts = split_scan_body(step_of(loop), s.consts.size(), s.carries.size(),
                                         !context.kernels.has_custom(), context.program.max_operations);
  for (const std::uint32_t k : parts.sums) s.carries[k].stays = true;
  s.first = compile_inner(loop.cond, context);
  ScratchLayout scratch;
  s.steps = StepRunner(parts, s.consts.size(), s.carries.size(), loop.shape.max_steps.value_or(usual_steps),
                       context, scratch, s.first->inner_bytes());
  for (std::size_t k = 0; k < s.carries.size(); ++k) s.carries[k].stays |= s.steps.changes_in_place(k);
  for (WhileCarry& carry : s.carries) {
    if (!carry.stays && s.max_steps != 1) carry.other = scratch.reserve(carry.bytes);
  }
  s.goes_on = scratch.reserve(sizeof(bool));
  return make_plan<WhileState, run_while>(std::move(s), scratch.bytes());
}

}  // namespace tidu::cpu_detail
