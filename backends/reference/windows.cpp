// windows.cpp - kernels of reduce_window_sum, reduce_window_max and conv_general_dilated, one element of one
// window after another.
#include <algorithm>
#include <limits>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

// result = f(… f(init, x0) …, xn) over each window
template <class T, class F>
void fold_windows(const KernelCall& c, T init, const F& f) {
  const Tensor& x = c.input(0);
  const Ints &window = c.op().ints("window_dimensions"), &strides = c.op().ints("window_strides");
  const IntLists& padding = c.op().lists("padding");
  const Writer out(c.output());
  Shape first(x.rank()), count(x.rank()), at_x(x.rank());
  for_each(c.output().shape(), [&](Int i, const Shape& at) {
    for (std::size_t k = 0; k < x.rank(); ++k) {
      const Int start = at[k] * strides[k] - padding[k][0];
      first[k] = std::max(Int{0}, start);
      count[k] = std::max(Int{0}, std::min(x.dim(k), start + window[k]) - first[k]);
    }
    T value = init;
    for_each(count, [&](Int, const Shape& place) {
      for (std::size_t k = 0; k < x.rank(); ++k) at_x[k] = first[k] + place[k];
      value = f(value, load<T>(x, flat(x.shape(), at_x)));
    });
    out.store<T>(i, value);
  });
}

void reduce_window_sum(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      no_kernel_for(c);
    else
      fold_windows<T>(c, T(0), [dtype = c.output().dtype()](T x, T y) { return partial(dtype, plus(x, y)); });
  });
}

void reduce_window_max(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Real>) {
      fold_windows<T>(c, -std::numeric_limits<T>::infinity(), greater_of<T>);
    } else if constexpr (std::is_same_v<T, Int>) {
      const bool narrow = c.output().dtype() == i32;
      fold_windows<T>(
          c, narrow ? Int{std::numeric_limits<std::int32_t>::min()} : std::numeric_limits<Int>::min(),
          greater_of<T>);
    } else {
      no_kernel_for(c);
    }
  });
}

// out[b, o, p] = Σ_{i, k} lhs[b, group(o) + i, p stride + k dilation - low] rhs[o, i, k], where padding and
// the zeros between dilated elements are numbers: 0 times an infinite element of rhs is NaN
template <class T>
void convolve(const KernelCall& c) {
  const Tensor &lhs = c.input(0), &rhs = c.input(1);
  const IntLists& specs = c.op().lists("dimension_numbers");
  const auto axis = [&specs](std::size_t spec, std::size_t place) { return axis_of(specs[spec][place]); };
  const Ints &strides = c.op().ints("window_strides"), &spread = c.op().ints("lhs_dilation"),
             &dilation = c.op().ints("rhs_dilation");
  const IntLists& padding = c.op().lists("padding");
  const Int of_group = rhs.dim(axis(1, 1));
  const Int results_of_group = rhs.dim(axis(1, 0)) / c.op().integer("feature_group_count");
  Shape kernel{of_group};
  for (std::size_t k = 2; k < rhs.rank(); ++k) kernel.push_back(rhs.dim(axis(1, k)));

  const Writer out(c.output());
  Shape at_lhs(lhs.rank()), at_rhs(rhs.rank());
  for_each(c.output().shape(), [&](Int i, const Shape& at) {
    const Int o = at[axis(2, 1)];
    at_lhs[axis(0, 0)] = at[axis(2, 0)];
    at_rhs[axis(1, 0)] = o;
    T sum(0);
    for_each(kernel, [&](Int, const Shape& place) {
      at_lhs[axis(0, 1)] = o / results_of_group * of_group + place[0];
      at_rhs[axis(1, 1)] = place[0];
      bool inside = true;
      for (std::size_t k = 0; k + 2 < lhs.rank(); ++k) {
        const Int from = at[axis(2, k + 2)] * strides[k] + place[k + 1] * dilation[k] - padding[k][0];
        inside = inside && from >= 0 && from % spread[k] == 0 && from / spread[k] < lhs.dim(axis(0, k + 2));
        at_lhs[axis(0, k + 2)] = from / spread[k];
        at_rhs[axis(1, k + 2)] = place[k + 1];
      }
      const T x = inside ? load<T>(lhs, flat(lhs.shape(), at_lhs)) : T(0);
      sum = partial(c.output().dtype(), plus(sum, times(x, load<T>(rhs, flat(rhs.shape(), at_rhs)))));
    });
    out.store<T>(i, sum);
  });
}

void conv_general_dilated(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      no_kernel_for(c);
    else
      convolve<T>(c);
  });
}

}  // namespace

std::vector<NamedKernel> window_kernels() {
  const DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
  return {{"conv_general_dilated", numbers, conv_general_dilated},
          {"reduce_window_sum", numbers, reduce_window_sum},
          {"reduce_window_max", dtypes::integers | dtypes::floats, reduce_window_max}};
}

}  // namespace tidu::ref
