// random.hpp - random Arrays that follow from a key, as in jax.random: the same key gives the same numbers,
// in every run, on every backend, and those of JAX (Threefry-2x32, partitionable). Nothing here has a state:
// split a key into as many as there are uses. All throw Error (type, invalid_argument) that names function,
// types and the user's place.
#pragma once

#include <cstdint>

#include "tidu/frontend/array.hpp"

namespace tidu::random {

/// i32[2]: the upper and the lower 32 bits of the seed.
Array key(std::int64_t seed, Where where = Where::current());
/// i32[count, 2]: keys that are independent of each other and of the one they follow from, which must not be
/// used again. A key of shape [..., 2] stands for several; results then have its leading axes first, here
/// and below.
Array split(const Array& key, std::int64_t count = 2, Where where = Where::current());
/// Independent random bits: integers of `dtype`, i32 or i64.
Array bits(const Array& key, const Shape& shape = {}, DType dtype = i32, Where where = Where::current());
/// Uniform in [low, high), of `dtype`, f32 or f64: multiples of 2^-23 (f32) or 2^-52 (f64) in [0, 1), which
/// are those of JAX, scaled and moved, which may round otherwise than JAX's compiler does.
Array uniform(const Array& key, const Shape& shape = {}, DType dtype = f64, double low = 0.0,
              double high = 1.0, Where where = Where::current());
/// Normal with mean 0 and variance 1, of `dtype`, f32 or f64: sqrt(2) erf_inv(uniform in (-1, 1)).
Array normal(const Array& key, const Shape& shape = {}, DType dtype = f64, Where where = Where::current());

}  // namespace tidu::random
