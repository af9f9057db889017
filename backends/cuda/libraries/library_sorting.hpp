// library_sorting.hpp - sorting by CUB.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidu::cuda_detail {

/// What is sorted: see SortStep.
struct SortCall {
  std::uint32_t key_bytes = 4;
  std::int64_t segments = 1, length = 0;
  const void* keys = nullptr;
  void* keys_out = nullptr;
  const std::uint32_t* values = nullptr;
  std::uint32_t* values_out = nullptr;
  void* stream = nullptr;  ///< a cudaStream_t
};

/// With `workspace` null gives in `bytes` how much is needed, else sorts. Gives a cudaError_t.
int sort_by_radix(const SortCall& call, void* workspace, std::size_t& bytes);

}  // namespace tidu::cuda_detail
