// model.cpp - the network as a person would write it: a loop over the characters, a loop over the layers.
#include "model.hpp"

#include <tuple>
#include <vector>

namespace lstm {
namespace {

using tidu::Array;

struct Layer {
  Gates weights, biases;
  Array h, s;

  // Parameters [2, 4, bits], state [2, bits].
  Layer(const Array& parameters, const Array& state) : h(state[0]), s(state[1]) {
    const Array all_weights = parameters[0], all_biases = parameters[1];
    for (std::size_t g = 0; g < 4; ++g) {
      weights[g] = all_weights[g];
      biases[g] = all_biases[g];
    }
  }
};

}  // namespace

std::pair<Array, Array> next_state(const Gates& weights, const Gates& biases, const Array& u, const Array& h,
                                   const Array& s) {
  const Array forget = sigmoid(u * weights[0] + biases[0]);
  const Array in = sigmoid(h * weights[1] + biases[1]);
  const Array out = sigmoid(u * weights[2] + biases[2]);
  const Array change = tanh(h * weights[3] + biases[3]);
  const Array cells = s * forget + in * change;
  return {out * tanh(cells), cells};
}

Array log_likelihood(const Array& u, const Array& weight, const Array& bias, const Array& x) {
  const Array y = u * weight + bias;
  return sum(x * (y - log(2 + sum(exp(y)))));
}

Model::Model(bool compiled) : next_state_(next_state), log_likelihood_(log_likelihood) {
  if (!compiled) return;
  next_state_ = tidu::compile(next_state);
  log_likelihood_ = tidu::compile(log_likelihood);
}

Array Model::loss(const Array& main, const Array& extra, const Problem& problem) const {
  std::vector<Layer> layers;
  for (std::int64_t k = 0; k < problem.layers; ++k) layers.emplace_back(main[k], problem.state[k]);
  const Array in_weight = extra[0], out_weight = extra[1], out_bias = extra[2];

  Array total = 0.0;
  for (std::size_t t = 0; t + 1 < problem.sequence.size(); ++t) {
    Array u = problem.sequence[t] * in_weight;
    for (Layer& layer : layers) {
      std::tie(layer.h, layer.s) = next_state_(layer.weights, layer.biases, u, layer.h, layer.s);
      u = layer.h;
    }
    total += log_likelihood_(u, out_weight, out_bias, problem.sequence[t + 1]);
  }
  return -total / (problem.bits * (problem.characters - 1));
}

}  // namespace lstm
