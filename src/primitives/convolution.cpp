// convolution.cpp - conv_general_dilated. Its transposes are convolutions again. That by lhs convolves the
// cotangent with the flipped kernel, with strides and dilations of lhs exchanged. That by rhs convolves lhs
// with the cotangent as kernel, with batch and features exchanged. Groups, and batch axes on both operands,
// become feature groups of the new convolution: an axis is split off one axis and merged into another.
#include "tidu/primitives/convolution.hpp"

#include "axes.hpp"
#include "factor_rules.hpp"
#include "rules.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "windows.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec convolution_attributes[] = {
    {"window_strides", AttributeKind::ints},
    {"padding", AttributeKind::int_lists},
    {"lhs_dilation", AttributeKind::ints},
    {"rhs_dilation", AttributeKind::ints},
    {"dimension_numbers", AttributeKind::conv_dimension_numbers},
    {"feature_group_count", AttributeKind::integer}};

ops::Convolution convolution_of(const Op& op) {
  const IntLists& specs = op.lists("dimension_numbers");
  return {op.ints("window_strides"),      op.lists("padding"),
          op.ints("lhs_dilation"),        op.ints("rhs_dilation"),
          {specs[0], specs[1], specs[2]}, op.integer("feature_group_count")};
}

std::size_t axis(const Ints& spec, std::size_t place) { return static_cast<std::size_t>(spec[place]); }

// The spatial extents of an operand, in the order of its spec.
Shape spatial(const Shape& shape, const Ints& spec) {
  return extents_at(shape, Ints(spec.begin() + 2, spec.end()));
}

void require_spec(const InferContext& c, std::string_view what, const Ints& spec, std::size_t rank) {
  c.require(spec.size() == rank, "expected ", what, " to name the ", rank, " axes, got ", detail::list(spec));
  require_axes(c, what, spec, rank);
}

void infer_convolution(InferContext& c) {
  const Type lhs = c.operand(0), rhs = c.operand(1);
  require_numeric(c, 0);
  c.require(lhs.dtype() == rhs.dtype(), "expected operands of one dtype, got ", lhs, " and ", rhs);
  c.require(lhs.rank() == rhs.rank() && lhs.rank() >= 2, "expected operands of one rank of at least 2, got ",
            lhs, " and ", rhs);
  c.require(c.op().lists("dimension_numbers").size() == 3,
            "expected dimension_numbers of lhs_spec, rhs_spec and out_spec");
  const ops::Convolution conv = convolution_of(c.op());
  const auto& [lhs_spec, rhs_spec, out_spec] = conv.dimension_numbers;
  require_spec(c, "lhs_spec", lhs_spec, lhs.rank());
  require_spec(c, "rhs_spec", rhs_spec, lhs.rank());
  require_spec(c, "out_spec", out_spec, lhs.rank());
  const std::size_t count = lhs.rank() - 2;
  require_counts(c, "window_strides", conv.window_strides, count);
  require_counts(c, "lhs_dilation", conv.lhs_dilation, count);
  require_counts(c, "rhs_dilation", conv.rhs_dilation, count);
  require_padding(c, conv.padding, count);

  const std::int64_t groups = conv.feature_group_count;
  c.require(groups >= 1, "expected feature_group_count >= 1, got ", groups);
  const std::int64_t features = lhs.dim(axis(lhs_spec, 1)), of_group = rhs.dim(axis(rhs_spec, 1));
  const std::int64_t results = rhs.dim(axis(rhs_spec, 0));
  c.require(checked_mul(c, of_group, groups) == features, "expected lhs ", lhs, " to have ", groups,
            " times the ", of_group, " features (dimension ", rhs_spec[1], ") of rhs ", rhs, ", got ",
            features, " (dimension ", lhs_spec[1], ')');
  c.require(results % groups == 0, "expected the ", results, " result features (dimension ", rhs_spec[0],
            ") of rhs ", rhs, " to be a multiple of feature_group_count ", groups);

  Shape shape(lhs.rank());
  shape[axis(out_spec, 0)] = lhs.dim(axis(lhs_spec, 0));
  shape[axis(out_spec, 1)] = results;
  for (std::size_t k = 0; k < count; ++k) {
    const Ints& padding = conv.padding[k];
    const std::int64_t spread = checked_dilated(c, lhs.dim(axis(lhs_spec, k + 2)), conv.lhs_dilation[k]);
    const std::int64_t padded = checked_add(c, spread, checked_add(c, padding[0], padding[1]));
    c.require(padded >= 0, "padding ", detail::list(padding), " cuts more than there is in dimension ",
              lhs_spec[k + 2], " of ", lhs);
    const std::int64_t window = checked_dilated(c, rhs.dim(axis(rhs_spec, k + 2)), conv.rhs_dilation[k]);
    shape[axis(out_spec, k + 2)] = windows_in(padded, window, conv.window_strides[k]);
  }
  give(c, lhs.dtype(), shape);
}

// Axis `at` of n count elements as two, of extents n and count.
Value split_axis(Value x, std::size_t at, std::int64_t n) {
  Shape shape = x.shape();
  const std::int64_t rest = shape[at] / n;
  shape[at] = n;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at) + 1, rest);
  return ops::reshape(x, shape);
}

// Removes axis `from`, which becomes the slower part of axis `into` of the result.
Value merge_axis(Value x, std::size_t from, std::size_t into) {
  const Value moved = move_axis(x, from, into);
  Shape shape = moved.shape();
  shape[into] *= shape[into + 1];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(into) + 1);
  return ops::reshape(moved, shape);
}

// Groups as the slower part of axis `from` become the slower part of axis `to`.
Value move_groups(Value x, std::size_t from, std::size_t to, std::int64_t groups) {
  return groups == 1 ? x : merge_axis(split_axis(x, from, groups), from, to);
}

Ints swapped(Ints spec) {
  std::swap(spec[0], spec[1]);
  return spec;
}

Value conjugated(Value x) { return is_complex(x.dtype()) ? ops::conj(x) : x; }

// If an element of lhs meets kernel position k at window p, ct_p meets the flipped kernel at that element.
Value transpose_lhs(Value ct, Value rhs, const ops::Convolution& conv, const Shape& lhs) {
  const auto& [lhs_spec, rhs_spec, out_spec] = conv.dimension_numbers;
  const Shape from = spatial(lhs, lhs_spec), kernel = spatial(rhs.shape(), rhs_spec),
              to = spatial(ct.shape(), out_spec);
  ops::Convolution back{conv.lhs_dilation,
                        {},
                        conv.window_strides,
                        conv.rhs_dilation,
                        {out_spec, swapped(rhs_spec), lhs_spec},
                        conv.feature_group_count};
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::int64_t window = dilated(kernel[k], conv.rhs_dilation[k]);
    const std::int64_t low = window - 1 - conv.padding[k][0];
    back.padding.push_back({low, dilated(from[k], conv.lhs_dilation[k]) + window - 1 -
                                     dilated(to[k], conv.window_strides[k]) - low});
  }
  const Value moved = move_groups(rhs, axis(rhs_spec, 0), axis(rhs_spec, 1), conv.feature_group_count);
  const Value flipped = ops::rev(moved, Ints(rhs_spec.begin() + 2, rhs_spec.end()));
  return ops::conv_general_dilated(ct, conjugated(flipped), back);
}

// The kernel's positions are the windows of ct, dilated by the strides, in lhs; sums run over the batch.
Value transpose_rhs(Value ct, Value lhs, const ops::Convolution& conv, const Shape& rhs) {
  const auto& [lhs_spec, rhs_spec, out_spec] = conv.dimension_numbers;
  const Shape from = spatial(lhs.shape(), lhs_spec), kernel = spatial(rhs, rhs_spec),
              to = spatial(ct.shape(), out_spec);
  ops::Convolution back{conv.rhs_dilation,
                        {},
                        conv.lhs_dilation,
                        conv.window_strides,
                        {swapped(lhs_spec), swapped(out_spec), swapped(rhs_spec)},
                        conv.feature_group_count};
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::int64_t low = conv.padding[k][0];
    back.padding.push_back({low, dilated(to[k], conv.window_strides[k]) +
                                     dilated(kernel[k], conv.rhs_dilation[k]) - 1 -
                                     dilated(from[k], conv.lhs_dilation[k]) - low});
  }
  const Value moved = move_groups(lhs, axis(lhs_spec, 1), axis(lhs_spec, 0), conv.feature_group_count);
  return ops::conv_general_dilated(conjugated(moved), ct, back);
}

Derivatives transpose_convolution(TransposeContext& c) {
  const ops::Convolution conv = convolution_of(c.op());
  const Value ct = *c.cotangent();
  const std::size_t wanted = c.linear(0) ? 0 : 1;
  const Value other = c.operand(1 - wanted);
  const Shape& shape = c.operand_type(wanted).shape();
  Derivatives result = Derivatives::absent(2);
  if (ct.type().size() == 0 || other.type().size() == 0 || c.operand_type(wanted).size() == 0) {
    result.set(wanted, sum_of_none(ct, c.operand_type(wanted)));
    return result;
  }
  result.set(wanted,
             wanted == 0 ? transpose_lhs(ct, other, conv, shape) : transpose_rhs(ct, other, conv, shape));
  return result;
}

// A leading axis of lhs alone is merged into its batch, that of rhs alone into its result features, within
// their group; a leading axis of both becomes groups.
Values batch_convolution(BatchContext& c) {
  ops::Convolution conv = convolution_of(c.op());
  const auto& [lhs_spec, rhs_spec, out_spec] = conv.dimension_numbers;
  const std::int64_t groups = conv.feature_group_count;
  if (c.size() == 0) {
    const Type result = infer_types(c.op(), std::vector<Type>{c.operand_type(0), c.operand_type(1)})[0];
    return zeros(c.emitter(), result.with_shape(prepended(0, result.shape())));
  }
  const std::size_t batch = axis(out_spec, 0), feature = axis(out_spec, 1), kernel = axis(rhs_spec, 0);
  if (c.batched(0) && c.batched(1)) {
    conv.feature_group_count *= c.size();
    const Value lhs = merge_axis(c.operand(0), 0, axis(lhs_spec, 1));
    const Value out = ops::conv_general_dilated(lhs, merge_axis(c.operand(1), 0, kernel), conv);
    return move_axis(split_axis(out, feature, c.size()), feature, 0);
  }
  if (c.batched(0)) {
    const Value out =
        ops::conv_general_dilated(merge_axis(c.operand(0), 0, axis(lhs_spec, 0)), c.operand(1), conv);
    return move_axis(split_axis(out, batch, c.size()), batch, 0);
  }
  if (groups == 1) {
    const Value out = ops::conv_general_dilated(c.operand(0), merge_axis(c.operand(1), 0, kernel), conv);
    return move_axis(split_axis(out, feature, c.size()), feature, 0);
  }
  const Value within = merge_axis(split_axis(c.operand(1), kernel + 1, groups), 0, kernel + 1);
  const Value out = ops::conv_general_dilated(c.operand(0), merge_axis(within, kernel, kernel), conv);
  const Value split = split_axis(split_axis(out, feature, groups), feature + 1, c.size());
  return merge_axis(move_axis(split, feature + 1, 0), feature + 1, feature + 1);
}

}  // namespace

// z = x * w          ct_x = ct * flipped conj(w), ct_w = conj(x) * ct
constinit const Primitive conv_general_dilated{.name = "conv_general_dilated",
                                               .arity = 2,
                                               .attributes = convolution_attributes,
                                               .traits = Trait::contraction,
                                               .linearity = linearity::bilinear,
                                               .infer = infer_convolution,
                                               .transpose = transpose_convolution,
                                               .batch = batch_convolution,
                                               .factors = factors_of_convolution};

}  // namespace tidu::prim

namespace tidu::ops {

Value conv_general_dilated(Value lhs, Value rhs, const Convolution& convolution, Where where) {
  const std::size_t spatial = lhs.rank() < 2 ? 0 : lhs.rank() - 2;
  const auto ones = [spatial](const Ints& given) { return given.empty() ? Ints(spatial, 1) : given; };
  const auto counting = [](const Ints& given, std::size_t rank) {
    return given.empty() ? prim::range(0, static_cast<std::int64_t>(rank)) : given;
  };
  const ConvDimensionNumbers& numbers = convolution.dimension_numbers;
  IntLists specs{counting(numbers.lhs_spec, lhs.rank()), counting(numbers.rhs_spec, rhs.rank()),
                 counting(numbers.out_spec, lhs.rank())};
  return emit1(
      Op::make(prim::conv_general_dilated,
               {{"window_strides", ones(convolution.window_strides)},
                {"padding", convolution.padding.empty() ? prim::no_padding(spatial) : convolution.padding},
                {"lhs_dilation", ones(convolution.lhs_dilation)},
                {"rhs_dilation", ones(convolution.rhs_dilation)},
                {"dimension_numbers", std::move(specs)},
                {"feature_group_count", convolution.feature_group_count}}),
      {lhs, rhs}, where);
}

}  // namespace tidu::ops
