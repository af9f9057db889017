// problem.hpp - two kinds of digits to be distinguished by a linear function: logistic regression.
#pragma once

#include <cstdint>
#include <tidu/tidu.hpp>

#include "digits/data.hpp"

namespace newton {

/// Images of two digits, with sign: row i is y_i (x_i, 1), where x_i are the 64 pixels and y_i is 1 for
/// `positive` and -1 for `negative`.
struct Pairs {
  tidu::Array rows;  ///< f64 [n, 65]
  Pairs(const digits::Digits& table, std::int32_t positive, std::int32_t negative);
};

/// mean_i log(1 + exp(-row_i . w)) + lambda/2 |w|^2: convex, its Hessian between lambda and its value at 0.
tidu::Array logistic_loss(const Pairs& pairs, const tidu::Array& w, double lambda);

/// The part of the rows that w puts on the right side.
double accuracy(const Pairs& pairs, const tidu::Array& w);

}  // namespace newton
