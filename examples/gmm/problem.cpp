// problem.cpp - reading of ADBench's text files and of the reference values.
#include "problem.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace gmm {
namespace {

using tidu::Shape;
using tidu::Tensor;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

std::ifstream open(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail(file, "expected a file that can be read");
  return in;
}

Tensor read_numbers(std::istream& in, const Shape& shape, const std::filesystem::path& file,
                    const char* what) {
  Tensor tensor(tidu::Type(tidu::f64, shape));
  for (double& element : tensor.mutable_elements<double>()) {
    if (!(in >> element))
      fail(file, std::string("expected ") + to_string(tensor.type()) + " of numbers for " + what);
  }
  return tensor;
}

}  // namespace

Problem read_problem(const std::filesystem::path& file) {
  std::ifstream in = open(file);
  Problem p;
  constexpr std::int64_t largest = 100'000'000;
  const auto size = [](std::int64_t n) { return n > 0 && n < largest; };
  if (!(in >> p.D >> p.K >> p.N) || !size(p.D) || !size(p.K) || !size(p.N)) {
    fail(file, "expected positive sizes D, K and N");
  }
  p.alpha = read_numbers(in, {p.K}, file, "alpha");
  p.mu = read_numbers(in, {p.K, p.D}, file, "mu");
  p.icf = read_numbers(in, {p.K, p.D * (p.D + 1) / 2}, file, "icf");
  p.x = read_numbers(in, {p.N, p.D}, file, "x");
  p.gamma = read_numbers(in, {}, file, "gamma");
  p.m = read_numbers(in, {}, file, "m");
  if (std::string more; in >> more) fail(file, "expected its end after m, got " + more);
  return p;
}

Expected read_expected(const std::filesystem::path& file, const Problem& problem) {
  std::ifstream in = open(file);
  try {
    const nlohmann::json values = nlohmann::json::parse(in);
    const nlohmann::json& dims = values.at("dims");
    if (dims.at("d") != problem.D || dims.at("k") != problem.K || dims.at("n") != problem.N) {
      fail(file, "expected values of a problem of the same sizes, got " + dims.dump());
    }
    Expected expected{values.at("objective"), values.at("gradient")};
    const auto size = static_cast<std::size_t>(problem.alpha.size() + problem.mu.size() + problem.icf.size());
    if (expected.gradient.size() != size)
      fail(file, "expected a gradient of " + std::to_string(size) + " numbers");
    return expected;
  } catch (const nlohmann::json::exception& error) {
    fail(file, error.what());
  }
}

}  // namespace gmm
