// subscripts.hpp - what stands in x[{...}] and x.at({...}), made plain: what of each axis is taken, and in
// which order the result has what is left of them, NumPy's rules for both.
//
// Note [Named elements]: integers that are data name elements. The axes that they name elements of are
// brought to the front and joined to one, so that such elements are rows there; the shape of the integers,
// broadcast, takes its place in the result.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "frontend/ranges.hpp"
#include "tidu/frontend/array.hpp"

namespace tidu::frontend_detail {

/// The position from the beginning of an axis that x has. Throws Error (invalid_argument) for one that is not
/// there.
std::int64_t position_along(std::int64_t axis, std::int64_t position, std::string_view function,
                            const Array& x, Where where);

class Subscripts {
 public:
  /// Throws Error (invalid_argument, type) that says which subscript does not fit x.
  Subscripts(std::string_view function, const Array& x, std::span<const Subscript> list);
  /// Parts of the first axes. Throws as Ranges.
  Subscripts(std::string_view function, const Array& x, std::span<const Slice> parts, Where where);
  /// Those of words(), without indices().
  explicit Subscripts(const Ints& words);

  /// The integers that are data, an Array for each axis in which they name elements.
  const std::vector<Array>& indices() const { return indices_; }
  /// What tells them apart, but for indices. Never empty.
  Ints words() const;

  /// What they read. The emitter of x has `indices`, which are the values of indices().
  Value read(Value x, std::span<const Value> indices, const char* name) const;

  /// That part of x, with all its axes, of which one that is read at a position has 1 element.
  Value part(Value x) const;
  /// The ranges that make the part, one for each axis.
  std::span<const Range> ranges() const { return ranges_; }
  /// The shape of what is read, where the part has this one and indices broadcast to `named`.
  Shape shape(const Shape& part, const Shape& named) const;

  /// A part as rows, of which indices name some; and rows as the part.
  Value rows(Value part) const;
  Value from_rows(Value rows, const Shape& part) const;
  /// Which row indices name, of their own shape: the nearest one for what is out of range or, where that is
  /// left out, -1.
  Value named(const Shape& part, std::span<const Value> indices, bool leave_out, const char* name) const;
  /// Rows that are named, [...named, ...others], from what has the shape of what is read.
  Value to_named(Value read, std::size_t named_rank) const;
  /// Has it this order already?
  bool is_named_first() const;

 private:
  static constexpr std::int64_t new_axis = -1, named_axes = -2;
  Value without_positions(Value part) const;
  Ints named_first() const;  // kept axes, those of indices in front, by their places among the kept ones
  std::int64_t place_of_named() const;  // axes of the result in front of those of indices, but for new ones

  std::vector<Range> ranges_;  // of all axes
  std::vector<bool> dropped_;  // by axis: read at a position?
  Ints indexed_;               // axes of indices(), in order
  Ints layout_;                // the result's axes: an axis of x, a new one, or those of indices
  std::vector<Array> indices_;
};

}  // namespace tidu::frontend_detail
