// model.hpp - ADBench's D-LSTM: a stack of LSTM layers whose gates have one weight and one bias per unit,
// which reads a text character by character and predicts the next one.
#pragma once

#include <array>
#include <functional>
#include <tidu/tidu.hpp>
#include <utility>

#include "problem.hpp"

namespace lstm {

/// For the forget, in, out and change gates, f64 [bits] each.
using Gates = std::array<tidu::Array, 4>;

/// One layer and one character: from the layer's parameters, its input u and its state, hidden values h and
/// cells s, the next state,
///
///   F = sigmoid(u Wf + bf), I = sigmoid(h Wi + bi), O = sigmoid(u Wo + bo), G = tanh(h Wc + bc),
///   s' = s F + I G,  h' = O tanh(s'),
///
/// all of it element by element. Returns (h', s').
std::pair<tidu::Array, tidu::Array> next_state(const Gates& weights, const Gates& biases,
                                               const tidu::Array& u, const tidu::Array& h,
                                               const tidu::Array& s);

/// The log-likelihood of the next character by ADBench's measure, sum_j x_j (y_j - log(2 + sum exp(y))),
/// where y = u weight + bias.
tidu::Array log_likelihood(const tidu::Array& u, const tidu::Array& weight, const tidu::Array& bias,
                           const tidu::Array& x);

class Model {
 public:
  /// `compiled`: the two functions above are traced once and then run and recorded as one operation each,
  /// instead of one for each of theirs.
  explicit Model(bool compiled);
  /// The mean of -log_likelihood over characters and bits. `main` and `extra` are laid out as in Problem.
  tidu::Array loss(const tidu::Array& main, const tidu::Array& extra, const Problem& problem) const;

 private:
  std::function<decltype(next_state)> next_state_;
  std::function<decltype(log_likelihood)> log_likelihood_;
};

}  // namespace lstm
