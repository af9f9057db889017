// minimise.hpp - two minimisers: Newton's method, whose linear systems are solved by conjugate gradients, and
// gradient descent. Both take any function of one Array that is written with Array's operations.
#pragma once

#include <functional>
#include <tidu/tidu.hpp>

namespace newton {

/// A loss: a scalar Array of an Array f64 [n].
using Function = std::function<tidu::Array(const tidu::Array&)>;

double inner(const tidu::Array& a, const tidu::Array& b);
double norm(const tidu::Array& a);

/// A function at a point, with its gradient. The gradient is recorded like all other operations
/// (create_graph), so that the Hessian times a vector is one backward sweep through the computation of the
/// gradient: about the cost of the gradient itself, and no matrix.
class Expansion {
 public:
  Expansion(const Function& f, const tidu::Array& point);
  double loss() const { return loss_.item(); }
  tidu::Array gradient() const { return gradient_.detach(); }
  tidu::Array hessian_times(const tidu::Array& v) const;

 private:
  tidu::Array point_, loss_, gradient_;
};

/// The loss alone; nothing is recorded.
double loss_at(const Function& f, const tidu::Array& point);
/// The gradient alone.
tidu::Array gradient_at(const Function& f, const tidu::Array& point);

/// The largest eigenvalue of the Hessian, to a thousandth or so, by power iteration.
double largest_curvature(const Expansion& at, const tidu::Array& start);

struct Progress {
  int iteration = 0;
  double loss = 0, gradient_norm = 0;
  int cg_steps = 0;        ///< that found the direction of the step to here
  double step_length = 0;  ///< part of that direction
};
using Report = std::function<void(const Progress&)>;

struct Result {
  tidu::Array point;
  int iterations = 0;
  int hessian_products = 0;
  double gradient_norm = 0;
};

/// Newton's method: the direction solves H d = -g by conjugate gradients, to a residual of at most min(0.5,
/// sqrt(|g|)) |g|, which makes convergence superlinear. The step along it is halved until the loss falls by
/// 1e-4 of the decrease that the slope predicts. Ends at |g| <= tolerance or after that many iterations.
Result newton_cg(const Function& f, const tidu::Array& start, double tolerance, int iterations,
                 const Report& report);

/// Gradient descent with a constant step, with the same end.
Result gradient_descent(const Function& f, const tidu::Array& start, double step, double tolerance,
                        int iterations, const Report& report);

}  // namespace newton
