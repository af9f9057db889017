// tensor.cpp - allocating, wrapping and viewing storage.
#include "tidu/tensor/tensor.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace tidu {
namespace {

constexpr std::align_val_t alignment{64};

// Bytes that the start of an element must be a multiple of.
std::size_t alignment_of(DType dtype) { return size_of(real_dtype(dtype)); }

bool aligned(const void* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment_of(dtype) == 0;
}

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

void check_foreign(Type type, const void* data) {
  if (data == nullptr && type.size() != 0) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("Tensor::wrap: expected memory for ", type, ", got null"));
  }
  if (!aligned(data, type.dtype())) {
    throw Error(ErrorKind::invalid_argument, detail::str("Tensor::wrap: expected memory aligned to ",
                                                         alignment_of(type.dtype()), " bytes for ", type));
  }
}

}  // namespace

Tensor::Storage::~Storage() {
  if (owned) ::operator delete(data, alignment);
}

Tensor::Tensor() : type_(DType::f64) {
  static const Tensor empty{Type(DType::f64, {0})};
  *this = empty;
}

Tensor::Tensor(Type type) : type_(type) {
  try {
    storage_ = std::make_shared<Storage>(nullptr, false, nullptr);
    storage_->data = static_cast<std::byte*>(::operator new(type.bytes(), alignment));
    storage_->owned = true;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::out_of_memory,
                detail::str("Tensor: expected ", type.bytes(), " bytes for ", type, ", got no memory"));
  }
}

Tensor::Tensor(const Literal& literal) : type_(literal.type()) {
  // The literal's bytes are never written: the storage is read-only.
  storage_ = std::make_shared<Storage>(const_cast<std::byte*>(literal.bytes()), true,
                                       std::make_shared<const Literal>(literal));
}

Tensor Tensor::zeros(Type type) {
  Tensor tensor(type);
  if (type.bytes() != 0) std::memset(tensor.storage_->data, 0, type.bytes());
  return tensor;
}

Tensor Tensor::copy_of(Type type, std::span<const std::byte> bytes) {
  if (bytes.size() != type.bytes()) {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str("Tensor: expected ", type.size(), " elements (", type.bytes(), " bytes) for ", type,
                    ", got ", bytes.size() / size_of(type.dtype()), " (", bytes.size(), " bytes)"));
  }
  Tensor tensor(type);
  if (!bytes.empty()) std::memcpy(tensor.storage_->data, bytes.data(), bytes.size());
  return tensor;
}

Tensor Tensor::wrap(Type type, void* data, std::shared_ptr<void> owner) {
  check_foreign(type, data);
  return Tensor(type, std::make_shared<Storage>(static_cast<std::byte*>(data), false, std::move(owner)), 0);
}

Tensor Tensor::wrap(Type type, const void* data, std::shared_ptr<const void> owner) {
  check_foreign(type, data);
  auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  return Tensor(type, std::make_shared<Storage>(bytes, true, std::move(owner)), 0);
}

std::byte* Tensor::mutable_bytes() {
  if (storage_->read_only) {
    throw Error(ErrorKind::invalid_argument, detail::str("Tensor: expected writable memory, got a read-only ",
                                                         type_, " (clone it to write)"));
  }
  storage_->version.fetch_add(1, std::memory_order_relaxed);
  return storage_->data + offset_;
}

std::complex<double> Tensor::at(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("Tensor::at: expected an index below ", size(), " for ", type_, ", got ", index));
  }
  const std::byte* element = bytes() + static_cast<std::size_t>(index) * size_of(dtype());
  switch (dtype()) {
    case DType::boolean: return static_cast<double>(load<std::uint8_t>(element));
    case DType::i32: return static_cast<double>(load<std::int32_t>(element));
    case DType::i64: return static_cast<double>(load<std::int64_t>(element));
    case DType::f16: return static_cast<double>(half_to_float(load<std::uint16_t>(element)));
    case DType::bf16: return static_cast<double>(bfloat16_to_float(load<std::uint16_t>(element)));
    case DType::f32: return static_cast<double>(load<float>(element));
    case DType::f64: return load<double>(element);
    case DType::c64: return std::complex<double>(load<std::complex<float>>(element));
    case DType::c128: return load<std::complex<double>>(element);
  }
  return {};
}

Tensor Tensor::reshaped(const Shape& shape) const {
  const Type other = type_.with_shape(shape);
  if (other.size() != size()) {
    throw Error(ErrorKind::type, detail::str("Tensor::reshaped: expected a shape of ", size(),
                                             " elements for ", type_, ", got ", other));
  }
  return Tensor(other, storage_, offset_);
}

Tensor Tensor::view(Type type, std::size_t byte_offset) const {
  if (byte_offset > num_bytes() || type.bytes() > num_bytes() - byte_offset) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("Tensor::view: expected at most ", num_bytes(), " bytes of ", type_, ", got ",
                            type, " from byte ", byte_offset, " on"));
  }
  if (!aligned(bytes() + byte_offset, type.dtype())) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("Tensor::view: expected an offset aligned to ", alignment_of(type.dtype()),
                            " bytes for ", type, ", got ", byte_offset));
  }
  return Tensor(type, storage_, offset_ + byte_offset);
}

Tensor Tensor::clone() const { return copy_of(type_, {bytes(), num_bytes()}); }

void Tensor::wrong_element_type(std::size_t element_size) const {
  throw Error(ErrorKind::type,
              detail::str("Tensor: expected to be read as the elements of ", type_, " (", size_of(dtype()),
                          " bytes each), got another C++ type (", element_size, " bytes each)"));
}

void Tensor::require_one_element() const {
  if (size() != 1) {
    throw Error(ErrorKind::invalid_argument, detail::str("Tensor::item: expected one element, got ", type_));
  }
}

}  // namespace tidu
