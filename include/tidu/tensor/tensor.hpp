// tensor.hpp - Tensor: a dtype, a shape and shared storage, row-major and contiguous from a byte offset on.
// The storage is in the host's memory, or in a device's (resident()). Copies share the storage. Writes go
// through mutable_*, which increments the storage's version, so that a reader can detect changes. A storage
// may be read-only (that of a literal, or foreign).
//
// A tensor may be lazy: its elements are computed when they are first read (bytes() and all other reads), by
// its LazyStorage. Errors of the computation are thrown to the reader. Elements may also be in a device's
// memory (resident()): a read on the host copies them.
//
// A tensor is three words, and a copy increments a reference count. The elements follow the storage's header;
// header and elements of a tensor of few elements are one block of the pool (pool.hpp).
#pragma once

#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "tidu/graph/counter.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/graph/type.hpp"

namespace tidu {

namespace detail {
template <class T>
inline constexpr bool always_false = false;

/// The state that tensors over the same memory share. tensor.cpp has its allocation and deallocation.
struct TensorStorage {
  enum class Home : std::uint8_t { pool, heap, foreign, borrowed, lazy };
  /// Bit of `version`: before_write must be called before a write, since pending operations read the storage.
  static constexpr std::uint64_t watched = std::uint64_t{1} << 63;
  std::atomic<std::uint32_t> references{1};
  Home home = Home::pool;
  bool read_only = false;
  std::uint16_t place = 0;  ///< pool: bytes of the block; heap: bytes of it before the header
  std::atomic<std::uint64_t> version{0};
};
/// The address of the bytes of a tensor without storage, of which there are none.
alignas(64) inline constinit std::byte no_elements[64]{};

void destroy(TensorStorage* storage) noexcept;

/// The storage of a lazy tensor.
class LazyStorage : public TensorStorage {
 public:
  LazyStorage() { home = Home::lazy; }
  LazyStorage(const LazyStorage&) = delete;
  LazyStorage& operator=(const LazyStorage&) = delete;
  /// Sets `made`, or throws. On any thread.
  virtual void materialize() = 0;
  /// The same for who reads the elements where they are: they may stay in a device's memory (`resident`).
  virtual void settle() { materialize(); }
  /// Called without further references: frees it.
  virtual void discard() noexcept = 0;
  std::atomic<std::byte*> made{nullptr};  ///< the elements, which live as long as this
  const void* producer = nullptr;         ///< identifies the producer of lazy tensors
  /// The storage that has the elements in a device's memory, for as long as this lives: itself, or another;
  /// null: none (yet). The elements that materialize() makes are then a copy.
  std::atomic<LazyStorage*> resident{nullptr};
  std::atomic<std::uint32_t> device{0};  ///< see Tensor::device

 protected:
  ~LazyStorage() = default;
};
/// Called with a watched storage before it is written to.
inline constinit std::atomic<void (*)(const TensorStorage&)> before_write{nullptr};
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

/// A dtype, a shape and shared storage in the host's memory, row-major. Copies share the storage; clone()
/// does not.
class Tensor {
 public:
  /// f64[0], which has no elements.
  Tensor() : type_(no_elements_type()) {}
  /// Uninitialised memory, aligned to 16 bytes, from 512 bytes on to 64. Throws Error (out_of_memory).
  explicit Tensor(Type type);
  /// The literal's own memory, read-only.
  explicit Tensor(const Literal& literal);

  Tensor(const Tensor& other) noexcept : type_(other.type_), storage_(other.storage_), data_(other.data_) {
    if (storage_ != nullptr) detail::count_up(storage_->references);
  }
  /// `other` has nothing afterwards but its type: it is there to be assigned to or destroyed.
  Tensor(Tensor&& other) noexcept
      : type_(other.type_),
        storage_(std::exchange(other.storage_, nullptr)),
        data_(std::exchange(other.data_, detail::no_elements)) {}
  Tensor& operator=(const Tensor& other) noexcept {
    Tensor copy(other);
    swap(*this, copy);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor moved(std::move(other));
    swap(*this, moved);
    return *this;
  }
  ~Tensor() {
    if (storage_ == nullptr) return;
    // The only reference need not be counted down: no other thread can get another one.
    if (storage_->references.load(std::memory_order_acquire) == 1 ||
        detail::count_down(storage_->references) == 1) {
      detail::destroy(storage_);
    }
  }
  friend void swap(Tensor& a, Tensor& b) noexcept {
    std::swap(a.type_, b.type_);
    std::swap(a.storage_, b.storage_);
    std::swap(a.data_, b.data_);
  }

  /// Zeros of that type.
  static Tensor zeros(Type type);
  /// Copies elements in row-major order. Throws Error (invalid_argument) unless there are as many as `shape`
  /// has.
  template <class T>
  static Tensor from(const Shape& shape, std::span<const T> elements) {
    return copy_of(Type(dtype_of<T>(), shape), std::as_bytes(elements));
  }
  /// The same with the elements in a list.
  template <class T>
  static Tensor from(const Shape& shape, std::initializer_list<T> elements) {
    return from(shape, std::span<const T>(elements.begin(), elements.size()));
  }
  /// Copies type.bytes() bytes. Throws Error (invalid_argument) when there are more or fewer.
  static Tensor copy_of(Type type, std::span<const std::byte> bytes);
  /// A scalar; the dtype is that of T.
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
  /// The same for memory that other code continues to read and write: such a tensor is never exclusive(), and
  /// its version counts only writes through tensors.
  static Tensor borrow(Type type, void* data, std::shared_ptr<void> owner);

  Type type() const { return type_; }
  DType dtype() const { return type_.dtype(); }
  const Shape& shape() const { return type_.shape(); }
  std::size_t rank() const { return type_.rank(); }
  /// One extent.
  std::int64_t dim(std::size_t axis) const { return type_.dim(axis); }
  /// Number of elements.
  std::int64_t size() const { return type_.size(); }
  std::size_t num_bytes() const { return type_.bytes(); }

  const std::byte* bytes() const { return data_ != nullptr ? data_ : lazy_bytes(); }
  /// Throws Error (invalid_argument) when the storage is read-only. Counts the version up.
  std::byte* mutable_bytes() {
    std::byte* const at = data_ != nullptr ? data_ : lazy_bytes();
    if (storage_ != nullptr) {
      if (storage_->read_only) refuse_writing();
      count_version();
    }
    return at;
  }
  /// Elements in row-major order. Throws Error (type) when T does not match the dtype.
  template <class T>
  const T* data() const {
    if (!holds<T>(dtype())) wrong_element_type(sizeof(T));
    return reinterpret_cast<const T*>(bytes());
  }
  /// The same to write to; counts the version up. Throws Error (type, invalid_argument).
  template <class T>
  T* mutable_data() {
    if (!holds<T>(dtype())) wrong_element_type(sizeof(T));
    return reinterpret_cast<T*>(mutable_bytes());
  }
  template <class T>
  std::span<const T> elements() const {
    return {data<T>(), static_cast<std::size_t>(size())};
  }
  /// The same to write to; counts the version up.
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
    if (size() != 1) refuse_item();
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

  bool writable() const { return storage_ == nullptr || !storage_->read_only; }
  /// Is this the only tensor over its storage, and the storage writable and not borrowed? Then writes to it
  /// are visible to no other code, and reads and writes of other threads through former tensors have
  /// completed.
  bool exclusive() const {
    return storage_ != nullptr && storage_->references.load(std::memory_order_acquire) == 1 &&
           !storage_->read_only && storage_->home < detail::TensorStorage::Home::borrowed;
  }
  /// Does it begin where memory of the library's own does, as Tensor(Type) makes it, and not that of wrap()?
  bool allocated() const {
    return storage_ != nullptr && storage_->home <= detail::TensorStorage::Home::heap &&
           data_ == reinterpret_cast<const std::byte*>(storage_) + sizeof(detail::TensorStorage);
  }
  /// Made by borrow() or, to be read alone, by wrap(), or a part of such a tensor?
  bool borrowed() const {
    return storage_ != nullptr && storage_->home == detail::TensorStorage::Home::borrowed;
  }
  /// Are both parts of one storage?
  bool shares_storage_with(const Tensor& other) const { return storage_ == other.storage_; }
  /// Is this a part of that storage?
  bool lies_in(const detail::TensorStorage& storage) const { return storage_ == &storage; }
  /// The memory of its elements: 0 for the host's, else 1 + the number of the device
  /// (eager::Placement::device).
  std::uint32_t device() const {
    const detail::LazyStorage* const storage = lazy_storage();
    return storage != nullptr ? storage->device.load(std::memory_order_relaxed) : 0;
  }
  /// Counts calls for mutable access, by any tensor over the storage. 0 for Tensor().
  std::uint64_t version() const {
    return storage_ == nullptr
               ? 0
               : storage_->version.load(std::memory_order_relaxed) & ~detail::TensorStorage::watched;
  }

  // --- for implementations of lazy tensors

  /// A tensor whose elements `storage` computes on demand; takes over a reference to it.
  static Tensor lazy(Type type, detail::LazyStorage* storage) { return Tensor(type, storage, nullptr); }
  /// The former name.
  [[deprecated("use lazy")]] static Tensor promise(Type type, detail::LazyStorage* storage) {
    return lazy(type, storage);
  }
  /// The storage that is to compute the elements, or null when they exist, on the host or on a device.
  detail::LazyStorage* pending() const {
    detail::LazyStorage* const storage = lazy_storage();
    return storage != nullptr && storage->made.load(std::memory_order_acquire) == nullptr &&
                   storage->resident.load(std::memory_order_acquire) == nullptr
               ? storage
               : nullptr;
  }
  /// The storage that computed and keeps the elements, which are on the host, or null.
  detail::LazyStorage* kept() const {
    detail::LazyStorage* const storage = lazy_storage();
    return storage != nullptr && storage->made.load(std::memory_order_acquire) != nullptr &&
                   storage->resident.load(std::memory_order_acquire) == nullptr
               ? storage
               : nullptr;
  }
  /// The storage that has the elements in a device's memory from the first on, or null.
  detail::LazyStorage* resident() const {
    detail::LazyStorage* const storage = lazy_storage();
    return storage != nullptr ? storage->resident.load(std::memory_order_acquire) : nullptr;
  }
  /// An address that identifies existing elements: of the first one, or of the record of a device's elements.
  const void* place() const {
    if (const detail::LazyStorage* const there = resident(); there != nullptr) return there;
    return bytes();
  }
  /// Asks for detail::before_write() before anybody writes to the storage; until unwatch().
  void watch() const {
    if (storage_ != nullptr)
      storage_->version.fetch_or(detail::TensorStorage::watched, std::memory_order_relaxed);
  }
  void unwatch() const {
    if (storage_ != nullptr)
      storage_->version.fetch_and(~detail::TensorStorage::watched, std::memory_order_relaxed);
  }

 private:
  // Takes over a reference to the storage.
  Tensor(Type type, detail::TensorStorage* storage, std::byte* data)
      : type_(type), storage_(storage), data_(data) {}
  static Type no_elements_type();
  Tensor part(Type type, std::size_t byte_offset) const;
  detail::LazyStorage* lazy_storage() const {
    if (data_ != nullptr || storage_ == nullptr || storage_->home != detail::TensorStorage::Home::lazy)
      return nullptr;
    return static_cast<detail::LazyStorage*>(storage_);
  }
  void count_version() {
    std::atomic<std::uint64_t>& version = storage_->version;
    if ((version.load(std::memory_order_relaxed) & detail::TensorStorage::watched) != 0) [[unlikely]]
      tell_watchers();
    if (storage_->references.load(std::memory_order_acquire) == 1) {
      version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
      detail::count_up(version);
    }
  }
  std::byte* lazy_bytes() const;
  void tell_watchers();
  [[noreturn]] void wrong_element_type(std::size_t size) const;
  [[noreturn]] void refuse_writing() const;
  [[noreturn]] void refuse_item() const;

  Type type_;
  detail::TensorStorage* storage_ = nullptr;  // null: Tensor(), or moved from
  std::byte* data_ = detail::no_elements;     // the first element; null: see lazy_bytes
};

}  // namespace tidu
