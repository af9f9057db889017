// structural.hpp - shape, indexing, reduction, contraction and graph-holding primitives of the standard set:
// their records (tidu::prim) and the functions that emit them (tidu::ops). Semantics and names are those of
// jax.lax. The functions accept negative axes, which count from the end, and sort the axes of reductions; the
// records require the normal form.
#pragma once

#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Shapes, conversions, and identities.
extern const Primitive reshape, transpose, broadcast_in_dim, squeeze, expand_dims, rev, slice, pad,
    concatenate, convert_element_type, stop_gradient, device_put, optimization_barrier;
/// Slices at computed positions.
extern const Primitive dynamic_slice, dynamic_update_slice;
/// Elements at computed positions.
extern const Primitive take, scatter_add, take_along_axis, scatter_add_along_axis;
/// Reductions and scans.
extern const Primitive reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and, reduce_or, argmax, argmin,
    cumsum, cumprod, cummax, cummin, cumlogsumexp, logsumexp;
/// Order along an axis.
extern const Primitive sort, top_k;
/// Contractions.
extern const Primitive dot_general;
/// A graph as one operation.
extern const Primitive call;

/// The records of this header, in the order of the documentation's table.
std::vector<const Primitive*> structural_primitives();

}  // namespace tidu::prim

namespace tidu::ops {
/// The source location of the caller.

using Source = Where;

/// The elements in another shape, in row-major order.
Value reshape(Value x, const Shape& new_sizes, Where where = Source::current());
/// Axis i of the result is axis permutation[i] of x.
Value transpose(Value x, const Ints& permutation, Where where = Source::current());
/// Axis i of x becomes axis broadcast_dimensions[i] of the result, whose extent is x's or x's is 1.
Value broadcast_in_dim(Value x, const Shape& shape, const Ints& broadcast_dimensions,
                       Where where = Source::current());
/// A scalar made to fill `shape`; the scalar itself when the shape is empty.
Value broadcast_scalar(Value x, const Shape& shape, Where where = Source::current());
/// x without these axes, which have extent 1.
Value squeeze(Value x, const Ints& dimensions, Where where = Source::current());
/// x with new axes of extent 1 at these positions of the result.
Value expand_dims(Value x, const Ints& dimensions, Where where = Source::current());
/// x in reverse order along these axes.
Value rev(Value x, const Ints& dimensions, Where where = Source::current());
/// Empty strides stand for ones.
Value slice(Value x, const Ints& start_indices, const Ints& limit_indices, const Ints& strides = {},
            Where where = Source::current());
/// padding_config: [low, high, interior] per axis; low and high may be negative.
Value pad(Value x, Value padding_value, const IntLists& padding_config, Where where = Source::current());
/// One after another along an axis.
Value concatenate(std::span<const Value> operands, std::int64_t dimension, Where where = Source::current());
/// Converted as docs/primitives.md says.
Value convert_element_type(Value x, DType new_dtype, Where where = Source::current());
/// x, without a tangent.
Value stop_gradient(Value x, Where where = Source::current());
/// x on the device of that name ("cpu", "cuda:0"), from device `src`. An executor runs a graph on one device,
/// so the operation is the identity there; the frontend runs graphs over several devices (docs/cuda.md).
Value device_put(Value x, std::string_view device, std::string_view src, Where where = Source::current());
/// Passes its operands through and keeps them from being merged with values that do not pass; one instance,
/// one barrier.
Values optimization_barrier(std::span<const Value> operands, std::int64_t instance,
                            Where where = Source::current());

/// x[start : start + slice_sizes]; `starts` are integer scalars of one dtype, one for each dimension of x,
/// each clamped to [0, extent - size].
Value dynamic_slice(Value x, std::span<const Value> starts, const Ints& slice_sizes,
                    Where where = Source::current());
/// x with `update` at x[start : start + update.shape]; `starts` as in dynamic_slice.
Value dynamic_update_slice(Value x, Value update, std::span<const Value> starts,
                           Where where = Source::current());

/// mode: "clip" or "drop".
Value take(Value x, Value indices, std::int64_t axis, std::string_view mode = "clip",
           Where where = Source::current());
/// x with `updates` added at these positions.
Value scatter_add(Value x, Value indices, Value updates, std::int64_t axis, std::string_view mode = "clip",
                  Where where = Source::current());
/// The elements at `indices`, which has x's rank and, but along `axis`, its extents.
Value take_along_axis(Value x, Value indices, std::int64_t axis, std::string_view mode = "clip",
                      Where where = Source::current());
/// x with `updates` added at these positions.
Value scatter_add_along_axis(Value x, Value indices, Value updates, std::int64_t axis,
                             std::string_view mode = "clip", Where where = Source::current());

/// Over these axes. reduce_max and reduce_min share a cotangent among equal elements.
Value reduce_sum(Value x, const Ints& axes, Where where = Source::current());
Value reduce_prod(Value x, const Ints& axes, Where where = Source::current());
Value reduce_max(Value x, const Ints& axes, Where where = Source::current());
Value reduce_min(Value x, const Ints& axes, Where where = Source::current());
Value reduce_and(Value x, const Ints& axes, Where where = Source::current());
Value reduce_or(Value x, const Ints& axes, Where where = Source::current());
/// Position of the first greatest (least) element along an axis.
Value argmax(Value x, std::int64_t axis, DType index_dtype = i32, Where where = Source::current());
Value argmin(Value x, std::int64_t axis, DType index_dtype = i32, Where where = Source::current());
/// Cumulative sum along `axis`, each element included; from the end when `reverse`.
Value cumsum(Value x, std::int64_t axis, bool reverse = false, Where where = Source::current());
Value cumprod(Value x, std::int64_t axis, bool reverse = false, Where where = Source::current());
Value cummax(Value x, std::int64_t axis, bool reverse = false, Where where = Source::current());
Value cummin(Value x, std::int64_t axis, bool reverse = false, Where where = Source::current());
Value cumlogsumexp(Value x, std::int64_t axis, bool reverse = false, Where where = Source::current());
/// log of the sum of exp over these axes, without overflow.
Value logsumexp(Value x, const Ints& axes, Where where = Source::current());

/// Operands of one shape, all permuted alike along `dimension`: sorted by the first, among equal elements by
/// the second, and so on for `num_keys` of them. The sort is stable. NaN is last, -0 equals 0, complex
/// numbers are ordered by real, then by imaginary part.
Values sort(std::span<const Value> operands, std::int64_t dimension, std::int64_t num_keys = 1,
            Where where = Source::current());
/// One operand; -1 is the last axis.
Value sort(Value x, std::int64_t dimension = -1, Where where = Source::current());
/// The k greatest along the last axis, descending, and their indices (i32): {values, indices}. NaN counts as
/// the greatest, 0 as greater than -0; among equal elements the lowest index is first.
Values top_k(Value x, std::int64_t k, Where where = Source::current());

/// Axes that are contracted and axes that are batched, of either operand.
struct DotDimensionNumbers {
  Ints lhs_contracting{};  ///< axes of lhs that are summed over
  Ints rhs_contracting{};  ///< their partners in rhs, in order
  Ints lhs_batch{};        ///< axes of lhs that index the products
  Ints rhs_batch{};        ///< their partners in rhs, in order
};
/// Result axes: batch, then lhs free, then rhs free.
Value dot_general(Value lhs, Value rhs, const DotDimensionNumbers& dimension_numbers,
                  Where where = Source::current());
/// [m,k] x [k,n] -> [m,n]; also [k] on either side.
Value matmul(Value lhs, Value rhs, Where where = Source::current());

/// The outputs of `graph` on `operands`, as one operation.
Values call(const Graph& graph, std::span<const Value> operands, Where where = Source::current());
Values call(Emitter& emitter, const Graph& graph, std::span<const Value> operands,
            Where where = Source::current());

}  // namespace tidu::ops
