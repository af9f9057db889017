// watched.hpp - tensors of a device that are to be finite, looked at where they are, and asked after all
// together: anomaly mode without waiting for the device at every operation.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/runtime.hpp"

namespace tidu::cuda_detail {

class Watched {
 public:
  Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched();
  /// `flag` will be a bool on the device: were all elements finite? It is copied to the host by its own
  /// stream, which may end before anyone asks.
  void add(const Tensor& flag, std::function<void()> report);
  /// Waits once for all, calls the reports whose flags are false until one throws, and forgets all. One
  /// thread at a time: who comes second finds what the first was told.
  void check(Runtime& runtime);

 private:
  struct Entry {
    Memory flag;   // pinned
    Event copied;  // behind the copy
    std::function<void()> report;
  };
  static void drop(Runtime& runtime, const std::vector<Entry>& entries) noexcept;

  std::mutex asked_;  // before the other
  std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;  // of the entries
  std::vector<Entry> entries_;
};

}  // namespace tidu::cuda_detail
