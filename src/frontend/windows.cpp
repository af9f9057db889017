// windows.cpp - see windows.hpp.
#include "tidu/frontend/windows.hpp"

#include "frontend/broadcast.hpp"

namespace tidu {

using frontend_detail::convert;
using frontend_detail::Input;
using frontend_detail::invoke;

WindowPadding::WindowPadding(const char* name, Where where) : kind_(Kind::valid) {
  if (std::string_view(name) == "SAME") {
    kind_ = Kind::same;
  } else if (std::string_view(name) != "VALID") {
    frontend_detail::refuse(ErrorKind::invalid_argument, "WindowPadding",
                            detail::str("expected \"VALID\" or \"SAME\", got ", detail::in_quotes(name)),
                            where);
  }
}

IntLists WindowPadding::resolve(const Ints& extents, const Ints& windows, const Ints& strides,
                                std::string_view function) const {
  if (kind_ == Kind::valid) return IntLists(extents.size(), Ints{0, 0});
  if (kind_ == Kind::everywhere) return IntLists(extents.size(), amounts_[0]);
  if (kind_ == Kind::given) {
    if (amounts_.size() != extents.size()) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str('[', function, "] expected padding of ", extents.size(),
                              " spatial axes, got that of ", amounts_.size()));
    }
    return amounts_;
  }
  IntLists result;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    const std::int64_t count = (extents[k] + strides[k] - 1) / strides[k];
    const std::int64_t total = std::max<std::int64_t>(0, (count - 1) * strides[k] + windows[k] - extents[k]);
    result.push_back({total / 2, total - total / 2});
  }
  return result;
}

namespace {

// A list of lists as static arguments: its length, and the length of each list before its items.
void append(Ints& static_args, const Ints& list) {
  static_args.push_back(static_cast<std::int64_t>(list.size()));
  static_args.insert(static_args.end(), list.begin(), list.end());
}
void append(Ints& static_args, const IntLists& lists) {
  static_args.push_back(static_cast<std::int64_t>(lists.size()));
  for (const Ints& list : lists) append(static_args, list);
}

[[noreturn]] void refuse_list(const char* name, const char* what, std::size_t expected, const Ints& got) {
  throw Error(ErrorKind::invalid_argument, detail::str('[', name, "] expected ", what, " of ", expected,
                                                       " entries from 1 to 2^40, got ", detail::list(got)));
}

// `given` for `count` spatial axes, or ones. Throws for numbers that cannot be extents, before they are used
// in computations.
Ints spatial_list(const char* name, const char* what, const Ints& given, std::size_t count) {
  if (given.empty()) return Ints(count, 1);
  constexpr std::int64_t limit = std::int64_t{1} << 40;
  bool fits = given.size() == count;
  for (const std::int64_t entry : given) fits = fits && 0 < entry && entry <= limit;
  if (!fits) refuse_list(name, what, count, given);
  return given;
}

Value convolved(Value x, Value kernel, const ops::Convolution& how) {
  const DType common = promote(x.dtype(), kernel.dtype());
  const Value left = convert(x, common);
  return ops::conv_general_dilated(left, convert(kernel, common), how);
}

Ints prepended(const Ints& spatial) {
  Ints all{1, 1};
  all.insert(all.end(), spatial.begin(), spatial.end());
  return all;
}

// `body(x, window, strides, padding)` of all axes.
template <class F>
Array pool(const char* name, const Array& x, const Ints& window, const Ints& given_strides,
           const WindowPadding& padding, Where where, const F& body) {
  const Input operands[] = {x};
  Ints static_args;
  IntLists amounts;
  Ints strides;
  frontend_detail::require_value(x, name, where);
  try {
    if (x.ndim() < 2 || (x.ndim() == 2 && !window.empty())) {
      throw Error(ErrorKind::type,
                  detail::str('[', name, "] expected [batch, features, spatial...], got ", x.type()));
    }
    const Ints extents(x.shape().begin() + 2, x.shape().end());
    if (window.size() != extents.size()) refuse_list(name, "a window", extents.size(), window);
    spatial_list(name, "a window", window, extents.size());
    strides = spatial_list(name, "strides", given_strides.empty() ? window : given_strides, extents.size());
    amounts = padding.resolve(extents, window, strides, name);
  } catch (const Error& error) {
    frontend_detail::raise_located(error, name, std::array{x.type()}, where);
  }
  append(static_args, window);
  append(static_args, strides);
  append(static_args, amounts);
  amounts.insert(amounts.begin(), 2, Ints{0, 0});
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        return body(v[0], prepended(window), prepended(strides), amounts);
      },
      where);
}

}  // namespace

Array conv_general_dilated(const Array& x, const Array& kernel, const ops::Convolution& convolution,
                           Where where) {
  Ints static_args;
  append(static_args, convolution.window_strides);
  append(static_args, convolution.padding);
  append(static_args, convolution.lhs_dilation);
  append(static_args, convolution.rhs_dilation);
  append(static_args, convolution.dimension_numbers.lhs_spec);
  append(static_args, convolution.dimension_numbers.rhs_spec);
  append(static_args, convolution.dimension_numbers.out_spec);
  static_args.push_back(convolution.feature_group_count);
  const Input operands[] = {x, kernel};
  return invoke(
      {"conv_general_dilated", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return convolved(v[0], v[1], convolution); }, where);
}

Array conv2d(const Array& x, const Array& kernel, const Ints& strides, const WindowPadding& padding,
             const Ints& dilation, std::int64_t groups, Where where) {
  ops::Convolution how;
  for (const Array* const operand : {&x, &kernel}) frontend_detail::require_value(*operand, "conv2d", where);
  try {
    if (x.ndim() != 4 || kernel.ndim() != 4) {
      throw Error(ErrorKind::type,
                  "[conv2d] expected x [batch, features, height, width] and a kernel [results, features, "
                  "height, width]");
    }
    how.window_strides = spatial_list("conv2d", "strides", strides, 2);
    how.rhs_dilation = spatial_list("conv2d", "dilation", dilation, 2);
    how.feature_group_count = groups;
    Ints windows;
    for (std::size_t k = 0; k < 2; ++k)
      windows.push_back(kernel.shape()[k + 2] == 0 ? 0
                                                   : (kernel.shape()[k + 2] - 1) * how.rhs_dilation[k] + 1);
    how.padding = padding.resolve({x.shape()[2], x.shape()[3]}, windows, how.window_strides, "conv2d");
  } catch (const Error& error) {
    frontend_detail::raise_located(error, "conv2d", std::array{x.type(), kernel.type()}, where);
  }
  Ints static_args;
  append(static_args, how.window_strides);
  append(static_args, how.rhs_dilation);
  append(static_args, how.padding);
  static_args.push_back(groups);
  const Input operands[] = {x, kernel};
  return invoke(
      {"conv2d", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return convolved(v[0], v[1], how); }, where);
}

Array max_pool(const Array& x, const Ints& window, const Ints& strides, const WindowPadding& padding,
               Where where) {
  return pool("max_pool", x, window, strides, padding, where,
              [](Value v, const Ints& extents, const Ints& steps, const IntLists& around) {
                return ops::reduce_window_max(v, extents, steps, around);
              });
}

Array avg_pool(const Array& x, const Ints& window, const Ints& strides, const WindowPadding& padding,
               Where where) {
  return pool("avg_pool", x, window, strides, padding, where,
              [](Value v, const Ints& extents, const Ints& steps, const IntLists& around) {
                const Value total =
                    ops::reduce_window_sum(frontend_detail::widened(v), extents, steps, around);
                double size = 1.0;
                for (const std::int64_t extent : extents) size *= static_cast<double>(extent);
                return convert(total / ops::full_like(total, size), frontend_detail::inexact(v.dtype()));
              });
}

}  // namespace tidu
