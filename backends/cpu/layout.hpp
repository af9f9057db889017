// layout.hpp - how dense row-major operands lie in memory, and which matrix product takes their dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/products/gemm.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cpu_detail {

/// Of each axis, in elements.
inline std::vector<std::int64_t> strides_of(Type type) {
  std::vector<std::int64_t> strides(type.rank());
  std::int64_t stride = 1;
  for (std::size_t k = type.rank(); k-- > 0; stride *= type.dim(k)) strides[k] = stride;
  return strides;
}

/// An array as [outer, extent, inner], the one in the middle being one of its axes.
struct AxisShape {
  std::int64_t outer = 1, extent = 1, inner = 1;
  static AxisShape of(Type type, std::size_t axis) {
    AxisShape shape{1, type.dim(axis), 1};
    for (std::size_t k = 0; k < axis; ++k) shape.outer *= type.dim(k);
    for (std::size_t k = axis + 1; k < type.rank(); ++k) shape.inner *= type.dim(k);
    return shape;
  }
  /// Of the lines along the axis: none where there are no elements, whatever the other extents are.
  static AxisShape of_lines(Type type, std::size_t axis) {
    return type.size() == 0 ? AxisShape{0, 0, 0} : of(type, axis);
  }
};

/// None for bool and the 16-bit types.
inline std::optional<GemmType> gemm_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return GemmType::f32;
    case DType::f64: return GemmType::f64;
    case DType::c64: return GemmType::c64;
    case DType::c128: return GemmType::c128;
    case DType::i32: return GemmType::i32;
    case DType::i64: return GemmType::i64;
    default: return std::nullopt;
  }
}

}  // namespace tidu::cpu_detail
