// arguments.hpp - the arguments of an example: words, options with a value, flags.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace examples {

class Arguments {
 public:
  /// Reads `--option VALUE` for the names in `options` and `--flag` for those in `flags`. Throws
  /// std::runtime_error for another word that begins with "--", a missing value, or an option given twice.
  Arguments(int argc, char** argv, const std::set<std::string>& options,
            const std::set<std::string>& flags = {});

  /// The words that are neither option nor flag, in order.
  const std::vector<std::string>& words() const { return words_; }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& option, const std::string& otherwise = {}) const;
  /// Throws std::runtime_error unless the value is one of `allowed`, the first of which is the default.
  std::string one_of(const std::string& option, const std::vector<std::string>& allowed) const;
  /// Throws std::runtime_error unless the value is an integer from `least` to `most`.
  std::int64_t integer(const std::string& option, std::int64_t otherwise, std::int64_t least,
                       std::int64_t most) const;
  /// Throws std::runtime_error unless the value is a number from `least` to `most`.
  double number(const std::string& option, double otherwise, double least, double most) const;

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::string> values_;
};

}  // namespace examples
