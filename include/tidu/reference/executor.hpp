// executor.hpp - ReferenceExecutor: runs graphs one operation after another by plain loops. It is slow and
// simple, the oracle of every faster executor. Kernels are looked up by the names of primitives in a table of
// the executor, so that a project can add kernels for its own primitives.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/eager/executor.hpp"
#include "tidu/graph/op.hpp"
#include "tidu/tensor/executor.hpp"
#include "tidu/tensor/inspect.hpp"
#include "tidu/tensor/kernel.hpp"

namespace tidu {

/// The reference executor; immutable: with_kernel makes another one.
class ReferenceExecutor final : public Executor,
                                public TensorOperands<eager::BackwardExecutor<Tensor>>,
                                private GraphRunner {
 public:
  /// Without kernels; `reference()` gives one with those of the standard primitives.
  ReferenceExecutor();

  /// This executor with a kernel for the primitive of that name, which replaces an existing one. supports()
  /// is true for the dtypes `supported`.
  ReferenceExecutor with_kernel(std::string_view primitive, Kernel kernel,
                                DTypes supported = dtypes::all) const;

  std::string_view name() const override { return "reference"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override;
  bool supports(const Primitive& primitive, DType dtype) const override;
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override;
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override;
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override;
  /// It does.
  bool wide_accumulation() const override { return true; }
  /// Names of the primitives that have a kernel, sorted.
  std::vector<std::string> kernels() const;

 private:
  friend const ReferenceExecutor& reference();
  struct Entry {
    std::string primitive;
    Kernel kernel;
    DTypes supported;
  };
  using Table = std::vector<Entry>;  // sorted by name

  const Entry* find(std::string_view primitive) const;
  std::vector<Tensor> execute(const Graph& graph, std::span<const Tensor> inputs, int depth) const;
  std::vector<Tensor> run_nested(const Graph& graph, std::span<const Tensor> inputs,
                                 int depth) const override {
    return execute(graph, inputs, depth);
  }

  std::shared_ptr<const Table> table_;
};

/// The executor with the kernels of the standard primitives.
const ReferenceExecutor& reference();

}  // namespace tidu
