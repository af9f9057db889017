// anomaly.hpp - NonFiniteError: the error of anomaly mode.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tidu/graph/error.hpp"

namespace tidu::eager {

/// The first value that is not finite: in forward order where it was recorded or saved, in backward order
/// where it is a cotangent.
class NonFiniteError : public Error {
 public:
  /// When it was met: as a result of an operation, as a seed, or as a cotangent.
  enum class Phase : std::uint8_t { forward, seed, backward };
  /// From the values of the accessors below, and the message.
  NonFiniteError(Phase phase, std::string operation, std::string where, std::uint64_t sequence,
                 const std::string& message)
      : Error(ErrorKind::non_finite, message),
        phase_(phase),
        operation_(std::move(operation)),
        where_(std::move(where)),
        sequence_(sequence) {}
  Phase phase() const noexcept { return phase_; }
  /// Name of the primitive or composite graph; empty for a seed.
  const std::string& operation() const noexcept { return operation_; }
  /// "file:line" in the user's program, or empty.
  const std::string& where() const noexcept { return where_; }
  /// Sequence number of the node, 0 when there is none.
  std::uint64_t sequence() const noexcept { return sequence_; }
  std::shared_ptr<Error> with_message(const std::string& message) const override {
    return std::make_shared<NonFiniteError>(phase_, operation_, where_, sequence_, message);
  }
  [[noreturn]] void raise() const override { throw NonFiniteError(*this); }

 private:
  Phase phase_;
  std::string operation_;
  std::string where_;
  std::uint64_t sequence_;
};

}  // namespace tidu::eager
