// attribute_error.hpp - the error for an attribute that a primitive does not have.
#pragma once

#include <string>
#include <string_view>

#include "tidu/graph/error.hpp"
#include "tidu/graph/primitive.hpp"

namespace tidu::detail {

/// `unknown attribute "axis": expected one of [axes]`, to follow the primitive's name; `name` is quoted.
inline std::string unknown_attribute(const Primitive& primitive, const Printable& name) {
  std::string known;
  for (const AttributeSpec& spec : primitive.attributes) known += str(known.empty() ? "" : ",", spec.name);
  return str("unknown attribute ", name, ": expected ",
             known.empty() ? std::string("none") : str("one of [", known, ']'));
}

}  // namespace tidu::detail
