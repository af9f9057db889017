// factors.hpp - Factors: how the axes of an operation's operands and result correspond. A factor is an index
// of the computation, as a letter of an einsum is. Along a factor an operation can be split: it runs on
// slices of the operands that have the factor, and gives a slice of the result or, if the result lacks the
// factor, a term of a sum. (Shardy calls the same a sharding rule.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu {

/// The factors of one operation with one result. The primitive's rule adds them; passes read them.
class Factors {
 public:
  /// Instead of an axis: the operand lacks the factor, or the result is a sum over it.
  static constexpr int none = -1;

  /// Removes all factors and starts those of this operation.
  void begin(const Op& op, std::span<const Type> operands, Type result);
  /// The operation.
  const Op& op() const { return *op_; }
  /// How many operands.
  std::size_t num_operands() const { return operands_.size(); }
  /// The type of an operand.
  Type operand(std::size_t i) const { return operands_[i]; }
  /// The type of the result.
  Type result() const { return result_; }

  /// For rules: a factor that is axis `axes[i]` of operand i and axis `result_axis` of the result, or `none`.
  /// These axes have one extent. Factors of extent 1 are left out.
  void add(std::span<const int> axes, int result_axis);
  /// The same.
  void add(std::initializer_list<int> axes, int result_axis) {
    add(std::span(axes.begin(), axes.size()), result_axis);
  }

  /// For rules: the operation gathers. The elements of operand 1, each clamped to the range, select entries
  /// of operand 0 along `axis`, as in `take`. The axis is in no factor.
  void pick(int axis) { picked_axis_ = axis; }
  /// The axis of operand 0 along which operand 1 selects entries, or `none`.
  int picked_axis() const { return picked_axis_; }

  /// How many factors.
  std::size_t size() const { return extents_.size(); }
  /// The axis of an operand, or `none`.
  int axis_of(std::size_t factor, std::size_t operand) const {
    return axes_[factor * (num_operands() + 1) + operand];
  }
  /// The axis of the result; `none`: the result is the sum over the factor.
  int result_axis(std::size_t factor) const { return axes_[factor * (num_operands() + 1) + num_operands()]; }
  /// Its number of points.
  std::int64_t extent(std::size_t factor) const { return extents_[factor]; }

 private:
  const Op* op_ = nullptr;
  std::span<const Type> operands_;
  Type result_;
  std::vector<int> axes_;
  std::vector<std::int64_t> extents_;
  int picked_axis_ = none;
};

}  // namespace tidu
