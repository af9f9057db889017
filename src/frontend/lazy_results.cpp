// lazy_results.cpp - LazyResult: the storage of a lazy tensor, from its making to its elements.
#include <new>
#include <span>

#include "frontend/lazy.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu::frontend_detail {

Tensor LazyTensorFactory::make(Type type, std::uint32_t number) const {
  void* const memory = tidu::detail::pool_allocate(sizeof(LazyResult));
  auto* const storage = ::new (memory) LazyResult(trace, number);
  storage->producer = owner;
  storage->device.store(device, std::memory_order_relaxed);
  return Tensor::lazy(type, storage);
}

void LazyResult::settle() {
  if (resident.load(std::memory_order_acquire) != nullptr) return;
  const std::shared_ptr<LazyTrace> trace = trace_;
  trace->settle(*this);
}

void LazyResult::materialize() {
  settle();
  if (resident.load(std::memory_order_acquire) != nullptr)
    made.store(const_cast<std::byte*>(tensor_.bytes()), std::memory_order_release);
}

void LazyResult::discard() noexcept {
  this->~LazyResult();
  tidu::detail::pool_deallocate(this, sizeof(LazyResult));
}

void LazyResult::publish() {
  device.store(0, std::memory_order_relaxed);  // whatever its executor says of itself
  made.store(const_cast<std::byte*>(tensor_.bytes()), std::memory_order_release);
}

void LazyResult::set_elements(Tensor&& elements, const Tensor& tensor) {
  tensor_ = std::move(elements);
  if (auto* const on_device = tensor_.resident(); on_device != nullptr) {
    resident.store(on_device, std::memory_order_release);
  } else {
    publish();
  }
  // Operations that wait may read it.
  if ((version.load(std::memory_order_relaxed) & watched) == 0) tensor.watch();
}

std::shared_ptr<const DeferredResult> LazyResult::set_deferred_elements(Tensor&& elements) {
  tensor_ = std::move(elements);
  publish();
  return std::exchange(deferred_, nullptr);
}

}  // namespace tidu::frontend_detail
