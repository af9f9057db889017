// problem.hpp - one instance of the D-LSTM in ADBench's text format, and the values that are known for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <tidu/tidu.hpp>
#include <vector>

namespace lstm {

/// Sizes and inputs. All Arrays are f64.
struct Problem {
  std::int64_t layers = 0, characters = 0, bits = 0;
  tidu::Array main;   ///< [layers, 2, 4, bits]: weights and biases of the gates
  tidu::Array extra;  ///< [3, bits]: weights of the input, weights and biases of the output
  tidu::Array state;  ///< [layers, 2, bits]: hidden values and cells before the first character
  std::vector<tidu::Array> sequence;  ///< `characters` of [bits], zeros and ones
};

/// Reads a file of numbers: layers, characters, bits; main; extra; state; the sequence. Throws
/// std::runtime_error, naming the file, when it cannot be read, has too few or too many numbers, or sizes
/// that no memory holds.
Problem read_problem(const std::filesystem::path& file);

/// Objective and gradient by main and extra, one after another, as ADBench's own module computes them.
struct Expected {
  double objective = 0;
  std::vector<double> gradient;
};

/// Reads reference values (JSON, keys dims, objective, gradient). Throws std::runtime_error when they are not
/// those of a problem of these sizes.
Expected read_expected(const std::filesystem::path& file, const Problem& problem);

}  // namespace lstm
