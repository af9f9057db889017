// layout.hpp - helpers for dense row-major arrays: strides, the shape around one axis, and the GEMM type of a
// dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/matmul/gemm.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cpu_detail {

/// Row-major strides of each axis, in elements.
inline std::vector<std::int64_t> strides_of(Type type) {
  std::vector<std::int64_t> strides(type.rank());
  std::int64_t stride = 1;
  for (std::size_t k = type.rank(); k-- > 0; stride *= type.dim(k)) strides[k] = stride;
  return strides;
}

/// An array viewed as [outer, extent, inner], where `extent` belongs to one axis.
struct AxisShape {
  std::int64_t outer = 1, extent = 1, inner = 1;
  static AxisShape of(Type type, std::size_t axis) {
    AxisShape shape{1, type.dim(axis), 1};
    for (std::size_t k = 0; k < axis; ++k) shape.outer *= type.dim(k);
    for (std::size_t k = axis + 1; k < type.rank(); ++k) shape.inner *= type.dim(k);
    return shape;
  }
  /// As of(), but all zeros if the array has no elements, so that there are no lines along the axis.
  static AxisShape of_lines(Type type, std::size_t axis) {
    return type.size() == 0 ? AxisShape{0, 0, 0} : of(type, axis);
  }
};

/// The GEMM type; none for bool and the 16-bit types.
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
