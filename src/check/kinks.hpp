// kinks.hpp - operations whose results have no derivative at the point of a test: equal operands of max,
// equal singular values. The chain rule does not hold through such a result, though values computed from it
// may have a derivative: a disagreement with differences is then no fault of a rule. That it is due to the
// point shows at points nearby, where all agrees.
#pragma once

#include <optional>
#include <string>

#include "check/level.hpp"

namespace tidu::check {

/// For a `subject` that disagrees with differences up to `order`: its first operation with such results, also
/// within inner graphs, if a point nearby has no disagreement. "operation 0, svd (file.cpp:12), has no
/// derivative there (results 0, 2)"
std::optional<std::string> kink_within(const Subject& subject, const Executor& executor,
                                       const CheckOptions& options, int order);

/// "operation 3, div (file.cpp:12)"
std::string named_operation(const Graph& graph, std::uint32_t operation);

}  // namespace tidu::check
