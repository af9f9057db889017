// control_flow.hpp - primitives of the standard set that run a graph they hold more than once: scan. All
// modes of differentiation are derived from the graph, to any order; nothing is unrolled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Attributes: body, length, reverse, num_consts, num_carry.
extern const Primitive scan;

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

/// The same function with every scan written out, step by step, and the graphs that hold scans too: for
/// executors that know no loops. `graph` itself where there are none. Throws Error (invalid_argument) where
/// that takes more than `max_operations` operations.
Graph with_scans_written_out(const Graph& graph, std::size_t max_operations = std::size_t{1} << 20);

namespace ops {

/// `body` run `length` times, as jax.lax.scan. Operands: consts, which every step reads; the first carries;
/// and xs, of whose leading axis, of extent `length`, each step reads one slice. Inputs of body: consts,
/// carries, slices. Outputs of body: carries, of the types of those that come in, then ys. Results: the last
/// carries, then ys, each with a leading axis of extent `length` in which the slice of the step that read
/// slice i of xs has place i. Throws Error (type) naming operand, input or output where signatures do not
/// fit, for a negative length, and for a body with operations that have effects.
Values scan(const Graph& body, std::span<const Value> operands, const ScanShape& shape,
            Where where = Where::current());
Values scan(Emitter& emitter, const Graph& body, std::span<const Value> operands, const ScanShape& shape,
            Where where = Where::current());

}  // namespace ops
}  // namespace tidu
