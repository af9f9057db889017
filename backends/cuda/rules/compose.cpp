// compose.cpp - places of a part among those of a plan, and the steps that prepare operands of libraries.
#include "cuda/rules/compose.hpp"

#include <algorithm>

#include "cuda/kernels/kernels.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cuda_detail {
namespace {

class Moved {
 public:
  Moved(std::span<const BufferRef> operands, std::span<const BufferRef> results, std::size_t scratch_offset)
      : operands_(operands), results_(results), scratch_(scratch_offset) {}

  void place(BufferRef& at) const {
    if (at.kind == BufferRef::Kind::scratch) {
      at.offset += scratch_;
      return;
    }
    const BufferRef& whole = at.kind == BufferRef::Kind::operand ? operands_[at.index] : results_[at.index];
    at = {whole.kind, whole.index, whole.offset + at.offset};
  }
  void operator()(Launch& step) const {
    for (Argument& argument : step.arguments) {
      if (argument.is_place) place(argument.place);
    }
  }
  void operator()(CopyStep& step) const { all(step.from, step.to); }
  void operator()(ClearStep& step) const { all(step.at); }
  void operator()(LiteralStep& step) const { all(step.to); }
  void operator()(GemmStep& step) const { all(step.a, step.b, step.out, step.bias, step.workspace); }
  void operator()(ConvolutionStep& step) const { all(step.x, step.w, step.y, step.workspace); }
  void operator()(SortStep& step) const {
    all(step.keys, step.values, step.keys_out, step.values_out, step.workspace);
  }
  void operator()(SolverStep& step) const {
    all(step.a, step.b, step.values, step.u, step.v, step.info, step.a_pointers, step.b_pointers,
        step.workspace);
  }
  void operator()(CollectiveStep& step) const { all(step.in, step.out); }

 private:
  template <class... Places>
  void all(Places&... places) const {
    (place(places), ...);
  }
  std::span<const BufferRef> operands_, results_;
  std::size_t scratch_;
};

}  // namespace

BufferRef take_scratch(Plan& plan, std::size_t bytes) {
  const BufferRef at = scratch(plan.scratch_bytes);
  plan.scratch_bytes += aligned(bytes);
  return at;
}

void append(Plan& plan, const Plan& part, std::span<const BufferRef> operands,
            std::span<const BufferRef> results) {
  plan.supported = plan.supported && part.supported;
  const Moved moved(operands, results, plan.scratch_bytes);
  for (Step step : part.steps) {
    std::visit(moved, step);
    plan.steps.emplace_back(std::move(step));
  }
  plan.scratch_bytes += aligned(part.scratch_bytes);
}

void append_transposed(Plan& plan, Type type, const Ints& permutation, BufferRef from, BufferRef to,
                       const PlanRequest& like) {
  Ints moving;  // the order of axes of more than one element
  Shape shape;
  for (const std::int64_t axis : permutation) {
    shape.push_back(type.dim(static_cast<std::size_t>(axis)));
    if (shape.back() != 1) moving.push_back(axis);
  }
  if (std::is_sorted(moving.begin(), moving.end())) {
    if (from != to) plan.steps.emplace_back(CopyStep{from, to, type.bytes()});
    return;
  }
  const Type result(type.dtype(), shape);
  const Op op = Op::make(prim::transpose, {{"permutation", permutation}});
  const Plan part =
      plan_operation({op, std::span(&type, 1), std::span(&result, 1), like.multiprocessors, like.tf32});
  append(plan, part, std::span(&from, 1), std::span(&to, 1));
}

void append_converted(Plan& plan, DType from_dtype, DType to_dtype, std::int64_t count, BufferRef from,
                      BufferRef to, const PlanRequest& like) {
  const Type type(from_dtype, {count}), result(to_dtype, {count});
  const Op op = Op::make(prim::convert_element_type, {{"new_dtype", to_dtype}});
  const Plan part =
      plan_operation({op, std::span(&type, 1), std::span(&result, 1), like.multiprocessors, like.tf32});
  append(plan, part, std::span(&from, 1), std::span(&to, 1));
}

std::string elements_begin(const std::string& parameters) {
  return "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(" + parameters +
         ", const u64 work) {\n"
         "  const u64 step = (u64)grid_x() * 256u;\n"
         "  for (u64 at = (u64)block_x() * 256u + thread_index(); at < work; at += step) {\n";
}

void append_sort(Plan& plan, const SortStep& sort) {
  const std::int64_t most = std::max<std::int64_t>(1, 0x7fffffff / sort.length);
  for (std::int64_t first = 0; first < sort.segments; first += most) {
    SortStep part = sort;
    part.segments = std::min(most, sort.segments - first);
    const auto before = static_cast<std::size_t>(first * sort.length);
    for (BufferRef* const keys : {&part.keys, &part.keys_out}) keys->offset += before * sort.key_bytes;
    for (BufferRef* const values : {&part.values, &part.values_out}) values->offset += before * 4;
    plan.steps.emplace_back(part);
  }
}

Launch launch_elements(std::string_view name, const std::string& text, std::int64_t work,
                       std::vector<Argument> arguments, int multiprocessors) {
  Launch launch;
  launch.kernel = make_kernel(name, text);
  launch.block = 256;
  launch.grid = {blocks_for(work, 256, multiprocessors), 1, 1};
  launch.arguments = std::move(arguments);
  launch.arguments.push_back(argument(work));
  return launch;
}

Ints dense_strides(const Shape& shape) {
  Ints strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t k = shape.size(); k-- > 0; stride *= shape[k]) strides[k] = stride;
  return strides;
}

std::optional<MergedAxis> merge_axes(const Shape& shape, const Ints& axes) {
  const Ints strides = dense_strides(shape);
  MergedAxis merged;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto k = static_cast<std::size_t>(axes[i]);
    if (shape[k] == 1) continue;
    if (merged.extent != 1 && strides[k] != merged.extent * merged.stride) return std::nullopt;
    if (merged.extent == 1) merged.stride = strides[k];
    merged.extent *= shape[k];
  }
  return merged;
}

}  // namespace tidu::cuda_detail
