// reference.hpp - Reference: known values for a problem of ADBench, and the distance of others from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// Named sizes of a problem.
using Dims = std::vector<std::pair<std::string, std::int64_t>>;

/// The distance up to which two values agree.
constexpr double tolerance = 1e-8;

/// Reads a JSON object with `dims` and, by key, whole arrays (or, for a scalar, one number), or "KEY_summary"
/// of an array: length, norm2, max_abs, first32, last32, probe_sin = sum_i sin(i + 1) v_i. Failures are
/// std::runtime_errors that name the file.
class Reference {
 public:
  /// Throws unless the file holds values of a problem of these sizes.
  Reference(const std::filesystem::path& file, const Dims& dims);

  /// The largest |a - b| / max(s, |a| + |b|) over all entries, where s = min(1, root mean square of the
  /// reference); infinite if an entry is NaN. ADBench's own measure has s = 1. With a summary alone, the same
  /// for the entries in it, and relative distances of norm2 and max_abs; a probe_sin that is off by 1e-12
  /// norm2 sqrt(length) counts 1e-8. Throws when there is neither, or another number of entries.
  double distance(const std::string& key, std::span<const double> values) const;
  /// Are these the integers under `key`, or do they begin with "KEY_first32" and agree with "KEY_last" and
  /// "KEY_sum", as far as there are such?
  bool has_integers(const std::string& key, std::span<const std::int64_t> values) const;

 private:
  double distance_of_summary(const nlohmann::json& summary, const std::string& key,
                             std::span<const double> values) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path file_;
  std::shared_ptr<const nlohmann::json> values_;
};

}  // namespace examples
