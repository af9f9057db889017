// dynamic.cpp - kernels of dynamic_slice and dynamic_update_slice. A start index is clamped so that the
// window lies inside.
#include <algorithm>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

/// The begin of a window of that shape; the start indices are the operands from `first` on.
Shape begin_of(const KernelCall& c, const Shape& window, std::size_t first) {
  Shape begin;
  for (std::size_t k = 0; k < window.size(); ++k) {
    const Int last = c.input(0).dim(k) - window[k];
    begin.push_back(std::clamp<Int>(load<Int>(c.input(first + k), 0), 0, last));
  }
  return begin;
}

/// Element `at` of a window that begins at `begin`.
Shape within(const Shape& begin, Shape at) {
  for (std::size_t k = 0; k < at.size(); ++k) at[k] += begin[k];
  return at;
}

void dynamic_slice(const KernelCall& c) {
  const Tensor& x = c.input(0);
  const Shape& window = c.output().shape();
  const Shape begin = begin_of(c, window, 1);
  const Writer out(c.output());
  for_each(window, [&](Int i, const Shape& at) { out.copy(i, x, flat(x.shape(), within(begin, at))); });
}

void dynamic_update_slice(const KernelCall& c) {
  const Tensor& x = c.input(0);
  const Tensor& update = c.input(1);
  const Shape begin = begin_of(c, update.shape(), 2);
  const Writer out(c.output());
  for (Int i = 0; i < x.size(); ++i) out.copy(i, x, i);
  for_each(update.shape(),
           [&](Int i, const Shape& at) { out.copy(flat(x.shape(), within(begin, at)), update, i); });
}

}  // namespace

std::vector<NamedKernel> dynamic_kernels() {
  return {{"dynamic_slice", dtypes::all, dynamic_slice},
          {"dynamic_update_slice", dtypes::all, dynamic_update_slice}};
}

}  // namespace tidu::ref
