// pictures.hpp - the results of training as SVG text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data.hpp"
#include "training.hpp"

namespace digits {

/// A model and the result of each of its seeds.
struct Report {
  std::string name;
  std::vector<Outcome> outcomes;
};

/// The median of the accuracies on the held-out rows.
double median_accuracy(const Report& report);

/// Loss and accuracy by epoch: a thin line for each seed and a thick one for their median.
std::string draw_curves(std::span<const Report> reports);

/// Images of held-out rows with predicted and true digits: a selection without a bias, and some that were
/// predicted wrong.
std::string draw_digits(const Digits& digits, const std::string& model, const Outcome& outcome);

}  // namespace digits
