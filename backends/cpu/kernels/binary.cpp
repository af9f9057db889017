// binary.cpp - kernels of two operands of one type.
#include <cmath>

#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

struct Power {
  template <Inexact T>
  T operator()(T x, T y) const {
    if constexpr (ComplexNumber<T>) {
      if (y == T(0)) return T(1);
      if (x == T(0)) return std::pow(std::abs(x), y);  // std::pow takes the logarithm of 0
    }
    return std::pow(x, y);
  }
};
struct Atan2 {
  template <RealNumber T>
  T operator()(T y, T x) const {
    return std::atan2(y, x);
  }
};
struct NextAfter {
  template <RealNumber T>
  T operator()(T x, T y) const {
    return std::nextafter(x, y);
  }
};
struct MakeComplex {
  template <RealNumber T>
  std::complex<T> operator()(T re, T im) const {
    return {re, im};
  }
};

// The 16-bit types' neighbours are not those of f32: on their bits, as std::nextafter does.
template <DType dtype>
void nextafter_bits(const std::int64_t& count, const Call& call) {
  const auto value = [](std::uint16_t bits) {
    return dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
  };
  const auto* x = call.operand<std::uint16_t>(0);
  const auto* y = call.operand<std::uint16_t>(1);
  auto* z = call.result<std::uint16_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const float from = value(x[i]);
    const float to = value(y[i]);
    if (from != from || to != to) {
      z[i] = dtype == DType::f16 ? 0x7e00 : 0x7fc0;
    } else if (from == to) {
      z[i] = y[i];
    } else if (from == 0) {
      z[i] = static_cast<std::uint16_t>(to > 0 ? 0x0001 : 0x8001);
    } else {
      z[i] = static_cast<std::uint16_t>((from < to) == (from > 0) ? x[i] + 1 : x[i] - 1);
    }
  }
}
Plan plan_nextafter(const PlanRequest& request) {
  const std::int64_t count = request.out[0].size();
  if (request.in[0].dtype() == f16) return make_plan<std::int64_t, nextafter_bits<DType::f16>>(count);
  if (request.in[0].dtype() == bf16) return make_plan<std::int64_t, nextafter_bits<DType::bf16>>(count);
  return plan_binary<NextAfter>(request);
}

Plan plan_multiply_no_nan(const PlanRequest& request) {
  if (request.op.boolean("both")) return plan_binary<MultiplyNoNanOfBoth>(request);
  return plan_binary<MultiplyNoNan>(request);
}

constexpr KernelEntry binary_entries[] = {
    {"add", plan_binary<Add>, numbers},
    {"sub", plan_binary<Subtract>, numbers},
    {"mul", plan_binary<Multiply>, numbers},
    {"div", plan_binary<Divide>, numbers},
    {"multiply_no_nan", plan_multiply_no_nan, floats | complexes},
    {"divide_no_nan", plan_binary<DivideNoNan>, floats | complexes},
    {"pow", plan_binary<Power>, floats | complexes},
    {"max", plan_binary<Maximum>, ordered},
    {"min", plan_binary<Minimum>, ordered},
    {"atan2", plan_binary<Atan2>, floats},
    {"rem", plan_binary<Remainder>, integers | floats},
    {"nextafter", plan_nextafter, floats, true},
    {"and", plan_binary<And>, bit(bool_) | integers},
    {"or", plan_binary<Or>, bit(bool_) | integers},
    {"xor", plan_binary<Xor>, bit(bool_) | integers},
    {"complex", plan_binary<MakeComplex>, reals},
};

}  // namespace

std::span<const KernelEntry> binary_kernels() { return binary_entries; }

}  // namespace tidu::cpu_detail
