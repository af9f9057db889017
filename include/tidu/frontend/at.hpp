// at.hpp - an Array with other elements at a place: x.at(place).set(v), as JAX writes it. Nothing is changed
// in place: each function returns a new Array of x's type, and x stays what it is. It is differentiated by x
// and by v.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/graph/attribute.hpp"

namespace tidu {

/// An Array and a place in it: what Array::at() gives. Where v takes the place's shape by NumPy's
/// broadcasting and has a dtype that x's holds (a number takes x's), the elements there become what the
/// function's name says; the place is
///
///   at(i)                 along the first axis, of shape shape[1:]
///   at({{1, 3}, 0})       what x[{{1, 3}, 0}] reads: parts, with steps also, positions, indices
///   at(indices)           integers along the first axis, indices.shape + shape[1:]: negative ones count from
///                         the end, and what is out of range then is left out (x[indices] reads the end that
///                         is nearest), as in JAX
///   at({rows, columns})   integers for each of the first axes, which broadcast: as x[{rows, columns}]
///   at(mask)              bools of the extents of the first axes; v has the shape of the others (a number,
///                         where there are none), and goes wherever the mask is true
///
/// All throw Error that names function, types and the user's place: type for v of another shape or dtype, for
/// indices that are no integers and masks of other extents; invalid_argument for an i that is not there.
class At {
 public:
  /// What is there. Throws Error (invalid_argument) for a mask, of which nobody knows how much it selects.
  Array get(Where where = Where::current()) const;
  /// v itself. Where an index stands several times, the last one counts.
  Array set(const ArrayLike& v) const;
  /// What is there + v. Where an index stands several times, all are added.
  Array add(const ArrayLike& v) const;
  /// The less of what is there and v. Where an index stands several times, the least counts.
  Array min(const ArrayLike& v) const;
  /// The greater of what is there and v. Where an index stands several times, the greatest counts.
  Array max(const ArrayLike& v) const;
  /// What is there * v. Throws Error (invalid_argument) for indices: what several of them do to one element
  /// no primitive computes.
  Array multiply(const ArrayLike& v) const;
  /// What is there / v, of floating and complex x; throws as multiply().
  Array divide(const ArrayLike& v) const;

 private:
  friend class Array;
  At(Array x, std::vector<Array> places, Ints words)
      : x_(std::move(x)), places_(std::move(places)), words_(std::move(words)) {}
  template <class Combine>
  Array updated(const char* name, const ArrayLike& v, const Combine& combine) const;
  void refuse_indices(const char* name, const ArrayLike& v) const;

  bool is_mask() const { return words_.empty(); }

  Array x_;
  std::vector<Array> places_;  // indices, or the mask
  Ints words_;                 // of the subscripts; none of a mask
};

}  // namespace tidu
