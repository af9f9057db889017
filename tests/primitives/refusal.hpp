// refusal.hpp - the result of a type rule, and the text of its errors.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/infer.hpp"

namespace tidu::test {

inline Type infer(const Primitive& primitive, const Attributes& attributes,
                  const std::vector<Type>& operands) {
  return infer_types(Op::make(primitive, attributes), operands).at(0);
}

/// The message with which the type rule refuses, or "accepted".
inline std::string refusal(const Primitive& primitive, const Attributes& attributes,
                           const std::vector<Type>& operands) {
  try {
    infer(primitive, attributes, operands);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::type);
    return error.what();
  }
  return "accepted";
}

}  // namespace tidu::test
