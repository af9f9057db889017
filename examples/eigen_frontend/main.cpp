// main.cpp - fits sin by a network of 16 hidden units with the frontend of this folder, and compares its
// first and second derivatives with differences. Exit status 1 when one of them, or the fit, is off.
#include <cmath>
#include <iostream>
#include <random>

#include "frontend.hpp"

namespace {

using mini::Mat;
using mini::Matrix;
using mini::Var;
using Vars = std::vector<Var>;
using Matrices = std::vector<Matrix>;

struct Data {
  Matrix x, y, ones;  // one row per point; ones stands for the rows that a bias is added to
};

Data points(int count) {
  Data data{Matrix(count, 1), Matrix(count, 1), Matrix::Ones(count, 1)};
  for (int i = 0; i < count; ++i) {
    data.x(i, 0) = -3 + 6.0 * i / (count - 1);
    data.y(i, 0) = std::sin(data.x(i, 0));
  }
  return data;
}

Matrices random_like(const Matrices& shapes, double scale, std::mt19937& generator) {
  Matrices made = shapes;
  for (Matrix& matrix : made)
    for (double& element : matrix.reshaped())
      element = scale * (static_cast<double>(generator()) * 0x1p-31 - 1);
  return made;
}

// mean (tanh(x W + 1 b) V + 1 c - y)²
Var loss(mini::Frontend& frontend, const Data& data, const Vars& p) {
  const Var x = frontend.constant(data.x), ones = frontend.constant(data.ones);
  const Var hidden = tanh(matmul(x, p[0]) + matmul(ones, p[1]));
  const Var error = matmul(hidden, p[2]) + matmul(ones, p[3]) + -1 * frontend.constant(data.y);
  return 1.0 / static_cast<double>(data.x.rows()) * sum(error * error);
}

Vars variables(mini::Frontend& frontend, const Matrices& at) {
  Vars made;
  for (const Matrix& value : at) made.push_back(frontend.variable(value));
  return made;
}

Matrices moved(Matrices at, double step, const Matrices& along) {
  for (std::size_t k = 0; k < at.size(); ++k) at[k] += step * along[k];
  return at;
}

double dot(const Vars& a, const Matrices& b) {
  double result = 0;
  for (std::size_t k = 0; k < b.size(); ++k) result += a[k].value().cwiseProduct(b[k]).sum();
  return result;
}

bool near(const char* what, double got, double expected) {
  const bool good = std::abs(got - expected) <= 1e-6 * std::max(1.0, std::abs(expected));
  std::cout << what << ": " << got << ", by differences " << expected << (good ? "\n" : ", which is wrong\n");
  return good;
}

bool check_derivatives(const Data& data, const Matrices& at, std::mt19937& generator) {
  mini::Frontend frontend;
  const Matrices u = random_like(at, 1, generator), v = random_like(at, 1, generator);
  const auto value = [&](const Matrices& p) { return loss(frontend, data, variables(frontend, p)).item(); };
  const auto slope = [&](const Matrices& p) {
    const Vars xs = variables(frontend, p);
    return dot(frontend.grad(loss(frontend, data, xs), xs), u);
  };
  // The Hessian's product with u is the gradient of <gradient, u>.
  const Vars xs = variables(frontend, at);
  const Vars gradient = frontend.grad(loss(frontend, data, xs), xs, /*create_graph=*/true);
  Var along_u = sum(gradient[0] * frontend.constant(u[0]));
  for (std::size_t k = 1; k < u.size(); ++k) along_u = along_u + sum(gradient[k] * frontend.constant(u[k]));
  const double second = dot(frontend.grad(along_u, xs), v);

  const double h = 1e-5;
  const bool good =
      near("gradient", dot(gradient, u), (value(moved(at, h, u)) - value(moved(at, -h, u))) / (2 * h));
  return near("Hessian", second, (slope(moved(at, h, v)) - slope(moved(at, -h, v))) / (2 * h)) && good;
}

// Gradient descent with momentum; the gradients come from the leaves' slots.
double train(const Data& data, Matrices at) {
  mini::Frontend frontend;
  std::vector<tidu::eager::Leaf<Mat>> leaves;
  for (const char* name : {"W", "b", "V", "c"}) leaves.emplace_back(frontend.keys(), name);
  // A hook reads, and may replace, the gradient that is about to be added to a slot: here it bounds its
  // length.
  for (auto& leaf : leaves) {
    leaf.on_accumulate([](tidu::eager::HookContext<Mat>& context) {
      auto gradient = context.incoming();
      const double norm = (*gradient)->norm();
      if (norm > 1) gradient.replace(std::make_shared<const Matrix>(**gradient / norm));
    });
  }
  Matrices velocity;
  for (const Matrix& p : at) velocity.push_back(Matrix::Zero(p.rows(), p.cols()));
  double last = 0;
  for (int step = 0; step <= 2000; ++step) {
    Vars parameters;
    for (std::size_t k = 0; k < at.size(); ++k)
      parameters.push_back(frontend.parameter(leaves[k], std::make_shared<const Matrix>(at[k])));
    const Var now = loss(frontend, data, parameters);
    last = now.item();
    if (step % 400 == 0) std::cout << "step " << step << ": loss " << last << '\n';
    frontend.backward(now);
    for (std::size_t k = 0; k < at.size(); ++k) {
      velocity[k] = 0.9 * velocity[k] - 0.05 * **leaves[k].gradient();
      at[k] += velocity[k];
      leaves[k].clear_gradient();
    }
  }
  return last;
}

}  // namespace

int main() {
  std::mt19937 generator(1);
  const Data data = points(64);
  const Matrices shapes = {Matrix(1, 16), Matrix(1, 16), Matrix(16, 1), Matrix(1, 1)};
  const Matrices start = random_like(shapes, 0.8, generator);
  const bool good = check_derivatives(data, start, generator);
  const double last = train(data, start);
  if (last < 1e-3 && good) return 0;
  std::cout << "the fit or a derivative is worse than it has to be\n";
  return 1;
}
