// indexing.cpp - kernels of take, scatter_add and their forms along an axis. A position of the result (of the
// updates) determines the index to read and the element of x that it selects; an index out of range is
// clipped or, in mode "drop", selects none.
#include <algorithm>
#include <optional>

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

/// The element of x for a position of take's result, or of scatter_add's updates.
class IndexedElements {
 public:
  IndexedElements(const KernelCall& c, bool along)
      : x_(c.input(0)),
        indices_(c.input(1)),
        axis_(axis_of(c.op().integer("axis"))),
        along_(along),
        clip_(c.op().string("mode") == "clip") {}

  std::optional<Int> operator()(const Shape& at) const {
    const auto first = at.begin() + static_cast<std::ptrdiff_t>(axis_);
    const auto last = first + static_cast<std::ptrdiff_t>(along_ ? 1 : indices_.rank());
    Int index = load<Int>(indices_, flat(indices_.shape(), along_ ? at : Shape(first, last)));
    const Int extent = x_.dim(axis_);
    if (clip_) index = std::max(Int{0}, std::min(index, extent - 1));
    if (index < 0 || index >= extent) return std::nullopt;
    Shape in_x(at.begin(), first);
    in_x.push_back(index);
    in_x.insert(in_x.end(), last, at.end());
    return flat(x_.shape(), in_x);
  }

 private:
  const Tensor& x_;
  const Tensor& indices_;
  std::size_t axis_;
  bool along_;
  bool clip_;
};

template <bool along>
void take(const KernelCall& c) {
  const IndexedElements place(c, along);
  const Tensor zero = Tensor::zeros(Type(c.output().dtype()));
  const Writer out(c.output());
  for_each(c.output().shape(), [&](Int i, const Shape& at) {
    const std::optional<Int> from = place(at);
    out.copy(i, from ? c.input(0) : zero, from.value_or(0));
  });
}

// Sums of 16 bits are accumulated in f32 and rounded once, as by other executors.
template <bool along>
void scatter_add(const KernelCall& c) {
  const IndexedElements place(c, along);
  const Tensor& updates = c.input(2);
  const Type type = c.output().type();
  const bool narrow = accumulation_dtype(type.dtype()) != type.dtype();
  Tensor wide(narrow ? type.with_dtype(accumulation_dtype(type.dtype())) : Type(type.dtype(), {0}));
  Tensor& sums = narrow ? wide : c.output();
  const Writer out(sums), result(c.output());
  with_element(updates.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>) {
      no_kernel_for(c);
    } else {
      for (Int i = 0; i < sums.size(); ++i) out.store<T>(i, load<T>(c.input(0), i));
      for_each(updates.shape(), [&](Int i, const Shape& at) {
        const std::optional<Int> to = place(at);
        if (to) out.store<T>(*to, plus(load<T>(sums, *to), load<T>(updates, i)));
      });
      for (Int i = 0; narrow && i < sums.size(); ++i) result.store<T>(i, load<T>(sums, i));
    }
  });
}

}  // namespace

std::vector<NamedKernel> indexing_kernels() {
  const DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
  return {{"take", dtypes::all, take<false>},
          {"take_along_axis", dtypes::all, take<true>},
          {"scatter_add", numbers, scatter_add<false>},
          {"scatter_add_along_axis", numbers, scatter_add<true>}};
}

}  // namespace tidu::ref
