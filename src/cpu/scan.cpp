// scan.cpp - kernels along one axis: argmax, argmin, cumsum.
#include <algorithm>

#include "cpu/arithmetic.hpp"
#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {
namespace {

// The operand is [outer, extent, inner].
struct AxisState {
  std::int64_t outer = 1, extent = 1, inner = 1;
  bool reverse = false;
};
AxisState state_of(const PlanRequest& request) {
  const Type x = request.in[0];
  const auto axis = static_cast<std::size_t>(request.op.integer("axis"));
  AxisState state;
  state.extent = x.dim(axis);
  for (std::size_t k = 0; k < axis; ++k) state.outer *= x.dim(k);
  for (std::size_t k = axis + 1; k < x.rank(); ++k) state.inner *= x.dim(k);
  return state;
}

// Does x come before the best so far? NaN comes before all else; of equals the first stays.
struct Above {
  template <class T>
  bool operator()(T x, T best) const {
    return x > best || (x != x && best == best);
  }
};
struct Below {
  template <class T>
  bool operator()(T x, T best) const {
    return x < best || (x != x && best == best);
  }
};

template <class F, class T, class I>
void find_extreme(const AxisState& s, const Call& call) {
  const T* x = call.operand<T>(0);
  I* y = call.result<I>();
  for (std::int64_t o = 0; o < s.outer; ++o, x += s.extent * s.inner, y += s.inner) {
    std::fill_n(y, s.inner, I{0});
    for (std::int64_t i = 1; i < s.extent; ++i) {
      for (std::int64_t j = 0; j < s.inner; ++j) {
        if (F()(x[i * s.inner + j], x[static_cast<std::int64_t>(y[j]) * s.inner + j]))
          y[j] = static_cast<I>(i);
      }
    }
  }
}
template <class F>
Plan plan_extreme(const PlanRequest& request) {
  const AxisState state = state_of(request);
  const bool wide = request.out[0].dtype() == i64;
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (ComplexNumber<T>) {
      return Plan();
    } else {
      return wide ? make_plan<AxisState, find_extreme<F, T, std::int64_t>>(state)
                  : make_plan<AxisState, find_extreme<F, T, std::int32_t>>(state);
    }
  });
}

template <class T>
void cumulative_sum(const AxisState& s, const Call& call) {
  const T* x = call.operand<T>(0);
  T* y = call.result<T>();
  const std::int64_t step = s.reverse ? -s.inner : s.inner;
  const std::int64_t first = s.reverse ? (s.extent - 1) * s.inner : 0;
  for (std::int64_t o = 0; o < s.outer; ++o, x += s.extent * s.inner, y += s.extent * s.inner) {
    if (s.extent == 0) continue;
    std::copy_n(x + first, s.inner, y + first);
    std::int64_t at = first + step;
    for (std::int64_t i = 1; i < s.extent; ++i, at += step) {
      for (std::int64_t j = 0; j < s.inner; ++j) y[at + j] = Add()(y[at - step + j], x[at + j]);
    }
  }
}
Plan plan_cumsum(const PlanRequest& request) {
  AxisState state = state_of(request);
  state.reverse = request.op.boolean("reverse");
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (Boolean<T>) {
      return Plan();
    } else {
      return make_plan<AxisState, cumulative_sum<T>>(state);
    }
  });
}

constexpr KernelEntry entries[] = {
    {"argmax", plan_extreme<Above>, integers | floats},
    {"argmin", plan_extreme<Below>, integers | floats},
    {"cumsum", plan_cumsum, numbers},
};

}  // namespace

std::span<const KernelEntry> scan_kernels() { return entries; }

}  // namespace tidu::cpu_detail
