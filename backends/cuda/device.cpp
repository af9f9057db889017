// device.cpp - what devices share.
#include "cuda/device.hpp"

namespace tidu::cuda_detail {

Device::~Device() = default;

}  // namespace tidu::cuda_detail
