// defect.hpp - steps of the library on its own graphs: an error of a public function there is no mistake of
// the caller, but a defect of the library.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "tidu/graph/error.hpp"

namespace tidu::detail {

/// An Error of kind internal that a step of the library is to blame for, and no rule of a user.
class Defect final : public Error {
 public:
  explicit Defect(const std::string& message) : Error(ErrorKind::internal, message) {}
  std::shared_ptr<Error> with_message(const std::string& message) const override {
    return std::make_shared<Defect>(message);
  }
  [[noreturn]] void raise() const override { throw Defect(*this); }
};

/// Runs a step that calls no rule; an Error (invalid_argument, type) of it becomes a Defect. `step` describes
/// it, as in "putting together backward of f".
template <class Body>
auto own_step(std::string_view step, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument && error.kind() != ErrorKind::type) throw;
    throw Defect(str(error.what(), "\n  in ", step, ": a defect of tidu, not of the program that calls it"));
  }
}

}  // namespace tidu::detail
