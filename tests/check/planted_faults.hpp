// planted_faults.hpp - helpers of the tests of check_executor: a sound executor of tensors, in which faults
// are planted by overriding a method, and a function that makes a report.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "support/support.hpp"
#include "tidu/check/executor_kit.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {

using Check = ExecutorCheck;
using Base = TensorOperands<eager::BackwardExecutor<Tensor>>;
using Results = Base::Values;
using Inputs = std::span<const Tensor* const>;

inline ExecutorKitOptions few() {
  ExecutorKitOptions options;
  options.graphs = 12;  // not scaled: the faults show in these graphs
  options.announce = false;
  return options;
}

inline ExecutorReport report_of(const eager::BackwardExecutor<Tensor>& executor,
                                const ExecutorKitOptions& options) {
  return check_executor(executor, tensor_conversion(), options);
}

inline std::string text_of(const ExecutorReport& report) { return to_text(report).substr(0, 4000); }

/// The reference executor, for faults to be planted in. Both hooks that run graphs go through run().
class Sound : public Base {
 public:
  Result<Values> execute_forward(const eager::GraphCall& call, Inputs inputs) const override {
    return run(call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call, Inputs inputs) const override {
    return run(call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    return reference().add_operands(call, std::move(a), b);
  }

 protected:
  virtual Result<Values> run(const eager::GraphCall& call, Inputs inputs) const {
    return reference().execute_forward(call, inputs);
  }
};

}  // namespace tidu::test
