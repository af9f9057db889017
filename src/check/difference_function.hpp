// difference_function.hpp - the function whose differences are computed: a graph in which the values that no
// tangent flows through (results of primitives without tangent and of exact dtype) are inputs, and so are
// kept fixed. Derivatives of the graph are compared with differences of the same derivatives of this
// function, in which the values stay inputs at every order. The values are computed once, at the point of the
// test.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "check/numeric.hpp"
#include "check/subject.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::check {

/// How differences see an operation with a rule of the user's.
enum class RuleView : std::uint8_t {
  by_operands,  ///< as the function of its operands; those that no tangent goes through are kept fixed
  inside,       ///< as its graph, in which values without tangent are kept fixed too
  by_values     ///< as the function of its operands, and all of these move with the inputs: an implicit rule
};
/// By key of the operation's op; by_operands where there is none.
using RuleViews = std::vector<std::pair<Key128, RuleView>>;
RuleView view_of(const RuleViews& views, const Operation& operation);

/// Differences of `graph` by the inputs in `wrt`, which stand for those in Subject::wrt.
struct DifferenceFunction {
  Graph graph;  ///< outputs: those of the subject's graph
  std::vector<std::size_t> wrt;
  Tensors inputs;
  std::string obstacle{};  ///< why differences are meaningless; empty where they are valid
  /// Has the graph, or the graph that it derives from, custom rules with a while, which ends at its own
  /// tolerance? Its result may then change in steps.
  bool iterates = false;
};
/// If there are `views`, loops are unrolled and branches inlined, so that each view applies to the operations
/// in them.
DifferenceFunction difference_function(const Subject& subject, const Executor& executor,
                                       const RuleViews& views = {});

/// By value: does it depend on values that are kept fixed?
std::vector<bool> depending_on_fixed(const Graph& graph);
/// Is there a primitive within, but not in the rules of the user's, that gives inexact results and has no
/// tangent? Empty or its name.
std::string primitive_without_tangent(const Graph& graph);
/// The graph with inlined inner graphs; with `steps`, also with unrolled steps and branches if their number
/// is small enough. Operations with a rule of the user stay.
Graph with_graphs_inlined(const Graph& graph, bool steps);

}  // namespace tidu::check
