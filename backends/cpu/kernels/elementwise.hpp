// elementwise.hpp - element-wise kernels from functors: a loop over contiguous memory, and a scalar step. A
// functor is empty or is constructed from one 32-bit parameter; its call operator determines the supported
// dtypes. It may have a loop of its own, several(). A result may have the memory of an operand.
#pragma once

#include <cstring>
#include <optional>

#include "cpu/kernel.hpp"
#include "cpu/parallel.hpp"

// Tells the compiler that iterations are independent, although pointers may be equal.
#if defined(__clang__)
#define TIDU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TIDU_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace tidu::cpu_detail {

template <class T>
T load(const std::byte* base, std::uint32_t at) {
  return *reinterpret_cast<const T*>(base + 8 * static_cast<std::size_t>(at));
}
template <class T>
void store(std::byte* base, std::uint32_t at, T value) {
  *reinterpret_cast<T*>(base + 8 * static_cast<std::size_t>(at)) = value;
}

template <class F>
F functor_of(std::uint32_t parameter) {
  if constexpr (std::is_empty_v<F>) {
    return F();
  } else {
    return F(static_cast<std::int32_t>(parameter));
  }
}

template <class F>
struct ElementState {
  std::int64_t count;
  int threads;
  F function;
};

/// Elements in a piece: enough work for another thread.
inline constexpr std::int64_t element_grain = 16384;

template <class F, class T>
void unary_step(const Instruction& i, std::byte* base, const Frame&) {
  store(base, i.out, functor_of<F>(i.c)(load<T>(base, i.a)));
}
template <class F, class T>
void unary_loop(const ElementState<F>& s, const Call& call) {
  using R = std::invoke_result_t<const F&, T>;
  const T* x = call.operand<T>(0);
  R* y = call.result<R>();
  const F f = s.function;
  parallel_for(s.threads, s.count, element_grain, [=](std::int64_t begin, std::int64_t end) {
    if constexpr (requires { f.several(x, y, end); }) {
      f.several(x + begin, y + begin, end - begin);
    } else {
      TIDU_INDEPENDENT
      for (std::int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
    }
  });
}

template <class F, class T>
void binary_step(const Instruction& i, std::byte* base, const Frame&) {
  store(base, i.out, functor_of<F>(i.c)(load<T>(base, i.a), load<T>(base, i.b)));
}
template <class F, class T>
void binary_loop(const ElementState<F>& s, const Call& call) {
  using R = std::invoke_result_t<const F&, T, T>;
  const T* x = call.operand<T>(0);
  const T* y = call.operand<T>(1);
  R* z = call.result<R>();
  const F f = s.function;
  parallel_for(s.threads, s.count, element_grain, [=](std::int64_t begin, std::int64_t end) {
    if constexpr (requires { f.several(x, y, z, end); }) {
      f.several(x + begin, y + begin, z + begin, end - begin);
    } else {
      TIDU_INDEPENDENT
      for (std::int64_t i = begin; i < end; ++i) z[i] = f(x[i], y[i]);
    }
  });
}

template <class T>
struct TypeOf;
template <>
struct TypeOf<bool> : std::integral_constant<DType, DType::boolean> {};
template <>
struct TypeOf<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct TypeOf<std::int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct TypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct TypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct TypeOf<std::complex<float>> : std::integral_constant<DType, DType::c64> {};
template <>
struct TypeOf<std::complex<double>> : std::integral_constant<DType, DType::c128> {};

/// Plans the functor for operands of type T, if it accepts T and its result has the operation's result type.
template <class F, class T>
Plan plan_unary_of(const PlanRequest& request, std::int32_t parameter = 0) {
  if constexpr (std::is_invocable_v<const F&, T>) {
    if (TypeOf<std::invoke_result_t<const F&, T>>::value != request.out[0].dtype()) return Plan();
    Plan plan = make_plan<ElementState<F>, unary_loop<F, T>>(
        {request.out[0].size(), request.threads, functor_of<F>(static_cast<std::uint32_t>(parameter))});
    plan.scalar = unary_step<F, T>;
    plan.parameter = static_cast<std::uint32_t>(parameter);
    return plan;
  } else {
    return Plan();
  }
}
template <class F>
Plan plan_unary(const PlanRequest& request) {
  return with_type(request.in[0].dtype(),
                   [&]<class T>(std::type_identity<T>) { return plan_unary_of<F, T>(request); });
}
template <class F>
Plan plan_unary_with(const PlanRequest& request, std::int32_t parameter) {
  return with_type(request.in[0].dtype(),
                   [&]<class T>(std::type_identity<T>) { return plan_unary_of<F, T>(request, parameter); });
}
template <class F>
Plan plan_binary(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_invocable_v<const F&, T, T>) {
      if (TypeOf<std::invoke_result_t<const F&, T, T>>::value != request.out[0].dtype()) return Plan();
      Plan plan =
          make_plan<ElementState<F>, binary_loop<F, T>>({request.out[0].size(), request.threads, F()});
      plan.scalar = binary_step<F, T>;
      return plan;
    } else {
      return Plan();
    }
  });
}

}  // namespace tidu::cpu_detail
