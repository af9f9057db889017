// is_any_of.hpp - which primitive of the standard set an operation has.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu {

/// Is it one of `others`, which are records of the standard set?
template <class... P>
bool is_any_of(const Primitive& primitive, const P&... others) {
  return ((&primitive == &others) || ...);
}
/// Has the operation one of these primitives?
template <class... P>
bool is_any_of(const Operation& operation, const P&... others) {
  return is_any_of(operation.primitive(), others...);
}

}  // namespace tidu
