// communicator.hpp - a place in a communicator of a device's library, and names of axes that stand for some.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cuda/runtime.hpp"
#include "tidu/cuda.hpp"

namespace tidu::cuda_detail {

/// Steps refer to its handle, so programs keep it.
struct Communicator {
  Communicator(std::shared_ptr<Runtime> r, void* h, int place, int count)
      : runtime(std::move(r)), handle(h), rank(place), size(count) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { runtime->device().leave(handle); }
  std::shared_ptr<Runtime> runtime;
  void* handle;
  int rank, size;
};

using Axes = std::map<std::string, std::shared_ptr<const Communicator>, std::less<>>;

/// Gives a collective its communicator. Throws Error (execution) where its axis is not bound, unless it is of
/// one rank, or to a communicator of another size.
void bind_axes(Step& step, const Axes* axes, std::string_view operation);

}  // namespace tidu::cuda_detail
