// tensor.hpp - Tensor: a dtype, a shape and shared storage in the host's memory, row-major and contiguous
// from a byte offset on. Copies share the storage; whoever writes does so through mutable_*, which counts the
// storage's version up, so that a reader can tell that what it saw has changed. A storage may be read-only
// (that of a literal, or foreign).
#pragma once

#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

#include "tidu/graph/error.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/graph/type.hpp"

namespace tidu {

namespace detail {
template <class T>
inline constexpr bool always_false = false;
}  // namespace detail

/// The dtype whose elements are Ts. There is none for the 16-bit floating types, whose elements are read as
/// their bits (std::uint16_t).
template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_integral_v<U> && std::is_signed_v<U> && sizeof(U) == 4) {
    return DType::i32;
  } else if constexpr (std::is_integral_v<U> && std::is_signed_v<U> && sizeof(U) == 8) {
    return DType::i64;
  } else if constexpr (std::is_same_v<U, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<U, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<U, std::complex<float>>) {
    return DType::c64;
  } else if constexpr (std::is_same_v<U, std::complex<double>>) {
    return DType::c128;
  } else {
    static_assert(detail::always_false<T>, "no dtype has elements of this C++ type");
  }
}

/// Can elements of `dtype` be read as Ts? Those of bool also as std::uint8_t, those of f16 and bf16 as
/// std::uint16_t.
template <class T>
constexpr bool holds(DType dtype) {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, std::uint8_t>) {
    return dtype == DType::boolean;
  } else if constexpr (std::is_same_v<U, std::uint16_t>) {
    return dtype == DType::f16 || dtype == DType::bf16;
  } else {
    return dtype == dtype_of<U>();
  }
}

class Tensor {
 public:
  /// f64[0], which has no elements.
  Tensor();
  /// Uninitialised memory, aligned to 64 bytes. Throws Error (out_of_memory).
  explicit Tensor(Type type);
  /// The literal's own memory, read-only.
  explicit Tensor(const Literal& literal);

  static Tensor zeros(Type type);
  /// Copies elements in row-major order. Throws Error (invalid_argument) unless there are as many as `shape`
  /// has.
  template <class T>
  static Tensor from(const Shape& shape, std::span<const T> elements) {
    return copy_of(Type(dtype_of<T>(), shape), std::as_bytes(elements));
  }
  template <class T>
  static Tensor from(const Shape& shape, std::initializer_list<T> elements) {
    return from(shape, std::span<const T>(elements.begin(), elements.size()));
  }
  /// Copies type.bytes() bytes. Throws Error (invalid_argument) when there are more or fewer.
  static Tensor copy_of(Type type, std::span<const std::byte> bytes);
  template <class T>
  static Tensor scalar(T value) {
    return from(Shape{}, std::span<const T>(&value, 1));
  }
  /// Scalar of that dtype, converted as Literal::scalar converts.
  static Tensor scalar(DType dtype, double value) { return Tensor(Literal::scalar(dtype, value)).clone(); }
  static Tensor scalar(DType dtype, std::complex<double> value) {
    return Tensor(Literal::scalar(dtype, value)).clone();
  }
  /// Memory of someone else's, type.bytes() bytes from `data` on, kept until the last tensor over it has let
  /// go of `owner` (a shared_ptr with a deleter of the caller's). Throws Error (invalid_argument) when data
  /// is null or not aligned for the dtype.
  static Tensor wrap(Type type, void* data, std::shared_ptr<void> owner);
  /// The same, read-only.
  static Tensor wrap(Type type, const void* data, std::shared_ptr<const void> owner);

  Type type() const { return type_; }
  DType dtype() const { return type_.dtype(); }
  const Shape& shape() const { return type_.shape(); }
  std::size_t rank() const { return type_.rank(); }
  std::int64_t dim(std::size_t axis) const { return type_.dim(axis); }
  /// Number of elements.
  std::int64_t size() const { return type_.size(); }
  std::size_t num_bytes() const { return type_.bytes(); }

  const std::byte* bytes() const { return storage_->data + offset_; }
  /// Throws Error (invalid_argument) when the storage is read-only. Counts the version up.
  std::byte* mutable_bytes();
  /// Elements in row-major order. Throws Error (type) when T is not what the dtype holds.
  template <class T>
  const T* data() const {
    if (!holds<T>(dtype())) wrong_element_type(sizeof(T));
    return reinterpret_cast<const T*>(bytes());
  }
  template <class T>
  T* mutable_data() {
    if (!holds<T>(dtype())) wrong_element_type(sizeof(T));
    return reinterpret_cast<T*>(mutable_bytes());
  }
  template <class T>
  std::span<const T> elements() const {
    return {data<T>(), static_cast<std::size_t>(size())};
  }
  template <class T>
  std::span<T> mutable_elements() {
    return {mutable_data<T>(), static_cast<std::size_t>(size())};
  }
  /// Element `index` in row-major order as a complex number (integers beyond 2^53 are rounded). Throws Error
  /// (invalid_argument) when there is none.
  std::complex<double> at(std::int64_t index) const;
  /// The only element of a tensor of one element. Throws Error (invalid_argument, type).
  template <class T>
  T item() const {
    require_one_element();
    return data<T>()[0];
  }

  /// The same storage under another shape of as many elements. Throws Error (type).
  Tensor reshaped(const Shape& shape) const;
  /// A part of the storage: `type` from `byte_offset` after this tensor's first byte on. Throws Error
  /// (invalid_argument) when it reaches beyond this tensor or is not aligned for the dtype.
  Tensor view(Type type, std::size_t byte_offset) const;
  /// A tensor of its own memory with the same elements.
  Tensor clone() const;
  Literal to_literal() const { return Literal(type_, {bytes(), num_bytes()}); }

  bool writable() const { return !storage_->read_only; }
  /// Is this the only tensor over its storage, and the storage writable? Then nobody sees what is written to
  /// it.
  bool exclusive() const { return storage_.use_count() == 1 && writable(); }
  bool shares_storage_with(const Tensor& other) const { return storage_ == other.storage_; }
  /// Counts how often mutable access was asked for, by any tensor over the storage.
  std::uint64_t version() const { return storage_->version.load(std::memory_order_relaxed); }

 private:
  struct Storage {
    Storage(std::byte* at, bool is_read_only, std::shared_ptr<const void> keeper)
        : data(at), read_only(is_read_only), owner(std::move(keeper)) {}
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
    ~Storage();
    std::byte* data;
    bool read_only;
    bool owned = false;  ///< allocated here; else `owner` keeps it
    std::shared_ptr<const void> owner;
    std::atomic<std::uint64_t> version{0};
  };
  Tensor(Type type, std::shared_ptr<Storage> storage, std::size_t offset)
      : type_(type), offset_(offset), storage_(std::move(storage)) {}
  [[noreturn]] void wrong_element_type(std::size_t size) const;
  void require_one_element() const;

  Type type_;
  std::size_t offset_ = 0;
  std::shared_ptr<Storage> storage_;
};

}  // namespace tidu
