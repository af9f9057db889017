// dynamic.cpp - kernels of dynamic_slice and dynamic_update_slice: a strided copy whose offset is read when
// it runs. A start index is moved into range so that the window lies inside.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/kernels/strided.hpp"

namespace tidu::cpu_detail {
namespace {

// The position of the window in the array: the start indices are the operands from `first` on.
struct WindowOffset {
  struct Axis {
    std::int64_t last;    // greatest start index
    std::int64_t stride;  // bytes
  };
  std::vector<Axis> axes;
  std::size_t first;
  bool wide;  // i64, else i32

  static WindowOffset of(const PlanRequest& request, Type array, Type window, std::size_t first) {
    WindowOffset window_offset{std::vector<Axis>(array.rank()), first, false};
    if (window.size() == 0) return window_offset;  // it is never asked for
    auto stride = static_cast<std::int64_t>(size_of(array.dtype()));
    for (std::size_t k = array.rank(); k-- > 0; stride *= array.dim(k))
      window_offset.axes[k] = {array.dim(k) - window.dim(k), stride};
    window_offset.wide = array.rank() > 0 && request.in[first].dtype() == i64;
    return window_offset;
  }
  std::ptrdiff_t offset(const Call& call) const {
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::int64_t start =
          wide ? *call.operand<std::int64_t>(first + k) : *call.operand<std::int32_t>(first + k);
      bytes += std::clamp<std::int64_t>(start, 0, axes[k].last) * axes[k].stride;
    }
    return static_cast<std::ptrdiff_t>(bytes);
  }
};

// The elements of a window of an array, in the window's order: `to` and `from` are the strides.
StridedCopy copy_of(Type array, Type window, bool into_array, int threads) {
  if (window.size() == 0) return StridedCopy();
  std::vector<StridedAxis> axes(window.rank());
  std::int64_t in_array = 1;
  std::int64_t in_window = 1;
  for (std::size_t k = window.rank(); k-- > 0;) {
    axes[k] = into_array ? StridedAxis{window.dim(k), in_array, in_window}
                         : StridedAxis{window.dim(k), in_window, in_array};
    in_array *= array.dim(k);
    in_window *= window.dim(k);
  }
  return StridedCopy(std::move(axes), size_of(window.dtype()), threads);
}

struct SliceState {
  WindowOffset window_offset;
  StridedCopy copy;
  bool empty;
};
void dynamic_slice(const SliceState& s, const Call& call) {
  if (s.empty) return;
  s.copy.run(call.in[0] + s.window_offset.offset(call), call.out[0]);
}
Plan plan_dynamic_slice(const PlanRequest& request) {
  const Type array = request.in[0];
  const Type window = request.out[0];
  return make_plan<SliceState, dynamic_slice>({WindowOffset::of(request, array, window, 1),
                                               copy_of(array, window, false, request.threads),
                                               window.size() == 0});
}

struct UpdateState {
  WindowOffset window_offset;
  StridedCopy copy;
  std::size_t bytes;  // of the array
  bool empty;         // is the update?
};
void dynamic_update_slice(const UpdateState& s, const Call& call) {
  // It may be there already: see Note [Scattered].
  if (s.bytes != 0 && call.out[0] != call.in[0]) std::memcpy(call.out[0], call.in[0], s.bytes);
  if (!s.empty) s.copy.run(call.in[1], call.out[0] + s.window_offset.offset(call));
}
Plan plan_update(const PlanRequest& request) {
  const Type array = request.in[0];
  const Type window = request.in[1];
  return make_plan<UpdateState, dynamic_update_slice>({WindowOffset::of(request, array, window, 2),
                                                       copy_of(array, window, true, request.threads),
                                                       array.bytes(), window.size() == 0});
}

constexpr KernelEntry dynamic_entries[] = {
    {"dynamic_slice", plan_dynamic_slice, any_dtype, true},
    {"dynamic_update_slice", plan_update, any_dtype, true},
};

}  // namespace

std::span<const KernelEntry> dynamic_kernels() { return dynamic_entries; }

}  // namespace tidu::cpu_detail
