// program.hpp - Program: a graph made ready to run on a CPU. It is optimized (tidu/optimizer/optimize.hpp),
// its operations are fused, tiled and scheduled, and its values assigned to numbered slots. Immutable and
// printable. CpuExecutor compiles it.
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

/// What Program::make may do, and optimize() before it.
struct ProgramOptions : OptimizeOptions {
  /// Let the result of an element-wise operation take the place of an operand that nobody reads afterwards.
  bool in_place = true;
  /// Let element-wise operations on as many elements run together, without memory between them.
  bool fuse = true;
  /// Let operations that share an axis run on one block of it after another, where that spares memory. Sums
  /// over the axis are then added up in another order: that of blocks, whatever the number of threads.
  bool block = true;
  /// Let equal products that do not need one another stand side by side, where each is too small for threads
  /// to share. Part of `fuse`.
  bool group_products = true;
  /// Let pads and rolls that element-wise operations read be all elements at a distance, of which some are
  /// selected, with what was computed of slices before. Part of `fuse`.
  bool shift = true;
  /// Bytes that a block's values may take, so that they stay in a core's cache.
  std::size_t block_bytes = std::size_t{1} << 20;
  /// Loops are made where they spare so many bytes of values, or more, and time; with 0 wherever they can.
  std::size_t loop_bytes = std::size_t{1} << 19;
  /// Further rewrites, each of which can be left out.
  CpuPasses passes{};
  friend bool operator==(const ProgramOptions&, const ProgramOptions&) = default;
};

/// A cheap handle; copies share, and any thread may read.
class Program {
 public:
  /// As ProgramOptions.
  using Options = ProgramOptions;

  /// The program without inputs, operations or outputs.
  Program();
  /// Linear in the size of the graph. Inputs and outputs keep their order; an input that nothing reads stays
  /// an input. Without an evaluator nothing is computed while the program is made. Throws Error
  /// (invalid_argument) for a graph with externals, and for inner graphs that go beyond `max_operations`.
  static Program make(const Graph& graph, const Options& options = Options(),
                      const ConstantEvaluator& evaluate = nullptr);
  static Result<Program> try_make(const Graph& graph, const Options& options = Options(),
                                  const ConstantEvaluator& evaluate = nullptr);
  /// The same with another memory plan: that of who runs some of its nodes as one, and so needs less.
  Program with_plan(SlotPlan plan) const;

  /// The operations that the schedule refers to, simplified.
  const Graph& graph() const { return data_->graph; }
  const Schedule& schedule() const { return data_->schedule; }
  const SlotPlan& plan() const { return data_->plan; }
  const Options& options() const { return data_->options; }
  /// By value: see passes::storage_roots.
  const std::vector<ValueId>& roots() const { return data_->roots; }
  /// By value: see passes::find_splats.
  const std::vector<ValueId>& splats() const { return data_->splats; }
  /// Where a value lives; no_index for one without memory, which nobody makes or reads but within a group.
  SlotId slot_of(ValueId value) const { return data_->plan.slot_of[value]; }
  /// The slot of that number.
  const Slot& slot(SlotId id) const { return data_->plan.slots[id]; }
  /// Is output `position` written where it is handed back? If not, it is copied there from its value's slot
  /// at the end.
  bool is_written_directly(std::size_t position) const {
    const Slot& place = slot(slot_of(graph().outputs()[position]));
    return place.storage == Storage::output && place.index == position;
  }

  /// Bytes of temporaries while it runs, on one thread.
  std::size_t workspace_bytes() const { return plan().small_bytes + plan().large_bytes + plan().block_bytes; }
  /// Predicted peak above the inputs: temporaries, constants and outputs.
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

/// Readable text: inputs and constants with their slots, one node a line, indented by depth, the memory plan
/// at the end.
std::string to_text(const Program& program);
/// Writes the text of to_text.
std::ostream& operator<<(std::ostream& out, const Program& program);
/// The text of a schedule of any shape over `graph`, with the slots of `plan`.
std::string to_text(const Graph& graph, const Schedule& schedule, const SlotPlan& plan);

}  // namespace tidu
