// kinds_order.cpp - operations of random graphs that compare: orders, extrema, signs. Integers have ties; for
// others see Generator::separate.
#include <array>

#include "fuzz/generator.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

using G = Generator;
constexpr unsigned real_numbers = G::exact | G::smooth | G::real;

template <Value (*op)(Value, std::int64_t, bool, Where)>
Values cumulative(G& g) {
  const Value x = g.separate(g.array());
  return {op(x, g.axis_of(x), g.choices().below(2) == 0, Where::current())};
}

template <Value (*op)(Value, Value, Where)>
Values binary(G& g) {
  const Value x = g.any_value(), y = g.like(x);
  return {op(g.separate(x), g.separate(y, 1), Where::current())};
}

template <Value (*op)(Value, Where)>
Values unary(G& g) {
  return {op(g.separate(g.any_value()), Where::current())};
}

// Elements that share a maximum share its tangent: halves are exact, thirds would not be.
template <Value (*op)(Value, const Ints&, Where)>
Values reduced(G& g) {
  const Value x = g.separate(g.array());
  if (g.is_exact() && g.extent() > 2) return {};
  return {op(x, {g.axis_of(x)}, Where::current())};
}

Values clamped(G& g) {
  const Value x = g.any_value();
  return {ops::clamp(g.number(-1.0), g.separate(x), g.number(static_cast<double>(g.choices().below(3))))};
}

Values sorted(G& g) {
  const Value x = g.array();
  return {ops::sort(g.separate(x), g.axis_of(x))};
}

Values sorted_along(G& g) {
  const Value x = g.array(), y = g.like(x), z = g.like(x);
  return ops::sort(std::array{g.separate(x), g.separate(y, 1), z}, g.axis_of(x), g.choices().between(1, 2));
}

Values greatest(G& g) {
  const Value x = g.array();
  return {ops::top_k(g.separate(x), g.choices().between(1, g.extent()))[0]};
}

// Which elements are greater, as a mask that has no tangent.
Values masked(G& g) {
  const Value x = g.any_value(), y = g.like(x), z = g.like(x);
  return {ops::select_n(ops::lt(g.separate(x), g.separate(y, 1)), y, z)};
}

constexpr G::Kind order_table[] = {{"max", real_numbers, binary<ops::max>},
                                   {"min", real_numbers, binary<ops::min>},
                                   {"abs", real_numbers, unary<ops::abs>},
                                   {"sign", real_numbers, unary<ops::sign>},
                                   {"clamp", real_numbers, clamped},
                                   {"mask", real_numbers, masked},
                                   {"cummax", real_numbers, cumulative<ops::cummax>},
                                   {"cummin", real_numbers, cumulative<ops::cummin>},
                                   {"reduce_max", real_numbers, reduced<ops::reduce_max>},
                                   {"reduce_min", real_numbers, reduced<ops::reduce_min>},
                                   {"top_k", real_numbers, greatest},
                                   {"sort", real_numbers, sorted},
                                   {"sort of three", real_numbers, sorted_along},
                                   {"complex sort", G::exact | G::complex, sorted}};

}  // namespace

std::span<const Generator::Kind> order_kinds() { return order_table; }

}  // namespace tidu::test
