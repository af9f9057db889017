// model.cpp - the network as a person would write it: a loop over the characters, a loop over the layers.
#include "model.hpp"

#include <vector>

namespace lstm {
namespace {

using tidu::Array;

struct Gate {
  Array weight, bias;
  Array operator()(const Array& x) const { return x * weight + bias; }
};

struct Layer {
  Gate forget, in, out, change;
  Array hidden, cell;

  // Parameters [2, 4, bits], state [2, bits].
  Layer(const Array& parameters, const Array& state) : hidden(state[0]), cell(state[1]) {
    const Array weights = parameters[0], biases = parameters[1];
    Gate* const gates[] = {&forget, &in, &out, &change};
    for (int g = 0; g < 4; ++g) *gates[g] = {weights[g], biases[g]};
  }

  // Moves on by one character; returns what the next layer reads.
  Array step(const Array& input) {
    cell = cell * sigmoid(forget(input)) + sigmoid(in(hidden)) * tanh(change(hidden));
    hidden = sigmoid(out(input)) * tanh(cell);
    return hidden;
  }
};

}  // namespace

Array loss(const Array& main, const Array& extra, const Problem& problem) {
  std::vector<Layer> layers;
  for (std::int64_t k = 0; k < problem.layers; ++k) layers.emplace_back(main[k], problem.state[k]);
  const Array in_weight = extra[0];
  const Gate output{extra[1], extra[2]};

  Array total = 0.0;
  for (std::size_t t = 0; t + 1 < problem.sequence.size(); ++t) {
    Array u = problem.sequence[t] * in_weight;
    for (Layer& layer : layers) u = layer.step(u);
    const Array y = output(u);
    const Array log_likelihood = y - log(2 + sum(exp(y)));
    total += sum(problem.sequence[t + 1] * log_likelihood);
  }
  return -total / (problem.bits * (problem.characters - 1));
}

}  // namespace lstm
