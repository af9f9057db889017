// inside.hpp - the graphs that an operation holds, as it runs them: what is to be tested within it.
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
/// Has one of them such a rule, or what it holds?
bool has_custom_rule(const Graph& graph);

/// Does such an operation, in its graph or in its rules, hold a while, which ends at a tolerance of its own?
bool has_iterating_rule(const Graph& graph);

/// Of a loop, how many are looked at: a first step from zeros may show nothing.
inline constexpr std::size_t step_limit = 8;

/// A graph that an operation holds, at the point of one run of it.
struct Execution {
  Subject subject;
  std::string place;  ///< "the body of scan"
};
/// What the one operation of `one` runs: the graph that it stands for, the branch that cond chooses, the body
/// of a loop for each of the first max_steps, the equation that is solved, at the result. None for an
/// operation with a rule of the user's, and for one that holds nothing, or that runs it in a way not known
/// here.
std::vector<Execution> executions(const Subject& one, const Executor& executor);

}  // namespace tidu::check
