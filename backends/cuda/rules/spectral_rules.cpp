// spectral_rules.cpp - eigh and svd by a solver. What is not finite, or does not converge, gives NaN; a
// solver is given zeros in its place, as some do not end on NaN.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/rules/library_rules.hpp"
#include "cuda/rules/matrix_rules.hpp"

namespace tidu::cuda_detail {
namespace {

// One call for many small matrices counts what it works in, about a thousand elements for each, in 32 bits.
constexpr std::int64_t max_of_batch = std::int64_t{1} << 18;

void append_eigenvectors(Plan& plan, const SolverStep& all, DType real) {
  const std::int64_t most = all.batched ? max_of_batch : all.batch;
  for (std::int64_t first = 0; first < all.batch; first += most) {
    SolverStep part = all;
    part.batch = std::min(most, all.batch - first);
    const auto before = static_cast<std::size_t>(first);
    part.a.offset += before * static_cast<std::size_t>(all.rows * all.columns) * size_of(all.dtype);
    part.values.offset += before * static_cast<std::size_t>(all.rows) * size_of(real);
    part.info.offset += before * sizeof(std::int32_t);
    plan.steps.emplace_back(part);
  }
}

Plan eigh(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  const Matrices x(request.in[0]);
  const DType real = real_dtype(x.work());
  const BufferRef bad = append_check(plan, x, operand(0), request);
  SolverStep step = solver_step(plan, SolverStep::Routine::syevd, x);
  step.a = append_reading(plan, x, Reading::hermitian, operand(0), &bad, request);
  step.values = take_scratch(plan, static_cast<std::size_t>(x.count * x.rows) * size_of(real));
  constexpr std::int64_t longest_of_batch = 32;  // by rotations, which the library has for so many
  step.batched = is_batched(x, longest_of_batch);
  append_eigenvectors(plan, step, real);
  Written vectors{x.count, x.rows, x.columns, x.work(), x.dtype};
  vectors.leading = x.rows;
  vectors.matrix = x.size();
  vectors.info = &step.info;
  vectors.bad = &bad;
  append_writing(plan, vectors, step.a, result(0), request);
  Written values{x.count, 1, x.rows, real, request.out[1].dtype(), false};
  values.matrix = x.rows;
  values.info = &step.info;
  values.bad = &bad;
  append_writing(plan, values, step.values, result(1), request);
  return plan;
}

// Solvers take matrices with as many rows as columns at least. One with more columns is read as it lies,
// which is its transpose V̄ S Uᵀ column by column, and its factors lie as the results do.
Plan svd(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  const Matrices x(request.in[0]);
  const std::int64_t m = x.rows, n = x.columns, k = x.smaller();
  const DType real = real_dtype(x.work());
  const std::size_t element = size_of(x.work());
  const auto count = static_cast<std::size_t>(x.count);
  const bool wide = m < n;
  const BufferRef bad = append_check(plan, x, operand(0), request);
  SolverStep step = solver_step(plan, SolverStep::Routine::gesvd, x);
  step.rows = std::max(m, n);
  step.columns = k;
  step.a = append_reading(plan, x, wide ? Reading::rows : Reading::columns, operand(0), &bad, request);
  step.values = take_scratch(plan, count * static_cast<std::size_t>(k) * size_of(real));
  step.u = take_scratch(plan, count * static_cast<std::size_t>(step.rows * k) * element);
  step.v = take_scratch(plan, count * static_cast<std::size_t>(k * k) * element);
  plan.steps.emplace_back(step);
  const auto write = [&](std::int64_t rows, std::int64_t columns, DType work, DType dtype, bool by_columns,
                         BufferRef from, BufferRef to) {
    Written how{x.count, rows, columns, work, dtype, by_columns};
    how.leading = rows;
    how.matrix = rows * columns;
    how.info = &step.info;
    how.bad = &bad;
    append_writing(plan, how, from, to, request);
  };
  write(m, k, x.work(), x.dtype, !wide, wide ? step.v : step.u, result(0));
  write(1, k, real, request.out[1].dtype(), false, step.values, result(1));
  write(k, n, x.work(), x.dtype, !wide, wide ? step.u : step.v, result(2));
  return plan;
}

constexpr RuleEntry entries[] = {{"eigh", eigh, dtypes::floats | dtypes::complexes},
                                 {"svd", svd, dtypes::floats | dtypes::complexes}};

}  // namespace

RuleTable spectral_rules() { return entries; }

}  // namespace tidu::cuda_detail
