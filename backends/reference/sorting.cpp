// sorting.cpp - kernels of sort and top_k: the indices of a line, sorted by the elements that they select.
#include <algorithm>
#include <cmath>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

/// -1, 0, 1: which comes first. NaN is last, -0 equals 0.
template <class T>
int order(T x, T y) {
  if (x != x || y != y) return static_cast<int>(x != x) - static_cast<int>(y != y);
  return static_cast<int>(x > y) - static_cast<int>(x < y);
}
template <>
int order(Complex x, Complex y) {
  const int by_real = order(x.real(), y.real());
  return by_real != 0 ? by_real : order(x.imag(), y.imag());
}
int order_of(const Tensor& key, Int i, Int j) {
  int result = 0;
  with_element(key.dtype(), [&]<class T>(T) { result = order(load<T>(key, i), load<T>(key, j)); });
  return result;
}

/// Calls body with the elements of each line of that shape along an axis.
template <class Body>
void for_lines(const Shape& shape, std::size_t axis, Body&& body) {
  for_each(shape, [&](Int, Shape at) {
    if (at[axis] != 0) return;
    std::vector<Int> line;
    for (; at[axis] < shape[axis]; ++at[axis]) line.push_back(flat(shape, at));
    body(line);
  });
}

void sort(const KernelCall& c) {
  const Shape& shape = c.input(0).shape();
  const auto num_keys = static_cast<std::size_t>(c.op().integer("num_keys"));
  const auto before = [&](Int i, Int j) {
    for (std::size_t k = 0; k < num_keys; ++k) {
      const int way = order_of(c.input(k), i, j);
      if (way != 0) return way < 0;
    }
    return false;
  };
  std::vector<Writer> outputs;
  for (std::size_t k = 0; k < c.num_inputs(); ++k) outputs.emplace_back(c.output(k));
  for_lines(shape, axis_of(c.op().integer("dimension")), [&](const std::vector<Int>& line) {
    std::vector<Int> sorted = line;
    std::stable_sort(sorted.begin(), sorted.end(), before);
    for (std::size_t i = 0; i < line.size(); ++i) {
      for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k].copy(line[i], c.input(k), sorted[i]);
    }
  });
}

/// Does element i come before element j? NaN is first, then the greater, 0 before -0.
bool above(const Tensor& x, Int i, Int j) {
  const int way = order_of(x, i, j);
  if (way != 0 || !is_floating(x.dtype())) return way > 0;
  const Real a = load<Real>(x, i);
  return a == 0.0 && !std::signbit(a) && std::signbit(load<Real>(x, j));
}

void top_k(const KernelCall& c) {
  const Tensor& x = c.input(0);
  const Int k = c.op().integer("k");
  const Writer values(c.output(0));
  const Writer indices(c.output(1));
  Int to = 0;
  for_lines(x.shape(), x.rank() - 1, [&](const std::vector<Int>& line) {
    std::vector<Int> sorted = line;
    std::stable_sort(sorted.begin(), sorted.end(), [&](Int i, Int j) { return above(x, i, j); });
    for (Int i = 0; i < k; ++i, ++to) {
      const Int from = sorted[static_cast<std::size_t>(i)];
      values.copy(to, x, from);
      indices.store<Int>(to, from - line[0]);
    }
  });
}

}  // namespace

std::vector<NamedKernel> sorting_kernels() {
  return {{"sort", dtypes::all, sort},
          {"top_k", dtypes::booleans | dtypes::integers | dtypes::floats, top_k}};
}

}  // namespace tidu::ref
