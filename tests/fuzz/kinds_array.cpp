// kinds_array.cpp - operations of random graphs that compute on integers exactly: arithmetic, shapes,
// indices, sums, matmuls, convolutions and windows.
#include <array>

#include "fuzz/generator.hpp"
#include "tidu/primitives/convolution.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

using G = Generator;
constexpr unsigned whole_only = G::exact | G::real | G::complex;

// Two values of a rank, one after the other along an axis.
Value joined(Value x, Value y, std::int64_t axis) { return ops::concatenate(std::array{x, y}, axis); }

// Scalars at which dynamic slices start, some of them out of range.
std::vector<Value> starts(G& g, Value x) {
  const DType dtype = g.choices().below(2) == 0 ? i32 : i64;
  std::vector<Value> all;
  for (std::size_t i = 0; i < x.rank(); ++i) all.push_back(g.whole(dtype, {}, -1, g.extent() + 1));
  return all;
}

std::string_view mode(G& g) { return g.choices().below(2) == 0 ? "clip" : "drop"; }

Values sliced(G& g) {
  Value x = g.array();
  const std::int64_t axis = g.axis_of(x);
  x = joined(x, g.like(x), axis);
  Ints start(x.rank(), 0), limit(x.shape().begin(), x.shape().end()), strides(x.rank(), 1);
  const auto at = static_cast<std::size_t>(axis);
  start[at] = g.choices().between(0, g.extent());
  strides[at] = g.choices().between(1, 2);
  return {ops::slice(x, start, limit, strides)};
}

Values padded(G& g) {
  const Value x = g.array();
  IntLists padding;
  for (std::size_t i = 0; i < x.rank(); ++i)
    padding.push_back({g.choices().between(-1, 1), g.choices().between(0, 2), g.choices().between(0, 1)});
  return {ops::pad(x, g.of_rank(0), padding)};
}

Values turned(G& g) {
  const Value x = g.of_rank(2);
  const std::int64_t e = g.extent();
  return {ops::reshape(ops::rev(ops::reshape(x, {e * e}), {0}), {e, e})};
}

Values squeezed(G& g) {
  const Value x = ops::expand_dims(g.array(), {g.choices().between(0, 1)});
  return {ops::squeeze(ops::slice(x, Ints(x.rank(), 0), Ints(x.rank(), 1)), {g.axis_of(x)})};
}

Values dynamic_slice(G& g) {
  Value x = g.array();
  x = joined(x, g.like(x), g.axis_of(x));
  return {ops::dynamic_slice(x, starts(g, x), Ints(x.rank(), g.extent()))};
}

Values dynamic_update_slice(G& g) {
  const Value x = g.array(), y = g.like(x);
  Ints size(x.rank(), g.extent());
  size[static_cast<std::size_t>(g.axis_of(x))] = g.choices().between(0, g.extent());
  return {ops::dynamic_update_slice(x, ops::slice(y, Ints(x.rank(), 0), size), starts(g, x))};
}

Values along_axis(G& g) {
  const Value x = g.array();
  const Value indices = g.whole(i32, x.shape(), -1, g.extent());
  const std::int64_t axis = g.axis_of(x);
  if (g.choices().below(2) == 0) return {ops::take_along_axis(x, indices, axis, mode(g))};
  return {ops::scatter_add_along_axis(x, indices, g.like(x), axis, mode(g))};
}

Values taken(G& g) {
  const Value x = g.array();
  const Value indices = g.whole(g.choices().below(2) == 0 ? i32 : i64, {g.extent()}, -1, g.extent());
  const std::int64_t axis = g.axis_of(x);
  if (g.choices().below(2) == 0) return {ops::take(x, indices, axis, mode(g))};
  return {ops::scatter_add(x, indices, g.like(x), axis, mode(g))};
}

// One matrix over the other; or one spatial axis, features in the other axis, of which the kernel has as many
// or, in groups, one.
Values convolution(G& g) {
  const std::int64_t e = g.extent();
  const Value x = g.of_rank(2), y = g.of_rank(2);
  const std::size_t form = g.choices().below(3);
  ops::Convolution how;
  for (std::size_t i = 0; i < (form == 0 ? 2U : 1U); ++i) {
    how.window_strides.push_back(g.choices().between(1, 2));
    how.lhs_dilation.push_back(g.choices().between(1, 2));
    how.rhs_dilation.push_back(g.choices().between(1, 2));
    how.padding.push_back({e - 1 + g.choices().between(0, 1), e - 1 + g.choices().between(-1, 1)});
  }
  const auto convolved = [&](const Shape& lhs, const Shape& rhs) -> Values {
    return {ops::conv_general_dilated(ops::reshape(x, lhs), ops::reshape(y, rhs), how)};
  };
  if (form == 0) return convolved({1, 1, e, e}, {1, 1, e, e});
  if (form == 1) {
    how.feature_group_count = e;
    return convolved({1, e, e}, {e, 1, e});
  }
  how.dimension_numbers = {{1, 2, 0}, {1, 2, 0}, {0, 2, 1}};  // places, batch or kernel's features, features
  return convolved({e, 1, e}, {e, 1, e});
}

Values windows(G& g) {
  const Value x = g.array();
  Ints size, strides;
  IntLists padding;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    size.push_back(g.choices().between(1, 2));
    strides.push_back(g.choices().between(1, 2));
    padding.push_back({g.choices().between(0, 1), g.choices().between(1, 2)});
  }
  if (g.is_complex() || g.choices().below(2) == 0) return {ops::reduce_window_sum(x, size, strides, padding)};
  // Windows of padding alone would be -inf: every window reaches an element when padding is less than one.
  for (std::size_t i = 0; i < x.rank(); ++i) padding[i] = {0, size[i] - 1};
  return {ops::reduce_window_max(g.separate(x), size, strides, padding)};
}

// Row operations, whose inverses are whole: the diagonal counts as ones.
Values solved_exactly(G& g) {
  const auto flag = [&] { return g.choices().below(2) == 0; };
  const bool left = flag(), lower = flag(), transposed = flag(), conjugated = flag();
  return {ops::triangular_solve(g.of_rank(2), g.of_rank(2), {left, lower, transposed, conjugated, true})};
}

constexpr G::Kind array_table[] = {
    {"add", G::any,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {x + g.like(x)};
     }},
    {"sub", G::any,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {x - g.like(x)};
     }},
    {"mul", G::any,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {x * g.like(x)};
     }},
    {"neg", G::any, [](G& g) -> Values { return {-g.any_value()}; }},
    {"square", G::any, [](G& g) -> Values { return {ops::square(g.any_value())}; }},
    {"integer_pow", G::any,
     [](G& g) -> Values { return {ops::integer_pow(g.any_value(), g.choices().between(0, 3))}; }},
    {"select_n", G::any,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {ops::select_n(g.which(), x, g.like(x))};
     }},
    {"select_n of three", G::any,
     [](G& g) -> Values {
       const Value x = g.any_value(), y = g.like(x), z = g.like(x);
       return {ops::select_n(g.whole(i32, x.shape(), 0, 2), std::array{x, y, z})};
     }},
    {"rank", G::any, [](G& g) -> Values { return {g.of_rank(g.choices().below(3))}; }},
    {"dot_general", G::any,
     [](G& g) -> Values {
       return {ops::dot_general(g.of_rank(2), g.of_rank(2), {{1}, {0}, {}, {}})};
     }},
    {"batched dot_general", G::any,
     [](G& g) -> Values {
       return {ops::dot_general(g.of_rank(2), g.of_rank(2), {{1}, {1}, {0}, {0}})};
     }},
    {"transpose", G::any,
     [](G& g) -> Values {
       return {ops::transpose(g.of_rank(2), {1, 0})};
     }},
    {"slice", G::any, sliced},
    {"pad", G::any, padded},
    {"rev", G::any, turned},
    {"squeeze", G::any, squeezed},
    {"dynamic_slice", G::any, dynamic_slice},
    {"dynamic_update_slice", G::any, dynamic_update_slice},
    {"along axis", G::any, along_axis},
    {"take", G::any, taken},
    {"cumsum", G::any,
     [](G& g) -> Values {
       const Value x = g.array();
       return {ops::cumsum(x, g.axis_of(x), g.choices().below(2) == 0)};
     }},
    {"cumprod", G::any,
     [](G& g) -> Values {
       const Value x = g.array();
       return {ops::cumprod(x, g.axis_of(x), g.choices().below(2) == 0)};
     }},
    {"reduce_prod", G::any,
     [](G& g) -> Values {
       const Value x = g.array();
       return {ops::reduce_prod(x, {g.axis_of(x)})};
     }},
    {"conv_general_dilated", G::any, convolution},
    {"windows", G::any, windows},
    {"triangular_solve", whole_only, solved_exactly},
    {"stop_gradient", whole_only, [](G& g) -> Values { return {ops::stop_gradient(g.any_value())}; }},
    {"device_put", G::any, [](G& g) -> Values { return {ops::device_put(g.any_value(), "cuda:0", "cpu")}; }},
    {"optimization_barrier", G::any,
     [](G& g) -> Values {
       const Value x = g.any_value(), y = g.any_value();
       return ops::optimization_barrier(std::array{x, y}, 1);
     }},
    {"conj", G::exact | G::smooth | G::complex, [](G& g) -> Values { return {ops::conj(g.any_value())}; }},
    {"parts", G::exact | G::smooth | G::complex, [](G& g) -> Values {
       const Value x = g.any_value();
       return {ops::real(x), ops::complex(ops::imag(x), ops::real(g.like(x)))};
     }}};

}  // namespace

std::span<const Generator::Kind> array_kinds() { return array_table; }

}  // namespace tidu::test
