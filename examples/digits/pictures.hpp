// pictures.hpp - what was trained, as SVG text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data.hpp"
#include "training.hpp"

namespace digits {

/// A model and what became of each of its seeds.
struct Report {
  std::string name;
  std::vector<Outcome> outcomes;
};

/// The median of the accuracies on the held-out rows.
double median_accuracy(const Report& report);

/// Loss and accuracy by epoch: a thin line for each seed and a thick one for their median.
std::string draw_curves(std::span<const Report> reports);

/// Images of held-out rows with what they were taken for and what they are: a selection that leaves out
/// nothing on purpose, and some that were taken for another digit.
std::string draw_digits(const Digits& digits, const std::string& model, const Outcome& outcome);

}  // namespace digits
