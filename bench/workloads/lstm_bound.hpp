// lstm_bound.hpp - ADBench's D-LSTM and its gradient written by hand: the bound for tidu's.
#pragma once

#include <cstdint>

namespace workloads {

/// Rows of `lstm_width` numbers: of the bits of a character, and zeros.
constexpr std::int64_t lstm_width = 16;

/// Sizes and memory, which is the caller's. `layers` is at most 8.
struct LstmByHand {
  std::int64_t layers, steps, bits;
  const double* main;      ///< [layers, 2, 4] rows
  const double* extra;     ///< [3] rows; the padding of the last is far below zero
  const double* state;     ///< [layers, 2] rows
  const double* sequence;  ///< [steps + 1] rows
  double* kept;            ///< [steps + 1, layers, 7] rows
  double* outputs;         ///< [steps] rows
  double* main_gradient;   ///< as main
  double* extra_gradient;  ///< as extra
};

/// The loss, and its gradients with `derivative`. Compiled for AVX2 and FMA if the compiler has them: the
/// caller has to check the processor.
double lstm_by_hand(const LstmByHand& p, bool derivative);

}  // namespace workloads
