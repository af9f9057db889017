// data.cpp - reading of the table, and its rows as tensors.
#include "data.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace digits {

using tidu::Tensor;
using tidu::Type;

Digits Digits::part(std::size_t first, std::size_t count) const {
  const auto pixel = brightness.begin() + static_cast<std::ptrdiff_t>(first * pixels);
  const auto label = labels.begin() + static_cast<std::ptrdiff_t>(first);
  return {{pixel, pixel + static_cast<std::ptrdiff_t>(count * pixels)},
          {label, label + static_cast<std::ptrdiff_t>(count)}};
}

Digits Digits::without(std::size_t first, std::size_t count) const {
  Digits rest = part(0, first);
  const Digits behind = part(first + count, rows() - first - count);
  rest.brightness.insert(rest.brightness.end(), behind.brightness.begin(), behind.brightness.end());
  rest.labels.insert(rest.labels.end(), behind.labels.begin(), behind.labels.end());
  return rest;
}

Tensor Digits::images(std::span<const std::size_t> rows) const {
  Tensor tensor(Type(tidu::f32, {static_cast<std::int64_t>(rows.size()), pixels}));
  float* to = tensor.mutable_data<float>();
  for (const std::size_t row : rows) to = std::ranges::copy(image(row), to).out;
  return tensor;
}

Tensor Digits::labels_of(std::span<const std::size_t> rows) const {
  Tensor tensor(Type(tidu::i32, {static_cast<std::int64_t>(rows.size())}));
  std::ranges::transform(rows, tensor.mutable_data<std::int32_t>(),
                         [this](std::size_t row) { return labels[row]; });
  return tensor;
}

Digits read_digits(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) throw std::runtime_error(file.string() + ": expected a file that can be read");
  Digits table;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::vector<int> numbers;
    for (std::string field; std::getline(fields, field, ',');) numbers.push_back(std::atoi(field.c_str()));
    if (numbers.size() != pixels + 1 || numbers.back() < 0 || numbers.back() >= classes) {
      throw std::runtime_error(file.string() + ":" + std::to_string(table.rows() + 2) +
                               ": expected 64 brightnesses and a label 0 … 9, got " + line);
    }
    for (std::size_t i = 0; i < pixels; ++i) table.brightness.push_back(static_cast<float>(numbers[i]) / 16);
    table.labels.push_back(numbers.back());
  }
  return table;
}

}  // namespace digits
