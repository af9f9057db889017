// at.hpp - functional updates of an Array: x.at(i).set(v), as JAX writes it. Each function returns a new
// Array of x's type and leaves x unchanged. The result is differentiable in x and in v.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/graph/attribute.hpp"

namespace tidu {

/// An Array and selected positions in it: the result of Array::at(). v broadcasts to the shape of the
/// selection as in NumPy, and has a dtype that x's can represent (a number takes x's). The function's name
/// says which elements the result has at these positions. The selection is
///
///   at(i)                 along the first axis, of shape shape[1:]
///   at({{1, 3}, 0})       that of x[{{1, 3}, 0}]: slices, also with steps, positions, indices
///   at(indices)           integers along the first axis, of shape indices.shape + shape[1:]: negative ones
///                         count from the end, and those that are then out of range are dropped, as in JAX
///                         (x[indices] reads the nearest end)
///   at({rows, columns})   integers for each of the first axes, which broadcast: as x[{rows, columns}]
///   at(mask)              bools of the extents of the first axes; v has the shape of the others (a number,
///                         if there are none), and replaces all positions where the mask is true
///
/// All throw Error that names function, types and the user's source location: type for v of another shape or
/// dtype, for indices that are no integers and masks of other extents; invalid_argument for an i out of
/// range.
/// indices that are no integers and masks of other extents; invalid_argument for an i that is not there.
class At {
 public:
  /// The selected elements. Throws Error (invalid_argument) for a mask, whose number of selected elements is
  /// unknown.
  Array get(Where where = Where::current()) const;
  /// v itself. If an index occurs several times, the last one counts.
  Array set(const ArrayLike& v) const;
  /// The selected elements + v. If an index occurs several times, all are added.
  Array add(const ArrayLike& v) const;
  /// The minimum of the selected elements and v. If an index occurs several times, it is the minimum of all.
  Array min(const ArrayLike& v) const;
  /// The maximum of the selected elements and v. If an index occurs several times, it is the maximum of all.
  Array max(const ArrayLike& v) const;
  /// The selected elements * v. Throws Error (invalid_argument) for indices: no primitive computes the effect
  /// of several indices on one element.
  Array multiply(const ArrayLike& v) const;
  /// The selected elements / v, for floating and complex x; throws as multiply().
  Array divide(const ArrayLike& v) const;

 private:
  friend class Array;
  At(Array x, std::vector<Array> places, Ints static_args)
      : x_(std::move(x)), indices_(std::move(places)), static_args_(std::move(static_args)) {}
  template <class Combine>
  Array updated(const char* name, const ArrayLike& v, const Combine& combine) const;
  void refuse_indices(const char* name, const ArrayLike& v) const;

  bool is_mask() const { return static_args_.empty(); }

  Array x_;
  std::vector<Array> indices_;  // indices, or the mask
  Ints static_args_;            // of the subscripts; none of a mask
};

}  // namespace tidu
