// stateless.cpp - tidu_jvp_run and tidu_vjp_run: derivatives for hosts that record their own tapes. A graph
// handle keeps its derivatives, by the inputs that have tangents or want gradients.
#include <algorithm>

#include "c/executor.hpp"

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::str;

namespace {

using Derive = Derivative (*)(const Graph&, const Names&, const DerivativeOptions&);

constexpr std::size_t max_kept = 64;  // derivatives of one graph

// Derived without the lock, since rules may be a user's; of two threads, the second uses the result of the
// first.
std::shared_ptr<const Derivative> derived(const tidu_graph& graph, StatelessKey key, Derive derive) {
  auto& kept = graph.stateless;
  {
    const std::lock_guard lock(graph.mutex);
    if (const auto it = kept.find(key); it != kept.end()) return it->second;
  }
  auto made = std::make_shared<const Derivative>(
      derive(graph.graph, names_at(graph.graph, key.positions), DerivativeOptions()));
  const std::lock_guard lock(graph.mutex);
  if (kept.size() >= max_kept) kept.clear();
  return kept.emplace(std::move(key), std::move(made)).first->second;
}

// The gradients alone: unwanted outputs are not computed.
Derivative gradients_alone(const Graph& graph, const Names& wrt, const DerivativeOptions& options) {
  Derivative made = vjp_parts(graph, wrt, options);
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < made.wrt.size(); ++i) wanted.push_back(made.first + i);
  made.graph = with_outputs(made.graph, wanted);
  made.first = 0;
  return made;
}

const Executor& runner(const Call& call, const tidu_executor* executor) {
  const Executor* found = call.need(executor, "executor").tensors();
  if (found == nullptr)
    call.refuse(ErrorKind::invalid_argument, "expected one of tidu's executors, got one written in C");
  return *found;
}

std::vector<std::size_t> wanted_inputs(const Graph& graph, const std::uint8_t* wanted) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const bool floating = is_inexact(graph.type(graph.inputs()[i]).dtype());
    if (wanted != nullptr ? wanted[i] != 0 : floating) all.push_back(i);
  }
  return all;
}

// Derivative i belongs to `slots[i]`; absent ones stay NULL.
NewHandles<tidu_tensor> derivatives(const Derivative& d, std::span<const std::size_t> slots,
                                    std::size_t count, std::span<Tensor> results) {
  NewHandles<tidu_tensor> made(count);
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (next < slots.size() && slots[next] == i) {
      if (d.present[next]) {
        made.add(results[d.first + next]);
      } else {
        made.skip();
      }
      ++next;
    } else {
      made.skip();
    }
  }
  return made;
}

// The cotangent, or zeros, for each floating or complex output. Throws for others.
void append_cotangents(const Call& call, const Graph& graph, std::span<const tidu_tensor* const> cotangents,
                       std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    const Type type = graph.type(graph.outputs()[i]);
    if (is_inexact(type.dtype())) {
      inputs.push_back(cotangents[i] != nullptr ? cotangents[i]->tensor : Tensor::zeros(type));
    } else if (cotangents[i] != nullptr) {
      call.refuse(ErrorKind::type, str("expected cotangents[", i, "] to be NULL, as the output is ", type));
    }
  }
}

}  // namespace

tidu_status tidu_jvp_run(const tidu_executor* executor, const tidu_graph* graph,
                         const tidu_tensor* const* primals, const tidu_tensor* const* tangents,
                         size_t num_inputs, tidu_tensor** outputs, tidu_tensor** output_tangents,
                         size_t num_outputs) {
  clear(outputs, num_outputs);
  clear(output_tangents, num_outputs);
  return guarded(__func__, [&](const Call& call) {
    const Executor& run_by = runner(call, executor);
    const tidu_graph& f = call.need(graph, "graph");
    call.count("num_inputs", f.graph.inputs().size(), num_inputs);
    call.count("num_outputs", f.graph.outputs().size(), num_outputs);
    call.list(outputs, num_outputs, "outputs");
    call.list(output_tangents, num_outputs, "output_tangents");
    std::vector<Tensor> inputs = tensors_of(call.handles(primals, num_inputs, "primals"));
    StatelessKey key{'j', {}};
    const auto given = call.list(tangents, num_inputs, "tangents");
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] == nullptr) continue;
      key.positions.push_back(i);
      inputs.push_back(given[i]->tensor);
    }
    const bool none = key.positions.empty();
    const auto d = none ? nullptr : derived(f, std::move(key), jvp_parts);
    std::vector<Tensor> results = run_by.run(none ? f.graph : d->graph, inputs);
    NewHandles<tidu_tensor> made(num_outputs);
    for (std::size_t i = 0; i < num_outputs; ++i) made.add(results[i]);
    if (!none) derivatives(*d, d->outputs, num_outputs, results).give(output_tangents);
    made.give(outputs);
  });
}

tidu_status tidu_vjp_run(const tidu_executor* executor, const tidu_graph* graph,
                         const tidu_tensor* const* primals, const uint8_t* wanted, size_t num_inputs,
                         const tidu_tensor* const* cotangents, tidu_tensor** outputs, size_t num_outputs,
                         tidu_tensor** gradients) {
  clear(outputs, num_outputs);
  clear(gradients, num_inputs);
  return guarded(__func__, [&](const Call& call) {
    const Executor& run_by = runner(call, executor);
    const tidu_graph& f = call.need(graph, "graph");
    call.count("num_inputs", f.graph.inputs().size(), num_inputs);
    call.count("num_outputs", f.graph.outputs().size(), num_outputs);
    call.list(gradients, num_inputs, "gradients");
    std::vector<Tensor> inputs = tensors_of(call.handles(primals, num_inputs, "primals"));
    StatelessKey key{outputs != nullptr ? 'v' : 'g', wanted_inputs(f.graph, wanted)};
    const bool none = key.positions.empty();
    const std::vector<std::size_t> wrt = key.positions;
    const auto given = call.list(cotangents, num_outputs, "cotangents");
    if (!none) append_cotangents(call, f.graph, given, inputs);
    const auto d =
        none ? nullptr : derived(f, std::move(key), outputs != nullptr ? vjp_parts : gradients_alone);
    std::vector<Tensor> results = run_by.run(none ? f.graph : d->graph, inputs);
    NewHandles<tidu_tensor> made(outputs != nullptr ? num_outputs : 0);
    if (outputs != nullptr)
      for (std::size_t i = 0; i < num_outputs; ++i) made.add(results[i]);
    if (!none) derivatives(*d, wrt, num_inputs, results).give(gradients);
    if (outputs != nullptr) made.give(outputs);
  });
}
