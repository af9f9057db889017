// elementwise_rules.hpp - functions that the records of element-wise primitives share: type rules by kinds of
// dtype, and abbreviations for their JVP rules (x and y for operands, z for the result, t for tangents).
#pragma once

#include <cstdint>

#include "primitives/rules.hpp"
#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::prim {

/// Kinds of dtype, as a set of bits.
enum class Kinds : std::uint8_t { booleans = 1, integers = 2, floats = 4, complexes = 8 };
constexpr Kinds operator|(Kinds a, Kinds b) {
  return static_cast<Kinds>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
namespace kinds {
inline constexpr Kinds inexact = Kinds::floats | Kinds::complexes;
inline constexpr Kinds real = Kinds::integers | Kinds::floats;
inline constexpr Kinds number = real | Kinds::complexes;
inline constexpr Kinds ordered = real | Kinds::booleans;
inline constexpr Kinds bits = Kinds::booleans | Kinds::integers;
}  // namespace kinds

/// The real part of a complex x; else x.
inline Value real_part(Value x) { return is_complex(x.dtype()) ? ops::real(x, {}) : x; }

/// Refuses operands of different types.
void require_one_type(InferContext& c);
/// Refuses operand `i` when its dtype is of none of these kinds.
void require_kind(InferContext& c, std::size_t i, Kinds allowed);

/// All operands of one type, whose dtype is of one of these kinds; the result has that type.
template <Kinds allowed>
void infer_of(InferContext& c) {
  infer_same_type(c);
  require_kind(c, 0, allowed);
}

/// The same with results of dtype bool.
template <Kinds allowed>
void infer_predicate(InferContext& c) {
  infer_comparison(c);
  require_kind(c, 0, allowed);
}

inline Value x_of(const JvpContext& c) { return c.primal(0); }
/// The tangent of the only operand.
inline Value t_of(const JvpContext& c) { return *c.tangent(0); }
/// The result.
inline Value z_of(const JvpContext& c) { return c.result(); }
/// `value` in the shape and dtype of x.
inline Value like(Value x, double value) { return ops::full_like(x, value); }

/// The sum of the present terms.
std::optional<Value> sum(const std::optional<Value>& a, const std::optional<Value>& b);
/// conj(x), which of a real x is x.
Value conjugate(Value x);
/// Is x finite; both parts of a complex x?
Value is_finite_number(Value x);
/// f(t) where there is a t.
template <class F>
std::optional<Value> map(const std::optional<Value>& t, F&& f) {
  return t ? std::optional<Value>(f(*t)) : std::nullopt;
}

}  // namespace tidu::prim
