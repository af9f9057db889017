// subscripts.hpp - Subscripts: normalized indices of x[{...}] and x.at({...}): the part of each axis, and the
// order of the result's axes, by NumPy's rules.
//
// Note [Selected elements]: integer arrays select elements along axes. These axes are moved to the front and
// merged into one, so that the selected elements are rows. In the result, the broadcast shape of the integer
// arrays replaces these axes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "frontend/ranges.hpp"
#include "tidu/frontend/array.hpp"

namespace tidu::frontend_detail {

/// The position from the beginning of an axis of x. Throws Error (invalid_argument) if it is out of range.
std::int64_t position_along(std::int64_t axis, std::int64_t position, std::string_view function,
                            const Array& x, Where where);

class Subscripts {
 public:
  /// Throws Error (invalid_argument, type) with the subscript that does not fit x.
  Subscripts(std::string_view function, const Array& x, std::span<const Subscript> list);
  /// Parts of the first axes. Throws as Ranges.
  Subscripts(std::string_view function, const Array& x, std::span<const Slice> parts, Where where);
  /// Restores the subscripts of static_args(), without indices().
  explicit Subscripts(const Ints& static_args);

  /// The integer arrays, one for each axis that they index.
  const std::vector<Array>& indices() const { return indices_; }
  /// Static arguments that identify the subscripts, without indices. Never empty.
  Ints static_args() const;

  /// Reads the subscripts of x. `indices` are the values of indices() in x's emitter.
  Value read(Value x, std::span<const Value> indices, const char* name) const;

  /// The part of x with all its axes; an axis that is read at one position has extent 1.
  Value part(Value x) const;
  /// The ranges of the part, one for each axis.
  std::span<const Range> ranges() const { return ranges_; }
  /// The shape of the result of read(), if the part has shape `part` and indices broadcast to `named`.
  Shape shape(const Shape& part, const Shape& named) const;

  /// The part as rows for indices to select, and rows as the part.
  Value rows(Value part) const;
  Value from_rows(Value rows, const Shape& part) const;
  /// The selected rows, in the shape of the indices. An index out of range gives the nearest row, or -1 if
  /// `leave_out`.
  Value named(const Shape& part, std::span<const Value> indices, bool leave_out, const char* name) const;
  /// From the layout of read()'s result to rows: [...named, ...others].
  Value to_named(Value read, std::size_t named_rank) const;
  /// Is the result already in that order?
  bool is_named_first() const;

 private:
  static constexpr std::int64_t new_axis = -1, named_axes = -2;
  Value without_positions(Value part) const;
  Ints named_first() const;             // kept axes with indexed ones first, by position among the kept ones
  std::int64_t place_of_named() const;  // axes of the result before those of indices, except new ones
  std::vector<Range> ranges_;           // of all axes
  std::vector<bool> dropped_;           // by axis: is it read at one position?
  Ints indexed_;                        // axes of indices(), in order
  Ints layout_;                         // the result's axes: an axis of x, a new axis, or those of indices
  std::vector<Array> indices_;
};

}  // namespace tidu::frontend_detail
