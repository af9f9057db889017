// vector_jit.cpp - the ends of arrays that do not fill a vector, and the kernels that are kept.
#include "cpu/fusion/vector_ir.hpp"

#include <cstring>

#include "cpu/fusion/rows.hpp"
#include "cpu/fusion/straight_line.hpp"
#include "graph/fork_locks.hpp"

namespace tidu::cpu_detail {

VectorKernel::VectorKernel(const VectorProgram& code, Function function, std::size_t vector_bytes,
                           std::shared_ptr<const void> memory)
    : function_(function),
      width_(static_cast<std::int64_t>(vector_bytes / size_of(code.dtype))),
      operand_steps_(code.num_operands, 0),
      result_steps_(code.num_results, 0),
      memory_(std::move(memory)) {
  for (const VectorInst& step : code.steps) {
    if (step.op == VectorOp::load) operand_steps_[step.index] = size_of(code.dtype);
    if (step.op == VectorOp::load_mask) operand_steps_[step.index] = 1;
    if (step.op == VectorOp::store) result_steps_[step.index] = size_of(code.dtype);
    if (step.op == VectorOp::store_mask) result_steps_[step.index] = 1;
  }
}

void VectorKernel::run(const std::byte* const* operands, std::byte* const* results,
                       std::int64_t count) const {
  const std::int64_t whole = count / width_ * width_;
  if (whole != 0) function_(operands, results, whole);
  const auto left = static_cast<std::size_t>(count - whole);
  if (left == 0) return;
  // What is left in a vector of its own, filled up with the last element.
  constexpr std::size_t vector = 64;
  struct alignas(vector) Buffer {
    std::byte bytes[vector];
  };
  eager::detail::ShortArray<Buffer, few_pointers> buffers(operand_steps_.size() + result_steps_.size());
  Pointers<const std::byte*> in(operand_steps_.size());
  Pointers<std::byte*> out(result_steps_.size());
  for (std::size_t i = 0; i < operand_steps_.size(); ++i) {
    const std::size_t step = operand_steps_[i];
    in[i] = operands[i];
    if (step == 0) continue;
    const std::byte* from = operands[i] + static_cast<std::size_t>(whole) * step;
    std::memcpy(buffers[i].bytes, from, left * step);
    for (std::size_t k = left; k < static_cast<std::size_t>(width_); ++k)
      std::memcpy(buffers[i].bytes + k * step, from + (left - 1) * step, step);
    in[i] = buffers[i].bytes;
  }
  for (std::size_t i = 0; i < result_steps_.size(); ++i) out[i] = buffers[operand_steps_.size() + i].bytes;
  function_(in.data(), out.data(), width_);
  for (std::size_t i = 0; i < result_steps_.size(); ++i) {
    const std::size_t step = result_steps_[i];
    std::memcpy(results[i] + static_cast<std::size_t>(whole) * step, out[i], left * step);
  }
}

void VectorKernel::run_apart(const std::byte* const* operands, std::byte* const* results,
                             std::int64_t count) const {
  const std::int64_t whole = count / width_ * width_;
  if (whole == 0 || whole == count) return run(operands, results, count);
  function_(operands, results, whole);
  const auto last = static_cast<std::size_t>(count - width_);
  Pointers<const std::byte*> in(operand_steps_.size());
  Pointers<std::byte*> out(result_steps_.size());
  for (std::size_t i = 0; i < operand_steps_.size(); ++i) in[i] = operands[i] + last * operand_steps_[i];
  for (std::size_t i = 0; i < result_steps_.size(); ++i) out[i] = results[i] + last * result_steps_[i];
  function_(in.data(), out.data(), width_);
}

namespace {

class Hasher {
 public:
  void mix(std::uint64_t x) {
    hash_ = (hash_ ^ x) * 0xff51afd7ed558ccdU;
    hash_ ^= hash_ >> 32U;
  }
  void mix(const std::vector<VectorInst>& steps) {
    mix(steps.size());
    for (const VectorInst& step : steps) {
      mix(static_cast<std::uint64_t>(step.op) | std::uint64_t{step.a} << 8U | std::uint64_t{step.b} << 24U |
          std::uint64_t{step.c} << 40U);
      mix(step.bits + step.index);
    }
  }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15U;
};

// Null if there is no code or no executable memory.
template <class Kernel, class Code, class... Arguments>
std::shared_ptr<const Kernel> make_kernel(const Code& code, const MachineCode& machine,
                                          Arguments... arguments) {
  std::shared_ptr<const void> memory = machine.bytes.empty() ? nullptr : executable_copy(machine.bytes);
  if (memory == nullptr) return nullptr;
  const auto function = reinterpret_cast<typename Kernel::Function>(const_cast<void*>(memory.get()));
  return std::make_shared<const Kernel>(code, function, arguments..., std::move(memory));
}
std::shared_ptr<const VectorKernel> generate(const VectorProgram& code, VectorUnits units) {
  const std::size_t vector_bytes = units == VectorUnits::avx512 ? 64 : 32;
  return make_kernel<VectorKernel>(code, assemble(code, units), vector_bytes);
}
std::shared_ptr<const RowKernel> generate(const RowsCode& code, VectorUnits units) {
  const MachineCode machine = assemble(code, units);
  return make_kernel<RowKernel>(code, machine, machine.scratch_bytes);
}
std::shared_ptr<const StraightLineKernel> generate(const StraightLineCode& code, VectorUnits units) {
  return make_kernel<StraightLineKernel>(code, assemble(code, units));
}

}  // namespace

std::size_t VectorJit::Hash::operator()(const VectorProgram& code) const {
  Hasher hasher;
  hasher.mix(static_cast<std::uint64_t>(code.dtype));
  hasher.mix(code.steps);
  return static_cast<std::size_t>(hasher.hash());
}

std::uint64_t RowsCode::hash() const {
  Hasher hasher;
  hasher.mix(static_cast<std::uint64_t>(dtype));
  hasher.mix(static_cast<std::uint64_t>(columns));
  for (const Phase& phase : phases) {
    hasher.mix(phase.elements);
    hasher.mix(phase.row);
  }
  for (const Gather& gather : gathers) {
    hasher.mix(std::uint64_t{gather.array} << 32U | gather.indices);
    hasher.mix(static_cast<std::uint64_t>(gather.rows));
    hasher.mix(std::uint64_t{gather.wide});
    hasher.mix(static_cast<std::uint64_t>(gather.every));
    hasher.mix(static_cast<std::uint64_t>(gather.together));
  }
  return hasher.hash();
}

std::uint64_t StraightLineCode::hash() const {
  Hasher hasher;
  hasher.mix(static_cast<std::uint64_t>(program.dtype));
  hasher.mix(static_cast<std::uint64_t>(elements));
  hasher.mix(program.steps);
  return hasher.hash();
}

VectorJit* VectorJit::get(VectorUnits units) {
  // Never destroyed: kernels may be in use while statics are destroyed.
  const auto make = [units](tidu::detail::ForkRank rank) -> VectorJit* {
    if (!can_generate(units)) return nullptr;
    auto* const made = new VectorJit(units);
    tidu::detail::ForkLocks::add(rank, made->mutex_);
    return made;
  };
  if (units == VectorUnits::automatic) {
    static VectorJit* const widest = [] {
      VectorJit* const wide = get(VectorUnits::avx512);
      return wide != nullptr ? wide : get(VectorUnits::avx2);
    }();
    return widest;
  }
  if (units == VectorUnits::avx512) {
    static VectorJit* const avx512 = make(tidu::detail::ForkRank::lanes_avx512);
    return avx512;
  }
  if (units == VectorUnits::avx2) {
    static VectorJit* const avx2 = make(tidu::detail::ForkRank::lanes_avx2);
    return avx2;
  }
  return nullptr;
}

std::shared_ptr<const VectorKernel> VectorJit::compile(const VectorProgram& code) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = kernels_.find(code);
    if (it != kernels_.end()) return it->second;
  }
  std::shared_ptr<const VectorKernel> kernel = generate(code, units_);
  if (kernel == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kernels_.size() >= max_kernels) {
    std::erase_if(kernels_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  if (kernels_.size() >= max_kernels) return kernel;
  return kernels_.emplace(code, std::move(kernel)).first->second;
}

template <class Kernel, class Code>
std::shared_ptr<const Kernel> VectorJit::compile_in(Kernels<Kernel>& kernels, const Code& code) {
  const std::uint64_t hash = code.hash();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [begin, end] = kernels.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (it->second->code() == code) return it->second;
    }
  }
  std::shared_ptr<const Kernel> kernel = generate(code, units_);
  if (kernel == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kernels.size() >= max_kernels) {
    std::erase_if(kernels, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  if (kernels.size() < max_kernels) kernels.emplace(hash, kernel);
  return kernel;
}

std::shared_ptr<const RowKernel> VectorJit::compile(const RowsCode& code) {
  return compile_in(row_kernels_, code);
}
std::shared_ptr<const StraightLineKernel> VectorJit::compile(const StraightLineCode& code) {
  return compile_in(straight_line_kernels_, code);
}

void VectorJit::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  kernels_.clear();
  row_kernels_.clear();
  straight_line_kernels_.clear();
}

}  // namespace tidu::cpu_detail
