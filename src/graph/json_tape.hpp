// json_tape.hpp - parsed JSON as one flat array, for dumps of millions of lines: 16 bytes a node, children
// directly after their parent, no pointers, no destruction of single nodes. An object's children are key,
// value, key, value.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/graph/error.hpp"

namespace tidu::detail {

class JsonTape {
 public:
  using Index = std::uint32_t;
  enum class Kind : std::uint8_t { null, boolean, integer, large_integer, number, string, array, object };
  static constexpr std::size_t deepest = 512;  ///< levels of arrays and objects

  /// Throws Error (dump) with line and column for text that is not JSON, is nested too deep or has 2^32
  /// bytes.
  explicit JsonTape(std::string_view text);

  static constexpr Index root = 0;
  Kind kind(Index i) const { return nodes_[i].kind; }
  /// Number of elements of an array, of members of an object.
  std::uint32_t count(Index i) const { return nodes_[i].count; }
  std::string_view string(Index i) const { return {strings_.data() + nodes_[i].bits, nodes_[i].count}; }
  std::int64_t integer(Index i) const { return static_cast<std::int64_t>(nodes_[i].bits); }
  bool boolean(Index i) const { return nodes_[i].bits != 0; }
  bool is_number(Index i) const { return kind(i) >= Kind::integer && kind(i) <= Kind::number; }
  /// The double nearest to the number in the text.
  double as_double(Index i) const;
  float as_float(Index i) const;
  /// First child of an array or object, and one past the last.
  static Index first(Index i) { return i + 1; }
  Index end(Index i) const { return static_cast<Index>(nodes_[i].bits); }
  /// The node after a node and its children.
  Index next(Index i) const { return kind(i) >= Kind::array ? end(i) : i + 1; }

  // Checked access. `what` names the thing in the error (dump) that is thrown when it is of another kind.
  void expect(Index i, Kind kind, std::string_view what) const;
  std::string_view expect_string(Index i, std::string_view what) const;
  std::int64_t expect_integer(Index i, std::string_view what) const;
  bool expect_boolean(Index i, std::string_view what) const;
  /// The values of an object's members by `names`; 0 for one that does not exist. Throws for members that are
  /// unknown or given twice.
  void members(Index i, std::span<const std::string_view> names, std::span<Index> values,
               std::string_view what) const;
  /// A node for a message: its kind, or a scalar's text, cut to a length fit to read.
  std::string shown(Index i) const;

 private:
  struct Node {
    std::uint64_t bits =
        0;  // value; offset into strings_; or, of arrays and objects, one past the last child
    std::uint32_t count = 0;  // also, of numbers, the bits of the nearest f32
    Kind kind = Kind::null;
  };
  static constexpr std::uint32_t negative_zero = 1;  // count of the integer -0
  struct Handler;
  std::vector<Node> nodes_;
  std::string strings_;
};

/// Bytes of a quotation of a dump that are fit to read in a message.
inline constexpr std::size_t longest_quotation = 60;

/// In quotes, cut to that length.
inline Printable shortened(std::string_view text) { return in_quotes(text, longest_quotation); }

}  // namespace tidu::detail
