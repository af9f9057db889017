// compiled.cpp - running a compiled program: a workspace, the instructions one after another, the outputs.
#include "cpu/compiled.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "graph/foreign_exception.hpp"
#include "tensor/calls.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

// Outputs of more bytes than these come from the arena.
constexpr std::size_t arena_output = std::size_t{1} << 16;
// Bytes that a constant of one element takes in Compiled::literal_bytes_.
constexpr std::size_t literal_unit = 16;

// Rounded up to cache lines.
constexpr std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// The calls of memcpy for what is known to be one element would take most of a scalar step's time.
template <std::size_t bytes>
void copy_bytes(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, bytes);
}
void copy_element(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  switch (bytes) {
    case 1: return copy_bytes<1>(to, from);
    case 2: return copy_bytes<2>(to, from);
    case 4: return copy_bytes<4>(to, from);
    case 8: return copy_bytes<8>(to, from);
    default: return copy_bytes<16>(to, from);
  }
}

}  // namespace

void run_general(const Instruction& i, std::byte*, const Frame& frame) {
  const GeneralStep& step = frame.steps[i.a];
  std::byte* const* pointers = frame.pointers + step.first_pointer;
  step.run(step.state, Call{pointers, pointers + step.num_operands, frame.scratch});
}

Compiled::~Compiled() {
  for (const auto& workspace : idle_) arena_->release(workspace->small);
  arena_->release(constants_);
}

std::unique_ptr<Workspace> Compiled::take_workspace() const {
  if (const tidu::detail::ForkMutex::Lock lock(mutex_); lock) {
    if (!idle_.empty()) {
      std::unique_ptr<Workspace> workspace = std::move(idle_.back());
      idle_.pop_back();
      return workspace;
    }
    ++workspaces_;
    idle_.reserve(workspaces_);
  }
  auto workspace = std::make_unique<Workspace>();
  workspace->pointers.resize(num_pointers_);
  workspace->small = arena_->acquire(small_bytes_);
  fill_small(workspace->small.data);
  point_to_constants(workspace->small.data, workspace->pointers.data());
  return workspace;
}

void Compiled::give_back(std::unique_ptr<Workspace> workspace) const noexcept {
  if (const tidu::detail::ForkMutex::Lock lock(mutex_); lock && idle_.size() < idle_.capacity()) {
    idle_.push_back(std::move(workspace));  // cannot fail: take_workspace made room for it
    return;
  }
  arena_->release(workspace->small);
}

void Compiled::fill_small(std::byte* small) const {
  const std::byte* from = literal_bytes_.data();
  for (const SlotCopy& literal : literals_) {
    copy_bytes<literal_unit>(small + literal.offset, from + std::size_t{literal.index} * literal_unit);
  }
}

void Compiled::point_to_constants(std::byte* small, std::byte** pointers) const {
  for (const Patch& patch : small_pointers_) pointers[patch.pointer] = small + patch.offset;
  // Steps never write where they read a constant.
  for (const Patch& patch : constant_pointers_) {
    pointers[patch.pointer] = const_cast<std::byte*>(constant_at_[patch.index]);
  }
}

Tensor Compiled::make_output(Type type) const {
  if (type.bytes() <= arena_output) return Tensor(type);
  const Arena::Block block = arena_->acquire(type.bytes());
  std::shared_ptr<void> owner(block.data, [arena = arena_, block](void*) { arena->release(block); });
  return Tensor::wrap(type, static_cast<void*>(block.data), std::move(owner));
}

std::size_t Compiled::peak_bytes() const {
  const auto behind = [](std::size_t bytes) { return Arena::taken(bytes) - bytes; };
  const std::size_t large = program_.plan().large_bytes + scratch_bytes_;
  std::size_t bytes = small_bytes_ + num_pointers_ * sizeof(std::byte*) + memory_stats_.constants +
                      memory_stats_.library + large + program_.plan().output_bytes;
  if (large > arena_output) bytes += behind(large);
  for (const Type type : output_types_) {
    if (type.bytes() > arena_output) bytes += behind(type.bytes());
  }
  return bytes;
}

namespace {

// Is it as good as a fresh tensor: allocated, and without other references?
bool can_write_over(const Tensor& tensor, Type type) {
  return tensor.type() == type && tensor.exclusive() && tensor.allocated();
}

}  // namespace

void Compiled::make_outputs(Tensor* outputs) const {
  for (std::size_t i = 0; i < output_types_.size(); ++i) {
    if (!can_write_over(outputs[i], output_types_[i])) outputs[i] = make_output(output_types_[i]);
  }
}

void Compiled::explain(const Error& error, const Instruction* at) const {
  const auto index = static_cast<std::size_t>(at - instructions_.data());
  error
      .with_message(
          detail::str(error.what(), "\n  ", describe_operation(program_.graph(), operations_[index])))
      ->raise();
}

void Compiled::execute(std::byte* small, const Frame& frame) const {
  const Instruction* at = instructions_.data();
  const Instruction* const end = at + instructions_.size();
  try {
    for (; at != end; ++at) at->execute(*at, small, frame);
  } catch (const Error& error) {
    explain(error, at);
  } catch (const std::bad_alloc&) {
    explain(Error(ErrorKind::out_of_memory, "out of memory"), at);
  } catch (...) {
    explain(Error(ErrorKind::execution, detail::foreign_exception()), at);
  }
}

namespace {

// Replaces a tensor by a fresh one, which is constructed in place: moving it just after its construction
// would cost as much as constructing it.
void remake(Tensor& tensor, Type type) {
  std::destroy_at(&tensor);
  try {
    std::construct_at(&tensor, type);
  } catch (...) {
    std::construct_at(&tensor);
    throw;
  }
}

bool is_one_of(std::span<const Tensor> tensors, const Tensor* one) {
  return !std::less<>()(one, tensors.data()) && std::less<>()(one, tensors.data() + tensors.size());
}

}  // namespace

// Once all is compiled. Graphs inside operations may nest deeper than a stack allows.
Compiled::Mode Compiled::find_mode(int depth) const {
  if (steps_.empty() && small_bytes_ <= scalar_stack && copies_.empty() &&
      stores_.size() == output_types_.size()) {
    return Mode::scalars;
  }
  // One beside the other, in units of large values.
  std::size_t bytes = 128;
  for (const std::size_t part : {small_bytes_, program_.plan().large_bytes, scratch_bytes_}) {
    if (part > light_stack) return Mode::pooled;
    bytes += part;
  }
  const bool fits = bytes <= light_stack && num_pointers_ <= light_pointers;
  return fits && depth == 0 ? Mode::light : Mode::pooled;
}

void Compiled::run_scalars(const Tensor* const* inputs, Tensor* outputs) const {
  alignas(16) std::byte small[scalar_stack];
  fill_small(small);
  for (const SlotCopy& load : loads_)
    copy_element(small + load.offset, inputs[load.index]->bytes(), load.bytes);
  execute(small, Frame{nullptr, nullptr, nullptr});
  for (const SlotCopy& store : stores_) {
    Tensor& output = outputs[store.index];
    remake(output, output_types_[store.index]);
    copy_element(output.mutable_bytes(), small + store.offset, store.bytes);
  }
}

void Compiled::run_light(const Tensor* const* inputs, Tensor* outputs) const {
  alignas(64) std::byte memory[light_stack];
  std::byte* pointers[light_pointers];
  std::byte* const large = memory + in_lines(small_bytes_);
  std::byte* const scratch = large + in_lines(program_.plan().large_bytes);
  fill_small(memory);
  point_to_constants(memory, pointers);
  for (const Patch& patch : large_pointers_) pointers[patch.pointer] = large + patch.offset;
  run_in({memory, large, scratch, pointers}, inputs, outputs);
}

void Compiled::run_pooled(const Tensor* const* inputs, Tensor* outputs) const {
  const std::size_t large_bytes = program_.plan().large_bytes;
  const ArenaLease large(*arena_, large_bytes + scratch_bytes_);
  // Goes back when the run ends, however it ends.
  const auto give = [this](Workspace* taken) { give_back(std::unique_ptr<Workspace>(taken)); };
  const std::unique_ptr<Workspace, decltype(give)> lease(take_workspace().release(), give);
  Workspace& workspace = *lease;
  if (workspace.large != large.data()) {
    workspace.large = large.data();
    for (const Patch& patch : large_pointers_)
      workspace.pointers[patch.pointer] = large.data() + patch.offset;
  }
  run_in({workspace.small.data, large.data(), large.data() + large_bytes, workspace.pointers.data()}, inputs,
         outputs);
}

template <class Inputs, class Outputs>
void Compiled::run_at(const RunMemory& memory_of_run, const Inputs& input, const Outputs& output) const {
  for (const SlotCopy& load : loads_)
    copy_element(memory_of_run.small + load.offset, input(load.index), load.bytes);
  for (const Patch& patch : input_pointers_)
    memory_of_run.pointers[patch.pointer] = const_cast<std::byte*>(input(patch.index));
  for (const Patch& patch : output_pointers_)
    memory_of_run.pointers[patch.pointer] = output(patch.index) + patch.offset;

  execute(memory_of_run.small, Frame{steps_.data(), memory_of_run.pointers, memory_of_run.scratch});

  for (const SlotCopy& store : stores_)
    copy_element(output(store.index), memory_of_run.small + store.offset, store.bytes);
  for (const Copy& copy : copies_) {
    const std::byte* from = copy.from.storage == Storage::input      ? input(copy.from.index)
                            : copy.from.storage == Storage::constant ? constant_at_[copy.from.index]
                            : copy.from.storage == Storage::output   ? output(copy.from.index)
                                                                     : memory_of_run.large + copy.from.offset;
    std::byte* const to = output(copy.output);
    if (to != from) std::memcpy(to, from, output_types_[copy.output].bytes());
  }
}

void Compiled::run_in(const RunMemory& memory_of_run, const Tensor* const* inputs, Tensor* outputs) const {
  run_at(
      memory_of_run, [inputs](std::uint32_t i) { return inputs[i]->bytes(); },
      [outputs](std::uint32_t i) { return outputs[i].mutable_bytes(); });
}

Compiled::RunMemory Compiled::inner_memory(std::byte* memory) const {
  std::byte* const large = memory + in_lines(small_bytes_);
  std::byte* const scratch = large + in_lines(program_.plan().large_bytes);
  return {memory, large, scratch, reinterpret_cast<std::byte**>(scratch + in_lines(scratch_bytes_))};
}

std::size_t Compiled::inner_bytes() const {
  return in_lines(small_bytes_) + in_lines(program_.plan().large_bytes) + in_lines(scratch_bytes_) +
         in_lines(num_pointers_ * sizeof(std::byte*));
}

void Compiled::prepare_inner(std::byte* memory) const {
  const RunMemory memory_of_run = inner_memory(memory);
  fill_small(memory);
  point_to_constants(memory, memory_of_run.pointers);
  for (const Patch& patch : large_pointers_)
    memory_of_run.pointers[patch.pointer] = memory_of_run.large + patch.offset;
}

void Compiled::run_inner(std::byte* memory, const std::byte* const* inputs, std::byte* const* outputs) const {
  run_at(
      inner_memory(memory), [inputs](std::uint32_t i) { return inputs[i]; },
      [outputs](std::uint32_t i) { return outputs[i]; });
}

void Compiled::run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const {
  if (inputs.size() != input_types_.size() || outputs.size() != output_types_.size()) {
    detail::refuse_call(program_.graph(), inputs, outputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || inputs[i]->type() != input_types_[i])
      detail::refuse_call(program_.graph(), inputs, outputs.size());
  }
  if (mode_ == Mode::scalars) return run_scalars(inputs.data(), outputs.data());
  const auto is_output = [outputs](const Tensor* input) { return is_one_of(outputs, input); };
  if (std::any_of(inputs.begin(), inputs.end(), is_output)) return run_reusing(inputs, outputs);
  make_outputs(outputs.data());
  run_made(inputs.data(), outputs.data());
}

// Runs with inputs and outputs that are all allocated.
void Compiled::run_made(const Tensor* const* inputs, Tensor* outputs) const {
  if (mode_ == Mode::light) return run_light(inputs, outputs);
  run_pooled(inputs, outputs);
}

// Runs with donated inputs: inputs without other references give their memory to outputs, preferably to the
// output that is the updated input, and get it back if the run fails.
void Compiled::run_reusing(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const {
  std::vector<Tensor> made(outputs.size());
  std::vector<const Tensor*> from(inputs.begin(), inputs.end());
  std::vector<Tensor*> lenders(outputs.size(), nullptr);
  std::vector<std::uint32_t> set_of(outputs.size(), no_index), times(outputs.size(), 0);
  for (std::uint32_t i = 0; i < donated_.sets.size(); ++i) {
    for (const std::uint32_t output : donated_.sets[i].outputs) set_of[output] = i;
  }
  for (const Tensor* const input : inputs) {
    if (is_one_of(outputs, input)) ++times[static_cast<std::size_t>(input - outputs.data())];
  }
  const auto lend = [&](std::uint32_t input, std::uint32_t output) {
    if (lenders[output] != nullptr) return false;
    const auto lender = static_cast<std::size_t>(inputs[input] - outputs.data());
    lenders[output] = &outputs[lender];
    made[output] = std::move(outputs[lender]);
    from[input] = &made[output];
    return true;
  };
  try {
    for (std::uint32_t i = 0; i < donated_.sets.size(); ++i) {
      const ReusableInputs& set = donated_.sets[i];
      std::vector<std::uint32_t> given;
      for (const std::uint32_t input : set.inputs) {
        const Tensor* const x = inputs[input];
        if (!is_one_of(outputs, x) || !x->exclusive() ||
            reinterpret_cast<std::uintptr_t>(x->bytes()) % cache_line != 0)
          continue;
        const auto own = static_cast<std::uint32_t>(x - outputs.data());
        if (times[own] == 1 && (set_of[own] != i || !lend(input, own))) given.push_back(input);
      }
      for (auto output = set.outputs.begin(); !given.empty() && output != set.outputs.end(); ++output) {
        if (lend(given.back(), *output)) given.pop_back();
      }
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (lenders[i] != nullptr) continue;
      const bool over = times[i] == 0 && can_write_over(outputs[i], output_types_[i]);
      made[i] = over ? std::move(outputs[i]) : make_output(output_types_[i]);
    }
    run_made(from.data(), made.data());
  } catch (...) {
    for (std::size_t i = 0; i < made.size(); ++i)
      if (lenders[i] != nullptr) *lenders[i] = std::move(made[i]);
    throw;
  }
  std::move(made.begin(), made.end(), outputs.begin());
}

std::vector<Tensor> Compiled::run(std::span<const Tensor> inputs) const {
  constexpr std::size_t few = 16;
  const Tensor* on_stack[few];
  std::vector<const Tensor*> many(inputs.size() <= few ? 0 : inputs.size());
  const Tensor** const pointers = inputs.size() <= few ? on_stack : many.data();
  for (std::size_t i = 0; i < inputs.size(); ++i) pointers[i] = &inputs[i];
  std::vector<Tensor> outputs(output_types_.size());
  run_into({pointers, inputs.size()}, outputs);
  return outputs;
}

void no_kernel(const Graph& graph, std::uint32_t operation) {
  const Operation at = graph.operation(operation);
  std::vector<Type> in, out;
  for (const ValueId id : at.inputs()) in.push_back(graph.type(id));
  for (std::size_t slot = 0; slot < at.num_outputs(); ++slot) out.push_back(graph.type(at.output(slot)));
  throw Error(ErrorKind::execution, detail::str('[', at.op().name(), "] expected a CPU kernel for operands ",
                                                detail::list(in), " and results ", detail::list(out),
                                                ", got none\n  ", describe_operation(graph, operation)));
}

}  // namespace tidu::cpu_detail
