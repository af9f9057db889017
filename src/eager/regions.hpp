// regions.hpp - RegionRuns: iterates over the runs of the graphs in an operation, as its region bindings
// (graph/region_bindings.hpp) describe them: the steps of a loop, the branch that is taken, or the single run
// of a call. Anomaly mode uses it to find the step and operation in which a value first is not finite. The
// body of a loop runs once for each step; slices of operands are computed step by step.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eager/node.hpp"
#include "eager/operand_buffer.hpp"
#include "tidu/eager/host.hpp"
#include "tidu/graph/region_bindings.hpp"

namespace tidu::eager::detail {

/// The executor, placement and node for running graphs.
struct RegionExecution {
  const ErasedExecutor& host;
  Placement placement{};
  const NodeView* node = nullptr;
};

class RegionRuns {
 public:
  static constexpr std::int64_t max_steps = 10000;  ///< of a loop that is followed

  /// `operands`: of `operation`; they must outlive this object.
  RegionRuns(const RegionExecution& execution, const Graph& graph, const Operation& operation,
             std::vector<const void*> operands);
  /// Does the operation have runs that can be followed?
  bool known() const { return kind_ != Kind::unknown; }
  /// Advances to the next run; false after the last one.
  bool next();
  /// The graph of the present run, and its inputs.
  const Graph& graph() const { return graphs_[taken_]; }
  std::span<const void* const> inputs() const { return inputs_; }
  /// ", at step 2", ", in branch 1", or nothing.
  std::string place() const;

 private:
  enum class Kind : std::uint8_t { unknown, call, branches, loop, loop_with_condition };
  using Buffer = std::unique_ptr<OperandBuffer>;

  void find_kind();
  void find_length();
  bool takes_branch();
  bool begin_step();
  const void* row_of(std::size_t operand, std::int64_t row);
  void gather(std::size_t graph);
  Buffer run(const Graph& graph, std::span<const void* const> inputs) const;
  bool is_sliced(std::size_t operand, const RegionBinding::Port& input) const;

  const RegionExecution& execution_;
  PrimitiveSet set_;
  Op op_;
  std::vector<Type> operand_types_, result_types_;
  std::vector<const void*> operands_;  // for a loop: of the present step, with its carries
  std::vector<RegionBinding> bindings_;
  std::vector<Graph> graphs_;
  Kind kind_ = Kind::unknown;
  std::size_t taken_ = 0;      // the graph of the present run
  std::size_t condition_ = 0;  // of a loop with a condition
  std::int64_t steps_ = 0, step_ = -1, row_ = 0;
  bool reverse_ = false;
  std::vector<const void*> inputs_;
  std::vector<Buffer> slices_;  // of this step
  Buffer carries_;
};

}  // namespace tidu::eager::detail
