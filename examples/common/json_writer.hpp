// json_writer.hpp - JsonWriter: one JSON object, written key by key, so that arrays of millions of numbers
// need no tree in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace examples {

class JsonWriter {
 public:
  /// Throws std::runtime_error when the file cannot be written, as close() does.
  explicit JsonWriter(const std::filesystem::path& file);
  void text(std::string_view key, std::string_view value);
  /// Numbers have as many digits as reading them back exactly needs; numbers that are not finite become null.
  void number(std::string_view key, double value);
  void numbers(std::string_view key, std::span<const double> values);
  void integer(std::string_view key, std::int64_t value);
  void integers(std::string_view key, std::span<const std::int64_t> values);
  void begin_object(std::string_view key);
  void end_object();
  /// Ends the object.
  void close();

 private:
  void key(std::string_view key);
  void quote(std::string_view text);
  void put(double value);
  void put(std::int64_t value);
  template <class T>
  void array(std::string_view name, std::span<const T> values);

  std::filesystem::path file_;
  std::ofstream out_;
  bool first_ = true;
};

}  // namespace examples
