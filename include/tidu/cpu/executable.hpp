// executable.hpp - Executable: a Program compiled for the CPU. A cheap handle; any number of threads may run
// it at once.
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

/// Outputs of one type, by position, each of which may take the memory of any one of these inputs.
struct ReusableInputs {
  std::vector<std::uint32_t> inputs;   ///< by position
  std::vector<std::uint32_t> outputs;  ///< by position
  /// Nothing fails once one of the outputs is written: after a failure of run_into these inputs are what they
  /// were.
  bool safe = false;
};

/// A compiled program; copies share it.
class Executable {
 public:
  /// For the CPU executor itself.
  explicit Executable(std::shared_ptr<const cpu_detail::Compiled> compiled)
      : compiled_(std::move(compiled)) {}
  /// Likewise: the same program for a graph that is equal but for the keys of its inputs.
  Executable with_keys_of(const Graph& graph) const;

  /// The outputs on `inputs`, which are aligned with the program's inputs. No output shares memory with an
  /// input or with another output. A failure leaves everything usable. Errors: invalid_argument for another
  /// number of inputs, type for an input of another type, execution for a kernel that failed, with the
  /// operation's place, out_of_memory.
  Result<std::vector<Tensor>> try_run(std::span<const Tensor> inputs) const;
  /// As try_run, but throws.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) const;
  /// The same with what costs time left to the caller: inputs by pointer, and each of `outputs` is assigned
  /// its output, which is written over what it was where that has the type and memory of its own
  /// (Tensor::allocated) that nobody else refers to (Tensor::exclusive). An input may be one of `outputs`:
  /// where nobody else refers to its memory, an output, also the one that it is, may then take that
  /// (reusable_inputs), so that the next parameters of a model are written over the last ones. Throws Error
  /// as try_run has errors, and invalid_argument for another number of outputs or a null pointer; the outputs
  /// are any tensors then.
  void run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const;
  /// One tensor for every input, by name (see Graph::find_input) in the graph that was compiled, in any
  /// order.
  std::vector<Tensor> run_named(std::span<const NamedTensor> inputs) const;

  /// What runs, with the memory plan of this executable: where the executor does steps together it needs less
  /// than the program that was compiled.
  const Program& program() const;
  /// Predicted peak of one run above the inputs: temporaries of all its threads, constants (which are there
  /// from the compilation on), outputs, and what oneDNN and Eigen are expected to allocate where they
  /// multiply and decompose. From a MiB on it is within 5 % of what a process grows by, within 20 % where
  /// matrices are decomposed or solved with. Not in it are what each thread keeps from its first products on,
  /// up to a MiB, and what oneDNN allocates for its own objects.
  std::size_t peak_bytes() const;
  /// Which outputs may take whose memory in run_into: those of 64 KiB or more that are written, in
  /// one pass, where inputs of their type are read for the last time. No input and no output is in two.
  const std::vector<ReusableInputs>& reusable_inputs() const;
  /// Threads that a run may use, this one among them.
  int threads() const;
  /// Steps that a run takes.
  std::size_t num_instructions() const;
  /// What it keeps between runs, an estimate: instructions, constants, and the workspaces of small values.
  std::size_t kept_bytes() const;

 private:
  std::shared_ptr<const cpu_detail::Compiled> compiled_;
  std::shared_ptr<const GraphData> names_;  // null: the program's graph has them
};

}  // namespace tidu
