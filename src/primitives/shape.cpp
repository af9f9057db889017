// shape.cpp - primitives that give the elements of one operand another shape, order or dtype, and identities.
// All are linear; each record has its type rule, transpose and batch rule beside it.
#include <algorithm>

#include "axes.hpp"
#include "factor_rules.hpp"
#include "rules.hpp"
#include "simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec new_sizes[] = {{"new_sizes", AttributeKind::ints}};
constexpr AttributeSpec permutation_attribute[] = {{"permutation", AttributeKind::ints}};
constexpr AttributeSpec broadcast[] = {{"shape", AttributeKind::ints},
                                       {"broadcast_dimensions", AttributeKind::ints}};
constexpr AttributeSpec dimensions_attribute[] = {{"dimensions", AttributeKind::ints}};
constexpr AttributeSpec new_dtype[] = {{"new_dtype", AttributeKind::dtype}};
constexpr AttributeSpec instance[] = {{"instance", AttributeKind::integer}};
constexpr AttributeSpec devices[] = {{"device", AttributeKind::string}, {"src", AttributeKind::string}};

// The op on an operand with a leading axis, where its attribute `dimensions` lists axes.
Values batch_dimensions(BatchContext& c) {
  return emit_same(c, {{"dimensions", shifted(c.op().ints("dimensions"))}}, {c.operand(0)});
}

// The cotangent of broadcast_in_dim: summed over the axes that are new and those that an extent of 1 was
// spread over.
Value sum_to(Value ct, const Shape& shape, const Ints& broadcast_dims) {
  Ints summed = remaining(ct.rank(), broadcast_dims);
  bool adds = std::any_of(summed.begin(), summed.end(),
                          [&](std::int64_t axis) { return ct.shape()[static_cast<std::size_t>(axis)] != 1; });
  for (std::size_t i = 0; i < broadcast_dims.size(); ++i) {
    if (ct.shape()[static_cast<std::size_t>(broadcast_dims[i])] == shape[i]) continue;
    summed.push_back(broadcast_dims[i]);
    adds = true;
  }
  return ops::reshape(adds ? ops::reduce_sum(ct, summed) : ct, shape);
}

// One barrier over those values of `values` that are there; absent ones stay absent.
template <class Get>
Derivatives barrier_over(const Op& op, std::size_t count, const Get& get) {
  std::vector<Value> present;
  for (std::size_t i = 0; i < count; ++i) {
    if (const std::optional<Value> value = get(i)) present.push_back(*value);
  }
  if (present.empty()) return Derivatives::absent(count);
  const Values passed = emit(op, present);
  Derivatives all;
  for (std::size_t i = 0, next = 0; i < count; ++i) {
    all.push_back(get(i) ? std::optional<Value>(passed[next++]) : std::nullopt);
  }
  return all;
}

}  // namespace

// y has x's elements in row-major order          ct_x = reshape(ct, x.shape)
constinit const Primitive reshape{
    .name = "reshape",
    .attributes = new_sizes,
    .traits = Trait::shape_only | Trait::view,
    .linearity = linearity::linear,
    .infer =
        [](InferContext& c) {
          const Ints& sizes = c.op().ints("new_sizes");
          give(c, c.operand(0).dtype(), sizes);
          c.require(c.results()[0].size() == c.operand(0).size(), "expected new_sizes of ",
                    c.operand(0).size(), " elements for ", c.operand(0), ", got ", detail::list(sizes),
                    " of ", c.results()[0].size());
        },
    .transpose = [](TransposeContext& c) -> Derivatives {
      return ops::reshape(*c.cotangent(), c.operand_type(0).shape());
    },
    .batch = [](BatchContext& c) -> Values {
      return emit_same(c, {{"new_sizes", prepended(c.size(), c.op().ints("new_sizes"))}}, {c.operand(0)});
    },
    .simplify = simplify_view,
    .factors = factors_of_view,
    .resize = resize_new_sizes};

// axis i of y is axis permutation[i] of x          ct_x = transpose(ct, permutation⁻¹)
constinit const Primitive transpose{
    .name = "transpose",
    .attributes = permutation_attribute,
    .traits = Trait::shape_only,
    .linearity = linearity::linear,
    .infer =
        [](InferContext& c) {
          const Ints& order = c.op().ints("permutation");
          const Type x = c.operand(0);
          c.require(order.size() == x.rank(), "expected a permutation of ", x.rank(), " axes for ", x,
                    ", got ", detail::list(order));
          require_axes(c, "permutation", order, x.rank());
          c.result(x.dtype(), extents_at(x.shape(), order));
        },
    .transpose = [](TransposeContext& c) -> Derivatives {
      return ops::transpose(*c.cotangent(), inverse_permutation(c.op().ints("permutation")));
    },
    .batch = [](BatchContext& c) -> Values {
      return emit_same(c, {{"permutation", prepended(0, shifted(c.op().ints("permutation")))}},
                       {c.operand(0)});
    },
    .simplify = simplify_transpose,
    .factors = factors_of_transpose};

// axis i of x is axis broadcast_dimensions[i] of y          ct_x = sum of ct over the axes that x lacks or
// has with extent 1
constinit const Primitive broadcast_in_dim{
    .name = "broadcast_in_dim",
    .attributes = broadcast,
    .traits = Trait::shape_only | Trait::repeats,
    .linearity = linearity::linear,
    .infer =
        [](InferContext& c) {
          const Ints& shape = c.op().ints("shape");
          const Ints& broadcast_dims = c.op().ints("broadcast_dimensions");
          const Type x = c.operand(0);
          c.require(broadcast_dims.size() == x.rank(), "expected ", x.rank(), " broadcast_dimensions for ", x,
                    ", got ", detail::list(broadcast_dims));
          require_axes(c, "broadcast_dimensions", broadcast_dims, shape.size());
          c.require(std::is_sorted(broadcast_dims.begin(), broadcast_dims.end()),
                    "expected ascending broadcast_dimensions, got ", detail::list(broadcast_dims));
          for (std::size_t i = 0; i < broadcast_dims.size(); ++i) {
            const std::int64_t extent = shape[static_cast<std::size_t>(broadcast_dims[i])];
            c.require(x.dim(i) == 1 || x.dim(i) == extent, "dimension ", i, " of ", x, " is neither 1 nor ",
                      extent, ", which dimension ", broadcast_dims[i], " of shape ", detail::list(shape),
                      " is");
          }
          give(c, x.dtype(), shape);
        },
    .transpose = [](TransposeContext& c) -> Derivatives {
      return sum_to(*c.cotangent(), c.operand_type(0).shape(), c.op().ints("broadcast_dimensions"));
    },
    .batch = [](BatchContext& c) -> Values {
      return emit_same(c,
                       {{"shape", prepended(c.size(), c.op().ints("shape"))},
                        {"broadcast_dimensions", prepended(0, shifted(c.op().ints("broadcast_dimensions")))}},
                       {c.operand(0)});
    },
    .simplify = simplify_broadcast,
    .factors = factors_of_broadcast,
    .resize = resize_shape};

// y lacks the axes `dimensions` of x, each of extent 1          ct_x = expand_dims(ct, dimensions)
constinit const Primitive squeeze{.name = "squeeze",
                                  .attributes = dimensions_attribute,
                                  .traits = Trait::shape_only | Trait::view,
                                  .linearity = linearity::linear,
                                  .infer =
                                      [](InferContext& c) {
                                        const Ints& axes = c.op().ints("dimensions");
                                        const Type x = c.operand(0);
                                        require_axes(c, "dimensions", axes, x.rank());
                                        for (const std::int64_t axis : axes) {
                                          c.require(x.dim(static_cast<std::size_t>(axis)) == 1,
                                                    "expected extent 1 in dimension ", axis, ", got ", x);
                                        }
                                        c.result(x.dtype(), extents_at(x.shape(), remaining(x.rank(), axes)));
                                      },
                                  .transpose = [](TransposeContext& c) -> Derivatives {
                                    return ops::expand_dims(*c.cotangent(), c.op().ints("dimensions"));
                                  },
                                  .batch = batch_dimensions,
                                  .simplify = simplify_view,
                                  .factors = factors_of_view};

// y has further axes of extent 1, which are `dimensions` of y          ct_x = squeeze(ct, dimensions)
constinit const Primitive expand_dims{.name = "expand_dims",
                                      .attributes = dimensions_attribute,
                                      .traits = Trait::shape_only | Trait::view,
                                      .linearity = linearity::linear,
                                      .infer =
                                          [](InferContext& c) {
                                            const Ints& axes = c.op().ints("dimensions");
                                            const Type x = c.operand(0);
                                            Shape shape(x.rank() + axes.size(), 1);
                                            require_axes(c, "dimensions", axes, shape.size());
                                            std::size_t next = 0;
                                            for (const std::int64_t axis : remaining(shape.size(), axes))
                                              shape[static_cast<std::size_t>(axis)] = x.dim(next++);
                                            c.result(x.dtype(), shape);
                                          },
                                      .transpose = [](TransposeContext& c) -> Derivatives {
                                        return ops::squeeze(*c.cotangent(), c.op().ints("dimensions"));
                                      },
                                      .batch = batch_dimensions,
                                      .simplify = simplify_view,
                                      .factors = factors_of_view};

// y runs through x backward along `dimensions`          ct_x = rev(ct, dimensions)
constinit const Primitive rev{.name = "rev",
                              .attributes = dimensions_attribute,
                              .traits = Trait::shape_only,
                              .linearity = linearity::linear,
                              .infer =
                                  [](InferContext& c) {
                                    require_axes(c, "dimensions", c.op().ints("dimensions"),
                                                 c.operand(0).rank());
                                    c.result(c.operand(0));
                                  },
                              .transpose = [](TransposeContext& c) -> Derivatives {
                                return ops::rev(*c.cotangent(), c.op().ints("dimensions"));
                              },
                              .batch = batch_dimensions,
                              .simplify = simplify_rev,
                              .factors = factors_of_rev};

// y = x in another dtype          ct_x = ct in x's dtype, its real part where x is real. To and from
// integers: no derivative
constinit const Primitive convert_element_type{
    .name = "convert_element_type",
    .attributes = new_dtype,
    .traits = Trait::elementwise,
    .linearity = linearity::linear,
    .infer =
        [](InferContext& c) {
          const DType to = c.op().dtype("new_dtype");
          const Type x = c.operand(0);
          c.require(is_complex(to) || !is_complex(x.dtype()), "expected a complex new_dtype for ", x,
                    ", got ", to, " (real or imag take a part)");
          give(c, to, x.shape());
        },
    .jvp = [](JvpContext& c) -> Derivatives {
      if (!is_inexact(c.op().dtype("new_dtype"))) return std::nullopt;
      return ops::convert_element_type(*c.tangent(0), c.op().dtype("new_dtype"));
    },
    .transpose = [](TransposeContext& c) -> Derivatives {
      const DType from = c.operand_type(0).dtype();
      const bool drop_imaginary = is_complex(c.cotangent()->dtype()) && !is_complex(from);
      return ops::convert_element_type(drop_imaginary ? ops::real(*c.cotangent()) : *c.cotangent(), from);
    },
    .batch = batch_elementwise,
    .simplify = simplify_convert};

// y = x, without a derivative
constinit const Primitive stop_gradient{.name = "stop_gradient",
                                        .traits = Trait::elementwise | Trait::view | Trait::no_tangent,
                                        .infer = infer_same_type,
                                        .batch = batch_elementwise,
                                        .simplify = simplify_pass};

// y = x on `device`, where x is on `src`          ct_x = ct, copied back
constinit const Primitive device_put{
    .name = "device_put",
    .attributes = devices,
    .traits = Trait::elementwise | Trait::view,
    .linearity = linearity::linear,
    .infer =
        [](InferContext& c) {
          for (const char* which : {"device", "src"})
            c.require(!c.op().string(which).empty(), "expected the name of a device as ", which,
                      ", got an empty one");
          c.result(c.operand(0));
        },
    .transpose = [](TransposeContext& c) -> Derivatives {
      return ops::device_put(*c.cotangent(), c.op().string("src"), c.op().string("device"));
    },
    .batch = batch_elementwise,
    .simplify = simplify_pass};

// y_i = x_i          dy, ct_x: those that exist, after a separate barrier; batched operands stay batched and
// the others unchanged
constinit const Primitive optimization_barrier{
    .name = "optimization_barrier",
    .arity = variadic,
    .num_outputs = variadic,
    .attributes = instance,
    .traits = Trait::barrier | Trait::view,
    .linearity = linearity::linear,
    .infer =
        [](InferContext& c) {
          c.require(c.num_operands() > 0, "expected one operand or more, got none");
          for (const Type operand : c.operands()) c.result(operand);
        },
    .jvp = [](JvpContext& c) -> Derivatives {
      return barrier_over(c.op(), c.num_operands(), [&](std::size_t i) { return c.tangent(i); });
    },
    .transpose = [](TransposeContext& c) -> Derivatives {
      return barrier_over(c.op(), c.num_operands(),
                          [&](std::size_t i) { return c.linear(i) ? c.cotangent(i) : std::nullopt; });
    },
    .batch = [](BatchContext& c) -> Values {
      std::vector<Value> operands;
      for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(c.operand(i));
      return emit(c.op(), operands);
    }};

}  // namespace tidu::prim

namespace tidu::ops {

Value reshape(Value x, const Shape& new_sizes, Where where) {
  if (x.shape() == new_sizes) return x;
  return emit1(Op::make(prim::reshape, {{"new_sizes", new_sizes}}), {x}, where);
}

Value transpose(Value x, const Ints& permutation, Where where) {
  Ints order = prim::normal_axes(permutation, x.rank());
  if (order == prim::range(0, static_cast<std::int64_t>(x.rank()))) return x;
  return emit1(Op::make(prim::transpose, {{"permutation", std::move(order)}}), {x}, where);
}

Value broadcast_in_dim(Value x, const Shape& shape, const Ints& broadcast_dimensions, Where where) {
  Ints broadcast_dims = prim::normal_axes(broadcast_dimensions, shape.size());
  if (x.shape() == shape && broadcast_dims == prim::range(0, static_cast<std::int64_t>(shape.size())))
    return x;
  return emit1(Op::make(prim::broadcast_in_dim,
                        {{"shape", shape}, {"broadcast_dimensions", std::move(broadcast_dims)}}),
               {x}, where);
}

Value broadcast_scalar(Value x, const Shape& shape, Where where) {
  return broadcast_in_dim(x, shape, {}, where);
}

Value squeeze(Value x, const Ints& dimensions, Where where) {
  if (dimensions.empty()) return x;
  Ints axes = prim::normal_axes(dimensions, x.rank());
  std::sort(axes.begin(), axes.end());
  return emit1(Op::make(prim::squeeze, {{"dimensions", std::move(axes)}}), {x}, where);
}

Value expand_dims(Value x, const Ints& dimensions, Where where) {
  if (dimensions.empty()) return x;
  Ints axes = prim::normal_axes(dimensions, x.rank() + dimensions.size());
  std::sort(axes.begin(), axes.end());
  return emit1(Op::make(prim::expand_dims, {{"dimensions", std::move(axes)}}), {x}, where);
}

Value rev(Value x, const Ints& dimensions, Where where) {
  if (dimensions.empty()) return x;
  Ints axes = prim::normal_axes(dimensions, x.rank());
  std::sort(axes.begin(), axes.end());
  return emit1(Op::make(prim::rev, {{"dimensions", std::move(axes)}}), {x}, where);
}

Value convert_element_type(Value x, DType new_dtype, Where where) {
  if (x.dtype() == new_dtype) return x;
  return emit1(Op::make(prim::convert_element_type, {{"new_dtype", new_dtype}}), {x}, where);
}

Value stop_gradient(Value x, Where where) { return emit1(plain_op<prim::stop_gradient>(), {x}, where); }

Value device_put(Value x, std::string_view device, std::string_view src, Where where) {
  return emit1(Op::make(prim::device_put, {{"device", device}, {"src", src}}), {x}, where);
}

Values optimization_barrier(std::span<const Value> operands, std::int64_t instance, Where where) {
  return emit(Op::make(prim::optimization_barrier, {{"instance", instance}}), operands, where);
}

}  // namespace tidu::ops
