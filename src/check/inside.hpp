// inside.hpp - the graphs that an operation holds, as it runs them: the subjects of tests within it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "check/level.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::check {

/// The graph that an operation of the user's own rule says it with, by attribute: "jvp", "backward" or
/// "transpose"; empty for operations without.
std::string_view custom_rule(const Operation& operation);
/// The graphs in its attributes, in the order of the record.
std::vector<Graph> attribute_graphs(const Operation& operation);
/// Has one of them, or a graph that they hold, such a rule?
bool has_custom_rule(const Graph& graph);

/// Does such an operation, in its graph or in its rules, hold a while, which ends at a tolerance of its own?
bool has_iterating_rule(const Graph& graph);

/// The number of tested steps of a loop: a first step from zeros may show nothing.
inline constexpr std::size_t step_limit = 8;

/// A graph that an operation holds, at the point of one run of it.
struct Execution {
  Subject subject;
  std::string place;  ///< "the body of scan"
};
/// The runs of the one operation of `one`: the graph that it calls, the branch that cond takes, the body of a
/// loop for each of the first max_steps, the equation that is solved, at the result. None for an operation
/// with a rule of the user, without graphs, or with an unknown way to run them.
std::vector<Execution> executions(const Subject& one, const Executor& executor);

}  // namespace tidu::check
