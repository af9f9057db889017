// tensor.cpp - allocation, wrapping and views of storage. The elements of an own storage begin where its
// header ends; larger ones are aligned to 64 bytes within a block from operator new, since its aligned form
// takes several times as long.
#include "tidu/tensor/tensor.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "tidu/graph/pool.hpp"

namespace tidu {
namespace {

using detail::TensorStorage;
using Home = TensorStorage::Home;

constexpr std::size_t header = sizeof(TensorStorage);
static_assert(header == 16, "elements are aligned to 16 bytes");
constexpr std::size_t alignment = 64;

// The storage of memory that someone else keeps.
struct ForeignStorage : TensorStorage {
  explicit ForeignStorage(std::shared_ptr<const void> keeper) : owner(std::move(keeper)) {}
  std::shared_ptr<const void> owner;
};

std::byte* elements_of(TensorStorage* storage) { return reinterpret_cast<std::byte*>(storage) + header; }

// Throws std::bad_alloc.
TensorStorage* make_storage(std::size_t bytes) {
  if (bytes <= detail::pool_largest - header) {
    auto* storage = ::new (detail::pool_allocate(header + bytes)) TensorStorage;
    storage->place = static_cast<std::uint16_t>(header + bytes);
    return storage;
  }
  constexpr std::size_t slack = alignment - header;  // operator new aligns to 16 bytes
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= header);
  auto* block = static_cast<std::byte*>(::operator new(header + slack + bytes));
  const auto at = reinterpret_cast<std::uintptr_t>(block) + header;
  const std::size_t before = (alignment - at % alignment) % alignment;
  auto* storage = ::new (block + before) TensorStorage;
  storage->home = Home::heap;
  storage->place = static_cast<std::uint16_t>(before);
  return storage;
}

TensorStorage* make_foreign(std::shared_ptr<const void> owner, bool read_only, Home home = Home::foreign) {
  auto* storage = new ForeignStorage(std::move(owner));
  storage->home = home;
  storage->read_only = read_only;
  return storage;
}

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

void detail::destroy(TensorStorage* storage) noexcept {
  switch (storage->home) {
    case Home::pool: return pool_deallocate(storage, storage->place);
    case Home::heap: return ::operator delete(reinterpret_cast<std::byte*>(storage) - storage->place);
    case Home::foreign:
    case Home::borrowed: delete static_cast<ForeignStorage*>(storage); return;
    case Home::lazy: return static_cast<LazyStorage*>(storage)->discard();
  }
}

Type Tensor::no_elements_type() {
  static const Type type(DType::f64, {0});
  return type;
}

Tensor::Tensor(Type type) : type_(type) {
  try {
    storage_ = make_storage(type.bytes());
    data_ = elements_of(storage_);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::out_of_memory,
                detail::str("Tensor: expected ", type.bytes(), " bytes for ", type, ", got no memory"));
  }
}

// The literal's bytes are never written: the storage is read-only.
Tensor::Tensor(const Literal& literal)
    : type_(literal.type()),
      storage_(make_foreign(std::make_shared<const Literal>(literal), true)),
      data_(const_cast<std::byte*>(literal.bytes())) {}

Tensor Tensor::zeros(Type type) {
  Tensor tensor(type);
  if (type.bytes() != 0) std::memset(tensor.data_, 0, type.bytes());
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
  if (!bytes.empty()) std::memcpy(tensor.data_, bytes.data(), bytes.size());
  return tensor;
}

Tensor Tensor::wrap(Type type, void* data, std::shared_ptr<void> owner) {
  check_foreign(type, data);
  return Tensor(type, make_foreign(std::move(owner), false), static_cast<std::byte*>(data));
}

Tensor Tensor::wrap(Type type, const void* data, std::shared_ptr<const void> owner) {
  check_foreign(type, data);
  auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  return Tensor(type, make_foreign(std::move(owner), true, Home::borrowed), bytes);
}

Tensor Tensor::borrow(Type type, void* data, std::shared_ptr<void> owner) {
  check_foreign(type, data);
  return Tensor(type, make_foreign(std::move(owner), false, Home::borrowed), static_cast<std::byte*>(data));
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
  return part(other, 0);
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
  return part(type, byte_offset);
}

Tensor Tensor::part(Type type, std::size_t byte_offset) const {
  Tensor result(*this);
  result.type_ = type;
  if (byte_offset == 0 && (type == type_ || resident() != nullptr)) return result;
  result.data_ = const_cast<std::byte*>(bytes()) + byte_offset;
  return result;
}

// A tensor without elements has no memory; otherwise it is lazy.
std::byte* Tensor::lazy_bytes() const {
  if (storage_ == nullptr || storage_->home != Home::lazy) return data_;
  auto* const storage = static_cast<detail::LazyStorage*>(storage_);
  std::byte* made = storage->made.load(std::memory_order_acquire);
  if (made == nullptr) {
    storage->materialize();
    made = storage->made.load(std::memory_order_acquire);
  }
  if (made == nullptr)
    throw Error(ErrorKind::internal, detail::str("Tensor: expected the elements of a lazy ", type_));
  return made;
}

void Tensor::tell_watchers() {
  const auto told = detail::before_write.load();
  if (told != nullptr && storage_ != nullptr) told(*storage_);
  unwatch();
}

Tensor Tensor::clone() const { return copy_of(type_, {bytes(), num_bytes()}); }

void Tensor::wrong_element_type(std::size_t element_size) const {
  throw Error(ErrorKind::type,
              detail::str("Tensor: expected to be read as the elements of ", type_, " (", size_of(dtype()),
                          " bytes each), got another C++ type (", element_size, " bytes each)"));
}

void Tensor::refuse_writing() const {
  throw Error(ErrorKind::invalid_argument, detail::str("Tensor: expected writable memory, got a read-only ",
                                                       type_, " (clone it to write)"));
}

void Tensor::refuse_item() const {
  throw Error(ErrorKind::invalid_argument, detail::str("Tensor::item: expected one element, got ", type_));
}

}  // namespace tidu
