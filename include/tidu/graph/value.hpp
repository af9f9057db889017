// value.hpp - Value, Values and Emitter: the interface through which code emits operations. A Value belongs
// to an emitter: a GraphBuilder, the context of a rule, or a user's own that executes at once. A function
// that emits an operation calls the emitter of its operands.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tidu/graph/op.hpp"
#include "tidu/graph/primitive_set.hpp"
#include "tidu/graph/type.hpp"

namespace tidu {

/// 32-bit name of a value in one graph.
using ValueId = std::uint32_t;

/// The source location of an operation; file is null when it is unknown.
struct Where {
  const char* file = nullptr;  ///< null: unknown
  std::uint32_t line = 0;      ///< counted from 1

  /// The location of the call, as a default argument; std::source_location does the same, but clang 14 has
  /// none.
  static constexpr Where current(const char* file = __builtin_FILE(),
                                 std::uint32_t line = static_cast<std::uint32_t>(__builtin_LINE())) {
    return {file, line};
  }
};

class Emitter;

namespace detail {
[[noreturn]] void refuse_unset_value();
}

/// A value that is being computed with. Cheap to copy; valid as long as its emitter.
class Value {
 public:
  Value() = default;
  /// For emitters.
  Value(Emitter* emitter, ValueId id);
  Emitter* emitter() const { return emitter_; }
  /// Is it a value of that emitter, and not of one that was destroyed and whose memory that one has now?
  bool is_of(const Emitter& emitter) const;
  ValueId id() const { return id_; }
  /// Throws Error (invalid_argument) for a default-constructed one, as do dtype, shape and rank.
  Type type() const;
  DType dtype() const { return type().dtype(); }
  const Shape& shape() const { return type().shape(); }
  std::size_t rank() const { return type().rank(); }
  friend bool operator==(const Value& a, const Value& b) = default;

 private:
  Emitter* emitter_ = nullptr;
  ValueId id_ = 0;
  std::uint32_t serial_ = 0;  // of the emitter
};

/// A list of values, without allocation up to four.
class Values {
 public:
  Values() = default;
  /// One.
  Values(Value value) : size_(1) { small_[0] = value; }
  /// Several.
  Values(std::initializer_list<Value> values) : Values(std::span(values.begin(), values.size())) {}
  /// Several.
  Values(const std::vector<Value>& values) : Values(std::span<const Value>(values)) {}
  /// Several.
  explicit Values(std::span<const Value> values) {
    resize(values.size());
    std::copy(values.begin(), values.end(), data());
  }
  void resize(std::size_t size) {
    if (size > small_.size() && large_.size() < size) {
      if (large_.empty()) large_.assign(small_.begin(), small_.begin() + static_cast<std::ptrdiff_t>(size_));
      large_.resize(size);
    }
    size_ = size;
  }
  void push_back(Value value) {
    resize(size_ + 1);
    data()[size_ - 1] = value;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Value* data() { return large_.empty() ? small_.data() : large_.data(); }
  const Value* data() const { return large_.empty() ? small_.data() : large_.data(); }
  Value* begin() { return data(); }
  Value* end() { return data() + size_; }
  const Value* begin() const { return data(); }
  const Value* end() const { return data() + size_; }
  Value& operator[](std::size_t i) { return data()[i]; }
  const Value& operator[](std::size_t i) const { return data()[i]; }

 private:
  std::array<Value, 4> small_{};
  std::vector<Value> large_;
  std::size_t size_ = 0;
};

/// Receives operations. Implemented by GraphBuilder, which makes a graph, by the transforms, for rules, and
/// by users, as an emitter that executes or records on a tape.
class Emitter {
 public:
  Emitter() : serial_(next_serial()) {}
  Emitter(const Emitter&) : Emitter() {}
  Emitter& operator=(const Emitter&) { return *this; }
  virtual ~Emitter() = default;
  /// The type of a value of this emitter.
  virtual Type type_of(ValueId id) const = 0;
  /// Adds one operation and returns its results. Infers their types first. Throws Error (type, attribute,
  /// invalid_argument), and adds nothing then.
  virtual Values emit(const Op& op, std::span<const Value> operands, Where where = {}) = 0;
  /// The same for an op of which only the first result is used, without a list of results.
  virtual Value emit_one(const Op& op, std::span<const Value> operands, Where where = {}) {
    return emit(op, operands, where)[0];
  }
  virtual const PrimitiveSet& primitives() const = 0;

 private:
  friend class Value;
  static std::uint32_t next_serial();
  const std::uint32_t serial_;  // of another emitter that was at this address, another one
};

inline Value::Value(Emitter* emitter, ValueId id)
    : emitter_(emitter), id_(id), serial_(emitter != nullptr ? emitter->serial_ : 0) {}

inline bool Value::is_of(const Emitter& emitter) const {
  return emitter_ == &emitter && serial_ == emitter.serial_;
}

inline Type Value::type() const {
  if (emitter_ == nullptr) [[unlikely]]
    detail::refuse_unset_value();
  return emitter_->type_of(id_);
}

/// Emits on the emitter of the first operand; an op without operands needs the other form.
/// Throws Error (invalid_argument) when there is no operand or a default-constructed one.
Values emit(const Op& op, std::span<const Value> operands, Where where = {});
/// The same for the first result alone.
Value emit_one(const Op& op, std::span<const Value> operands, Where where = {});
/// The same with operands in a list.
Value emit1(const Op& op, std::initializer_list<Value> operands, Where where = {});

/// The zeros of the emitter's primitive set. Throws Error (unknown_primitive) when the set names none.
Value zeros(Emitter& emitter, Type type);

}  // namespace tidu
