// executor.hpp - CpuExecutor: compiles graphs to programs for the CPU of this machine, and runs them. Input:
// a Graph; output: an Executable, or the graph's results. Compiled graphs are cached (compile_cache()).
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

/// Vector instructions of the element-wise code that is generated at run time.
enum class VectorUnits : std::uint8_t {
  automatic,  ///< the widest that this machine supports
  none,       ///< no generated code: precompiled loops
  avx2,       ///< AVX2 with FMA, or none if the machine lacks it
  avx512      ///< AVX-512 F, DQ, BW and VL, or none if the machine lacks it
};

/// Options of the CPU executor.
struct CpuOptions {
  /// Maximum number of threads of one run. 0: the number of processors available to the compiling thread, by
  /// its affinity mask and the CPU quota of its control groups. Results are the same to the last bit for any
  /// number of threads.
  int threads = 0;
  /// Throw an error if an index of take, scatter_add, … is out of range, in any mode, with operation,
  /// position and bound. Disables tiled loops, in which positions would be relative to a block, and the
  /// simplify rules, which may remove such an operation.
  bool check_indices = false;
  /// Maximum bytes of free memory that is kept for later temporaries and outputs.
  std::size_t cached_bytes = std::size_t{1} << 30;
  /// Generated code computes elementary functions by libmvec or by tidu's own routines, within 4 ulp of the
  /// exact value; other code uses the C++ library. Results of `none` therefore differ from others in their
  /// last bits.
  VectorUnits vector_units = VectorUnits::automatic;
  ProgramOptions program{};  ///< options for making programs of graphs
};

namespace cpu_detail {
class Arena;
class KernelTable;
}  // namespace cpu_detail

/// Compiles each graph once (see compile_cache()) and runs it with vector code on the threads of this
/// machine. Results equal those of the reference executor up to rounding, and are the same to the last bit
/// for any number of threads.
class CpuExecutor final : public Executor, public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  /// Has the kernels of the standard primitives.
  explicit CpuExecutor(const CpuOptions& options = CpuOptions());

  std::string_view name() const override { return "cpu"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override;
  bool supports(const Primitive& primitive, DType dtype) const override;

  /// Compiles a graph on its first call, and keeps it in the graph's slot in front of compile_cache().
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override;
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override;
  void run_at(const eager::GraphCall& call, bool linear, std::span<const Tensor* const> inputs,
              Tensor* out) const override;
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override;
  /// Sums of 16-bit cotangents are held in f32.
  bool wide_accumulation() const override { return true; }

  /// Compiles a graph, or finds it in compile_cache(); a Program is always compiled. Errors: those of
  /// Program::make; execution if a kernel is missing, with operation and source location; out_of_memory.
  Result<Executable> try_compile(const Graph& graph) const;
  Result<Executable> try_compile(const Program& program) const;
  Executable compile(const Graph& graph) const { return std::move(try_compile(graph)).value(); }
  Executable compile(const Program& program) const { return std::move(try_compile(program)).value(); }

  /// A copy of this executor with a kernel for the named primitive, which replaces any earlier one. The
  /// reference executor accepts the same kernels. `supported`: the dtypes for which supports() is true. The
  /// copy shares memory with this executor.
  CpuExecutor with_kernel(std::string_view primitive, Kernel kernel, DTypes supported = dtypes::all) const;
  /// A copy with other options. It shares memory with this executor unless `cached_bytes` differs.
  CpuExecutor with_options(const CpuOptions& options) const;
  const CpuOptions& options() const { return options_; }

 private:
  CpuOptions options_;
  std::shared_ptr<const cpu_detail::KernelTable> kernels_;
  std::shared_ptr<cpu_detail::Arena> arena_;
};

/// The CPU executor with standard kernels and default options; a single object.
const CpuExecutor& cpu();

}  // namespace tidu
