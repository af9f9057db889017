// kept_memory.cpp - which uses of memory that programs keep may still go on.
#include "cuda/kept_memory.hpp"

#include <algorithm>

namespace tidu::cuda_detail {

KeptMemory::KeptMemory(Runtime& runtime, std::size_t bytes, Stream home)
    : runtime_(runtime), home_(home), memory_(runtime.pool().acquire(bytes, home)) {}

KeptMemory::~KeptMemory() {
  if (made_.handle != nullptr) runtime_.events().release(made_);
  std::vector<Event> passed;
  try {
    passed.reserve(uses_.size());
  } catch (...) {
    is_lost_ = true;
  }
  if (is_lost_) {
    for (const auto& [stream, event] : uses_) runtime_.events().release(event);
    return;
  }
  for (const auto& [stream, event] : uses_) passed.push_back(event);
  runtime_.pool().release(memory_, std::span(&home_, 1), passed);
}

void KeptMemory::made() {
  const Event event = runtime_.events().acquire();
  try {
    runtime_.device().record(event, home_);
  } catch (...) {
    runtime_.events().release(event);
    throw;
  }
  made_ = event;
}

KeptMemory::Use::Use(KeptMemory& memory, Stream stream) : memory_(memory), stream_(stream) {
  if (stream == memory.home_) return;
  const std::lock_guard lock(memory.mutex_);
  memory.uses_.reserve(memory.uses_.size() + 1);
  if (memory.made_.handle == nullptr) return;
  Device& device = memory.runtime_.device();
  if (device.is_done(memory.made_)) {
    memory.runtime_.events().release(memory.made_);
    memory.made_ = {};
  } else {
    device.wait(stream, memory.made_);
  }
}

void KeptMemory::end_use(Stream stream) noexcept {
  if (stream == home_) return;
  Device& device = runtime_.device();
  const std::lock_guard lock(mutex_);
  Event event;
  try {
    const auto known =
        std::find_if(uses_.begin(), uses_.end(), [stream](const auto& use) { return use.first == stream; });
    if (known != uses_.end()) {
      // The stream may be another one, made where one was that has ended with work still to do.
      device.wait(stream, known->second);
      return device.record(known->second, stream);
    }
    for (std::size_t i = 0; i < uses_.size();) {
      if (!device.is_done(uses_[i].second)) {
        ++i;
        continue;
      }
      runtime_.events().release(uses_[i].second);
      uses_[i] = uses_.back();
      uses_.pop_back();
    }
    event = runtime_.events().acquire();
    device.record(event, stream);
    uses_.emplace_back(stream, event);  // there is room: see Use
  } catch (...) {
    if (event.handle != nullptr) runtime_.events().release(event);
    try {
      device.synchronize(stream);
    } catch (...) {
      is_lost_ = true;
    }
  }
}

}  // namespace tidu::cuda_detail
