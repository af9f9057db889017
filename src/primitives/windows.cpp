// windows.cpp - reduce_window_sum and reduce_window_max, and the arithmetic of windows.
//
// Note [First maximum]: the tangent of a maximum is that of one element of x, whose row-major position is
// computed with the maximum. Axis after axis, the last one first, two neighbouring parts of a window are
// compared; the later one wins only if it is greater, or NaN while the earlier is not. In windows of few
// elements all are compared one after another. A window that lies in the padding alone has position -1, which
// take and scatter_add in mode "drop" ignore. Positions are residuals, so the tangent is linear at every
// order, and costs one read for each window.
//
// Windows of few elements that lie side by side need no positions: x is viewed as windows by elements of a
// window, and a bool for each element says whether it is its window's first maximum. The tangent is the sum
// of the selected elements, and a cotangent is repeated and selected from, without a gather.
#include "windows.hpp"

#include <limits>

#include "axes.hpp"
#include "factor_rules.hpp"
#include "rules.hpp"
#include "tidu/primitives/convolution.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {

void require_counts(const InferContext& c, std::string_view what, const Ints& values, std::size_t count) {
  constexpr std::int64_t limit = std::int64_t{1} << 40;
  c.require(values.size() == count, "expected ", what, " of ", count, " entries, got ", detail::list(values));
  for (const std::int64_t value : values) {
    c.require(1 <= value && value <= limit, "expected ", what, " from 1 to 2^40, got ", detail::list(values));
  }
}

void require_padding(const InferContext& c, const IntLists& padding, std::size_t count) {
  constexpr std::int64_t limit = std::int64_t{1} << 60;
  c.require(padding.size() == count, "expected padding of ", count, " entries, got ", padding.size());
  for (const Ints& entry : padding) {
    c.require(entry.size() == 2, "expected [low, high] in padding, got ", detail::list(entry));
    for (const std::int64_t amount : entry) {
      c.require(-limit <= amount && amount <= limit, "expected padding within 2^60, got ",
                detail::list(entry));
    }
  }
}

std::int64_t dilated(std::int64_t extent, std::int64_t dilation) {
  return extent == 0 ? 0 : (extent - 1) * dilation + 1;
}

std::int64_t checked_dilated(const InferContext& c, std::int64_t extent, std::int64_t dilation) {
  if (extent == 0) return 0;
  return checked_add(c, checked_mul(c, extent - 1, dilation), 1);
}

std::int64_t windows_in(std::int64_t extent, std::int64_t window, std::int64_t stride) {
  return extent < window ? 0 : (extent - window) / stride + 1;
}

IntLists no_padding(std::size_t count) { return IntLists(count, Ints{0, 0}); }

namespace {

constexpr AttributeSpec window_attributes[] = {{"window_dimensions", AttributeKind::ints},
                                               {"window_strides", AttributeKind::ints},
                                               {"padding", AttributeKind::int_lists}};

struct Window {
  const Ints& extents;
  const Ints& strides;
  const IntLists& padding;
};
Window window_of(const Op& op) {
  return {op.ints("window_dimensions"), op.ints("window_strides"), op.lists("padding")};
}

void infer_window(InferContext& c) {
  const Type x = c.operand(0);
  const Window window = window_of(c.op());
  require_counts(c, "window_dimensions", window.extents, x.rank());
  require_counts(c, "window_strides", window.strides, x.rank());
  require_padding(c, window.padding, x.rank());
  Shape shape(x.rank());
  for (std::size_t k = 0; k < x.rank(); ++k) {
    const std::int64_t padded =
        checked_add(c, x.dim(k), checked_add(c, window.padding[k][0], window.padding[k][1]));
    c.require(padded >= 0, "padding ", detail::list(window.padding[k]),
              " cuts more than there is in dimension ", k, " of ", x);
    shape[k] = windows_in(padded, window.extents[k], window.strides[k]);
  }
  give(c, x.dtype(), shape);
}

Values batch_window(BatchContext& c) {
  const Window window = window_of(c.op());
  IntLists padding = window.padding;
  padding.insert(padding.begin(), Ints{0, 0});
  return emit_same(c,
                   {{"window_dimensions", prepended(1, window.extents)},
                    {"window_strides", prepended(1, window.strides)},
                    {"padding", std::move(padding)}},
                   {c.operand(0)});
}

// Each element of x is in the windows that end on it up to those that begin on it: a sum over windows of ct,
// dilated by the stride.
Derivatives transpose_sum(TransposeContext& c) {
  const Value ct = *c.cotangent();
  const Window window = window_of(c.op());
  const Shape& shape = c.operand_type(0).shape();
  if (ct.type().size() == 0) return sum_of_none(ct, c.operand_type(0));
  IntLists config;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::int64_t low = window.extents[k] - 1 - window.padding[k][0];
    const std::int64_t spread = dilated(ct.shape()[k], window.strides[k]);
    config.push_back({low, shape[k] + window.extents[k] - 1 - spread - low, window.strides[k] - 1});
  }
  const Value zero = zeros(c.emitter(), Type(ct.dtype()));
  return ops::reduce_window_sum(ops::pad(ct, zero, config), window.extents);
}

// Values in windows and their positions; see Note [First maximum].
struct ValueAndPosition {
  Value value, position;
};

// The part of windows that begins `offset` after each of the first `count` steps of `stride` along `axis`.
ValueAndPosition part(const ValueAndPosition& of, std::size_t axis, std::int64_t offset, std::int64_t stride,
                      std::int64_t count) {
  Shape start(of.value.rank(), 0);
  Shape limit = of.value.shape();
  Ints strides(of.value.rank(), 1);
  start[axis] = offset;
  limit[axis] = offset + (count - 1) * stride + 1;
  strides[axis] = stride;
  return {ops::slice(of.value, start, limit, strides), ops::slice(of.position, start, limit, strides)};
}

// Is b greater than a, or NaN while a is not? The first of several NaNs is the maximum.
Value is_greater(Value a, Value b) {
  const Value is_beyond = ops::logical_not(ops::le(b, a));
  const Value is_number = ops::eq(a, a);
  return ops::logical_and(is_beyond, is_number);
}

ValueAndPosition later_if_greater(const ValueAndPosition& a, const ValueAndPosition& b, bool padded) {
  Value later = is_greater(a.value, b.value);
  if (padded) later = ops::logical_or(later, ops::lt(a.position, ops::full_like(a.position, 0.0)));
  return {ops::select_n(later, a.value, b.value), ops::select_n(later, a.position, b.position)};
}

// Windows of `extent` along `axis`: up to 8 elements one after another, of more the two halves, which overlap
// where the extent is odd.
ValueAndPosition fold_axis(ValueAndPosition at, std::size_t axis, std::int64_t extent, std::int64_t stride,
                           bool padded) {
  struct Level {
    std::int64_t offset, stride;  // of the second half
  };
  std::vector<Level> levels;
  for (; extent > 8; extent = (extent + 1) / 2, stride = 1) levels.push_back({extent / 2, stride});
  const std::int64_t total = at.value.shape()[axis];
  std::int64_t count = windows_in(total, extent, stride);
  ValueAndPosition folded = part(at, axis, 0, stride, count);
  for (std::int64_t k = 1; k < extent; ++k)
    folded = later_if_greater(folded, part(at, axis, k, stride, count), padded);
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    count = windows_in(folded.value.shape()[axis], level->offset + 1, level->stride);
    const ValueAndPosition first = part(folded, axis, 0, level->stride, count);
    folded = later_if_greater(first, part(folded, axis, level->offset, level->stride, count), padded);
  }
  return folded;
}

constexpr std::int64_t few = 16;

// Elements of a window, or more than `few`.
std::int64_t elements_of(const Window& window) {
  std::int64_t elements = 1;
  for (std::size_t k = 0; k < window.extents.size() && elements <= few; ++k) elements *= window.extents[k];
  return elements;
}

// Windows of few elements, each of which is in one window at most, and none of which lies between two.
bool lie_side_by_side(const Shape& shape, const Window& window) {
  if (window.padding != no_padding(shape.size()) || elements_of(window) > few) return false;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const bool one = windows_in(shape[k], window.extents[k], window.strides[k]) == 1;
    if (window.strides[k] != window.extents[k] && !one) return false;
  }
  return true;
}

// An axis that windows cover is split in two: windows, and elements of a window. `inner` has those of the
// elements.
struct Split {
  Shape shape, covered;  // as windows by elements; the part of x that windows cover
  Ints inner;
};
Split split_by(const Shape& shape, const Window& window) {
  Split split;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::int64_t extent = window.extents[k], count = windows_in(shape[k], extent, window.strides[k]);
    split.covered.push_back(count * extent);
    split.shape.push_back(count);
    if (extent == 1) continue;
    split.inner.push_back(static_cast<std::int64_t>(split.shape.size()));
    split.shape.push_back(extent);
  }
  return split;
}

// The bools of all elements of a window, one array for each in row-major order, as one array of windows by
// elements.
Value side_by_side(std::vector<Value> elements, const Window& window) {
  for (std::size_t k = window.extents.size(); k-- > 0;) {
    const auto extent = static_cast<std::size_t>(window.extents[k]);
    if (extent == 1) continue;
    std::vector<Value> wider;
    for (std::size_t i = 0; i < elements.size(); i += extent) {
      std::vector<Value> line;
      for (std::size_t j = i; j < i + extent; ++j) {
        Shape shape = elements[j].shape();
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(k) + 1, 1);
        line.push_back(ops::reshape(elements[j], shape));
      }
      wider.push_back(ops::concatenate(line, static_cast<std::int64_t>(k) + 1));
    }
    elements = std::move(wider);
  }
  return elements[0];
}

// The coordinates of element `number` of a window, in row-major order.
Ints offset_of(const Window& window, std::int64_t number) {
  Ints offset(window.extents.size());
  for (std::size_t k = offset.size(); k-- > 0; number /= window.extents[k])
    offset[k] = number % window.extents[k];
  return offset;
}

// That element of all windows.
Value at_offset(Value x, const Window& window, const Ints& offset) {
  Shape end = offset;
  for (std::size_t k = 0; k < end.size(); ++k)
    end[k] += (windows_in(x.shape()[k], window.extents[k], window.strides[k]) - 1) * window.strides[k] + 1;
  return ops::slice(x, offset, end, window.strides);
}

// The tangent of maxima of windows that lie side by side.
Value tangent_of_few(Value x, Value tangent, const Window& window) {
  const std::int64_t elements = elements_of(window);
  Value greatest = at_offset(x, window, offset_of(window, 0));
  std::vector<Value> later;  // is an element greater than those before it?
  for (std::int64_t i = 1; i < elements; ++i) {
    const Value next = at_offset(x, window, offset_of(window, i));
    later.push_back(is_greater(greatest, next));
    if (i + 1 < elements) greatest = ops::select_n(later.back(), greatest, next);
  }
  // The last one that is greater than all before it has it.
  std::vector<Value> has(static_cast<std::size_t>(elements), later.back());
  Value after = later.back();
  for (std::size_t i = has.size() - 1; i-- > 0;) {
    const Value none = ops::logical_not(after);
    has[i] = i == 0 ? none : ops::logical_and(later[i - 1], none);
    if (i > 0) after = ops::logical_or(after, later[i - 1]);
  }
  const Split split = split_by(x.shape(), window);
  if (split.covered != x.shape()) tangent = ops::slice(tangent, Shape(x.rank(), 0), split.covered);
  tangent = ops::reshape(tangent, split.shape);
  const Value zero = ops::full_like(tangent, 0.0);
  return ops::reduce_sum(ops::select_n(side_by_side(std::move(has), window), zero, tangent), split.inner);
}

// Without padding a position is that of the window's first element and an offset within the window: all
// elements of the window, in row-major order, one after another.
Value first_of_few(const ValueAndPosition& x, const Window& window, std::int64_t elements) {
  const Shape& shape = x.value.shape();
  const Ints none(shape.size(), 0);
  const Value corner = at_offset(x.position, window, none);
  Value greatest = at_offset(x.value, window, none);
  Value offset = ops::full_like(corner, 0.0);
  for (std::int64_t i = 1; i < elements; ++i) {
    const Ints element = offset_of(window, i);
    std::int64_t step = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) step = step * shape[k] + element[k];
    const Value next = at_offset(x.value, window, element);
    const Value later = is_greater(greatest, next);
    greatest = ops::select_n(later, greatest, next);
    offset = ops::select_n(later, offset, ops::full_like(corner, static_cast<double>(step)));
  }
  return ops::add(corner, offset);
}

Value first_maxima(Value x, const Window& window) {
  Emitter& emitter = *x.emitter();
  const std::int64_t size = x.type().size();
  const DType index = size <= std::numeric_limits<std::int32_t>::max() ? i32 : i64;
  ValueAndPosition at{x, ops::reshape(ops::iota(emitter, Type(index, {size}), 0), x.shape())};
  const bool padded = window.padding != no_padding(x.rank());
  const std::int64_t elements = elements_of(window);
  if (!padded && elements <= few) return first_of_few(at, window, elements);
  if (padded) {
    IntLists config;
    for (const Ints& entry : window.padding) config.push_back({entry[0], entry[1], 0});
    const double least = -std::numeric_limits<double>::infinity();
    at = {ops::pad(x, ops::full(emitter, Type(x.dtype()), least), config),
          ops::pad(at.position, ops::full(emitter, Type(index), -1.0), config)};
  }
  for (std::size_t axis = x.rank(); axis-- > 0;) {
    if (window.extents[axis] == 1 && window.strides[axis] == 1) continue;
    at = fold_axis(at, axis, window.extents[axis], window.strides[axis], padded);
  }
  return at.position;
}

Derivatives jvp_max(JvpContext& c) {
  const Value tangent = *c.tangent(0);
  if (c.result().type().size() == 0) return sum_of_none(tangent, c.result().type());
  const Window window = window_of(c.op());
  if (elements_of(window) > 1 && lie_side_by_side(c.primal(0).shape(), window))
    return tangent_of_few(c.primal(0), tangent, window);
  const Value position = first_maxima(c.primal(0), window);
  return ops::take(ops::reshape(tangent, {tangent.type().size()}), position, 0, "drop");
}

}  // namespace

// y_p = Σ x over window p          ct_x = Σ ct over the windows that an element is in
constinit const Primitive reduce_window_sum{.name = "reduce_window_sum",
                                            .attributes = window_attributes,
                                            .linearity = linearity::linear,
                                            .infer =
                                                [](InferContext& c) {
                                                  require_numeric(c, 0);
                                                  infer_window(c);
                                                },
                                            .transpose = transpose_sum,
                                            .batch = batch_window,
                                            .factors = factors_of_windows};

// y_p = max x over window p          dy_p = dx at the first maximum
constinit const Primitive reduce_window_max{.name = "reduce_window_max",
                                            .attributes = window_attributes,
                                            .infer =
                                                [](InferContext& c) {
                                                  require_real(c, 0);
                                                  infer_window(c);
                                                },
                                            .jvp = jvp_max,
                                            .batch = batch_window,
                                            .factors = factors_of_windows};

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Value reduce_window(const Primitive& primitive, Value x, const Ints& extents, Ints strides, IntLists padding,
                    Where where) {
  if (strides.empty()) strides.assign(x.rank(), 1);
  if (padding.empty()) padding = prim::no_padding(x.rank());
  return emit1(Op::make(primitive, {{"window_dimensions", extents},
                                    {"window_strides", std::move(strides)},
                                    {"padding", std::move(padding)}}),
               {x}, where);
}

}  // namespace

Value reduce_window_sum(Value x, const Ints& window_dimensions, const Ints& window_strides,
                        const IntLists& padding, Where where) {
  return reduce_window(prim::reduce_window_sum, x, window_dimensions, window_strides, padding, where);
}

Value reduce_window_max(Value x, const Ints& window_dimensions, const Ints& window_strides,
                        const IntLists& padding, Where where) {
  return reduce_window(prim::reduce_window_max, x, window_dimensions, window_strides, padding, where);
}

}  // namespace tidu::ops
