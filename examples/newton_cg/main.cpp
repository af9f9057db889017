// main.cpp - the program newton_cg: distinguishes threes from eights by logistic regression, once by Newton's
// method and once by gradient descent, and compares the products with the Hessian with differences of the
// gradient.
#include <chrono>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/arguments.hpp"
#include "common/program.hpp"
#include "digits/data.hpp"
#include "minimise.hpp"
#include "problem.hpp"

namespace {

using namespace newton;
using tidu::Array;
using Clock = std::chrono::steady_clock;

constexpr std::size_t train_rows = 1347;
constexpr double tolerance = 1e-8, largest_disagreement = 1e-7;

constexpr const char* usage =
    "usage: newton_cg [--data digits.csv] [--lambda L] [--iterations N] [--descent-iterations N]\n"
    "Minimises the regularised logistic loss of threes against eights, by Newton's method with conjugate\n"
    "gradients and by gradient descent, until the gradient's norm is 1e-8 (or for N iterations).\n"
    "Exit status: 0; 2 for wrong arguments or files; 3 when Newton's method does not get there or a product\n"
    "with the Hessian is not what differences of the gradient give.\n";

struct Settings {
  std::string data;
  double lambda;
  int iterations, descent_iterations;
};

Settings settings_of(const examples::Arguments& arguments) {
  if (!arguments.words().empty())
    throw std::runtime_error("expected options, got " + arguments.words().front());
  const auto count = [&](const char* option, std::int64_t otherwise) {
    return static_cast<int>(arguments.integer(option, otherwise, 0, 1'000'000'000));
  };
  return {arguments.text("--data", DIGITS_CSV), arguments.number("--lambda", 1e-3, 1e-300, 1e300),
          count("--iterations", 50), count("--descent-iterations", 1'000'000)};
}

Array random_vector(std::int64_t size, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> elements(static_cast<std::size_t>(size));
  for (double& element : elements) element = normal(random);
  return tidu::array(elements, {size});
}

// |H v - (g(w + h v) - g(w - h v)) / 2h| / |H v| for a random direction v.
double disagreement(const Function& f, const Array& w, std::mt19937_64& random) {
  const double h = 1e-4;
  Array v = random_vector(w.size(), random);
  v /= norm(v);
  const Array product = Expansion(f, w).hessian_times(v);
  const Array difference = (gradient_at(f, w + h * v) - gradient_at(f, w - h * v)) / (2 * h);
  return norm(product - difference) / norm(product);
}

double milliseconds_since(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

int run(const Settings& settings) {
  const digits::Digits all = digits::read_digits(settings.data);
  if (all.rows() <= train_rows) throw std::runtime_error(settings.data + ": expected more than 1347 rows");
  const Pairs training(all.part(0, train_rows), 3, 8);
  const Pairs test(all.part(train_rows, all.rows() - train_rows), 3, 8);
  const Function loss = [&](const Array& w) { return logistic_loss(training, w, settings.lambda); };
  const Array start = tidu::zeros({training.rows.shape(1)});
  std::printf("threes against eights: %ld images, %ld weights, lambda %g\n",
              static_cast<long>(training.rows.shape(0)), static_cast<long>(start.size()), settings.lambda);

  std::printf("\nNewton's method, directions by conjugate gradients\n");
  std::printf("  iteration  loss              |gradient|  CG steps  step\n");
  Clock::time_point from = Clock::now();
  const Result newton = newton_cg(loss, start, tolerance, settings.iterations, [](const Progress& p) {
    std::printf("  %9d  %.14f  %.1e", p.iteration, p.loss, p.gradient_norm);
    if (p.iteration > 0) std::printf("     %8d  %g", p.cg_steps, p.step_length);
    std::printf("\n");
  });
  const double newton_time = milliseconds_since(from);

  std::mt19937_64 random(1);
  const double curvature = largest_curvature(Expansion(loss, start), random_vector(start.size(), random));
  std::printf("\nGradient descent, constant step 1/%.3g, the inverse of the largest curvature\n", curvature);
  std::printf("  iteration  loss              |gradient|\n");
  from = Clock::now();
  const Result descent = gradient_descent(
      loss, start, 1 / curvature, tolerance, settings.descent_iterations, [](const Progress& p) {
        std::printf("  %9d  %.14f  %.1e\n", p.iteration, p.loss, p.gradient_norm);
        std::fflush(stdout);
      });
  const double descent_time = milliseconds_since(from);

  const bool arrived = newton.gradient_norm <= tolerance;
  const auto verdict = [](const Result& result) {
    return result.gradient_norm <= tolerance ? "got there" : "did NOT get there";
  };
  std::printf("\nto a gradient of %.0e:\n", tolerance);
  std::printf("  Newton            %s: %d iterations, %d products with the Hessian, %.1f ms\n",
              verdict(newton), newton.iterations, newton.hessian_products, newton_time);
  std::printf("  gradient descent  %s: %d iterations, %.1f ms\n", verdict(descent), descent.iterations,
              descent_time);
  std::printf("  of the test images, %.1f %% are on the right side\n", 100 * accuracy(test, newton.point));

  const Array elsewhere = random_vector(start.size(), random);
  bool agrees = true;
  for (const auto& [name, w] :
       {std::pair("the start", start), {"a random point", elsewhere}, {"the minimum", newton.point}}) {
    const double apart = disagreement(loss, w, random);
    const bool close = apart <= largest_disagreement;  // false for NaN too
    agrees = agrees && close;
    std::printf("  H v at %-14s %s with differences of the gradient: %.1e apart\n", name,
                close ? "agrees" : "DISAGREES", apart);
  }
  return arrived && agrees ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("newton_cg", usage, argc, argv, [&] {
    return run(settings_of({argc, argv, {"--data", "--lambda", "--iterations", "--descent-iterations"}}));
  });
}
