// equations.hpp - which graph of the user's is at fault where a custom_linear_solve or custom_root fails a
// test: the one that solves, where the equation does not hold at the result, or one that solves for tangents
// or cotangents.
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
/// What of such an operation is at fault where it fails that kind of test and its equation, operation by
/// operation, does not: "its graph solve ("s") does not solve its graph matvec ("m"): relative error 0.1".
/// Nothing for tests that no graph of the user's decides.
std::optional<std::string> equation_fault(const Subject& one, CheckKind kind, const Executor& executor,
                                          const CheckOptions& options);

}  // namespace tidu::check
