// factor_rules.cpp - factor rules: how axes of operands and results correspond.
#include "factor_rules.hpp"

#include <algorithm>

#include "axes.hpp"

namespace tidu::prim {
namespace {

constexpr int no_axis = Factors::none;

bool contains(const Ints& list, std::size_t axis) {
  return std::find(list.begin(), list.end(), static_cast<std::int64_t>(axis)) != list.end();
}

void reduction(Factors& f, bool sum) {
  const Ints& axes = f.op().ints("axes");
  int next = 0;
  for (std::size_t i = 0; i < f.operand(0).rank(); ++i) {
    const int axis = static_cast<int>(i);
    if (!contains(axes, i)) {
      f.add({axis}, next++);
    } else if (sum) {
      f.add({axis}, no_axis);
    }
  }
}

}  // namespace

void factors_of_view(Factors& f) {
  const Type x = f.operand(0), y = f.result();
  if (x.size() == 0) return;
  std::size_t i = 0, k = 0;
  while (i < x.rank() && k < y.rank()) {
    if (x.dim(i) == 1) {
      ++i;
      continue;
    }
    if (y.dim(k) == 1) {
      ++k;
      continue;
    }
    const std::size_t first_i = i, first_k = k;
    std::int64_t left = x.dim(i++), right = y.dim(k++);
    while (left != right) left < right ? left *= x.dim(i++) : right *= y.dim(k++);
    if (i == first_i + 1 && k == first_k + 1) f.add({static_cast<int>(first_i)}, static_cast<int>(first_k));
  }
}

void factors_of_transpose(Factors& f) {
  const Ints& order = f.op().ints("permutation");
  for (std::size_t k = 0; k < order.size(); ++k) f.add({static_cast<int>(order[k])}, static_cast<int>(k));
}

void factors_of_rev(Factors& f) {
  for (std::size_t i = 0; i < f.result().rank(); ++i) {
    if (!contains(f.op().ints("dimensions"), i)) f.add({static_cast<int>(i)}, static_cast<int>(i));
  }
}

void factors_of_broadcast(Factors& f) {
  const Ints& placed = f.op().ints("broadcast_dimensions");
  for (std::size_t k = 0; k < f.result().rank(); ++k) {
    const auto at = std::find(placed.begin(), placed.end(), static_cast<std::int64_t>(k));
    const auto i = static_cast<std::size_t>(at - placed.begin());
    const bool same = at != placed.end() && f.operand(0).dim(i) == f.result().dim(k);
    f.add({same ? static_cast<int>(i) : no_axis}, static_cast<int>(k));
  }
}

void factors_of_reduction(Factors& f) { reduction(f, false); }
void factors_of_sum(Factors& f) { reduction(f, true); }

void factors_of_index(Factors& f) {
  const auto axis = f.op().integer("axis");
  int next = 0;
  for (int i = 0; i < static_cast<int>(f.operand(0).rank()); ++i) {
    if (i != axis) f.add({i}, next++);
  }
}

void factors_along(Factors& f) {
  const auto axis = f.op().integer("axis");
  for (int i = 0; i < static_cast<int>(f.result().rank()); ++i) {
    if (i != axis) f.add({i}, i);
  }
}

void factors_of_dot(Factors& f) {
  const IntLists& lists = f.op().lists("dimension_numbers");
  const Ints &lhs_contracting = lists[0], &rhs_contracting = lists[1], &lhs_batch = lists[2],
             &rhs_batch = lists[3];
  int next = 0;
  for (std::size_t i = 0; i < lhs_batch.size(); ++i)
    f.add({static_cast<int>(lhs_batch[i]), static_cast<int>(rhs_batch[i])}, next++);
  for (const std::int64_t axis : remaining(f.operand(0).rank(), lhs_contracting, lhs_batch))
    f.add({static_cast<int>(axis), no_axis}, next++);
  for (const std::int64_t axis : remaining(f.operand(1).rank(), rhs_contracting, rhs_batch))
    f.add({no_axis, static_cast<int>(axis)}, next++);
  for (std::size_t i = 0; i < lhs_contracting.size(); ++i)
    f.add({static_cast<int>(lhs_contracting[i]), static_cast<int>(rhs_contracting[i])}, no_axis);
}

void factors_of_convolution(Factors& f) {
  const IntLists& specs = f.op().lists("dimension_numbers");
  const auto axis = [&](std::size_t spec, std::size_t place) { return static_cast<int>(specs[spec][place]); };
  f.add({axis(0, 0), no_axis}, axis(2, 0));
  if (f.op().integer("feature_group_count") != 1) return;
  f.add({no_axis, axis(1, 0)}, axis(2, 1));
  f.add({axis(0, 1), axis(1, 1)}, no_axis);
}

void factors_of_windows(Factors& f) {
  const Ints& windows = f.op().ints("window_dimensions");
  const Ints& strides = f.op().ints("window_strides");
  const IntLists& padding = f.op().lists("padding");
  for (std::size_t i = 0; i < f.result().rank(); ++i) {
    if (windows[i] == 1 && strides[i] == 1 && padding[i] == Ints{0, 0})
      f.add({static_cast<int>(i)}, static_cast<int>(i));
  }
}

void factors_of_slice(Factors& f) {
  for (std::size_t i = 0; i < f.result().rank(); ++i) {
    if (f.operand(0).dim(i) == f.result().dim(i)) f.add({static_cast<int>(i)}, static_cast<int>(i));
  }
}

void factors_of_pad(Factors& f) {
  const IntLists& config = f.op().lists("padding_config");
  for (std::size_t i = 0; i < config.size(); ++i) {
    if (config[i] == Ints{0, 0, 0}) f.add({static_cast<int>(i), no_axis}, static_cast<int>(i));
  }
}

void factors_of_concatenate(Factors& f) {
  const auto dimension = static_cast<int>(f.op().integer("dimension"));
  std::vector<int> axes(f.num_operands());
  for (int i = 0; i < static_cast<int>(f.result().rank()); ++i) {
    if (i == dimension) continue;
    std::fill(axes.begin(), axes.end(), i);
    f.add(axes, i);
  }
}

void factors_of_take(Factors& f) {
  const auto axis = static_cast<int>(f.op().integer("axis"));
  const auto indices = static_cast<int>(f.operand(1).rank());
  for (int i = 0; i < static_cast<int>(f.operand(0).rank()); ++i) {
    if (i != axis) f.add({i, no_axis}, i < axis ? i : i + indices - 1);
  }
  for (int i = 0; i < indices; ++i) f.add({no_axis, i}, axis + i);
  if (f.op().string("mode") == "clip") f.pick(axis);
}

void factors_of_take_along(Factors& f) {
  const auto axis = static_cast<int>(f.op().integer("axis"));
  for (int i = 0; i < static_cast<int>(f.result().rank()); ++i) {
    f.add({i == axis ? no_axis : i, i}, i);
  }
}

void factors_of_full(Factors& f) {
  for (int i = 0; i < static_cast<int>(f.result().rank()); ++i) f.add({}, i);
}

void factors_of_iota(Factors& f) {
  const auto dimension = static_cast<int>(f.op().integer("dimension"));
  for (int i = 0; i < static_cast<int>(f.result().rank()); ++i) {
    if (i != dimension) f.add({}, i);
  }
}

Op with_entry(const Op& op, std::string_view list, std::size_t axis, std::int64_t value) {
  Attributes attributes = op.attributes();
  for (auto& [name, attribute] : attributes) {
    if (name != list) continue;
    Ints entries = op.ints(list);
    entries[axis] = value;
    attribute = std::move(entries);
  }
  return Op::make(op.primitive(), std::move(attributes));
}

Op resize_shape(const Op& op, std::size_t axis, std::int64_t extent) {
  return with_entry(op, "shape", axis, extent);
}
Op resize_new_sizes(const Op& op, std::size_t axis, std::int64_t extent) {
  return with_entry(op, "new_sizes", axis, extent);
}
Op resize_limits(const Op& op, std::size_t axis, std::int64_t extent) {
  return with_entry(op, "limit_indices", axis, extent);
}

}  // namespace tidu::prim
