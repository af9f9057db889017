// convolution_primitives.hpp - plans a convolution as primitives of oneDNN. Only the implementation of
// convolution_onednn.hpp includes it, which hides oneDNN's types; see Note [Convolutions by oneDNN].
#pragma once

#if defined(TIDU_WITH_ONEDNN)
#include <oneapi/dnnl/dnnl.h>
#endif

// Version 3 has other functions for convolutions.
#if defined(TIDU_WITH_ONEDNN) && DNNL_VERSION_MAJOR == 2
#define TIDU_WITH_ONEDNN_CONVOLUTIONS

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/convolution/convolution.hpp"

namespace tidu::cpu_detail::onednn {

/// Deletes handles.
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

/// oneDNN refused to plan; tidu's own code computes the convolution then.
struct Refused {
  dnnl_status_t status;
};

/// Throws Refused if there is no engine.
dnnl_engine_t engine();

/// Bytes, as a multiple of 64.
inline std::int64_t aligned_size(const Memory& m) {
  return static_cast<std::int64_t>((dnnl_memory_desc_get_size(&m) + 63) / 64 * 64);
}

/// A primitive and its scratch memory.
struct Step {
  Owned<dnnl_primitive> primitive;  // null: no work
  Memory scratchpad{};
};

/// The kind of primitive.
enum class Kind { forward, data, weights };

/// A spatial axis in oneDNN's terms.
struct PrimitiveAxis {
  std::int64_t stride, dilation, low, high;
};

/// A call for some `members` of the batch, or for some terms of weights.
struct Part {
  std::int64_t members = 0;
  Memory lhs{}, kernel{}, out{};              // as in memory; for `data`, the kernel after its flip
  Memory own_lhs{}, own_kernel{}, own_out{};  // in the primitive's formats
  Step take_lhs, take_kernel, give_out, convolve;
};

/// A planned convolution.
struct PrimitiveState {
  Kind kind = Kind::forward;
  ConvShape shape{};
  std::vector<PrimitiveAxis> axes;
  int threads = 1;
  std::int64_t lhs_at = 0;                    // offset of the part that negative padding leaves
  std::int64_t members = 0;                   // batch members or terms, in all
  std::int64_t lhs_step = 0, other_step = 0;  // strides of members in lhs and in the other operand
  std::int64_t chunk = 1, chunks = 1;         // members in a part; number of parts
  std::int64_t sums = 1;  // for weights: number of groups of parts, each with a partial sum
  std::int64_t results = 1, result_parts = 1;  // features of the result in a part; number of such parts
  std::array<Part, 2> parts;                   // whole parts, and a smaller last one
  StridedCopy flip;
  bool flips = false;
  std::int64_t flip_bytes = 0, kernel_bytes = 0, lhs_bytes = 0, out_bytes = 0, scratch_bytes = 0;

  const Part& part(std::int64_t chunk_number) const { return parts[chunk_number + 1 == chunks ? 1 : 0]; }
  std::int64_t slot_bytes() const {
    return lhs_bytes + std::max(kind == Kind::weights ? kernel_bytes : 0, flip_bytes) + out_bytes +
           scratch_bytes;
  }
  // Bytes of packed kernels, or of partial sums.
  std::int64_t shared_bytes() const {
    const std::int64_t count = shape.groups * result_parts;
    return count * (kind == Kind::weights ? sums * out_bytes : kernel_bytes);
  }
};

/// Nothing if oneDNN has no fast code for the convolution or was measured slower than tidu's code. Throws
/// Refused.
std::optional<PrimitiveState> plan_primitives(const ConvShape& shape, int threads);

}  // namespace tidu::cpu_detail::onednn

#endif
