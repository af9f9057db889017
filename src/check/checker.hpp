// checker.hpp - one report of check_gradients on a graph without conversions of its dtypes.
#pragma once

#include <array>
#include <span>
#include <string>

#include "check/level.hpp"
#include "tidu/check/check_gradients.hpp"

namespace tidu::check {

/// A kind that others follow from comes before them.
inline constexpr std::array<CheckKind, num_check_kinds> kinds_in_order{
    CheckKind::linearity, CheckKind::differences, CheckKind::transpose, CheckKind::twice_transposed,
    CheckKind::batch};

/// Do two findings say that one thing is wrong, at whatever operations?
bool same_fault(const CheckFinding& a, const CheckFinding& b);

/// The report of check_gradients for these kinds of tests. Throws as it does.
CheckReport report(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor,
                   const CheckOptions& options, const Kinds& kinds);

}  // namespace tidu::check
