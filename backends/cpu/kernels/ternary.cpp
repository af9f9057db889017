// ternary.cpp - select_n and clamp.
#include <algorithm>

#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

// An element of 16 bytes, moved as a whole.
struct SelectState {
  std::int64_t count;
  std::int64_t cases;
  bool scalar_which;
  int threads;
};

// A case that `which` does not reach is the nearest there is.
template <class W>
std::size_t case_of(W which, std::int64_t cases) {
  if constexpr (Boolean<W>) {
    return which ? 1 : 0;
  } else {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(which, 0, cases - 1));
  }
}

template <class W, class E>
void select_loop(const SelectState& s, const Call& call) {
  const W* which = call.operand<W>(0);
  E* y = call.result<E>();
  if (s.scalar_which) {
    const E* x = call.operand<E>(1 + case_of(which[0], s.cases));
    if (x != y) std::copy(x, x + s.count, y);
    return;
  }
  if constexpr (Boolean<W>) {
    const E* on_false = call.operand<E>(1);
    const E* on_true = call.operand<E>(s.cases > 1 ? 2 : 1);
    parallel_for(s.threads, s.count, element_grain, [=](std::int64_t begin, std::int64_t end) {
      TIDU_INDEPENDENT
      for (std::int64_t i = begin; i < end; ++i) {
        const E if_false = on_false[i];
        const E if_true = on_true[i];
        y[i] = which[i] ? if_true : if_false;
      }
    });
  } else {
    for (std::int64_t i = 0; i < s.count; ++i) y[i] = call.operand<E>(1 + case_of(which[i], s.cases))[i];
  }
}
template <class E>
void select_step(const Instruction& i, std::byte* base, const Frame&) {
  store(base, i.out, load<bool>(base, i.a) ? load<E>(base, i.c) : load<E>(base, i.b));
}

template <class E>
Plan plan_select_of(const PlanRequest& request) {
  const Type which = request.in[0];
  const auto cases = static_cast<std::int64_t>(request.in.size()) - 1;
  const SelectState state{request.out[0].size(), cases, which.size() == 1 && request.out[0].size() != 1,
                          request.threads};
  if (is_bool(which.dtype())) {
    Plan plan = make_plan<SelectState, select_loop<bool, E>>(state);
    if (cases == 2) plan.scalar = select_step<E>;
    return plan;
  }
  if (which.dtype() == i64) return make_plan<SelectState, select_loop<std::int64_t, E>>(state);
  return make_plan<SelectState, select_loop<std::int32_t, E>>(state);
}
Plan plan_select(const PlanRequest& request) {
  switch (size_of(request.out[0].dtype())) {
    case 1: return plan_select_of<std::uint8_t>(request);
    case 2: return plan_select_of<std::uint16_t>(request);
    case 4: return plan_select_of<std::uint32_t>(request);
    case 8: return plan_select_of<std::uint64_t>(request);
    default: return plan_select_of<SixteenBytes>(request);
  }
}

struct ClampState {
  std::int64_t count;
  std::int64_t lo_step, hi_step;  // 0 for a scalar bound
  int threads;
};
struct Clamp {
  template <class T>
  T operator()(T lo, T x, T hi) const {
    return Minimum()(Maximum()(x, lo), hi);
  }
};
template <class T>
void clamp_loop(const ClampState& s, const Call& call) {
  const T* lo = call.operand<T>(0);
  const T* x = call.operand<T>(1);
  const T* hi = call.operand<T>(2);
  T* y = call.result<T>();
  const bool scalars = s.lo_step == 0 && s.hi_step == 0 && s.count > 0;
  parallel_for(s.threads, s.count, element_grain, [=](std::int64_t begin, std::int64_t end) {
    if (scalars) {
      const T low = lo[0];
      const T high = hi[0];
      TIDU_INDEPENDENT
      for (std::int64_t i = begin; i < end; ++i) y[i] = Clamp()(low, x[i], high);
    } else {
      for (std::int64_t i = begin; i < end; ++i) y[i] = Clamp()(lo[i * s.lo_step], x[i], hi[i * s.hi_step]);
    }
  });
}
template <class T>
void clamp_step(const Instruction& i, std::byte* base, const Frame&) {
  store(base, i.out, Clamp()(load<T>(base, i.a), load<T>(base, i.b), load<T>(base, i.c)));
}
Plan plan_clamp(const PlanRequest& request) {
  return with_type(request.out[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (ComplexNumber<T>) {
      return Plan();
    } else {
      const auto step = [&](std::size_t i) {
        return request.in[i].rank() == 0 ? std::int64_t{0} : std::int64_t{1};
      };
      Plan plan =
          make_plan<ClampState, clamp_loop<T>>({request.out[0].size(), step(0), step(2), request.threads});
      plan.scalar = clamp_step<T>;
      return plan;
    }
  });
}

constexpr KernelEntry ternary_entries[] = {
    {"select_n", plan_select, any_dtype, true},
    {"clamp", plan_clamp, ordered},
};

}  // namespace

std::span<const KernelEntry> ternary_kernels() { return ternary_entries; }

}  // namespace tidu::cpu_detail
