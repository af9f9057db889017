// factors.cpp - see factors.hpp.
#include "tidu/graph/factors.hpp"

namespace tidu {

void Factors::begin(const Op& op, std::span<const Type> operands, Type result) {
  op_ = &op;
  operands_ = operands;
  result_ = result;
  axes_.clear();
  extents_.clear();
  picked_axis_ = none;
}

void Factors::add(std::span<const int> axes, int result_axis) {
  std::int64_t extent = result_axis == none ? 1 : result_.dim(static_cast<std::size_t>(result_axis));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != none) extent = operands_[i].dim(static_cast<std::size_t>(axes[i]));
  }
  if (extent == 1) return;
  for (std::size_t i = 0; i < num_operands(); ++i) axes_.push_back(i < axes.size() ? axes[i] : none);
  axes_.push_back(result_axis);
  extents_.push_back(extent);
}

}  // namespace tidu
