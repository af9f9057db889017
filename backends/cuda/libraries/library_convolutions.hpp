// library_convolutions.hpp - convolutions by cuDNN, on one device.
#pragma once

#include <memory>

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// An algorithm is chosen once for each step's extents, among those whose results are the same from run to
/// run and that its workspace is enough for. Any thread may call it.
class ConvolutionLibrary {
 public:
  ConvolutionLibrary();
  ~ConvolutionLibrary();
  /// Does what allocates, which may not happen while something is captured.
  void prepare();
  /// The device is current. Throws Error (execution) for what the library refuses, or where tidu was built
  /// without its headers.
  void run(const ConvolutionStep& step, const Bindings& at, Stream stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidu::cuda_detail
