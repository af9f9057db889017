// operands.hpp - Operands<T>: the list of operands that executors return, without allocation up to three; and
// type-erased operations on operands for the untyped part of the eager layer.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace tidu::eager {

/// A growing list of Ts, the first three in place. Move-only, since it is a return type.
template <class T>
class Operands {
 public:
  /// How many are held without allocation.
  static constexpr std::size_t in_place = 3;

  Operands() = default;
  // Both begin with an empty list that is whole, and is destroyed when a later copy throws.
  Operands(std::initializer_list<T> values) : Operands() {
    reserve(values.size());
    for (const T& value : values) push_back(value);
  }
  /// From any range; an rvalue's elements are moved.
  template <class Range>
  requires(!std::is_same_v<std::remove_cvref_t<Range>, Operands> &&
           !std::is_same_v<std::remove_cvref_t<Range>, T> &&
           requires(Range & r) {
             r.begin();
             r.end();
           })  // which clang-tidy 14 does not read
      // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
      explicit Operands(Range&& range)
      : Operands() {
    for (auto&& value : range) {
      if constexpr (std::is_rvalue_reference_v<Range&&>) {
        push_back(std::move(value));
      } else {
        push_back(value);
      }
    }
  }
  Operands(Operands&& other) noexcept { take(other); }
  Operands& operator=(Operands&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  ~Operands() { clear(); }

  void reserve(std::size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) {  // an argument may be an element
      T next(std::forward<Args>(args)...);
      grow(2 * capacity_);
      return *::new (static_cast<void*>(data_ + size_++)) T(std::move(next));
    }
    T* made = ::new (static_cast<void*>(data_ + size_)) T(std::forward<Args>(args)...);
    ++size_;
    return *made;
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* inline_storage() { return reinterpret_cast<T*>(small_); }
  void clear() noexcept {
    std::destroy_n(data_, size_);
    if (data_ != inline_storage()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = inline_storage();
    size_ = 0;
    capacity_ = in_place;
  }
  void take(Operands& other) noexcept {
    if (other.data_ != other.inline_storage()) {
      data_ = std::exchange(other.data_, other.inline_storage());
      capacity_ = std::exchange(other.capacity_, in_place);
    } else {
      std::uninitialized_move_n(other.data_, other.size_, data_);
      std::destroy_n(other.data_, other.size_);
    }
    size_ = std::exchange(other.size_, 0);
  }
  void grow(std::size_t capacity) {
    T* grown = std::allocator<T>().allocate(capacity);
    std::uninitialized_move_n(data_, size_, grown);
    std::destroy_n(data_, size_);
    if (data_ != inline_storage()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = grown;
    capacity_ = capacity;
  }

  alignas(T) std::byte small_[in_place * sizeof(T)];
  T* data_ = inline_storage();
  std::size_t size_ = 0;
  std::size_t capacity_ = in_place;
};

namespace detail {

template <class Operand>
constexpr const char* operand_text() {
  return __PRETTY_FUNCTION__;
}

/// Type-erased operations on an operand type.
struct OperandTable {
  std::size_t size;
  std::size_t align;
  void (*copy)(void* to, const void* from);         ///< constructs `to`; may throw
  void (*relocate)(void* to, void* from) noexcept;  ///< constructs `to` and destroys `from`
  void (*destroy)(void* operand) noexcept;
  const char* text;  ///< has the name of the type
};
/// Are they of one type? A type may have several tables, one in each shared library.
inline bool same_operands(const OperandTable& a, const OperandTable& b) {
  return &a == &b || (a.size == b.size && a.align == b.align && std::strcmp(a.text, b.text) == 0);
}
/// The name of the type, as the compiler writes it.
std::string operand_name(const OperandTable& table);

template <class Operand>
inline constexpr OperandTable operand_table{
    sizeof(Operand),
    alignof(Operand),
    [](void* to, const void* from) { ::new (to) Operand(*static_cast<const Operand*>(from)); },
    [](void* to, void* from) noexcept {
      auto* operand = static_cast<Operand*>(from);
      ::new (to) Operand(std::move(*operand));
      operand->~Operand();
    },
    [](void* operand) noexcept { static_cast<Operand*>(operand)->~Operand(); },
    operand_text<Operand>()};

}  // namespace detail

namespace detail {

/// A fixed number of trivial objects, the first N in place.
template <class T, std::size_t N>
class ShortArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit ShortArray(std::size_t size) : size_(size), data_(size <= N ? small_.data() : new T[size]) {}
  /// One element per element of `range`, made by `make`.
  template <class Range, class Make>
  ShortArray(const Range& range, Make make) : ShortArray(range.size()) {
    // One by one: a call of memcpy for two pointers that were just written costs more than all the rest.
    if (size_ > 0) data_[0] = make(range[0]);
    if (size_ > 1) data_[1] = make(range[1]);
    if (size_ > 2) data_[2] = make(range[2]);
    for (std::size_t i = 3; i < size_; ++i) data_[i] = make(range[i]);
  }
  ShortArray(const ShortArray&) = delete;
  ShortArray& operator=(const ShortArray&) = delete;
  ~ShortArray() {
    if (data_ != small_.data()) delete[] data_;
  }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* data() { return data_; }
  std::size_t size() const { return size_; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
  std::array<T, N> small_;
  std::size_t size_;
  T* data_;
};

}  // namespace detail

/// The requirements on operands: copyable (cheaply: as a handle) and movable without throwing, aligned to at
/// most 16 bytes.
template <class T>
concept OperandType = std::is_copy_constructible_v<T> && std::is_nothrow_move_constructible_v<T> &&
                      std::is_nothrow_destructible_v<T> && alignof(T) <= 16;

}  // namespace tidu::eager
