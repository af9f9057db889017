// executor.hpp - CpuExecutor: compiles graphs to programs for this machine's CPU and runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tidu/cpu/executable.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/eager/executor.hpp"
#include "tidu/tensor/executor.hpp"
#include "tidu/tensor/inspect.hpp"
#include "tidu/tensor/kernel.hpp"

namespace tidu {

/// Vector instructions that element-wise code may be generated for while the program runs.
enum class VectorUnits : std::uint8_t {
  automatic,  ///< the widest that this machine has
  none,       ///< no code is generated: loops that were compiled with tidu
  avx2,       ///< AVX2 with FMA, or none where the machine has it not
  avx512      ///< AVX-512 F, DQ, BW and VL, or none where the machine has it not
};

/// How the CPU executor runs.
struct CpuOptions {
  /// Threads that one run may use; 0: as many as there are processors that the thread which compiles may keep
  /// busy, so no more than it may run on, nor than the time that its control groups grant. Results are the
  /// same to the last bit for any number.
  int threads = 0;
  /// Fail when an index of take, scatter_add, … is out of range, whatever its mode, naming operation,
  /// position and bound. Nothing is computed block by block then, where positions would be those in a block.
  bool check_indices = false;
  /// Bytes of memory for large temporaries and outputs that are kept for reuse when nobody needs them.
  std::size_t cached_bytes = std::size_t{1} << 30;
  /// Elementary functions are libmvec's or our own where code is generated, at most 4 ulp from the exact
  /// value, and the C++ library's elsewhere, so results differ in their last bits between `none` and others.
  VectorUnits vector_units = VectorUnits::automatic;
  ProgramOptions program{};  ///< how graphs become programs
};

namespace cpu_detail {
class Arena;
class KernelTable;
}  // namespace cpu_detail

/// Compiles each graph once (see compile_cache()), and runs it by vector code on this machine's threads. Its
/// results are the reference executor's up to rounding, the same to the last bit for any number of threads.
class CpuExecutor final : public Executor, public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  /// With the kernels of the standard primitives.
  explicit CpuExecutor(const CpuOptions& options = CpuOptions());

  std::string_view name() const override { return "cpu"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override;
  bool supports(const Primitive& primitive, DType dtype) const override;

  /// Each graph is compiled the first time, and kept in its slot in front of compile_cache().
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override;
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override;
  void run_at(const eager::GraphCall& call, bool linear, std::span<const Tensor* const> inputs,
              Tensor* out) const override;
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override;
  /// It does.
  bool wide_accumulation() const override { return true; }

  /// A graph may come from compile_cache(), a Program is always compiled. Errors: those of Program::make;
  /// execution where a kernel is missing, naming operation and place; out_of_memory.
  Result<Executable> try_compile(const Graph& graph) const;
  Result<Executable> try_compile(const Program& program) const;
  Executable compile(const Graph& graph) const { return std::move(try_compile(graph)).value(); }
  Executable compile(const Program& program) const { return std::move(try_compile(program)).value(); }

  /// This executor with a kernel for the primitive of that name, in the place of one that was there. The same
  /// kernel serves the reference executor. `supported` are the dtypes for which supports() says yes. Memory
  /// is shared.
  CpuExecutor with_kernel(std::string_view primitive, Kernel kernel, DTypes supported = dtypes::all) const;
  /// This executor with other options; memory is shared unless `cached_bytes` differs.
  CpuExecutor with_options(const CpuOptions& options) const;
  const CpuOptions& options() const { return options_; }

 private:
  CpuOptions options_;
  std::shared_ptr<const cpu_detail::KernelTable> kernels_;
  std::shared_ptr<cpu_detail::Arena> arena_;
};

/// The CPU executor with standard kernels and default options; made once.
const CpuExecutor& cpu();

}  // namespace tidu
