// library_solver.hpp - dense linear algebra by cuSOLVER, and triangular systems by cuBLAS, on one device.
#pragma once

#include <memory>

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// Matrices of a batch are handed over one by one. Handles are kept by stream. Any thread may call it.
class SolverLibrary {
 public:
  SolverLibrary();
  ~SolverLibrary();
  /// What run() works in. The device is current. Throws Error (execution).
  std::size_t workspace_bytes(const SolverStep& step);
  /// The device is current. Throws Error: execution for what a library refuses, out_of_memory.
  void run(const SolverStep& step, const Bindings& at, Stream stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidu::cuda_detail
