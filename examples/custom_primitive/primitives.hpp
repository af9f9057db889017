// primitives.hpp - two primitives that tidu does not have, and the set that a project works with: the
// standard one and these.
#pragma once

#include <cstdint>
#include <tidu/graph/literal.hpp>
#include <tidu/graph/primitive_set.hpp>
#include <tidu/graph/value.hpp>

namespace demo {

/// y = x / sqrt(mean(x^2) + epsilon), the mean taken along one axis; epsilon = 1e-6. x is floating.
extern const tidu::Primitive rms_norm;
inline constexpr double epsilon = 1e-6;

/// y_i = sum_k w_k x_(i+k mod n) along the last axis of x, of extent n >= 1. The weights w, of shape [n] and
/// x's dtype, are constants: an attribute. x is floating. Linear in x.
extern const tidu::Primitive circulant;

/// The function that graphs are built with. `axis` counts from 0.
tidu::Value apply_rms_norm(tidu::Value x, std::int64_t axis, tidu::Where where = tidu::Where::current());
tidu::Value apply_circulant(tidu::Value x, const tidu::Literal& weights,
                            tidu::Where where = tidu::Where::current());

const tidu::PrimitiveSet& primitives();

}  // namespace demo
