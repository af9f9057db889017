// reference.cpp - see reference.hpp.
#include "common/reference.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

namespace examples {
namespace {

double apart(double a, double b, double scale) {
  const double distance = std::abs(a - b) / std::max(scale, std::abs(a) + std::abs(b));
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

double worst(std::span<const double> values, std::span<const double> expected, double scale) {
  double all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) all = std::max(all, apart(values[i], expected[i], scale));
  return all;
}

double norm(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

double scale_of(double norm2, std::size_t length) {
  return std::clamp(norm2 / std::sqrt(static_cast<double>(length)), std::numeric_limits<double>::min(), 1.0);
}

}  // namespace

void Reference::fail(const std::string& what) const {
  throw std::runtime_error(file_.string() + ": " + what);
}

Reference::Reference(const std::filesystem::path& file, const Dims& dims) : file_(file) {
  std::ifstream in(file);
  if (!in) fail("expected a file that can be read");
  nlohmann::json values = nlohmann::json::parse(in, nullptr, false);
  if (!values.is_object()) fail("expected a JSON object");
  for (const auto& [name, size] : dims) {
    const auto found = values.find("dims");
    if (found == values.end() || found->value(name, std::int64_t{-1}) != size) {
      fail("expected values of a problem with " + name + " = " + std::to_string(size) + ", got dims " +
           (found == values.end() ? "nowhere" : found->dump()));
    }
  }
  values_ = std::make_shared<const nlohmann::json>(std::move(values));
}

double Reference::distance(const std::string& key, std::span<const double> values) const try {
  if (const auto summary = values_->find(key + "_summary"); !values_->contains(key)) {
    if (summary == values_->end()) fail("expected the key " + key + " or " + key + "_summary");
    return distance_of_summary(*summary, key, values);
  }
  const nlohmann::json& entry = values_->at(key);
  const std::vector<double> expected =
      entry.is_array() ? entry.get<std::vector<double>>() : std::vector{entry.get<double>()};
  if (expected.size() != values.size())
    fail("expected " + std::to_string(values.size()) + " numbers under " + key + ", got " +
         std::to_string(expected.size()));
  return worst(values, expected, scale_of(norm(expected), expected.size()));
} catch (const nlohmann::json::exception& error) {
  fail(error.what());
}

double Reference::distance_of_summary(const nlohmann::json& summary, const std::string& key,
                                      std::span<const double> values) const {
  if (summary.at("length") != values.size())
    fail("expected a summary of " + std::to_string(values.size()) + " numbers under " + key + ", got " +
         summary.at("length").dump());
  const double norm2 = summary.at("norm2"), scale = scale_of(norm2, values.size());
  const auto first = summary.at("first32").get<std::vector<double>>();
  const auto last = summary.at("last32").get<std::vector<double>>();
  if (first.size() > values.size() || last.size() > values.size()) fail("expected shorter ends of " + key);

  double largest = 0, probe = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(values[i]));
    probe += std::sin(static_cast<double>(i + 1)) * values[i];
  }
  const double room = norm2 * std::sqrt(static_cast<double>(values.size()));
  return std::max({worst(values.first(first.size()), first, scale),
                   worst(values.last(last.size()), last, scale), apart(norm(values), norm2, 0),
                   apart(largest, summary.at("max_abs"), 0),
                   1e4 * apart(probe, summary.at("probe_sin"), room)});
}

bool Reference::has_integers(const std::string& key, std::span<const std::int64_t> values) const try {
  using Integers = std::vector<std::int64_t>;
  const nlohmann::json& all = *values_;
  if (all.contains(key)) return std::ranges::equal(values, all.at(key).get<Integers>());
  const auto first = all.at(key + "_first32").get<Integers>();
  return values.size() >= first.size() && std::ranges::equal(values.first(first.size()), first) &&
         (!all.contains(key + "_last") || all.at(key + "_last") == values.back()) &&
         (!all.contains(key + "_sum") ||
          all.at(key + "_sum") == std::accumulate(values.begin(), values.end(), std::int64_t{0}));
} catch (const nlohmann::json::exception& error) {
  fail(error.what());
}

}  // namespace examples
