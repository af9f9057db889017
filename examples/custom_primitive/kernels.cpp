// kernels.cpp - the loops. A kernel is written once and passed to any executor that works in the host's
// memory.
#include "kernels.hpp"

#include <cmath>
#include <tidu/tensor/kernel.hpp>

#include "primitives.hpp"

namespace demo {
namespace {

using tidu::KernelCall;
using tidu::Tensor;

// x seen as [outer, n, inner], n being the extent of the axis.
template <class T>
void rms_norm_of(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const auto axis = static_cast<std::size_t>(call.op().integer("axis"));
  const std::int64_t n = x.dim(axis);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
  const T* from = x.data<T>();
  T* to = call.output().mutable_data<T>();
  for (std::int64_t start = 0; start < x.size(); start += n * inner) {
    for (std::int64_t lane = start; lane < start + inner; ++lane) {
      T squares = 0;
      for (std::int64_t i = 0; i < n; ++i) squares += from[lane + i * inner] * from[lane + i * inner];
      const T scale = 1 / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(epsilon));
      for (std::int64_t i = 0; i < n; ++i) to[lane + i * inner] = scale * from[lane + i * inner];
    }
  }
}

template <class T>
void circulant_of(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const std::int64_t n = x.shape().back();
  const T* weights = call.op().literal("weights").data<T>();
  const T* from = x.data<T>();
  T* to = call.output().mutable_data<T>();
  for (std::int64_t row = 0; row < x.size(); row += n) {
    for (std::int64_t i = 0; i < n; ++i) {
      T sum = 0;
      for (std::int64_t k = 0; k < n; ++k) sum += weights[k] * from[row + (i + k) % n];
      to[row + i] = sum;
    }
  }
}

constexpr tidu::DTypes supported{tidu::f32, tidu::f64};

template <void (*single)(const KernelCall&), void (*twice)(const KernelCall&)>
void by_dtype(const KernelCall& call) {
  switch (call.output().dtype()) {
    case tidu::f32: return single(call);
    case tidu::f64: return twice(call);
    default:
      throw tidu::Error(tidu::ErrorKind::execution,
                        "expected f32 or f64, got " + to_string(call.output().type()));
  }
}

template <class Executor>
Executor with_both(const Executor& executor) {
  return executor.with_kernel(rms_norm.name, by_dtype<rms_norm_of<float>, rms_norm_of<double>>, supported)
      .with_kernel(circulant.name, by_dtype<circulant_of<float>, circulant_of<double>>, supported);
}

}  // namespace

tidu::CpuExecutor with_kernels(const tidu::CpuExecutor& executor) { return with_both(executor); }
tidu::ReferenceExecutor with_kernels(const tidu::ReferenceExecutor& executor) { return with_both(executor); }

}  // namespace demo
