// matmul_rules.cpp - dot_general as a batch of matmuls. An operand whose axes merge to batch, rows and
// columns, in either order of the last two, is read in place, transposed or not; any other is copied into
// that order first. Matmuls of integers, for which there is no library, are a kernel.
#include <algorithm>
#include <numeric>

#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/compose.hpp"
#include "cuda/rules/library_rules.hpp"

namespace tidu::cuda_detail {
namespace {

// One thread for each element of the result.
constexpr const char* matmul_parameters =
    "const MEMORY* __restrict__ a, const MEMORY* __restrict__ b, MEMORY* __restrict__ c, const u64 m, "
    "const u64 n, const u64 k, const u64 a_matrix, const u64 a_row, const u64 a_column, const u64 b_matrix, "
    "const u64 b_row, const u64 b_column, const u64 c_matrix, const u64 c_row";
constexpr const char* bias_parameter = ", const MEMORY* __restrict__ bias";
constexpr const char* matmul_body = R"(
    const u64 column = at % n, rest = at / n, row = rest % m, matrix = rest / m;
    const MEMORY* x = a + matrix * a_matrix + row * a_row;
    const MEMORY* y = b + matrix * b_matrix + column * b_column;
    decltype(value(x[0])) sum{};
    for (u64 i = 0; i < k; ++i) sum = op::add_product(sum, value(x[i * a_column]), value(y[i * b_row]));
    store(c[matrix * c_matrix + row * c_row + column], sum)";

// The text of the kernel.
std::string matmul_text(DType dtype, bool has_bias) {
  std::string text = "typedef " + std::string(memory_name(dtype)) + " MEMORY;\n";
  text += elements_begin(std::string(matmul_parameters) + (has_bias ? bias_parameter : ""));
  return text + matmul_body + (has_bias ? " + value(bias[column])" : "") + ");\n  }\n}\n";
}

void append_own_matmuls(Plan& plan, const Matmuls& p, const PlanRequest& like) {
  std::vector<Argument> arguments{argument(p.a), argument(p.b), argument(p.out)};
  for (const std::int64_t number : {p.m, p.n, p.k, p.a_matrix, p.a_row, p.a_column, p.b_matrix, p.b_row,
                                    p.b_column, p.out_matrix, p.out_row})
    arguments.push_back(argument(number));
  plan.steps.emplace_back(launch_elements("product", matmul_text(p.dtype, false), p.batch * p.m * p.n,
                                          std::move(arguments), like.multiprocessors));
}

// The layout of an operand: whether it is transposed, and the distance of its rows, or else columns.
struct Lying {
  bool transposed;
  std::int64_t leading;
};
std::optional<Lying> lying(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  if ((column == 1 || columns == 1) && (rows == 1 || row >= columns))
    return Lying{false, rows == 1 ? columns : row};
  if ((row == 1 || rows == 1) && (columns == 1 || column >= rows))
    return Lying{true, columns == 1 ? rows : column};
  return std::nullopt;
}

// Matrices of one call: cuBLASLt has an axis of the grid for them, which ends at 65535.
constexpr std::int64_t max_batch = 65535;

// Workspace lets a library cut sums that few blocks would share; more than this it hardly uses.
std::size_t workspace_for(const Matmuls& p) {
  constexpr std::size_t most = std::size_t{32} << 20;
  const auto results = static_cast<std::size_t>(p.batch * p.m * p.n) * size_of(p.dtype);
  return std::min(most, aligned(16 * results + 4096));
}

}  // namespace

Launch own_matmul(const GemmStep& s, int multiprocessors) {
  if (s.alpha != 1 || s.beta != 0)
    throw Error(ErrorKind::internal, "own_matmul: expected a matmul that is neither scaled nor added to");
  const auto row = [](bool transposed, std::int64_t leading) { return transposed ? 1 : leading; };
  std::vector<Argument> arguments{argument(s.a), argument(s.b), argument(s.out)};
  for (const std::int64_t number :
       {s.m, s.n, s.k, s.stride_a, row(s.a_transposed, s.lda), row(!s.a_transposed, s.lda), s.stride_b,
        row(s.b_transposed, s.ldb), row(!s.b_transposed, s.ldb), s.stride_c, s.ldc})
    arguments.push_back(argument(number));
  if (s.has_bias) arguments.push_back(argument(s.bias));
  return launch_elements(s.has_bias ? "biased_product" : "product", matmul_text(s.dtype, s.has_bias),
                         s.batch * s.m * s.n, std::move(arguments), multiprocessors);
}

bool lies_as_matrix(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return lying(rows, columns, row, column).has_value();
}

void append_matmuls(Plan& plan, const Matmuls& p, const PlanRequest& like) {
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    const std::int64_t count = (p.batch - 1) * p.out_matrix + (p.m - 1) * p.out_row + p.n;
    plan.steps.emplace_back(ClearStep{p.out, static_cast<std::size_t>(count) * size_of(p.dtype)});
    return;
  }
  if (!is_inexact(p.dtype)) return append_own_matmuls(plan, p, like);
  const std::optional<Lying> a = lying(p.m, p.k, p.a_row, p.a_column),
                             b = lying(p.k, p.n, p.b_row, p.b_column);
  if (!a || !b) {
    plan.supported = false;
    return;
  }
  GemmStep step;
  step.dtype = p.dtype;
  step.accumulate = size_of(p.dtype) == 2 ? DType::f32 : p.dtype;
  step.tf32 = like.tf32 && p.dtype == DType::f32;
  step.m = p.m;
  step.n = p.n;
  step.k = p.k;
  step.a_transposed = a->transposed;
  step.b_transposed = b->transposed;
  step.lda = a->leading;
  step.ldb = b->leading;
  step.ldc = p.m == 1 ? p.n : p.out_row;
  step.stride_a = p.a_matrix;
  step.stride_b = p.b_matrix;
  step.stride_c = p.out_matrix;
  step.workspace_bytes = workspace_for(p);
  step.workspace = take_scratch(plan, step.workspace_bytes);
  const auto moved = [&p](BufferRef place, std::int64_t elements) {
    place.offset += static_cast<std::size_t>(elements) * size_of(p.dtype);
    return place;
  };
  for (std::int64_t first = 0; first < p.batch; first += max_batch) {
    step.batch = std::min(max_batch, p.batch - first);
    step.a = moved(p.a, first * p.a_matrix);
    step.b = moved(p.b, first * p.b_matrix);
    step.out = moved(p.out, first * p.out_matrix);
    plan.steps.emplace_back(step);
  }
}

namespace {

// An operand of dot_general: which axes are batch, free and contracted, in the order in which they count.
struct Operand {
  Type type;
  Ints batch, free, contracted;
};
Ints free_axes(Type type, const Ints& contracted, const Ints& batch) {
  Ints axes;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(type.rank()); ++k) {
    if (std::find(contracted.begin(), contracted.end(), k) == contracted.end() &&
        std::find(batch.begin(), batch.end(), k) == batch.end())
      axes.push_back(k);
  }
  return axes;
}

struct Merged {
  MergedAxis batch, free, contracted;
};
std::optional<Merged> merged(const Operand& x) {
  const auto batch = merge_axes(x.type.shape(), x.batch), free = merge_axes(x.type.shape(), x.free),
             contracted = merge_axes(x.type.shape(), x.contracted);
  if (!batch || !free || !contracted) return std::nullopt;
  const bool matrix = lies_as_matrix(free->extent, contracted->extent, free->stride, contracted->stride);
  return !matrix && is_inexact(x.type.dtype()) ? std::nullopt
                                               : std::optional(Merged{*batch, *free, *contracted});
}

// `list` in the order in which `by` ascends.
Ints ordered(const Ints& list, const Ints& by) {
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return by[i] < by[j]; });
  Ints result;
  for (const std::size_t i : order) result.push_back(list[i]);
  return result;
}

// The operand as matrices: in place if possible, else copied into scratch memory in the order batch, free,
// contracted.
Merged placed(Plan& plan, const Operand& x, BufferRef& at, const PlanRequest& like) {
  if (const std::optional<Merged> as_it_is = merged(x)) return *as_it_is;
  Ints permutation = x.batch;
  permutation.insert(permutation.end(), x.free.begin(), x.free.end());
  permutation.insert(permutation.end(), x.contracted.begin(), x.contracted.end());
  const BufferRef copy = take_scratch(plan, x.type.bytes());
  append_transposed(plan, x.type, permutation, at, copy, like);
  at = copy;
  const auto extent = [&x](const Ints& axes) {
    std::int64_t product = 1;
    for (const std::int64_t axis : axes) product *= x.type.dim(static_cast<std::size_t>(axis));
    return product;
  };
  const std::int64_t free = extent(x.free), contracted = extent(x.contracted);
  return {{extent(x.batch), free * contracted}, {free, contracted}, {contracted, 1}};
}

Plan dot_general(const PlanRequest& request) {
  const IntLists& numbers = request.op.lists("dimension_numbers");
  Plan plan;
  plan.supported = true;
  Operand lhs{request.in[0], numbers[2], free_axes(request.in[0], numbers[0], numbers[2]), numbers[0]};
  Operand rhs{request.in[1], numbers[3], free_axes(request.in[1], numbers[1], numbers[3]), numbers[1]};
  // The order of contracted axes is free: the one in which fewest operands are copied.
  std::size_t fewest = 3;
  Operand best_lhs = lhs, best_rhs = rhs;
  for (const Ints& by : {numbers[0], numbers[1]}) {
    lhs.contracted = ordered(numbers[0], by);
    rhs.contracted = ordered(numbers[1], by);
    const std::size_t copies = (merged(lhs) ? 0U : 1U) + (merged(rhs) ? 0U : 1U);
    if (copies >= fewest) continue;
    fewest = copies;
    best_lhs = lhs;
    best_rhs = rhs;
  }
  Matmuls p;
  p.dtype = request.out[0].dtype();
  p.a = operand(0);
  p.b = operand(1);
  p.out = result();
  if (request.in[0].size() != 0 && request.in[1].size() != 0) {
    const Merged a = placed(plan, best_lhs, p.a, request), b = placed(plan, best_rhs, p.b, request);
    p.batch = a.batch.extent;
    p.m = a.free.extent;
    p.n = b.free.extent;
    p.k = a.contracted.extent;
    p.a_matrix = a.batch.stride;
    p.a_row = a.free.stride;
    p.a_column = a.contracted.stride;
    p.b_matrix = b.batch.stride;
    p.b_row = b.contracted.stride;
    p.b_column = b.free.stride;
  } else {
    p.m = 1;
    p.n = request.out[0].size();
  }
  p.out_row = p.n;
  p.out_matrix = p.m * p.n;
  append_matmuls(plan, p, request);
  return plan;
}

constexpr RuleEntry entries[] = {
    {"dot_general", dot_general, dtypes::integers | dtypes::floats | dtypes::complexes}};

}  // namespace

RuleTable matmul_rules() { return entries; }

}  // namespace tidu::cuda_detail
