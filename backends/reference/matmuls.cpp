// matmuls.cpp - kernels of dot_general and call.
#include <algorithm>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

/// The axes of an operand that are neither contracted nor batched.
Ints free_axes(std::size_t rank, const Ints& contracting, const Ints& batch) {
  Ints axes;
  for (Int axis = 0; axis < static_cast<Int>(rank); ++axis) {
    const auto in = [axis](const Ints& list) {
      return std::find(list.begin(), list.end(), axis) != list.end();
    };
    if (!in(contracting) && !in(batch)) axes.push_back(axis);
  }
  return axes;
}

/// index[axes[k]] = at[first + k]
void place(Shape& index, const Ints& axes, const Shape& at, std::size_t first) {
  for (std::size_t k = 0; k < axes.size(); ++k) index[axis_of(axes[k])] = at[first + k];
}

/// result[b, l, r] = Σ_k lhs[b, l, k] rhs[b, r, k]
template <class T>
void dot(const KernelCall& c) {
  const Tensor &lhs = c.input(0), &rhs = c.input(1);
  const IntLists& numbers = c.op().lists("dimension_numbers");
  const Ints &lhs_contracting = numbers[0], &rhs_contracting = numbers[1], &lhs_batch = numbers[2],
             &rhs_batch = numbers[3];
  const Ints lhs_free = free_axes(lhs.rank(), lhs_contracting, lhs_batch);
  const Ints rhs_free = free_axes(rhs.rank(), rhs_contracting, rhs_batch);
  Shape contracted;
  for (const Int axis : lhs_contracting) contracted.push_back(lhs.dim(axis_of(axis)));

  const Writer out(c.output());
  Shape l(lhs.rank()), r(rhs.rank());
  for_each(c.output().shape(), [&](Int i, const Shape& at) {
    place(l, lhs_batch, at, 0);
    place(r, rhs_batch, at, 0);
    place(l, lhs_free, at, lhs_batch.size());
    place(r, rhs_free, at, lhs_batch.size() + lhs_free.size());
    const auto product = [&] {
      return times(load<T>(lhs, flat(lhs.shape(), l)), load<T>(rhs, flat(rhs.shape(), r)));
    };
    if (contracted.empty()) return out.store<T>(i, product());  // -0.0 too
    T sum(0);
    for_each(contracted, [&](Int, const Shape& k) {
      place(l, lhs_contracting, k, 0);
      place(r, rhs_contracting, k, 0);
      sum = partial(c.output().dtype(), plus(sum, product()));
    });
    out.store<T>(i, sum);
  });
}

void dot_general(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      no_kernel_for(c);
    else
      dot<T>(c);
  });
}

void call(const KernelCall& c) {
  std::vector<Tensor> results = c.run(c.op().graph(c.op().primitive().called), c.inputs());
  std::move(results.begin(), results.end(), c.outputs().begin());
}

}  // namespace

std::vector<NamedKernel> product_kernels() {
  return {{"dot_general", dtypes::integers | dtypes::floats | dtypes::complexes, dot_general},
          {"call", dtypes::all, call},
          {"custom_jvp_call", dtypes::all, call},
          {"custom_jvp_transpose", dtypes::all, call},
          {"custom_vjp_call", dtypes::all, call},
          {"linear_call", dtypes::all, call},
          {"custom_linear_solve", dtypes::all, call},
          {"custom_root", dtypes::all, call},
          {"checkpoint", dtypes::all, call}};
}

}  // namespace tidu::ref
