// scratch.hpp - Scratch: packing memory of one thread, as large as its largest GEMM needed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "cpu/cpu_target.hpp"

namespace tidu::cpu_detail {

struct Scratch {
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data); }
  // At least `wanted` bytes, aligned to 64.
  void* of(std::int64_t wanted) {
    if (bytes < wanted) {
      const std::int64_t rounded = (wanted + CpuTarget::page - 1) / CpuTarget::page * CpuTarget::page;
      void* more = std::aligned_alloc(64, static_cast<std::size_t>(rounded));
      if (more == nullptr) throw std::bad_alloc();
      std::free(data);
      data = more;
      bytes = rounded;
    }
    return data;
  }
  void* data = nullptr;
  std::int64_t bytes = 0;
};

}  // namespace tidu::cpu_detail
