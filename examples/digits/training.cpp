// training.cpp - initial parameters, epochs of shuffled batches, and the measuring of accuracy.
#include "training.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tidu/cpu/executor.hpp>

namespace digits {
namespace {

using tidu::Executable;
using tidu::Graph;
using tidu::Tensor;

// Steps this small gain nothing from a second thread.
Executable compiled(const Graph& graph) {
  tidu::CpuOptions options;
  options.threads = 1;
  return tidu::cpu().with_options(options).compile(graph);
}

std::vector<std::size_t> all_rows(const Digits& digits) {
  std::vector<std::size_t> rows(digits.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

double accuracy(const std::vector<std::int32_t>& predictions, const std::vector<std::int32_t>& labels) {
  const auto right = std::inner_product(predictions.begin(), predictions.end(), labels.begin(), 0,
                                        std::plus<>(), std::equal_to<>());
  return right / static_cast<double>(labels.size());
}

std::int64_t signed_size(std::size_t n) { return static_cast<std::int64_t>(n); }

}  // namespace

Trainer::Trainer(const Model& model, const Digits& train, const Digits& held_out, const Settings& settings)
    : model_(model),
      train_(train),
      held_out_(held_out),
      settings_(settings),
      step_(compiled(descent_step(model, signed_size(settings.batch), settings.weight_decay))),
      predict_train_(compiled(prediction(model, signed_size(train.rows())))),
      predict_held_out_(compiled(prediction(model, signed_size(held_out.rows())))) {}

// Weights are normal with variance 1 / number of rows, biases zero.
std::vector<Tensor> Trainer::initial_parameters(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::vector<Tensor> parameters;
  for (const Parameter& parameter : model_.parameters) {
    Tensor tensor = Tensor::zeros({tidu::f32, parameter.shape});
    if (tensor.rank() == 2) {
      std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(tensor.dim(0))));
      std::ranges::generate(tensor.mutable_elements<float>(), [&] { return normal(random); });
    }
    parameters.push_back(std::move(tensor));
  }
  return parameters;
}

std::vector<std::int32_t> Trainer::predict(const Executable& predictor, const std::vector<Tensor>& parameters,
                                           const Digits& digits) const {
  std::vector<Tensor> inputs = parameters;
  inputs.push_back(digits.images(all_rows(digits)));
  const Tensor result = predictor.run(inputs)[0];
  const auto classes_of_rows = result.elements<std::int32_t>();
  return {classes_of_rows.begin(), classes_of_rows.end()};
}

Outcome Trainer::train(std::uint64_t seed,
                       const std::function<void(std::size_t, double, double)>& after_epoch) const {
  const std::vector<Tensor> initial = initial_parameters(seed);
  const std::size_t count = initial.size();
  std::vector<Tensor> state = initial;  // the parameters, then their velocities
  for (const Tensor& parameter : initial) state.push_back(Tensor::zeros(parameter.type()));

  Outcome outcome;
  std::mt19937_64 random(seed + 1000);
  std::vector<std::size_t> order = all_rows(train_);
  const std::size_t steps = train_.rows() / settings_.batch;
  for (std::size_t epoch = 0; epoch < settings_.epochs; ++epoch) {
    const float done = static_cast<float>(epoch) / static_cast<float>(settings_.epochs);
    const Tensor rate = Tensor::scalar(settings_.rate * (1 - 0.9F * done));
    std::shuffle(order.begin(), order.end(), random);
    double sum = 0;
    for (std::size_t i = 0; i < steps; ++i) {
      const auto rows = std::span(order).subspan(i * settings_.batch, settings_.batch);
      // Inputs of the step: parameters, images, labels, velocities, rate.
      std::vector<Tensor> inputs(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(count));
      inputs.push_back(train_.images(rows));
      inputs.push_back(train_.labels_of(rows));
      inputs.insert(inputs.end(), state.begin() + static_cast<std::ptrdiff_t>(count), state.end());
      inputs.push_back(rate);
      const std::vector<Tensor> outputs = step_.run(inputs);
      sum += outputs[0].item<float>();
      state.assign(outputs.begin() + 1, outputs.end());
    }
    const std::vector<Tensor> parameters(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(count));
    outcome.loss.push_back(sum / static_cast<double>(steps));
    outcome.accuracy.push_back(accuracy(predict(predict_train_, parameters, train_), train_.labels));
    after_epoch(epoch + 1, outcome.loss.back(), outcome.accuracy.back());
  }
  state.resize(count);
  outcome.predictions = predict(predict_held_out_, state, held_out_);
  outcome.held_out_accuracy = accuracy(outcome.predictions, held_out_.labels);
  return outcome;
}

}  // namespace digits
