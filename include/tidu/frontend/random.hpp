// random.hpp - random Arrays as functions of a key, as in jax.random: the same key gives the same numbers, in
// every run, on every backend, and those of JAX (Threefry-2x32, partitionable). There is no state: split a
// key into as many as there are uses. All throw Error (type, invalid_argument) that names function, types and
// the user's source location.
#pragma once

#include <cstdint>
#include <optional>

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
/// Uniform in [low, high), of `dtype`, f32 or f64. Multiples of 2^-23 (f32) or 2^-52 (f64) in [0, 1), equal
/// to JAX's, are scaled and shifted. This may round differently than with JAX's compiler; it gives `high`
/// itself where neighbouring numbers of `dtype` are further apart than such multiples of high - low.
Array uniform(const Array& key, const Shape& shape = {}, DType dtype = f64, double low = 0.0,
              double high = 1.0, Where where = Where::current());
/// Normal with mean 0 and variance 1, of `dtype`, f32 or f64: sqrt(2) erf_inv(uniform in (-1, 1)).
Array normal(const Array& key, const Shape& shape = {}, DType dtype = f64, Where where = Where::current());
/// Integers in [low, high) of `dtype`, i32 or i64, equal to JAX's in every bit. Throws Error
/// (invalid_argument) unless low < high and the dtype represents all numbers of the range.
Array randint(const Array& key, const Shape& shape, std::int64_t low, std::int64_t high, DType dtype = i64,
              Where where = Where::current());
/// 0, 1, ... n - 1 in a random order, as i64.
Array permutation(const Array& key, std::int64_t n, Where where = Where::current());
/// The sub-arrays of x along an axis in a random order, by one key. Gradients go to where they were.
Array permutation(const Array& key, const Array& x, std::int64_t axis = 0, Where where = Where::current());
/// Bools that are true with probability p, a number or an Array of f32 or f64, of p's shape or of one that p
/// broadcasts to.
Array bernoulli(const Array& key, const ArrayLike& p = 0.5);
Array bernoulli(const Array& key, const ArrayLike& p, const Shape& shape);
/// Gumbel's distribution, of `dtype`, f32 or f64: -log(-log(uniform)).
Array gumbel(const Array& key, const Shape& shape = {}, DType dtype = f64, Where where = Where::current());
/// Positions (i32) along an axis of the logits, f32 or f64, each with a probability proportional to
/// exp(logit). Their shape is that of the other axes, or a `shape` that ends with their extents. Uses one
/// key.
Array categorical(const Array& key, const Array& logits, std::int64_t axis = -1,
                  Where where = Where::current());
Array categorical(const Array& key, const Array& logits, std::int64_t axis, const Shape& shape,
                  Where where = Where::current());
/// Exponential with mean 1, of `dtype`, f32 or f64: -log(1 - uniform).
Array exponential(const Array& key, const Shape& shape = {}, DType dtype = f64,
                  Where where = Where::current());
/// Normal with mean 0 and variance 1, but between low and high alone, of `dtype`, f32 or f64. Throws Error
/// (invalid_argument) unless low < high.
Array truncated_normal(const Array& key, double low, double high, const Shape& shape = {}, DType dtype = f64,
                       Where where = Where::current());

}  // namespace tidu::random
