// final_callbacks.hpp - FinalCallbacks: the callbacks that hooks add for the end of a backward call.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace tidu::eager::detail {

class FinalCallbacks {
 public:
  /// For hooks, on any thread, and for callbacks themselves.
  void add(std::function<void()> callback) {
    const std::lock_guard<std::mutex> lock(mutex_);
    callbacks_.push_back(std::move(callback));
  }
  /// Calls all of them in the order in which they were added, and then throws the first exception of one.
  void run() {
    std::exception_ptr failure;
    for (std::size_t i = 0;; ++i) {
      std::function<void()> callback;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (i == callbacks_.size()) break;
        callback = std::move(callbacks_[i]);
      }
      try {
        callback();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace tidu::eager::detail
