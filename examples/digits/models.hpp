// models.hpp - two classifiers as graphs: their predictions, their losses, and one step of the descent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tidu/graph/graph.hpp>
#include <vector>

namespace digits {

struct Parameter {
  std::string name;
  tidu::Shape shape;
};

/// A classifier: its parameters, all f32, and how they give each image [n, 64] a score for each class, [n,
/// 10].
struct Model {
  std::string name;
  std::vector<Parameter> parameters;
  tidu::Value (*scores)(std::span<const tidu::Value> parameters, tidu::Value images);
};

/// Logistic regression: x W + b.
Model logistic_regression();
/// Two layers: tanh(x W1 + b1) W2 + b2.
Model network(std::int64_t hidden);

/// Inputs: the parameters, images f32 [n, 64], labels i32 [n]. Output: the mean cross-entropy of
/// softmax(scores).
tidu::Graph loss(const Model& model, std::int64_t n);

/// One step of stochastic gradient descent with momentum and weight decay, the gradient being that of `loss`.
/// Inputs: those of loss, then "velocity of …" for every parameter, and rate f32 []. Outputs: the loss, the
/// new parameters, the new velocities.
tidu::Graph descent_step(const Model& model, std::int64_t n, double weight_decay);

/// Inputs: the parameters and images f32 [n, 64]. Output: the class of the largest score, i32 [n].
tidu::Graph prediction(const Model& model, std::int64_t n);

}  // namespace digits
