// is_any_of.hpp - comparison of a primitive with records of the standard set, by address.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu {

/// Is `primitive` one of `others`, which are records of the standard set?
template <class... P>
bool is_any_of(const Primitive& primitive, const P&... others) {
  return ((&primitive == &others) || ...);
}
/// Is the operation's primitive one of `others`?
template <class... P>
bool is_any_of(const Operation& operation, const P&... others) {
  return is_any_of(operation.primitive(), others...);
}

}  // namespace tidu
