// convolution_layers.hpp - convolutions of layers as graphs, which a library has: strides, dilation, padding,
// groups, features before places or after them.
#pragma once

#include <vector>

#include "tidu/graph/builder.hpp"
#include "tidu/graph/primitive_set.hpp"
#include "tidu/primitives/convolution.hpp"

namespace tidu::test {

struct ConvolutionLayer {
  Shape x, w;  ///< [batch, features, places], [results, features of a group, places]
  Ints strides, dilation;
  IntLists padding;
  std::int64_t groups = 1;
  bool features_last = false;
};

/// Layers of one to three axes, first those with features before places, then the same with features last.
inline std::vector<ConvolutionLayer> convolution_layers() {
  std::vector<ConvolutionLayer> all{
      {{2, 3, 6, 5}, {4, 3, 3, 2}, {1, 1}, {1, 1}, {{0, 0}, {0, 0}}},
      {{2, 3, 6, 5}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}},
      {{2, 3, 7, 6}, {4, 3, 3, 2}, {2, 1}, {1, 2}, {{1, 1}, {0, 0}}},
      {{2, 3, 7, 7}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {{1, 1}, {1, 1}}},
      {{2, 3, 9}, {2, 3, 3}, {2}, {1}, {{1, 1}}},
      {{1, 2, 4, 3, 5}, {3, 2, 2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {{0, 0}, {1, 1}, {0, 0}}},
      {{2, 4, 5, 5}, {6, 2, 3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}, 2},
      {{2, 3, 6, 6}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {{0, 1}, {0, 1}}},  // more behind than before
  };
  for (std::size_t i = 0, count = all.size(); i < count; ++i) {
    all.push_back(all[i]);
    all.back().features_last = true;
  }
  return all;
}

inline Shape with_features(const Shape& shape, bool features_last) {
  if (!features_last) return shape;
  Shape result{shape[0]};
  result.insert(result.end(), shape.begin() + 2, shape.end());
  result.push_back(shape[1]);
  return result;
}
/// Of x as it is said; the kernel always with features second.
inline Graph graph_of(const ConvolutionLayer& layer, DType dtype) {
  const auto rank = static_cast<std::int64_t>(layer.x.size());
  Ints first, last{0, rank - 1};
  for (std::int64_t k = 0; k < rank; ++k) first.push_back(k);
  for (std::int64_t k = 1; k + 1 < rank; ++k) last.push_back(k);
  const Ints& order = layer.features_last ? last : first;
  const Op op = Op::make(prim::conv_general_dilated, {{"window_strides", layer.strides},
                                                      {"padding", layer.padding},
                                                      {"lhs_dilation", Ints(layer.strides.size(), 1)},
                                                      {"rhs_dilation", layer.dilation},
                                                      {"dimension_numbers", IntLists{order, first, order}},
                                                      {"feature_group_count", layer.groups}});
  GraphBuilder builder("layer", standard_primitives());
  const Value x = builder.input("x", Type(dtype, with_features(layer.x, layer.features_last))),
              w = builder.input("w", Type(dtype, layer.w));
  return builder.build({emit1(op, {x, w})});
}

}  // namespace tidu::test
