// cumulative.cpp - kernels of cumsum, cumprod, cummax, cummin and cumlogsumexp: along each line of an axis
// the result so far and the next element make the next result.
#include <cmath>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

/// y_i = f(y_{i-1}, x_i), from the other end where the op is `reverse`.
template <class T, class F>
void accumulate(const KernelCall& c, const F& f) {
  const Tensor& x = c.input(0);
  const std::size_t axis = axis_of(c.op().integer("axis"));
  const bool reverse = c.op().boolean("reverse");
  const Writer out(c.output());
  for_each(x.shape(), [&](Int, Shape at) {
    if (at[axis] != 0) return;  // each line once
    T result(0);
    for (Int k = 0; k < x.dim(axis); ++k) {
      at[axis] = reverse ? x.dim(axis) - 1 - k : k;
      const Int i = flat(x.shape(), at);
      result = k == 0 ? load<T>(x, i) : static_cast<T>(f(result, load<T>(x, i)));
      out.store<T>(i, result);
    }
  });
}

void cumsum(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      no_kernel_for(c);
    else
      accumulate<T>(c, [dtype = c.output().dtype()](T x, T y) { return partial(dtype, plus(x, y)); });
  });
}

void cumprod(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      no_kernel_for(c);
    else
      accumulate<T>(c, [](T x, T y) { return times(x, y); });
  });
}

/// The derivative follows the first of equal values; NaN once there is one.
template <class Better>
void extremum(const KernelCall& c, const Better& better) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Int> || std::is_same_v<T, Real>)
      accumulate<T>(c, [&](T best, T x) { return best == best && (x != x || better(x, best)) ? x : best; });
    else
      no_kernel_for(c);
  });
}
void cummax(const KernelCall& c) {
  extremum(c, [](auto x, auto y) { return x > y; });
}
void cummin(const KernelCall& c) {
  extremum(c, [](auto x, auto y) { return x < y; });
}

/// log(e^x + e^y) = max(x, y) + log(1 + e^-|x - y|); the infinity for two of one sign, NaN for a NaN.
void cumlogsumexp(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Real>) {
      accumulate<T>(c, [](T x, T y) {
        const T distance = x - y;
        return std::isnan(distance) ? x + y : greater_of(x, y) + std::log1p(std::exp(-std::fabs(distance)));
      });
    } else {
      no_kernel_for(c);
    }
  });
}

}  // namespace

std::vector<NamedKernel> cumulative_kernels() {
  const DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
  const DTypes real = dtypes::integers | dtypes::floats;
  return {{"cumsum", numbers, cumsum},
          {"cumprod", numbers, cumprod},
          {"cummax", real, cummax},
          {"cummin", real, cummin},
          {"cumlogsumexp", dtypes::floats, cumlogsumexp}};
}

}  // namespace tidu::ref
