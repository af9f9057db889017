// network.cpp - the network, its loss and the descent, each written as one would on paper.
#include "network.hpp"

#include <cmath>
#include <numeric>
#include <random>

namespace digits {
namespace {

using tidu::Array;

Array normal_weights(std::int64_t rows, std::int64_t columns, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(rows)));
  std::vector<float> elements(static_cast<std::size_t>(rows * columns));
  for (float& element : elements) element = normal(random);
  return tidu::array(elements, {rows, columns});
}

}  // namespace

Network::Network(std::int64_t hidden, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  W1 = normal_weights(pixels, hidden, random);
  b1 = tidu::zeros({hidden}, tidu::f32);
  W2 = normal_weights(hidden, classes, random);
  b2 = tidu::zeros({classes}, tidu::f32);
  W1.set_requires_grad(true, "W1");
  b1.set_requires_grad(true, "b1");
  W2.set_requires_grad(true, "W2");
  b2.set_requires_grad(true, "b2");
}

Array Network::scores(const Array& images) const {
  const Array hidden = tanh(matmul(images, W1) + b1);
  return matmul(hidden, W2) + b2;
}

Array cross_entropy(const Array& scores, const Array& labels) {
  return -mean(take_along_axis(log_softmax(scores), expand_dims(labels, 1), 1));
}

double accuracy(const Network& network, const Digits& table) {
  const tidu::NoGrad guard;
  std::vector<std::size_t> rows(table.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const Array predictions = argmax(network.scores(Array(table.images(rows))), 1);
  return mean(astype(predictions == Array(table.labels_of(rows)), tidu::f64)).item();
}

Descent::Descent(std::vector<Array> parameters, double momentum, double weight_decay)
    : parameters_(std::move(parameters)), momentum_(momentum), weight_decay_(weight_decay) {
  for (const Array& parameter : parameters_) velocities_.push_back(zeros_like(parameter));
}

void Descent::zero_grad() const {
  for (const Array& parameter : parameters_) parameter.zero_grad();
}

void Descent::step(double rate) {
  const tidu::NoGrad guard;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Array& parameter = parameters_[i];
    const Array slope = parameter.grad().value() + weight_decay_ * parameter;
    velocities_[i] = momentum_ * velocities_[i] + slope;
    parameter -= rate * velocities_[i];
  }
}

}  // namespace digits
