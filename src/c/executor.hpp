// executor.hpp - the handle of executors: tidu's own, which run graphs on tensors, and those of functions in
// C; and Operand, a counted void*, the operand of every tape of the C interface.
#pragma once

#include "c/support.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/eager/executor.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::c_detail {

class Operand;
using TapeExecutor = eager::BackwardExecutor<Operand>;

}  // namespace tidu::c_detail

struct tidu_executor : tidu::c_detail::Counted {
  tidu_executor() = default;
  tidu_executor(const tidu_executor&) = delete;
  tidu_executor& operator=(const tidu_executor&) = delete;
  virtual ~tidu_executor() = default;
  virtual void retain_operand(void* operand) const noexcept = 0;
  virtual void release_operand(void* operand) const noexcept = 0;
  /// The executor of tapes.
  virtual const tidu::c_detail::TapeExecutor& tapes() const = 0;
  /// The executor of graphs on tensors, or null.
  virtual const tidu::Executor* tensors() const { return nullptr; }
  /// The same where it compiles, or null.
  virtual const tidu::CpuExecutor* compiler() const { return nullptr; }
};

namespace tidu::c_detail {

/// One reference to an operand, and to the executor that understands it.
class Operand {
 public:
  /// Takes over a reference to `data`.
  static Operand adopt(void* data, const tidu_executor& executor) noexcept {
    Operand made;
    made.data_ = data;
    made.executor_ = retain(&executor);
    return made;
  }
  /// Makes a reference to it.
  static Operand borrow(void* data, const tidu_executor& executor) noexcept {
    executor.retain_operand(data);
    return adopt(data, executor);
  }
  Operand(const Operand& other) noexcept : data_(other.data_), executor_(retain(other.executor_)) {
    if (data_ != nullptr) executor_->retain_operand(data_);
  }
  Operand(Operand&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), executor_(std::exchange(other.executor_, nullptr)) {}
  Operand& operator=(Operand other) noexcept {
    std::swap(data_, other.data_);
    std::swap(executor_, other.executor_);
    return *this;
  }
  ~Operand() {
    if (data_ != nullptr) executor_->release_operand(data_);
    release(executor_);
  }
  void* data() const { return data_; }
  /// Hands the reference over.
  void* give() { return std::exchange(data_, nullptr); }

 private:
  Operand() = default;
  void* data_ = nullptr;
  const tidu_executor* executor_ = nullptr;
};

/// The executor of tapes of tensors: operands are tidu_tensor. `inner` and `owner` outlive it.
std::unique_ptr<TapeExecutor> make_tensor_tapes(const eager::BackwardExecutor<Tensor>& inner,
                                                const tidu_executor& owner);

/// Tensors over handles, none of which is null.
std::vector<Tensor> tensors_of(std::span<const tidu_tensor* const> handles);

}  // namespace tidu::c_detail
