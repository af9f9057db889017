// lazy_runner.hpp - LazyRunner: the executor and placement of a trace.
#pragma once

#include "tidu/cpu/executor.hpp"
#include "tidu/eager/executor.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

struct LazyRunner {
  const eager::BackwardExecutor<Tensor>* executor = nullptr;
  const CpuExecutor* cpu = nullptr;  ///< the executor, if it is a CpuExecutor
  eager::Placement placement{};
  friend bool operator==(const LazyRunner&, const LazyRunner&) = default;
};

}  // namespace tidu::frontend_detail
