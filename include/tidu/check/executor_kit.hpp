// executor_kit.hpp - check_executor: tests that a BackwardExecutor fulfils the contract on which tapes rely.
// A frontend's author calls it from a test. Graphs of the standard primitives, random and special ones, run
// through all three methods and through whole backward calls, and are compared with the reference
// executor. The author supplies two functions that convert operands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidu/eager/executor.hpp"
#include "tidu/graph/dtype.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/executor.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

/// How the kit makes operands and looks at them. to_tensor is called from several threads at once.
template <class Operand>
struct OperandConversion {
  /// An operand of its own memory with the tensor's type and elements.
  std::function<Operand(const Tensor&)> from_tensor;
  /// The operand's type and elements, once whatever computes them is done.
  std::function<Tensor(const Operand&)> to_tensor;
  /// Writes to the operand in place, as a user's `x += 1` would: every element changes, for all handles.
  /// Optional; without it, changes in place are not tested.
  std::function<void(Operand&)> write{};
};

/// The properties that are tested.
enum class ExecutorCheck : std::uint8_t {
  results,       ///< number, order, types and elements of the results of a method
  aliasing,      ///< the same with one operand for several inputs
  ownership,     ///< operands that were given stay as they are: elements and version
  lifetime,      ///< results stay as they are when inputs go or are written to, and other calls are made
  errors,        ///< a wrong number or type of inputs is reported, by a Result or a std::exception
  recovery,      ///< calls after such an error are right
  determinism,   ///< the same inputs give the same bits
  threads,       ///< also on several threads at once
  slots,         ///< the contents of an ExecutorSlot are used for its graph alone, by its executor alone
  backward,      ///< whole backward calls, among them those on several threads
  create_graph,  ///< backward calls that are recorded, and run backward
  operands       ///< describe, ones_like, is_finite, is_zero, version, bytes
};
/// Number of enumerators of ExecutorCheck.
inline constexpr std::size_t num_executor_checks = 12;
/// "results", "ownership", …
std::string_view to_string(ExecutorCheck check);

/// The test cases of the kit.
struct ExecutorKitOptions {
  std::uint64_t seed = 1;  ///< of random graphs and inputs
  /// Random graphs for each check that takes such.
  std::size_t graphs = 60;
  /// Dtypes of random graphs: floating or complex. Without any, `more_graphs` alone are tested, and operands
  /// of the types of their inputs and outputs.
  std::vector<DType> dtypes{f64, f32};
  /// Does the executor have this standard primitive (dtype: see Executor::supports)? Graphs with others, in
  /// their derivatives too, are left out. Empty: it has all.
  std::function<bool(const Primitive&, DType)> supports{};
  /// Graphs of your own (closed, of any set) that are tested beside the random ones, with random inputs.
  std::vector<Graph> more_graphs{};
  /// The reference for results; null stands for reference(). It needs the kernels of `more_graphs`.
  const Executor* oracle = nullptr;
  /// Relative errors that pass; 0 stands for 2^14 units of the dtype's roundoff. Graphs on small integers
  /// must agree exactly in any case.
  double tolerance = 0.0;
  /// Threads that call at once; 0 leaves that out.
  int threads = 4;
  /// Do operands have a dtype and a shape that the executor looks at? Otherwise inputs of another type are no
  /// error.
  bool typed = true;
  /// Findings with messages of their own, per check and hook; further ones are counted.
  std::size_t shown = 2;
  /// Write to stderr which check and method come next: if the executor crashes, the last line names them.
  bool announce = true;
};

/// One thing that an executor does wrong.
struct ExecutorFinding {
  ExecutorCheck check = ExecutorCheck::results;  ///< which check found it
  /// "execute_forward", "run_transposed_linear", "add_operands", "describe", …; "run_at" where it gives
  /// something else than these; "backward" for a whole call.
  std::string hook;
  /// The expected and the actual result; then the graph, and the inputs.
  std::string message;
  /// How many further disagreements of this check and hook are not shown: at the last that is.
  std::size_t more = 0;
};

/// The result of the kit.
struct ExecutorReport {
  bool ok = true;                         ///< are there no findings?
  std::vector<ExecutorFinding> findings;  ///< by check and hook
  /// Parts that were not tested, with the reason if it lies in the executor or the options: whole checks,
  /// methods with their default, dtypes, primitives that occur in no graph.
  std::vector<std::string> notes;
  /// By ExecutorCheck: the number of tests.
  std::array<std::size_t, num_executor_checks> tested{};
  /// Has a finding of that check?
  bool found(ExecutorCheck check) const;
  bool found(ExecutorCheck check, std::string_view hook) const;
};

/// Findings, or the number of tests by check; then the parts that were not tested. Ends in a newline.
std::string to_text(const ExecutorReport& report);

namespace check {

/// An operand of any type; copied, moved and destroyed as the operand that it holds. Not for users.
class AnyOperand {
 public:
  template <class T, class... Args>
  static AnyOperand make(Args&&... args) {
    AnyOperand operand;
    operand.held_ = std::make_unique<Held<T>>(std::forward<Args>(args)...);
    return operand;
  }
  AnyOperand(const AnyOperand& other) : held_(other.held_ != nullptr ? other.held_->clone() : nullptr) {}
  AnyOperand(AnyOperand&&) noexcept = default;
  AnyOperand& operator=(AnyOperand other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }
  ~AnyOperand() = default;
  template <class T>
  T& as() const {
    return static_cast<Held<T>&>(*held_).value;
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> clone() const = 0;
  };
  template <class T>
  struct Held final : Base {
    template <class... Args>
    explicit Held(Args&&... args) : value(std::forward<Args>(args)...) {}
    std::unique_ptr<Base> clone() const override { return std::make_unique<Held>(std::as_const(value)); }
    T value;
  };
  AnyOperand() = default;
  std::unique_ptr<Base> held_;
};

/// An executor of any operands, with the conversions. Not for users.
class AnyExecutor : public eager::BackwardExecutor<AnyOperand> {
 public:
  virtual AnyOperand from_tensor(const Tensor& tensor) const = 0;
  virtual Tensor to_tensor(const AnyOperand& operand) const = 0;
  virtual bool can_write() const = 0;
  virtual void write(AnyOperand& operand) const = 0;
  /// Constructs the results of run_at. Throws as it does.
  virtual Values run_in_place(const eager::GraphCall& call, bool linear,
                              std::span<const AnyOperand* const> inputs) const = 0;
};

template <class Operand>
class AnyExecutorOf final : public AnyExecutor {
 public:
  AnyExecutorOf(const eager::BackwardExecutor<Operand>& executor,
                const OperandConversion<Operand>& conversion)
      : executor_(executor), conversion_(conversion) {}

  AnyOperand from_tensor(const Tensor& tensor) const override { return any(conversion_.from_tensor(tensor)); }
  Tensor to_tensor(const AnyOperand& operand) const override { return conversion_.to_tensor(at(operand)); }
  bool can_write() const override { return static_cast<bool>(conversion_.write); }
  void write(AnyOperand& operand) const override { conversion_.write(operand.as<Operand>()); }

  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const AnyOperand* const> inputs) const override {
    return values(executor_.execute_forward(call, pointers(inputs)));
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const AnyOperand* const> inputs) const override {
    return values(executor_.run_transposed_linear(call, pointers(inputs)));
  }
  Values run_in_place(const eager::GraphCall& call, bool linear,
                      std::span<const AnyOperand* const> inputs) const override {
    Memory memory(call.graph.outputs().size());
    executor_.run_at(call, linear, pointers(inputs), memory.operands);
    memory.constructed = true;
    Values results;
    for (std::size_t i = 0; i < memory.count; ++i) results.push_back(any(std::move(memory.operands[i])));
    return results;
  }
  Result<AnyOperand> add_operands(const eager::AddCall& call, AnyOperand a,
                                  const AnyOperand& b) const override {
    Result<Operand> sum = executor_.add_operands(call, std::move(a.as<Operand>()), at(b));
    if (!sum) return sum.error();
    return any(std::move(*sum));
  }
  bool wide_accumulation() const override { return executor_.wide_accumulation(); }
  std::optional<Type> describe(const AnyOperand& x) const override { return executor_.describe(at(x)); }
  std::optional<std::uint32_t> device_of(const AnyOperand& x) const override {
    return executor_.device_of(at(x));
  }
  Result<std::optional<AnyOperand>> ones_like(Type type) const override {
    Result<std::optional<Operand>> ones = executor_.ones_like(type);
    if (!ones) return ones.error();
    return *ones ? std::optional<AnyOperand>(any(std::move(**ones))) : std::nullopt;
  }
  std::optional<bool> is_finite(const AnyOperand& x) const override { return executor_.is_finite(at(x)); }
  std::optional<bool> is_zero(const AnyOperand& x) const override { return executor_.is_zero(at(x)); }
  std::string statistics(const AnyOperand& x) const override { return executor_.statistics(at(x)); }
  std::optional<std::uint64_t> version(const AnyOperand& x) const override {
    return executor_.version(at(x));
  }
  std::size_t bytes(const AnyOperand& x) const override { return executor_.bytes(at(x)); }
  eager::Placement current_placement() const override { return executor_.current_placement(); }
  eager::Event record(eager::Placement placement) const override { return executor_.record(placement); }
  void wait(eager::Placement placement, const eager::Event& event) const override {
    executor_.wait(placement, event);
  }
  std::shared_ptr<const eager::ThreadState> thread_state() const override { return executor_.thread_state(); }

 private:
  // Memory in which run_at constructs operands: all of them or none.
  struct Memory {
    explicit Memory(std::size_t n) : count(n), operands(std::allocator<Operand>().allocate(n)) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
      if (constructed) std::destroy_n(operands, count);
      std::allocator<Operand>().deallocate(operands, count);
    }
    std::size_t count;
    Operand* operands;
    bool constructed = false;
  };
  static const Operand& at(const AnyOperand& operand) { return operand.as<Operand>(); }
  static AnyOperand any(Operand&& operand) { return AnyOperand::make<Operand>(std::move(operand)); }
  static std::vector<const Operand*> pointers(std::span<const AnyOperand* const> inputs) {
    std::vector<const Operand*> typed;
    for (const AnyOperand* input : inputs) typed.push_back(&at(*input));
    return typed;
  }
  static Result<Values> values(Result<eager::Operands<Operand>> from) {
    if (!from) return from.error();
    Values to;
    for (Operand& operand : *from) to.push_back(any(std::move(operand)));
    return to;
  }
  const eager::BackwardExecutor<Operand>& executor_;
  const OperandConversion<Operand>& conversion_;
};

/// The untyped part of the functions below. Not for users.
ExecutorReport check_executor(const AnyExecutor& executor, const ExecutorKitOptions& options);
/// The same for check_slots.
ExecutorReport check_slots(const AnyExecutor& first, const AnyExecutor& second,
                           const ExecutorKitOptions& options);

}  // namespace check

/// Runs every check. The report has the executor's defects; a crash of it, or a method that never returns,
/// ends the program as it would in use. Throws Error (invalid_argument) for missing conversions and for
/// dtypes that are neither floating nor complex.
template <class Operand>
ExecutorReport check_executor(const eager::BackwardExecutor<Operand>& executor,
                              const OperandConversion<Operand>& conversion,
                              const ExecutorKitOptions& options = {}) {
  if (!conversion.from_tensor || !conversion.to_tensor) {
    throw Error(ErrorKind::invalid_argument,
                "check_executor: expected conversions from and to tensors, got an empty function");
  }
  return check::check_executor(check::AnyExecutorOf<Operand>(executor, conversion), options);
}

/// Runs two executors (of one class with other kernels or options, say) in turn on the same slots: each must
/// return its own results. Throws as check_executor does.
template <class Operand>
ExecutorReport check_slots(const eager::BackwardExecutor<Operand>& first,
                           const eager::BackwardExecutor<Operand>& second,
                           const OperandConversion<Operand>& conversion,
                           const ExecutorKitOptions& options = {}) {
  if (!conversion.from_tensor || !conversion.to_tensor) {
    throw Error(ErrorKind::invalid_argument,
                "check_slots: expected conversions from and to tensors, got an empty function");
  }
  return check::check_slots(check::AnyExecutorOf<Operand>(first, conversion),
                            check::AnyExecutorOf<Operand>(second, conversion), options);
}

/// The conversion of executors whose operands are tensors.
inline OperandConversion<Tensor> tensor_conversion() {
  return {[](const Tensor& tensor) { return tensor.clone(); },
          [](const Tensor& tensor) { return tensor.clone(); },
          [](Tensor& tensor) {
            for (std::byte *byte = tensor.mutable_bytes(), *end = byte + tensor.num_bytes(); byte != end;
                 ++byte)
              *byte ^= std::byte{1};
          }};
}

}  // namespace tidu
