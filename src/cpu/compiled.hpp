// compiled.hpp - what an Executable is: instructions over addresses, and workspaces that wait for the next
// run.
//
// Note [Addresses]: values of one element lie in a workspace's small region, inputs, constants and outputs
// among them (copied in before and out behind), so that a scalar step has its operands at 32-bit offsets.
// Every other step has a row of pointers in the workspace; those into the region of large values, to inputs
// and to outputs are set by each run, the rest once.
//
// Note [Light programs]: what a program of few small values does is over sooner than a workspace is found, so
// that its workspace is on the stack, and filled anew by each run. One of scalar steps alone needs no more of
// it than the small region.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "cpu/arena.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/program/program.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::cpu_detail {

/// A step that is not scalar.
struct GeneralStep {
  RunFunction run;
  const void* state;
  std::uint32_t first_pointer;
  std::uint32_t num_operands;
};

/// What steps see of a run beside their small region.
struct Frame {
  const GeneralStep* steps;
  std::byte* const* pointers;
  std::byte* scratch;
};

struct Workspace {
  Arena::Block small;  // constants of one element are in it already
  std::vector<std::byte*> pointers;
  std::byte* large = nullptr;  // where `pointers` takes the region of large values to be
};

struct CompileOptions {
  int threads = 1;
  bool check_indices = false;
  int depth = 0;  ///< of graphs inside operations
};

/// Most bytes of a workspace on the stack: of scalar steps alone, and of all else.
inline constexpr std::size_t scalar_stack = 1024;
inline constexpr std::size_t light_stack = 8192;
/// Most pointers of a workspace on the stack.
inline constexpr std::size_t light_pointers = 64;

class Compiled {
 public:
  /// Throws Error (execution, out_of_memory).
  Compiled(Program program, const CompileOptions& options, const KernelTable& kernels,
           std::shared_ptr<Arena> arena);
  ~Compiled();
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  void run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const;
  const Program& program() const { return program_; }
  std::size_t num_instructions() const { return instructions_.size(); }

 private:
  friend class Compiler;
  struct Patch {
    std::uint32_t pointer;
    std::uint32_t index;  // of the input or output
    std::size_t offset;   // into the small or large region
  };
  struct Move {           // of a value of one element, or of an output that is not written directly
    std::uint32_t index;  // of the input or output
    std::uint32_t bytes;
    std::size_t offset;  // into the small region
  };
  struct Copy {  // of an output of many elements that has another place
    std::uint32_t output;
    Slot from;
  };
  enum class Mode : std::uint8_t { scalars, light, pooled };  // see Note [Light programs]
  // Where a run has its values.
  struct Places {
    std::byte* small;
    std::byte* large;
    std::byte* scratch;
    std::byte** pointers;
  };
  void run_scalars(const Tensor* const* inputs, Tensor* outputs) const;
  void run_light(const Tensor* const* inputs, Tensor* outputs) const;
  void run_pooled(const Tensor* const* inputs, Tensor* outputs) const;
  void run_in(const Places& places, const Tensor* const* inputs, Tensor* outputs) const;
  void execute(std::byte* small, const Frame& frame) const;
  // What is the same in every run.
  void fill_small(std::byte* small) const;
  void point_to_constants(std::byte* small, std::byte** pointers) const;
  std::unique_ptr<Workspace> take_workspace() const;
  Tensor make_output(Type type) const;
  void make_outputs(Tensor* outputs) const;
  [[noreturn]] void refuse(std::span<const Tensor* const> inputs, std::size_t num_outputs) const;
  void explain(const Error& error, const Instruction* at) const;

  Program program_;
  std::shared_ptr<Arena> arena_;
  std::vector<Instruction> instructions_;
  std::vector<GeneralStep> steps_;
  std::vector<std::uint32_t> operations_;  // by instruction: its operation in the program's graph
  std::vector<Plan> plans_;                // keeps their states
  std::vector<Type> input_types_, output_types_;
  Mode mode_ = Mode::pooled;
  std::size_t small_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
  std::size_t num_pointers_ = 0;
  std::vector<Patch> small_pointers_, constant_pointers_, large_pointers_, input_pointers_, output_pointers_;
  std::vector<Move> loads_, stores_, literals_;
  std::vector<Copy> copies_;
  std::vector<std::byte> literal_bytes_;  // of `literals_`, one after another in 16 bytes each
  Arena::Block constants_;
  std::vector<const std::byte*> constant_at_;  // by value that is a constant: its bytes
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
  mutable std::size_t workspaces_ = 0;
};

void run_general(const Instruction& i, std::byte* base, const Frame& frame);

}  // namespace tidu::cpu_detail
