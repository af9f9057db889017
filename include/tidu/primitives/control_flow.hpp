// control_flow.hpp - primitives of the standard set that run a graph they hold more than once, or one of
// several: scan, while and cond. All modes of differentiation are derived from the graphs, to any order (for
// a while without a bound only forward ones); nothing is unrolled. Results that are not read are eliminated
// from programs and derivatives, with the operations that compute only them: see eliminate_dead_code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Attributes: body, length, reverse, num_consts, num_carry.
extern const Primitive scan;
/// Attributes: branches.
extern const Primitive cond;
/// "while". Attributes: cond, body, max_steps, num_consts.
extern const Primitive while_loop;

/// The records of this header.
std::vector<const Primitive*> control_flow_primitives();

}  // namespace tidu::prim

namespace tidu {

/// How ops::scan runs its body.
struct ScanShape {
  std::int64_t length = 0;     ///< how many steps, 0 or more
  bool reverse = false;        ///< from the last slice to the first
  std::size_t num_consts = 0;  ///< operands that every step reads whole: the first ones
  std::size_t num_carry = 0;   ///< operands that go from step to step: those after them
};

/// How ops::while_loop runs its body.
struct WhileShape {
  std::size_t num_consts = 0;  ///< operands that every step reads and that are no results: the first ones
  /// The loop ends after that many steps, whatever cond says.
  std::optional<std::int64_t> max_steps = std::nullopt;
};

/// The same function without control flow, for executors that have none: every scan and every while with a
/// bound is unrolled, and every cond replaced by all its branches and a selection between their results, also
/// in the graphs of operations. Returns `graph` itself if there is no control flow. A while without a bound
/// stays, and so do operations for which `stays` is true, with their graphs. Throws Error (invalid_argument)
/// if the result has more than `max_operations` operations.
Graph with_control_flow_unrolled(const Graph& graph, std::size_t max_operations = std::size_t{1} << 20,
                                 const std::function<bool(const Operation&)>& stays = {});

/// The name that it had.
[[deprecated("use with_control_flow_unrolled")]] inline Graph with_control_flow_written_out(
    const Graph& graph, std::size_t max_operations = std::size_t{1} << 20,
    const std::function<bool(const Operation&)>& stays = {}) {
  return with_control_flow_unrolled(graph, max_operations, stays);
}

namespace ops {

/// `body` run `length` times, as jax.lax.scan. Operands: consts, which every step reads; the first carries;
/// and xs, with a leading axis of extent `length`, of which each step reads one slice. Inputs of body:
/// consts, carries, slices. Outputs of body: carries, of the types of its input carries, then ys. Results:
/// the last carries, then ys, each with a leading axis of extent `length`: slice i is from the step that read
/// slice i of xs. Throws Error (type) naming operand, input or output if signatures do not fit, for a
/// negative length, and for a body with operations that have effects.
Values scan(const Graph& body, std::span<const Value> operands, const ScanShape& shape,
            Where where = Where::current());
Values scan(Emitter& emitter, const Graph& body, std::span<const Value> operands, const ScanShape& shape,
            Where where = Where::current());

/// One of `branches` run on `operands`, as jax.lax.cond and jax.lax.switch: the branch at `index`. The index
/// is a scalar i32 that is clamped to the range, or bool for two branches: false takes the first, true the
/// second. All branches have inputs of the types of `operands` and the same types of outputs, which are those
/// of the results. Only the selected branch runs, with two exceptions: on executors without control flow, and
/// under batch with an index that differs between examples. There every branch runs, and results are
/// selected. Throws Error (type) naming branch and operand, input or output if signatures do not fit, for an
/// index of another type, without branches, and for branches with operations that have effects.
Values cond(Value index, std::span<const Graph> branches, std::span<const Value> operands,
            Where where = Where::current());

/// `body` run while `cond` holds, as jax.lax.while_loop. Operands: consts, which cond and every step read,
/// and the first carries. Inputs of cond and of body: consts, carries. cond has one bool output, body the
/// next carries, of the types of its input carries. Results: the last carries. A carry that body returns
/// unchanged is treated as a const. A loop that never ends is the caller's mistake, which is not detected.
/// Forward derivatives are loops. Backward ones need `max_steps`: they are those of a scan of that many
/// steps, and take its memory. Throws Error (type) naming operand, input or output if signatures do not fit,
/// for a negative bound, and for graphs with operations that have effects.
Values while_loop(const Graph& cond, const Graph& body, std::span<const Value> operands,
                  const WhileShape& shape = {}, Where where = Where::current());
Values while_loop(Emitter& emitter, const Graph& cond, const Graph& body, std::span<const Value> operands,
                  const WhileShape& shape = {}, Where where = Where::current());

}  // namespace ops
}  // namespace tidu
