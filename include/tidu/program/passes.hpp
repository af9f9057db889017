// passes.hpp - the steps of Program::make, each a function from graph to graph or from graph to a part of the
// plan.
#pragma once

#include <cstddef>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/program/schedule.hpp"

namespace tidu::passes {

/// The same function without operations that only name a graph: an operation with trait holds_graph and an
/// attribute `graph` whose interface is that of the operation stands for what is in that graph, which is
/// written in its place, at any depth. The graph itself when there is no such operation. Iterative; throws
/// Error (invalid_argument) beyond `max_operations`.
Graph write_out_graphs(const Graph& graph, std::size_t max_operations);

/// By value: is it made once, when the program is compiled? Results of operations without operands, of trait
/// constant, that have at most `constant_bytes` bytes or that the operation carries as a tensor.
std::vector<bool> find_constants(const Graph& graph, std::size_t constant_bytes);

/// By value: the value whose memory it shares, because nothing but operations of trait view stands between
/// them; itself otherwise.
std::vector<ValueId> storage_roots(const Graph& graph);

/// One operation after another, in the order of the graph, without constants and without views, which need no
/// work.
Schedule sequential_schedule(const Graph& graph, const std::vector<bool>& is_constant);

/// Gives every value of the schedule a slot. Values of the workspace share memory when their lives do not
/// overlap; no two that are alive at once overlap, but where the result of an element-wise operation takes
/// the place of an operand that dies with it. Outputs are in no other value's memory; an output that is an
/// input, a constant or another output's value has no memory of its own and is copied at the end. `schedule`
/// consists of operations only.
SlotPlan assign_slots(const Graph& graph, const Schedule& schedule, const std::vector<bool>& is_constant,
                      const std::vector<ValueId>& roots, bool in_place);

/// Checks a plan by following who wrote each byte last: no operation, and no output at the end, may read what
/// something else has written since. Throws Error (internal) naming operation and value. Takes as long as
/// there are bytes in all values.
void verify_plan(const Graph& graph, const Schedule& schedule, const SlotPlan& plan);

}  // namespace tidu::passes
