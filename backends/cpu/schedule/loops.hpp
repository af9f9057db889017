// loops.hpp - tiling: finds the operations that run in tiled loops (loops.cpp), chooses the block size
// (loop_blocks.cpp) and builds the loop bodies (loop_body.cpp). All graph axes fall into classes; a loop
// tiles the axes of one class.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/cpu_target.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

/// Halves are computed in f32 and rounded.
inline bool is_half(DType dtype) { return dtype == f16 || dtype == bf16; }

/// The factors of all operations of a graph (as in Shardy's sharding rules), and the classes of axes that
/// they unite. Linear in the size of the graph.
class AxisClasses {
 public:
  explicit AxisClasses(const Graph& graph);
  /// A factor of an operation: its axis in each operand and then in the result; Factors::none where it has
  /// none.
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
  /// The class of a factor. Factors of one class tile the same axes.
  std::uint32_t class_of(std::uint32_t operation, std::uint32_t i) {
    return root(node_[first_[operation] + i]);
  }
  std::int64_t extent_of(std::uint32_t axis_class) const { return extents_[axis_class]; }
  /// The classes whose axes occur in the most bytes of results, in descending order; at most `count`.
  std::vector<std::uint32_t> largest(std::size_t count);

 private:
  std::uint32_t root(std::uint32_t node);
  void unite(std::uint32_t a, std::uint32_t b);

  const Graph& graph_;
  std::vector<std::uint32_t> first_;       // first factor, by operation
  std::vector<std::uint32_t> first_axis_;  // by factor: into axes_
  std::vector<std::int8_t> axes_;
  std::vector<std::uint32_t> node_;       // by factor: one of the axes that it unites
  std::vector<std::uint32_t> axis_base_;  // by value: number of its first axis
  std::vector<std::uint32_t> parent_;
  std::vector<std::int64_t> extents_;  // by axis
};

/// The role of an operation when one class of axes is tiled.
struct Role {
  enum class Kind : std::uint8_t {
    outside,  ///< untiled: runs on whole arrays
    cut,      ///< tiled: runs in a loop, and the result is tiled along `axis`
    sum,      ///< runs in a loop; the result is the sum of the blocks' terms
    floating  ///< rematerializable: cheap, and no operand is tiled. Runs outside if an operation there needs
              ///< it, and again in each loop that needs it
  };
  Kind kind = Kind::outside;
  int axis = -1;
  std::uint32_t factor = 0;
  /// Even: untiled. Odd: in the loop of that number. An operation reads results of earlier phases or of its
  /// own loop.
  std::uint32_t phase = 0;
};
struct Roles {
  std::int64_t extent = 0;
  std::vector<Role> of;  ///< by operation
  std::uint32_t num_phases = 1;
};
/// `always`: do not leave operations out of loops because their values are small.
Roles assign_roles(const Graph& graph, AxisClasses& classes, std::uint32_t axis_class, bool always);

/// Minimum bytes of a value that leaves the nearest caches, however many such values follow one another.
inline constexpr std::size_t large_value = cpu_detail::CpuTarget::first_level;

/// The inputs from which loops are built.
struct LoopContext {
  const Graph& graph;
  const AxisClasses& classes;
  const Roles& roles;
  const std::vector<ValueId>& roots;
  const std::vector<ValueId>& splats;
  const std::vector<bool>& escapes;  ///< by root: is it read outside its loop?
  const ProgramOptions& options;
  std::uint32_t phase;
};
/// Bytes of memory traffic that a loop over these operations saves, minus its costs; 0 if there is no gain.
double loop_gain(const LoopContext& context, const std::vector<std::uint32_t>& operations);
/// The loop over these operations, with its block size; its body is null if there is no gain.
BlockedLoop make_loop(const LoopContext& context, const std::vector<std::uint32_t>& operations);
/// The graph of the loop's operations on a block of `block` points. Its inputs become loop.operands, and its
/// outputs are loop.results.
Graph loop_body(const LoopContext& context, const std::vector<std::uint32_t>& operations, std::int64_t block,
                BlockedLoop& loop);

/// Memory of one block: temporaries, constants, packed copies of parts that are not contiguous in their
/// arrays, and accumulators. Matrices that the matmuls of all blocks read whole count too, since an executor
/// may pack them.
std::size_t block_bytes(const BlockedLoop& loop);

}  // namespace tidu::passes
