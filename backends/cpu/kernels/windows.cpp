// windows.cpp - reduce_window_sum and reduce_window_max, reduced along one axis after another: what a window
// gives does not depend on the order of its axes. Axes that shrink come first, so that nothing between two
// axes is larger than operand or result. The order of a sum follows from the shapes alone.
#include <algorithm>
#include <limits>

#include "cpu/cascade.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/kernels/reduce_line.hpp"

namespace tidu::cpu_detail {
namespace {

struct SumOfWindow : Add {
  template <class T>
  static T identity() {
    return T(0);
  }
};
struct LargestOfWindow : Maximum {
  template <class T>
  static T identity() {
    return RealNumber<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
};

// [outer, extent, inner] to [outer, count, inner].
struct Pass {
  std::int64_t outer = 1, extent = 1, inner = 1, count = 1;
  std::int64_t window = 1, stride = 1, low = 0;
  std::size_t axis = 0;
  // Elements that window p has: [first, last) of the axis.
  std::int64_t first(std::int64_t p) const { return std::max<std::int64_t>(0, p * stride - low); }
  std::int64_t last(std::int64_t p) const { return std::min(extent, p * stride - low + window); }
};

struct WindowState {
  std::vector<Pass> passes;
  std::int64_t size;  // of the result
  int threads;
  std::size_t bytes;  // of one scratch buffer; there are two
};

// Rows [at, end), of `columns` elements each.
template <class F, class T>
void reduce_some_rows(const Pass& s, std::int64_t at, std::int64_t end, std::int64_t columns, const T* x,
                      T* y) {
  if (at + 1 < end) {
    const T *a = x + at * s.inner, *b = a + s.inner;
    TIDU_INDEPENDENT
    for (std::int64_t j = 0; j < columns; ++j) y[j] = F()(a[j], b[j]);
    at += 2;
  } else {
    std::fill_n(y, columns, F::template identity<T>());
  }
  for (; at < end; ++at) reduce_into<F>(y, x + at * s.inner, columns);
}
// Long windows in chunks: see Note [Order of sums] in reduce.hpp.
template <class F, class T>
void reduce_rows(const Pass& s, std::int64_t p, const T* x, T* y) {
  const std::int64_t first = s.first(p), end = s.last(p);
  if (end - first <= reduction_chunk) return reduce_some_rows<F>(s, first, end, s.inner, x, y);
  T parts[cascade_levels][reduction_columns];
  for (std::int64_t column = 0; column < s.inner; column += reduction_columns) {
    const std::int64_t columns = std::min(reduction_columns, s.inner - column);
    in_cascade(
        std::int64_t{0}, (end - first + reduction_chunk - 1) / reduction_chunk, y + column,
        [&](std::int64_t chunk, T* to) {
          const std::int64_t at = first + chunk * reduction_chunk;
          reduce_some_rows<F>(s, at, std::min(at + reduction_chunk, end), columns, x + column, to);
        },
        [&](std::int64_t level, std::int64_t) { return parts[level]; },
        [&](T* to, const T* from) { reduce_into<F>(to, from, columns); });
  }
}

template <class F, class T, std::int64_t known_stride>
void reduce_outputs(std::int64_t count, std::int64_t stride, const T* x, T* y) {
  const std::int64_t step = known_stride == 0 ? stride : known_stride;
  TIDU_INDEPENDENT
  for (std::int64_t p = 0; p < count; ++p) y[p] = F()(y[p], x[p * step]);
}

// Windows [first, last) where neighbours along the axis are neighbours in memory: one place of all windows
// after another, as long as that takes fewer steps than one window after another.
template <class F, class T>
void reduce_line(const Pass& s, std::int64_t first, std::int64_t last, const T* x, T* y) {
  if (s.window > 64) {
    for (std::int64_t p = first; p < last; ++p) {
      Cascade<F, T> cascade;
      for (std::int64_t at = s.first(p); at < s.last(p); at += reduction_block)
        cascade.add(tidu::cpu_detail::reduce_line<F>(x + at, std::min(reduction_block, s.last(p) - at)));
      y[p] = cascade.result();
    }
    return;
  }
  std::fill(y + first, y + last, F::template identity<T>());
  for (std::int64_t k = 0; k < s.window; ++k) {
    // Windows whose place k is in [0, extent).
    const std::int64_t begin = std::max(first, s.low <= k ? 0 : (s.low - k + s.stride - 1) / s.stride);
    const std::int64_t room = s.extent + s.low - k;
    const std::int64_t end = room <= 0 ? 0 : std::min(last, (room - 1) / s.stride + 1);
    if (begin >= end) continue;
    const T* from = x + begin * s.stride + k - s.low;
    if (s.stride == 1) {
      reduce_outputs<F, T, 1>(end - begin, 1, from, y + begin);
    } else if (s.stride == 2) {
      reduce_outputs<F, T, 2>(end - begin, 2, from, y + begin);
    } else {
      reduce_outputs<F, T, 0>(end - begin, s.stride, from, y + begin);
    }
  }
}

template <class F, class T>
void reduce_pass(const Pass& s, int threads, const T* x, T* y) {
  const std::int64_t work = std::max<std::int64_t>(1, std::min(s.window, s.extent) * s.inner);
  if (s.inner == 1 && s.outer == 1) {
    // Some windows at a time, so that what is read and written stays in cache.
    const std::int64_t some = std::max<std::int64_t>(1, element_grain / 4 / work);
    parallel_for(threads, s.count, 4 * some, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; at += some)
        reduce_line<F>(s, at, std::min(end, at + some), x, y);
    });
    return;
  }
  if (s.inner == 1) {
    const std::int64_t grain =
        std::max<std::int64_t>(1, element_grain / std::max<std::int64_t>(work * s.count, 1));
    parallel_for(threads, s.outer, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o)
        reduce_line<F>(s, 0, s.count, x + o * s.extent, y + o * s.count);
    });
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(1, element_grain / work);
  parallel_for(threads, s.outer * s.count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin / s.count, p = begin % s.count;
    for (std::int64_t i = begin; i < end; ++i, ++p) {
      if (p == s.count) {
        p = 0;
        ++o;
      }
      reduce_rows<F>(s, p, x + o * s.extent * s.inner, y + i * s.inner);
    }
  });
}

template <class F, class T>
void reduce_windows(const WindowState& s, const Call& call) {
  if (s.size == 0) return;
  const T* x = call.operand<T>(0);
  if (s.passes.empty()) {
    std::copy_n(x, s.size, call.result<T>());
    return;
  }
  for (std::size_t i = 0; i < s.passes.size(); ++i) {
    T* const y =
        i + 1 == s.passes.size() ? call.result<T>() : reinterpret_cast<T*>(call.scratch + (i % 2) * s.bytes);
    reduce_pass<F>(s.passes[i], s.threads, x, y);
    x = y;
  }
}

WindowState window_state(const PlanRequest& request) {
  const Type x = request.in[0], y = request.out[0];
  const Ints &window = request.op.ints("window_dimensions"), &strides = request.op.ints("window_strides");
  const IntLists& padding = request.op.lists("padding");
  WindowState state{{}, y.size(), request.threads, 0};
  if (y.size() == 0) return state;
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (window[k] == 1 && strides[k] == 1 && padding[k] == Ints{0, 0}) continue;
    Pass pass;
    pass.axis = k;
    pass.extent = x.dim(k);
    pass.count = y.dim(k);
    pass.window = window[k];
    pass.stride = strides[k];
    pass.low = padding[k][0];
    state.passes.push_back(pass);
  }
  const auto growth = [](const Pass& pass) {
    return static_cast<double>(pass.count) / static_cast<double>(std::max<std::int64_t>(pass.extent, 1));
  };
  std::stable_sort(state.passes.begin(), state.passes.end(),
                   [&](const Pass& a, const Pass& b) { return growth(a) < growth(b); });
  Shape shape = x.shape();
  for (std::size_t i = 0; i < state.passes.size(); ++i) {
    Pass& pass = state.passes[i];
    for (std::size_t k = 0; k < pass.axis; ++k) pass.outer *= shape[k];
    for (std::size_t k = pass.axis + 1; k < shape.size(); ++k) pass.inner *= shape[k];
    shape[pass.axis] = pass.count;
    if (pass.low == 0 && pass.window <= pass.stride && pass.count * pass.stride == pass.extent) {
      // Windows apart from each other: those of one line go on in the next.
      pass.extent *= pass.outer;
      pass.count *= pass.outer;
      pass.outer = 1;
    }
    if (i + 1 == state.passes.size()) continue;
    const auto bytes = static_cast<std::size_t>(pass.outer * pass.count * pass.inner) * size_of(x.dtype());
    state.bytes = std::max(state.bytes, (bytes + 63) / 64 * 64);
  }
  return state;
}

template <class F>
Plan plan_windows(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_invocable_v<const F&, T, T>) {
      WindowState state = window_state(request);
      const std::size_t buffers = std::clamp<std::size_t>(state.passes.size(), 1, 3) - 1;  // between passes
      const std::size_t scratch = buffers * state.bytes;
      return make_plan<WindowState, reduce_windows<F, T>>(std::move(state), scratch);
    } else {
      return Plan();
    }
  });
}

constexpr KernelEntry window_entries[] = {
    {"reduce_window_sum", plan_windows<SumOfWindow>, numbers},
    {"reduce_window_max", plan_windows<LargestOfWindow>, integers | floats},
};

}  // namespace

std::span<const KernelEntry> window_kernels() { return window_entries; }

}  // namespace tidu::cpu_detail
