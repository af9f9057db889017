// json_tape.cpp - filling the tape from nlohmann's event parser, which keeps no stack of its own but one bit
// a level.
#include "graph/json_tape.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tidu/graph/error.hpp"
#include "tidu/graph/literal_json.hpp"

namespace tidu::detail {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorKind::dump, message); }

constexpr std::string_view kind_name(JsonTape::Kind kind) {
  constexpr std::string_view names[] = {
      "null",     "true or false", "an integer", "an integer beyond 64 bits",
      "a number", "a string",      "an array",   "an object"};
  return names[static_cast<std::size_t>(kind)];
}

// The f32 nearest to the number in `token`, which was read as `value`. If `value` lies midway between two f32
// numbers, it may have been rounded to the middle, and rounding it again could go to the wrong side:
// 7.038531e-26 is such a number.
float nearest_float(double value, const std::string& token) {
  const auto rounded = static_cast<float>(value);
  const double error = value - static_cast<double>(rounded);
  if (error == 0) return rounded;
  const float other = std::nextafter(rounded, error > 0 ? INFINITY : -INFINITY);
  if (static_cast<double>(other) - value != error) return rounded;
  float read = rounded;
  std::from_chars(token.data(), token.data() + token.size(), read);
  return read;
}

// That `said` is wrong with the byte at `at`.
std::string not_json(std::string_view text, std::size_t at, std::string_view said) {
  constexpr std::size_t longest = 200;
  const std::string_view before = text.substr(0, std::min(at, text.size()));
  const std::size_t line = before.rfind('\n');
  return str("expected JSON, got something else in line ", 1 + std::count(before.begin(), before.end(), '\n'),
             ", column ", line == std::string_view::npos ? before.size() + 1 : before.size() - line, ": ",
             printable(said, longest));
}

}  // namespace

struct JsonTape::Handler {
  JsonTape& tape;
  std::string_view text;
  std::vector<Index> open;
  std::string error;

  bool add(Kind kind, std::uint64_t bits, std::uint32_t count = 0) {
    if (!open.empty() && tape.kind(open.back()) == Kind::array) ++tape.nodes_[open.back()].count;
    tape.nodes_.push_back(Node{bits, count, kind});
    return true;
  }
  bool add_string(const std::string& value, bool is_key) {
    if (is_key) ++tape.nodes_[open.back()].count;
    const std::uint64_t offset = tape.strings_.size();
    tape.strings_ += value;
    const auto size = static_cast<std::uint32_t>(value.size());
    if (!is_key) return add(Kind::string, offset, size);
    tape.nodes_.push_back(Node{offset, size, Kind::string});
    return true;
  }
  bool start(Kind kind) {
    if (open.size() == deepest) {
      error = str("expected JSON nested at most ", deepest, " levels deep, got more");
      return false;
    }
    add(kind, 0);
    open.push_back(static_cast<Index>(tape.nodes_.size() - 1));
    return true;
  }
  bool end() {
    tape.nodes_[open.back()].bits = tape.nodes_.size();
    open.pop_back();
    return true;
  }

  // nlohmann's events
  bool null() { return add(Kind::null, 0); }
  bool boolean(bool value) { return add(Kind::boolean, value ? 1 : 0); }
  bool number_integer(std::int64_t value) {  // one with a minus
    return add(Kind::integer, static_cast<std::uint64_t>(value), value == 0 ? negative_zero : 0);
  }
  bool number_unsigned(std::uint64_t value) {
    const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return add(fits ? Kind::integer : Kind::large_integer, value);
  }
  bool number_float(double value, const std::string& token) {
    return add(Kind::number, std::bit_cast<std::uint64_t>(value),
               std::bit_cast<std::uint32_t>(nearest_float(value, token)));
  }
  bool string(const std::string& value) { return add_string(value, false); }
  bool binary(const std::vector<std::uint8_t>&) { return false; }  // JSON text has none
  bool key(const std::string& value) { return add_string(value, true); }
  bool start_object(std::size_t) { return start(Kind::object); }
  bool start_array(std::size_t) { return start(Kind::array); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& exception) {
    std::string_view said = exception.what();
    for (const std::string_view before :
         {"] ", ": "}) {  // "[json.exception...] parse error at line 1, column 2: what"
      const std::size_t at = said.find(before);
      if (at != std::string_view::npos) said.remove_prefix(at + before.size());
      if (said.substr(0, 11) != "parse error") break;
    }
    error = not_json(text, position == 0 ? 0 : position - 1, said);
    return false;
  }
};

JsonTape::JsonTape(std::string_view text) {
  if (text.size() >= std::numeric_limits<std::uint32_t>::max()) {
    fail(str("expected JSON text of fewer than 2^32 - 1 bytes, got ", text.size()));
  }
  Handler handler{*this, text, {}, {}};
  if (!nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &handler)) fail(handler.error);
  // nlohmann's parser takes a NUL byte that is in no string for the end of the text.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
    fail(not_json(text, at, "a NUL byte"));
}

void JsonTape::expect(Index i, Kind wanted, std::string_view what) const {
  if (kind(i) != wanted) fail(str("expected ", what, " to be ", kind_name(wanted), ", got ", shown(i)));
}

std::string_view JsonTape::expect_string(Index i, std::string_view what) const {
  expect(i, Kind::string, what);
  return string(i);
}

std::int64_t JsonTape::expect_integer(Index i, std::string_view what) const {
  expect(i, Kind::integer, what);
  return integer(i);
}

bool JsonTape::expect_boolean(Index i, std::string_view what) const {
  expect(i, Kind::boolean, what);
  return boolean(i);
}

void JsonTape::members(Index i, std::span<const std::string_view> names, std::span<Index> values,
                       std::string_view what) const {
  expect(i, Kind::object, what);
  std::fill(values.begin(), values.end(), 0);
  for (Index at = first(i); at != end(i); at = next(at + 1)) {
    const std::string_view name = string(at);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) fail(str("unknown member ", shortened(name), " of ", what));
    Index& value = values[static_cast<std::size_t>(found - names.begin())];
    if (value != 0) fail(str("member ", in_quotes(name), " of ", what, " is given twice"));
    value = at + 1;
  }
}

std::string JsonTape::shown(Index i) const {
  switch (kind(i)) {
    case Kind::string: return shortened(string(i));
    case Kind::integer: return str(integer(i));
    case Kind::large_integer: return str(nodes_[i].bits);
    case Kind::number: {
      std::string text;
      append_json_element(text, DType::f64, reinterpret_cast<const std::byte*>(&nodes_[i].bits));
      return text;
    }
    case Kind::boolean: return boolean(i) ? "true" : "false";
    default: return std::string(kind_name(kind(i)));
  }
}

double JsonTape::as_double(Index i) const {
  switch (kind(i)) {
    case Kind::integer: return nodes_[i].count == negative_zero ? -0.0 : static_cast<double>(integer(i));
    case Kind::large_integer: return static_cast<double>(nodes_[i].bits);
    default: return std::bit_cast<double>(nodes_[i].bits);
  }
}

float JsonTape::as_float(Index i) const {
  switch (kind(i)) {
    case Kind::integer: return nodes_[i].count == negative_zero ? -0.0F : static_cast<float>(integer(i));
    case Kind::large_integer: return static_cast<float>(nodes_[i].bits);
    default: return std::bit_cast<float>(nodes_[i].count);
  }
}

}  // namespace tidu::detail
