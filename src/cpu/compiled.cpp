// compiled.cpp - running a compiled program: a workspace, the instructions one after another, the outputs.
#include "cpu/compiled.hpp"

#include <cstring>

#include "tidu/graph/error.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::cpu_detail {
namespace {

// Outputs of more bytes than these come from the arena.
constexpr std::size_t arena_output = std::size_t{1} << 16;

// Hands a workspace back when the run ends, however it ends.
class WorkspaceLease {
 public:
  WorkspaceLease(std::unique_ptr<Workspace> workspace, std::mutex& mutex,
                 std::vector<std::unique_ptr<Workspace>>& idle)
      : workspace_(std::move(workspace)), mutex_(mutex), idle_(idle) {}
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;
  ~WorkspaceLease() {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(workspace_));  // cannot fail: take_workspace made room for it
  }
  Workspace& operator*() const { return *workspace_; }

 private:
  std::unique_ptr<Workspace> workspace_;
  std::mutex& mutex_;
  std::vector<std::unique_ptr<Workspace>>& idle_;
};

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
  {
    const std::lock_guard<std::mutex> lock(mutex_);
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
  std::byte* small = workspace->small.data;
  for (const Move& literal : literals_) {
    std::memcpy(small + literal.offset, literal_bytes_.data() + std::size_t{literal.index} * literal.bytes,
                literal.bytes);
  }
  for (const Patch& patch : small_pointers_) workspace->pointers[patch.pointer] = small + patch.offset;
  // Steps never write where they read a constant.
  for (const Patch& patch : constant_pointers_) {
    workspace->pointers[patch.pointer] = const_cast<std::byte*>(constant_at_[patch.index]);
  }
  return workspace;
}

Tensor Compiled::make_output(Type type) const {
  if (type.bytes() <= arena_output) return Tensor(type);
  const Arena::Block block = arena_->acquire(type.bytes());
  std::shared_ptr<void> owner(block.data, [arena = arena_, block](void*) { arena->release(block); });
  return Tensor::wrap(type, static_cast<void*>(block.data), std::move(owner));
}

void Compiled::explain(const Error& error, const Instruction* at) const {
  const auto index = static_cast<std::size_t>(at - instructions_.data());
  error
      .with_message(
          detail::str(error.what(), "\n  ", describe_operation(program_.graph(), operations_[index])))
      ->raise();
}

void Compiled::execute(Workspace& workspace, std::byte* scratch) const {
  const Frame frame{steps_.data(), workspace.pointers.data(), scratch};
  std::byte* const base = workspace.small.data;
  const Instruction* at = instructions_.data();
  const Instruction* const end = at + instructions_.size();
  try {
    for (; at != end; ++at) at->execute(*at, base, frame);
  } catch (const Error& error) {
    explain(error, at);
  } catch (const std::bad_alloc&) {
    explain(Error(ErrorKind::out_of_memory, "out of memory"), at);
  } catch (const std::exception& error) {
    explain(Error(ErrorKind::execution, error.what()), at);
  }
}

std::vector<Tensor> Compiled::run(std::span<const Tensor> inputs) const {
  const Graph& graph = program_.graph();
  check_inputs(graph, inputs);
  std::vector<Tensor> outputs;
  outputs.reserve(graph.outputs().size());
  for (const ValueId id : graph.outputs()) outputs.push_back(make_output(graph.type(id)));

  const std::size_t large_bytes = program_.plan().large_bytes;
  const ArenaLease large(*arena_, large_bytes + scratch_bytes_);
  const WorkspaceLease lease(take_workspace(), mutex_, idle_);
  Workspace& workspace = *lease;
  if (workspace.large != large.data()) {
    workspace.large = large.data();
    for (const Patch& patch : large_pointers_)
      workspace.pointers[patch.pointer] = large.data() + patch.offset;
  }
  std::byte* const small = workspace.small.data;
  for (const Move& load : loads_) std::memcpy(small + load.offset, inputs[load.index].bytes(), load.bytes);
  for (const Patch& patch : input_pointers_)
    workspace.pointers[patch.pointer] = const_cast<std::byte*>(inputs[patch.index].bytes());
  for (const Patch& patch : output_pointers_)
    workspace.pointers[patch.pointer] = outputs[patch.index].mutable_bytes();

  execute(workspace, large.data() + large_bytes);

  for (const Move& store : stores_)
    std::memcpy(outputs[store.index].mutable_bytes(), small + store.offset, store.bytes);
  for (const Copy& copy : copies_) {
    const std::byte* from = copy.from.storage == Storage::input      ? inputs[copy.from.index].bytes()
                            : copy.from.storage == Storage::constant ? constant_at_[copy.from.index]
                            : copy.from.storage == Storage::output   ? outputs[copy.from.index].bytes()
                                                                     : large.data() + copy.from.offset;
    Tensor& to = outputs[copy.output];
    std::memcpy(to.mutable_bytes(), from, to.num_bytes());
  }
  return outputs;
}

}  // namespace tidu::cpu_detail
