// program.hpp - Program: a graph prepared for the CPU. It holds the optimized graph
// (tidu/optimizer/optimize.hpp), a schedule in which operations are fused and tiled, and a buffer assignment:
// a slot of memory for each value. It is immutable and printable. CpuExecutor compiles it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tidu/cpu/passes.hpp"
#include "tidu/cpu/schedule.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/optimizer/optimize.hpp"

namespace tidu {

/// Options of Program::make, including those of optimize().
struct ProgramOptions : OptimizeOptions {
  /// Let the result of an element-wise operation take the memory of an operand that nothing reads later.
  bool in_place = true;
  /// Fuse element-wise operations with equal numbers of elements, so that their intermediate values take no
  /// memory.
  bool fuse = true;
  /// Tile operations that share an axis, if that saves memory traffic. Sums over the axis are then added in
  /// another order, by blocks, which does not depend on the number of threads.
  bool block = true;
  /// Turn pads and rolls that element-wise operations read into offset views of whole arrays and a select,
  /// together with the element-wise work on slices before them. Part of `fuse`.
  bool offset_views = true;
  /// The former name of `offset_views`, deprecated: the pass runs if both are true.
  bool shift = true;
  /// Maximum bytes of the values of a block, which should fit in a core's cache.
  std::size_t block_bytes = std::size_t{1} << 20;
  /// Minimum bytes of values that a loop must keep out of memory; it must save time too. 0: tile wherever
  /// possible.
  std::size_t loop_bytes = std::size_t{1} << 19;
  /// Further rewrites, which can be disabled one by one.
  CpuPasses passes{};
  friend bool operator==(const ProgramOptions&, const ProgramOptions&) = default;
};

/// A cheap handle. Copies share the data, and any thread may read it.
class Program {
 public:
  /// Same as ProgramOptions.
  using Options = ProgramOptions;

  /// A program without inputs, operations or outputs.
  Program();
  /// Makes the program of a graph. Linear in the size of the graph. Inputs and outputs keep their order; an
  /// input that nothing reads stays an input. Without an evaluator, constants are not folded. Throws Error
  /// (invalid_argument) for a graph with externals, and if inner graphs exceed `max_operations`.
  static Program make(const Graph& graph, const Options& options = Options(),
                      const ConstantEvaluator& evaluate = nullptr);
  static Result<Program> try_make(const Graph& graph, const Options& options = Options(),
                                  const ConstantEvaluator& evaluate = nullptr);
  /// A copy with another memory plan, as of an executor that fuses nodes further and so needs less memory.
  Program with_plan(SlotPlan plan) const;

  /// The optimized graph to which the schedule refers.
  const Graph& graph() const { return data_->graph; }
  const Schedule& schedule() const { return data_->schedule; }
  const SlotPlan& plan() const { return data_->plan; }
  const Options& options() const { return data_->options; }
  /// Alias roots (of values that alias one buffer, the one that was computed), indexed by value: see
  /// passes::alias_roots.
  const std::vector<ValueId>& roots() const { return data_->roots; }
  /// Splats, indexed by value: see passes::find_splats.
  const std::vector<ValueId>& splats() const { return data_->splats; }
  /// The slot of a value; no_index if it has no memory, as values within a fusion.
  SlotId slot_of(ValueId value) const { return data_->plan.slot_of[value]; }
  /// The slot with that number.
  const Slot& slot(SlotId id) const { return data_->plan.slots[id]; }
  /// Is output `position` written directly to the returned tensor? If not, it is copied there from its
  /// value's slot at the end.
  bool is_written_directly(std::size_t position) const {
    const Slot& place = slot(slot_of(graph().outputs()[position]));
    return place.storage == Storage::output && place.index == position;
  }

  /// Bytes of temporaries of a run on one thread.
  std::size_t workspace_bytes() const { return plan().small_bytes + plan().large_bytes + plan().block_bytes; }
  /// Predicted peak memory in bytes, without inputs: temporaries, constants and outputs.
  std::size_t peak_bytes() const { return workspace_bytes() + plan().constant_bytes + plan().output_bytes; }

 private:
  struct Data {
    Graph graph;
    Schedule schedule;
    SlotPlan plan;
    std::vector<ValueId> roots, splats;
    Options options;
  };
  explicit Program(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

/// Readable text: inputs and constants with their slots, one node a line, indented by depth, and the memory
/// plan at the end.
std::string to_text(const Program& program);
/// Writes to_text(program).
std::ostream& operator<<(std::ostream& out, const Program& program);
/// The text of any schedule over `graph`, with the slots of `plan`.
std::string to_text(const Graph& graph, const Schedule& schedule, const SlotPlan& plan);

}  // namespace tidu
