// executable.hpp - Executable: a Program compiled for the CPU. It is a cheap handle; any number of threads
// may run it at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "tidu/cpu/program.hpp"
#include "tidu/tensor/executor.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

namespace cpu_detail {
class Compiled;
}

/// Outputs of one type, each of which may take the memory of any one of these inputs.
struct ReusableInputs {
  std::vector<std::uint32_t> inputs;   ///< positions
  std::vector<std::uint32_t> outputs;  ///< positions
  /// No error can occur after one of the outputs is written: if run_into fails, these inputs keep their
  /// values.
  bool safe = false;
};

/// A compiled program; copies share it.
class Executable {
 public:
  /// For the CPU executor.
  explicit Executable(std::shared_ptr<const cpu_detail::Compiled> compiled)
      : compiled_(std::move(compiled)) {}
  /// For the CPU executor: the same program for a graph that differs only in the keys of its inputs.
  Executable with_keys_of(const Graph& graph) const;

  /// Computes the outputs for `inputs`, one tensor for each input of the program, in order. No output shares
  /// memory with an input or with another output. After an error everything remains usable. Errors:
  /// invalid_argument for a wrong number of inputs, type for an input of another type, execution for a kernel
  /// that failed (with the operation's source location), out_of_memory.
  Result<std::vector<Tensor>> try_run(std::span<const Tensor> inputs) const;
  /// As try_run, but throws.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) const;
  /// As run, without the costs that the caller can avoid. Inputs are passed by pointer. Each element of
  /// `outputs` is assigned its output; its memory is reused if it has the right type and owns memory
  /// (Tensor::allocated) that nothing else refers to (Tensor::exclusive). An input may be one of `outputs`:
  /// if nothing else refers to its memory, an output may take that memory (reusable_inputs). The new
  /// parameters of a model are then written over the old ones. Throws Error in the cases of try_run, and
  /// invalid_argument for a wrong number of outputs or a null pointer; after an error the outputs are
  /// unspecified tensors.
  void run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const;
  /// Takes one tensor for every input, by its name (see Graph::find_input) in the compiled graph, in any
  /// order.
  std::vector<Tensor> run_named(std::span<const NamedTensor> inputs) const;

  /// The program that runs, with this executable's memory plan. Step fusion makes it smaller than the plan of
  /// the program that was compiled.
  const Program& program() const;
  /// Predicted peak memory of one run in bytes, without the inputs: temporaries of all threads, constants
  /// (allocated at compilation), outputs, and the expected allocations of oneDNN and Eigen. From a MiB on the
  /// prediction is within 5 % of the growth of a process, and within 20 % if matrices are decomposed or
  /// solved. It excludes buffers that each thread keeps after its first matmul, up to a MiB, and oneDNN's own
  /// objects.
  std::size_t peak_bytes() const;
  /// The inputs whose memory outputs may take in run_into. These outputs have 64 KiB or more and are written,
  /// in one pass, by the step that reads inputs of their type for the last time. Each input and output is in
  /// at most one set.
  const std::vector<ReusableInputs>& reusable_inputs() const;
  /// Maximum number of threads of a run, including the calling one.
  int threads() const;
  /// Number of steps of a run.
  std::size_t num_instructions() const;
  /// Estimate of the bytes that are kept between runs: instructions, constants, and workspaces of small
  /// values.
  std::size_t kept_bytes() const;

 private:
  std::shared_ptr<const cpu_detail::Compiled> compiled_;
  std::shared_ptr<const GraphData> names_;  // null: the program's graph has the names
};

}  // namespace tidu
