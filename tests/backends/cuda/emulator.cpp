// emulator.cpp - runs grids, steps, plans and the nodes of graphs.
#include "cuda/emulator.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "cuda/fake_rules.hpp"
#include "cuda/fibers.hpp"
#include "cuda/library_emulation.hpp"
#include "cuda/strict_plans.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/passes.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {
namespace {

using namespace cuda_detail;

// As the prelude has it.
struct Block {
  std::uint32_t thread, threads, x, y, z, grid_x;
  void (*wait)();
  alignas(16) std::uint8_t exchange[1024][32];
};

void sort(const SortStep& step, const Emulator::Locate& at) {
  const auto key = [](const std::byte* bytes, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, size);
    return value;
  };
  const std::size_t size = step.key_bytes;
  const std::byte *keys = at(step.keys), *values = at(step.values);
  std::byte *keys_out = at(step.keys_out), *values_out = at(step.values_out);
  const auto length = static_cast<std::size_t>(step.length);
  std::vector<std::size_t> order(length);
  for (std::size_t s = 0; s < static_cast<std::size_t>(step.segments); ++s) {
    std::iota(order.begin(), order.end(), s * length);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return key(keys + a * size, size) < key(keys + b * size, size);
    });
    for (std::size_t i = 0; i < length; ++i) {
      std::memcpy(keys_out + (s * length + i) * size, keys + order[i] * size, size);
      std::memcpy(values_out + (s * length + i) * 4, values + order[i] * 4, 4);
    }
  }
}

// Memory between bytes that nobody may write.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, std::size_t behind = 0)
      : bytes_(bytes), memory_(bytes + behind + 2 * edge + 256, garbage) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + edge;
    first_ = (address + 255) / 256 * 256 - reinterpret_cast<std::uintptr_t>(memory_.data()) + behind;
  }
  std::byte* data() { return memory_.data() + first_; }
  void check() const {
    const auto same = [this](std::size_t begin, std::size_t end) {
      return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(begin),
                         memory_.begin() + static_cast<std::ptrdiff_t>(end),
                         [](std::byte b) { return b == garbage; });
    };
    if (!same(0, first_) || !same(first_ + bytes_, memory_.size()))
      throw std::runtime_error(
          "emulator: expected writes within results and scratch memory, got one outside");
  }

 private:
  static constexpr std::byte garbage{0xa5};
  static constexpr std::size_t edge = 128;
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::size_t first_ = 0;
};

// Do results have a freedom, such as signs of eigenvectors, that derivatives follow?
bool has_freedom(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const Step& step) {
    const auto* solver = std::get_if<SolverStep>(&step);
    return solver != nullptr &&
           (solver->routine == SolverStep::Routine::syevd || solver->routine == SolverStep::Routine::gesvd);
  });
}
// The reference interpreter's choice, to compare whole graphs.
std::vector<Tensor> by_reference(const Operation& operation, const std::vector<Tensor>& operands) {
  GraphBuilder builder("operation");
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(builder.input("x" + std::to_string(i), operands[i].type()));
  const Values results = builder.emit(operation.op(), inputs);
  return reference().run(builder.build(std::span<const Value>(results.data(), results.size())), operands);
}

// Of shared(), where it is strict.
std::optional<StrictOptions>& shared_options() {
  static std::optional<StrictOptions> options = []() -> std::optional<StrictOptions> {
    const char *const seed = std::getenv("TIDU_STRICT_SEED"), *const blocks =
                                                                  std::getenv("TIDU_STRICT_BLOCKS");
    if (seed == nullptr) return {};
    return StrictOptions{
        std::strtoull(seed, nullptr, 10),
        blocks == nullptr ? 0U : static_cast<std::uint32_t>(std::strtoul(blocks, nullptr, 10))};
  }();
  return options;
}

}  // namespace

Emulator::Emulator() = default;
Emulator::Emulator(const StrictOptions& strictly) : strict_(strictly) {}
Emulator::~Emulator() = default;

bool Emulator::is_enabled() {
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  return false;
#else
  return true;
#endif
}

Emulator& Emulator::shared() {
  static Emulator plain, strict(StrictOptions{});
  if (!shared_options()) return plain;
  strict.strict_ = shared_options();
  return strict;
}

StrictScope::StrictScope(const StrictOptions& options) : before_(std::exchange(shared_options(), options)) {}
StrictScope::~StrictScope() { shared_options() = before_; }

void Emulator::add(const Plan& plan) {
  for (const Step& step : plan.steps) {
    const Launch* launch = std::get_if<Launch>(&step);
    if (launch != nullptr && entries_.count(launch->kernel->entry) == 0)
      noted_.emplace(launch->kernel->entry, launch->kernel);
  }
}

void Emulator::compile() {
  KernelSources all;
  for (const auto& [entry, kernel] : noted_) all.push_back(kernel);
  noted_.clear();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->entry < b->entry; });
  load(all);
}

void Emulator::load(const KernelSources& kernels) {
  load_kernels(kernels, strict_ ? KernelBranch::device : KernelBranch::host, entries_);
}

const HostKernel& Emulator::entry_of(const Launch& launch) {
  const auto found = entries_.find(launch.kernel->entry);
  if (found != entries_.end()) return found->second;
  load({launch.kernel});
  return entries_.at(launch.kernel->entry);
}

void Emulator::launch(const Launch& launch, const Bindings& at) {
  if (!strict_) return this->launch(launch, at, nullptr);
  std::vector<StrictMemory> arrays = arrays_of(at, true);
  this->launch(launch, at, &arrays);
}

void Emulator::launch(const Launch& launch, const Bindings& at, std::vector<StrictMemory>* arrays) {
  const std::lock_guard lock(mutex_);
  const HostKernel& entry = entry_of(launch);
  std::vector<std::array<std::byte, 8>> values(launch.arguments.size());
  std::vector<void*> arguments;
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const Argument& argument = launch.arguments[i];
    if (argument.is_place) {
      std::byte* const address = at.at(argument.place);
      std::memcpy(values[i].data(), &address, sizeof address);
    } else {
      values[i] = argument.value;
    }
    arguments.push_back(values[i].data());
  }
  if (arrays == nullptr) return run_blocks(launch, entry, arguments.data());
  StrictLaunch strictly{launch.kernel->entry, entry.call, arguments.data(), launch.grid,
                        launch.block,         *arrays,    *entry.shared};
  if (entry.any_grid && strict_->max_blocks != 0)
    strictly.grid[0] = std::min(strictly.grid[0], strict_->max_blocks);
  run_strictly(strictly, *strict_);
}

void Emulator::run_blocks(const Launch& launch, const HostKernel& entry, void** arguments) {
  Block& block = *static_cast<Block*>(entry.block);
  block.threads = launch.block;
  block.grid_x = launch.grid[0];
  for (block.z = 0; block.z < launch.grid[2]; ++block.z) {
    for (block.y = 0; block.y < launch.grid[1]; ++block.y) {
      for (block.x = 0; block.x < launch.grid[0]; ++block.x) {
        if (only_ && !only_(launch, {block.x, block.y, block.z})) continue;
        if (entry.waits) {
          block.wait = fiber_wait;
          if (!run_fibers(launch.block, block.thread, [&] { entry.call(arguments); })) {
            throw std::runtime_error("emulator: expected all threads of a block of " + launch.kernel->entry +
                                     " to wait, got some that had ended");
          }
          continue;
        }
        for (block.thread = 0; block.thread < launch.block; ++block.thread) entry.call(arguments);
      }
    }
  }
}

void Emulator::step(const Step& step, const Bindings& at) {
  const Locate locate = [&at](const BufferRef& place) { return at.at(place); };
  if (const auto* copy = std::get_if<CopyStep>(&step)) {
    std::memcpy(locate(copy->to), locate(copy->from), copy->bytes);
  } else if (const auto* clear = std::get_if<ClearStep>(&step)) {
    std::memset(locate(clear->at), 0, clear->bytes);
  } else if (const auto* literal = std::get_if<LiteralStep>(&step)) {
    std::memcpy(locate(literal->to), literal->literal.bytes(), literal->literal.type().bytes());
  } else if (const auto* sorting = std::get_if<SortStep>(&step)) {
    sort(*sorting, locate);
  } else if (const auto* kernel = std::get_if<Launch>(&step)) {
    launch(*kernel, at);
  } else {
    emulate_library(step, locate);
  }
}

void Emulator::run(const Plan& plan, std::span<const Tensor> operands, std::span<Tensor> results,
                   bool unaligned) {
  if (!plan.supported) throw std::runtime_error("emulator: expected a plan, got none");
  const auto behind = [unaligned](const Tensor& tensor) { return unaligned ? size_of(tensor.dtype()) : 0; };
  Guarded scratch(plan.scratch_bytes);
  std::vector<Guarded> memory, moved;
  for (const Tensor& tensor : results) memory.emplace_back(tensor.num_bytes(), behind(tensor));
  for (const Tensor& tensor : operands) {
    if (!unaligned) break;
    moved.emplace_back(tensor.num_bytes(), behind(tensor));
    if (tensor.num_bytes() > 0) std::memcpy(moved.back().data(), tensor.bytes(), tensor.num_bytes());
  }
  std::vector<Memory> in, out;
  for (std::size_t i = 0; i < operands.size(); ++i)
    in.push_back({moved.empty() ? const_cast<std::byte*>(operands[i].bytes()) : moved[i].data(),
                  operands[i].num_bytes()});
  for (std::size_t i = 0; i < results.size(); ++i) out.push_back({memory[i].data(), results[i].num_bytes()});
  run(plan, Bindings{in, out, {scratch.data(), plan.scratch_bytes}});
  scratch.check();
  for (std::size_t i = 0; i < results.size(); ++i) {
    memory[i].check();
    if (results[i].num_bytes() > 0)
      std::memcpy(results[i].mutable_bytes(), memory[i].data(), results[i].num_bytes());
  }
}

void Emulator::run(const Plan& plan, const Bindings& at) {
  std::vector<StrictMemory> arrays;
  if (strict_) arrays = arrays_of(at, false);
  for (const Step& one : plan.steps) {
    if (const std::string rule = broken_rule(one, at); !rule.empty())
      throw std::runtime_error("emulator: expected a step that its library takes, got " + rule);
    if (const auto* kernel = std::get_if<Launch>(&one); kernel != nullptr && strict_) {
      launch(*kernel, at, &arrays);
      continue;
    }
    step(one, at);
    if (strict_) note_step(one, at, arrays);
  }
  if (strict_) check_results(at, arrays);
}

std::vector<Tensor> Emulator::run(const Graph& graph, const std::vector<Node>& nodes,
                                  std::span<const Tensor> inputs) {
  const std::vector<ValueId> roots = passes::alias_roots(graph);
  std::vector<std::optional<Tensor>> values(graph.num_values());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (const Node& node : nodes) {
    std::vector<Tensor> operands, results;
    for (const ValueId id : node.operands) {
      if (!values[id])
        throw std::runtime_error("emulator: expected nodes in order, got one that reads too soon");
      operands.push_back(*values[id]);
    }
    for (const ValueId id : node.results) results.emplace_back(graph.type(id));
    if (has_freedom(node.plan)) {
      results = by_reference(graph.operation(node.operations.at(0)), operands);
    } else {
      run(node.plan, operands, results);
    }
    for (std::size_t i = 0; i < results.size(); ++i) values[node.results[i]] = std::move(results[i]);
  }
  std::vector<Tensor> outputs;
  for (const ValueId id : graph.outputs()) {
    if (!values[roots[id]]) throw std::runtime_error("emulator: expected every output to be made");
    Tensor output(graph.type(id));
    if (output.num_bytes() > 0)
      std::memcpy(output.mutable_bytes(), values[roots[id]]->bytes(), output.num_bytes());
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace tidu::test
