// implicit_rules.hpp - rules of the user that are right in another sense than as the derivative of their
// graph by its operands. The rule of a linear solve with an operand after stop_gradient that is a
// factorization, or of a root found by search, is that of the values: it agrees with differences in which all
// operands change. A rule may also keep fixed the values after a stop_gradient in its own graph. The sense
// that holds is found by trial.
#pragma once

#include "check/difference_function.hpp"
#include "check/faults.hpp"

namespace tidu::check {

/// The custom rules that are not by_operands at this point. They need not be right.
RuleViews rule_views(const Subject& subject, const Executor& executor, const CheckOptions& options);

/// test(), and where a graph with custom rules fails it against differences, once more with rule_views.
struct TestResult {
  Faults faults;
  RuleViews views;  ///< where they made a difference
};
TestResult test_with_rules(const Subject& subject, const Executor& executor, const CheckOptions& options,
                           int order, const Kinds& kinds);

}  // namespace tidu::check
