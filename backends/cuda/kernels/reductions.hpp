// reductions.hpp - reductions as text: the function and the accumulator, and the full index of an element
// from the index of its result and its index among the elements of that result.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernels/body.hpp"

namespace tidu::cuda_detail {

/// A reduction in the prelude's words.
struct Reduction {
  std::string function;      ///< "monoid::sum<float>"
  std::string accumulator;   ///< type of partial results
  std::size_t bytes = 0;     ///< of the accumulator
  bool places = false;       ///< takes an index beside the element
  bool lifted = false;       ///< elements are made accumulators by one()
  DType dtype = DType::f32;  ///< of the result

  std::string none() const { return function + "::none()"; }
  /// The element as an accumulator; `index` is its index among the elements of one result.
  std::string one(const std::string& element, const std::string& index) const;
  /// The result of the value type.
  std::string get(const std::string& accumulated) const;
  std::string join(const std::string& a, const std::string& b) const {
    return function + "()(" + a + ", " + b + ")";
  }
};

/// Does the operation reduce axes in a way that is supported here? Complex logsumexp does not.
bool is_reduction(const Op& op, Type operand);
/// The reduction that the operation is.
Reduction reduction_of(const Op& op, Type operand, Type result);
/// The axes that it drops.
Ints reduced_axes(const Op& op);

/// A shape as alternating runs of reduced and kept axes; an axis of extent 1 is in the run around it.
struct ReductionShape {
  ReductionShape(const Shape& shape, const Ints& axes);
  Shape shape;
  Shape runs;                    ///< extents of runs
  std::vector<bool> is_reduced;  ///< by run
  std::int64_t kept = 1;         ///< results
  std::int64_t reduced = 1;      ///< elements of each
  bool rows = true;              ///< are the elements of one result adjacent?
  /// The index of element `r` of result `o`.
  Writer::Index index(Writer& writer, const std::string& o, const std::string& r) const;
  /// Its place, if both go along the whole memory in one way; else empty.
  std::string place(const std::string& o, const std::string& r) const;
};

}  // namespace tidu::cuda_detail
