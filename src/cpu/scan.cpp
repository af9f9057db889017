// scan.cpp - planning and running of scans.
//
// Note [Steps of a scan]: the body is compiled once, and runs in memory that the scan has for all steps:
// slices of xs are read and slices of ys written where they are. A carry is written to two places by turns,
// of which the one that has the last step's is the result; the first step reads what the scan is given. One
// that the body only adds to, as transposed scans do, stays in the result, which begins as what is given:
// products are added to it where it is (see Surroundings::sums; such inputs are the last of the program's).
// What products read of consts is packed once for all steps, as in blocked loops. Nothing is allocated while
// steps run.
#include "cpu/scan.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tidu/graph/builder.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::cpu_detail {
namespace {

// Of fewer steps packing does not pay.
constexpr std::int64_t fewest_fixed_steps = 4;

struct Prepared {
  Preparation what;
  std::size_t offset;  // into the scratch memory
};

struct Carry {
  std::size_t bytes;
  std::size_t other;  // offset of its second place
  bool is_sum;
};

struct ScanState {
  std::unique_ptr<const Compiled> body;
  std::int64_t length = 0;
  bool reverse = false;
  std::size_t num_consts = 0, num_inputs = 0, num_outputs = 0;
  std::vector<std::size_t> place;             // by input of the body: which input of the program it is
  std::vector<std::size_t> x_bytes, y_bytes;  // of slices
  std::vector<Carry> carries;
  std::vector<Prepared> prepared;
  std::size_t inputs = 0, outputs = 0, memory = 0;  // offsets: rows of pointers, the body's memory
};

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void run_scan(const ScanState& s, const Call& call) {
  const std::size_t num_carry = s.carries.size(), first_x = s.num_consts + num_carry;
  for (std::size_t k = 0; k < num_carry; ++k) {
    if (s.length == 0 || s.carries[k].is_sum)
      copy(call.out[k], call.in[s.num_consts + k], s.carries[k].bytes);
  }
  if (s.length == 0) return;
  std::byte* const scratch = call.scratch;
  const auto** const in = reinterpret_cast<const std::byte**>(scratch + s.inputs);
  auto** const out = reinterpret_cast<std::byte**>(scratch + s.outputs);
  for (std::size_t i = 0; i < first_x; ++i) in[s.place[i]] = call.in[i];
  for (std::size_t k = 0; k < num_carry; ++k) {
    if (s.carries[k].is_sum) in[s.place[s.num_consts + k]] = out[k] = call.out[k];
  }
  for (std::size_t i = 0; i < s.prepared.size(); ++i) {
    const Prepared& prepared = s.prepared[i];
    std::byte* const to = scratch + prepared.offset;
    prepared.what.run(prepared.what.state.get(), Call{&in[prepared.what.input], &to, nullptr});
    in[s.num_inputs + i] = to;
  }
  s.body->prepare_inner(scratch + s.memory);
  for (std::int64_t step = 0; step < s.length; ++step) {
    const auto at = static_cast<std::size_t>(s.reverse ? s.length - 1 - step : step);
    for (std::size_t i = first_x; i < s.num_inputs; ++i)
      in[s.place[i]] = call.in[i] + at * s.x_bytes[i - first_x];
    const bool in_result = (s.length - 1 - step) % 2 == 0;
    for (std::size_t k = 0; k < num_carry; ++k) {
      if (!s.carries[k].is_sum) out[k] = in_result ? call.out[k] : scratch + s.carries[k].other;
    }
    for (std::size_t k = num_carry; k < s.num_outputs; ++k)
      out[k] = call.out[k] + at * s.y_bytes[k - num_carry];
    s.body->run_inner(scratch + s.memory, in, out);
    for (std::size_t k = 0; k < num_carry; ++k) in[s.place[s.num_consts + k]] = out[k];
  }
}

// Is output k of the body carry k and something that does not depend on it, and neither read for anything
// else?
bool is_sum(const Graph& body, std::size_t num_consts, std::size_t k) {
  const ValueId carry = body.inputs()[num_consts + k], sum = body.outputs()[k];
  const auto producer = body.producer(sum);
  if (!producer || body.type(sum).size() <= 1) return false;
  const Operation addition = body.operation(*producer);
  if (&addition.primitive() != body.primitives().add() || addition.input(0) != carry) return false;
  const auto& operands = body.data().operands;
  const auto outputs = body.outputs();
  return std::count(operands.begin(), operands.end(), carry) == 1 &&
         std::count(operands.begin(), operands.end(), sum) == 0 &&
         std::count(outputs.begin(), outputs.end(), carry) == 0 &&
         std::count(outputs.begin(), outputs.end(), sum) == 1;
}

// The body with its inputs in that order: input i of the body is input place[i].
Graph with_inputs_at(const Graph& body, const std::vector<std::size_t>& place) {
  std::vector<std::size_t> order(place.size());
  for (std::size_t i = 0; i < place.size(); ++i) order[place[i]] = i;
  GraphBuilder builder(body.name(), body.primitives());
  std::vector<Value> inputs(place.size());
  for (const std::size_t i : order) {
    const ValueId id = body.inputs()[i];
    inputs[i] = builder.input(body.input_key(i), body.type(id), body.label(id));
  }
  const std::vector<Value> values = inline_graph(builder, body, inputs);
  std::vector<Value> outputs;
  for (const ValueId id : body.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
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
  s.num_inputs = body.inputs().size();
  s.num_outputs = body.outputs().size();
  const auto num_carry = static_cast<std::size_t>(op.integer("num_carry"));
  std::vector<std::uint32_t> sums;
  for (std::size_t k = 0; k < num_carry; ++k) {
    const bool adds = !kernels.has_foreign() && is_sum(body, s.num_consts, k);
    s.carries.push_back({body.type(body.outputs()[k]).bytes(), 0, adds});
    if (adds) sums.push_back(static_cast<std::uint32_t>(k));
  }
  s.place.resize(s.num_inputs);
  std::size_t next = 0, next_sum = s.num_inputs - sums.size();
  for (std::size_t i = 0; i < s.num_inputs; ++i) {
    const bool carried = i >= s.num_consts && i < s.num_consts + num_carry;
    s.place[i] = carried && s.carries[i - s.num_consts].is_sum ? next_sum++ : next++;
  }

  CompileOptions inner = options;
  inner.repeats *= std::max<std::int64_t>(s.length, 1);
  const auto evaluate = [&](const Graph& constants) {
    std::vector<Literal> tensors;
    const Compiled compiled(Program::make(constants, program_options), options, kernels, arena);
    for (const Tensor& tensor : compiled.run({})) tensors.push_back(tensor.to_literal());
    return tensors;
  };
  std::vector<std::uint8_t> fixed(s.num_inputs, 0);
  for (std::size_t i = 0; i < s.num_consts && s.length >= fewest_fixed_steps; ++i) fixed[s.place[i]] = 1;
  Surroundings around;
  around.fixed = fixed;
  around.sums = sums;
  s.body = std::make_unique<const Compiled>(
      Program::make(sums.empty() ? body : with_inputs_at(body, s.place), program_options, evaluate), inner,
      kernels, arena, around);

  std::size_t scratch = 0;
  const auto place = [&scratch](std::size_t bytes) {
    const std::size_t offset = scratch;
    scratch += aligned(bytes);
    return offset;
  };
  for (std::size_t i = s.num_consts + num_carry; i < s.num_inputs; ++i)
    s.x_bytes.push_back(body.type(body.inputs()[i]).bytes());
  for (std::size_t k = num_carry; k < s.num_outputs; ++k)
    s.y_bytes.push_back(body.type(body.outputs()[k]).bytes());
  for (Carry& carry : s.carries) {
    if (s.length > 1 && !carry.is_sum) carry.other = place(carry.bytes);
  }
  for (const Preparation& what : s.body->preparations()) s.prepared.push_back({what, place(what.bytes)});
  s.inputs = place((s.num_inputs + s.prepared.size()) * sizeof(std::byte*));
  s.outputs = place(s.num_outputs * sizeof(std::byte*));
  s.memory = place(s.body->inner_bytes());
  return make_plan<ScanState, run_scan>(std::move(s), scratch);
}

}  // namespace tidu::cpu_detail
