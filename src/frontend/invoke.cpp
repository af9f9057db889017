// invoke.cpp - runs and records one operation. In the common case, an operation in the cache with up to four
// operands, the only allocations are its results (a tensor, a node, an Array).
#include <algorithm>

#include "frontend/hot.hpp"
#include "frontend/invoke.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::frontend_detail {
namespace {

using eager::detail::RecordInput;

std::size_t home(const Call& call, std::span<const Input> operands) {
  auto mixed = reinterpret_cast<std::uintptr_t>(call.name);
  for (const Input& operand : operands)
    mixed = mixed * 0x9e3779b97f4a7c15ULL +
            (reinterpret_cast<std::uintptr_t>(operand.tensor->type().identity()) >> 4);
  for (const std::int64_t arg : call.static_args)
    mixed = (mixed ^ static_cast<std::uint64_t>(arg)) * 0x9e3779b97f4a7c15ULL;
  mixed *= 0x9e3779b97f4a7c15ULL;
  return (mixed >> 40) & (Context::cache_size - 1);
}

bool same(const CacheEntry& entry, const Call& call, std::span<const Input> operands) {
  if (entry.name != call.name || entry.num_types != operands.size() ||
      entry.num_static_args != call.static_args.size())
    return false;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (entry.types[i] != operands[i].tensor->type().identity()) return false;
  for (std::size_t i = 0; i < call.static_args.size(); ++i)
    if (entry.static_args[i] != call.static_args[i]) return false;
  return true;
}

// An entry may be in one of several slots. With one slot, two operations of a loop would often evict each
// other, and be built again each time.
constexpr std::size_t ways = 4;
CacheEntry* entries_of(const Context& c, const Call& call, std::span<const Input> operands) {
  return &c.cache[home(call, operands) & ~(ways - 1)];
}

// The call's entry, or null.
CacheEntry* find(Context& c, const Call& call, std::span<const Input> operands) {
  // The executor may have been assigned to, and is another one then.
  if (c.cpu != nullptr && c.cpu->id() != c.cache_of) [[unlikely]]
    c.empty_cache();
  CacheEntry* const set = entries_of(c, call, operands);
  for (std::size_t i = 0; i < ways; ++i)
    if (same(set[i], call, operands)) return set + i;
  return nullptr;
}

CacheEntry* keep(const Context& c, const Call& call, std::span<const Input> operands, CacheEntry&& entry) {
  static thread_local std::size_t replaced = 0;
  CacheEntry* const set = entries_of(c, call, operands);
  CacheEntry* slot =
      std::find_if(set, set + ways, [](const CacheEntry& other) { return other.name == nullptr; });
  if (slot == set + ways) slot = set + replaced++ % ways;
  *slot = std::move(entry);
  return slot;
}

std::vector<Type> input_types(std::span<const Input> operands) {
  std::vector<Type> types;
  for (const Input& operand : operands) types.push_back(operand.tensor->type());
  return types;
}

std::vector<Type> traced_types(std::span<const Input> operands) {
  std::vector<Type> types;
  for (const Input& operand : operands)
    types.push_back(operand.body != nullptr && is_traced(*operand.body) ? operand.body->extra->type
                                                                        : operand.tensor->type());
  return types;
}

eager::RecordedGraph make_graph(const Call& call, std::span<const Type> types, const BuildMany& build) {
  GraphBuilder::Options options;
  options.record_where = false;
  GraphBuilder builder(std::string(call.name), standard_primitives(), options);
  std::vector<Value> values;
  for (std::size_t i = 0; i < types.size(); ++i)
    values.push_back(builder.input(detail::str("x", i), types[i]));
  const Values results = build(builder, values);
  return eager::RecordedGraph::of(builder.build(std::span<const Value>(results.data(), results.size())));
}

// Would the call be right if no operand were complex?
bool refuses_complex(const Call& call, std::span<const Type> types, const BuildMany& build) {
  std::vector<Type> real;
  for (const Type& type : types) real.emplace_back(real_dtype(type.dtype()), type.shape());
  if (std::equal(real.begin(), real.end(), types.begin())) return false;
  return detail::capture([&] { return make_graph(call, real, build); }).has_value();
}

// The error of a call, with its source location. The user may not have written the operation that rejects a
// complex operand: the message then names the function, unless the error mentions complex numbers itself.
[[noreturn]] void raise_refused(const Error& error, const Call& call, std::span<const Input> operands,
                                const BuildMany& build, Where where) {
  const std::vector<Type> types = traced_types(operands);
  const bool speaks_of_it = std::string_view(error.what()).find("complex") != std::string_view::npos;
  if (error.kind() != ErrorKind::type || speaks_of_it || !refuses_complex(call, types, build))
    raise_located(error, call.name, operands, where);
  const auto complex =
      std::find_if(types.begin(), types.end(), [](const Type& type) { return is_complex(type.dtype()); });
  raise_located(Error(ErrorKind::type, detail::str('[', call.name, "] ", expected_real(*complex))), call.name,
                operands, where);
}

// The graph of a call, made once while there are not too many of them.
const eager::RecordedGraph& kept_graph(Context& c, const Call& call, std::span<const Input> operands,
                                       const BuildMany& build) {
  std::string key;
  const auto append = [&](const auto& part) {
    key.append(reinterpret_cast<const char*>(&part), sizeof part);
  };
  append(call.name);
  append(operands.size());
  for (const Input& operand : operands) append(operand.tensor->type().identity());
  for (const std::int64_t arg : call.static_args) append(arg);
  if (const eager::RecordedGraph* const found = c.graphs.find(key)) return *found;
  return c.graphs.keep(std::move(key), make_graph(call, input_types(operands), build));
}

// Makes the entry of a call that has none; `made` keeps it if the cache does not. Compilation may compute
// with Arrays itself and choose executors, so the slot of the entry is determined afterwards.
CacheEntry* fill(std::optional<CacheEntry>& made, Context& c, const Call& call,
                 std::span<const Input> operands, const BuildMany& build, bool here) {
  const DispatchExecutor* const executor = c.host.executor();
  CacheEntry& entry = made.emplace();
  entry.graph = kept_graph(c, call, operands, build);
  if (c.cpu != nullptr && c.lazy == 0 && here) entry.executable = &compiled(*c.cpu, *entry.graph);
  const bool cacheable = operands.size() <= max_operands && call.static_args.size() <= max_static_args;
  if (!cacheable || c.host.executor() != executor) return &entry;
  entry.name = call.name;
  entry.num_types = operands.size();
  entry.num_static_args = call.static_args.size();
  for (std::size_t i = 0; i < operands.size(); ++i) entry.types[i] = operands[i].tensor->type().identity();
  std::copy(call.static_args.begin(), call.static_args.end(), entry.static_args.begin());
  return keep(c, call, operands, std::move(entry));
}

// On a device but that of the thread's executor.
void run_away(Context& c, const eager::RecordedGraph& graph, std::uint32_t device,
              std::span<const Tensor* const> inputs, Tensor& out) {
  if (c.intercepts && record_lazily(c, graph.graph(), device, inputs, std::span(&out, 1))) return;
  const DispatchExecutor& executor = executor_on(device);
  const eager::GraphCall call{graph.graph(), graph.slot(), executor.current_placement()};
  out = std::move(executor.execute_forward(call, inputs).value()[0]);
}

// `executable`: null as long as none was needed.
void run(Context& c, const eager::RecordedGraph& graph, const Executable*& executable,
         std::span<const Tensor* const> inputs, Tensor& out, std::uint32_t device) {
  if (device != 0) [[unlikely]]
    return run_away(c, graph, device, inputs, out);
  if (executable != nullptr && !c.intercepts) [[likely]] {
    executable->run_into(inputs, std::span(&out, 1));
    return;
  }
  if (c.intercepts && record_lazily(c, graph.graph(), 0, inputs, std::span(&out, 1))) return;
  if (c.cpu != nullptr) {
    if (executable == nullptr) executable = &compiled(*c.cpu, graph);
    return executable->run_into(inputs, std::span(&out, 1));
  }
  const eager::GraphCall call{graph.graph(), graph.slot()};
  out = std::move(c.host.executor()->execute_forward(call, inputs).value()[0]);
}

// The same, entered in the profile.
void run_profiled(Context& c, const eager::RecordedGraph& graph, const Executable*& executable,
                  std::span<const Tensor* const> inputs, Tensor& out, std::string_view name, Where where,
                  std::uint32_t device) {
  eager::Profile& profile = *c.recorder.options().profile;
  eager::ProfileEvent event;
  event.begin = profile.now();
  run(c, graph, executable, inputs, out, device);
  event.end = profile.now();
  event.phase = eager::ProfilePhase::execute;
  event.name = name;
  if (where.file != nullptr) event.where = detail::str(where.file, ':', where.line);
  event.bytes = out.num_bytes();
  profile.add(std::move(event));
}

// Records the invocation that gave `made`. Under NoGrad no gradient flows through it: in anomaly mode its
// results are checked, and it is recorded for explain().
void record(Context& c, const eager::RecordedGraph& graph, std::span<const Input> operands, Body& made,
            Where where, std::uint32_t device) {
  eager::detail::ShortArray<RecordInput, max_operands> inputs(operands.size());
  const std::uint64_t own = c.recorder.keys().source();
  const bool keeps_blocked = c.recorder.options().keep_blocked;
  bool grad = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Body* body = operands[i].body;
    if (body == nullptr || (!c.grad_mode && !keeps_blocked)) {
      inputs[i] = {{}, nullptr, false, operands[i].tensor};
      continue;
    }
    inputs[i] = {body->key, body->trace.node(), body->requires_grad && c.grad_mode, operands[i].tensor};
    grad = grad || inputs[i].requires_grad;
    if (inputs[i].requires_grad)
      c.lowest = std::min(c.lowest, body->key.source == own ? body->key.counter : 0);
  }
  const void* outputs[1] = {&made.tensor};
  bool active = false;
  eager::detail::Node* node = c.recorder.core().record(
      {graph.shared(), inputs.span(), outputs, {}, placement_at(c, device), where}, &active);
  if (grad && !active) c.blocked.add(graph.graph().name(), where);
  if (node != nullptr) {
    made.trace = eager::Trace::adopt(eager::detail::count_of(node));
    made.key = eager::detail::first_key(made.trace.node());
    made.requires_grad = active;
  }
}

// The results are values of the tracer's builder.
Values emit_traced(Tracer& tracer, std::span<const Input> operands, const BuildMany& build, const Call& call,
                   Where where) {
  // Operations get the user's source location: the operations that the function emits have none.
  class Located final : public Emitter {
   public:
    Located(GraphBuilder& builder, Where location) : builder_(builder), location_(location) {}
    Type type_of(ValueId id) const override { return builder_.type_of(id); }
    Values emit(const Op& op, std::span<const Value> values, Where) override {
      return move(builder_.emit(op, back(values), location_));
    }
    Value emit_one(const Op& op, std::span<const Value> values, Where) override {
      return {this, builder_.emit_one(op, back(values), location_).id()};
    }
    const PrimitiveSet& primitives() const override { return builder_.primitives(); }

   private:
    std::span<const Value> back(std::span<const Value> values) {
      buffer_.clear();
      for (const Value& value : values) buffer_.emplace_back(&builder_, value.id());
      return buffer_;
    }
    Values move(Values values) {
      for (Value& value : values) value = Value(this, value.id());
      return values;
    }
    GraphBuilder& builder_;
    Where location_;
    std::vector<Value> buffer_;
  };
  Located emitter(tracer.builder, where);
  try {
    std::vector<Value> values;
    for (const Input& operand : operands) {
      Value value;
      if (operand.body == nullptr) {
        value = ops::full(tracer.builder, operand.tensor->type(), operand.tensor->to_literal(), where);
      } else {
        Body* const body = const_cast<Body*>(operand.body);
        body->references.fetch_add(1, std::memory_order_relaxed);
        value = tracer.value_of(Array(Array::Adopt{}, body));
      }
      values.emplace_back(&emitter, value.id());
    }
    Values results = build(emitter, values);
    for (Value& result : results) result = traced_result(Value(&tracer.builder, result.id()), where);
    return results;
  } catch (const Error& error) {
    raise_refused(error, call, operands, build, where);
  }
}

// The device of the results of a call on traced Arrays.
std::uint32_t device_of_traced(std::span<const Input> operands, const Call& call, Where where) {
  if (call.moves) return static_cast<std::uint32_t>(call.static_args[0]);
  try {
    return traced_device(operands, call.name);
  } catch (const Error& error) {
    raise_located(error, call.name, operands, where);
  }
}

}  // namespace

Value traced_result(Value value, Where where) {
  if (context().grad_mode || !is_inexact(value.dtype())) return value;
  return ops::stop_gradient(value, where);
}

Tracer* tracer_of(std::span<const Input> operands) {
  const Context& c = context();
  Tracer* found = nullptr;
  const auto take = [&found](Tracer* tracer) {
    if (tracer != nullptr && (found == nullptr || tracer->level > found->level)) found = tracer;
  };
  for (const Input& operand : operands) {
    if (operand.body == nullptr) continue;
    take(c.takes_all.get());
    if (is_parameter(c, *operand.body)) take(c.compiling.get());
    if (!is_traced(*operand.body)) continue;
    if (operand.body == &no_value()) refuse_empty();
    take(operand.body->extra->tracer.get());
  }
  return found;
}

std::shared_ptr<Tracer> shared_tracer(std::span<const Input> operands, const Tracer* tracer) {
  if (context().takes_all.get() == tracer) return context().takes_all;
  if (context().compiling.get() == tracer) return context().compiling;
  for (const Input& operand : operands)
    if (operand.body != nullptr && is_traced(*operand.body) && operand.body->extra->tracer.get() == tracer)
      return operand.body->extra->tracer;
  return nullptr;
}

namespace {

// Invocation when the operation at this position of a hot sequence is not known.
[[gnu::noinline]] Array invoke_anew(Context& c, const Call& call, std::span<const Input> operands,
                                    const Build& build, Where where) {
  bool grad = c.watches;
  bool traced = false;
  bool away = false;
  bool pending = false;
  const bool takes_all = c.takes_all != nullptr && !call.moves;
  for (const Input& operand : operands) {
    if (operand.body == nullptr) continue;
    grad |= operand.body->requires_grad;
    traced |= operand.body->traced || takes_all || (!call.moves && is_parameter(c, *operand.body));
    away |= operand.tensor->device() != 0;
    pending |= operand.tensor->pending() != nullptr;
  }
  const auto one = [&](Emitter& emitter, std::span<const Value> values) -> Values {
    return build(emitter, values);
  };
  if (traced) [[unlikely]] {
    require_values(operands, call.name, where);
    Tracer& tracer = *tracer_of(operands);
    const std::uint32_t device = device_of_traced(operands, call, where);
    const Value result = emit_traced(tracer, operands, one, call, where)[0];
    return make_traced(shared_tracer(operands, &tracer), result, device);
  }
  std::optional<CacheEntry> made;
  std::optional<eager::RecordedGraph> held;
  const eager::RecordedGraph* graph = nullptr;
  CacheEntry* entry = find(c, call, operands);
  // The result is computed where it stays.
  Array array(Array::Adopt{}, make_body());
  Body& body = array.required();
  std::uint32_t device = 0;
  try {
    if (away) [[unlikely]]
      device = device_for(c, operands, call.name);
    if (entry == nullptr) [[unlikely]]
      entry = fill(made, c, call, operands, one, device == 0 && !call.moves);
    graph = &*entry->graph;
    const Executable** executable = &entry->executable;
    const Executable* executable_here = nullptr;
    if (c.intercepts || !c.runs_library_alone || pending || away || call.moves) [[unlikely]] {
      // A program that runs, or computes a lazy operand of another thread, may compute with Arrays itself and
      // choose executors: the slot may then hold another entry, or none.
      graph = &held.emplace(*graph);
      executable_here = *executable;
      executable = &executable_here;
    }
    eager::detail::ShortArray<const Tensor*, max_operands> inputs(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) inputs[i] = operands[i].tensor;
    if (call.moves) [[unlikely]] {
      body.tensor = moved(*inputs[0], static_cast<std::uint32_t>(call.static_args[0]), *c.host.executor());
    } else if (c.watches && c.recorder.options().profile != nullptr) [[unlikely]] {
      run_profiled(c, *graph, *executable, inputs.span(), body.tensor, call.name, where, device);
    } else {
      run(c, *graph, *executable, inputs.span(), body.tensor, device);
    }
  } catch (const Error& error) {
    raise_refused(error, call, operands, one, where);
  }
  if (grad && (c.grad_mode || records_without_grad(c))) record(c, *graph, operands, body, where, device);
  if (c.hot_on && device == 0) learn_hot(c, call, operands, *graph, body);
  return array;
}

}  // namespace

Array invoke(const Call& call, std::span<const Input> operands, const Build& build, Where where) {
  Context& c = context();
  if (c.hot_on && c.takes_all == nullptr && c.compiling == nullptr) {
    if (Body* const known = replay_hot(c, call, operands, where); known != nullptr) [[likely]]
      return {Array::Adopt{}, known};
  }
  return invoke_anew(c, call, operands, build, where);
}

std::vector<Array> invoke_many(const Call& call, std::span<const Array> operands, const BuildMany& build,
                               Where where) {
  const std::vector<Input> inputs(operands.begin(), operands.end());
  require_values(inputs, call.name, where);
  if (Tracer* const tracer = tracer_of(inputs); tracer != nullptr) {
    std::vector<Array> arrays;
    const std::uint32_t device = device_of_traced(inputs, call, where);
    const Values results = emit_traced(*tracer, inputs, build, call, where);
    const auto shared = shared_tracer(inputs, tracer);
    for (const Value& result : results) arrays.push_back(make_traced(shared, result, device));
    return arrays;
  }
  try {
    const eager::RecordedGraph graph = kept_graph(context(), call, inputs, build);
    return run_and_record(graph, operands, where);
  } catch (const Error& error) {
    raise_refused(error, call, inputs, build, where);
  }
}

Array make_array(Tensor&& tensor) {
  Body* body = make_body();
  body->tensor = std::move(tensor);
  return {Array::Adopt{}, body};
}

Array make_array(Tensor&& tensor, const eager::EagerOutput& recorded) {
  Array array = make_array(std::move(tensor));
  Body& body = array.required();
  body.key = recorded.key;
  body.trace = recorded.trace;
  body.requires_grad = recorded.requires_grad;
  return array;
}

}  // namespace tidu::frontend_detail
