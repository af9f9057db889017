// text_reader.cpp - see text_reader.hpp.
#include "common/text_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace examples {
namespace {

// All of `text` as a T; false when it is not one.
template <class T>
bool parse(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

}  // namespace

TextReader::TextReader(const std::filesystem::path& file, Layout layout) : file_(file), layout_(layout) {
  std::ifstream in(file, std::ios::binary);
  if (!in || !std::filesystem::is_regular_file(file))
    throw std::runtime_error(file.string() + ": expected a file that can be read");
  text_.assign(std::istreambuf_iterator<char>(in), {});
}

void TextReader::fail(const std::string& expected, std::string_view got) const {
  const bool at_end = position_ == text_.size();
  constexpr std::size_t most = 40;
  const std::string what = !got.empty() ? std::string(got.substr(0, most)) + (got.size() > most ? "…" : "")
                           : at_end     ? "the end of the file"
                                        : "the end of the line";
  throw std::runtime_error(file_.string() + ":" + std::to_string(line_) + ": expected " + expected +
                           ", got " + what);
}

std::string_view TextReader::field() {
  const bool colons = layout_ == Layout::colons;
  const auto separates = [colons](char c) {
    return c == ' ' || c == '\t' || c == '\r' || (colons && c == ':');
  };
  for (; position_ < text_.size(); ++position_) {
    if (text_[position_] == '\n') {
      if (colons) return {};
      ++line_;
    } else if (!separates(text_[position_])) {
      break;
    }
  }
  const std::size_t begin = position_;
  while (position_ < text_.size() && text_[position_] != '\n' && !separates(text_[position_])) ++position_;
  return std::string_view(text_).substr(begin, position_ - begin);
}

std::string TextReader::word(const std::string& what) {
  const std::string_view got = field();
  if (got.empty()) fail(what, got);
  return std::string(got);
}

double TextReader::number(const std::string& what) {
  const std::string_view got = field();
  double value = 0;
  if (!parse(got, value) || !std::isfinite(value)) fail(what + ", a number", got);
  return value;
}

std::int64_t TextReader::integer(const std::string& what, std::int64_t least, std::int64_t most) {
  const std::string_view got = field();
  std::int64_t value = 0;
  if (!parse(got, value) || value < least || value > most) {
    fail(what + ", an integer from " + std::to_string(least) + " to " + std::to_string(most), got);
  }
  return value;
}

tidu::Tensor TextReader::numbers(const tidu::Shape& shape, const std::string& what) {
  double count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<double>(extent);
  const std::size_t most = (text_.size() - position_ + 1) / 2;
  if (count > static_cast<double>(most)) {
    throw std::runtime_error(file_.string() + ":" + std::to_string(line_) + ": expected " +
                             std::to_string(static_cast<std::int64_t>(std::min(count, 1e18))) +
                             " numbers for " + what + ", got a file that is too short for them");
  }
  tidu::Tensor tensor(tidu::Type(tidu::f64, shape));
  std::int64_t read = 0;
  for (double& element : tensor.mutable_elements<double>()) {
    const std::string_view got = field();
    ++read;
    if (!parse(got, element) || !std::isfinite(element)) {
      fail("number " + std::to_string(read) + " of " + std::to_string(tensor.size()) + " for " + what, got);
    }
  }
  return tensor;
}

void TextReader::end(const std::string& after) {
  if (const std::string_view got = field(); !got.empty()) fail("the end of the file after " + after, got);
}

bool TextReader::next_record() {
  while (position_ < text_.size()) {
    if (const std::size_t begin = position_; !field().empty()) {
      position_ = begin;
      return true;
    }
    if (position_ < text_.size()) {
      ++position_;
      ++line_;
    }
  }
  return false;
}

void TextReader::end_of_record(const std::string& after) {
  if (const std::string_view got = field(); !got.empty()) fail("the end of the line after " + after, got);
}

}  // namespace examples
