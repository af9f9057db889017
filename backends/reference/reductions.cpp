// reductions.cpp - kernels that reduce axes: reduce_*, logsumexp, argmax and argmin.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

/// For every element i of x, body(i, j) with the element j of the result that it belongs to.
template <class Body>
void fold(const KernelCall& c, const Ints& axes, Body&& body) {
  const Tensor& x = c.input(0);
  for_each(x.shape(), [&](Int i, const Shape& at) {
    Shape kept;
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (std::find(axes.begin(), axes.end(), static_cast<Int>(k)) == axes.end()) kept.push_back(at[k]);
    }
    body(i, flat(c.output().shape(), kept));
  });
}

/// result = f(… f(f(init, x0), x1) …)
template <class T, class F>
void reduce(const KernelCall& c, T init, const F& f) {
  std::vector<T> result(static_cast<std::size_t>(c.output().size()), init);
  fold(c, c.op().ints("axes"), [&](Int i, Int j) {
    const auto at = static_cast<std::size_t>(j);
    result[at] = f(static_cast<T>(result[at]), load<T>(c.input(0), i));
  });
  const Writer out(c.output());
  for (std::size_t j = 0; j < result.size(); ++j) out.store<T>(static_cast<Int>(j), result[j]);
}

/// The least and the greatest value of a dtype.
template <class T>
T lowest(DType dtype) {
  if constexpr (std::is_same_v<T, Real>) return -std::numeric_limits<Real>::infinity();
  if constexpr (std::is_same_v<T, bool>) return false;
  return static_cast<T>(dtype == DType::i32 ? std::numeric_limits<std::int32_t>::min()
                                            : std::numeric_limits<Int>::min());
}
template <class T>
T highest(DType dtype) {
  if constexpr (std::is_same_v<T, Real>) return std::numeric_limits<Real>::infinity();
  if constexpr (std::is_same_v<T, bool>) return true;
  return static_cast<T>(dtype == DType::i32 ? std::numeric_limits<std::int32_t>::max()
                                            : std::numeric_limits<Int>::max());
}

template <class T>
inline constexpr bool is_number = !std::is_same_v<T, bool>;
template <class T>
inline constexpr bool is_ordered = !std::is_same_v<T, Complex>;
template <class T>
inline constexpr bool has_bits = std::is_same_v<T, bool> || std::is_same_v<T, Int>;

void reduce_sum(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (is_number<T>)
      reduce<T>(c, T(0), [dtype = c.output().dtype()](T x, T y) { return partial(dtype, plus(x, y)); });
    else
      no_kernel_for(c);
  });
}

void reduce_prod(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (is_number<T>)
      reduce<T>(c, T(1), [](T x, T y) { return times(x, y); });
    else
      no_kernel_for(c);
  });
}

void reduce_max(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (is_ordered<T>)
      reduce<T>(c, lowest<T>(c.output().dtype()), greater_of<T>);
    else
      no_kernel_for(c);
  });
}

void reduce_min(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (is_ordered<T>)
      reduce<T>(c, highest<T>(c.output().dtype()), lesser_of<T>);
    else
      no_kernel_for(c);
  });
}

void reduce_and(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (has_bits<T>)
      reduce<T>(c, static_cast<T>(-1), [](T x, T y) { return static_cast<T>(x & y); });
    else
      no_kernel_for(c);
  });
}

void reduce_or(const KernelCall& c) {
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (has_bits<T>)
      reduce<T>(c, static_cast<T>(0), [](T x, T y) { return static_cast<T>(x | y); });
    else
      no_kernel_for(c);
  });
}

/// log Σ e^x = m + log(1 + Σ e^(x - m)) with m = max x, the sum over all elements but one that is m.
void logsumexp(const KernelCall& c) {
  const Ints& axes = c.op().ints("axes");
  const auto size = static_cast<std::size_t>(c.output().size());
  std::vector<Real> greatest(size, -std::numeric_limits<Real>::infinity()), others(size, 0.0);
  std::vector<bool> found(size, false);
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Real>) {
      const Tensor& x = c.input(0);
      fold(c, axes, [&](Int i, Int j) {
        Real& m = greatest[static_cast<std::size_t>(j)];
        m = greater_of(m, load<T>(x, i));
      });
      fold(c, axes, [&](Int i, Int j) {
        const auto row = static_cast<std::size_t>(j);
        const Real value = load<T>(x, i);
        if (value != greatest[row] || found[row])
          others[row] += std::exp(value - greatest[row]);
        else
          found[row] = true;
      });
      const Writer out(c.output());
      for (std::size_t j = 0; j < size; ++j) {
        const Real m = greatest[j];
        out.store<T>(static_cast<Int>(j), std::isfinite(m) ? m + std::log1p(others[j]) : m);
      }
    } else {
      no_kernel_for(c);
    }
  });
}

/// Index of the first x along the axis before which none is better; NaN is better than any number.
template <class Better>
void arg(const KernelCall& c, const Better& better) {
  const Tensor& x = c.input(0);
  const std::size_t axis = axis_of(c.op().integer("axis"));
  const Writer out(c.output());
  with_element(x.dtype(), [&]<class T>(T) {
    if constexpr (is_ordered<T>) {
      for_each(c.output().shape(), [&](Int j, Shape at) {
        at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), 0);
        Int chosen = 0;
        T best = load<T>(x, flat(x.shape(), at));
        for (at[axis] = 1; at[axis] < x.dim(axis); ++at[axis]) {
          const T value = load<T>(x, flat(x.shape(), at));
          if (best == best && (value != value || better(value, best))) {
            chosen = at[axis];
            best = value;
          }
        }
        out.store<Int>(j, chosen);
      });
    } else {
      no_kernel_for(c);
    }
  });
}

void argmax(const KernelCall& c) {
  arg(c, [](auto x, auto y) { return x > y; });
}
void argmin(const KernelCall& c) {
  arg(c, [](auto x, auto y) { return x < y; });
}

}  // namespace

std::vector<NamedKernel> reduction_kernels() {
  const DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
  const DTypes ordered = dtypes::booleans | dtypes::integers | dtypes::floats;
  const DTypes bits = dtypes::booleans | dtypes::integers;
  return {{"reduce_sum", numbers, reduce_sum},
          {"reduce_prod", numbers, reduce_prod},
          {"reduce_max", ordered, reduce_max},
          {"reduce_min", ordered, reduce_min},
          {"reduce_and", bits, reduce_and},
          {"reduce_or", bits, reduce_or},
          {"logsumexp", dtypes::floats, logsumexp},
          {"argmax", ordered, argmax},
          {"argmin", ordered, argmin}};
}

}  // namespace tidu::ref
