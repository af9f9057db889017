// matmul_epilogue.hpp - matmul epilogues: a fusion that computes x + c p or x - c p from a matmul p runs as
// one step with the matmul. The result p is written only if it is an output.
//
// Note [Updates]: without an epilogue, a parameter update writes a matmul to memory and reads it again, after
// the whole parameter, at the speed of caches and memory. With it, tiles are updated in registers, and the
// processor prefetches the parameter while it multiplies.
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/kernel.hpp"
#include "cpu/matmul/gemm.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

/// The plan of a matmul of two matrices in place if it can have an epilogue, else nothing. `in_loop`: the
/// matmul is in a block of a loop, where a matmul with few terms is still in the nearest cache when its
/// fusion reads it. In matmul.cpp.
std::optional<GemmPlan> plan_matmul_for_epilogue(const PlanRequest& request, bool in_loop);

/// A fusion x + c p or x - c p.
struct MatmulEpilogue {
  std::uint32_t matmul = no_index;  ///< the matmul that computes p
  ValueId x = no_index;             ///< a root
  ValueId scale = no_index;         ///< c, or no_index if it is `literal`
  std::optional<Literal> literal;   ///< of one element
  bool subtract = false;
  ValueId kept = no_index;  ///< p if it is an output of the program, else no_index
};

/// Plans the step. Its operands are those of the matmul, x, and the scale unless it is a literal. Its results
/// are the sum, and p if it is kept.
Plan plan_matmul_epilogue(const MatmulEpilogue& update, const GemmPlan& matmul, int threads);

}  // namespace tidu::cpu_detail
