// lstm.cpp - the D-LSTM: a stack of LSTM layers whose gates have one weight and one bias per unit, which
// reads a text character by character and predicts the next one. The graph of one step is made once, and
// repeated for every character: inlined, or as a call.
#include <array>
#include <string>
#include <tidu/graph/builder.hpp>
#include <tidu/linearize/transforms.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>

#include "common/text_reader.hpp"
#include "problem.hpp"

namespace adbench {
namespace {

using namespace tidu;

constexpr std::size_t num_gates = 4;  // forget, in, out, change

// One layer, with input u, hidden values h, cells s, weights W and biases b:
//   F = sigmoid(u Wf + bf), I = sigmoid(h Wi + bi), O = sigmoid(u Wo + bo), G = tanh(h Wc + bc),
//   s' = s F + I G,  h' = O tanh(s').
// `parameters`: the weights, then the biases. Returns {h', s'}.
std::array<Value, 2> layer(Value u, Value h, Value s, std::span<const Value> parameters) {
  const auto gate = [&parameters](Value x, std::size_t i) {
    return x * parameters[i] + parameters[num_gates + i];
  };
  const Value forget = ops::logistic(gate(u, 0)), in = ops::logistic(gate(h, 1));
  const Value out = ops::logistic(gate(u, 2)), change = ops::tanh(gate(h, 3));
  const Value cells = s * forget + in * change;
  return {out * ops::tanh(cells), cells};
}

// One character. All are f64 [bits]. Inputs: the character, the next one, weights of the input, weights and
// biases of the output, 8 parameters for every layer; then h and s of every layer. Outputs: the next h and s
// of every layer; then the log-likelihood of the next character,
//   sum_j x_j (y_j - log(2 + sum exp y)), y = u weight + bias.
Graph step(std::int64_t layers, std::int64_t bits) {
  GraphBuilder g("step");
  const Type units(f64, {bits});
  const auto input = [&](const std::string& name) { return g.input(name, units); };
  const Value x = input("x"), next = input("next");
  const Value in_weight = input("in_weight"), weight = input("out_weight"), bias = input("out_bias");
  std::vector<Value> parameters, state;
  for (std::int64_t k = 0; k < layers; ++k) {
    for (std::size_t i = 0; i < 2 * num_gates; ++i)
      parameters.push_back(input("layer" + std::to_string(k) + "." + std::to_string(i)));
  }
  for (std::int64_t k = 0; k < layers; ++k) {
    for (const char* name : {"h", "s"}) state.push_back(input(name + std::to_string(k)));
  }

  Value u = x * in_weight;
  std::vector<Value> results;
  for (std::size_t k = 0; k < static_cast<std::size_t>(layers); ++k) {
    const auto [h, s] = layer(u, state[2 * k], state[2 * k + 1],
                              std::span(parameters).subspan(2 * num_gates * k, 2 * num_gates));
    results.insert(results.end(), {h, s});
    u = h;
  }
  const Value y = u * weight + bias;
  const Value sum = ops::reduce_sum(ops::exp(y), {0});
  const Value log_sum = ops::log(ops::full_like(sum, 2) + sum);
  results.push_back(ops::reduce_sum(next * (y - ops::broadcast_scalar(log_sum, {bits})), {0}));
  return g.build(results);
}

// The rows of x [..., bits], each [bits].
std::vector<Value> rows(Value x) {
  const std::int64_t bits = x.type().shape().back(), count = x.type().size() / bits;
  const Value flat = ops::reshape(x, {count, bits});
  std::vector<Value> all;
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back(ops::reshape(ops::slice(flat, {i, 0}, {i + 1, bits}), {bits}));
  return all;
}

// Inputs: main [layers,2,4,bits], extra [3,bits], state [layers,2,bits], sequence [characters,bits]. Output:
// the mean of -log-likelihood over characters and bits.
Graph loss(std::int64_t layers, std::int64_t characters, std::int64_t bits, LstmForm form) {
  GraphBuilder g("lstm");
  const std::vector<Value> main = rows(g.input("main", {f64, {layers, 2, num_gates, bits}}));
  const std::vector<Value> extra = rows(g.input("extra", {f64, {3, bits}}));
  std::vector<Value> state = rows(g.input("state", {f64, {layers, 2, bits}}));
  const std::vector<Value> sequence = rows(g.input("sequence", {f64, {characters, bits}}));

  const Graph one = step(layers, bits);
  std::optional<Value> total;
  for (std::size_t t = 0; t + 1 < sequence.size(); ++t) {
    std::vector<Value> operands{sequence[t], sequence[t + 1]};
    for (const std::vector<Value>& part : {extra, main, state})
      operands.insert(operands.end(), part.begin(), part.end());
    if (form == LstmForm::call) {
      const Values results = ops::call(one, operands);
      state.assign(results.begin(), results.end());
    } else {
      const std::vector<Value> values = inline_graph(g, one, operands);
      state.clear();
      for (const ValueId id : one.outputs()) state.push_back(values[id]);
    }
    total = total ? *total + state.back() : state.back();
    state.pop_back();
  }
  const double count = static_cast<double>(bits) * static_cast<double>(characters - 1);
  return g.build({-*total / ops::full(g, f64, count)});
}

}  // namespace

Problem read_lstm(const std::filesystem::path& file, LstmForm form) {
  examples::TextReader in(file);
  constexpr std::int64_t most = 1'000'000;
  const std::int64_t layers = in.integer("the number of layers", 1, 1'000);
  const std::int64_t characters = in.integer("the number of characters", 2, most);
  const std::int64_t bits = in.integer("the number of bits of a character", 1, most);
  std::vector<Tensor> inputs;
  inputs.push_back(in.numbers({layers, 2, num_gates, bits}, "the gates' parameters"));
  inputs.push_back(in.numbers({3, bits}, "the parameters of input and output"));
  inputs.push_back(in.numbers({layers, 2, bits}, "the state"));
  inputs.push_back(in.numbers({characters, bits}, "the characters"));
  in.end("the characters");

  const Graph objective = loss(layers, characters, bits, form);
  return {.name = "LSTM",
          .dims = {{"l", layers}, {"c", characters}, {"b", bits}},
          .objective = objective,
          .derivative = grad(objective, {"main", "extra"}),
          .inputs = inputs,
          .key = "gradient"};
}

}  // namespace adbench
