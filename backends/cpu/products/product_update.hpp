// product_update.hpp - fused groups that add a product of matrices, or that product times a number, to an
// array or subtract it: one step, in which the product is in memory only if somebody asks for it.
//
// Note [Updates]: what changes a parameter by a gradient would write the product and read it again, behind
// all of the parameter, and take as long as caches and memory do. Where the product's tiles are changed in
// registers, what they are added to is brought nearer while the processor multiplies.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/products/gemm.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The product of two matrices where they lie if it may be an update, else none. Of a block of a loop,
/// `in_loop`: a product of few terms is in the nearest cache when its group writes past it. In product.cpp.
std::optional<GemmPlan> plan_product_update(const PlanRequest& request, bool in_loop);

/// A group x + c p or x - c p.
struct ProductUpdate {
  std::uint32_t product = no_index;  ///< the operation that makes p
  ValueId x = no_index;              ///< a root, as is
  ValueId scale = no_index;          ///< c; none where it is `literal`
  std::optional<Literal> literal;    ///< of one element
  bool subtract = false;
  ValueId kept = no_index;  ///< p, where it is an output of the program, too
};

/// By position of the group: those whose product no other node reads. `alone` says by operation whether it is
/// a step of its own and no more than that.
std::unordered_map<std::size_t, ProductUpdate> find_updates(const Program& program,
                                                            const std::vector<passes::NodeValues>& values,
                                                            const std::vector<bool>& alone);

/// The step: its operands are the product's, x, and the scale unless it is a literal; its results the sum,
/// and the product if it is kept.
Plan plan_update(const ProductUpdate& update, const GemmPlan& product, int threads);

}  // namespace tidu::cpu_detail
