// vector_special.cpp - see vector_special.hpp.
#include "cpu/fusion/vector_special.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "cpu/fusion/vector_ir.hpp"
#include "cpu/kernels/special.hpp"
#include "cpu/parallel.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::int64_t special_grain = 16384, special_block = 128, min_special = 64;
constexpr double special_far = 10;  // where the series have all digits
constexpr int special_steps = 10, half_special_steps = 5;

struct SpecialState {
  std::shared_ptr<const VectorKernel> log;  // of f64
  std::int64_t count;
  int threads;
};

void logarithms(const VectorKernel& log, double* x, std::int64_t n) {
  const std::byte* const in = reinterpret_cast<const std::byte*>(x);
  std::byte* const out = reinterpret_cast<std::byte*>(x);
  log.run(&in, &out, n);
}

struct DigammaVectors {
  static double of_one(double x) { return digamma(x); }
  // log q - 1 / (2 q) - sum B_2j / (2 j q^2j) - sum 1 / (x + k), the last sum as two fractions
  static void of_block(const VectorKernel& log, const double* x, double* y, std::int64_t n) {
    alignas(64) double from_far[special_block];
    for (std::int64_t i = 0; i < n; ++i) {
      double over = 0, under = 1, over_behind = 0, under_behind = 1;
      for (int k = 0; k < half_special_steps; ++k) {
        const double from_near = x[i] + k, behind = x[i] + (half_special_steps + k);
        over = over * from_near + under;
        under *= from_near;
        over_behind = over_behind * behind + under_behind;
        under_behind *= behind;
      }
      const bool is_near = x[i] < special_far;
      const double steps = over / under + over_behind / under_behind;
      from_far[i] = is_near ? x[i] + special_steps : x[i];
      const double inverse = 1 / from_far[i], w = inverse * inverse;
      const double series =
          w * (1.0 / 12 +
               w * (-1.0 / 120 +
                    w * (1.0 / 252 + w * (-1.0 / 240 + w * (1.0 / 132 + w * (-691.0 / 32760 + w / 12))))));
      y[i] = -(is_near ? steps : 0.0) - 0.5 * inverse - series;
    }
    logarithms(log, from_far, n);
    for (std::int64_t i = 0; i < n; ++i) y[i] += from_far[i];
  }
};

struct LgammaVectors {
  static double of_one(double x) { return log_gamma(x); }
  // (q - 1/2) log q - q + log(2 pi) / 2 + sum B_2j / (2j (2j - 1) q^(2j-1)) - log x (x + 1) ...
  static void of_block(const VectorKernel& log, const double* x, double* y, std::int64_t n) {
    constexpr double half_log_two_pi = 0.918938533204672741780329736406;
    alignas(64) double from_far[special_block], product[special_block], factor[special_block];
    for (std::int64_t i = 0; i < n; ++i) {
      double steps = x[i];
      for (int k = 1; k < special_steps; ++k) steps *= x[i] + k;
      const bool is_near = x[i] < special_far;
      product[i] = is_near ? steps : 1.0;
      from_far[i] = is_near ? x[i] + special_steps : x[i];
      factor[i] = from_far[i] - 0.5;
      const double inverse = 1 / from_far[i], w = inverse * inverse;
      const double series =
          inverse * (1.0 / 12 + w * (-1.0 / 360 + w * (1.0 / 1260 + w * (-1.0 / 1680 + w / 1188))));
      y[i] = half_log_two_pi - from_far[i] + series;
    }
    logarithms(log, from_far, n);
    logarithms(log, product, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const double sum = (factor[i] * from_far[i] - product[i]) + y[i];
      y[i] = x[i] == 1 || x[i] == 2 ? 0 : sum;  // the roots, where terms cancel
    }
  }
};

template <class Function, class T>
void special_block_of(const VectorKernel& log, const T* x, T* y, std::int64_t n) {
  constexpr double least = 1e-300, most = 1e30;
  alignas(64) double from[special_block], to[special_block];
  int apart = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    const bool ordinary = value > least && value < most;
    apart |= static_cast<int>(!ordinary);
    from[i] = ordinary ? value : 1.0;
  }
  Function::of_block(log, from, to, n);
  for (std::int64_t i = 0; apart != 0 && i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    if (!(value > least && value < most)) to[i] = Function::of_one(value);
  }
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(to[i]);
}

template <class Function, class T>
void special_functions(const SpecialState& s, const Call& call) {
  const T* const x = call.operand<T>(0);
  T* const y = call.result<T>();
  parallel_for(s.threads, s.count, special_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += special_block)
      special_block_of<Function>(*s.log, x + i, y + i, std::min(special_block, end - i));
  });
}

}  // namespace

Plan plan_special_functions(const PlanRequest& request, const Plan& plain) {
  const Primitive& primitive = request.op.primitive();
  if (request.vector_jit == nullptr || (&primitive != &prim::digamma && &primitive != &prim::lgamma))
    return Plan();
  const Type type = request.out[0];
  const bool is_digamma = &primitive == &prim::digamma, is_f32 = type.dtype() == f32;
  if ((!is_f32 && !(is_digamma && type.dtype() == f64)) || (type.size() < min_special && !request.part))
    return Plan();
  VectorProgram code{.dtype = f64, .steps = {}, .num_operands = 1, .num_results = 1};
  const std::uint16_t x = code.add({.op = VectorOp::load, .index = 0});
  const std::uint16_t log =
      code.add({.op = VectorOp::call, .a = x, .index = static_cast<std::uint32_t>(VectorFunction::log)});
  code.add({.op = VectorOp::store, .a = log});
  SpecialState state{request.vector_jit->compile(code), type.size(), request.threads};
  if (state.log == nullptr) return Plan();
  Plan plan = !is_digamma ? make_plan<SpecialState, special_functions<LgammaVectors, float>>(std::move(state))
              : is_f32 ? make_plan<SpecialState, special_functions<DigammaVectors, float>>(std::move(state))
                       : make_plan<SpecialState, special_functions<DigammaVectors, double>>(std::move(state));
  plan.scalar = plain.scalar;
  plan.parameter = plain.parameter;
  return plan;
}

}  // namespace tidu::cpu_detail
