// library_sorting.cu - radix sort of one run, and of many by radix sort within each, both of which are
// stable. The only file that an NVIDIA compiler reads when tidu is built; it includes nothing else of tidu.
#include "cuda/libraries/library_sorting.hpp"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

namespace tidu::cuda_detail {
namespace {

// The first element of each run.
struct Begin {
  std::int64_t length;
  __host__ __device__ std::int64_t operator()(std::int64_t segment) const { return segment * length; }
};

template <class Key>
cudaError_t sort(const SortCall& call, void* workspace, std::size_t& bytes) {
  const auto* const keys = static_cast<const Key*>(call.keys);
  auto* const keys_out = static_cast<Key*>(call.keys_out);
  auto* const stream = static_cast<cudaStream_t>(call.stream);
  constexpr int bits = 8 * static_cast<int>(sizeof(Key));
  const std::int64_t count = call.segments * call.length;
  if (call.segments == 1) {
    return cub::DeviceRadixSort::SortPairs(workspace, bytes, keys, keys_out, call.values, call.values_out,
                                           count, 0, bits, stream);
  }
  const auto begins =
      thrust::make_transform_iterator(thrust::make_counting_iterator(std::int64_t{0}), Begin{call.length});
  return cub::DeviceSegmentedRadixSort::SortPairs(workspace, bytes, keys, keys_out, call.values,
                                                  call.values_out, count, call.segments, begins, begins + 1,
                                                  0, bits, stream);
}

}  // namespace

int sort_by_radix(const SortCall& call, void* workspace, std::size_t& bytes) {
  switch (call.key_bytes) {
    case 1: return static_cast<int>(sort<std::uint8_t>(call, workspace, bytes));
    case 2: return static_cast<int>(sort<std::uint16_t>(call, workspace, bytes));
    case 4: return static_cast<int>(sort<std::uint32_t>(call, workspace, bytes));
    default: return static_cast<int>(sort<std::uint64_t>(call, workspace, bytes));
  }
}

}  // namespace tidu::cuda_detail
