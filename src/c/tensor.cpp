// tensor.cpp - tensors: copied, borrowed, and over memory of DLPack.
#include "c/support.hpp"
#include "tidu/dlpack.hpp"

using namespace tidu;
using namespace tidu::c_detail;

namespace {

// Whose memory a tensor borrows; armed once the tensor is there.
struct Lender {
  void (*deleter)(void*) = nullptr;
  void* user = nullptr;
  Lender() = default;
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;
  ~Lender() {
    if (deleter != nullptr) deleter(user);
  }
};

template <class Managed>
tidu_status take(const char* function, void* managed, int32_t copy, tidu_tensor** tensor) {
  clear(tensor);
  return guarded(function, [&](const Call& call) {
    const DLPackLayout layout = copy != 0 ? DLPackLayout::copy : DLPackLayout::refuse;
    const std::unique_ptr<Managed, tidu::detail::DLPackDeleter> refused(
        tensor == nullptr ? static_cast<Managed*>(managed) : nullptr);
    call.need(tensor, "tensor");
    Tensor taken = from_dlpack(static_cast<Managed*>(managed), layout);
    *tensor = new tidu_tensor(std::move(taken));
  });
}

}  // namespace

tidu_tensor* tidu_tensor_retain(const tidu_tensor* tensor) { return retain(tensor); }
void tidu_tensor_release(tidu_tensor* tensor) { release(tensor); }

tidu_status tidu_tensor_copy(const tidu_type* type, const void* data, tidu_tensor** tensor) {
  clear(tensor);
  return guarded(__func__, [&](const Call& call) {
    call.need(tensor, "tensor");
    const Type of = call.type(type, "type");
    const auto bytes = call.list(static_cast<const std::byte*>(data), of.bytes(), "data");
    *tensor = new tidu_tensor(Tensor::copy_of(of, bytes));
  });
}

tidu_status tidu_tensor_borrow(const tidu_type* type, const void* data, void (*deleter)(void* user),
                               void* user, tidu_tensor** tensor) {
  clear(tensor);
  return guarded(__func__, [&](const Call& call) {
    call.need(tensor, "tensor");
    const Type of = call.type(type, "type");
    const auto lender = std::make_shared<Lender>();
    *tensor = new tidu_tensor(Tensor::wrap(of, &call.need(static_cast<const char*>(data), "data"), lender));
    lender->deleter = deleter;
    lender->user = user;
  });
}

tidu_status tidu_tensor_type(const tidu_tensor* tensor, tidu_type* type) {
  if (type != nullptr) *type = {};
  return guarded(__func__, [&](const Call& call) {
    call.need(type, "type") = shown(call.need(tensor, "tensor").tensor.type());
  });
}

tidu_status tidu_tensor_data(const tidu_tensor* tensor, const void** data) {
  clear(data);
  return guarded(__func__, [&](const Call& call) {
    call.need(data, "data") = call.need(tensor, "tensor").tensor.bytes();
  });
}

tidu_status tidu_tensor_read(const tidu_tensor* tensor, void* data, size_t size) {
  return guarded(__func__, [&](const Call& call) {
    const Tensor& from = call.need(tensor, "tensor").tensor;
    call.count("size", from.num_bytes(), size);
    call.list(static_cast<std::byte*>(data), size, "data");
    if (size != 0) std::memcpy(data, from.bytes(), size);
  });
}

tidu_status tidu_tensor_from_dlpack(void* managed, int32_t copy, tidu_tensor** tensor) {
  return take<DLManagedTensor>(__func__, managed, copy, tensor);
}
tidu_status tidu_tensor_from_dlpack_versioned(void* managed, int32_t copy, tidu_tensor** tensor) {
  return take<DLManagedTensorVersioned>(__func__, managed, copy, tensor);
}

tidu_status tidu_tensor_to_dlpack(const tidu_tensor* tensor, void** managed) {
  clear(managed);
  return guarded(__func__, [&](const Call& call) {
    Tensor of = call.need(tensor, "tensor").tensor;
    call.need(managed, "managed");
    *managed = to_legacy_dlpack(of).release();
  });
}

tidu_status tidu_tensor_to_dlpack_versioned(const tidu_tensor* tensor, void** managed) {
  clear(managed);
  return guarded(__func__, [&](const Call& call) {
    call.need(managed, "managed");
    *managed = to_dlpack(call.need(tensor, "tensor").tensor).release();
  });
}
