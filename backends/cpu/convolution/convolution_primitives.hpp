// convolution_primitives.hpp - a convolution planned as primitives of oneDNN, whose types stay behind this
// header; see Note [Convolutions by oneDNN].
#pragma once

#if defined(TIDU_WITH_ONEDNN)
#include <oneapi/dnnl/dnnl.h>
#endif

// Version 3 describes convolutions by other functions.
#if defined(TIDU_WITH_ONEDNN) && DNNL_VERSION_MAJOR == 2
#define TIDU_WITH_ONEDNN_CONVOLUTIONS

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/convolution/convolution.hpp"

namespace tidu::cpu_detail::onednn {

/// Of handles.
struct Destroy {
  void operator()(dnnl_primitive_t p) const { dnnl_primitive_destroy(p); }
  void operator()(dnnl_primitive_desc_t p) const { dnnl_primitive_desc_destroy(p); }
  void operator()(dnnl_primitive_attr_t p) const { dnnl_primitive_attr_destroy(p); }
  void operator()(dnnl_memory_t p) const { dnnl_memory_destroy(p); }
  void operator()(dnnl_stream_t p) const { dnnl_stream_destroy(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Destroy>;
/// Shape and format of an operand.
using Memory = dnnl_memory_desc_t;

/// What oneDNN does not do while planning is left to our own code.
struct Refused {
  dnnl_status_t status;
};

/// Throws Refused where there is none.
dnnl_engine_t engine();

/// A multiple of 64.
inline std::int64_t aligned_size(const Memory& m) {
  return static_cast<std::int64_t>((dnnl_memory_desc_get_size(&m) + 63) / 64 * 64);
}

/// A primitive, and the scratch memory that it is given.
struct Step {
  Owned<dnnl_primitive> primitive;  // null: nothing to do
  Memory scratchpad{};
};

/// Which primitive.
enum class Kind { forward, data, weights };

/// One spatial axis as oneDNN has it.
struct PrimitiveAxis {
  std::int64_t stride, dilation, low, high;
};

/// A call on some of what is cut: `members` of the batch, or of the terms of weights.
struct Part {
  std::int64_t members = 0;
  Memory lhs{}, kernel{}, out{};              // as they lie in memory; of data the kernel after its flip
  Memory own_lhs{}, own_kernel{}, own_out{};  // as the primitive wants them
  Step take_lhs, take_kernel, give_out, convolve;
};

/// A planned convolution.
struct PrimitiveState {
  Kind kind = Kind::forward;
  ConvShape shape{};
  std::vector<PrimitiveAxis> axes;
  int threads = 1;
  std::int64_t lhs_at = 0;                     // offset of what is not cut off by negative padding
  std::int64_t members = 0;                    // of what is cut
  std::int64_t lhs_step = 0, other_step = 0;   // its strides in lhs and the other one
  std::int64_t chunk = 1, chunks = 1;          // members of a part, parts
  std::int64_t sums = 1;                       // of weights: groups of parts, each with a partial sum
  std::int64_t results = 1, result_parts = 1;  // features of the result in a part
  std::array<Part, 2> parts;                   // whole ones, and the last where it is smaller
  StridedCopy flip;
  bool flips = false;
  std::int64_t flip_bytes = 0, kernel_bytes = 0, lhs_bytes = 0, out_bytes = 0, scratch_bytes = 0;

  const Part& part(std::int64_t chunk_number) const { return parts[chunk_number + 1 == chunks ? 1 : 0]; }
  std::int64_t slot_bytes() const {
    return lhs_bytes + std::max(kind == Kind::weights ? kernel_bytes : 0, flip_bytes) + out_bytes +
           scratch_bytes;
  }
  // Of packed kernels, or of partial sums.
  std::int64_t shared_bytes() const {
    const std::int64_t count = shape.groups * result_parts;
    return count * (kind == Kind::weights ? sums * out_bytes : kernel_bytes);
  }
};

/// None where oneDNN has no fast code for this convolution, or where our own measured faster. Throws Refused.
std::optional<PrimitiveState> plan_primitives(const ConvShape& shape, int threads);

}  // namespace tidu::cpu_detail::onednn

#endif
