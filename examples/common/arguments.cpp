// arguments.cpp - see arguments.hpp.
#include "common/arguments.hpp"

#include <charconv>
#include <sstream>
#include <stdexcept>

namespace examples {

Arguments::Arguments(int argc, char** argv, const std::set<std::string>& options,
                     const std::set<std::string>& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      words_.push_back(word);
      continue;
    }
    std::string value;
    if (options.contains(word)) {
      if (++i == argc) throw std::runtime_error("expected a value after " + word);
      value = argv[i];
    } else if (!flags.contains(word)) {
      throw std::runtime_error("unknown option " + word);
    }
    if (!values_.emplace(word, value).second) throw std::runtime_error("expected " + word + " once");
  }
}

std::string Arguments::text(const std::string& option, const std::string& otherwise) const {
  const auto found = values_.find(option);
  return found == values_.end() ? otherwise : found->second;
}

std::string Arguments::one_of(const std::string& option, const std::vector<std::string>& allowed) const {
  std::string value = text(option, allowed.front());
  std::string all;
  for (const std::string& word : allowed) {
    if (word == value) return value;
    all += (all.empty() ? "" : " or ") + word;
  }
  throw std::runtime_error(option + ": expected " + all + ", got " + value);
}

std::int64_t Arguments::integer(const std::string& option, std::int64_t otherwise, std::int64_t least,
                                std::int64_t most) const {
  if (!has(option)) return otherwise;
  const std::string value = text(option);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most) {
    throw std::runtime_error(option + ": expected an integer from " + std::to_string(least) + " to " +
                             std::to_string(most) + ", got " + value);
  }
  return number;
}

double Arguments::number(const std::string& option, double otherwise, double least, double most) const {
  if (!has(option)) return otherwise;
  const std::string value = text(option);
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !(number >= least && number <= most)) {
    std::ostringstream range;
    range << "a number from " << least << " to " << most;
    throw std::runtime_error(option + ": expected " + range.str() + ", got " + value);
  }
  return number;
}

}  // namespace examples
