// executor.hpp - ReferenceExecutor: runs graphs one operation after another by plain loops. It is slow and
// obviously right, the oracle of every faster executor. Kernels are looked up by the names of primitives in a
// table that belongs to the executor, so that a project adds kernels for primitives of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/graph/op.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu {

class ReferenceExecutor;

/// A set of dtypes.
class DTypes {
 public:
  constexpr DTypes() = default;
  constexpr DTypes(std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) bits_ |= bit(dtype);
  }
  constexpr bool contains(DType dtype) const { return (bits_ & bit(dtype)) != 0; }
  friend constexpr DTypes operator|(DTypes a, DTypes b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  static constexpr std::uint32_t bit(DType dtype) { return 1U << static_cast<std::uint32_t>(dtype); }
  std::uint32_t bits_ = 0;
};

namespace dtypes {
inline constexpr DTypes booleans{bool_};
inline constexpr DTypes integers{i32, i64};
inline constexpr DTypes floats{f16, bf16, f32, f64};
inline constexpr DTypes complexes{c64, c128};
inline constexpr DTypes all = booleans | integers | floats | complexes;
}  // namespace dtypes

/// What a kernel is given: the operation, its operands, and uninitialised results of the inferred types.
class KernelCall {
 public:
  KernelCall(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
             const ReferenceExecutor& executor, int depth)
      : op_(op), inputs_(inputs), outputs_(outputs), executor_(executor), depth_(depth) {}

  const Op& op() const { return op_; }
  std::span<const Tensor> inputs() const { return inputs_; }
  const Tensor& input(std::size_t i) const { return inputs_[i]; }
  std::size_t num_inputs() const { return inputs_.size(); }
  std::span<Tensor> outputs() const { return outputs_; }
  Tensor& output(std::size_t slot = 0) const { return outputs_[slot]; }
  /// Runs a graph that an attribute of the operation holds. Throws Error (execution) when graphs nest more
  /// than 64 deep.
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> graph_inputs) const;

 private:
  const Op& op_;
  std::span<const Tensor> inputs_;
  std::span<Tensor> outputs_;
  const ReferenceExecutor& executor_;
  int depth_;
};

/// Writes every element of the outputs (or puts tensors of the same types in their place). May throw Error;
/// whatever else it throws becomes an Error (execution).
using Kernel = std::function<void(const KernelCall&)>;

class ReferenceExecutor final : public Executor {
 public:
  /// Without kernels; `reference()` gives one with those of the standard primitives.
  ReferenceExecutor();

  /// This executor with a kernel for the primitive of that name, in the place of one that was there.
  /// `supported` are the dtypes for which supports() says yes.
  ReferenceExecutor with_kernel(std::string_view primitive, Kernel kernel,
                                DTypes supported = dtypes::all) const;

  std::string_view name() const override { return "reference"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override;
  bool supports(const Primitive& primitive, DType dtype) const override;
  /// Names of the primitives that have a kernel, sorted.
  std::vector<std::string> kernels() const;

 private:
  friend class KernelCall;
  friend const ReferenceExecutor& reference();
  struct Entry {
    std::string primitive;
    Kernel kernel;
    DTypes supported;
  };
  using Table = std::vector<Entry>;  // sorted by name

  const Entry* find(std::string_view primitive) const;
  std::vector<Tensor> execute(const Graph& graph, std::span<const Tensor> inputs, int depth) const;

  std::shared_ptr<const Table> table_;
};

/// The executor with the kernels of the standard primitives.
const ReferenceExecutor& reference();

}  // namespace tidu
