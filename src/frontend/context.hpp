// context.hpp - Context: the state of a thread that computes with Arrays: a Recorder, its modes, and a cache
// from (function, types) to graphs and executables. invoke() performs every operation. It finds the graph of
// the operation for the operands' types (or builds it once), and runs and records it as one node; during a
// trace, it adds the operation to the traced graph. invoke_many() is the same for several results.
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

/// The device of a traced Array that is not known yet.
inline constexpr std::uint32_t unknown_device = ~std::uint32_t{0};

/// A graph that trace() builds. Arrays with data that occur in it become further inputs (captures), so that
/// the graph does not depend on their values.
class Tracer {
 public:
  Tracer(std::string name, int tracer_level)
      : builder(std::move(name), standard_primitives()), level(tracer_level) {}
  /// The value of `array` in this graph: its own, or that of a capture.
  Value value_of(const Array& array);
  GraphBuilder builder;
  const int level;
  bool ended = false;
  eager::Key floor{};  ///< of a compiled function: keys of Arrays from inside are greater
  std::vector<Array> captured;
  std::vector<Value> captures;
  std::unordered_map<const Body*, std::size_t> places;
};

/// Data that few Arrays have.
struct Extra {
  std::optional<eager::Leaf<Tensor>> leaf;
  /// The storage of the Array's tensor, if it is a lazy tensor that replaced memory that an update was to
  /// overwrite.
  const tidu::detail::LazyStorage* lazy_storage = nullptr;
  std::shared_ptr<Tracer> tracer;
  Value value;
  Type type;                              ///< of the value, also after the trace has ended
  std::uint32_t device = unknown_device;  ///< the device of the value, if it is known
};

/// The executor that recorders and backward calls see. It dispatches to the executor that the thread has
/// chosen, and carries the thread's modes to worker threads. In lazy mode it records the operation instead.
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
  /// The executor for a device: the thread's executor for its own device and for the host.
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
  std::atomic<bool> intercepts_{false};  // worker threads of a backward call read it
};

/// Emits the operations of a function for values of the given types. It holds a reference to the function.
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
inline constexpr std::size_t max_static_args = 6;

/// A function and its static arguments. Calls with one name (a string literal, compared by address), equal
/// static arguments and equal types share one graph, so two functions must not have the same name.
struct Call {
  const char* name;
  std::span<const std::int64_t> static_args{};
  bool moves = false;  ///< the operand goes to the device in the first static argument
};

/// The cache entry of a call for some types.
struct CacheEntry {
  const char* name = nullptr;
  std::size_t num_types = 0;
  std::size_t num_static_args = 0;
  std::array<const void*, max_operands> types{};
  std::array<std::int64_t, max_static_args> static_args{};
  std::optional<eager::RecordedGraph> graph;
  const Executable* executable = nullptr;  ///< in the graph's slot; null if the executor is not a CpuExecutor
};

/// The graphs of calls, by key. Least recently used graphs are dropped.
class GraphTable {
 public:
  /// Null if there is none. The pointer is valid until the next call of keep().
  const eager::RecordedGraph* find(const std::string& key);
  const eager::RecordedGraph& keep(std::string key, eager::RecordedGraph graph);

 private:
  static constexpr std::size_t most = 4096;  // of each of the two maps
  std::unordered_map<std::string, eager::RecordedGraph> recent_, before_;
};

class HotDetector;
class LazyTrace;
struct LazyRunner;

/// The last few operations without a derivative that got an Array with a gradient, each once. Errors name
/// them if backward is called for an Array that depends on no leaf.
class BlockedOperations {
 public:
  void add(std::string_view name, Where where);
  /// "floor (model.cpp:12) and argmax (model.cpp:14)", the first of them first; empty if there is none.
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
  const CpuExecutor* cpu = nullptr;  ///< the executor, if it is a CpuExecutor
  bool runs_library_alone = false;   ///< the executor is tidu::cpu(), which has the library's kernels only
  eager::Recorder<Tensor> recorder;
  bool grad_mode = true;
  int lazy = 0;                      ///< number of enclosing lazy scopes; 0 also while a lazy program runs
  bool hot_on = false;               ///< hot sequences are detected
  bool intercepts = false;           ///< `lazy` or `hot_on`: operations go to record_lazily()
  std::shared_ptr<LazyTrace> trace;  ///< from the first lazy or hot scope on
  std::vector<std::shared_ptr<LazyTrace>> retired;  ///< earlier traces with live lazy tensors
  std::unique_ptr<HotDetector> hot;                 ///< from the first hot scope on
  std::uint64_t evaluations_before = 0;  ///< number of evaluations when the hot sequence last restarted
  BlockedOperations blocked;
  bool watches = false;  ///< anomaly, keep_blocked or profile: every operation goes to the recorder
  /// The least key that was recorded as an input (0 for keys of other recorders). Transforms use it to detect
  /// that a function used Arrays from outside.
  std::uint64_t lowest = ~std::uint64_t{0};
  std::vector<Tracer*> tracers;  ///< active tracers, outermost first
  std::unique_ptr<CacheEntry[]> cache;
  std::uint64_t cache_of = 0;  ///< the id of the executor whose programs are in the cache
  KnownNumbers numbers;
  GraphTable graphs;  ///< graphs of all calls; `cache` holds the most recent ones
  /// The innermost tracer, if it or an enclosing one takes every operation on Arrays, also those on outside
  /// Arrays alone. It is of a function that may run conditionally.
  std::shared_ptr<Tracer> takes_all;
  /// The innermost tracer of a function that is being compiled. It takes operations on outside Arrays that
  /// require a gradient: when the compiled function is called again, these have other elements and another
  /// tape.
  std::shared_ptr<Tracer> compiling;

  void set_executor(const DispatchExecutor* executor);
  void empty_cache();
  LazyRunner runner_on(std::uint32_t device) const;
  void set_hot(bool on);
  void update();                                   ///< call it after a change of `lazy` or `hot_on`
  LazyTrace& trace_for(const LazyRunner& runner);  ///< the trace that `runner` runs
  void retire(std::shared_ptr<LazyTrace> old) noexcept;
  void set_options(const eager::RecorderOptions& options);
};

extern constinit thread_local Context* current_context;
Context& make_context();
inline Context& context() {
  Context* const found = current_context;
  return found != nullptr ? *found : make_context();
}

/// If operations are intercepted: records the graph on `inputs` for that device (0: the device of the
/// thread's executor) and puts lazy tensors into `out`. Returns false, without effect, if the graph must run
/// at once.
bool record_lazily(Context& c, const Graph& graph, std::uint32_t device,
                   std::span<const Tensor* const> inputs, std::span<Tensor> out);

/// Represents an Array without a value until invoke() reports it with the name of the function; it counts as
/// traced.
const Body& no_value();
/// An operand of invoke; `body` is null for a number.
struct Input {
  const Body* body;
  const Tensor* tensor;
  Input(const Array& array)
      : body(array.body() != nullptr ? array.body() : &no_value()), tensor(&body->tensor) {}
  Input(const Body* b, const Tensor* t) : body(b), tensor(t) {}
};

/// Performs an operation; all operations go through it.
Array invoke(const Call& call, std::span<const Input> operands, const Build& build, Where where);
/// As invoke for operations with several results, which are recorded as one node.
std::vector<Array> invoke_many(const Call& call, std::span<const Array> operands, const BuildMany& build,
                               Where where);

[[gnu::always_inline]] inline Body* make_body(const Tensor& tensor) {
  // Not an aggregate: compilers would clear all of it by an instruction with a long startup.
  Body* const made = ::new (tidu::detail::pool_allocate(sizeof(Body))) Body;
  made->tensor = tensor;
  return made;
}
inline Body* make_body() { return ::new (tidu::detail::pool_allocate(sizeof(Body))) Body; }
/// Creates the Array of a result; with `recorded` if it was recorded.
Array make_array(Tensor&& tensor);
Array make_array(Tensor&& tensor, const eager::EagerOutput& recorded);
Array make_traced(std::shared_ptr<Tracer> tracer, Value value, std::uint32_t device);
/// The device for an operation on these operands: 0, or another device on which they all are. Throws Error
/// (invalid_argument) if they are on several devices.
std::uint32_t device_for(const Context& c, std::span<const Input> operands, std::string_view operation);
/// As device_for during a trace, when the device may be unknown.
std::uint32_t traced_device(std::span<const Input> operands, std::string_view operation);
/// As device_for for each output of a graph.
std::vector<std::uint32_t> traced_devices(const Graph& graph, std::span<const Input> operands);
inline bool is_traced(const Body& body) { return body.traced; }
/// The result of a traced operation; if nothing is recorded, gradients are blocked.
Value traced_result(Value value, Where where);
/// Is it an outside Array that requires a gradient, relative to the function that is being compiled?
inline bool is_parameter(const Context& c, const Body& body) {
  return c.compiling != nullptr && body.requires_grad && !body.traced &&
         (body.key.source != c.compiling->floor.source || body.key.counter <= c.compiling->floor.counter);
}
/// The innermost tracer among the operands, or one that takes operations on them, or null.
Tracer* tracer_of(std::span<const Input> operands);
std::shared_ptr<Tracer> shared_tracer(std::span<const Input> operands, const Tracer* tracer);

/// Calls a graph of one operation, for operations whose attributes are not static arguments of a Call.
/// `bodies`: the graphs among the attributes.
std::vector<Array> call_operation(std::string_view name, const std::vector<Array>& arguments,
                                  const std::function<Values(Emitter&, std::span<const Value>)>& emit,
                                  Where where, std::span<const Graph> bodies = {});
/// Runs a graph with any number of outputs and records it as one node. `given`: the inputs again, if the
/// caller no longer needs them and results may take their memory.
std::vector<Array> run_and_record(const eager::RecordedGraph& graph, std::span<const Array> inputs,
                                  Where where, std::span<Array> given = {});

/// Throws Error if an Array has no value.
void require_values(std::span<const Input> operands, std::string_view function, Where where);
/// Throws an Error with the text "[function] message\n  in function(f64[3], f64[4]), file:line".
[[noreturn]] void refuse(ErrorKind kind, std::string_view function, const std::string& message, Where where);
std::string at_place(Where where);
/// The message for a complex operand of a function of real numbers.
inline std::string expected_real(Type got) {
  return detail::str("expected real numbers, got complex ones, ", got);
}
[[noreturn]] void raise_located(const Error& error, std::string_view function, std::span<const Type> types,
                                Where where);
/// As refuse(), with the names that set_name gave to operands: `in add("w" f64[3], f64[4])`.
[[noreturn]] void raise_located(const Error& error, std::string_view function,
                                std::span<const Input> operands, Where where);
[[noreturn]] void raise_located(const Error& error, std::string_view function,
                                std::span<const Array> arguments, Where where);

/// Throw Error for an operand without a value.
[[noreturn]] void refuse_no_value(std::string_view function, Where where);
inline void require_value(const Array& x, std::string_view function, const Where& where) {
  if (x.empty_handle()) [[unlikely]]
    refuse_no_value(function, where);
}
/// The body of an Array. Throws Error if it has no value.
inline const Body& body_of(const Array& x, std::string_view function, const Where& where) {
  require_value(x, function, where);
  return *x.body();
}
inline std::size_t rank_of(const Array& x, std::string_view function, const Where& where) {
  require_value(x, function, where);
  return x.ndim();
}
std::int64_t normal_axis(std::int64_t axis, std::size_t rank, std::string_view function, Where where);
/// The axes in ascending order without repetition; all axes if `axes` says so.
Ints normal_axes(const Axes& axes, std::size_t rank, std::string_view function, Where where);
/// As above for an operand. Throw Error if it has no value.
inline std::int64_t normal_axis(std::int64_t axis, const Array& x, std::string_view function, Where where) {
  return normal_axis(axis, rank_of(x, function, where), function, where);
}
inline Ints normal_axes(const Axes& axes, const Array& x, std::string_view function, Where where) {
  return normal_axes(axes, rank_of(x, function, where), function, where);
}

}  // namespace tidu::frontend_detail
