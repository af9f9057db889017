// step_runner.hpp - StepRunner: runs the steps of a scan or while. It owns the inner programs of the step and
// of the invariants before it, and lays out their inputs, outputs and memory in the loop's scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/inner_program.hpp"
#include "cpu/scan_body.hpp"

namespace tidu::cpu_detail {

/// Layout of the scratch memory of an operation.
class ScratchLayout {
 public:
  /// Reserves `bytes` and returns their offset.
  std::size_t reserve(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += aligned(bytes);
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class StepRunner {
 public:
  StepRunner() = default;
  /// Compiles a body that runs about `steps` times for each run of the enclosing program, and reserves its
  /// scratch. `more`: bytes of another program that runs in the same memory before the steps.
  StepRunner(const ScanBody& body, std::size_t num_consts, std::size_t num_carry, std::int64_t steps,
             const InnerContext& context, ScratchLayout& scratch, std::size_t more = 0);

  /// The memory in which inner programs run.
  std::byte* memory(std::byte* scratch) const { return scratch + memory_; }
  /// Addresses of the inputs of a step. The consts come first, as in the body.
  const std::byte** inputs(std::byte* scratch) const {
    return reinterpret_cast<const std::byte**>(scratch + inputs_);
  }
  /// Addresses of the outputs of a step.
  std::byte** outputs(std::byte* scratch) const { return reinterpret_cast<std::byte**>(scratch + outputs_); }
  /// The input of a step, indexed by carry and then by slice.
  const std::size_t* behind_consts() const { return positions_.data() + num_consts_ + made_.size(); }
  /// Does a step update the carry in place? Its input and output then have the same address.
  bool changes_in_place(std::size_t carry) const {
    return step_->changed_into(carry) == behind_consts()[carry];
  }
  /// Computes the invariants before the first step. The consts must be in inputs(). Overwrites outputs().
  void begin(std::byte* scratch) const;
  void run(std::byte* scratch) const { step_->run_inner(memory(scratch), inputs(scratch), outputs(scratch)); }

 private:
  /// A const in a prepared form, such as a packed matrix.
  struct Prepared {
    Preparation what;
    std::size_t offset;
  };
  std::shared_ptr<const Compiled> step_, before_;  // before_: null without invariants
  std::size_t num_consts_ = 0;
  std::vector<std::size_t> positions_;  // see ScanBody
  std::vector<std::size_t> made_;       // offsets
  std::vector<Prepared> prepared_;
  std::size_t inputs_ = 0, outputs_ = 0, memory_ = 0;  // offsets
};

}  // namespace tidu::cpu_detail
