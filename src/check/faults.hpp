// faults.hpp - the tests of a graph order by order, and of an operation by itself. First-order faults hide
// those of second order.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "check/level.hpp"

namespace tidu::check {

/// The first level at which each kind fails.
struct Faults {
  struct Fault {
    Subject subject;
    Disagreement disagreement;
    int order;
  };
  std::array<std::optional<Fault>, num_check_kinds> of;
  std::array<double, num_check_kinds> worst{};
  std::array<std::size_t, num_check_kinds> comparisons{};
  bool cancelled = false;   ///< see LevelResult
  bool not_finite = false;  ///< was it not finite, in the same sense?
  std::vector<std::string> notes;
  bool any() const {
    return std::any_of(of.begin(), of.end(), [](const auto& fault) { return fault.has_value(); });
  }
};

constexpr Kinds just(CheckKind kind) {
  Kinds kinds{};
  kinds[index(kind)] = true;
  return kinds;
}

/// Tests of a subject, then of the graphs of its jvp and vjp, until something fails.
Faults test(const Subject& subject, const DifferenceFunction& function, const Executor& executor,
            const CheckOptions& options, int order, const Kinds& kinds);

/// An operation of `graph` by itself on these values; wrt: operands with a true flag in `active`.
Subject standalone(const Graph& graph, std::uint32_t operation, const Tensors& values,
                   const std::vector<bool>& active);

/// By value: does it depend on one of these inputs by a path of inexact values?
std::vector<bool> reached_from(const Graph& graph, std::span<const std::size_t> wrt);

}  // namespace tidu::check
