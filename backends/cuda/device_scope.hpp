// device_scope.hpp - DeviceScope: this thread's calls of CUDA are for one device, and afterwards for the one
// that they were for before, which the caller or another library may have chosen.
#pragma once

#include <new>

namespace tidu::cuda_detail {

class DeviceScope {
 public:
  /// Until it is destroyed. Asks for the current device, and does no more where it is that one. Throws Error
  /// (execution).
  explicit DeviceScope(int ordinal);
  /// The same; what fails is for the calls that follow to say.
  DeviceScope(int ordinal, std::nothrow_t) noexcept;
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();

 private:
  int enter(int ordinal) noexcept;
  int before_ = -1;  // to be current again, or none
};

}  // namespace tidu::cuda_detail
