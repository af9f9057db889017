// data.cpp - reading of the table, and its rows as tensors.
#include "data.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
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

namespace {

// The integers between the commas of a line; none where one of them is not one.
std::vector<int> integers(const std::string& line) {
  std::vector<int> numbers;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (true) {
    const auto [behind, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc() || (behind != end && *behind != ',')) return {};
    if (behind == end) return numbers;
    at = behind + 1;
  }
}

}  // namespace

Digits read_digits(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) throw std::runtime_error(file.string() + ": expected a file that can be read");
  Digits table;
  while (std::getline(in, line)) {
    const std::vector<int> numbers = integers(line);
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
