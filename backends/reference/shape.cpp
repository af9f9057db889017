// shape.cpp - kernels of layout operations, and convert_element_type.
#include <cmath>
#include <limits>

#include "graph/round_to_odd.hpp"
#include "reference/elements.hpp"

namespace tidu::ref {

void no_kernel_for(const KernelCall& c) {
  throw Error(ErrorKind::execution, detail::str("[", c.op().name(), "] expected a dtype with a kernel, got ",
                                                c.num_inputs() == 0 ? c.output().type() : c.input(0).type()));
}

namespace {

/// result[at] = x[source(at)], where source writes the position in x.
template <class Source>
void move(const KernelCall& c, const Source& source) {
  const Tensor& x = c.input(0);
  const Writer out(c.output());
  Shape from(x.rank());
  for_each(c.output().shape(), [&](Int i, const Shape& at) {
    source(at, from);
    out.copy(i, x, flat(x.shape(), from));
  });
}

/// Every operand is a result, its elements in their order.
void pass(const KernelCall& c) {
  for (std::size_t k = 0; k < c.num_inputs(); ++k) {
    const Writer out(c.output(k));
    for (Int i = 0; i < c.output(k).size(); ++i) out.copy(i, c.input(k), i);
  }
}

void transpose(const KernelCall& c) {
  const Ints& order = c.op().ints("permutation");
  move(c, [&](const Shape& at, Shape& from) {
    for (std::size_t k = 0; k < order.size(); ++k) from[axis_of(order[k])] = at[k];
  });
}

void broadcast_in_dim(const KernelCall& c) {
  const Ints& placed = c.op().ints("broadcast_dimensions");
  move(c, [&](const Shape& at, Shape& from) {
    for (std::size_t k = 0; k < placed.size(); ++k)
      from[k] = c.input(0).dim(k) == 1 ? 0 : at[axis_of(placed[k])];
  });
}

void rev(const KernelCall& c) {
  const Ints& axes = c.op().ints("dimensions");
  move(c, [&](const Shape& at, Shape& from) {
    from = at;
    for (const Int axis : axes) from[axis_of(axis)] = c.input(0).dim(axis_of(axis)) - 1 - at[axis_of(axis)];
  });
}

void slice(const KernelCall& c) {
  const Ints &start = c.op().ints("start_indices"), &strides = c.op().ints("strides");
  move(c, [&](const Shape& at, Shape& from) {
    for (std::size_t k = 0; k < at.size(); ++k) from[k] = start[k] + at[k] * strides[k];
  });
}

void pad(const KernelCall& c) {
  const IntLists& config = c.op().lists("padding_config");
  const Tensor& x = c.input(0);
  const Writer out(c.output());
  Shape from(x.rank());
  for_each(c.output().shape(), [&](Int i, const Shape& at) {
    bool inside = true;
    for (std::size_t k = 0; k < at.size(); ++k) {
      const Int step = config[k][2] + 1, offset = at[k] - config[k][0];
      inside = inside && offset >= 0 && offset % step == 0 && offset / step < x.dim(k);
      from[k] = offset / step;
    }
    out.copy(i, inside ? x : c.input(1), inside ? flat(x.shape(), from) : 0);
  });
}

void concatenate(const KernelCall& c) {
  const std::size_t axis = axis_of(c.op().integer("dimension"));
  const Writer out(c.output());
  Int first = 0;
  for (const Tensor& x : c.inputs()) {
    for_each(x.shape(), [&](Int i, Shape at) {
      at[axis] += first;
      out.copy(flat(c.output().shape(), at), x, i);
    });
    first += x.dim(axis);
  }
}

/// Truncates, saturates at the bounds of `to`; NaN gives 0.
Int integer_of(Real x, DType to) {
  const Int least =
      to == DType::i32 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<Int>::min();
  const Int most =
      to == DType::i32 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<Int>::max();
  if (std::isnan(x)) return 0;
  if (x <= static_cast<Real>(least)) return least;
  if (x >= static_cast<Real>(most)) return most;
  return static_cast<Int>(x);
}

template <class To, class From>
To convert(From x, DType to) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, bool>) {
    return To(x ? 1 : 0);
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_same_v<From, Real> && std::is_same_v<To, Int>) {
    return integer_of(x, to);
  } else if constexpr (std::is_same_v<From, Int>) {  // rounded once, to the dtype's own precision
    if (to == DType::f16 || to == DType::bf16) return To(detail::round_to_odd(x));
    return To(real_dtype(to) == DType::f64 ? static_cast<Real>(x) : static_cast<Real>(static_cast<float>(x)));
  } else {
    return To(x);
  }
}

void convert_element_type(const KernelCall& c) {
  const DType to = c.output().dtype();
  with_element(c.input(0).dtype(), [&]<class From>(From) {
    with_element(to, [&]<class To>(To) {
      if constexpr (std::is_same_v<From, Complex> && !std::is_same_v<To, Complex>) {
        no_kernel_for(c);
      } else {
        map<To, From>(c, [&](From x) { return convert<To, From>(x, to); });
      }
    });
  });
}

}  // namespace

std::vector<NamedKernel> shape_kernels() {
  std::vector<NamedKernel> rows;
  for (const char* name :
       {"reshape", "squeeze", "expand_dims", "stop_gradient", "device_put", "optimization_barrier"}) {
    rows.push_back({name, dtypes::all, pass});
  }
  rows.push_back({"transpose", dtypes::all, transpose});
  rows.push_back({"broadcast_in_dim", dtypes::all, broadcast_in_dim});
  rows.push_back({"rev", dtypes::all, rev});
  rows.push_back({"slice", dtypes::all, slice});
  rows.push_back({"pad", dtypes::all, pad});
  rows.push_back({"concatenate", dtypes::all, concatenate});
  rows.push_back({"convert_element_type", dtypes::all, convert_element_type});
  return rows;
}

}  // namespace tidu::ref
