// loops.hpp - how blocked loops are found (loops.cpp), cut (loop_blocks.cpp) and made.
#pragma once

#include <cstdint>
#include <vector>

#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

/// Computed in f32, and rounded.
inline bool is_half(DType dtype) { return dtype == f16 || dtype == bf16; }

/// The factors of every operation of a graph, one after another, and which axes belong together through them.
/// Linear.
class AxisClasses {
 public:
  explicit AxisClasses(const Graph& graph);
  /// A factor of an operation: an axis of each operand, then one of the result, or Factors::none.
  struct Factor {
    const std::int8_t* axes;
    std::uint32_t num_operands;
    int of_operand(std::size_t i) const { return axes[i]; }
    int of_result() const { return axes[num_operands]; }
  };
  std::uint32_t num_factors(std::uint32_t operation) const {
    return first_[operation + 1] - first_[operation];
  }
  Factor factor(std::uint32_t operation, std::uint32_t i) const;
  /// The class of a factor; factors of one class cut the same axes.
  std::uint32_t class_of(std::uint32_t operation, std::uint32_t i) {
    return root(node_[first_[operation] + i]);
  }
  std::int64_t extent_of(std::uint32_t axis_class) const { return extents_[axis_class]; }
  /// Classes of the axes that lead to most bytes of results, the first one first, at most `count`.
  std::vector<std::uint32_t> largest(std::size_t count);

 private:
  std::uint32_t root(std::uint32_t node);
  void unite(std::uint32_t a, std::uint32_t b);

  const Graph& graph_;
  std::vector<std::uint32_t> first_;       // by operation: its first factor
  std::vector<std::uint32_t> first_axis_;  // by factor: into axes_
  std::vector<std::int8_t> axes_;
  std::vector<std::uint32_t> node_;       // by factor: one of the axes that it unites
  std::vector<std::uint32_t> axis_base_;  // by value: its first axis among all axes
  std::vector<std::uint32_t> parent_;
  std::vector<std::int64_t> extents_;  // by axis
};

/// What happens to an operation where one class of axes is cut in blocks.
struct Role {
  enum class Kind : std::uint8_t {
    outside,  ///< runs on whole arrays
    cut,      ///< runs in a loop: the result is cut along `axis`
    sum,      ///< runs in a loop: the result is the sum of the blocks' terms
    floating  ///< runs outside if something outside needs it, and anew in every loop that does: it makes
              ///< little of nothing that is cut
  };
  Kind kind = Kind::outside;
  int axis = -1;
  std::uint32_t factor = 0;
  /// Even: outside. Odd: in the loop of that number. An operation reads what an earlier phase or its own loop
  /// makes.
  std::uint32_t phase = 0;
};
struct Roles {
  std::int64_t extent = 0;
  std::vector<Role> of;  ///< by operation
  std::uint32_t num_phases = 1;
};
/// `always`: small values are no reason to leave anything out of loops.
Roles assign_roles(const Graph& graph, AxisClasses& classes, std::uint32_t axis_class, bool always);

/// Bytes from which on a value is not in the nearest caches anyway, however many there are one after another.
inline constexpr std::size_t large_value = std::size_t{1} << 15;

/// What loops are made of.
struct LoopContext {
  const Graph& graph;
  const AxisClasses& classes;
  const Roles& roles;
  const std::vector<ValueId>& roots;
  const std::vector<ValueId>& splats;
  const std::vector<bool>& escapes;  ///< by value that is a root: does something outside its loop read it?
  const ProgramOptions& options;
  std::uint32_t phase;
};
/// Bytes that the loop over these operations spares, less what it costs in bytes; 0 where there is no gain.
double loop_gain(const LoopContext& context, const std::vector<std::uint32_t>& operations);
/// The loop over these operations, its blocks chosen; one without a body when there is nothing to gain.
BlockedLoop make_loop(const LoopContext& context, const std::vector<std::uint32_t>& operations);
/// The loop's operations on a block of so many points, which leaves loop.results and reads what become
/// loop.operands.
Graph loop_body(const LoopContext& context, const std::vector<std::uint32_t>& operations, std::int64_t block,
                BlockedLoop& loop);

/// Bytes that a block needs: temporaries, constants, parts of arrays that do not lie side by side in the
/// whole, sums, and what products of all blocks read whole, as matrices whose rows they sum along: an
/// executor may keep those in another order meanwhile.
std::size_t block_bytes(const BlockedLoop& loop);

}  // namespace tidu::passes
