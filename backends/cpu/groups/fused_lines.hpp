// fused_lines.hpp - Lines: access maps of fused loads. Slices, pads, broadcasts, iotas and rolls are
// described as lines of elements in a source array, which a fusion reads instead of the result: see Note
// [Lines] in fused.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

/// Maximum number of axes of an access map.
inline constexpr std::size_t max_line_axes = 8;

/// One axis of an access map.
struct LineAxis {
  std::int64_t extent = 1;
  std::int64_t begin = 0, count = 1;  ///< the range that comes from the source; the rest is padding
  std::int64_t stride = 0;            ///< in the source, in elements
  std::int64_t turn = 0;  ///< of a rolled axis, which is whole: position of the source's first element
  bool is_whole() const { return begin == 0 && count == extent && turn == 0; }
};

/// The elements of a value, in order. A line is a run of elements that are contiguous in the source, all
/// equal, or counted (of an iota).
struct Lines {
  std::int64_t offset = 0;         ///< of the first element in the source
  std::vector<LineAxis> axes;      ///< the last axis, of stride 1 or 0, is that of the lines
  std::vector<std::byte> padding;  ///< the padding element, or empty
  std::size_t size = 0;            ///< bytes of an element
  DType counted = bool_;  ///< of an iota: its dtype, and the elements are the offsets that `axes` give
  bool is_one_line() const {
    return axes.size() == 1 && axes[0].is_whole() && axes[0].stride == 1 && !counts();
  }
  bool counts() const { return counted != bool_; }
  /// Are all lines from the source equal?
  bool are_equal() const;
  /// Are there lines of padding alone?
  bool has_padded_lines() const;
  /// Does line `number` come from the source? If not, it is padding.
  bool is_there(std::int64_t number) const;
  /// The offset of an element in the source, if it has one, and whether the elements after it are contiguous
  /// there.
  struct Found {
    std::int64_t place = 0;
    bool side_by_side = false;
  };
  /// Finds `count` elements, the first of which is element `in_line` of line `number`.
  Found find(std::int64_t in_line, std::int64_t number, std::int64_t count) const;
  /// Copies elements [at, at + count) from a source array at `from`.
  void copy(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const;

 private:
  void copy_whole(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const;
};

/// An operand of a fusion that is not materialized.
struct LinesOperand {
  ValueId value = no_index;
  ValueId from = no_index;  ///< a root; no_index for an iota
  Lines lines;
};

/// The access map of a dense array: one axis for each of its axes.
Lines lines_of_array(Type type);
/// Composes the map of an operand with an operation; the axes are those of the result. Returns nothing for
/// other operations, and for results that a map cannot express. Examples are a slice across the wrap of a
/// rolled axis, a pad of a rolled axis, and padding that is no literal or differs from earlier padding.
/// `operand` is ignored for an iota.
std::optional<Lines> lines_moved(const Graph& graph, std::uint32_t operation, const Lines& operand);
/// The map with the fewest axes; nothing if its elements are not in lines, or if lines are short.
std::optional<Lines> lines_to_read(Lines lines);

}  // namespace tidu::cpu_detail
