// machine.hpp - an executor on a fake device of its own, which has to have found no fault in the end.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>

#include "cuda/fake_device.hpp"
#include "tidu/cuda.hpp"

namespace tidu::test {

struct Machine {
  explicit Machine(const CudaOptions& options = {}, std::size_t memory = std::size_t{1} << 30)
      : device(std::make_shared<FakeDevice>(memory)), cuda(device, options) {}
  /// The device of that number.
  explicit Machine(int number) : Machine(numbered(number)) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() { CHECK_MESSAGE(device->faults().empty(), detail::list(device->faults())); }
  Tensor put(const Tensor& tensor) const { return cuda.put(tensor).value(); }
  /// How often the host has waited.
  std::size_t waits() const { return device->count("synchronize"); }

  std::shared_ptr<FakeDevice> device;
  CudaExecutor cuda;

 private:
  static CudaOptions numbered(int number) {
    CudaOptions options;
    options.device = number;
    return options;
  }
};

}  // namespace tidu::test
