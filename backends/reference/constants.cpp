// constants.cpp - kernels of the primitives without operands.
#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

void constant(const KernelCall& c) { c.output() = Tensor(c.op().literal("value")).clone(); }

void full(const KernelCall& c) {
  const Tensor value(c.op().literal("value"));
  const Writer out(c.output());
  for (Int i = 0; i < c.output().size(); ++i) out.copy(i, value, 0);
}

void iota(const KernelCall& c) {
  const std::size_t axis = axis_of(c.op().integer("dimension"));
  const Writer out(c.output());
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      for_each(c.output().shape(), [&](Int i, const Shape& at) {
        if constexpr (std::is_same_v<T, Int>)
          out.store<Int>(i, at[axis]);
        else
          out.store<T>(i, T(static_cast<Real>(at[axis])));
      });
    } else {
      no_kernel_for(c);
    }
  });
}

}  // namespace

std::vector<NamedKernel> constant_kernels() {
  return {{"constant", dtypes::all, constant},
          {"full", dtypes::all, full},
          {"iota", dtypes::integers | dtypes::floats | dtypes::complexes, iota}};
}

}  // namespace tidu::ref
