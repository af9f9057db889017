// models.cpp - the graphs. A model is written once, for any number of images; its derivative is never
// written.
#include "models.hpp"

#include <tidu/tidu.hpp>

#include "data.hpp"

namespace digits {
namespace {

using namespace tidu;

constexpr double momentum = 0.9;

// x W + b, b being added to every row.
Value affine(Value x, Value W, Value b) {
  const Value xW = ops::matmul(x, W);
  return xW + ops::broadcast_in_dim(b, xW.shape(), {1});
}

Values parameter_inputs(GraphBuilder& g, const Model& model) {
  Values values;
  for (const Parameter& parameter : model.parameters)
    values.push_back(g.input(parameter.name, {f32, parameter.shape}));
  return values;
}

// A number times an array.
Value scaled(Value factor, Value x) { return ops::broadcast_scalar(factor, x.shape()) * x; }
Value scaled(double factor, Value x) { return ops::full_like(x, factor) * x; }

}  // namespace

Model logistic_regression() {
  return {"logistic regression",
          {{"W", {pixels, classes}}, {"b", {classes}}},
          [](std::span<const Value> p, Value x) { return affine(x, p[0], p[1]); }};
}

Model network(std::int64_t hidden) {
  return {
      "2-layer network",
      {{"W1", {pixels, hidden}}, {"b1", {hidden}}, {"W2", {hidden, classes}}, {"b2", {classes}}},
      [](std::span<const Value> p, Value x) { return affine(ops::tanh(affine(x, p[0], p[1])), p[2], p[3]); }};
}

Graph loss(const Model& model, std::int64_t n) {
  GraphBuilder g("loss");
  const Values parameters = parameter_inputs(g, model);
  const Value images = g.input("images", {f32, {n, pixels}});
  const Value labels = g.input("labels", {i32, {n}});

  const Value scores = model.scores(parameters, images);
  const Value right = ops::take_along_axis(scores, ops::expand_dims(labels, {1}), 1);  // [n, 1]
  const Value cross_entropy = ops::logsumexp(scores, {1}) - ops::squeeze(right, {1});
  return g.build({scaled(1.0 / static_cast<double>(n), ops::reduce_sum(cross_entropy, {0}))});
}

Graph descent_step(const Model& model, std::int64_t n, double weight_decay) {
  Names names;
  for (const Parameter& parameter : model.parameters) names.push_back(parameter.name);
  const Graph gradient = value_and_grad(loss(model, n), names);  // the loss, then a gradient for each name

  GraphBuilder g("descent_step");
  Values inputs = parameter_inputs(g, model);
  const std::size_t count = inputs.size();
  inputs.push_back(g.input("images", {f32, {n, pixels}}));
  inputs.push_back(g.input("labels", {i32, {n}}));
  const std::vector<Value> values = inline_graph(g, gradient, inputs);

  std::vector<Value> outputs{values[gradient.outputs()[0]]}, velocities;
  std::vector<Value> velocity_inputs;
  for (const Parameter& parameter : model.parameters)
    velocity_inputs.push_back(g.input("velocity of " + parameter.name, {f32, parameter.shape}));
  const Value rate = g.input("rate", f32);
  for (std::size_t i = 0; i < count; ++i) {
    const Value slope = values[gradient.outputs()[1 + i]] + scaled(weight_decay, inputs[i]);
    velocities.push_back(scaled(momentum, velocity_inputs[i]) + slope);
    outputs.push_back(inputs[i] - scaled(rate, velocities[i]));
  }
  outputs.insert(outputs.end(), velocities.begin(), velocities.end());
  return g.build(outputs);
}

Graph prediction(const Model& model, std::int64_t n) {
  GraphBuilder g("prediction");
  const Values parameters = parameter_inputs(g, model);
  const Value images = g.input("images", {f32, {n, pixels}});
  return g.build({ops::argmax(model.scores(parameters, images), 1)});
}

}  // namespace digits
