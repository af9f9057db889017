// minimise.cpp - conjugate gradients, the line search, and the two loops.
#include "minimise.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace newton {
namespace {

using tidu::Array;

// The point as a leaf of its own.
Array leaf(const Array& point) {
  Array own = point.detach();
  own.set_requires_grad(true, "w");
  return own;
}

// Solves H d = -g; `steps` is set to the number of products with H.
Array conjugate_gradients(const Expansion& at, const Array& g, int& steps) {
  const double g_norm = norm(g);
  const double enough = std::min(0.5, std::sqrt(g_norm)) * g_norm;
  Array d = zeros_like(g), residual = -g, direction = residual;
  double rr = inner(residual, residual);
  for (steps = 0; std::sqrt(rr) > enough && steps < 10 * g.size(); ++steps) {
    const Array curved = at.hessian_times(direction);
    const double curvature = inner(direction, curved);
    if (curvature <= 0) return steps == 0 ? residual : d;  // no minimum this way: keep d
    const double alpha = rr / curvature;
    d = d + alpha * direction;
    residual = residual - alpha * curved;
    const double rr_new = inner(residual, residual);
    direction = residual + (rr_new / rr) * direction;
    rr = rr_new;
  }
  return d;
}

// The largest of 1, 1/2, 1/4, … that lowers the loss enough. Close to the minimum the loss changes by less
// than it is rounded by.
double line_search(const Function& f, const Array& from, const Array& direction, double loss, double slope) {
  const double rounding = 1e-14 * std::abs(loss);
  double length = 1;
  while (length > 1e-10 &&
         !(loss_at(f, from + length * direction) <= loss + 1e-4 * length * slope + rounding))
    length /= 2;
  return length;
}

}  // namespace

double inner(const Array& a, const Array& b) { return dot(a, b).item(); }
double norm(const Array& a) { return std::sqrt(inner(a, a)); }

Expansion::Expansion(const Function& f, const Array& point) : point_(leaf(point)), loss_(f(point_)) {
  gradient_ = tidu::grad_of(loss_, {point_}, {.create_graph = true})[0].value();
}

Array Expansion::hessian_times(const Array& v) const {
  const auto product = tidu::grad_of(std::span(&gradient_, 1), std::span(&point_, 1), std::span(&v, 1),
                                     {.keep_graph = true})[0];
  return product ? *product : zeros_like(v);  // a linear function has none
}

double loss_at(const Function& f, const Array& point) {
  return tidu::no_grad([&] { return f(point).item(); });
}

Array gradient_at(const Function& f, const Array& point) {
  const Array own = leaf(point);
  return tidu::grad_of(f(own), {own})[0].value();
}

double largest_curvature(const Expansion& at, const Array& start) {
  Array v = start / norm(start);
  double value = 0, before = -1;
  for (int i = 0; i < 1000 && std::abs(value - before) > 1e-5 * value; ++i) {
    const Array Hv = at.hessian_times(v);
    before = value;
    value = norm(Hv);
    v = Hv / value;
  }
  return value;
}

Result newton_cg(const Function& f, const Array& start, double tolerance, int iterations,
                 const Report& report) {
  Result result{start};
  Progress progress;
  for (;; ++result.iterations) {
    const Expansion at(f, result.point);
    const Array g = at.gradient();
    result.gradient_norm = progress.gradient_norm = norm(g);
    progress.iteration = result.iterations;
    progress.loss = at.loss();
    report(progress);
    if (result.gradient_norm <= tolerance || result.iterations == iterations) return result;

    const Array d = conjugate_gradients(at, g, progress.cg_steps);
    result.hessian_products += progress.cg_steps;
    progress.step_length = line_search(f, result.point, d, progress.loss, inner(g, d));
    result.point = result.point + progress.step_length * d;
  }
}

Result gradient_descent(const Function& f, const Array& start, double step, double tolerance, int iterations,
                        const Report& report) {
  Result result{start};
  for (;; ++result.iterations) {
    const Array g = gradient_at(f, result.point);
    result.gradient_norm = norm(g);
    const bool ended = result.gradient_norm <= tolerance || result.iterations == iterations;
    const auto power_of_ten = [](int n) {
      while (n >= 10 && n % 10 == 0) n /= 10;
      return n == 1 || n == 0;
    };
    if (ended || power_of_ten(result.iterations))
      report({result.iterations, loss_at(f, result.point), result.gradient_norm, 0, step});
    if (ended) return result;
    result.point = result.point - step * g;
  }
}

}  // namespace newton
