// while.cpp - planning and running of whiles.
//
// Note [Steps of a while]: a step is the body and, of what it gives, cond: one program, compiled once, in
// memory that the loop has for all steps; what cond says of the first carries is a program of its own. As in
// a scan (see Note [Steps of a scan]) a carry is written to two places by turns, one that is only added to
// stays in the result, and what depends on consts alone is made before the first step. Carries that the body
// gives as they came in are consts. How many steps there are is known at the end: where the last one wrote to
// the other place, carries are copied, once. Nothing is allocated while steps run.
#include "cpu/while.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/scan_body.hpp"
#include "primitives/while.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::cpu_detail {
namespace {

// Where nobody says how many steps there are at most: so many are taken to run.
constexpr std::int64_t usual_steps = 64;

struct WhileCarry {
  std::size_t operand, result;
  std::size_t bytes;
  std::size_t other;  // offset of its second place
  bool is_sum;
};
struct WhileConst {
  std::size_t operand;
  std::optional<std::size_t> result;  // that it is too
  std::size_t bytes;
};

struct WhileState {
  std::unique_ptr<const Compiled> first, before,
      step;                     // before: of consts, what steps have as further inputs
  std::int64_t max_steps = -1;  // negative: no bound
  std::vector<WhileConst> consts;
  std::vector<WhileCarry> carries;
  std::vector<std::size_t> place;  // see ScanBody
  std::vector<std::size_t> made;   // before the steps: offsets
  std::vector<PreparedConst> prepared;
  std::size_t goes_on = 0, inputs = 0, outputs = 0,
              memory = 0;  // offsets: rows of pointers, programs' memory
};

void copy_value(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

bool goes_on(const std::byte* flag) {
  bool value = false;
  std::memcpy(&value, flag, sizeof value);
  return value;
}

// What steps read of consts, made once.
void make_consts(const WhileState& s, const Call& call, const std::byte** in, std::byte** out) {
  std::byte* const scratch = call.scratch;
  const std::size_t num_consts = s.consts.size(), num_made = s.made.size();
  for (std::size_t i = 0; i < num_consts; ++i) in[s.place[i]] = call.in[s.consts[i].operand];
  if (num_made != 0) {
    for (std::size_t i = 0; i < num_made; ++i) out[i] = scratch + s.made[i];
    s.before->prepare_inner(scratch + s.memory);
    s.before->run_inner(scratch + s.memory, in, out);
    for (std::size_t i = 0; i < num_made; ++i) in[s.place[num_consts + i]] = out[i];
  }
  for (std::size_t i = 0; i < s.prepared.size(); ++i) {
    const PreparedConst& prepared = s.prepared[i];
    std::byte* const to = scratch + prepared.offset;
    prepared.what.run(prepared.what.state.get(), Call{&in[prepared.what.input], &to, nullptr});
    in[s.place.size() + i] = to;
  }
}

void run_while(const WhileState& s, const Call& call) {
  std::byte* const scratch = call.scratch;
  std::byte* const flag = scratch + s.goes_on;
  if (s.max_steps != 0) {
    s.first->prepare_inner(scratch + s.memory);
    s.first->run_inner(scratch + s.memory, call.in, &flag);
  }
  for (const WhileConst& fixed : s.consts) {
    if (fixed.result) copy_value(call.out[*fixed.result], call.in[fixed.operand], fixed.bytes);
  }
  const bool none = s.max_steps == 0 || !goes_on(flag);
  for (const WhileCarry& carry : s.carries) {
    if (none || carry.is_sum) copy_value(call.out[carry.result], call.in[carry.operand], carry.bytes);
  }
  if (none) return;

  const std::size_t num_carry = s.carries.size();
  const auto** const in = reinterpret_cast<const std::byte**>(scratch + s.inputs);
  auto** const out = reinterpret_cast<std::byte**>(scratch + s.outputs);
  make_consts(s, call, in, out);
  const std::size_t* const carry_at = s.place.data() + s.consts.size() + s.made.size();
  for (std::size_t k = 0; k < num_carry; ++k) {
    const WhileCarry& carry = s.carries[k];
    in[carry_at[k]] = call.in[carry.operand];
    if (carry.is_sum) in[carry_at[k]] = out[k] = call.out[carry.result];
  }
  out[num_carry] = flag;
  s.step->prepare_inner(scratch + s.memory);
  std::int64_t steps = 0;
  do {
    for (std::size_t k = 0; k < num_carry; ++k) {
      const WhileCarry& carry = s.carries[k];
      if (!carry.is_sum) out[k] = steps % 2 == 0 ? call.out[carry.result] : scratch + carry.other;
    }
    s.step->run_inner(scratch + s.memory, in, out);
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

bool is_while(const Operation& operation) { return operation.name() == prim::while_loop.name; }

Plan plan_while(const Operation& operation, const InnerContext& context) {
  const prim::WhileParts loop(operation.op());
  WhileState s;
  s.max_steps = loop.shape.max_steps.value_or(-1);
  find_operands(loop, s);
  ScanBody parts = split_scan_body(step_of(loop), s.consts.size(), s.carries.size(),
                                   !context.kernels.has_foreign(), context.program.max_operations);
  s.place = std::move(parts.place);
  for (const std::uint32_t k : parts.sums) s.carries[k].is_sum = true;

  s.first = compile_inner(loop.cond, context);
  s.step = compile_step(parts, s.consts.size(), loop.shape.max_steps.value_or(usual_steps), context);
  if (parts.num_made != 0) s.before = compile_inner(parts.before, context);

  std::size_t scratch = 0;
  const auto place = [&scratch](std::size_t bytes) {
    const std::size_t offset = scratch;
    scratch += aligned(bytes);
    return offset;
  };
  for (WhileCarry& carry : s.carries) {
    if (!carry.is_sum && s.max_steps != 1) carry.other = place(carry.bytes);
  }
  for (const Preparation& what : s.step->preparations()) s.prepared.push_back({what, place(what.bytes)});
  for (const ValueId id : parts.before.outputs()) s.made.push_back(place(parts.before.type(id).bytes()));
  s.goes_on = place(sizeof(bool));
  s.inputs = place((s.place.size() + s.prepared.size()) * sizeof(std::byte*));
  s.outputs = place(std::max(s.carries.size() + 1, parts.num_made) * sizeof(std::byte*));
  const std::size_t before = s.before != nullptr ? s.before->inner_bytes() : 0;
  s.memory = place(std::max({s.first->inner_bytes(), before, s.step->inner_bytes()}));
  return make_plan<WhileState, run_while>(std::move(s), scratch);
}

}  // namespace tidu::cpu_detail
