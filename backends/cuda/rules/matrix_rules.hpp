// matrix_rules.hpp - what the rules of linear algebra share: matrices between row-major operands and the
// column-major order of a solver, and not-a-number where it failed.
#pragma once

#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/compose.hpp"

namespace tidu::cuda_detail {

/// The matrices of an operand: its last two axes, leading ones being a batch.
struct Matrices {
  std::int64_t count = 1, rows = 0, columns = 0;
  DType dtype = DType::f32;
  explicit Matrices(Type type);
  std::int64_t size() const { return rows * columns; }
  std::int64_t smaller() const { return rows < columns ? rows : columns; }
  /// What a solver computes in: f32 for 16-bit types.
  DType work() const { return size_of(dtype) == 2 ? DType::f32 : dtype; }
};

/// How a matrix is read for a solver.
enum class Reading : std::uint8_t {
  columns,    ///< column by column
  hermitian,  ///< (x + xᴴ)/2 column by column
  rows,       ///< as it lies: the transpose column by column
  conjugate   ///< as it lies, conjugated
};
/// Which elements of a matrix are kept; the others become zeros.
enum class Part : std::uint8_t { all, lower, upper };

/// By matrix: i32, not zero where an element is not finite.
BufferRef append_check(Plan& plan, const Matrices& x, BufferRef from, const PlanRequest& like);
/// The matrices for a solver, in scratch memory; zeros in the place of those that `bad` tells of.
BufferRef append_reading(Plan& plan, const Matrices& x, Reading reading, BufferRef from, const BufferRef* bad,
                         const PlanRequest& like);

/// A solver's matrices, to be written as results.
struct Written {
  std::int64_t count, rows, columns;  ///< of a result
  DType work, dtype;                  ///< of the solver, of the result
  bool by_columns = true;             ///< or row by row, already in the result's order
  std::int64_t leading = 0;           ///< by columns: elements from one column to the next
  std::int64_t matrix = 0;            ///< elements from one matrix to the next
  Part part = Part::all;
  const BufferRef* info = nullptr;  ///< where it, or `bad`, is not zero all that is kept is NaN
  const BufferRef* bad = nullptr;   ///< see append_check
};
void append_writing(Plan& plan, const Written& how, BufferRef from, BufferRef to, const PlanRequest& like);

/// A step on these matrices, its `info` in scratch memory.
SolverStep solver_step(Plan& plan, SolverStep::Routine routine, const Matrices& x);

/// Addresses of the step's matrices, as many elements apart, for a call that is for all of them.
BufferRef append_pointers(Plan& plan, const SolverStep& step, BufferRef first, std::int64_t elements,
                          const PlanRequest& like);
/// Is one call for many matrices worth more than one for each? Of many small ones.
bool is_batched(const Matrices& x, std::int64_t longest);

}  // namespace tidu::cuda_detail
