// run_graph.cpp - runs a graph with any number of results, and records it as one node.
//
// Note [Donated arguments]: the arguments that a caller moved into a compiled function may have no other
// reference. On the CPU, while nothing is recorded, their memory is donated to results: see
// Executable::run_into.
#include <algorithm>
#include <functional>

#include "frontend/hot.hpp"
#include "frontend/invoke.hpp"
#include "tidu/eager/profile.hpp"

namespace tidu::frontend_detail {
namespace {

// Adds an event to the profile for the run of a graph.
template <class Body>
eager::Operands<Tensor> profiled(Context& c, const Graph& graph, Where where, const Body& body) {
  eager::Profile* const profile = c.recorder.options().profile;
  if (profile == nullptr) [[likely]]
    return body();
  eager::ProfileEvent event;
  event.begin = profile->now();
  eager::Operands<Tensor> results = body();
  event.end = profile->now();
  event.phase = eager::ProfilePhase::execute;
  event.name = graph.name();
  if (where.file != nullptr) event.where = detail::str(where.file, ':', where.line);
  for (std::size_t i = 0; i < results.size(); ++i) event.bytes += results[i].num_bytes();
  profile->add(std::move(event));
  return results;
}

// See Note [Donated arguments]. A donated argument is left without memory.
eager::Operands<Tensor> run_reusing(const Executable& executable, std::span<Array> arguments) {
  std::vector<const Tensor*> inputs;
  for (Array& argument : arguments) inputs.push_back(&argument.required().tensor);
  std::vector<Tensor> results(executable.program().graph().outputs().size());
  for (const ReusableInputs& set : executable.reusable_inputs()) {
    auto output = set.outputs.begin();
    for (const std::uint32_t input : set.inputs) {
      if (output == set.outputs.end()) break;
      Body& body = arguments[input].required();
      const bool is_unique = body.references.load(std::memory_order_acquire) == 1 && body.extra == nullptr;
      if (!is_unique || !body.tensor.exclusive()) continue;
      results[*output] = std::move(body.tensor);
      inputs[input] = &results[*output];
      ++output;
    }
  }
  executable.run_into(inputs, results);
  return eager::Operands<Tensor>(std::move(results));
}

// The results, and their device; for a graph over several devices, any of them. `given`: the donated inputs,
// or none.
eager::Operands<Tensor> run_graph(Context& c, const eager::RecordedGraph& graph,
                                  std::span<const Tensor* const> inputs, std::span<Array> given,
                                  std::uint32_t& device) {
  const std::size_t count = graph.output_types().size();
  if (devices_in_use()) [[unlikely]] {
    const std::uint32_t home = c.host.executor()->current_placement().device;
    std::vector<std::uint32_t> devices;
    for (const Tensor* const input : inputs) devices.push_back(input->device() != 0 ? input->device() : home);
    const bool one =
        std::adjacent_find(devices.begin(), devices.end(), std::not_equal_to<>()) == devices.end();
    if (!devices.empty()) device = *std::max_element(devices.begin(), devices.end());
    if (device == home) device = 0;
    const Spread& spread = Spread::of(graph.graph(), graph.slot());
    if (!one || spread.moves()) {
      std::vector<Tensor> made(count);
      spread.stages(graph.graph(), devices, false).run(*c.host.executor(), false, inputs, made);
      return eager::Operands<Tensor>(std::move(made));
    }
  }
  if (c.intercepts) {
    std::vector<Tensor> results(count);
    if (record_lazily(c, graph.graph(), device, inputs, results))
      return eager::Operands<Tensor>(std::move(results));
  }
  if (c.cpu != nullptr && device == 0 && !given.empty()) {
    const Executable& executable = compiled(*c.cpu, graph);
    if (!executable.reusable_inputs().empty()) return run_reusing(executable, given);
  }
  const DispatchExecutor& executor = c.host.executor_at(device);
  return executor
      .execute_forward(
          {graph.graph(), graph.slot(), device != 0 ? executor.current_placement() : eager::Placement()},
          inputs)
      .value();
}

}  // namespace

std::vector<Array> run_and_record(const eager::RecordedGraph& graph, std::span<const Array> inputs,
                                  Where where, std::span<Array> given) {
  Context& c = context();
  std::vector<const Tensor*> tensors;
  std::vector<eager::EagerInput<Tensor>> recorded;
  bool grad = false;
  const std::uint64_t own = c.recorder.keys().source();
  for (const Array& input : inputs) {
    const Body& body = input.required();
    tensors.push_back(&body.tensor);
    if (c.grad_mode || c.recorder.options().keep_blocked)
      recorded.emplace_back(body.key, body.trace, body.requires_grad && c.grad_mode, &body.tensor);
    else
      recorded.emplace_back(eager::Key(), eager::Trace(), false, &body.tensor);
    grad = grad || body.requires_grad;
    if (body.requires_grad && c.grad_mode)
      c.lowest = std::min(c.lowest, body.key.source == own ? body.key.counter : 0);
  }
  const bool records = c.grad_mode ? grad || c.watches : records_without_grad(c);
  if (records) given = {};
  std::uint32_t device = 0;
  eager::Operands<Tensor> results =
      profiled(c, graph.graph(), where, [&] { return run_graph(c, graph, tensors, given, device); });
  std::vector<Array> arrays;
  if (records) {
    const eager::EagerOutputs outputs =
        c.recorder.record_graph(graph, recorded, std::span<const Tensor>(results.begin(), results.size()), {},
                                placement_at(c, device), where);
    const bool blocked = std::none_of(outputs.begin(), outputs.end(),
                                      [](const eager::EagerOutput& output) { return output.requires_grad; });
    if (blocked && grad && c.grad_mode) c.blocked.add(graph.graph().name(), where);
    for (std::size_t i = 0; i < results.size(); ++i)
      arrays.push_back(make_array(std::move(results[i]), outputs[i]));
  } else {
    for (Tensor& result : results) arrays.push_back(make_array(std::move(result)));
  }
  return arrays;
}

}  // namespace tidu::frontend_detail
