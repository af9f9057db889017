// softmax.cpp - softmax and the functions of its kind, as compositions of primitives.
#include "softmax.hpp"

#include "axes.hpp"
#include "custom_derivative.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {

// Note [Saturated softmax]: p = e^x / Σ e^x is nearly 1 for an element x that exceeds all others by far; it
// dominates. The log of p, 1 - p, and dx - Σ p dx at that element are then sums over the other elements
// alone, which may be far below an ulp of 1. They are added without that element: 1 - p is never computed.
namespace {

// With m, the greatest element of each row, which counts as constant since no result depends on it.
struct Powers {
  Value greatest;     // m
  Value is_greatest;  // x = m
  Value powers;       // e^(x - m)
  Value sum;
};
// `shares`: elements that are an infinite m have the power 1. A row with an infinite m is NaN otherwise.
Powers powers_of(Value x, const Ints& axes, bool shares) {
  const Value m = ops::stop_gradient(ops::reduce_max(x, axes)), row = spread(m, x.shape(), axes);
  const Value is_greatest = ops::eq(x, row), below = x - row;
  const Value powers = ops::exp(shares ? ops::select_n(is_greatest, below, ops::full_like(x, 0.0)) : below);
  return {m, is_greatest, powers, ops::reduce_sum(powers, axes)};
}
// log Σ e^(x - m). A sum below 1.5 has one summand 1, and the others are added without it.
Value log_sum(const Powers& of, const Ints& axes) {
  const Value zero = ops::full_like(of.powers, 0.0), one = ops::full_like(of.sum, 1.0);
  const Value others = ops::reduce_sum(ops::select_n(of.is_greatest, of.powers, zero), axes);
  const Value dominates = ops::lt(of.sum, ops::full_like(of.sum, 1.5)), rest = of.sum - one;
  return ops::log1p(ops::select_n(dominates, rest, others));
}

// The elements of a distribution p: at most one of a row dominates, with p > 1/2.
class Distribution {
 public:
  Distribution(Value p, Ints axes)
      : p_(p),
        axes_(std::move(axes)),
        zero_(ops::full_like(p, 0.0)),
        dominates_(ops::gt(p, ops::full_like(p, 0.5))) {}

  // dx - Σ p dx; for an element that dominates Σ p (dx_there - dx) over the others.
  Value deviations(Value dx) const {
    const Value p_of_others = either(p_, zero_), weight_of_others = sum(p_of_others);
    const Value others = sum(p_of_others * dx), dominant = sum(either(zero_, dx));
    const Value weight = ops::full_like(weight_of_others, 1.0) - weight_of_others;
    const Value mean = weight * dominant + others, above = weight_of_others * dominant - others;
    const Value from_mean = dx - spread_out(mean);
    return either(from_mean, spread_out(above));
  }
  // The transpose of deviations: ct - p Σ ct; for an element that dominates minus the sum of the others.
  Value transposed_deviations(Value ct) const {
    const Value others = sum(either(ct, zero_)), dominant = sum(either(zero_, ct));
    const Value total = others + dominant, above = sum(either(p_, zero_)) * dominant;
    const Value row = spread_out(total), weighted = p_ * either(row, spread_out(others));
    return either(ct, spread_out(above)) - weighted;
  }

 private:
  Value either(Value of_others, Value of_dominant) const {
    return ops::select_n(dominates_, of_others, of_dominant);
  }
  Value sum(Value x) const { return ops::reduce_sum(x, axes_); }
  Value spread_out(Value row) const { return spread(row, p_.shape(), axes_); }
  Value p_;
  Ints axes_;
  Value zero_, dominates_;
};

using LinearRule = Value (*)(Value p, Value v, const Ints& axes);
// rule(p, v, axes), which is linear in v, with this transpose.
Value linear(const char* name, Value p, Value v, const Ints& axes, LinearRule rule, LinearRule transpose) {
  const auto graph_of = [&](LinearRule f) {
    GraphBuilder::Options options;
    options.record_where = false;
    GraphBuilder graph(name, p.emitter()->primitives(), options);
    const Value p_in = graph.input("p", p.type()), v_in = graph.input("v", v.type());
    return graph.build({f(p_in, v_in, axes)});
  };
  const Value operands[] = {p, v};
  return ops::linear_call(graph_of(rule), graph_of(transpose), 1, operands)[0];
}

Value deviations(Value p, Value v, const Ints& axes) { return Distribution(p, axes).deviations(v); }
Value transposed_deviations(Value p, Value v, const Ints& axes) {
  return Distribution(p, axes).transposed_deviations(v);
}
// It is its own transpose.
Value softmax_tangent(Value p, Value v, const Ints& axes) { return p * deviations(p, v, axes); }

// p = e^x / Σ e^x          dp = p (dx - Σ p dx)
// One division for all of a row, whose sum is at least 1: half an ulp more, and nothing overflows.
Value weights_of(Value x, const Ints& axes, bool shares) {
  return differentiated(
      "softmax", {&x, 1},
      [&](const Values& v) {
        const Powers of = powers_of(v[0], axes, shares);
        return Values{of.powers * spread(ops::reciprocal(of.sum), x.shape(), axes)};
      },
      [&](const Values&, const Values& p, const Values& dx) {
        return Values{linear("softmax tangent", p[0], dx[0], axes, softmax_tangent, softmax_tangent)};
      })[0];
}

}  // namespace

Value softmax_of(Value x, const Ints& axes) { return weights_of(x, axes, /*shares=*/false); }
Value shares_of(Value x, const Ints& axes) { return weights_of(x, axes, /*shares=*/true); }

// y = x - m - log Σ e^(x - m)          dy = dx - Σ p dx
Value log_softmax_of(Value x, const Ints& axes) {
  return differentiated(
      "log_softmax", {&x, 1},
      [&](const Values& v) {
        const Powers of = powers_of(v[0], axes, /*shares=*/false);
        // NaN in a row with an infinite m.
        const Value zero_or_nan = of.greatest - of.greatest, log = log_sum(of, axes) + zero_or_nan;
        const Value below = v[0] - spread(of.greatest, x.shape(), axes);
        return Values{below - spread(log, x.shape(), axes)};
      },
      [&](const Values& v, const Values&, const Values& dx) {
        const Value p = softmax_of(v[0], axes);
        return Values{linear("log_softmax tangent", p, dx[0], axes, deviations, transposed_deviations)};
      })[0];
}

// y = m + log Σ e^(x - m)          dy = Σ p dx
Value logsumexp_of(Value x, const Ints& axes) {
  return differentiated(
      "logsumexp", {&x, 1},
      [&](const Values& v) {
        const Powers of = powers_of(v[0], axes, /*shares=*/true);
        return Values{log_sum(of, axes) + of.greatest};
      },
      [&](const Values& v, const Values&, const Values& dx) {
        const Value p = shares_of(v[0], axes);
        return Values{ops::reduce_sum(dx[0] * p, axes)};
      })[0];
}

// y = log Σ e^(x - m) - (z - m), z = x[label]          dy = Σ p dx - dz
// A summand that is common to a row cancels before rounding. See also Note [Saturated softmax].
Value cross_entropy_of(Value x, Value labels) {
  const std::size_t last = x.rank() - 1;
  const Ints axes{static_cast<std::int64_t>(last)};
  const Value bound = ops::full_like(labels, static_cast<double>(x.shape()[last] - 1));
  const Value operands[] = {x, ops::clamp(ops::full_like(labels, 0.0), labels, bound)};
  const auto at_label = [&](Value label, Value there, Value elsewhere) {
    const Value position = ops::iota(*label.emitter(), Type(label.dtype(), x.shape()), axes[0]);
    const Value is_label = ops::eq(position, spread(label, x.shape(), axes));
    return ops::select_n(is_label, elsewhere, there);
  };
  return differentiated(
      "cross entropy", operands,
      [&](const Values& v) {
        const Powers of = powers_of(v[0], axes, /*shares=*/true);
        const Value zero = ops::full_like(of.greatest, 0.0);
        const Value z = ops::squeeze(ops::take_along_axis(v[0], ops::expand_dims(v[1], axes), axes[0]), axes);
        const Value is_greatest = ops::eq(z, of.greatest), above = z - of.greatest;
        const Value nearest = ops::select_n(is_greatest, above, zero);
        return Values{log_sum(of, axes) - nearest};
      },
      [&](const Values& v, const Values&, const Values& dx) {
        const Value p = shares_of(v[0], axes), zero = ops::full_like(p, 0.0);
        const Value of_others = at_label(v[1], zero, p);
        const Value p_there = ops::reduce_sum(at_label(v[1], p, zero), axes);
        const Value dz = ops::reduce_sum(at_label(v[1], dx[0], zero), axes);
        const Value one = ops::full_like(dz, 1.0), above = one - p_there;
        const Value dominates = ops::gt(p_there, ops::full_like(dz, 0.5));
        const Value weight_of_others = ops::select_n(dominates, above, ops::reduce_sum(of_others, axes));
        const Value total = ops::reduce_sum(of_others * dx[0], axes);
        return Values{total - weight_of_others * dz};
      })[0];
}

}  // namespace tidu::prim
