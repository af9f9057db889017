// Properties of every message, whatever input it quotes; and input that violates them if it is quoted
// unchanged. The decoder here computes code points, so that it shares nothing with the library's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidu::test {

/// A code point as UTF-8, also one that has none by the standard, such as a surrogate.
inline std::string utf8(std::uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  const std::size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::array<std::uint32_t, 4> marks{0, 0xc0, 0xe0, 0xf0};
  std::string text{static_cast<char>(marks[more] | code >> (6 * more))};
  for (std::size_t i = more; i-- > 0;) text += static_cast<char>(0x80U | (code >> (6 * i) & 0x3fU));
  return text;
}

constexpr bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }
constexpr bool is_surrogate(std::uint32_t code) { return code >= 0xd800 && code < 0xe000; }

/// Takes the first code point off the text; nothing where the text does not begin with valid UTF-8.
inline std::optional<std::uint32_t> take_code_point(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  if ((lead & 0xc0U) == 0x80U || lead >= 0xf8 || text.size() <= more) return std::nullopt;
  std::uint32_t code = more == 0 ? lead : lead & (0x3fU >> more);
  for (std::size_t i = 1; i <= more; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U) return std::nullopt;
    code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 4> least{0, 0x80, 0x800, 0x10000};
  if (code < least[more] || is_surrogate(code) || code > 0x10ffff) return std::nullopt;
  text.remove_prefix(more + 1);
  return code;
}

/// Is a message UTF-8 without control characters, except for its own line breaks, which two spaces follow or,
/// in a marked excerpt, "> "?
inline bool is_printable(std::string_view message) {
  while (!message.empty()) {
    const std::optional<std::uint32_t> code = take_code_point(message);
    if (!code) return false;
    const bool breaks_line = *code == '\n' && (message.starts_with("  ") || message.starts_with("> "));
    if (is_control(*code) && !breaks_line) return false;
  }
  return true;
}

/// Characters of every length, control characters of either kind, and bytes that are not UTF-8.
inline const std::vector<std::string>& awkward_pieces() {
  using namespace std::string_literals;
  static const std::vector<std::string> all{
      "é"s, "€"s, "😀"s, "\n"s, "\t"s, "\r\n"s, "\0"s, "\x1b[2J"s, "\x7f"s, "\xc2\x85"s, "\xc2\x9b"s, "\\\""s,
      // overlong, a surrogate, beyond U+10FFFF, cut, a continuation alone, never in UTF-8
      "\xc0\xaf"s, "\xe0\x80\xaf"s, "\xf0\x80\x80\xaf"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s, "\xe2\x82"s,
      "\xf0\x9f\x98"s, "\x80"s, "\xfe\xff"s};
  return all;
}

/// Each of the pieces, eight times behind `least` to `most` letters: a cut within that many bytes and some
/// more falls at every offset in one of them.
inline std::vector<std::string> awkward_texts(std::size_t least, std::size_t most) {
  std::vector<std::string> all;
  for (const std::string& piece : awkward_pieces()) {
    for (std::size_t letters = least; letters <= most; ++letters) {
      std::string text(letters, 'a');
      for (int i = 0; i < 8; ++i) text += piece;
      all.push_back(std::move(text));
    }
  }
  return all;
}

}  // namespace tidu::test
