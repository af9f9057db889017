// main.cpp - data-parallel training: every process has a part of the data and all of the weights. A step's
// graph computes the loss of the process's own data, its gradient, and psum of both, so that every process
// takes the same step. The result is compared with training in one process on all of the data.
//
// usage: mpirun -n N data_parallel [--rate R]
// --rate: length of a step by its gradient, 0.3 when left out. Exit status: 0; 1 when the weights are not
// those of one process to 1e-12, or the loss has not gone down.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <tidu/graph/builder.hpp>
#include <tidu/linearize/transforms.hpp>
#include <tidu/mpi.hpp>
#include <tidu/primitives/collectives.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>
#include <vector>

#include "common/arguments.hpp"

namespace {

using namespace tidu;

constexpr std::int64_t features = 8, rows_in_all = 240;
constexpr int steps = 50;

// Σ (tanh(x w) - y)² / rows_in_all over these rows.
Graph loss_of(std::int64_t rows) {
  GraphBuilder builder("loss", standard_primitives());
  const Value w = builder.input("w", Type(f64, {features}));
  const Value x = builder.input("x", Type(f64, {rows, features}));
  const Value y = builder.input("y", Type(f64, {rows}));
  const Value error = ops::tanh(ops::matmul(x, w)) - y;
  const Value sum = ops::reduce_sum(ops::square(error), {0});
  return builder.build({sum * ops::full_like(sum, 1.0 / rows_in_all)});
}

// One step of descent, from (w, x, y) to (loss, w). The gradient of the sum of all losses by weights that all
// ranks share is the sum of the ranks' gradients.
Graph step_of(std::int64_t rows, std::int64_t ranks, double rate) {
  const Graph gradient = value_and_grad(loss_of(rows), {"w"});
  GraphBuilder builder("step", standard_primitives());
  const Value w = builder.input("w", Type(f64, {features}));
  const Value x = builder.input("x", Type(f64, {rows, features}));
  const Value y = builder.input("y", Type(f64, {rows}));
  const Values here = ops::call(gradient, std::vector<Value>{w, x, y});
  const Value loss = ops::psum(here[0], "data", ranks);
  const Value direction = ops::psum(here[1], "data", ranks);
  return builder.build({loss, w - direction * ops::full_like(direction, rate)});
}

// Rows [first, first + count) of data that every process could make.
Tensor features_of(std::int64_t first, std::int64_t count) {
  Tensor x(Type(f64, {count, features}));
  for (std::int64_t i = 0; i < x.size(); ++i)
    x.mutable_data<double>()[i] = std::sin(static_cast<double>(first * features + i) * 1.7);
  return x;
}
Tensor targets_of(std::int64_t first, std::int64_t count) {
  Tensor y(Type(f64, {count}));
  for (std::int64_t i = 0; i < count; ++i)
    y.mutable_data<double>()[i] = std::cos(static_cast<double>(first + i) * 0.9);
  return y;
}

Tensor train(const CpuExecutor& executor, std::int64_t first, std::int64_t rows, std::int64_t ranks,
             double rate, std::vector<double>& losses) {
  const Executable step = executor.compile(step_of(rows, ranks, rate));
  const Tensor x = features_of(first, rows), y = targets_of(first, rows);
  Tensor w(Type(f64, {features}));
  for (std::int64_t i = 0; i < features; ++i) w.mutable_data<double>()[i] = 0.0;
  for (int i = 0; i < steps; ++i) {
    std::vector<Tensor> results = step.run({w, x, y});
    losses.push_back(results[0].data<double>()[0]);
    w = std::move(results[1]);
  }
  return w;
}

// The largest difference of two elements, not a number where one of them is not.
double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a.data<double>()[i] - b.data<double>()[i]);
    if (!(difference <= largest) && !std::isnan(largest)) largest = difference;
  }
  return largest;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const examples::Arguments arguments(argc, argv, {"--rate"});
    const double rate = arguments.number("--rate", 0.3, 0.0, std::numeric_limits<double>::infinity());
    const tidu::MpiSession session;
    const std::int64_t ranks = session.size(), share = rows_in_all / ranks;
    if (share * ranks != rows_in_all)
      throw tidu::Error(tidu::ErrorKind::invalid_argument,
                        "data_parallel: expected a number of processes that divides " +
                            std::to_string(rows_in_all) + ", got " + std::to_string(ranks));
    const tidu::CpuExecutor executor = tidu::with_axes(tidu::cpu(), {{"data", MPI_COMM_WORLD}});
    std::vector<double> together, alone;
    const tidu::Tensor w = train(executor, session.rank() * share, share, ranks, rate, together);
    if (session.rank() != 0) return 0;
    const tidu::Tensor wanted = train(tidu::cpu(), 0, rows_in_all, 1, rate, alone);
    const double worst = largest_difference(w, wanted);
    std::printf("%d processes: loss %.6f at first, %.6f after %d steps\n", session.size(), together.front(),
                together.back(), steps);
    std::printf("largest difference from one process %.3g\n", worst);
    return worst < 1e-12 && together.back() < together.front() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
