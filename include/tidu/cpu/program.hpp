// program.hpp - Program: a graph made ready to run. Equal operations are merged, dead ones dropped, graphs
// inside operations written out, and what is left is scheduled over numbered slots. Immutable, printable, and
// of no backend: it knows the traits of primitives and no names. A backend compiles it to something that
// runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/program/schedule.hpp"

namespace tidu {

/// What Program::make may do.
struct ProgramOptions {
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
  /// selected, with what was computed of slices before. Part of `fuse`; not for devices.
  bool shift = true;
  /// Bytes that a block's values may take, so that they stay in a core's cache.
  std::size_t block_bytes = std::size_t{1} << 20;
  /// Loops are made where they spare so many bytes of values, or more, and time; with 0 wherever they can.
  std::size_t loop_bytes = std::size_t{1} << 19;
  /// Let primitives put less work in the place of their operations, by rules that change no bit of a result
  /// (which NaN it is does not count).
  bool simplify = true;
  /// Let these rules also be such as are exact but for rounding, signs of zeros, infinities and NaNs.
  bool fast_math = false;
  /// Results of operations without operands are made once, when the program is compiled, if they have at most
  /// this many bytes (a tensor that the operation carries as an attribute: always).
  std::size_t constant_bytes = std::size_t{1} << 16;
  /// Most operations that writing out inner graphs may lead to: a few nested graphs can stand for more than
  /// any memory holds.
  std::size_t max_operations = std::size_t{1} << 26;
  friend bool operator==(const ProgramOptions&, const ProgramOptions&) = default;
};

/// Computes the outputs of a graph without inputs. A program knows no executor: who compiles hands it one, to
/// compute what depends on constants alone.
using ConstantEvaluator = std::function<std::vector<Literal>(const Graph& graph)>;

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
