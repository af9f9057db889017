// operand_buffer.hpp - OperandBuffer: memory for operands that an executor constructs.
#pragma once

#include <cstddef>
#include <new>

#include "tidu/eager/operands.hpp"

namespace tidu::eager::detail {

/// Memory for `count` operands that an executor constructs. The destructor destroys those that were not
/// taken.
class OperandBuffer {
 public:
  OperandBuffer(const OperandTable& table, std::size_t count) : table_(table), count_(count), data_(small_) {
    if (count * table.size > sizeof(small_))
      data_ = static_cast<std::byte*>(::operator new(count* table.size));
  }
  OperandBuffer(const OperandBuffer&) = delete;
  OperandBuffer& operator=(const OperandBuffer&) = delete;
  ~OperandBuffer() {
    for (; filled && taken_ < count_; ++taken_) table_.destroy(at(taken_));
    if (data_ != small_) ::operator delete(data_);
  }
  std::byte* data() { return data_; }
  void* at(std::size_t i) { return data_ + i * table_.size; }
  /// Moves operand `i` out; call it in ascending order.
  void take(std::size_t i, void* to) {
    table_.relocate(to, at(i));
    taken_ = i + 1;
  }
  bool filled = false;

 private:
  const OperandTable& table_;
  std::size_t count_;
  std::size_t taken_ = 0;
  std::byte* data_;
  alignas(16) std::byte small_[192];
};

}  // namespace tidu::eager::detail
