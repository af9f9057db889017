// problem.cpp - reading of ADBench's text files and of the reference values.
#include "problem.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace lstm {
namespace {

using tidu::Array;
using tidu::Shape;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

std::ifstream open(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail(file, "expected a file that can be read");
  return in;
}

Array read_numbers(std::istream& in, const Shape& shape, const std::filesystem::path& file,
                   const char* what) {
  tidu::Tensor tensor(tidu::Type(tidu::f64, shape));
  for (double& element : tensor.mutable_elements<double>()) {
    if (!(in >> element))
      fail(file, std::string("expected ") + to_string(tensor.type()) + " of numbers for " + what);
  }
  return Array(tensor);
}

}  // namespace

Problem read_problem(const std::filesystem::path& file) {
  std::ifstream in = open(file);
  Problem p;
  constexpr std::int64_t largest = 1'000'000;
  const auto size = [](std::int64_t n) { return n > 0 && n < largest; };
  if (!(in >> p.layers >> p.characters >> p.bits) || !size(p.layers) || !size(p.characters) ||
      !size(p.bits) || p.characters < 2) {
    fail(file, "expected positive numbers of layers, characters (at least 2) and bits");
  }
  p.main = read_numbers(in, {p.layers, 2, 4, p.bits}, file, "main");
  p.extra = read_numbers(in, {3, p.bits}, file, "extra");
  p.state = read_numbers(in, {p.layers, 2, p.bits}, file, "state");
  for (std::int64_t t = 0; t < p.characters; ++t)
    p.sequence.push_back(read_numbers(in, {p.bits}, file, "a character"));
  if (std::string more; in >> more) fail(file, "expected its end after the sequence, got " + more);
  return p;
}

Expected read_expected(const std::filesystem::path& file, const Problem& problem) {
  std::ifstream in = open(file);
  try {
    const nlohmann::json values = nlohmann::json::parse(in);
    const nlohmann::json& dims = values.at("dims");
    if (dims.at("l") != problem.layers || dims.at("c") != problem.characters ||
        dims.at("b") != problem.bits) {
      fail(file, "expected values of a problem of the same sizes, got " + dims.dump());
    }
    Expected expected{values.at("objective"), values.at("gradient")};
    const auto size = static_cast<std::size_t>(problem.main.size() + problem.extra.size());
    if (expected.gradient.size() != size)
      fail(file, "expected a gradient of " + std::to_string(size) + " numbers");
    return expected;
  } catch (const nlohmann::json::exception& error) {
    fail(file, error.what());
  }
}

}  // namespace lstm
