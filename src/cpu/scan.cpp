// scan.cpp - planning and running of scans.
//
// Note [Steps of a scan]: the body is compiled once, and runs in memory that the scan has for all steps:
// slices of xs are read and slices of ys written where they are. A carry is written to two places by turns,
// of which the one that has the last step's is the result; the first step reads what the scan is given. What
// products read of consts is packed once for all steps, as in blocked loops. Nothing is allocated while steps
// run.
#include "cpu/scan.hpp"

#include <cstring>
#include <vector>

#include "tidu/primitives/control_flow.hpp"

namespace tidu::cpu_detail {
namespace {

// Of fewer steps packing does not pay.
constexpr std::int64_t fewest_fixed_steps = 4;

struct Prepared {
  Preparation what;
  std::size_t offset;  // into the scratch memory
};

struct ScanState {
  std::unique_ptr<const Compiled> body;
  std::int64_t length = 0;
  bool reverse = false;
  std::size_t num_consts = 0, num_carry = 0, num_inputs = 0, num_outputs = 0;
  std::vector<std::size_t> x_bytes, y_bytes;          // of slices
  std::vector<std::size_t> carry_bytes, carry_other;  // of carries; offset of their second place
  std::vector<Prepared> prepared;
  std::size_t inputs = 0, outputs = 0, memory = 0;  // offsets: rows of pointers, the body's memory
};

void run_scan(const ScanState& s, const Call& call) {
  if (s.length == 0) {
    for (std::size_t k = 0; k < s.num_carry; ++k) {
      if (s.carry_bytes[k] != 0) std::memcpy(call.out[k], call.in[s.num_consts + k], s.carry_bytes[k]);
    }
    return;
  }
  std::byte* const scratch = call.scratch;
  const auto** const in = reinterpret_cast<const std::byte**>(scratch + s.inputs);
  auto** const out = reinterpret_cast<std::byte**>(scratch + s.outputs);
  const std::size_t first_x = s.num_consts + s.num_carry;
  for (std::size_t i = 0; i < first_x; ++i) in[i] = call.in[i];
  for (std::size_t i = 0; i < s.prepared.size(); ++i) {
    const Prepared& prepared = s.prepared[i];
    std::byte* const to = scratch + prepared.offset;
    prepared.what.run(prepared.what.state.get(), Call{&call.in[prepared.what.input], &to, nullptr});
    in[s.num_inputs + i] = to;
  }
  s.body->prepare_inner(scratch + s.memory);
  for (std::int64_t step = 0; step < s.length; ++step) {
    const auto at = static_cast<std::size_t>(s.reverse ? s.length - 1 - step : step);
    for (std::size_t i = first_x; i < s.num_inputs; ++i) in[i] = call.in[i] + at * s.x_bytes[i - first_x];
    const bool in_result = (s.length - 1 - step) % 2 == 0;
    for (std::size_t k = 0; k < s.num_carry; ++k)
      out[k] = in_result ? call.out[k] : scratch + s.carry_other[k];
    for (std::size_t k = s.num_carry; k < s.num_outputs; ++k)
      out[k] = call.out[k] + at * s.y_bytes[k - s.num_carry];
    s.body->run_inner(scratch + s.memory, in, out);
    for (std::size_t k = 0; k < s.num_carry; ++k) in[s.num_consts + k] = out[k];
  }
}

}  // namespace

bool is_scan(const Operation& operation) { return operation.name() == prim::scan.name; }

Plan plan_scan(const Operation& operation, const ProgramOptions& program_options,
               const CompileOptions& options, const KernelTable& kernels,
               const std::shared_ptr<Arena>& arena) {
  const Op op = operation.op();
  const Graph body = op.graph("body");
  ScanState s;
  s.length = op.integer("length");
  s.reverse = op.boolean("reverse");
  s.num_consts = static_cast<std::size_t>(op.integer("num_consts"));
  s.num_carry = static_cast<std::size_t>(op.integer("num_carry"));
  s.num_inputs = body.inputs().size();
  s.num_outputs = body.outputs().size();

  CompileOptions inner = options;
  inner.repeats *= std::max<std::int64_t>(s.length, 1);
  const auto evaluate = [&](const Graph& constants) {
    std::vector<Literal> tensors;
    const Compiled compiled(Program::make(constants, program_options), options, kernels, arena);
    for (const Tensor& tensor : compiled.run({})) tensors.push_back(tensor.to_literal());
    return tensors;
  };
  std::vector<std::uint8_t> fixed(s.num_inputs, 0);
  for (std::size_t i = 0; i < s.num_consts && s.length >= fewest_fixed_steps; ++i) fixed[i] = 1;
  Surroundings around;
  around.fixed = fixed;
  s.body = std::make_unique<const Compiled>(Program::make(body, program_options, evaluate), inner, kernels,
                                            arena, around);

  std::size_t scratch = 0;
  const auto place = [&scratch](std::size_t bytes) {
    const std::size_t offset = scratch;
    scratch += aligned(bytes);
    return offset;
  };
  for (std::size_t i = s.num_consts + s.num_carry; i < s.num_inputs; ++i)
    s.x_bytes.push_back(body.type(body.inputs()[i]).bytes());
  for (std::size_t k = 0; k < s.num_outputs; ++k) {
    const std::size_t bytes = body.type(body.outputs()[k]).bytes();
    if (k >= s.num_carry) {
      s.y_bytes.push_back(bytes);
    } else {
      s.carry_bytes.push_back(bytes);
      s.carry_other.push_back(s.length > 1 ? place(bytes) : 0);
    }
  }
  for (const Preparation& what : s.body->preparations()) s.prepared.push_back({what, place(what.bytes)});
  s.inputs = place((s.num_inputs + s.prepared.size()) * sizeof(std::byte*));
  s.outputs = place(s.num_outputs * sizeof(std::byte*));
  s.memory = place(s.body->inner_bytes());
  return make_plan<ScanState, run_scan>(std::move(s), scratch);
}

}  // namespace tidu::cpu_detail
