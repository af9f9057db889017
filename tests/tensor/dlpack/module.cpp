// Functions that exchange.py calls through ctypes: tensors by handles, and their exports and imports as plain
// pointers. A function that fails returns null and stores its message for last_error().
#include <string>
#include <utility>

#include "tidu/dlpack.hpp"

namespace {

using tidu::Tensor;

std::string message;

template <class Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const tidu::Error& caught) {
    message = caught.what();
    return nullptr;
  }
}

tidu::DLPackLayout layout_of(bool copy) {
  return copy ? tidu::DLPackLayout::copy : tidu::DLPackLayout::refuse;
}

}  // namespace

extern "C" {

const char* last_error() { return message.c_str(); }

// A tensor with copies of the bytes.
Tensor* make(const char* dtype, int rank, const std::int64_t* shape, const std::byte* bytes) {
  return guarded([&] {
    const tidu::Type type(tidu::parse_dtype(dtype).value(), tidu::Shape(shape, shape + rank));
    return new Tensor(Tensor::copy_of(type, {bytes, type.bytes()}));
  });
}
void drop(const Tensor* tensor) { delete tensor; }

const void* address(const Tensor* tensor) { return tensor->bytes(); }
bool writable(const Tensor* tensor) { return tensor->writable(); }
bool exclusive(const Tensor* tensor) { return tensor->exclusive(); }
const char* type_of(const Tensor* tensor) {
  static std::string text;
  return (text = to_string(tensor->type())).c_str();
}
void put(Tensor* tensor, std::int64_t index, double value) { tensor->mutable_data<double>()[index] = value; }

DLManagedTensorVersioned* give(Tensor* tensor, bool to_write) {
  return guarded([&] { return (to_write ? to_mutable_dlpack(*tensor) : to_dlpack(*tensor)).release(); });
}
DLManagedTensor* give_legacy(Tensor* tensor) {
  return guarded([&] { return to_legacy_dlpack(*tensor).release(); });
}
Tensor* take(DLManagedTensorVersioned* managed, bool copy) {
  return guarded([&] { return new Tensor(tidu::from_dlpack(managed, layout_of(copy))); });
}
Tensor* take_legacy(DLManagedTensor* managed, bool copy) {
  return guarded([&] { return new Tensor(tidu::from_dlpack(managed, layout_of(copy))); });
}
}
