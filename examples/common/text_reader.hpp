// text_reader.hpp - TextReader: reads files of numbers and words, field by field, and says where and why it
// stops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <tidu/tensor/tensor.hpp>

namespace examples {

/// Every failure is a std::runtime_error "FILE:LINE: expected WHAT, got WORD".
class TextReader {
 public:
  enum class Layout {
    free,   ///< fields are separated by blanks and ends of lines alike
    colons  ///< a line is a record, whose fields are separated by ':'
  };
  explicit TextReader(const std::filesystem::path& file, Layout layout = Layout::free);

  std::string word(const std::string& what);
  /// A finite number.
  double number(const std::string& what);
  /// An integer from `least` to `most`.
  std::int64_t integer(const std::string& what, std::int64_t least, std::int64_t most);
  /// f64 of that shape, row by row. Throws for a shape for which the file cannot have enough numbers, before
  /// it allocates memory.
  tidu::Tensor numbers(const tidu::Shape& shape, const std::string& what);
  /// The file has to end here.
  void end(const std::string& after);

  /// Layout::colons: goes on to the next record; false at the end of the file.
  bool next_record();
  /// The record has to end here.
  void end_of_record(const std::string& after);

 private:
  std::string_view field();
  [[noreturn]] void fail(const std::string& expected, std::string_view got) const;

  std::filesystem::path file_;
  Layout layout_;
  std::string text_;
  std::size_t position_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace examples
