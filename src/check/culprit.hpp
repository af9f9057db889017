// culprit.hpp - finds the wrong rule and its primitive when an operation fails a test by itself.
#pragma once

#include <optional>
#include <string>

#include "check/faults.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::check {

/// A rule, and how it is known.
struct Culprit {
  std::string primitive;
  std::optional<ADRuleError::Rule> rule;
  std::string cause;                    ///< in words
  std::string place = {};               ///< where it is, within graphs that the operation holds
  std::vector<Graph> custom_rule = {};  ///< see CheckFinding
};
/// The culprit in the one operation of `one`, which fails `kind` according to `faults`. Searches the graphs
/// that it holds.
Culprit find_culprit(const Subject& one, CheckKind kind, const Faults& faults, const Executor& executor,
                     const CheckOptions& options);

/// A relative error in a message.
std::string figure(double error);

}  // namespace tidu::check
