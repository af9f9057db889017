// host.hpp - the seam between the typed and the untyped part of the eager layer: ErasedExecutor is a
// BackwardExecutor that takes operands by address, and ErasedExecutorOf<Operand> wraps an executor as one.
// Not for users.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tidu/eager/executor.hpp"
#include "tidu/eager/operands.hpp"
#include "tidu/eager/trace.hpp"

namespace tidu::eager::detail {

class ErasedExecutor {
 public:
  using Inputs = std::span<const void* const>;
  explicit ErasedExecutor(const OperandTable& operands) : table(operands) {}
  ErasedExecutor(const ErasedExecutor&) = delete;
  ErasedExecutor& operator=(const ErasedExecutor&) = delete;
  virtual ~ErasedExecutor() = default;

  const OperandTable& table;

  /// Constructs the outputs of the graph one after another from `out` on. Throws, and has made none then.
  virtual void execute_forward(const GraphCall& call, Inputs inputs, std::byte* out) const = 0;
  virtual void run_transposed_linear(const GraphCall& call, Inputs inputs, std::byte* out) const = 0;
  /// Replaces a by a + b. After an exception `a` may only be destroyed.
  virtual void add_operands(const AddCall& call, void* a, const void* b) const = 0;
  virtual bool wide_accumulation() const = 0;
  virtual std::optional<Type> describe(const void* operand) const = 0;
  virtual std::optional<std::uint32_t> device_of(const void* operand) const = 0;
  /// Constructs ones at `out` and says so, or does neither.
  virtual bool ones_like(Type type, void* out) const = 0;
  virtual std::optional<bool> is_finite(const void* operand) const = 0;
  virtual bool watch_finite(const void* operand, const std::function<void()>& report) const = 0;
  virtual void check_watched() const = 0;
  virtual std::optional<bool> is_zero(const void* operand) const = 0;
  virtual std::string statistics(const void* operand) const = 0;
  virtual std::optional<std::uint64_t> version(const void* operand) const = 0;
  virtual std::size_t bytes(const void* operand) const = 0;
  virtual Placement current_placement() const = 0;
  virtual Event record(Placement placement) const = 0;
  virtual void wait(Placement placement, const Event& event) const = 0;
  virtual std::shared_ptr<const ThreadState> thread_state() const = 0;
};

template <class Operand>
class ErasedExecutorOf final : public ErasedExecutor {
 public:
  explicit ErasedExecutorOf(const BackwardExecutor<Operand>& executor)
      : ErasedExecutor(operand_table<Operand>), executor_(executor) {}
  const BackwardExecutor<Operand>& executor() const { return executor_; }

  void execute_forward(const GraphCall& call, Inputs inputs, std::byte* out) const override {
    const ShortArray<const Operand*, 8> typed = pointers(inputs);
    executor_.run_at(call, false, typed.span(), reinterpret_cast<Operand*>(out));
  }
  void run_transposed_linear(const GraphCall& call, Inputs inputs, std::byte* out) const override {
    const ShortArray<const Operand*, 8> typed = pointers(inputs);
    executor_.run_at(call, true, typed.span(), reinterpret_cast<Operand*>(out));
  }
  void add_operands(const AddCall& call, void* a, const void* b) const override {
    auto* first = static_cast<Operand*>(a);
    Result<Operand> sum = executor_.add_operands(call, std::move(*first), *static_cast<const Operand*>(b));
    Operand& value = sum.value();
    first->~Operand();
    ::new (a) Operand(std::move(value));
  }
  bool wide_accumulation() const override { return executor_.wide_accumulation(); }
  std::optional<Type> describe(const void* operand) const override { return executor_.describe(at(operand)); }
  std::optional<std::uint32_t> device_of(const void* operand) const override {
    return executor_.device_of(at(operand));
  }
  bool ones_like(Type type, void* out) const override {
    Result<std::optional<Operand>> made = executor_.ones_like(type);
    std::optional<Operand>& value = made.value();
    if (!value.has_value()) return false;
    ::new (out) Operand(std::move(value.value()));
    return true;
  }
  std::optional<bool> is_finite(const void* operand) const override {
    return executor_.is_finite(at(operand));
  }
  bool watch_finite(const void* operand, const std::function<void()>& report) const override {
    return executor_.watch_finite(at(operand), report);
  }
  void check_watched() const override { executor_.check_watched(); }
  std::optional<bool> is_zero(const void* operand) const override { return executor_.is_zero(at(operand)); }
  std::string statistics(const void* operand) const override { return executor_.statistics(at(operand)); }
  std::optional<std::uint64_t> version(const void* operand) const override {
    return executor_.version(at(operand));
  }
  std::size_t bytes(const void* operand) const override { return executor_.bytes(at(operand)); }
  Placement current_placement() const override { return executor_.current_placement(); }
  Event record(Placement placement) const override { return executor_.record(placement); }
  void wait(Placement placement, const Event& event) const override { executor_.wait(placement, event); }
  std::shared_ptr<const ThreadState> thread_state() const override { return executor_.thread_state(); }

 private:
  static const Operand& at(const void* operand) { return *static_cast<const Operand*>(operand); }
  static ShortArray<const Operand*, 8> pointers(Inputs inputs) {
    return ShortArray<const Operand*, 8>(inputs,
                                         [](const void* p) { return static_cast<const Operand*>(p); });
  }
  const BackwardExecutor<Operand>& executor_;
};

// Properties of nodes and cached graphs for the typed templates.
std::size_t num_outputs(const CachedGraph* graph) noexcept;
NodeCount* count_of(Node* node) noexcept;
Key first_key(const NodeCount* node) noexcept;

}  // namespace tidu::eager::detail
