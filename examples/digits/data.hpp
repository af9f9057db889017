// data.hpp - the images of handwritten digits and their labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <tidu/tensor/tensor.hpp>
#include <vector>

namespace digits {

inline constexpr std::int64_t side = 8, pixels = side * side, classes = 10;

/// Rows of one table, in its order: `rows() * pixels` brightnesses in [0, 1] and `rows()` labels in [0, 10).
struct Digits {
  std::vector<float> brightness;
  std::vector<std::int32_t> labels;

  std::size_t rows() const { return labels.size(); }
  std::span<const float> image(std::size_t row) const {
    return std::span(brightness).subspan(row * pixels, pixels);
  }
  /// Rows first … first + count.
  Digits part(std::size_t first, std::size_t count) const;
  /// All rows but those.
  Digits without(std::size_t first, std::size_t count) const;
  /// The rows of that index, as the inputs of a model: f32 [n, 64] and i32 [n].
  tidu::Tensor images(std::span<const std::size_t> rows) const;
  tidu::Tensor labels_of(std::span<const std::size_t> rows) const;
};

/// Reads a CSV file of one head line and lines of 64 integers 0 … 16 and a label. Throws std::runtime_error,
/// naming file and line.
Digits read_digits(const std::filesystem::path& file);

}  // namespace digits
