// error.cpp - the text of messages, user text in it, and exceptions of users' own types in a Result.
#include "tidu/graph/error.hpp"

#include <algorithm>
#include <exception>
#include <tuple>
#include <typeinfo>

namespace tidu::detail {
namespace {

// An error of a type that does not copy itself: holds the exception.
class HeldError final : public Error {
 public:
  HeldError(const Error& error, std::exception_ptr thrown)
      : Error(error.kind(), error.what()), thrown_(std::move(thrown)) {}
  std::shared_ptr<Error> with_message(const std::string&) const override { return clone(); }
  std::shared_ptr<Error> clone() const override { return std::make_shared<HeldError>(*this); }
  [[noreturn]] void raise() const override { std::rethrow_exception(thrown_); }

 private:
  std::exception_ptr thrown_;
};

// A lead byte's range, the length of its characters, and the range of the second byte: Table 3-7 of the
// Unicode standard, without overlong forms, surrogates and numbers beyond U+10FFFF.
struct Utf8Row {
  unsigned char first, last, length, least, greatest;
};
constexpr Utf8Row utf8_rows[] = {
    {0x00, 0x7f, 1, 0x80, 0xbf}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f}};

// Length of the character with which the text begins; 0 where that is none.
std::size_t utf8_length(std::string_view text) {
  const auto within = [](char c, unsigned char least, unsigned char greatest) {
    return least <= static_cast<unsigned char>(c) && static_cast<unsigned char>(c) <= greatest;
  };
  for (const Utf8Row& row : utf8_rows) {
    if (!within(text[0], row.first, row.last)) continue;
    bool whole = text.size() >= row.length && (row.length == 1 || within(text[1], row.least, row.greatest));
    for (std::size_t i = 2; whole && i < row.length; ++i) whole = within(text[i], 0x80, 0xbf);
    return whole ? row.length : 0;
  }
  return 0;
}

void append_escape(std::string& out, std::string_view prefix, unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += prefix;
  out += digits[byte >> 4U];
  out += digits[byte & 15U];
}

// Appends one character, or one byte that is not UTF-8.
void append_printable(std::string& out, std::string_view character, bool quotes) {
  const char c = character[0];
  const auto lead = static_cast<unsigned char>(c), last = static_cast<unsigned char>(character.back());
  if (character.size() == 1 && lead >= 0x80) {
    append_escape(out, "\\x", lead);
  } else if (c == '\n' || c == '\t') {
    out += c == '\n' ? "\\n" : "\\t";
  } else if (lead < 0x20 || lead == 0x7f || (lead == 0xc2 && last < 0xa0)) {  // U+0080 is c2 80
    append_escape(out, "\\u00", last);
  } else {
    if (quotes && (c == '"' || c == '\\')) out += '\\';
    out += character;
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& to, const Printable& printable) {
  const auto [text, longest, quotes] = std::tie(printable.text_, printable.longest_, printable.quotes_);
  std::string out;
  std::size_t at = 0;
  for (std::size_t length = 0; at < text.size(); at += length) {
    length = std::max(utf8_length(text.substr(at)), std::size_t{1});
    if (at + length > longest) break;
    append_printable(out, text.substr(at, length), quotes);
  }
  const char* const mark = quotes ? "\"" : "";
  return to << mark << out << (at < text.size() ? "..." : "") << mark;
}

std::shared_ptr<const Error> held_error(const Error& error) {
  std::shared_ptr<const Error> copy = error.clone();
  const Error& made = *copy;
  if (typeid(made) != typeid(error)) return std::make_shared<HeldError>(error, std::current_exception());
  return copy;
}

void raise_held(const Error* error) {
  if (error) error->raise();
  throw Error(ErrorKind::internal, "Result: expected a value or an error, got neither");
}

void TextPart::write_text(std::ostream& to, const void* text) { to << static_cast<const char*>(text); }

std::string text_of(std::initializer_list<TextPart> parts) {
  std::ostringstream out;
  for (const TextPart& part : parts) part.write(out);
  return std::move(out).str();
}

}  // namespace tidu::detail
