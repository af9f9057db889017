// layout.hpp - how dense row-major operands lie in memory, and which matrix product takes their dtype.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/gemm.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cpu_detail {

/// Of each axis, in elements.
inline std::vector<std::int64_t> strides_of(Type type) {
  std::vector<std::int64_t> strides(type.rank());
  std::int64_t stride = 1;
  for (std::size_t k = type.rank(); k-- > 0; stride *= type.dim(k)) strides[k] = stride;
  return strides;
}

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
