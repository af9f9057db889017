// scan.cpp - kernels along one axis: argmax and argmin; cumsum, cumprod, cummax, cummin and cumlogsumexp.
#include <algorithm>
#include <cmath>
#include <limits>

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
  if (x.size() == 0) return {0, 0, 0};  // whatever the other extents are
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

// Of equal values the first, of which the derivative is taken.
template <class F>
struct Best {
  template <class T>
  requires(Integer<T> || RealNumber<T>) T operator()(T best, T x) const { return F()(x, best) ? x : best; }
};

// y_i = f(y_{i-1}, x_i)
template <class F, class T>
void accumulate(const AxisState& s, const Call& call) {
  const T* x = call.operand<T>(0);
  T* y = call.result<T>();
  const std::int64_t step = s.reverse ? -s.inner : s.inner;
  const std::int64_t first = s.reverse ? (s.extent - 1) * s.inner : 0;
  for (std::int64_t o = 0; o < s.outer; ++o, x += s.extent * s.inner, y += s.extent * s.inner) {
    if (s.extent == 0) continue;
    std::copy_n(x + first, s.inner, y + first);
    std::int64_t at = first + step;
    for (std::int64_t i = 1; i < s.extent; ++i, at += step) {
      for (std::int64_t j = 0; j < s.inner; ++j) y[at + j] = F()(y[at - step + j], x[at + j]);
    }
  }
}

// With m the greatest x so far and s = sum e^(x - m): y = m + log s. A NaN stays; x equal to m adds 1, which
// is right for infinities too.
template <class T>
void accumulate_exponentials(const AxisState& s, const Call& call) {
  constexpr std::int64_t tile = 64;
  const T* x = call.operand<T>(0);
  T* y = call.result<T>();
  const std::int64_t step = s.reverse ? -s.inner : s.inner;
  const std::int64_t first = s.reverse ? (s.extent - 1) * s.inner : 0;
  for (std::int64_t o = 0; o < s.outer; ++o, x += s.extent * s.inner, y += s.extent * s.inner) {
    for (std::int64_t column = 0; column < s.inner; column += tile) {
      const std::int64_t columns = std::min(tile, s.inner - column);
      T largest[tile];
      double sum[tile];
      std::fill_n(largest, columns, -std::numeric_limits<T>::infinity());
      std::fill_n(sum, columns, 0.0);
      std::int64_t at = first + column;
      for (std::int64_t i = 0; i < s.extent; ++i, at += step) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const T value = x[at + j];
          if (value <= largest[j]) {
            sum[j] += value == largest[j] ? 1.0 : static_cast<double>(std::exp(value - largest[j]));
          } else {
            sum[j] = sum[j] * static_cast<double>(std::exp(largest[j] - value)) + 1.0;
            largest[j] = largest[j] == largest[j] ? value : largest[j];
          }
          y[at + j] = largest[j] + static_cast<T>(std::log(sum[j]));
        }
      }
    }
  }
}

AxisState cumulative_state(const PlanRequest& request) {
  AxisState state = state_of(request);
  state.reverse = request.op.boolean("reverse");
  return state;
}
template <class F>
Plan plan_cumulative(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_invocable_v<const F&, T, T>) {
      return make_plan<AxisState, accumulate<F, T>>(cumulative_state(request));
    } else {
      return Plan();
    }
  });
}
Plan plan_exponentials(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (RealNumber<T>) {
      return make_plan<AxisState, accumulate_exponentials<T>>(cumulative_state(request));
    } else {
      return Plan();
    }
  });
}

constexpr KernelEntry scan_entries[] = {
    {"argmax", plan_extreme<Above>, integers | floats},
    {"argmin", plan_extreme<Below>, integers | floats},
    {"cumsum", plan_cumulative<Add>, numbers},
    {"cumprod", plan_cumulative<Multiply>, numbers},
    {"cummax", plan_cumulative<Best<Above>>, integers | floats},
    {"cummin", plan_cumulative<Best<Below>>, integers | floats},
    {"cumlogsumexp", plan_exponentials, floats},
};

}  // namespace

std::span<const KernelEntry> scan_kernels() { return scan_entries; }

}  // namespace tidu::cpu_detail
