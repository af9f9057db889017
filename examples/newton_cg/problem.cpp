// problem.cpp - the rows and the loss.
#include "problem.hpp"

#include <vector>

namespace newton {

using tidu::Array;

Pairs::Pairs(const digits::Digits& table, std::int32_t positive, std::int32_t negative) {
  std::vector<double> elements;
  std::int64_t count = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.labels[row] != positive && table.labels[row] != negative) continue;
    const double sign = table.labels[row] == positive ? 1 : -1;
    for (const float brightness : table.image(row)) elements.push_back(sign * brightness);
    elements.push_back(sign);
    ++count;
  }
  rows = tidu::array(elements, {count, digits::pixels + 1});
}

Array logistic_loss(const Pairs& pairs, const Array& w, double lambda) {
  return mean(softplus(-matmul(pairs.rows, w))) + 0.5 * lambda * dot(w, w);
}

double accuracy(const Pairs& pairs, const Array& w) {
  return mean(astype(matmul(pairs.rows, w) > 0, tidu::f64)).item();
}

}  // namespace newton
