// convolution_padding.cpp - see Note [Padding is zero].
#include "cpu/convolution/convolution_padding.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

using Index = std::int64_t;

// Does the window, along one axis, meet an element of lhs with that position of the kernel?
bool meets(const ConvAxis& axis, Index window, Index position) {
  const Index at = window * axis.stride + position * axis.dilation - axis.low;
  return at >= 0 && at % axis.spread == 0 && at / axis.spread < axis.lhs;
}

struct Meetings {
  bool all = true;   // does every window meet one with every position?
  bool each = true;  // does every position meet one in some window?
};
// By the axis alone, as an element is met where one is along every axis; where lhs is dilated neither is
// known.
Meetings meetings_of(const ConvShape& shape) {
  Meetings found;
  for (const ConvAxis& axis : shape.axes) {
    if (axis.spread != 1) found = {false, false};
    for (Index position = 0; axis.spread == 1 && position < axis.kernel; ++position) {
      const Index first = position * axis.dilation - axis.low, last = first + (axis.out - 1) * axis.stride;
      if (first >= 0 && last < axis.lhs) continue;
      found.all = false;
      // The first window that does not lie before lhs.
      const Index window = first >= 0 ? 0 : (-first + axis.stride - 1) / axis.stride;
      found.each = found.each && window < axis.out && first + window * axis.stride < axis.lhs;
    }
  }
  return found;
}

template <class T>
bool is_finite(T x) {
  return std::isfinite(std::real(x)) && std::isfinite(std::imag(x));
}
template <class T>
bool all_finite(const T* x, Index count) {
  using R = decltype(std::real(T()));
  const R* const parts = reinterpret_cast<const R*>(x);
  const Index n = count * (std::is_same_v<T, R> ? 1 : 2);
  constexpr Index at_once = 4096;
  for (Index begin = 0; begin < n; begin += at_once) {
    int other = 0;
    for (Index i = begin; i < std::min(n, begin + at_once); ++i)
      other |= static_cast<int>(!(std::fabs(parts[i]) <= std::numeric_limits<R>::max()));
    if (other != 0) return false;
  }
  return true;
}

struct PaddingState {
  Plan convolution;
  ConvShape shape;
  Index kernel_size = 0, out_size = 0;
  bool looks_at_result = false;
};

// Calls body(offset, window) for each window, by axis.
template <class Body>
void for_windows(const ConvShape& shape, const Body& body) {
  std::vector<Index> at(shape.axes.size(), 0);
  Index offset = 0;
  for (;;) {
    body(offset, at);
    std::size_t d = at.size();
    for (; d-- > 0;) {
      offset += shape.axes[d].out_at;
      if (++at[d] < shape.axes[d].out) break;
      offset -= shape.axes[d].out * shape.axes[d].out_at;
      at[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

// Writes the NaN of one feature of the result and one position of the kernel, whose element is not finite.
template <class T>
void mark(const ConvShape& shape, Index result, const std::vector<Index>& position, T* out) {
  using R = decltype(std::real(T()));
  constexpr R nan = std::numeric_limits<R>::quiet_NaN();
  for_windows(shape, [&](Index offset, const std::vector<Index>& window) {
    bool inside = true;
    for (std::size_t d = 0; d < position.size(); ++d)
      inside = inside && meets(shape.axes[d], window[d], position[d]);
    if (inside) return;
    for (Index n = 0; n < shape.batch; ++n) {
      T& at = out[n * shape.out_batch + result * shape.out_feature + offset];
      if constexpr (ComplexNumber<T>) {
        at = T(nan, nan);
      } else {
        at = nan;
      }
    }
  });
}

template <class T>
void convolve_with_padding(const PaddingState& s, const Call& call) {
  s.convolution.run(s.convolution.state.get(), call);
  const T* const kernel = call.operand<T>(1);
  T* const out = call.result<T>();
  if (s.looks_at_result ? all_finite(out, s.out_size) : all_finite(kernel, s.kernel_size)) return;
  const ConvShape& shape = s.shape;
  Index positions = 1;
  for (const ConvAxis& axis : shape.axes) positions *= axis.kernel;
  std::vector<Index> position(shape.axes.size());
  for (Index number = 0; number < positions; ++number) {
    Index rest = number, with = 0;
    for (std::size_t d = position.size(); d-- > 0; rest /= shape.axes[d].kernel) {
      position[d] = rest % shape.axes[d].kernel;
      with += position[d] * shape.axes[d].kernel_at;
    }
    for (Index result = 0; result < shape.groups * shape.results; ++result) {
      bool finite = true;
      for (Index term = 0; term < shape.terms; ++term)
        finite =
            finite && is_finite(kernel[with + result * shape.kernel_result + term * shape.kernel_feature]);
      if (!finite) mark(shape, result, position, out);
    }
  }
}

}  // namespace

template <class T>
Plan with_zero_padding(Plan convolution, const ConvShape& shape) {
  const Meetings meetings = meetings_of(shape);
  if (!convolution || meetings.all) return convolution;
  PaddingState state;
  state.shape = shape;
  state.kernel_size = shape.groups * shape.results * shape.terms;
  state.out_size = shape.batch * shape.groups * shape.results;
  for (const ConvAxis& axis : shape.axes) {
    state.kernel_size *= axis.kernel;
    state.out_size *= axis.out;
  }
  if (state.out_size == 0 || state.kernel_size == 0) return convolution;
  state.looks_at_result = meetings.each && state.out_size < state.kernel_size;
  const std::size_t scratch = convolution.scratch, library = convolution.library;
  state.convolution = std::move(convolution);
  Plan plan = make_plan<PaddingState, convolve_with_padding<T>>(std::move(state), scratch);
  plan.library = library;
  return plan;
}
template Plan with_zero_padding<float>(Plan, const ConvShape&);
template Plan with_zero_padding<double>(Plan, const ConvShape&);
template Plan with_zero_padding<std::complex<float>>(Plan, const ConvShape&);
template Plan with_zero_padding<std::complex<double>>(Plan, const ConvShape&);

}  // namespace tidu::cpu_detail
