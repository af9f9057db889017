// nn.cpp - see nn.hpp. If a function has two sides, operands for which the other one would overflow are
// masked before it is computed, so that no 0 times infinity enters a gradient.
#include "tidu/frontend/nn.hpp"

#include <bit>
#include <cmath>

#include "frontend/elementwise.hpp"
#include "primitives/slopes.hpp"
#include "primitives/softmax.hpp"

namespace tidu {
namespace {

using frontend_detail::array_of;
using frontend_detail::broadcast;
using frontend_detail::convert;
using frontend_detail::inexact;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::normal_axes;
using frontend_detail::of_32_bits;
using frontend_detail::refuse;
using frontend_detail::unary;
using prim::bounded;
using prim::with_derivative;

Value number_like(Value x, double number) { return ops::full_like(x, number); }

// body(x), distinguished by a number among others of its name.
template <class F>
Array with_number(const char* name, const ArrayLike& like, double number, const F& body) {
  const std::int64_t static_args[] = {std::bit_cast<std::int64_t>(number)};
  const Array x = array_of(like);
  const Input operands[] = {x};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return body(convert(v[0], inexact(v[0].dtype()))); },
      like.where());
}

// Note [Slopes of composites]: the chain rule would multiply a cotangent by x before the factor that is small
// for large x. So f(x) has the rule t f'(x), with f' as one value. Numbers of 16 bits are computed as f32.

// x s(x): s(x) + x s'(x)
Value silu_of(Value v, Where) {
  return of_32_bits(v, [](Value x) {
    return with_derivative(
        "silu", x, [](Value y) { return y * ops::logistic(y); },
        [](Value y, Value) {
          const Value share = ops::logistic(y);
          return share + y * prim::slope_of_logistic(y, share);
        });
  });
}

constexpr double gelu_scale = 0.79788456080286535588,
                 gelu_cube = 0.044715;  // sqrt(2 / pi), and GELU's own number

// x (1 + tanh u) / 2 = x s(2u), u = sqrt(2 / pi) (x + 0.044715 x³), for an x so near to 0 that s(2u) is
// neither 0 nor 1.
Value near_gelu(Value x) { return bounded(x, x.dtype() == f64 ? 22.0 : 11.0); }
Value gelu_inside(Value near) {
  const Value cube = near * ops::square(near);
  const Value sum = near + number_like(near, gelu_cube) * cube;
  return number_like(near, 2.0 * gelu_scale) * sum;
}
Value gelu_by_tanh(Value v) {
  return of_32_bits(v, [](Value x) {
    return with_derivative(
        "gelu", x, [](Value y) { return y * ops::logistic(gelu_inside(near_gelu(y))); },
        [](Value y, Value) {
          const Value near = near_gelu(y), inside = gelu_inside(near), share = ops::logistic(inside);
          const Value one = number_like(y, 1.0), squared = ops::square(near);
          const Value growth = one + number_like(y, 3.0 * gelu_cube) * squared;
          const Value factor = near * (number_like(y, 2.0 * gelu_scale) * growth);
          return share + factor * prim::slope_of_logistic(inside, share);
        });
  });
}

// x P(x) with the normal distribution P: P(x) + x p(x)
Value gelu_by_erfc(Value v) {
  return of_32_bits(v, [](Value x) {
    const auto distribution = [](Value y) {
      const Value below = -y, half = number_like(y, 0.5);
      return half * ops::erfc(below * number_like(y, std::sqrt(0.5)));
    };
    return with_derivative(
        "gelu", x, [&](Value y) { return y * distribution(y); },
        [&](Value y, Value) {
          const Value near = bounded(y, 40.0);
          const Value density = prim::slope_of_erf(near * number_like(y, std::sqrt(0.5)));
          const Value part = (number_like(y, std::sqrt(0.125)) * near) * density;
          return distribution(y) + part;
        });
  });
}

Value elu_of(Value x, double alpha) {
  const Value zero = number_like(x, 0.0);
  const Value above = ops::gt(x, zero);
  const Value below = ops::expm1(ops::select_n(above, x, zero));
  return ops::select_n(above, number_like(x, alpha) * below, x);
}

Value selu_of(Value v, Where) {
  return of_32_bits(v, [](Value x) {
    const Value y = elu_of(x, 1.6732632423543772848170429916717);
    return number_like(x, 1.0507009873554804934193349852946) * y;
  });
}

// min(x, 0) - log(1 + exp(-|x|)), where the sign of x is a constant: see softplus.
Value log_sigmoid_of(Value v, Where) {
  return of_32_bits(v, [](Value x) {
    const Value zero = number_like(x, 0.0);
    const Value positive = ops::ge(x, zero);
    const Value below = ops::select_n(positive, x, -x);
    return ops::select_n(positive, x, zero) - ops::log1p(ops::exp(below));
  });
}

Value relu6_of(Value x, Where) {
  const Value zero = number_like(x, 0.0), six = number_like(x, 6.0);
  return ops::select_n(ops::ge(x, six), ops::select_n(ops::le(x, zero), x, zero), six);
}

Value mean_over(Value x, const Ints& axes) {
  double n = 1.0;
  for (const std::int64_t axis : axes) n *= static_cast<double>(x.shape()[static_cast<std::size_t>(axis)]);
  const Value total = ops::reduce_sum(x, axes);
  return total / number_like(total, n);
}

}  // namespace

Array silu(const ArrayLike& x) { return unary<silu_of>("silu", array_of(x), x.where()); }

Array gelu(const ArrayLike& x, bool approximate) {
  return with_number("gelu", x, approximate ? 1.0 : 0.0,
                     [=](Value v) { return approximate ? gelu_by_tanh(v) : gelu_by_erfc(v); });
}

Array leaky_relu(const ArrayLike& x, double negative_slope) {
  return with_number("leaky_relu", x, negative_slope, [=](Value v) {
    return ops::select_n(ops::ge(v, number_like(v, 0.0)), v * number_like(v, negative_slope), v);
  });
}

Array elu(const ArrayLike& x, double alpha) {
  return with_number("elu", x, alpha,
                     [=](Value v) { return of_32_bits(v, [=](Value y) { return elu_of(y, alpha); }); });
}

Array selu(const ArrayLike& x) { return unary<selu_of>("selu", array_of(x), x.where()); }
Array log_sigmoid(const ArrayLike& x) { return unary<log_sigmoid_of>("log_sigmoid", array_of(x), x.where()); }
Array relu6(const ArrayLike& x) { return unary<relu6_of>("relu6", array_of(x), x.where()); }

Array standardize(const ArrayLike& like, const Axes& axes, double epsilon) {
  const Where where = like.where();
  const Array x = array_of(like);
  const Ints list = normal_axes(axes, x, "standardize", where);
  if (is_complex(x.dtype()))
    refuse(ErrorKind::type, "standardize", frontend_detail::expected_real(x.type()), where);
  Ints static_args{std::bit_cast<std::int64_t>(epsilon)};
  static_args.insert(static_args.end(), list.begin(), list.end());
  const Input operands[] = {x};
  return invoke(
      {"standardize", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType result = inexact(v[0].dtype());
        // Numbers of 16 bits as f32, which holds their sums.
        const Value y = convert(v[0], result == f16 || result == bf16 ? f32 : result);
        const auto spread_out = [&](Value reduced) {
          return broadcast(list.empty() ? reduced : ops::expand_dims(reduced, list), y.shape());
        };
        const Value distance = y - spread_out(mean_over(y, list));
        const Value variance = mean_over(ops::square(distance), list);
        const Value scale = ops::rsqrt(variance + number_like(variance, epsilon));
        return convert(distance * spread_out(scale), result);
      },
      where);
}

Array softmax_cross_entropy_with_integer_labels(const Array& logits, const Array& labels, Where where) {
  const Input operands[] = {logits, labels};
  return invoke(
      {"softmax_cross_entropy_with_integer_labels"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const Value x = convert(v[0], inexact(v[0].dtype()));
        const Shape examples(x.shape().begin(), x.rank() == 0 ? x.shape().end() : x.shape().end() - 1);
        if (x.rank() == 0 || v[1].shape() != examples || !is_integer(v[1].dtype())) {
          throw Error(
              ErrorKind::type,
              detail::str("[softmax_cross_entropy_with_integer_labels] expected logits [..., classes] "
                          "and integer labels [...], got ",
                          v[0].type(), " and ", v[1].type()));
        }
        return convert(prim::cross_entropy_of(frontend_detail::widened(x), v[1]), x.dtype());
      },
      where);
}

}  // namespace tidu
