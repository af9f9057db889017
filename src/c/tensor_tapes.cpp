// tensor_tapes.cpp - tapes of tidu_tensor operands: a BackwardExecutor that takes the tensors out of their
// handles, calls one of tidu's executors, and puts results into new handles.
#include "c/executor.hpp"

namespace tidu::c_detail {
namespace {

const Tensor& tensor_of(const Operand& operand) { return static_cast<tidu_tensor*>(operand.data())->tensor; }

class TensorTapes final : public TapeExecutor {
 public:
  TensorTapes(const eager::BackwardExecutor<Tensor>& inner, const tidu_executor& owner)
      : inner_(inner), owner_(owner) {}

  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Operand* const> inputs) const override {
    return wrapped(inner_.execute_forward(call, unwrapped(inputs)));
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Operand* const> inputs) const override {
    return wrapped(inner_.run_transposed_linear(call, unwrapped(inputs)));
  }
  // The tensor of a handle without other references is moved.
  Result<Operand> add_operands(const eager::AddCall& call, Operand a, const Operand& b) const override {
    auto* handle = static_cast<tidu_tensor*>(a.data());
    const bool unique = handle->references.load(std::memory_order_acquire) == 1;
    Tensor first = unique ? std::move(handle->tensor) : handle->tensor;
    return wrapped(inner_.add_operands(call, std::move(first), tensor_of(b)).value());
  }
  bool wide_accumulation() const override { return inner_.wide_accumulation(); }
  std::optional<Type> describe(const Operand& operand) const override {
    return inner_.describe(tensor_of(operand));
  }
  Result<std::optional<Operand>> ones_like(Type type) const override {
    const Result<std::optional<Tensor>> ones = inner_.ones_like(type);
    if (!ones.value().has_value()) return std::optional<Operand>();
    return std::optional<Operand>(wrapped(ones.value().value()));
  }
  std::optional<bool> is_finite(const Operand& operand) const override {
    return inner_.is_finite(tensor_of(operand));
  }
  std::optional<bool> is_zero(const Operand& operand) const override {
    return inner_.is_zero(tensor_of(operand));
  }
  std::string statistics(const Operand& operand) const override {
    return inner_.statistics(tensor_of(operand));
  }
  std::optional<std::uint64_t> version(const Operand& operand) const override {
    return inner_.version(tensor_of(operand));
  }
  std::size_t bytes(const Operand& operand) const override { return inner_.bytes(tensor_of(operand)); }

 private:
  static std::vector<const Tensor*> unwrapped(std::span<const Operand* const> operands) {
    std::vector<const Tensor*> tensors;
    tensors.reserve(operands.size());
    for (const Operand* operand : operands) tensors.push_back(&tensor_of(*operand));
    return tensors;
  }
  Operand wrapped(Tensor tensor) const { return Operand::adopt(new tidu_tensor(std::move(tensor)), owner_); }
  Values wrapped(Result<eager::Operands<Tensor>> made) const {
    Values values;
    values.reserve(made.value().size());
    for (Tensor& tensor : made.value()) values.push_back(wrapped(std::move(tensor)));
    return values;
  }

  const eager::BackwardExecutor<Tensor>& inner_;
  const tidu_executor& owner_;
};

}  // namespace

std::unique_ptr<TapeExecutor> make_tensor_tapes(const eager::BackwardExecutor<Tensor>& inner,
                                                const tidu_executor& owner) {
  return std::make_unique<TensorTapes>(inner, owner);
}

}  // namespace tidu::c_detail
