// failure.hpp - errors of a backward call: FirstError keeps the first of several, and explain_failure() names
// the node and phase of one.
#pragma once

#include <exception>
#include <mutex>

#include "eager/node.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager::detail {

/// The error of a backward call. Several threads may keep one at the same time.
class FirstError {
 public:
  /// Has no effect if an earlier error is kept.
  void keep(std::exception_ptr error) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  /// Throws the error, if there is one. No other thread may use the object any more.
  void raise() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// Must be called in the handler of `error`: throws it again, with the node and phase.
[[noreturn]] void explain_failure(const Error& error, const Node& node, const char* phase);

/// Names of phases, for messages.
struct BackwardPhase {
  static constexpr const char* move = "record or wait";
  static constexpr const char* add = "add_operands";
  static constexpr const char* hook = "a hook";
};

}  // namespace tidu::eager::detail
