// watched.hpp - tensors of a device that are to be finite, looked at where they are, and asked after all
// together: anomaly mode without waiting for the device at every operation.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "cuda/runtime.hpp"

namespace tidu::cuda_detail {

class Watched {
 public:
  /// `flag` will be a bool on the device: were all elements finite?
  void add(Tensor flag, std::function<void()> report);
  /// Waits once for all, calls the reports whose flags are false until one throws, and forgets all.
  void check(Runtime& runtime);

 private:
  struct Entry {
    Tensor flag;
    std::function<void()> report;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace tidu::cuda_detail
