// kernel_table.cpp - the table, and the widening of 16-bit types at the edges of kernels.
#include "cpu/kernel_table.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "cpu/custom_kernel.hpp"
#include "cpu/fusion/straight_line.hpp"
#include "cpu/fusion/vector_complex.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "cpu/fusion/vector_special.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu::cpu_detail {
namespace {

bool is_half(DType dtype) { return dtype == f16 || dtype == bf16; }

// A kernel on f32 with operands widened before it and results narrowed behind it, in scratch memory.
struct Widened {
  struct Edge {
    DType dtype;  // a 16-bit type, or any other: then the pointer passes through
    std::int64_t count;
    std::size_t offset;
  };
  Plan plan;
  std::vector<Edge> operands, results;
  std::size_t kernel_scratch;  // offset
  std::size_t pointers;        // offset of memory for the kernel's pointers
};

void run_widened(const Widened& s, const Call& call) {
  auto* pointers = reinterpret_cast<std::byte**>(call.scratch + s.pointers);
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const Widened::Edge& edge = s.operands[i];
    pointers[i] = const_cast<std::byte*>(call.in[i]);
    if (!is_half(edge.dtype)) continue;
    pointers[i] = call.scratch + edge.offset;
    const auto* from = call.operand<std::uint16_t>(i);
    auto* to = reinterpret_cast<float*>(pointers[i]);
    for (std::int64_t k = 0; k < edge.count; ++k) {
      to[k] = edge.dtype == f16 ? half_to_float(from[k]) : bfloat16_to_float(from[k]);
    }
  }
  std::byte** results = pointers + s.operands.size();
  for (std::size_t i = 0; i < s.results.size(); ++i) {
    results[i] = is_half(s.results[i].dtype) ? call.scratch + s.results[i].offset : call.out[i];
  }
  s.plan.run(s.plan.state.get(), Call{pointers, results, call.scratch + s.kernel_scratch});
  for (std::size_t i = 0; i < s.results.size(); ++i) {
    const Widened::Edge& edge = s.results[i];
    if (!is_half(edge.dtype)) continue;
    const auto* from = reinterpret_cast<const float*>(results[i]);
    auto* to = call.result<std::uint16_t>(i);
    for (std::int64_t k = 0; k < edge.count; ++k) {
      to[k] = edge.dtype == f16 ? float_to_half(from[k]) : float_to_bfloat16(from[k]);
    }
  }
}

constexpr std::size_t max_operands = 4;  // of generated code for one operation

// The loop that the rule plans, or generated code instead if there is some for the operation; a scalar step
// stays as it is.
struct VectorJitState {
  std::shared_ptr<const VectorKernel> kernel;
  std::int64_t count;
  int threads;
};
void run_vector_code(const VectorJitState& s, const Call& call) {
  const VectorKernel& kernel = *s.kernel;
  parallel_for(s.threads, s.count, element_grain, [&](std::int64_t begin, std::int64_t end) {
    const auto at = static_cast<std::size_t>(begin);
    const std::byte* in[max_operands];
    for (std::size_t i = 0; i < kernel.num_operands(); ++i) in[i] = call.in[i] + at * kernel.operand_step(i);
    std::byte* const out = call.out[0] + at * kernel.result_step(0);
    kernel.run(in, &out, end - begin);
  });
}
std::shared_ptr<const VectorKernel> lanes_for(const PlanRequest& request) {
  constexpr std::int64_t min_elements = 64;  // below, ends of vectors take longer than loops of arithmetic
  if (request.vector_jit == nullptr || !request.op.primitive().has_trait(Trait::elementwise) ||
      request.out.size() != 1 || request.in.size() > max_operands) {
    return nullptr;
  }
  const Type out = request.out[0];
  if (out.size() < min_straight_line && !request.part) return nullptr;
  DType computed = out.dtype();
  for (const Type type : request.in) {
    if (type.dtype() != bool_) computed = type.dtype();
  }
  VectorProgram code;
  code.dtype = element_dtype(computed);
  if (code.dtype == bool_) return nullptr;
  std::array<std::uint16_t, max_operands> operands{};
  for (std::uint32_t i = 0; i < request.in.size(); ++i) {
    const Type type = request.in[i];
    if (type.dtype() != bool_ && element_dtype(type.dtype()) != code.dtype) return nullptr;
    const bool one = type.size() == 1;
    const VectorOp elements = one ? VectorOp::splat : VectorOp::load;
    const VectorOp masks = one ? VectorOp::splat_mask : VectorOp::load_mask;
    operands[i] = code.add({.op = type.dtype() == bool_ ? masks : elements, .index = i});
  }
  code.num_operands = static_cast<std::uint32_t>(request.in.size());
  code.num_results = 1;
  const auto value =
      add_operation(code, request.op, computed, std::span(operands).first(request.in.size()), out.dtype());
  if (!value) return nullptr;
  const auto is_call = [](const VectorInst& step) { return step.op == VectorOp::call; };
  if (out.size() < min_elements && !request.part &&
      std::none_of(code.steps.begin(), code.steps.end(), is_call)) {
    return nullptr;
  }
  code.add({.op = out.dtype() == bool_ ? VectorOp::store_mask : VectorOp::store, .a = *value});
  return request.vector_jit->compile(code);
}
Plan plan_entry(const KernelEntry& entry, const PlanRequest& request) {
  Plan plan = entry.rule(request);
  if (!plan) return plan;
  if (std::shared_ptr<const VectorKernel> kernel = lanes_for(request)) {
    Plan vector = make_plan<VectorJitState, run_vector_code>(
        {std::move(kernel), request.out[0].size(), request.threads});
    vector.scalar = plan.scalar;
    vector.parameter = plan.parameter;
    return vector;
  }
  if (Plan parts = plan_complex_exp(request, plan)) return parts;
  if (Plan several = plan_special_functions(request, plan)) return several;
  return plan;
}

Plan widen(const KernelEntry& entry, const PlanRequest& request) {
  std::vector<Type> in, out;
  Widened state;
  std::size_t scratch = 0;
  const auto edges = [&scratch](std::span<const Type> types, std::vector<Type>& wide,
                                std::vector<Widened::Edge>& to) {
    for (const Type type : types) {
      to.push_back({type.dtype(), type.size(), scratch});
      wide.push_back(is_half(type.dtype()) ? type.with_dtype(f32) : type);
      if (is_half(type.dtype())) scratch += aligned(wide.back().bytes());
    }
  };
  edges(request.in, in, state.operands);
  edges(request.out, out, state.results);
  state.plan = plan_entry(entry, {request.op, in, out, request.threads, request.check_indices, request.depth,
                                  request.vector_jit});
  if (!state.plan) return Plan();
  state.kernel_scratch = scratch;
  scratch += aligned(state.plan.scratch);
  state.pointers = scratch;
  scratch += aligned((in.size() + out.size()) * sizeof(std::byte*));
  const std::size_t library = state.plan.library;
  Plan plan = make_plan<Widened, run_widened>(std::move(state), scratch);
  plan.library = library;
  return plan;
}

}  // namespace

KernelTable::KernelTable() {
  for (const auto family :
       {constant_kernels(),    unary_kernels(),         transcendental_kernels(), binary_kernels(),
        comparison_kernels(),  ternary_kernels(),       convert_kernels(),        shape_kernels(),
        dynamic_kernels(),     indexing_kernels(),      reduction_kernels(),      scan_kernels(),
        sorting_kernels(),     matmul_kernels(),        random_kernels(),         window_kernels(),
        convolution_kernels(), factorization_kernels(), spectral_kernels(),       collective_kernels()}) {
    for (const KernelEntry& entry : family) entries_.emplace(entry.name, entry);
  }
}

std::shared_ptr<const KernelTable> KernelTable::with(std::string_view primitive, Kernel kernel,
                                                     tidu::DTypes supported) const {
  auto table = std::make_shared<KernelTable>(*this);
  table->custom_.insert_or_assign(std::string(primitive), Custom{std::move(kernel), supported});
  return table;
}

Plan KernelTable::plan(const PlanRequest& request) const {
  if (!custom_.empty()) {
    const auto custom = custom_.find(std::string(request.op.name()));
    if (custom != custom_.end()) return plan_custom(request, custom->second.kernel, shared_from_this());
  }
  const auto it = entries_.find(request.op.name());
  if (it == entries_.end()) return Plan();
  bool half = false;
  for (const Type type : request.in) half = half || is_half(type.dtype());
  for (const Type type : request.out) half = half || is_half(type.dtype());
  return half && !it->second.copies_bytes ? widen(it->second, request) : plan_entry(it->second, request);
}

Plan KernelTable::plan_adding(PlanRequest request) const {
  const auto it = entries_.find(request.op.name());
  if (!custom_.empty() || it == entries_.end() || !it->second.adds || is_half(request.out[0].dtype()))
    return Plan();
  request.add = true;
  return it->second.rule(request);
}

bool KernelTable::supports(std::string_view name, DType dtype) const {
  const auto custom = custom_.find(std::string(name));
  if (custom != custom_.end()) return custom->second.supported.contains(dtype);
  const auto it = entries_.find(name);
  return it != entries_.end() && (it->second.dtypes & bit(dtype)) != 0;
}

}  // namespace tidu::cpu_detail
