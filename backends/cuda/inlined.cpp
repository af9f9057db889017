// inlined.cpp - operations that only move elements, by what they do to neighbours.
#include "cuda/inlined.hpp"

#include <cstddef>
#include <string_view>

#include "cuda/kernels/body.hpp"

namespace tidu::cuda_detail {

bool moves_cheaply(const Operation& operation) {
  const std::string_view name = operation.name();
  if (name == "broadcast_in_dim" || name == "iota" || name == "full" || name == "rev" || name == "slice")
    return true;
  if (name == "constant") return is_expression(operation.op());
  if (name == "pad") return true;
  if (name == "concatenate") return operation.num_inputs() <= 4;
  if (name == "transpose") {  // what lies beside each other stays so
    const Ints& order = operation.op().ints("permutation");
    return order.empty() || order.back() + 1 == static_cast<std::int64_t>(order.size());
  }
  return false;
}

std::int64_t repeats(const Op& op, Type x, Type result) {
  if (x.size() == result.size()) return 1;
  const Ints& placed = op.ints("broadcast_dimensions");
  std::int64_t repeat = 1;
  std::size_t axis = result.rank(), next = placed.size();
  bool behind = true;  // so far nothing of the operand
  while (axis-- > 0) {
    const bool is_placed = next > 0 && placed[next - 1] == static_cast<std::int64_t>(axis);
    if (is_placed) --next;
    if (is_placed && x.dim(next) == result.dim(axis) && x.dim(next) != 1) {
      behind = false;
    } else if (result.dim(axis) != 1) {
      if (!behind) return 0;
      repeat *= result.dim(axis);
    }
  }
  return repeat;
}

}  // namespace tidu::cuda_detail
