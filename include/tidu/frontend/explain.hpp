// explain.hpp - explains why an Array gets no gradient, or a zero one; and access to the tape for inspection.
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

/// The tape's record of an Array, for functions that inspect a tape: eager::to_json, to_dot and to_html of a
/// list of these show the operations that backward from them would run and the values that are kept for it.
/// It has no trace if nothing was recorded. Throws Error (invalid_argument) for an Array that is being
/// traced.
eager::EagerOutput tape_output(const Array& root, Where where = Where::current());

}  // namespace tidu
