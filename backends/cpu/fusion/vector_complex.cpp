// vector_complex.cpp - see vector_complex.hpp.
#include "cpu/fusion/vector_complex.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

#include "cpu/fusion/vector_ir.hpp"
#include "cpu/parallel.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::int64_t complex_grain = 16384, complex_block = 256, min_complex = 64;

struct ComplexExpState {
  std::shared_ptr<const VectorKernel> kernel;  // of real and imaginary parts, to these
  std::int64_t count;
  int threads;
};

template <class R>
void complex_exp_block(const VectorKernel& kernel, const std::complex<R>* x, std::complex<R>* y,
                       std::int64_t n) {
  // Beyond, e^x may be no normal number, though a part of the result is one.
  constexpr R most = std::is_same_v<R, float> ? R(80) : R(700);
  constexpr R finite = std::numeric_limits<R>::max();
  alignas(64) R re[complex_block], im[complex_block];
  int beyond = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    re[i] = x[i].real();
    im[i] = x[i].imag();
    beyond |= static_cast<int>(!(std::fabs(re[i]) <= most)) | static_cast<int>(!(std::fabs(im[i]) <= finite));
  }
  std::array<std::pair<std::uint16_t, std::complex<R>>, complex_block> apart;  // y may be x
  std::size_t num_apart = 0;
  for (std::int64_t i = 0; beyond != 0 && i < n; ++i) {
    if (!(std::fabs(re[i]) <= most) || !(std::fabs(im[i]) <= finite))
      apart[num_apart++] = {static_cast<std::uint16_t>(i), std::exp(x[i])};
  }
  const std::byte* const in[] = {reinterpret_cast<const std::byte*>(re),
                                 reinterpret_cast<const std::byte*>(im)};
  std::byte* const out[] = {reinterpret_cast<std::byte*>(re), reinterpret_cast<std::byte*>(im)};
  kernel.run(in, out, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = {re[i], im[i]};
  for (std::size_t i = 0; i < num_apart; ++i) y[apart[i].first] = apart[i].second;
}

template <class R>
void complex_exp(const ComplexExpState& s, const Call& call) {
  const auto* const x = call.operand<std::complex<R>>(0);
  auto* const y = call.result<std::complex<R>>();
  parallel_for(s.threads, s.count, complex_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += complex_block)
      complex_exp_block(*s.kernel, x + i, y + i, std::min(complex_block, end - i));
  });
}

}  // namespace

Plan plan_complex_exp(const PlanRequest& request, const Plan& plain) {
  const Type type = request.out[0];
  if (request.vector_jit == nullptr || &request.op.primitive() != &prim::exp || !is_complex(type.dtype()) ||
      (type.size() < min_complex && !request.part))
    return Plan();
  VectorProgram code;
  const DType dtype = code.dtype = real_dtype(type.dtype());
  code.num_operands = code.num_results = 2;
  std::array<std::uint16_t, 2> parts{};
  for (std::uint32_t i = 0; i < 2; ++i) parts[i] = code.add({.op = VectorOp::load, .index = i});
  const auto size = add_operation(code, Op::make(prim::exp), dtype, std::span(parts).first(1), dtype),
             cosine = add_operation(code, Op::make(prim::cos), dtype, std::span(parts).last(1), dtype),
             sine = add_operation(code, Op::make(prim::sin), dtype, std::span(parts).last(1), dtype);
  if (!size || !cosine || !sine) return Plan();
  const std::uint16_t re = code.add({.op = VectorOp::mul, .a = *size, .b = *cosine}),
                      im = code.add({.op = VectorOp::mul, .a = *size, .b = *sine});
  code.add({.op = VectorOp::store, .a = re, .index = 0});
  code.add({.op = VectorOp::store, .a = im, .index = 1});
  ComplexExpState state{request.vector_jit->compile(code), type.size(), request.threads};
  if (state.kernel == nullptr) return Plan();
  Plan plan = type.dtype() == c64 ? make_plan<ComplexExpState, complex_exp<float>>(std::move(state))
                                  : make_plan<ComplexExpState, complex_exp<double>>(std::move(state));
  plan.scalar = plain.scalar;
  plan.parameter = plain.parameter;
  return plan;
}

}  // namespace tidu::cpu_detail
