// matrix_rules.cpp - kernels around the steps of a solver.
#include "cuda/rules/matrix_rules.hpp"

#include <algorithm>
#include <limits>

namespace tidu::cuda_detail {
namespace {

// Functions of the solver's type W in terms of its parts.
std::string work_functions(DType work) {
  const std::string type(value_name(work)), real(value_name(real_dtype(work)));
  std::string text = "typedef " + type + " W;\n";
  if (is_complex(work)) {
    text += "FN W conj_of(W x) { return {x.re, -x.im}; }\n";
    text += "FN W half_of(W x) { return {x.re / 2, x.im / 2}; }\n";
    text += "FN W zero_of() { return {0, 0}; }\n";
    text += "FN W nan_of() { return {NOT_A_NUMBER(" + real + "), NOT_A_NUMBER(" + real + ")}; }\n";
    text += "FN bool bad_of(W x) { return !op::is_finite(x.re) || !op::is_finite(x.im); }\n";
  } else {
    text += "FN W conj_of(W x) { return x; }\nFN W half_of(W x) { return x / 2; }\n";
    text += "FN W zero_of() { return 0; }\nFN W nan_of() { return NOT_A_NUMBER(W); }\n";
    text += "FN bool bad_of(W x) { return !op::is_finite(x); }\n";
  }
  return text;
}

}  // namespace

Matrices::Matrices(Type type) : dtype(type.dtype()) {
  rows = type.dim(type.rank() - 2);
  columns = type.dim(type.rank() - 1);
  for (std::size_t k = 0; k + 2 < type.rank(); ++k) count *= type.dim(k);
}

BufferRef append_check(Plan& plan, const Matrices& x, BufferRef from, const PlanRequest&) {
  const std::string memory(memory_name(x.dtype));
  const std::string text = work_functions(x.work()) +
                           "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const " + memory +
                           "* __restrict__ x, i32* __restrict__ bad, const u64 size, const u64 count) {\n"
                           "  for (u64 b = block_x(); b < count; b += grid_x()) {\n"
                           "    u32 any = 0;\n"
                           "    for (u64 i = thread_index(); i < size; i += 256u) {\n"
                           "      if (bad_of(value(x[b * size + i]))) any = 1;\n"
                           "    }\n"
                           "    any = together::block_reduce(any, monoid::any<u32>(), 0u);\n"
                           "    if (thread_index() == 0) bad[b] = (i32)any;\n"
                           "  }\n}\n";
  const BufferRef bad = take_scratch(plan, static_cast<std::size_t>(x.count) * sizeof(std::int32_t));
  Launch launch;
  launch.kernel = make_kernel("matrix_check", text);
  launch.block = 256;
  launch.grid = {static_cast<std::uint32_t>(std::min<std::int64_t>(x.count, 1 << 20)), 1, 1};
  launch.arguments = {argument(from), argument(bad), argument(x.size()), argument(x.count)};
  plan.steps.emplace_back(std::move(launch));
  return bad;
}

BufferRef append_reading(Plan& plan, const Matrices& x, Reading reading, BufferRef from, const BufferRef* bad,
                         const PlanRequest& like) {
  const std::string memory(memory_name(x.dtype)), work(memory_name(x.work()));
  std::string text = work_functions(x.work());
  text += elements_begin("const " + memory + "* __restrict__ x, " +
                         (bad != nullptr ? "const i32* __restrict__ bad, " : "") + work +
                         "* __restrict__ y, const u64 rows, const u64 columns");
  text += "    const u64 size = rows * columns, b = at / size, i = at % size % rows, j = at % size / rows;\n";
  text += "    const " + memory + "* m = x + b * size;\n    W v = ";
  switch (reading) {
    case Reading::columns: text += "value(m[i * columns + j])"; break;
    case Reading::hermitian:
      text += "half_of(op::add((W)value(m[i * columns + j]), conj_of(value(m[j * columns + i]))))";
      break;
    case Reading::rows: text += "value(m[at % size])"; break;
    case Reading::conjugate: text += "conj_of(value(m[at % size]))"; break;
  }
  text += ";\n";
  if (bad != nullptr) text += "    if (bad[b] != 0) v = zero_of();\n";
  text += "    y[at] = v;\n  }\n}\n";
  const BufferRef to = take_scratch(plan, static_cast<std::size_t>(x.count * x.size()) * size_of(x.work()));
  std::vector<Argument> arguments{argument(from)};
  if (bad != nullptr) arguments.push_back(argument(*bad));
  for (const Argument& more : {argument(to), argument(x.rows), argument(x.columns)})
    arguments.push_back(more);
  plan.steps.emplace_back(
      launch_elements("matrix_read", text, x.count * x.size(), std::move(arguments), like.multiprocessors));
  return to;
}

void append_writing(Plan& plan, const Written& how, BufferRef from, BufferRef to, const PlanRequest& like) {
  if (how.count * how.rows * how.columns == 0) return;
  const std::string memory(memory_name(how.dtype)), work(memory_name(how.work));
  const bool informed = how.info != nullptr, checked = how.bad != nullptr;
  std::string text = work_functions(how.work);
  text += elements_begin(
      "const " + work + "* __restrict__ x, " + (informed ? "const i32* __restrict__ info, " : "") +
      (checked ? "const i32* __restrict__ bad, " : "") + memory +
      "* __restrict__ y, const u64 rows, const u64 columns, const u64 leading, const u64 matrix");
  text += "    const u64 j = at % columns, i = at / columns % rows, b = at / columns / rows;\n    W v = ";
  text += how.by_columns ? "x[b * matrix + j * leading + i];\n" : "x[b * matrix + i * columns + j];\n";
  if (informed) text += "    if (info[b] != 0) v = nan_of();\n";
  if (checked) text += "    if (bad[b] != 0) v = nan_of();\n";
  if (how.part == Part::lower) text += "    if (j > i) v = zero_of();\n";
  if (how.part == Part::upper) text += "    if (j < i) v = zero_of();\n";
  text += "    store(y[at], v);\n  }\n}\n";
  std::vector<Argument> arguments{argument(from)};
  if (informed) arguments.push_back(argument(*how.info));
  if (checked) arguments.push_back(argument(*how.bad));
  arguments.push_back(argument(to));
  for (const std::int64_t number : {how.rows, how.columns, how.leading, how.matrix})
    arguments.push_back(argument(number));
  plan.steps.emplace_back(launch_elements("matrix_write", text, how.count * how.rows * how.columns,
                                          std::move(arguments), like.multiprocessors));
}

BufferRef append_pointers(Plan& plan, const SolverStep& step, BufferRef first, std::int64_t elements,
                          const PlanRequest& like) {
  const std::string text = elements_begin("u8* x, u8** pointers, const u64 bytes") +
                           "    pointers[at] = x + at * bytes;\n  }\n}\n";
  const BufferRef to = take_scratch(plan, static_cast<std::size_t>(step.batch) * sizeof(std::uint64_t));
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(step.dtype));
  plan.steps.emplace_back(launch_elements("matrix_pointers", text, step.batch,
                                          {argument(first), argument(to), argument(bytes)},
                                          like.multiprocessors));
  return to;
}

bool is_batched(const Matrices& x, std::int64_t longest) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return x.count > 1 && x.count <= most && x.rows > 0 && std::max(x.rows, x.columns) <= longest;
}

SolverStep solver_step(Plan& plan, SolverStep::Routine routine, const Matrices& x) {
  SolverStep step;
  step.routine = routine;
  step.dtype = x.work();
  step.batch = x.count;
  step.rows = x.rows;
  step.columns = x.columns;
  step.info = take_scratch(plan, static_cast<std::size_t>(x.count) * sizeof(std::int32_t));
  return step;
}

}  // namespace tidu::cuda_detail
