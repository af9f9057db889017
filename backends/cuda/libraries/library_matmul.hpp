// library_matmul.hpp - matmuls by cuBLASLt, on one device.
#pragma once

#include <memory>

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// An algorithm is chosen once for each shape and alignment, among those whose results are the same from run
/// to run. Any thread may call it.
class MatmulLibrary {
 public:
  MatmulLibrary();
  ~MatmulLibrary();
  /// Does what allocates, which may not happen while something is captured.
  void prepare();
  /// The device is current. Throws Error (execution) for what the library refuses.
  /// False, and nothing is done, where there is no algorithm for it.
  [[nodiscard]] bool run(const GemmStep& step, const Bindings& at, Stream stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidu::cuda_detail
