// convolution_match.cpp - which of the general convolutions are those of a layer, and their gradients as
// transposition gives them: the gradient for x is a convolution of the spread-out cotangent with the kernel
// read backward, that for the kernel one whose batch and features have changed places.
#include <algorithm>
#include <limits>

#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/compose.hpp"
#include "cuda/rules/library_rules.hpp"

namespace tidu::cuda_detail {
namespace {

enum class Order { none, features_first, features_last };

// (batch, feature, places…) or (batch, places…, feature)?
Order order_of(const Ints& spec) {
  Ints first(spec.size()), last(spec.size());
  for (std::size_t k = 0; k < spec.size(); ++k) first[k] = static_cast<std::int64_t>(k);
  last[1] = first.back();
  for (std::size_t k = 2; k < spec.size(); ++k) last[k] = static_cast<std::int64_t>(k) - 1;
  return spec == first ? Order::features_first : spec == last ? Order::features_last : Order::none;
}
Ints exchanged(Ints spec) {
  std::swap(spec[0], spec[1]);
  return spec;
}
// The axes that `spec` tells of in that order.
Ints axes_in(const Ints& spec, Order order) {
  Ints axes{spec[0]};
  if (order == Order::features_first) axes.push_back(spec[1]);
  axes.insert(axes.end(), spec.begin() + 2, spec.end());
  if (order == Order::features_last) axes.push_back(spec[1]);
  return axes;
}
bool all_are(const Ints& list, std::int64_t value) {
  return std::all_of(list.begin(), list.end(), [value](std::int64_t each) { return each == value; });
}

struct Operation {
  explicit Operation(const PlanRequest& request)
      : specs(request.op.lists("dimension_numbers")),
        strides(request.op.ints("window_strides")),
        spread(request.op.ints("lhs_dilation")),
        dilation(request.op.ints("rhs_dilation")),
        padding(request.op.lists("padding")),
        groups(request.op.integer("feature_group_count")),
        types{request.in[0], request.in[1], request.out[0]} {}
  std::int64_t extent(std::size_t which, std::size_t axis) const {
    return types[which].dim(static_cast<std::size_t>(specs[which][axis]));
  }
  const IntLists& specs;
  const Ints &strides, &spread, &dilation;
  const IntLists& padding;
  std::int64_t groups;
  Type types[3];  // lhs, kernel, result
};

// Does the library find the extents that there are?
bool fits(const ConvolutionStep& step) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  std::int64_t x = step.batch * step.features, y = step.batch * step.results;
  for (const ConvolutionStep::Axis& axis : step.axes) {
    const std::int64_t rest = axis.x + 2 * axis.padding - ((axis.w - 1) * axis.dilation + 1);
    if (axis.padding < 0 || rest < 0 || axis.y != rest / axis.stride + 1) return false;
    x *= axis.x;
    y *= axis.y;
  }
  return x <= most && y <= most;
}

ConvolutionStep forward(const Operation& o) {
  ConvolutionStep step;
  step.batch = o.extent(0, 0);
  step.features = o.extent(0, 1);
  step.results = o.extent(1, 0);
  step.groups = o.groups;
  for (std::size_t k = 0; k < o.strides.size(); ++k)
    step.axes.push_back({o.extent(0, k + 2), o.extent(1, k + 2), o.extent(2, k + 2), o.strides[k],
                         o.dilation[k], o.padding[k][0]});
  return step;
}
// x[i] = Σ y[(i + q dilation - low) / stride] w[q]: q counts from the other end.
ConvolutionStep gradient_of_data(const Operation& o) {
  ConvolutionStep step;
  step.kind = ConvolutionStep::Kind::data;
  step.flipped = true;
  step.batch = o.extent(0, 0);
  step.results = o.extent(0, 1);
  step.features = o.extent(1, 0);
  for (std::size_t k = 0; k < o.strides.size(); ++k) {
    const std::int64_t w = o.extent(1, k + 2);
    step.axes.push_back({o.extent(2, k + 2), w, o.extent(0, k + 2), o.spread[k], o.dilation[k],
                         o.dilation[k] * (w - 1) - o.padding[k][0]});
  }
  return step;
}
// w[q] = Σ x[q dilation + p stride - low] y[p]: strides and dilations have changed places.
ConvolutionStep gradient_of_filter(const Operation& o) {
  ConvolutionStep step;
  step.kind = ConvolutionStep::Kind::filter;
  step.batch = o.extent(0, 1);
  step.features = o.extent(0, 0);
  step.results = o.extent(1, 0);
  for (std::size_t k = 0; k < o.strides.size(); ++k)
    step.axes.push_back({o.extent(0, k + 2), o.extent(2, k + 2), o.extent(1, k + 2), o.dilation[k],
                         o.strides[k], o.padding[k][0]});
  return step;
}

// The filter, whose axes `spec` tells of as (result, feature, places…), in the library's order.
BufferRef placed_filter(Plan& plan, const Ints& spec, Order order, const PlanRequest& request) {
  if (order_of(spec) == order) return operand(1);
  const BufferRef copy = take_scratch(plan, request.in[1].bytes());
  append_transposed(plan, request.in[1], axes_in(spec, order), operand(1), copy, request);
  return copy;
}

}  // namespace

bool append_library_convolution(Plan& plan, const PlanRequest& request) {
  using Kind = ConvolutionStep::Kind;
  const Operation o(request);
  const DType dtype = request.out[0].dtype();
  const std::size_t spatial = o.strides.size();
  if (is_complex(dtype) || !is_inexact(dtype) || spatial < 1 || spatial > 3) return false;

  const Order lhs = order_of(o.specs[0]), out = order_of(o.specs[2]),
              turned = order_of(exchanged(o.specs[0]));
  ConvolutionStep step;
  Order order = lhs;
  bool found = false;
  if (lhs != Order::none && lhs == out && all_are(o.spread, 1)) {
    step = forward(o);
    found = fits(step);
  }
  if (!found && lhs != Order::none && lhs == out && all_are(o.strides, 1) && o.groups == 1) {
    step = gradient_of_data(o);
    found = fits(step);
  }
  if (!found && turned != Order::none && turned == order_of(exchanged(o.specs[1])) && all_are(o.spread, 1) &&
      o.groups == 1) {
    order = turned;
    step = gradient_of_filter(o);
    found = fits(step);
  }
  if (!found) return false;

  step.dtype = dtype;
  step.tf32 = request.tf32 && dtype == DType::f32;
  step.features_last = order == Order::features_last;
  constexpr std::size_t max_workspace = std::size_t{64} << 20, min_workspace = std::size_t{1} << 20;
  const std::size_t touched = request.in[0].bytes() + request.in[1].bytes() + request.out[0].bytes();
  step.workspace_bytes = std::min(max_workspace, aligned(4 * touched + min_workspace));
  step.workspace = take_scratch(plan, step.workspace_bytes);
  switch (step.kind) {
    case Kind::forward:
      step.x = operand(0);
      step.w = placed_filter(plan, o.specs[1], order, request);
      step.y = result();
      break;
    case Kind::data:
      step.y = operand(0);
      step.w = placed_filter(plan, exchanged(o.specs[1]), order, request);
      step.x = result();
      break;
    case Kind::filter: {
      step.x = operand(0);
      step.y = operand(1);
      const Ints spec = exchanged(o.specs[2]);  // of (result, feature, places…)
      if (order_of(spec) == order) {
        step.w = result();
        break;
      }
      step.w = take_scratch(plan, request.out[0].bytes());
      plan.steps.emplace_back(step);
      const Ints axes = axes_in(spec, order);  // of the result, as they lie in step.w
      Shape shape;
      Ints permutation(axes.size());
      for (std::size_t k = 0; k < axes.size(); ++k) {
        shape.push_back(request.out[0].dim(static_cast<std::size_t>(axes[k])));
        permutation[static_cast<std::size_t>(axes[k])] = static_cast<std::int64_t>(k);
      }
      append_transposed(plan, Type(dtype, shape), permutation, step.w, result(), request);
      return true;
    }
  }
  plan.steps.emplace_back(step);
  return true;
}

}  // namespace tidu::cuda_detail
