// model.hpp - ADBench's D-LSTM: a stack of LSTM layers whose gates have one weight and one bias per unit,
// which reads a text character by character and predicts the next one.
#pragma once

#include <tidu/tidu.hpp>

#include "problem.hpp"

namespace lstm {

/// The loss, a scalar. For every character x_t but the last, with u = x_t * in_weight, each layer computes
///
///   F = sigmoid(u Wf + bf), I = sigmoid(h Wi + bi), O = sigmoid(u Wo + bo), G = tanh(h Wc + bc),
///   s <- s F + I G,  h <- O tanh(s),  u <- h,
///
/// all of it element by element; then y_t = u out_weight + out_bias. The loss is the mean over t and bits of
/// -x_{t+1} (y_t - log(2 + sum exp(y_t))), the 2 being ADBench's. `main` and `extra` are laid out as in
/// Problem.
tidu::Array loss(const tidu::Array& main, const tidu::Array& extra, const Problem& problem);

}  // namespace lstm
