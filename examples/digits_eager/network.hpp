// network.hpp - the two-layer network of ../digits as functions of Arrays, and a descent that changes its
// parameters in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tidu/tidu.hpp>
#include <vector>

#include "digits/data.hpp"

namespace digits {

/// tanh(x W1 + b1) W2 + b2; the parameters, all f32, require gradients.
struct Network {
  tidu::Array W1, b1, W2, b2;

  /// Weights that are normal with variance 1 / number of rows, biases zero: those of ../digits for this seed.
  Network(std::int64_t hidden, std::uint64_t seed);
  /// A score for each class, f32 [n, 10], of images f32 [n, 64].
  tidu::Array scores(const tidu::Array& images) const;
  std::vector<tidu::Array> parameters() const { return {W1, b1, W2, b2}; }
};

/// The mean cross-entropy of softmax(scores) with labels i32 [n].
tidu::Array cross_entropy(const tidu::Array& scores, const tidu::Array& labels);

/// The part of those rows that the network puts in the right class.
double accuracy(const Network& network, const Digits& table);

/// Gradient descent with momentum and weight decay, on the gradients in grad() of the parameters.
class Descent {
 public:
  Descent(std::vector<tidu::Array> parameters, double momentum, double weight_decay);
  void zero_grad() const;
  /// Changes every parameter in place.
  void step(double rate);

 private:
  std::vector<tidu::Array> parameters_, velocities_;
  double momentum_, weight_decay_;
};

}  // namespace digits
