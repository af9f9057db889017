// kernel.hpp - custom kernels: how a project writes a kernel for its own primitive, once for every executor
// that works in the host's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/op.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

/// A set of dtypes.
class DTypes {
 public:
  constexpr DTypes() = default;
  /// The given dtypes.
  constexpr DTypes(std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) bits_ |= bit(dtype);
  }
  /// Is it one of them?
  constexpr bool contains(DType dtype) const { return (bits_ & bit(dtype)) != 0; }
  /// Both.
  friend constexpr DTypes operator|(DTypes a, DTypes b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  static constexpr std::uint32_t bit(DType dtype) { return 1U << static_cast<std::uint32_t>(dtype); }
  std::uint32_t bits_ = 0;
};

namespace dtypes {
/// bool.
inline constexpr DTypes booleans{bool_};
/// i32, i64.
inline constexpr DTypes integers{i32, i64};
/// f16, bf16, f32, f64.
inline constexpr DTypes floats{f16, bf16, f32, f64};
/// c64, c128.
inline constexpr DTypes complexes{c64, c128};
/// Every dtype.
inline constexpr DTypes all = booleans | integers | floats | complexes;
}  // namespace dtypes

/// Runs the graphs that operations hold.
class GraphRunner {
 public:
  /// Throws Error (execution) when graphs nest more than 64 deep; else as Executor::try_run.
  virtual std::vector<Tensor> run_nested(const Graph& graph, std::span<const Tensor> inputs,
                                         int depth) const = 0;

 protected:
  ~GraphRunner() = default;
};

/// The argument of a kernel: the operation, its operands, and uninitialised results of the inferred types.
/// The tensors belong to the kernel until it returns; to keep one longer, it clones it.
class KernelCall {
 public:
  /// For executors.
  KernelCall(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
             const GraphRunner& runner, int depth)
      : op_(op), inputs_(inputs), outputs_(outputs), runner_(runner), depth_(depth) {}

  const Op& op() const { return op_; }
  std::span<const Tensor> inputs() const { return inputs_; }
  /// One operand.
  const Tensor& input(std::size_t i) const { return inputs_[i]; }
  std::size_t num_inputs() const { return inputs_.size(); }
  std::span<Tensor> outputs() const { return outputs_; }
  /// One result.
  Tensor& output(std::size_t slot = 0) const { return outputs_[slot]; }
  /// Runs a graph that an attribute of the operation holds. Throws Error (execution) when graphs nest more
  /// than 64 deep.
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> graph_inputs) const {
    return runner_.run_nested(graph, graph_inputs, depth_ + 1);
  }

 private:
  const Op& op_;
  std::span<const Tensor> inputs_;
  std::span<Tensor> outputs_;
  const GraphRunner& runner_;
  int depth_;
};

/// Writes every element of the outputs (or replaces them by tensors of the same types). May throw Error;
/// other exceptions become an Error (execution).
using Kernel = std::function<void(const KernelCall&)>;

}  // namespace tidu
