// executor.cpp - tidu's executors as handles, compiled programs, and running them on tensors and on plain
// memory.
//
// Note [Workspaces] A run on memory reads small inputs from, and writes outputs to, tensors that the program
// keeps between runs, one set at a time. A run that starts while it is in use makes another set, and the last
// one that is returned stays. So a run of small values allocates nothing. Large inputs are read without a
// copy.
#include "c/executor.hpp"

#include <algorithm>

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::str;

namespace tidu::c_detail {

Kernel kernel_of(const tidu_primitive* primitive, std::string_view& name);  // primitive.cpp

std::vector<Tensor> tensors_of(std::span<const tidu_tensor* const> handles) {
  std::vector<Tensor> tensors;
  tensors.reserve(handles.size());
  for (const tidu_tensor* handle : handles) tensors.push_back(handle->tensor);
  return tensors;
}

}  // namespace tidu::c_detail

namespace {

/// CpuExecutor or ReferenceExecutor.
template <class Inner>
struct TensorExecutor final : tidu_executor {
  explicit TensorExecutor(const Inner& executor)
      : inner(executor), tape_executor(make_tensor_tapes(inner, *this)) {}
  void retain_operand(void* operand) const noexcept override { retain(static_cast<tidu_tensor*>(operand)); }
  void release_operand(void* operand) const noexcept override { release(static_cast<tidu_tensor*>(operand)); }
  const TapeExecutor& tapes() const override { return *tape_executor; }
  const Executor* tensors() const override { return &inner; }
  const CpuExecutor* compiler() const override {
    if constexpr (std::is_same_v<Inner, CpuExecutor>) return &inner;
    return nullptr;
  }
  const Inner inner;
  const std::unique_ptr<TapeExecutor> tape_executor;
};

template <class Inner>
Inner with_kernels(Inner executor, const tidu_primitive_set* primitives) {
  if (primitives == nullptr) return executor;
  for (const tidu_primitive* primitive : primitives->own) {
    std::string_view name;
    if (Kernel kernel = kernel_of(primitive, name)) executor = executor.with_kernel(name, std::move(kernel));
  }
  return executor;
}

CpuOptions options_from(const tidu_cpu_options& given) {
  CpuOptions options;
  options.threads = given.threads;
  options.check_indices = given.check_indices != 0;
  if (given.cached_bytes != 0) options.cached_bytes = given.cached_bytes;
  if (given.generate_no_code != 0) options.vector_units = VectorUnits::none;
  return options;
}

constexpr std::size_t small_bytes = 4096;                 // inputs up to here are copied, beyond wrapped
constexpr std::size_t kept_bytes = std::size_t{1} << 20;  // outputs beyond are not kept

struct Workspace {
  explicit Workspace(const Graph& graph) {
    inputs.resize(graph.inputs().size());
    outputs.resize(graph.outputs().size());
    input_bytes.resize(inputs.size(), nullptr);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      pointers.push_back(&inputs[i]);
      const Type type = graph.type(graph.inputs()[i]);
      if (type.bytes() > small_bytes) continue;
      inputs[i] = Tensor(type);
      input_bytes[i] = inputs[i].mutable_bytes();
    }
  }
  std::vector<Tensor> inputs, outputs;
  std::vector<std::byte*> input_bytes;  // null: a large one
  std::vector<const Tensor*> pointers;
};

}  // namespace

struct tidu_executable : Counted {
  tidu_executable(const tidu_executor* runner, const Graph& program) : executor(runner), graph(program) {
    if (const CpuExecutor* compiler = runner->compiler()) compiled.emplace(compiler->compile(program));
  }
  ~tidu_executable() { delete spare.load(std::memory_order_acquire); }

  void run(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const {
    if (compiled) return compiled->run_into(inputs, outputs);
    std::vector<Tensor> given;
    for (const Tensor* input : inputs) given.push_back(*input);
    std::vector<Tensor> made = executor.get()->tensors()->run(graph, given);
    std::move(made.begin(), made.end(), outputs.begin());
  }

  const Held<tidu_executor> executor;
  const Graph graph;
  std::optional<Executable> compiled;
  mutable std::atomic<Workspace*> spare{nullptr};  // see Note [Workspaces]
};

namespace {

// The input's elements as a tensor over them, or a copy where they are not aligned.
Tensor large_input(Type type, const void* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % 16 == 0) return Tensor::wrap(type, from, nullptr);
  return Tensor::copy_of(type, {static_cast<const std::byte*>(from), type.bytes()});
}

void load_inputs(const Call& call, const Graph& graph, std::span<const void* const> from, Workspace& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Type type = graph.type(graph.inputs()[i]);
    const std::size_t bytes = type.bytes();
    if (bytes != 0 && from[i] == nullptr) call.refuse_null("inputs", i);
    if (to.input_bytes[i] == nullptr) {
      to.inputs[i] = large_input(type, from[i]);
    } else if (bytes != 0) {
      std::memcpy(to.input_bytes[i], from[i], bytes);
    }
  }
}

void store_outputs(std::span<void* const> to, Workspace& from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Tensor& output = from.outputs[i];
    const std::size_t bytes = output.num_bytes();
    if (bytes != 0) std::memcpy(to[i], output.bytes(), bytes);
    if (bytes > kept_bytes) output = Tensor();
  }
  for (std::size_t i = 0; i < from.inputs.size(); ++i)
    if (from.input_bytes[i] == nullptr) from.inputs[i] = Tensor();
}

void check_outputs(const Call& call, const Graph& graph, std::span<void* const> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr && graph.type(graph.outputs()[i]).size() != 0) call.refuse_null("outputs", i);
  }
}

}  // namespace

tidu_executor* tidu_executor_retain(const tidu_executor* executor) { return retain(executor); }
void tidu_executor_release(tidu_executor* executor) { release(executor); }

tidu_status tidu_cpu_create(const tidu_cpu_options* options, tidu_executor** executor) {
  clear(executor);
  return guarded(__func__, [&](const Call& call) {
    call.need(executor, "executor");
    if (options == nullptr) {
      static const tidu_executor* const common = new TensorExecutor<CpuExecutor>(cpu());
      *executor = retain(common);
      return;
    }
    const tidu_cpu_options read = options_of(call, options, "options");
    if (read.threads < 0)
      call.refuse(ErrorKind::invalid_argument, str("expected threads from 0 on, got ", read.threads));
    const CpuExecutor made = cpu().with_options(options_from(read));
    *executor = new TensorExecutor<CpuExecutor>(with_kernels(made, read.primitives));
  });
}

tidu_status tidu_reference_create(const tidu_primitive_set* primitives, tidu_executor** executor) {
  clear(executor);
  return guarded(__func__, [&](const Call& call) {
    call.need(executor, "executor");
    *executor = new TensorExecutor<ReferenceExecutor>(with_kernels(reference(), primitives));
  });
}

tidu_executable* tidu_executable_retain(const tidu_executable* executable) { return retain(executable); }
void tidu_executable_release(tidu_executable* executable) { release(executable); }

tidu_status tidu_compile(const tidu_executor* executor, const tidu_graph* graph,
                         tidu_executable** executable) {
  clear(executable);
  return guarded(__func__, [&](const Call& call) {
    const tidu_executor& by = call.need(executor, "executor");
    const Graph& g = call.need(graph, "graph").graph;
    call.need(executable, "executable");
    if (by.tensors() == nullptr)
      call.refuse(ErrorKind::invalid_argument, "expected one of tidu's executors, got one written in C");
    *executable = new tidu_executable(&by, g);
  });
}

tidu_status tidu_run(const tidu_executable* executable, const tidu_tensor* const* inputs, size_t num_inputs,
                     tidu_tensor** outputs, size_t num_outputs) {
  clear(outputs, num_outputs);
  return guarded(__func__, [&](const Call& call) {
    const tidu_executable& program = call.need(executable, "executable");
    call.list(outputs, num_outputs, "outputs");
    call.count("num_inputs", program.graph.inputs().size(), num_inputs);
    call.count("num_outputs", program.graph.outputs().size(), num_outputs);
    std::vector<const Tensor*> given;
    for (const tidu_tensor* input : call.handles(inputs, num_inputs, "inputs"))
      given.push_back(&input->tensor);
    NewHandles<tidu_tensor> made(num_outputs);
    std::vector<Tensor> results(num_outputs);
    program.run(given, results);
    for (Tensor& result : results) made.add(std::move(result));
    made.give(outputs);
  });
}

tidu_status tidu_run_memory(const tidu_executable* executable, const void* const* inputs, size_t num_inputs,
                            void* const* outputs, size_t num_outputs) {
  return guarded(__func__, [&](const Call& call) {
    const tidu_executable& program = call.need(executable, "executable");
    call.count("num_inputs", program.graph.inputs().size(), num_inputs);
    call.count("num_outputs", program.graph.outputs().size(), num_outputs);
    const auto from = call.list(inputs, num_inputs, "inputs");
    const auto to = call.list(outputs, num_outputs, "outputs");
    check_outputs(call, program.graph, to);
    std::unique_ptr<Workspace> space(program.spare.exchange(nullptr, std::memory_order_acquire));
    if (space == nullptr) space = std::make_unique<Workspace>(program.graph);
    load_inputs(call, program.graph, from, *space);
    program.run(space->pointers, space->outputs);
    store_outputs(to, *space);
    space.reset(program.spare.exchange(space.release(), std::memory_order_acq_rel));
  });
}
