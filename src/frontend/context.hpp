// context.hpp - what a thread needs to compute with Arrays: a Recorder, its modes, and a small cache from
// (function, types) to what runs and records it. And invoke(), through which every operation goes: it finds
// (or makes, once) the graph of the operation on these types, runs it and records it as one node; or writes
// its operations into the graph that is being traced. invoke_many() does so for several results.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/devices.hpp"
#include "frontend/known_numbers.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/eager/recorder.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/pool.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::frontend_detail {

/// Of a traced Array that may be anywhere.
inline constexpr std::uint32_t unknown_device = ~std::uint32_t{0};

/// A graph that is being made by trace(). Arrays with data that its operations meet become inputs of their
/// own (captures), so that one graph serves whatever they hold.
class Tracer {
 public:
  Tracer(std::string name, int tracer_level)
      : builder(std::move(name), standard_primitives()), level(tracer_level) {}
  /// The value that stands for `array` here: its own, or that of a capture.
  Value value_of(const Array& array);
  GraphBuilder builder;
  const int level;
  bool ended = false;
  eager::Key floor{};  ///< of a function that is compiled: keys from inside are greater
  std::vector<Array> captured;
  std::vector<Value> captures;
  std::unordered_map<const Body*, std::size_t> places;
};

/// What few Arrays have.
struct Extra {
  std::optional<eager::Leaf<Tensor>> leaf;
  /// The storage of the Array's tensor, when it is a promise that took the place of what was to be written.
  const tidu::detail::LazyStorage* promised = nullptr;
  std::shared_ptr<Tracer> tracer;
  Value value;
  Type type;                              ///< of the value, also when the trace has ended
  std::uint32_t device = unknown_device;  ///< where the value will be, as far as that is known
};

/// The executor that recorders and backward calls see: the one that the thread has chosen, which carries the
/// thread's modes to workers. In lazy mode what it is to run is recorded instead.
class ErasedExecutor final : public TensorOperands<DispatchExecutor> {
 public:
  explicit ErasedExecutor(const DispatchExecutor* executor) : executor_(executor) {}
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    return executor_->execute_forward(call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override {
    return executor_->run_transposed_linear(call, inputs);
  }
  void run_at(const eager::GraphCall& call, bool linear, std::span<const Tensor* const> inputs,
              Tensor* out) const override {
    if (devices_in_use() && run_on_devices(call, linear, inputs, out)) [[unlikely]]
      return;
    if (intercepts_.load(std::memory_order_relaxed) && intercepted(call, inputs, out)) [[unlikely]]
      return;
    executor_->run_at(call, linear, inputs, out);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override;
  bool wide_accumulation() const override { return executor_->wide_accumulation(); }
  std::optional<std::uint32_t> device_of(const Tensor& tensor) const override {
    return executor_->device_of(tensor);
  }
  bool watch_finite(const Tensor& tensor, const std::function<void()>& report) const override {
    return executor_at(tensor.device()).watch_finite(tensor, report);
  }
  void check_watched() const override;
  eager::Placement current_placement() const override { return executor_->current_placement(); }
  eager::Event record(eager::Placement placement) const override {
    return executor_at(placement.device).record(placement);
  }
  void wait(eager::Placement placement, const eager::Event& event) const override {
    executor_at(placement.device).wait(placement, event);
  }
  std::shared_ptr<const eager::ThreadState> thread_state() const override;
  /// Who computes there: the thread's executor on its own device, and for the host.
  const DispatchExecutor& executor_at(std::uint32_t device) const {
    return device == 0 || device == executor_->current_placement().device ? *executor_ : executor_on(device);
  }

  const DispatchExecutor* executor() const { return executor_; }
  void set_executor(const DispatchExecutor* executor) { executor_ = executor; }
  void set_intercepts(bool intercepts) { intercepts_.store(intercepts, std::memory_order_relaxed); }

 private:
  bool run_on_devices(const eager::GraphCall& call, bool linear, std::span<const Tensor* const> inputs,
                      Tensor* out) const;
  bool intercepted(const eager::GraphCall& call, std::span<const Tensor* const> inputs, Tensor* out) const;
  bool records() const;
  const DispatchExecutor* executor_;
  std::atomic<bool> intercepts_{false};  // workers of a backward call read it
};

/// Emits what a function means on values of these types. It borrows the function.
template <class Result>
class Builds {
 public:
  template <class F>
  Builds(const F& f)
      : body_(&f), call_([](const void* body, Emitter& emitter, std::span<const Value> operands) -> Result {
          return (*static_cast<const F*>(body))(emitter, operands);
        }) {}
  Result operator()(Emitter& emitter, std::span<const Value> operands) const {
    return call_(body_, emitter, operands);
  }

 private:
  const void* body_;
  Result (*call_)(const void*, Emitter&, std::span<const Value>);
};
using Build = Builds<Value>;
using BuildMany = Builds<Values>;

inline constexpr std::size_t max_operands = 4;
inline constexpr std::size_t max_words = 6;

/// Which function, with which static arguments: calls of one name (a string literal, told by its address) and
/// equal words, on equal types, are one graph. So no two functions may have one name.
struct Call {
  const char* name;
  std::span<const std::int64_t> words{};
  bool moves = false;  ///< the operand goes to the device of the first word
};

/// What the cache keeps for a call on some types.
struct CacheEntry {
  const char* name = nullptr;
  std::size_t num_types = 0;
  std::size_t num_words = 0;
  std::array<const void*, max_operands> types{};
  std::array<std::int64_t, max_words> words{};
  std::optional<eager::RecordedGraph> graph;
  const Executable* executable = nullptr;  ///< in the graph's slot; null: the executor is not a CpuExecutor
};

/// The graphs of calls, by what tells these apart; the longest unused go.
class GraphTable {
 public:
  /// Null where there is none. The pointer holds until the next call of keep().
  const eager::RecordedGraph* find(const std::string& key);
  const eager::RecordedGraph& keep(std::string key, eager::RecordedGraph graph);

 private:
  static constexpr std::size_t most = 4096;  // of each of the two
  std::unordered_map<std::string, eager::RecordedGraph> recent_, before_;
};

class HotDetector;
class LazyTrace;
struct LazyRunner;

/// The last few operations without derivative that got an Array with a gradient, each once: what to name
/// where backward is asked for of an Array that depends on no leaf.
class BlockedOperations {
 public:
  void add(std::string_view name, Where where);
  /// "floor (model.cpp:12) and argmax (model.cpp:14)", the first of them first; empty where there was none.
  std::string text() const;

 private:
  static constexpr std::size_t max_operations = 4;
  struct Entry {
    std::string name;
    Where where{};
  };
  std::vector<Entry> entries_;  // the last one last
};

struct Context {
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  static constexpr std::size_t cache_size = 512;

  ErasedExecutor host;
  const CpuExecutor* cpu = nullptr;  ///< the executor, when it is one
  bool runs_library_alone = false;   ///< the executor is tidu::cpu(), whose kernels are the library's
  eager::Recorder<Tensor> recorder;
  bool grad_mode = true;
  int lazy = 0;                                     ///< lazy scopes around; 0 also while a lazy program runs
  bool hot_on = false;                              ///< hot sequences are looked for
  bool intercepts = false;                          ///< either: operations are shown to record_lazily()
  std::shared_ptr<LazyTrace> trace;                 ///< from the first scope of either kind on
  std::vector<std::shared_ptr<LazyTrace>> retired;  ///< traces before it that owe something
  std::unique_ptr<HotDetector> hot;                 ///< likewise
  std::uint64_t evaluations_before = 0;             ///< when the hot sequence began anew
  BlockedOperations blocked;
  bool watches = false;  ///< anomaly or keep_blocked or profile: every operation goes to the recorder
  /// The least key (0 for those of other recorders) that was recorded as an input; what transforms ask to
  /// see whether a function used anything from outside.
  std::uint64_t lowest = ~std::uint64_t{0};
  std::vector<Tracer*> tracers;  ///< those that run, outermost first
  std::unique_ptr<CacheEntry[]> cache;
  std::uint64_t cache_of = 0;  ///< the id of the executor whose programs the cache's entries name
  KnownNumbers numbers;
  GraphTable graphs;  ///< those of all calls, of which the cache has the nearest
  /// The tracer that runs innermost, where it or one around it takes every operation on Arrays, also on those
  /// from outside alone: it is of a function that may not be chosen.
  std::shared_ptr<Tracer> takes_all;
  /// The tracer of the function that is being compiled, of several the innermost: it takes what is computed
  /// of Arrays from outside that require a gradient, as these have other elements, and what is recorded of
  /// them another tape, when the function is called again.
  std::shared_ptr<Tracer> compiling;

  void set_executor(const DispatchExecutor* executor);
  void empty_cache();
  LazyRunner runner_on(std::uint32_t device) const;
  void set_hot(bool on);
  void update();                                   ///< when `lazy` or `hot_on` has changed
  LazyTrace& trace_for(const LazyRunner& runner);  ///< the trace, which that one runs
  void retire(std::shared_ptr<LazyTrace> old) noexcept;
  void set_options(const eager::RecorderOptions& options);
};

extern constinit thread_local Context* current_context;
Context& make_context();
inline Context& context() {
  Context* const found = current_context;
  return found != nullptr ? *found : make_context();
}

/// Where operations are intercepted: records the graph on `inputs`, to run on that device (0: where the
/// thread's executor runs things), and puts promises in `out`; false, and nothing done, where it must run at
/// once.
bool record_lazily(Context& c, const Graph& graph, std::uint32_t device,
                   std::span<const Tensor* const> inputs, std::span<Tensor> out);

/// Stands for an Array without a value until invoke() refuses it, which knows what for; looks traced.
const Body& no_value();
/// An operand of invoke: `body` is null for a number.
struct Input {
  const Body* body;
  const Tensor* tensor;
  Input(const Array& array)
      : body(array.body() != nullptr ? array.body() : &no_value()), tensor(&body->tensor) {}
  Input(const Body* b, const Tensor* t) : body(b), tensor(t) {}
};

/// The one way in which operations are done.
Array invoke(const Call& call, std::span<const Input> operands, const Build& build, Where where);
/// The same for operations of several results, which are recorded as one node.
std::vector<Array> invoke_many(const Call& call, std::span<const Array> operands, const BuildMany& build,
                               Where where);

[[gnu::always_inline]] inline Body* make_body(const Tensor& tensor) {
  // Not as an aggregate: compilers would clear all of it first, by an instruction that takes long to begin.
  Body* const made = ::new (tidu::detail::pool_allocate(sizeof(Body))) Body;
  made->tensor = tensor;
  return made;
}
inline Body* make_body() { return ::new (tidu::detail::pool_allocate(sizeof(Body))) Body; }
/// Wraps a result; `trace` when it was recorded.
Array make_array(Tensor&& tensor);
Array make_array(Tensor&& tensor, const eager::EagerOutput& recorded);
Array make_traced(std::shared_ptr<Tracer> tracer, Value value, std::uint32_t device);
/// Where the thread's executor is to do an operation on these: 0, or another device, which they are on.
/// Throws Error (invalid_argument) where they are on several.
std::uint32_t device_for(const Context& c, std::span<const Input> operands, std::string_view operation);
/// The same before anything is computed, which may leave it open.
std::uint32_t traced_device(std::span<const Input> operands, std::string_view operation);
/// The same of the outputs of a graph.
std::vector<std::uint32_t> traced_devices(const Graph& graph, std::span<const Input> operands);
inline bool is_traced(const Body& body) { return body.traced; }
/// The result of an operation that was traced: where nothing is recorded gradients do not pass.
Value traced_result(Value value, Where where);
/// Is it an Array from outside the function that is being compiled that requires a gradient?
inline bool is_parameter(const Context& c, const Body& body) {
  return c.compiling != nullptr && body.requires_grad && !body.traced &&
         (body.key.source != c.compiling->floor.source || body.key.counter <= c.compiling->floor.counter);
}
/// The innermost tracer among the operands, or one that takes operations on them, or null.
Tracer* tracer_of(std::span<const Input> operands);
std::shared_ptr<Tracer> shared_tracer(std::span<const Input> operands, const Tracer* tracer);

/// A graph of one operation, called: for operations with attributes that are no words of a Call. `bodies`:
/// the graphs among these.
std::vector<Array> call_operation(std::string_view name, const std::vector<Array>& arguments,
                                  const std::function<Values(Emitter&, std::span<const Value>)>& emit,
                                  Where where, std::span<const Graph> bodies = {});
/// Runs and records a graph of any number of outputs as one node. `given`: the inputs once more where the
/// caller needs none of them any more, for results to take their memory.
std::vector<Array> run_and_record(const eager::RecordedGraph& graph, std::span<const Array> inputs,
                                  Where where, std::span<Array> given = {});

/// Refuses Arrays without a value.
void require_values(std::span<const Input> operands, std::string_view function, Where where);
/// "[function] message\n  in function(f64[3], f64[4]), file:line".
[[noreturn]] void refuse(ErrorKind kind, std::string_view function, const std::string& message, Where where);
std::string at_place(Where where);
/// What to say of a complex operand of a function of real numbers.
inline std::string expected_real(Type got) {
  return detail::str("expected real numbers, got complex ones, ", got);
}
[[noreturn]] void raise_located(const Error& error, std::string_view function, std::span<const Type> types,
                                Where where);
/// The same with the names that operands were given by set_name: `in add("w" f64[3], f64[4])`.
[[noreturn]] void raise_located(const Error& error, std::string_view function,
                                std::span<const Input> operands, Where where);
[[noreturn]] void raise_located(const Error& error, std::string_view function,
                                std::span<const Array> arguments, Where where);

/// Refuse an operand without a value.
[[noreturn]] void refuse_no_value(std::string_view function, Where where);
inline void require_value(const Array& x, std::string_view function, const Where& where) {
  if (x.empty_handle()) [[unlikely]]
    refuse_no_value(function, where);
}
/// What an Array holds. Refuses one without a value.
inline const Body& body_of(const Array& x, std::string_view function, const Where& where) {
  require_value(x, function, where);
  return *x.body();
}
inline std::size_t rank_of(const Array& x, std::string_view function, const Where& where) {
  require_value(x, function, where);
  return x.ndim();
}
std::int64_t normal_axis(std::int64_t axis, std::size_t rank, std::string_view function, Where where);
/// Ascending, without repetition; all axes where that is meant.
Ints normal_axes(const Axes& axes, std::size_t rank, std::string_view function, Where where);
/// The same of an operand. Refuse one without a value.
inline std::int64_t normal_axis(std::int64_t axis, const Array& x, std::string_view function, Where where) {
  return normal_axis(axis, rank_of(x, function, where), function, where);
}
inline Ints normal_axes(const Axes& axes, const Array& x, std::string_view function, Where where) {
  return normal_axes(axes, rank_of(x, function, where), function, where);
}

}  // namespace tidu::frontend_detail
