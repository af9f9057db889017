// json_writer.cpp - see json_writer.hpp.
#include "common/json_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace examples {

JsonWriter::JsonWriter(const std::filesystem::path& file) : file_(file), out_(file, std::ios::binary) {
  if (!out_) throw std::runtime_error(file.string() + ": expected a file that can be written");
  out_ << '{';
}

void JsonWriter::quote(std::string_view text) {
  out_ << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out_ << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out_ << "\\u00" << digits[static_cast<unsigned char>(c) >> 4U]
           << digits[static_cast<unsigned char>(c) & 15U];
    } else {
      out_ << c;
    }
  }
  out_ << '"';
}

void JsonWriter::key(std::string_view key) {
  out_ << (first_ ? "\n" : ",\n");
  first_ = false;
  quote(key);
  out_ << ": ";
}

void JsonWriter::put(double value) {
  if (!std::isfinite(value)) {
    out_ << "null";
    return;
  }
  std::array<char, 32> digits;
  const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out_ << text;
  if (text.find_first_of(".e") == std::string_view::npos) out_ << ".0";
}

void JsonWriter::put(std::int64_t value) { out_ << value; }

template <class T>
void JsonWriter::array(std::string_view name, std::span<const T> values) {
  key(name);
  out_ << '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out_ << ", ";
    put(values[i]);
  }
  out_ << ']';
}

void JsonWriter::text(std::string_view name, std::string_view value) {
  key(name);
  quote(value);
}

void JsonWriter::number(std::string_view name, double value) {
  key(name);
  put(value);
}

void JsonWriter::numbers(std::string_view name, std::span<const double> values) { array(name, values); }

void JsonWriter::integer(std::string_view name, std::int64_t value) {
  key(name);
  put(value);
}

void JsonWriter::integers(std::string_view name, std::span<const std::int64_t> values) {
  array(name, values);
}

void JsonWriter::begin_object(std::string_view name) {
  key(name);
  out_ << '{';
  first_ = true;
}

void JsonWriter::end_object() {
  out_ << '}';
  first_ = false;
}

void JsonWriter::close() {
  out_ << "\n}\n";
  out_.close();
  if (!out_) throw std::runtime_error(file_.string() + ": expected room for the results");
}

}  // namespace examples
