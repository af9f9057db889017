// factorization_rules.cpp - cholesky, triangular_solve, lu and qr by a solver. Matrices are copied column by
// column, factored in place and copied back; a triangular system is solved as its transpose, which is what
// row-major matrices are to a column-major solver, without copies.
#include "cuda/rules/library_rules.hpp"
#include "cuda/rules/matrix_rules.hpp"

namespace tidu::cuda_detail {
namespace {

constexpr DTypes inexact = dtypes::floats | dtypes::complexes;
// Longer matrices keep a device busy one by one.
constexpr std::int64_t longest_of_batch = 512;

Plan cholesky(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  const Matrices x(request.in[0]);
  const BufferRef bad = append_check(plan, x, operand(0), request);
  SolverStep step = solver_step(plan, SolverStep::Routine::potrf, x);
  step.a = append_reading(plan, x, Reading::hermitian, operand(0), &bad, request);
  step.batched = is_batched(x, longest_of_batch);
  if (step.batched) step.a_pointers = append_pointers(plan, step, step.a, x.size(), request);
  plan.steps.emplace_back(step);
  Written how{x.count, x.rows, x.columns, x.work(), x.dtype};
  how.leading = x.rows;
  how.matrix = x.size();
  how.part = Part::lower;
  how.info = &step.info;
  how.bad = &bad;
  append_writing(plan, how, step.a, result(), request);
  return plan;
}

// Of op(a) x = b the transpose xᵀ op(a)ᵀ = bᵀ is solved, whose matrices are those of the operands read column
// by column.
Plan triangular_solve(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  const Matrices a(request.in[0]), b(request.in[1]);
  const bool left = request.op.boolean("left_side");
  SolverStep step = solver_step(plan, SolverStep::Routine::trsm, a);
  step.lower = !request.op.boolean("lower");
  step.transposed = request.op.boolean("transpose_a");
  step.unit_diagonal = request.op.boolean("unit_diagonal");
  step.on_the_right = left;
  step.right_hand_sides = left ? b.columns : b.rows;
  const bool conjugated = request.op.boolean("conjugate_a") && is_complex(a.dtype);
  const bool narrow = a.dtype != a.work();
  step.a = conjugated || narrow ? append_reading(plan, a, conjugated ? Reading::conjugate : Reading::rows,
                                                 operand(0), nullptr, request)
                                : operand(0);
  if (narrow) {
    step.b = append_reading(plan, b, Reading::rows, operand(1), nullptr, request);
  } else {
    step.b = result();
    plan.steps.emplace_back(CopyStep{operand(1), result(), request.in[1].bytes()});
  }
  step.batched = is_batched(a, longest_of_batch) && b.size() > 0;
  if (step.batched) {
    step.a_pointers = append_pointers(plan, step, step.a, a.size(), request);
    step.b_pointers = append_pointers(plan, step, step.b, b.size(), request);
  }
  plan.steps.emplace_back(step);
  if (narrow) append_converted(plan, b.work(), b.dtype, b.count * b.size(), step.b, result(), request);
  return plan;
}

// Pivots counted from 0, and the order of rows that exchanging them one after another gives. Where elements
// became infinite on the way a solver's search may have found no row.
constexpr const char* pivots_body = R"(
    for (u64 i = 0; i < rows; ++i) order[at * rows + i] = (i32)i;
    for (u64 j = 0; j < count; ++j) {
      const i32 found = exchanged[at * count + j] - 1;
      const i32 pivot = found < (i32)j ? (i32)j : found >= (i32)rows ? (i32)rows - 1 : found;
      pivots[at * count + j] = pivot;
      const i32 other = order[at * rows + pivot];
      order[at * rows + pivot] = order[at * rows + j];
      order[at * rows + j] = other;
    }
  }
}
)";

Plan lu(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  const Matrices x(request.in[0]);
  const std::int64_t k = x.smaller();
  SolverStep step = solver_step(plan, SolverStep::Routine::getrf, x);
  if (x.size() != 0) {
    const BufferRef bad = append_check(plan, x, operand(0), request);
    step.a = append_reading(plan, x, Reading::columns, operand(0), &bad, request);
    step.b = take_scratch(plan, static_cast<std::size_t>(x.count * k) * sizeof(std::int32_t));
    step.batched = x.rows == x.columns && is_batched(x, longest_of_batch);
    if (step.batched) step.a_pointers = append_pointers(plan, step, step.a, x.size(), request);
    plan.steps.emplace_back(step);
    Written how{x.count, x.rows, x.columns, x.work(), x.dtype};
    how.leading = x.rows;
    how.matrix = x.size();
    how.bad = &bad;  // `info` tells of singular ones, which have factors
    append_writing(plan, how, step.a, result(0), request);
  }
  const std::string text =
      elements_begin(
          "const i32* __restrict__ exchanged, i32* __restrict__ pivots, i32* __restrict__ order, const u64 "
          "count, const u64 rows") +
      pivots_body;
  plan.steps.emplace_back(launch_elements(
      "lu_pivots", text, x.count,
      {argument(step.b), argument(result(1)), argument(result(2)), argument(k), argument(x.rows)},
      request.multiprocessors));
  return plan;
}

Plan qr(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  const Matrices x(request.in[0]);
  const std::int64_t k = x.smaller();
  const std::size_t element = size_of(x.work());
  SolverStep step = solver_step(plan, SolverStep::Routine::geqrf, x);
  step.a = append_reading(plan, x, Reading::columns, operand(0), nullptr, request);
  step.b = take_scratch(plan, static_cast<std::size_t>(x.count * k) * element);
  plan.steps.emplace_back(step);
  Written r{x.count, k, x.columns, x.work(), x.dtype};
  r.leading = x.rows;
  r.matrix = x.size();
  r.part = Part::upper;
  append_writing(plan, r, step.a, result(1), request);
  // The first k columns hold the reflectors, of which Q is made where they are.
  SolverStep make = step;
  make.routine = SolverStep::Routine::orgqr;
  make.columns = k;
  make.matrix_stride = x.size();
  plan.steps.emplace_back(make);
  Written q{x.count, x.rows, k, x.work(), x.dtype};
  q.leading = x.rows;
  q.matrix = x.size();
  append_writing(plan, q, step.a, result(0), request);
  return plan;
}

constexpr RuleEntry entries[] = {{"cholesky", cholesky, inexact},
                                 {"triangular_solve", triangular_solve, inexact},
                                 {"lu", lu, inexact},
                                 {"qr", qr, inexact}};

}  // namespace

RuleTable factorization_rules() { return entries; }

}  // namespace tidu::cuda_detail
