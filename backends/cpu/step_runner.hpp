// step_runner.hpp - the steps of a scan or while: their program, that of what is made before them, and where
// in the loop's memory these have what they read and leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/inner_program.hpp"
#include "cpu/scan_body.hpp"

namespace tidu::cpu_detail {

/// Memory that an operation has while it runs, given out part by part.
class ScratchLayout {
 public:
  /// The offset of so many bytes.
  std::size_t place(std::size_t bytes) {
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
  /// Compiles a body, which runs about `steps` times where what holds it runs once, and places what it needs.
  /// `more`: bytes that another program takes, which runs before the steps in their memory.
  StepRunner(const ScanBody& body, std::size_t num_consts, std::size_t num_carry, std::int64_t steps,
             const InnerContext& context, ScratchLayout& scratch, std::size_t more = 0);

  /// Where programs run.
  std::byte* memory(std::byte* scratch) const { return scratch + memory_; }
  /// By input of a step: where it is. Consts come first, as they do in the body.
  const std::byte** inputs(std::byte* scratch) const {
    return reinterpret_cast<const std::byte**>(scratch + inputs_);
  }
  /// By output of a step: where it is to be.
  std::byte** outputs(std::byte* scratch) const { return reinterpret_cast<std::byte**>(scratch + outputs_); }
  /// By carry, then by slice: which input of a step it is.
  const std::size_t* behind_consts() const { return place_.data() + num_consts_ + made_.size(); }
  /// Does a step change the carry where it is? Then input and output are one place.
  bool changes_in_place(std::size_t carry) const {
    return step_->changed_into(carry) == behind_consts()[carry];
  }
  /// Before the first step, when inputs() has the consts: makes what steps read of them. Writes to outputs().
  void begin(std::byte* scratch) const;
  void run(std::byte* scratch) const { step_->run_inner(memory(scratch), inputs(scratch), outputs(scratch)); }

 private:
  /// A const that is packed before the steps.
  struct Prepared {
    Preparation what;
    std::size_t offset;
  };
  std::shared_ptr<const Compiled> step_, before_;  // before: none where nothing is made
  std::size_t num_consts_ = 0;
  std::vector<std::size_t> place_;  // see ScanBody
  std::vector<std::size_t> made_;   // offsets
  std::vector<Prepared> prepared_;
  std::size_t inputs_ = 0, outputs_ = 0, memory_ = 0;  // offsets
};

}  // namespace tidu::cpu_detail
