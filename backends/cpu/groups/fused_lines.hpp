// fused_lines.hpp - slices, pads, broadcasts, iotas and what is rolled along an axis, which a fused group
// makes of where their elements come from, as it reads them: see Note [Lines] in fused.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

/// Axes of lines, at most.
inline constexpr std::size_t max_line_axes = 8;

/// An axis of an array of which some elements are those of another.
struct LineAxis {
  std::int64_t extent = 1;
  std::int64_t begin = 0, count = 1;  ///< those that come from the other one
  std::int64_t stride = 0;            ///< there, in elements
  std::int64_t turn = 0;  ///< of a whole one: where the first one there is, which comes behind the last
  bool is_whole() const { return begin == 0 && count == extent && turn == 0; }
};

/// The elements of such a value, in their order: lines of elements that lie side by side where they come
/// from, or are one element again and again, or count.
struct Lines {
  std::int64_t offset = 0;         ///< of the first element there
  std::vector<LineAxis> axes;      ///< the last one, of stride 1 or 0, is along a line
  std::vector<std::byte> padding;  ///< the element that is around them, or none
  std::size_t size = 0;            ///< of an element, in bytes
  DType counted = bool_;           ///< of an iota: its dtype, and elements are the places that `axes` give
  bool is_one_line() const {
    return axes.size() == 1 && axes[0].is_whole() && axes[0].stride == 1 && !counts();
  }
  bool counts() const { return counted != bool_; }
  /// Are all lines that come from there the same?
  bool are_equal() const;
  /// Are there lines that are padding and nothing else?
  bool has_padded_lines() const;
  /// Does the line of that number come from there? If not, it is padding.
  bool is_there(std::int64_t number) const;
  /// Where an element is there, if it is, and whether those behind it follow there as they do here.
  struct Found {
    std::int64_t place = 0;
    bool side_by_side = false;
  };
  /// Of so many elements, the first of which is `in_line` behind the beginning of the line of that number.
  Found find(std::int64_t in_line, std::int64_t number, std::int64_t count) const;
  /// Elements [at, at + count), from an array that begins at `from`.
  void copy(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const;

 private:
  void copy_whole(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const;
};

/// An operand of a group that is not made.
struct LinesOperand {
  ValueId value = no_index;
  ValueId from = no_index;  ///< a root; none of an iota
  Lines lines;
};

/// The elements of an array as they lie in memory, each of its axes one of the lines'.
Lines lines_of_array(Type type);
/// What the operation makes of an operand that is made so, by axes as the result has them; nothing of other
/// operations, or where lines cannot say it: what was rolled is cut or padded where it was transposed, or
/// what is around it is no literal, or another one than before. Of an iota the operand does not count.
std::optional<Lines> lines_moved(const Graph& graph, std::uint32_t operation, const Lines& operand);
/// The same elements with fewest axes; nothing where they do not come line by line, or lines are short.
std::optional<Lines> lines_to_read(Lines lines);

}  // namespace tidu::cpu_detail
