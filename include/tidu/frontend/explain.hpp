// explain.hpp - why an Array gets no gradient, or a zero one.
#pragma once

#include <string_view>

#include "tidu/eager/explain.hpp"
#include "tidu/frontend/array.hpp"

namespace tidu {

/// Why does `target` get no gradient from `root`, an Array of one element, or a zero one? `.text` says it in
/// words: absent: "w" reaches the root only through argmax (head.cpp:77), which has no derivative. Operations
/// without derivative are known where they ran under an ExplainGuard. Throws Error (invalid_argument) for
/// Arrays that are being traced.
eager::Explanation explain(const Array& target, const Array& root, std::string_view name = {},
                           Where where = Where::current());

}  // namespace tidu
