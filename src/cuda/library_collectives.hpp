// library_collectives.hpp - collectives by NCCL over communicators that are bound to names of axes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// A communicator of NCCL (ncclComm_t) with this process's place in it.
struct BoundAxis {
  void* communicator = nullptr;
  std::int32_t rank = 0, ranks = 1;
};

/// Any thread may call it; steps over one communicator come from one thread at a time.
class CollectiveLibrary {
 public:
  /// From now on the name stands for that communicator, which its owner keeps.
  void bind(const std::string& axis_name, const BoundAxis& axis);
  /// Throws Error (execution): where the axis is not bound, or to another number of ranks, and for what the
  /// library refuses. An axis of one rank needs no library.
  void run(const CollectiveStep& step, const Bindings& at, Stream stream);

 private:
  std::mutex mutex_;
  std::map<std::string, BoundAxis, std::less<>> axes_;
};

}  // namespace tidu::cuda_detail
