// implicit.hpp - functions that the rules of implicit functions share (custom_linear_solve, custom_root):
// tangents of a graph by its parameters, the transpose of a linear graph, and a dense solution of small
// linear systems. Graphs have the form f(parameters..., x...).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "primitives/inner_graphs.hpp"

namespace tidu::prim {

/// The first graph of a list that has one or none.
std::optional<Graph> optional_graph(const Op& op, std::string_view attribute);
/// Refuses a number of constants out of [0, operands); the operands after these are floating or complex.
std::size_t require_num_consts(const InferContext& c);
/// Refuses a list of more than one graph.
void require_optional(const InferContext& c, std::string_view attribute);
/// The roles of those operands of the operation, by their types: "which is const" and `others`.
std::vector<Slot> operand_slots(const InferContext& c, std::size_t num_consts, std::string_view others);

/// By output of `graph`: the tangent at (operands, x) by the first operands of the operation, `num_consts` of
/// them; none where it is zero.
std::vector<std::optional<Value>> tangents_by_consts(JvpContext& c, const Graph& graph,
                                                     std::size_t num_consts, std::span<const Value> x);
/// A graph that is linear in the inputs with a true flag, transposed: from the other inputs and a cotangent
/// of each output to one of each linear input, zeros where it is absent.
Graph transposed_graph(RuleServices& host, const Graph& graph, const std::vector<bool>& linear);

/// Can dense_solution solve for unknowns of these types: f32 and c64, or f64 and c128?
bool has_dense_solution(std::span<const Type> unknowns);
/// The graph of the parameters and a right-hand side that solves `map`, which is linear in the inputs after
/// the first `count` and has outputs of their types; `transposed`: the transposed map. By LU factors of the
/// matrix, complex numbers being two real ones, so that the map need not be linear over complex numbers.
Graph dense_solution(RuleServices& host, const Graph& map, std::size_t count, bool transposed);

}  // namespace tidu::prim
