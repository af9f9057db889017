// singular.hpp - operations that are not finite, or whose derivatives are not, at finite operands: log and
// sqrt at 0, a division by 0 that a mask removes. By docs/conventions.md that is no fault of a rule, and
// there is nothing to compare there; a note names the elements.
#pragma once

#include <string>
#include <vector>

#include "check/level.hpp"

namespace tidu::check {

/// A note for each such operation of the graph of `subject`, or of graphs that its operations hold, by
/// operand and index: "operation 3, div, is not finite at operand 1 [0] and was not compared there".
std::vector<std::string> notes_on_singular_operations(const Subject& subject, const Executor& executor,
                                                      const CheckOptions& options);

}  // namespace tidu::check
