// problem.hpp - one instance of the D-LSTM in ADBench's text format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <tidu/tidu.hpp>
#include <vector>

#include "common/reference.hpp"

namespace lstm {

/// Sizes and inputs. All Arrays are f64.
struct Problem {
  std::int64_t layers = 0, characters = 0, bits = 0;
  tidu::Array main;   ///< [layers, 2, 4, bits]: weights and biases of the gates
  tidu::Array extra;  ///< [3, bits]: weights of the input, weights and biases of the output
  tidu::Array state;  ///< [layers, 2, bits]: hidden values and cells before the first character
  std::vector<tidu::Array> sequence;  ///< `characters` of [bits], zeros and ones

  /// As reference values name them.
  examples::Dims dims() const { return {{"l", layers}, {"c", characters}, {"b", bits}}; }
};

/// Reads a file of numbers: layers, characters, bits; main; extra; state; the sequence. Throws
/// std::runtime_error, naming file and line, when it cannot be read or has too few or too many numbers.
Problem read_problem(const std::filesystem::path& file);

}  // namespace lstm
