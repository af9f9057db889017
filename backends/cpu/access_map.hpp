// access_map.hpp - AccessMap: where the elements of a value lie in another buffer, its source. Layout
// operations (transpose, slice, pad, broadcast, roll) compose with a map instead of copying elements; fusions
// and matmuls then read the source through the map. Input of a composition: a map and an operation; output: a
// map, or nothing if no map can express the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tidu/graph/attribute.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

/// Maximum number of axes of a map that copies elements.
inline constexpr std::size_t max_access_axes = 8;

/// One axis of a map.
struct AccessAxis {
  std::int64_t extent = 1;
  std::int64_t begin = 0, count = 1;  ///< the range that comes from the source; the rest is padding
  std::int64_t stride = 0;            ///< in the source, in elements
  std::int64_t roll = 0;  ///< of a rolled axis, which has no padding: position of the source's first element
  /// Does the axis have neither padding nor a roll?
  bool is_whole() const { return begin == 0 && count == extent && roll == 0; }
};

/// The elements of a value, in row-major order. Element (i0, i1, ...) is source[offset + sum of ik *
/// stride_k], where ik counts from `begin` or `roll`, or it is padding, or, for an iota, the number in
/// brackets itself.
///
/// A line is the part of the elements that belongs to one index of each axis but the last.
struct AccessMap {
  ValueId source = no_index;  ///< a root; no_index for an iota
  std::int64_t offset = 0;    ///< in the source, in elements
  std::vector<AccessAxis> axes;
  std::vector<std::byte> padding;  ///< the padding element, or empty
  std::size_t size = 0;            ///< bytes of an element
  DType counted = bool_;           ///< of an iota: its dtype

  /// The map of a dense row-major array onto itself.
  static AccessMap dense(ValueId source, Type type);
  /// The numbers 0, 1, ... along one axis. Nothing for dtypes other than i32, i64, f32 and f64.
  static std::optional<AccessMap> iota(Type type, std::size_t along);

  // Compositions with an operation, with its attributes. They return false, and leave the map undefined, if
  // no map expresses the result.
  void transpose(std::span<const std::int64_t> permutation);
  /// `shape` is that of the result. False for a slice with steps of an axis with padding, and for one across
  /// the wrap of a rolled axis.
  bool slice(std::span<const std::int64_t> starts, std::span<const std::int64_t> steps,
             std::span<const std::int64_t> shape);
  /// False for negative and interior padding, for a pad of a rolled axis, and for padding that differs from
  /// earlier padding.
  bool pad(const IntLists& config, std::span<const std::byte> element);
  /// False if an axis of padding or a roll is repeated.
  bool broadcast(std::span<const std::int64_t> dimensions, std::span<const std::int64_t> shape);
  /// False for an axis with padding.
  bool roll(std::size_t axis, std::int64_t shift);

  /// By axis.
  std::vector<std::int64_t> strides() const;
  bool counts() const { return counted != bool_; }
  bool is_one_line() const {
    return axes.size() == 1 && axes[0].is_whole() && axes[0].stride == 1 && !counts();
  }
  /// Are all lines from the source equal?
  bool are_equal() const;
  /// Are there lines of padding alone?
  bool has_padded_lines() const;
  /// Does line `number` come from the source? If not, it is padding.
  bool is_there(std::int64_t number) const;
  /// The offset of an element in the source, if it has one, and whether the elements after it are contiguous
  /// there.
  struct Found {
    std::int64_t at = 0;
    bool contiguous = false;
  };
  /// Finds `count` elements, the first of which is element `in_line` of line `number`.
  Found find(std::int64_t in_line, std::int64_t number, std::int64_t count) const;
  /// Copies elements [at, at + count) from a source array at `from`. The map has at most max_access_axes
  /// axes, and a stride of 0 or 1 along the last one.
  void copy(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const;

 private:
  void copy_whole(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const;
};

/// Composes the map of an operand with an operation: a slice, pad, broadcast or roll. The map of an iota
/// ignores `operand`. Nothing for other operations, and for results that a map cannot express.
std::optional<AccessMap> compose(const Graph& graph, std::uint32_t operation, const AccessMap& operand);
/// The same map with the fewest axes, which copy() can read; nothing if its lines are short or strided.
std::optional<AccessMap> with_merged_axes(AccessMap map);

/// An operand of a fusion that is not materialized: the fusion reads it through the map.
struct FusedLoad {
  ValueId value = no_index;
  AccessMap map;
};

}  // namespace tidu::cpu_detail
