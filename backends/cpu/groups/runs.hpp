// runs.hpp - many operations on short arrays of one length as one piece of generated code, in which every
// array is a few vectors side by side and nothing loops.
//
// Note [Runs]: a program that does the same for one step after another of a recurrence is thousands of
// operations on a few elements each, of which calling a kernel takes most of the time. Operations that stand
// one behind another in the schedule are cut where the pattern of what stands there says so, so that each
// step of the recurrence is cut at the same places; pieces that are the same but for addresses share code,
// and only what is there often enough is worth generating any.
//
// Reads and writes of memory stay in the order of the operations: the first reads all operands before it
// writes, then the second does, and so on. So what the memory plan allows of single operations holds. What
// nothing reads behind the run is not written.
//
// Every value has the bits that it has when its operation runs alone: functions of one element are those of
// the C++ library, functions of more elements those of lanes, and sums are added in the order of reduce.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/groups/vector_ir.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::cpu_detail {

/// Elements of the arrays of a run. Functions of so many elements are always those of lanes.
inline constexpr std::int64_t min_in_run = 8;
inline constexpr std::int64_t max_in_run = 63;

/// Steps (see VectorOp) on arrays of `elements` elements and on single ones. Operands and results are
/// numbered together, as pointers. What is loaded of one element, folds, and what is computed of them alone
/// has the same element in every lane.
struct RunCode {
  /// In addition to what elements have: fold_sum, fold_max and fold_min make a value; store_row stores one
  /// element, store_mask with `bits` set likewise; a call with `bits` set is of one element.
  VectorProgram lanes;
  std::int64_t elements = 0;
  friend bool operator==(const RunCode&, const RunCode&) = default;
  std::uint64_t hash() const;
};

/// Code that is ready to run, on any number of threads at once.
class RunKernel {
 public:
  using Function = void (*)(const std::byte* const* pointers);
  RunKernel(RunCode code, Function function, std::shared_ptr<const void> memory)
      : code_(std::move(code)), function_(function), memory_(std::move(memory)) {}
  void run(const std::byte* const* pointers) const { function_(pointers); }
  const RunCode& code() const { return code_; }

 private:
  RunCode code_;
  Function function_;
  std::shared_ptr<const void> memory_;
};

/// Nodes of a schedule that run as one.
struct Run {
  std::size_t first = 0, count = 0;
  std::vector<ValueId> values;  ///< by pointer
  std::shared_ptr<const RunKernel> kernel;
};
/// In the order of the schedule; none where there are no lanes, or where the program's operations are not to
/// be fused. An operation whose index is in `alone` is in none of them, unless that is empty.
std::vector<Run> find_runs(const Program& program, const CompileOptions& options,
                           const std::vector<bool>& alone);

/// May the code run in vectors of so many bytes? Longer arrays are for loops.
constexpr bool fits_run(std::int64_t elements, DType dtype, std::int64_t vector_bytes) {
  constexpr std::int64_t max_vectors = 4;
  return elements >= min_in_run && elements <= max_in_run &&
         elements * static_cast<std::int64_t>(size_of(dtype)) <= max_vectors * vector_bytes;
}

/// The C++ library's function of one element, of f32 or f64; null for those of two. In runs_plan.cpp.
const void* scalar_address_of(VectorFunction function, bool is_f64);

/// In runs_x86.cpp. Null where memory for code is not to be had.
std::shared_ptr<const RunKernel> generate(const RunCode& code, VectorUnits units);

}  // namespace tidu::cpu_detail
