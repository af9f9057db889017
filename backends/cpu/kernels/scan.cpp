// scan.cpp - kernels along one axis: argmax and argmin; cumsum, cumprod, cummax, cummin and cumlogsumexp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/kernel.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/kernels/reduce_line.hpp"
#include "cpu/layout.hpp"
#include "cpu/parallel.hpp"

namespace tidu::cpu_detail {
namespace {

struct AxisState : AxisShape {
  int threads = 1;
  bool reverse = false;
};
AxisState state_of(const PlanRequest& request) {
  const auto axis = static_cast<std::size_t>(request.op.integer("axis"));
  return {AxisShape::of_lines(request.in[0], axis), request.threads};
}

// Neighbouring columns that are gone through at once.
constexpr std::int64_t columns_at_once = 64;

// Calls some(line, N) for all lines, N (a constant, at_once or 1) at once from that line on, so that a step
// of one need not wait for that before. Inner is 1.
template <std::int64_t at_once, class Some>
void for_axis_lines(const AxisState& s, const Some& some) {
  const std::int64_t grain = element_grain / std::max<std::int64_t>(1, s.extent) / at_once * at_once;
  parallel_for(s.threads, s.outer, std::max(at_once, grain), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t line = begin;
    for (; line + at_once <= end; line += at_once)
      some(line, std::integral_constant<std::int64_t, at_once>());
    for (; line < end; ++line) some(line, std::integral_constant<std::int64_t, 1>());
  });
}

// Calls part(outer, column, columns) for every `width` columns.
template <class Part>
void for_axis_tiles(const AxisState& s, std::int64_t width, const Part& part) {
  const std::int64_t tiles = (s.inner + width - 1) / width;
  const std::int64_t work = std::max<std::int64_t>(1, s.extent * std::min(width, s.inner));
  parallel_for(s.threads, s.outer * tiles, std::max<std::int64_t>(1, element_grain / work),
               [&](std::int64_t begin, std::int64_t end) {
                 if (begin == end) return;
                 std::int64_t o = begin / tiles, column = begin % tiles * width;
                 for (std::int64_t t = begin; t < end; ++t) {
                   part(o, column, std::min(width, s.inner - column));
                   column += width;
                   if (column < s.inner) continue;
                   column = 0;
                   ++o;
                 }
               });
}

// Does x come before the best so far? NaN comes before all else; of equals the first stays.
struct Above {
  template <class T>
  auto operator()(const T& x, const T& best) const {
    return (x > best) | ((x != x) & (best == best));
  }
};
struct Below {
  template <class T>
  auto operator()(const T& x, const T& best) const {
    return (x < best) | ((x != x) & (best == best));
  }
};

// The first extreme of `count` elements of each of N lines, `stride` apart, and where it is.
template <class F, std::int64_t N, class T>
void find_in_lines(const T* x, std::int64_t stride, std::int64_t count, T* best, std::int64_t* at) {
  for (std::int64_t j = 0; j < N; ++j) {
    best[j] = x[j * stride];
    at[j] = 0;
  }
  for (std::int64_t i = 1; i < count; ++i) {
    for (std::int64_t j = 0; j < N; ++j) {
      const T value = x[j * stride + i];
      const bool better = F()(value, best[j]);
      best[j] = better ? value : best[j];
      at[j] = better ? i : at[j];
    }
  }
}

// The position of the extreme of one line. For floats, vectors find the extreme, and then its first position.
template <class F, class T>
std::int64_t find_in_line(const T* x, std::int64_t count) {
  constexpr std::int64_t block = 1024, least = 16;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (count >= least) {
      using Extreme = std::conditional_t<std::is_same_v<F, Above>, Maximum, Minimum>;
      T best = x[0];
      std::int64_t from = 0;  // of the first block that has the best
      for (std::int64_t i = 0; i < count; i += block) {
        // The last block may begin in that before.
        const std::int64_t begin = std::max<std::int64_t>(0, std::min(i, count - least));
        const T value = reduce_in_lanes<least, Extreme>(x + begin, std::min(block, count - begin));
        if (i > 0 && !F()(value, best)) continue;
        best = value;
        from = begin;
      }
      while (best == best ? x[from] != best : x[from] == x[from]) ++from;
      return from;
    }
  }
  T best;
  std::int64_t at = 0;
  find_in_lines<F, 1>(x, 0, count, &best, &at);
  return at;
}

template <class F, class T, class I>
void find_extreme(const AxisState& s, const Call& call) {
  const T* const x = call.operand<T>(0);
  I* const y = call.result<I>();
  constexpr std::int64_t lines_at_once = 8, long_line = 16, few_columns = 8;
  if (s.inner == 1) {
    return for_axis_lines<lines_at_once>(s, [&](std::int64_t line, auto count) {
      constexpr std::int64_t n = decltype(count)::value;
      const T* const from = x + line * s.extent;
      std::int64_t at[n];
      if (s.extent < long_line) {
        T best[n];
        find_in_lines<F, n>(from, s.extent, s.extent, best, at);
      } else {
        for (std::int64_t j = 0; j < n; ++j) at[j] = find_in_line<F>(from + j * s.extent, s.extent);
      }
      for (std::int64_t j = 0; j < n; ++j) y[line + j] = static_cast<I>(at[j]);
    });
  }
  for_axis_tiles(s, columns_at_once, [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
    const T* const from = x + o * s.extent * s.inner + column;
    I* const found = y + o * s.inner + column;
    if (columns < few_columns) {
      std::fill_n(found, columns, I{0});
      for (std::int64_t i = 1; i < s.extent; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          if (F()(from[i * s.inner + j], from[static_cast<std::int64_t>(found[j]) * s.inner + j]))
            found[j] = static_cast<I>(i);
        }
      }
      return;
    }
    T best[columns_at_once];
    I at[columns_at_once];
    std::copy_n(from, columns, best);
    std::fill_n(at, columns, I{0});
    for (std::int64_t i = 1; i < s.extent; ++i) {
      const T* const row = from + i * s.inner;
      for (std::int64_t j = 0; j < columns; ++j) {
        const bool better = F()(row[j], best[j]);
        best[j] = better ? row[j] : best[j];
        at[j] = better ? static_cast<I>(i) : at[j];
      }
    }
    std::copy_n(at, columns, found);
  });
}
template <class F>
Plan plan_extreme(const PlanRequest& request) {
  const AxisState state = state_of(request);
  const bool wide = request.out[0].dtype() == i64;
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (ComplexNumber<T>) {
      return Plan();
    } else {
      return wide ? make_plan<AxisState, find_extreme<F, T, std::int64_t>>(state)
                  : make_plan<AxisState, find_extreme<F, T, std::int32_t>>(state);
    }
  });
}

// Of equal values the first, of which the derivative is taken.
template <class F>
struct Best {
  template <class T>
  requires(Integer<T> || RealNumber<T>) T operator()(T best, T x) const { return F()(x, best) ? x : best; }
};

// The first element of a line along the axis, in the order of the operation, and the way from one to the
// next.
struct Order {
  std::int64_t first, step;
};
Order order_of(const AxisState& s) {
  return s.reverse ? Order{(s.extent - 1) * s.inner, -s.inner} : Order{0, s.inner};
}

// y_i = f(y_{i-1}, x_i)
template <class F, class T>
void accumulate(const AxisState& s, const Call& call) {
  const T* const x = call.operand<T>(0);
  T* const y = call.result<T>();
  const Order order = order_of(s);
  if (s.inner == 1) {
    // Of more lines that lie pages apart, sources and results would not stay in the nearest cache.
    return for_axis_lines<4>(s, [&](std::int64_t line, auto count) {
      constexpr std::int64_t n = decltype(count)::value;
      T value[n];
      std::int64_t at = line * s.extent + order.first;
      for (std::int64_t j = 0; j < n; ++j) y[at + j * s.extent] = value[j] = x[at + j * s.extent];
      for (std::int64_t i = 1; i < s.extent; ++i) {
        at += order.step;
        for (std::int64_t j = 0; j < n; ++j) value[j] = F()(value[j], x[at + j * s.extent]);
        for (std::int64_t j = 0; j < n; ++j) y[at + j * s.extent] = value[j];
      }
    });
  }
  for_axis_tiles(s, std::max<std::int64_t>(1, s.inner),
                 [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
                   std::int64_t at = o * s.extent * s.inner + order.first + column;
                   std::copy_n(x + at, columns, y + at);
                   for (std::int64_t i = 1; i < s.extent; ++i) {
                     at += order.step;
                     for (std::int64_t j = 0; j < columns; ++j)
                       y[at + j] = F()(y[at - order.step + j], x[at + j]);
                   }
                 });
}

// Note [Long running sums]: sums of a section of 256 elements, of a group of 256 sections, and of all groups
// before: y_i is the sum of the three, so that rounding does not grow with i. It never falls where x is not
// negative: rounding is monotone, and a section begins with what the last sum was.
constexpr std::int64_t section = 256;
template <std::int64_t most, class T>
struct RunningSums {
  T within[most] = {}, sections[most] = {}, groups[most] = {};
  std::int64_t count = 0;  // elements so far

  // The next element of each line: x(j) to y(j, sum).
  template <class Load, class Store>
  void next(std::int64_t lines, const Load& x, const Store& y) {
    const bool begins = count % section == 0;
    const bool has_sections = count / section % section != 0, has_groups = count >= section * section;
    for (std::int64_t j = 0; j < lines; ++j) within[j] = begins ? x(j) : within[j] + x(j);
    if (!has_sections && !has_groups) {
      for (std::int64_t j = 0; j < lines; ++j) y(j, within[j]);
    } else if (!has_groups) {
      for (std::int64_t j = 0; j < lines; ++j) y(j, sections[j] + within[j]);
    } else if (!has_sections) {
      for (std::int64_t j = 0; j < lines; ++j) y(j, groups[j] + within[j]);
    } else {
      for (std::int64_t j = 0; j < lines; ++j) y(j, groups[j] + (sections[j] + within[j]));
    }
    if (++count % section != 0) return;
    for (std::int64_t j = 0; j < lines; ++j) sections[j] = has_sections ? sections[j] + within[j] : within[j];
    if (count % (section * section) != 0) return;
    for (std::int64_t j = 0; j < lines; ++j) groups[j] = has_groups ? groups[j] + sections[j] : sections[j];
  }
};

template <class T>
void accumulate_sums(const AxisState& s, const Call& call) {
  const T* const x = call.operand<T>(0);
  T* const y = call.result<T>();
  const Order order = order_of(s);
  if (s.inner == 1) {
    return for_axis_lines<4>(s, [&](std::int64_t line, auto count) {
      constexpr std::int64_t n = decltype(count)::value;
      RunningSums<n, T> sums;
      std::int64_t at = line * s.extent + order.first;
      for (std::int64_t i = 0; i < s.extent; ++i, at += order.step) {
        sums.next(
            n, [&](std::int64_t j) { return x[at + j * s.extent]; },
            [&](std::int64_t j, T sum) { y[at + j * s.extent] = sum; });
      }
    });
  }
  constexpr std::int64_t columns_of_sums = 512;
  for_axis_tiles(s, columns_of_sums, [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
    RunningSums<columns_of_sums, T> sums;
    std::int64_t at = o * s.extent * s.inner + order.first + column;
    for (std::int64_t i = 0; i < s.extent; ++i, at += order.step) {
      sums.next(
          columns, [&](std::int64_t j) { return x[at + j]; },
          [&](std::int64_t j, T sum) { y[at + j] = sum; });
    }
  });
}

// With m the greatest x so far and s = sum e^(x - m) over the others: y = m + log(1 + s). A NaN stays; x
// equal to m adds 1, which is right for infinities too.
template <class T>
void accumulate_exponentials(const AxisState& s, const Call& call) {
  const T* const x = call.operand<T>(0);
  T* const y = call.result<T>();
  const Order order = order_of(s);
  for_axis_tiles(s, columns_at_once, [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
    T largest[columns_at_once];
    double others[columns_at_once];
    std::fill_n(largest, columns, -std::numeric_limits<T>::infinity());
    std::fill_n(others, columns, -1.0);
    std::int64_t at = o * s.extent * s.inner + order.first + column;
    for (std::int64_t i = 0; i < s.extent; ++i, at += order.step) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const T value = x[at + j];
        if (value <= largest[j]) {
          others[j] += value == largest[j] ? 1.0 : static_cast<double>(std::exp(value - largest[j]));
        } else {
          others[j] = (others[j] + 1.0) * static_cast<double>(std::exp(largest[j] - value));
          largest[j] = largest[j] == largest[j] ? value : largest[j];
        }
        y[at + j] = largest[j] + static_cast<T>(std::log1p(others[j]));
      }
    }
  });
}

AxisState cumulative_state(const PlanRequest& request) {
  AxisState state = state_of(request);
  state.reverse = request.op.boolean("reverse");
  return state;
}
template <class F>
Plan plan_cumulative(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_invocable_v<const F&, T, T>) {
      const AxisState state = cumulative_state(request);
      if constexpr (std::is_same_v<F, Add> && Inexact<T>) {
        if (state.extent > section) return make_plan<AxisState, accumulate_sums<T>>(state);
      }
      return make_plan<AxisState, accumulate<F, T>>(state);
    } else {
      return Plan();
    }
  });
}
Plan plan_exponentials(const PlanRequest& request) {
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (RealNumber<T>) {
      return make_plan<AxisState, accumulate_exponentials<T>>(cumulative_state(request));
    } else {
      return Plan();
    }
  });
}

constexpr KernelEntry scan_entries[] = {
    {"argmax", plan_extreme<Above>, ordered},
    {"argmin", plan_extreme<Below>, ordered},
    {"cumsum", plan_cumulative<Add>, numbers},
    {"cumprod", plan_cumulative<Multiply>, numbers},
    {"cummax", plan_cumulative<Best<Above>>, integers | floats},
    {"cummin", plan_cumulative<Best<Below>>, integers | floats},
    {"cumlogsumexp", plan_exponentials, floats},
};

}  // namespace

std::span<const KernelEntry> scan_kernels() { return scan_entries; }

}  // namespace tidu::cpu_detail
