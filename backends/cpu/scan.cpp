// scan.cpp - planning and running of scans.
//
// Note [Steps of a scan]: the body is compiled once, and runs in memory that the scan has for all steps.
// Slices of xs are read, and slices of ys written, in place. A carry alternates between two buffers, such
// that the last step writes the result; the first step reads the initial value. A carry to which the body
// only adds, as in transposed scans, stays in the result, which begins as the initial value: matmuls
// accumulate in it (see CallSite::sums; such inputs are the program's last). So does a carry of which the
// body changes some elements and reads none afterwards (Compiled::changed_into). Parts of consts that matmuls
// read are packed once for all steps, as in blocked loops. Steps allocate nothing.
#include "cpu/scan.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/step_runner.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::cpu_detail {
namespace {

struct ScanCarry {
  std::size_t bytes;
  std::size_t other;  // offset of its second buffer
  bool stays;
};

struct ScanState {
  StepRunner steps;
  std::int64_t length = 0;
  bool reverse = false;
  std::size_t num_consts = 0, num_inputs = 0, num_outputs = 0;
  std::vector<std::size_t> x_bytes, y_bytes;  // of slices
  std::vector<ScanCarry> carries;
};

void copy_carry(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void run_scan(const ScanState& s, const Call& call) {
  const std::size_t num_carry = s.carries.size(), first_x = s.num_consts + num_carry;
  for (std::size_t k = 0; k < num_carry; ++k) {
    if (s.length == 0 || s.carries[k].stays)
      copy_carry(call.out[k], call.in[s.num_consts + k], s.carries[k].bytes);
  }
  if (s.length == 0) return;
  std::byte* const scratch = call.scratch;
  const std::byte** const in = s.steps.inputs(scratch);
  std::byte** const out = s.steps.outputs(scratch);
  std::copy_n(call.in, s.num_consts, in);
  s.steps.begin(scratch);
  const std::size_t* const carry_at = s.steps.behind_consts();
  const std::size_t* const x_at = carry_at + num_carry;
  for (std::size_t k = 0; k < num_carry; ++k) {
    in[carry_at[k]] = call.in[s.num_consts + k];
    if (s.carries[k].stays) in[carry_at[k]] = out[k] = call.out[k];
  }
  for (std::int64_t step = 0; step < s.length; ++step) {
    const auto at = static_cast<std::size_t>(s.reverse ? s.length - 1 - step : step);
    for (std::size_t i = first_x; i < s.num_inputs; ++i)
      in[x_at[i - first_x]] = call.in[i] + at * s.x_bytes[i - first_x];
    const bool in_result = (s.length - 1 - step) % 2 == 0;
    for (std::size_t k = 0; k < num_carry; ++k) {
      if (!s.carries[k].stays) out[k] = in_result ? call.out[k] : scratch + s.carries[k].other;
    }
    for (std::size_t k = num_carry; k < s.num_outputs; ++k)
      out[k] = call.out[k] + at * s.y_bytes[k - num_carry];
    s.steps.run(scratch);
    for (std::size_t k = 0; k < num_carry; ++k) in[carry_at[k]] = out[k];
  }
}

}  // namespace

bool is_scan(const Operation& operation) { return &operation.primitive() == &prim::scan; }

Plan plan_scan(const Operation& operation, const InnerContext& context) {
  const Op op = operation.op();
  const Graph body = op.graph("body");
  ScanState s;
  s.length = op.integer("length");
  s.reverse = op.boolean("reverse");
  s.num_consts = static_cast<std::size_t>(op.integer("num_consts"));
  s.num_inputs = body.inputs().size();
  s.num_outputs = body.outputs().size();
  const auto num_carry = static_cast<std::size_t>(op.integer("num_carry"));
  const ScanBody parts = split_scan_body(body, s.num_consts, num_carry, !context.kernels.has_custom(),
                                         context.program.max_operations);
  for (std::size_t k = 0; k < num_carry; ++k)
    s.carries.push_back({body.type(body.outputs()[k]).bytes(), 0, false});
  for (const std::uint32_t k : parts.sums) s.carries[k].stays = true;
  for (std::size_t i = s.num_consts + num_carry; i < s.num_inputs; ++i)
    s.x_bytes.push_back(body.type(body.inputs()[i]).bytes());
  for (std::size_t k = num_carry; k < s.num_outputs; ++k)
    s.y_bytes.push_back(body.type(body.outputs()[k]).bytes());

  ScratchLayout scratch;
  s.steps = StepRunner(parts, s.num_consts, num_carry, s.length, context, scratch);
  for (std::size_t k = 0; k < num_carry; ++k) s.carries[k].stays |= s.steps.changes_in_place(k);
  for (ScanCarry& carry : s.carries) {
    if (s.length > 1 && !carry.stays) carry.other = scratch.reserve(carry.bytes);
  }
  return make_plan<ScanState, run_scan>(std::move(s), scratch.bytes());
}

}  // namespace tidu::cpu_detail
