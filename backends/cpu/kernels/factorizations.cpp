// factorizations.cpp - cholesky, triangular_solve, lu and qr of batches of matrices.
#include "cpu/kernels/decompositions.hpp"
#include "cpu/kernels/matrices.hpp"

namespace tidu::cpu_detail {

namespace baseline {
extern const AllDecompositions all;
}
#if defined(__x86_64__)
namespace avx2 {
extern const AllDecompositions all;
}
#endif

namespace {

const AllDecompositions& all_decompositions(InstructionSet limit) {
#if defined(__x86_64__)
  if (limit != InstructionSet::baseline && cpu_has(InstructionSet::avx2) && avx2::all.real.lu != nullptr)
    return avx2::all;
#endif
  (void)limit;
  return baseline::all;
}

}  // namespace

template <>
const Decompositions<double>& decompositions(InstructionSet limit) {
  return all_decompositions(limit).real;
}
template <>
const Decompositions<std::complex<double>>& decompositions(InstructionSet limit) {
  return all_decompositions(limit).complex;
}

namespace {

double as_double(std::int64_t extent) { return static_cast<double>(extent); }

template <class T>
struct Cholesky {
  static MatrixMemory memory(const Matrices& x) {
    return {1.2 * as_double(x.size()), 2 * as_double(x.size())};
  }
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t size = s.x.size();
    for_each_matrix(s.threads, size == 0 ? 0 : s.x.count, cubed(s.x) / 3, [&](std::int64_t b) {
      const Source<T> x(call.operand<T>(0) + b * size, size);
      const Sink<T> l(call.result<T>() + b * size, size);
      decompositions<Wide<T>>().cholesky(x.data(), l.data(), s.x.rows);
    });
  }
};

struct SolveState {
  Matrices a, x;
  int threads;
  TriangleSolve each;
};

template <class T>
void solve(const SolveState& s, const Call& call) {
  const double work = static_cast<double>(s.a.rows) * static_cast<double>(s.x.size());
  for_each_matrix(s.threads, s.x.size() == 0 ? 0 : s.x.count, work, [&](std::int64_t i) {
    const Source<T> a(call.operand<T>(0) + i * s.a.size(), s.a.size());
    const Source<T> b(call.operand<T>(1) + i * s.x.size(), s.x.size());
    const Sink<T> x(call.result<T>() + i * s.x.size(), s.x.size());
    decompositions<Wide<T>>().solve_triangle(s.each, a.data(), b.data(), x.data());
  });
}

Plan plan_solve(const PlanRequest& request) {
  const Op& op = request.op;
  const bool left = op.boolean("left_side");
  const bool transposed = op.boolean("transpose_a") == left;
  const Matrices x(request.in[1]);
  const TriangleSolve each{x.rows,
                           x.columns,
                           left,
                           transposed,
                           op.boolean("lower") != transposed,
                           op.boolean("conjugate_a"),
                           op.boolean("unit_diagonal")};
  const SolveState state{Matrices(request.in[0]), x, request.threads, each};
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (Inexact<T>) {
      const double triangle = as_double(state.a.size()), right = as_double(state.x.size());
      Plan plan = make_plan<SolveState, solve<T>>(state);
      plan.library =
          MatrixMemory{triangle + 1.6 * right, triangle + 2 * right}.bytes<T>(state.threads, state.x.count);
      return plan;
    } else {
      return Plan();
    }
  });
}

template <class T>
struct Lu {
  static MatrixMemory memory(const Matrices& x) {
    return {1.05 * as_double(x.size()), 2 * as_double(x.size())};
  }
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t m = s.x.rows, k = s.x.smaller(), size = s.x.size();
    for_each_matrix(s.threads, s.x.count, cubed(s.x), [&](std::int64_t b) {
      std::int32_t* pivots = call.result<std::int32_t>(1) + b * k;
      std::int32_t* permutation = call.result<std::int32_t>(2) + b * m;
      for (std::int64_t i = 0; i < m; ++i) permutation[i] = static_cast<std::int32_t>(i);
      if (k == 0) return;
      const Source<T> x(call.operand<T>(0) + b * size, size);
      const Sink<T> factors(call.result<T>() + b * size, size);
      decompositions<Wide<T>>().lu(x.data(), factors.data(), pivots, m, s.x.columns);
      for (std::int64_t j = 0; j < k; ++j) std::swap(permutation[j], permutation[pivots[j]]);
    });
  }
};

template <class T>
struct Qr {
  static MatrixMemory memory(const Matrices& x) {
    const double whole = as_double(x.size()), q = as_double(x.rows * x.smaller()),
                 r = as_double(x.smaller() * x.columns);
    return {2.2 * whole + 1.1 * q, whole + q + r};
  }
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t m = s.x.rows, n = s.x.columns, k = s.x.smaller();
    for_each_matrix(s.threads, k == 0 ? 0 : s.x.count, 4 * cubed(s.x), [&](std::int64_t b) {
      const Source<T> x(call.operand<T>(0) + b * m * n, m * n);
      const Sink<T> q(call.result<T>(0) + b * m * k, m * k), r(call.result<T>(1) + b * k * n, k * n);
      decompositions<Wide<T>>().qr(x.data(), q.data(), r.data(), m, n);
    });
  }
};

constexpr KernelEntry factorization_entries[] = {{"cholesky", plan_matrices<Cholesky>, floats | complexes},
                                                 {"triangular_solve", plan_solve, floats | complexes},
                                                 {"lu", plan_matrices<Lu>, floats | complexes},
                                                 {"qr", plan_matrices<Qr>, floats | complexes}};

}  // namespace

std::span<const KernelEntry> factorization_kernels() { return factorization_entries; }

}  // namespace tidu::cpu_detail
