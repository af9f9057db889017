// matmul.cpp - dot_general as a batch of matmuls. An operand whose axes merge to batch, rows and columns, in
// either order of the last two, is read in place, transposed or not; any other is first packed into scratch
// memory.
#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "cpu/cpu_target.hpp"
#include "cpu/demanded_elements.hpp"
#include "cpu/is_any_of.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernels/strided.hpp"
#include "cpu/layout.hpp"
#include "cpu/matmul/gemm.hpp"
#include "cpu/matmul/matmul_epilogue.hpp"
#include "cpu/matmul/strided_matmul.hpp"
#include "cpu/parallel.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

struct Axis {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

// The axes as one, if walking them in this order is walking one axis.
std::optional<Axis> merge(Type type, const std::vector<std::int64_t>& strides,
                          std::span<const std::int64_t> axes) {
  Axis merged;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto k = static_cast<std::size_t>(axes[i]);
    if (type.dim(k) == 1) continue;
    if (merged.extent != 1 && strides[k] != merged.extent * merged.stride) return std::nullopt;
    if (merged.extent == 1) merged.stride = strides[k];
    merged.extent *= type.dim(k);
  }
  return merged;
}
std::optional<Axis> merge(Type type, const Ints& axes) { return merge(type, strides_of(type), axes); }

Ints free_axes(Type type, const Ints& contracting, const Ints& batch) {
  Ints axes;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(type.rank()); ++k) {
    if (std::find(contracting.begin(), contracting.end(), k) == contracting.end() &&
        std::find(batch.begin(), batch.end(), k) == batch.end()) {
      axes.push_back(k);
    }
  }
  return axes;
}

std::int64_t extent_of(Type type, const Ints& axes) {
  std::int64_t extent = 1;
  for (const std::int64_t k : axes) extent *= type.dim(static_cast<std::size_t>(k));
  return extent;
}

// One operand as a batch of rows x columns matrices.
struct Side {
  bool transposed = false;  // stored columns x rows
  std::int64_t leading = 1;
  std::int64_t batch_stride = 0;
  bool packed = false;
  StridedCopy pack;
  std::size_t bytes = 0;  // of the packed copy
};

Side arrange(Type type, const Ints& batch, const Ints& rows, const Ints& columns, int threads) {
  Side side;
  const std::int64_t m = extent_of(type, rows);
  const std::int64_t n = extent_of(type, columns);
  const std::optional<Axis> b = merge(type, batch);
  const std::optional<Axis> r = merge(type, rows);
  const std::optional<Axis> c = merge(type, columns);
  if (b && r && c && type.size() > 0) {
    side.batch_stride = b->extent == 1 ? 0 : b->stride;
    const bool plain = (n == 1 || c->stride == 1) && (m == 1 || r->stride >= n);
    const bool flipped = (m == 1 || r->stride == 1) && (n == 1 || c->stride >= m);
    if (plain || flipped) {
      side.transposed = !plain;
      side.leading = plain ? (m == 1 ? n : r->stride) : (n == 1 ? m : c->stride);
      return side;
    }
  }
  side.packed = true;
  side.leading = std::max<std::int64_t>(n, 1);
  side.batch_stride = m * n;
  const std::vector<std::int64_t> from = strides_of(type);
  std::vector<StridedAxis> axes;
  std::int64_t to = 1;
  for (const Ints* list : {&columns, &rows, &batch}) {
    for (std::size_t i = list->size(); i-- > 0;) {
      const auto k = static_cast<std::size_t>((*list)[i]);
      axes.push_back({type.dim(k), to, from[k]});
      to *= type.dim(k);
    }
  }
  side.pack = StridedCopy(std::move(axes), size_of(type.dtype()), threads);
  side.bytes = aligned(type.bytes());
  return side;
}

struct MatmulState {
  Side lhs, rhs;
  std::size_t transposed_at = 0;  // bytes into the scratch memory: of C^T, where that is computed
  bool computes_transpose = false;
  StridedCopy transpose;
  std::vector<std::int32_t> row_ends;  // what the plan refers to
  std::optional<GemmPlan> plan;        // none for an empty result
};
void multiply_matrices(const MatmulState& s, const Call& call) {
  if (!s.plan) return;
  const std::byte* a = call.in[0];
  const std::byte* b = call.in[1];
  if (s.lhs.packed) {
    s.lhs.pack.run(a, call.scratch);
    a = call.scratch;
  }
  if (s.rhs.packed) {
    s.rhs.pack.run(b, call.scratch + s.lhs.bytes);
    b = call.scratch + s.lhs.bytes;
  }
  if (!s.computes_transpose) return s.plan->run(a, b, call.out[0]);
  s.plan->run(b, a, call.scratch + s.transposed_at);
  s.transpose.run(call.scratch + s.transposed_at, call.out[0]);
}

// C^T = op(B)^T op(A)^T fills vectors where C has few columns, if A lies as its rows then want it.
bool is_better_transposed(const GemmCall& call) {
  const std::int64_t lanes = 64 / gemm_element_size(call.type);
  constexpr std::int64_t many = 64, terms = 16;
  return (call.type == GemmType::f32 || call.type == GemmType::f64) && !call.add && call.batch == 1 &&
         call.trans_a && call.n > 1 && call.n <= lanes / 2 && call.m >= many && call.k >= terms;
}

// The pairs of contracted axes, ordered as the chosen operand has them.
void sort_pairs(Ints& by, Ints& other) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < by.size(); ++i) pairs.emplace_back(by[i], other[i]);
  std::sort(pairs.begin(), pairs.end());
  for (std::size_t i = 0; i < pairs.size(); ++i) std::tie(by[i], other[i]) = pairs[i];
}

// The operands as matrices, and the matmul of these.
struct Arranged {
  Side lhs, rhs;
  GemmCall call;
  bool one_pair = false;  // of axes that are summed over
};

Arranged arrange_matmul(const PlanRequest& request, GemmType type) {
  const Type lhs = request.in[0];
  const Type rhs = request.in[1];
  const IntLists& numbers_list = request.op.lists("dimension_numbers");
  Ints left = numbers_list[0], right = numbers_list[1];
  const Ints& left_batch = numbers_list[2];
  const Ints& right_batch = numbers_list[3];
  const Ints rows = free_axes(lhs, left, left_batch);
  const Ints columns = free_axes(rhs, right, right_batch);

  // The order in which pairs are summed is free: take one in which an operand need not be packed.
  sort_pairs(left, right);
  if (!merge(rhs, right)) {
    Ints left_by_right = left, right_sorted = right;
    sort_pairs(right_sorted, left_by_right);
    const bool right_is_larger = rhs.size() > lhs.size() || !merge(lhs, left);
    if (right_is_larger) {
      left = left_by_right;
      right = right_sorted;
    }
  }

  Arranged matmul;
  matmul.lhs = arrange(lhs, left_batch, rows, left, request.threads);
  matmul.rhs = arrange(rhs, right_batch, right, columns, request.threads);
  matmul.one_pair = left.size() == 1;
  GemmCall& call = matmul.call;
  call.type = type;
  call.m = extent_of(lhs, rows);
  call.n = extent_of(rhs, columns);
  call.k = extent_of(lhs, left);
  call.batch = extent_of(lhs, left_batch);
  call.trans_a = matmul.lhs.transposed;
  call.trans_b = matmul.rhs.transposed;
  call.lda = matmul.lhs.leading;
  call.ldb = matmul.rhs.leading;
  call.ldc = std::max<std::int64_t>(call.n, 1);
  call.stride_a = matmul.lhs.batch_stride;
  call.stride_b = matmul.rhs.batch_stride;
  call.stride_c = call.m * call.n;
  call.add = request.add;
  return matmul;
}

Plan plan_dot(const PlanRequest& request) {
  const Type lhs = request.in[0];
  const std::optional<GemmType> type = gemm_type(lhs.dtype());
  if (!type) return Plan();
  Arranged matmul = arrange_matmul(request, *type);
  GemmCall& call = matmul.call;
  MatmulState state;
  state.lhs = std::move(matmul.lhs);
  state.rhs = std::move(matmul.rhs);
  std::size_t scratch = state.lhs.bytes + state.rhs.bytes;
  if (request.out[0].size() != 0) {
    try {
      if (is_better_transposed(call)) {
        state.computes_transpose = true;
        state.transpose =
            StridedCopy({{call.m, call.n, 1}, {call.n, 1, call.m}}, size_of(lhs.dtype()), request.threads);
        state.transposed_at = scratch;
        scratch += request.out[0].bytes();
        call = transposed(call);
        call.ldc = call.n;
      } else if (request.reads != nullptr && is_inexact(lhs.dtype())) {
        state.row_ends = row_ends(*request.reads, call.n);
        if (!state.row_ends.empty()) {
          call.row_ends = state.row_ends.data();
          call.row_period = static_cast<std::int64_t>(state.row_ends.size());
        }
      }
      state.plan.emplace(call, request.threads);
    } catch (const GemmError& error) {
      throw Error(ErrorKind::execution, detail::str('[', request.op.name(), "] ", error.what()));
    }
  }
  // Which order of several pairs is summed in depends on both operands.
  const bool fixed =
      (request.fixed & 2U) != 0 && matmul.one_pair && !state.rhs.packed && !state.computes_transpose;
  const std::int64_t packed = fixed && state.plan ? state.plan->packed_bytes() : 0;
  if (packed > 0) state.plan = state.plan->packed();
  const std::size_t library = state.plan ? state.plan->library_bytes(request.threads) : 0;
  Plan plan = make_plan<MatmulState, multiply_matrices>(std::move(state), scratch);
  plan.library = library;
  if (packed > 0) {
    plan.prepare = [](const void* s, const Call& c) {
      static_cast<const MatmulState*>(s)->plan->pack(c.in[0], c.out[0]);
    };
    plan.prepared = 1;
    plan.prepared_bytes = static_cast<std::size_t>(packed);
  }
  return plan;
}

// Batches of matmuls one after another; first elements and distances of batches are in bytes.
struct StridedMatmul {
  GemmPlan plan;
  std::int64_t batches = 1;
  std::array<std::ptrdiff_t, 3> first{}, step{};
  bool into_operand = false;
  int threads = 1;  // that share batches
  std::int64_t grain = 1;
};
void multiply_strided(const StridedMatmul& s, const Call& call) {
  // Nobody reads that operand before it is whole.
  std::byte* c = s.into_operand ? const_cast<std::byte*>(call.in[2]) : call.out[0];
  const std::byte* const a = call.in[0] + s.first[0];
  const std::byte* const b = call.in[1] + s.first[1];
  c += s.first[2];
  parallel_for(s.threads, s.batches, s.grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      s.plan.run(a + i * s.step[0], b + i * s.step[1], c + i * s.step[2]);
  });
}

// Matrices of rows x columns, or columns x rows, and the batches that they are in.
struct StridedSide {
  bool transposed = false;
  std::int64_t leading = 1, stride = 0, step = 0;
};
std::optional<StridedSide> strided_side(Type type, const std::vector<std::int64_t>& strides,
                                        const Ints& batch, const Ints& rows, const Ints& columns,
                                        std::size_t outer) {
  const std::optional<Axis> r = merge(type, strides, rows), c = merge(type, strides, columns);
  const std::optional<Axis> b = merge(type, strides, std::span(batch).subspan(outer));
  if (!b || !r || !c) return std::nullopt;
  const bool plain = (c->extent == 1 || c->stride == 1) && (r->extent == 1 || r->stride >= c->extent);
  const bool flipped = (r->extent == 1 || r->stride == 1) && (c->extent == 1 || c->stride >= r->extent);
  if (!plain && !flipped) return std::nullopt;
  const Axis& lines = plain ? *r : *c;
  const std::int64_t length = plain ? c->extent : r->extent;
  StridedSide side{!plain, lines.extent == 1 ? length : lines.stride, b->extent == 1 ? 0 : b->stride, 0};
  if (lines.extent * side.leading * static_cast<std::int64_t>(size_of(type.dtype())) >
      CpuTarget::second_level)
    return std::nullopt;
  if (outer > 0) side.step = strides[static_cast<std::size_t>(batch[0])];
  return side;
}

constexpr KernelEntry matmul_entries[] = {{"dot_general", plan_dot, numbers, false, true}};

}  // namespace

std::span<const KernelEntry> matmul_kernels() { return matmul_entries; }

Plan plan_strided_matmul(const PlanRequest& request, const MatmulOperands& views) {
  const Type lhs = request.in[0], rhs = request.in[1], result = request.out[0];
  const std::optional<GemmType> type = gemm_type(lhs.dtype());
  if (!is_any_of(request.op.primitive(), prim::dot_general) || !type || rhs.dtype() != lhs.dtype() ||
      result.size() == 0)
    return {};
  const IntLists& numbers_list = request.op.lists("dimension_numbers");
  const Ints &left = numbers_list[0], &right = numbers_list[1];
  if (left.size() != 1) return {};
  const std::array<Ints, 2> batch{numbers_list[2], numbers_list[3]};
  const Ints rows = free_axes(lhs, left, batch[0]), columns = free_axes(rhs, right, batch[1]);
  // With fewer than 3 rows or columns, the layout of the operands would decide on the order of sums; small
  // matrices are packed and multiplied in less time.
  constexpr std::int64_t least = 5;
  if (extent_of(lhs, rows) < least || extent_of(rhs, columns) < least || extent_of(lhs, left) < least)
    return {};
  Ints result_batch(batch[0].size()), result_rows(rows.size()), result_columns(columns.size());
  std::iota(result_batch.begin(), result_batch.end(), 0);
  std::iota(result_rows.begin(), result_rows.end(), std::ssize(result_batch));
  std::iota(result_columns.begin(), result_columns.end(), std::ssize(result_batch) + std::ssize(result_rows));
  for (std::size_t outer = 0; outer <= std::min<std::size_t>(1, result_batch.size()); ++outer) {
    const auto a = strided_side(lhs, views.operands[0].strides(), batch[0], rows, left, outer);
    const auto b = strided_side(rhs, views.operands[1].strides(), batch[1], right, columns, outer);
    const auto c =
        strided_side(result, views.result.strides(), result_batch, result_rows, result_columns, outer);
    if (!a || !b || !c || c->transposed) continue;
    GemmCall call;
    call.type = *type;
    call.trans_a = a->transposed;
    call.trans_b = b->transposed;
    call.m = extent_of(lhs, rows);
    call.n = extent_of(rhs, columns);
    call.k = extent_of(lhs, left);
    call.batch = extent_of(lhs, batch[0]);
    call.lda = a->leading;
    call.ldb = b->leading;
    call.ldc = c->leading;
    call.stride_a = a->stride;
    call.stride_b = b->stride;
    call.stride_c = c->stride;
    call.add_zero = views.add_zero;
    std::int64_t batches = 1;
    if (outer > 0) batches = result.dim(0);
    call.batch /= batches;
    const auto size = static_cast<std::ptrdiff_t>(size_of(lhs.dtype()));
    // Threads share batches, or, where these are too few, each of them.
    constexpr double min_work = 1 << 17;
    const double work = static_cast<double>(call.batch * call.m) * static_cast<double>(call.n * call.k);
    constexpr double min_of_batch = 1 << 11;
    if (batches > 1 && work < min_of_batch) return {};
    const auto grain = static_cast<std::int64_t>(std::max(1.0, min_work / std::max(1.0, work)));
    const bool shared = batches >= 2 * grain && batches >= request.threads;
    try {
      StridedMatmul matmul{GemmPlan(call, shared ? 1 : request.threads),
                           batches,
                           {},
                           {},
                           views.into_operand,
                           shared ? request.threads : 1,
                           grain};
      matmul.first = {views.operands[0].offset * size, views.operands[1].offset * size,
                      views.result.offset * size};
      matmul.step = {a->step * size, b->step * size, c->step * size};
      const std::size_t library = matmul.plan.library_bytes(shared ? 1 : request.threads) *
                                  static_cast<std::size_t>(std::max(matmul.threads, 1));
      Plan plan = make_plan<StridedMatmul, multiply_strided>(matmul);
      plan.library = library;
      return plan;
    } catch (const GemmError&) {
      continue;  // members of the result that overlap
    }
  }
  return {};
}

std::optional<GemmPlan> plan_matmul_for_epilogue(const PlanRequest& request, bool in_loop) {
  const DType dtype = request.in[0].dtype();
  const bool has_kernels = (dtype == f32 || dtype == f64) && request.in[1].dtype() == dtype;
  if (!is_any_of(request.op.primitive(), prim::dot_general) || !has_kernels || request.out[0].size() == 0)
    return std::nullopt;
  const Arranged matmul = arrange_matmul(request, *gemm_type(dtype));
  if (matmul.lhs.packed || matmul.rhs.packed) return std::nullopt;
  const GemmPlan own(matmul.call, 1, GemmIsa::avx512), best(matmul.call, 1);
  // With more terms, another library's kernels gain more than an epilogue in registers.
  constexpr std::int64_t few_terms = 48;
  constexpr std::int64_t min_in_loop = 16;
  if (in_loop && matmul.call.k < min_in_loop) return std::nullopt;
  const GemmPlan& plan = matmul.call.k > few_terms ? best : own;
  return plan.can_update() ? std::optional(plan) : std::nullopt;
}

}  // namespace tidu::cpu_detail
