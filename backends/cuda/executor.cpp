// executor.cpp - CudaExecutor and CudaExecutable, over what compiles and runs.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tuple>

#include "cuda/compiled.hpp"
#include "cuda/opener.hpp"
#include "cuda/rules.hpp"
#include "cuda/watched.hpp"
#include "graph/kept_bytes.hpp"
#include "tidu/cuda.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu {

using cuda_detail::Runtime;
using cuda_detail::Stream;

std::vector<Tensor> CudaExecutable::run(std::span<const Tensor> inputs, const CudaStream& stream) const {
  const CudaStreamGuard guard(stream);
  return run(inputs);
}
void CudaExecutable::run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const {
  compiled_->run_into(inputs, outputs, current_stream(compiled_->runtime()));
}
Result<std::vector<Tensor>> CudaExecutable::try_run(std::span<const Tensor> inputs) const {
  return detail::capture([&] {
    std::vector<const Tensor*> pointers;
    for (const Tensor& input : inputs) pointers.push_back(&input);
    std::vector<Tensor> outputs(graph().outputs().size());
    run_into(pointers, outputs);
    return outputs;
  });
}
std::vector<Tensor> CudaExecutable::run(std::span<const Tensor> inputs) const {
  return try_run(inputs).value();
}
std::vector<Tensor> CudaExecutable::run(std::initializer_list<Tensor> inputs) const {
  return run(std::span<const Tensor>(inputs.begin(), inputs.size()));
}
const Graph& CudaExecutable::graph() const { return compiled_->graph(); }
std::size_t CudaExecutable::num_steps() const { return compiled_->num_steps(); }
std::size_t CudaExecutable::workspace_bytes() const { return compiled_->workspace_bytes(); }
std::size_t CudaExecutable::kept_bytes() const {
  const Graph& small = graph();
  return 8192 + 1024 * small.num_operations() + 96 * small.num_values() + compiled_->kept_bytes();
}

CudaExecutor::CudaExecutor(const CudaOptions& options)
    : options_(options),
      opener_(std::make_shared<cuda_detail::Opener>(options)),
      watched_(std::make_shared<cuda_detail::Watched>()) {}

CudaExecutor::CudaExecutor(std::shared_ptr<cuda_detail::Device> device, const CudaOptions& options)
    : options_(options),
      opener_(std::make_shared<cuda_detail::Opener>(std::move(device), options)),
      watched_(std::make_shared<cuda_detail::Watched>()) {}

cuda_detail::Runtime& CudaExecutor::runtime() const { return *opener_->runtime(); }
void CudaExecutor::open() const { runtime(); }

void CudaExecutor::synchronize() const {
  Runtime& device = runtime();
  device.device().synchronize(current_stream(device));
}

std::size_t CudaExecutor::trim() const { return runtime().pool().trim(); }

CudaStatistics CudaExecutor::device_statistics() const {
  CudaStatistics all;
  Runtime* const runtime = opener_->peek();
  if (runtime == nullptr) return all;
  const cuda_detail::PoolStatistics pool = runtime->pool().statistics();
  const cuda_detail::DeviceCounters counters = runtime->device().counters();
  all.memory_in_use = pool.in_use;
  all.memory_held = pool.held;
  all.memory_peak = pool.peak;
  all.memory_limit = pool.limit;
  all.allocations = pool.allocations;
  all.synchronizations = counters.synchronizations;
  all.kernels_compiled = counters.kernels_compiled;
  all.launches = counters.launches;
  all.captures = counters.captures;
  all.replays = counters.graph_launches;
  std::tie(all.refused_captures, all.last_refusal) = runtime->refusals();
  return all;
}

bool CudaExecutor::supports(const Primitive& primitive, DType dtype) const {
  const cuda_detail::RuleEntry* const rule = cuda_detail::find_rule(primitive.name);
  return rule != nullptr && rule->dtypes.contains(dtype);
}

Result<std::vector<Tensor>> CudaExecutor::try_run(const Graph& graph, std::span<const Tensor> inputs) const {
  return detail::capture([&] {
    check_inputs(graph, inputs);
    return compile(graph).run(inputs);
  });
}

// --- eager

namespace {

// Where a call's work goes: its own stream of this device, or the thread's where it is placed elsewhere.
Stream stream_of(eager::Placement placement, Runtime& runtime) {
  if (placement.device != runtime.number()) return current_stream(runtime);
  if (placement.stream == 0) return runtime.default_stream();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a stream's number is its handle
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(placement.stream))};
}

}  // namespace

void CudaExecutor::run_at(const eager::GraphCall& call, bool, std::span<const Tensor* const> inputs,
                          Tensor* out) const {
  const CudaExecutable& kept = call.slot.get<CudaExecutable>(id(), [&] { return compile(call.graph); });
  const std::size_t count = call.graph.outputs().size();
  std::uninitialized_default_construct_n(out, count);
  try {
    kept.compiled_->run_into(inputs, std::span<Tensor>(out, count), stream_of(call.placement, runtime()));
  } catch (...) {
    std::destroy_n(out, count);
    throw;
  }
}

Result<CudaExecutor::Values> CudaExecutor::execute_forward(const eager::GraphCall& call,
                                                           std::span<const Tensor* const> inputs) const {
  return detail::capture([&] {
    const CudaExecutable& kept = call.slot.get<CudaExecutable>(id(), [&] { return compile(call.graph); });
    Values values;
    const std::size_t count = call.graph.outputs().size();
    values.reserve(count);
    for (std::size_t i = 0; i < count; ++i) values.emplace_back();
    kept.compiled_->run_into(inputs, std::span<Tensor>(values.begin(), count),
                             stream_of(call.placement, runtime()));
    return values;
  });
}

Result<CudaExecutor::Values> CudaExecutor::run_transposed_linear(
    const eager::GraphCall& call, std::span<const Tensor* const> inputs) const {
  return execute_forward(call, inputs);
}

Result<Tensor> CudaExecutor::add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const {
  return detail::capture([&] {
    const Tensor* inputs[] = {&a, &b};
    Tensor sum;
    const auto run = [&](const Graph& graph, const eager::ExecutorSlot& slot) {
      const CudaExecutable& kept = slot.get<CudaExecutable>(id(), [&] { return compile(graph); });
      kept.compiled_->run_into(inputs, std::span(&sum, 1), stream_of(call.placement, runtime()));
    };
    if (call.graph != nullptr) {
      run(call.graph->graph(), call.graph->slot());
    } else {
      const auto graph = eager::RecordedGraph::of(plain_op<prim::add>(), std::array{a.type(), a.type()});
      run(graph.graph(), graph.slot());
    }
    return sum;
  });
}

std::optional<std::uint32_t> CudaExecutor::device_of(const Tensor& tensor) const {
  Runtime* const runtime = opener_->peek();
  if (runtime == nullptr || runtime->find(tensor) == nullptr) return std::nullopt;
  return 1 + static_cast<std::uint32_t>(options_.device);
}

Result<Tensor> CudaExecutor::put(const Tensor& tensor) const {
  return detail::capture([&] {
    Runtime& device = runtime();
    return device.upload(tensor, current_stream(device));
  });
}

eager::Placement CudaExecutor::current_placement() const {
  eager::Placement here{1 + static_cast<std::uint32_t>(options_.device), 0};
  Runtime* const runtime = opener_->peek();
  if (runtime == nullptr) return here;
  const Stream stream = current_stream(*runtime);
  if (stream != runtime->default_stream()) here.stream = reinterpret_cast<std::uintptr_t>(stream.handle);
  return here;
}

eager::Event CudaExecutor::record(eager::Placement placement) const {
  if (placement.device != 1 + static_cast<std::uint32_t>(options_.device)) return nullptr;
  struct Held {
    explicit Held(std::shared_ptr<Runtime> r) : runtime(std::move(r)), event(runtime->events().acquire()) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { runtime->events().release(event); }
    std::shared_ptr<Runtime> runtime;
    cuda_detail::Event event;
  };
  const auto held = std::make_shared<Held>(opener_->runtime());
  held->runtime->device().record(held->event, stream_of(placement, *held->runtime));
  return std::shared_ptr<void>(held, &held->event);
}

void CudaExecutor::wait(eager::Placement placement, const eager::Event& event) const {
  if (event == nullptr || placement.device != 1 + static_cast<std::uint32_t>(options_.device)) return;
  Runtime& device = runtime();
  device.device().wait(stream_of(placement, device), *static_cast<const cuda_detail::Event*>(event.get()));
}

// --- compiling

Result<CudaExecutable> CudaExecutor::try_compile(const Graph& graph) const {
  return detail::capture([&] {
    const std::uint64_t words[] = {id()};
    const CacheRequest request{detail::mix(detail::mix(graph.structural_key(), graph.name()), id()), words,
                               &graph};
    return *compile_cache().get<CudaExecutable>(request, [&] {
      auto made = std::make_shared<const CudaExecutable>(compile(graph, options_.compile));
      detail::KeptBytes literals;
      literals.add(made->graph());
      literals.add(graph);
      return CacheMade<CudaExecutable>{made, made->kept_bytes() + literals.literals()};
    });
  });
}

Result<CudaExecutable> CudaExecutor::try_compile(const Graph& graph,
                                                 const CudaCompileOptions& options) const {
  return detail::capture([&] {
    cuda_detail::CompileOptions compiling;
    compiling.fuse = options.fuse;
    compiling.tf32 = options_.tf32;
    compiling.replay = options_.replay;
    compiling.constant_bytes = options.optimize.constant_bytes;
    compiling.axes = axes_;
    compiling.streams = static_cast<std::uint32_t>(std::clamp(options_.streams, 1, 32));
    const Graph straight = with_control_flow_unrolled(eliminate_dead_code(graph));
    return CudaExecutable(std::make_shared<const cuda_detail::Compiled>(
        opener_->runtime(), optimize(straight, options.optimize), compiling));
  });
}

const CudaExecutor& cuda(int device) {
  struct Known {
    std::mutex mutex;
    std::map<int, std::unique_ptr<CudaExecutor>> by_device;
  };
  static Known* const known = new Known;  // never destroyed: threads may end after main
  const std::lock_guard lock(known->mutex);
  std::unique_ptr<CudaExecutor>& executor = known->by_device[device];
  if (executor == nullptr) {
    CudaOptions options;
    options.device = device;
    auto made = std::make_unique<CudaExecutor>(options);
    made->open();
    executor = std::move(made);
  }
  return *executor;
}

}  // namespace tidu
