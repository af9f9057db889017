// equations.hpp - finds the wrong graph of the user if a custom_linear_solve or custom_root fails a test: the
// one that solves, if the equation does not hold at the result, or one that solves for tangents or
// cotangents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/inside.hpp"

namespace tidu::check {

/// Does the operation solve an equation of the user's?
bool solves_equation(const Operation& operation);
/// The equation of such an operation, matvec or residual, at the operation's result: "the matvec of
/// custom_linear_solve".
Execution equation_of(const Subject& one, const Executor& executor);
/// The fault of such an operation, if it fails that kind of test and the operations of its equation do not:
/// "its graph solve ("s") does not solve its graph matvec ("m"): relative error 0.1". Nothing for tests that
/// do not depend on a graph of the user.
std::optional<std::string> equation_fault(const Subject& one, CheckKind kind, const Executor& executor,
                                          const CheckOptions& options);

}  // namespace tidu::check
