// step_graph.hpp - StepGraph: the steps that the CPU compiler compiles. A step is an operation, a fusion or a
// loop at the top level of a schedule, together with the operations that it absorbs. The passes of
// step_passes.hpp change steps; after them, buffers are assigned and each step becomes one instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/fusion/fused.hpp"
#include "cpu/kernel.hpp"
#include "cpu/operation_plans.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// A step. Without changes it does exactly the work of its node.
struct Step {
  /// Values that the step reads from memory and writes there, including those of absorbed operations.
  passes::NodeValues values;
  bool absorbed = false;  ///< another step does the work; there is no instruction
  /// Of an operation that adds to its result in place: the addition that it absorbs. Else no_index.
  std::uint32_t addition = no_index;
  std::unique_ptr<const Plan> plan;                    ///< replaces the plan of the node, or null
  std::unique_ptr<PrologueAndEpilogue> around_fusion;  ///< of a fusion, or null
};

/// The steps of a program, by position in its schedule; positions within a fusion or loop have an empty step.
/// Refers to the constructor's arguments.
class StepGraph {
 public:
  /// `custom_kernels`: kernels of other projects implement whole operations only, so most passes leave them
  /// alone. `max_kept`: maximum bytes of a root that copy elision keeps alive for several elided copies, or
  /// of a result that it creates before all its parts are computed.
  StepGraph(const Program& program, OperationPlans& plans, const CompileOptions& options,
            const CallSite& call_site, bool custom_kernels, std::size_t max_kept);

  const Program& program() const { return program_; }
  const Graph& graph() const { return program_.graph(); }
  const std::vector<ScheduleNode>& nodes() const { return program_.schedule().nodes; }
  OperationPlans& plans() const { return plans_; }
  const CompileOptions& options() const { return options_; }
  const CallSite& call_site() const { return call_site_; }
  bool custom_kernels() const { return custom_kernels_; }
  std::size_t max_kept() const { return max_kept_; }
  /// Has the schedule fusions or loops?
  bool has_composites() const { return has_composites_; }

  /// Fills the steps if there are none yet; before that, the program is compiled as it is scheduled.
  /// Linear in the size of the program.
  void make_steps();
  /// Are there no steps?
  bool empty() const { return steps_.empty(); }
  std::vector<Step>& steps() { return steps_; }
  const std::vector<Step>& steps() const { return steps_; }
  Step& at(std::size_t position) { return steps_[position]; }
  const Step& at(std::size_t position) const { return steps_[position]; }
  /// Calls body(position) for each node at the top level, in order.
  template <class Body>
  void for_each(const Body& body) const {
    for (std::size_t i = 0; i < nodes().size(); i += nodes()[i].size) body(i);
  }
  /// Is the node a fusion of element-wise operations, and no row fusion?
  bool is_loop_fusion(std::size_t position) const {
    return nodes()[position].kind == NodeKind::fusion && nodes()[position].index == 0;
  }

  /// The position of an operation that is in no fusion and no loop; of others no_index.
  std::uint32_t position_of(std::uint32_t operation) const { return position_of_[operation]; }
  /// Is the operation a step that no pass has changed yet?
  bool is_unchanged(std::uint32_t operation) const;
  /// May a pass give the operation another plan, or absorb it? It is a step that no pass has changed, all its
  /// elements are demanded, and it reads no accumulator.
  bool can_replan(std::uint32_t operation) const {
    return is_unchanged(operation) && plans_.reads_of(operation) == nullptr && !reads_accumulator(operation);
  }
  /// Marks a standalone operation as absorbed.
  void absorb(std::uint32_t operation) { steps_[position_of_[operation]].absorbed = true; }
  /// The prologue and epilogue of the fusion at that position, which are created if it has none.
  PrologueAndEpilogue& prologue_and_epilogue(std::size_t position) {
    std::unique_ptr<PrologueAndEpilogue>& fusion = steps_[position].around_fusion;
    if (!fusion) fusion = std::make_unique<PrologueAndEpilogue>();
    return *fusion;
  }
  /// Does the operation read the value so far of an accumulator (see CallSite::sums)?
  bool reads_accumulator(std::uint32_t operation) const;
  /// The number of steps that read each root, absorbed ones included; outputs count two more.
  std::vector<std::uint32_t> count_readers() const;

  /// Operands of concatenations that are computed within the result.
  std::vector<passes::SubBuffer> sub_buffers;

  /// Call it after the last pass: clears the values of absorbed steps, and returns the program with buffers
  /// for the values that steps read and write. Returns the program itself if no pass changed a step.
  Program assign_buffers();
  /// By operation: may it not be part of a straight-line kernel, as a pass changed it? Empty: none.
  std::vector<bool> changed_operations() const;

 private:
  bool is_as_scheduled() const;

  const Program& program_;
  OperationPlans& plans_;
  const CompileOptions& options_;
  const CallSite& call_site_;
  const bool custom_kernels_;
  const bool has_composites_;
  const std::size_t max_kept_;
  std::vector<Step> steps_;
  std::vector<std::uint32_t> position_of_;  // by operation
};

}  // namespace tidu::cpu_detail
