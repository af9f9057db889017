// eager_run.cpp - executes and records operation by operation, and runs backward.
#include "cli/eager_run.hpp"

#include <charconv>

#include "tidu/graph/error.hpp"

namespace tidu::cli {
namespace {

using eager::RecordedGraph;

const eager::BackwardExecutor<Tensor>& eager_executor(const Executor& executor) {
  if (const auto* eager = dynamic_cast<const eager::BackwardExecutor<Tensor>*>(&executor)) return *eager;
  throw Error(ErrorKind::invalid_argument,
              detail::str("--eager: expected a backend that runs tapes, got \"", executor.name(), '"'));
}

// Index of the last operation that reads each value; no_index for values that stay: outputs, and those
// without readers.
std::vector<std::uint32_t> last_uses(const Graph& graph) {
  std::vector<std::uint32_t> last(graph.num_values(), no_index);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    for (const ValueId operand : graph.operation(i).inputs()) last[operand] = i;
  }
  for (const ValueId output : graph.outputs()) last[output] = no_index;
  return last;
}

}  // namespace

EagerRun::EagerRun(const Job& job, const std::vector<std::size_t>& wrt, bool profiled)
    : job_(job), executor_(eager_executor(job.executor())), recorder_(&executor_) {
  if (profiled) {
    eager::RecorderOptions options;
    options.profile = &profile_.emplace();
    recorder_.set_options(options);
  }
  job_.derive([&](const Graph&) {
    const Job::Mapped mapped = job_.mapped();
    execute(mapped.graph, mapped.tensors, wrt);
    return 0;
  });
}

EagerValue EagerRun::leaf(Tensor tensor) {
  const eager::Leaf<Tensor>& slot = slots_.emplace_back(recorder_.keys());
  return {{slot.key(), slot.trace().hold(), true, 0}, std::move(tensor)};
}

// Splits "file:line"; the tape keeps a pointer to the file's name.
Where EagerRun::where_of(const Operation& operation) {
  const std::string_view text = operation.where();
  const std::size_t colon = text.rfind(':');
  std::uint32_t line = 0;
  if (colon == std::string_view::npos ||
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), line).ec != std::errc()) {
    return {};
  }
  const std::string_view file = text.substr(0, colon);
  if (files_.empty() || files_.back() != file) files_.emplace_back(file);
  return {files_.back().c_str(), line};
}

void EagerRun::execute(const Graph& graph, std::span<const Tensor> inputs,
                       const std::vector<std::size_t>& wrt) {
  EagerValues values(graph.num_values());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) values[graph.inputs()[i]].tensor = inputs[i];
  for (const std::size_t position : wrt) {
    const ValueId input = graph.inputs()[position];
    leaves_.push_back(leaf(inputs[position]));
    values[input] = leaves_.back();
  }
  const std::vector<std::uint32_t> last = last_uses(graph);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    try {
      execute(operation, graph, values);
    } catch (const Error& error) {
      error.with_message(detail::str(error.what(), "\n  ", describe_operation(graph, i)))->raise();
    }
    for (const ValueId operand : operation.inputs()) {
      if (last[operand] == i) values[operand] = {};
    }
  }
  for (const ValueId output : graph.outputs()) outputs_.push_back(values[output]);
}

void EagerRun::execute(const Operation& operation, const Graph& graph, EagerValues& values) {
  std::vector<Type> types;
  std::vector<const Tensor*> operands;
  std::vector<eager::EagerInput<Tensor>> inputs;
  for (const ValueId operand : operation.inputs()) {
    const EagerValue& value = values[operand];
    types.push_back(graph.type(operand));
    operands.push_back(&*value.tensor);
    inputs.emplace_back(value.who, *value.tensor);
  }
  const RecordedGraph recorded = RecordedGraph::of(operation.op(), types, graph.primitives());
  const eager::Placement placement = executor_.current_placement();
  const std::int64_t begin = profile_ ? profile_->now() : 0;
  const auto results =
      executor_.execute_forward({recorded.graph(), recorded.slot(), placement, nullptr}, operands).value();
  if (profile_) {
    eager::ProfileEvent event{eager::ProfilePhase::execute, std::string(operation.name()),
                              std::string(operation.where())};
    for (const Tensor& result : results) event.bytes += executor_.bytes(result);
    event.begin = begin;
    event.end = profile_->now();
    event.placement = placement;
    profile_->add(std::move(event));
  }
  const auto who = recorder_.record_graph(recorded, inputs, std::span(results.begin(), results.size()), {},
                                          placement, where_of(operation));
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
    values[operation.output(slot)] = {who[slot], results[slot]};
}

EagerValues EagerRun::backward(std::span<const EagerValue> roots, std::span<const EagerValue> seeds,
                               std::span<const EagerValue> wrt, Keep keep) {
  std::vector<eager::Root<Tensor>> present;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (!roots[i].who.trace || !seeds[i].tensor) continue;
    eager::Root<Tensor>& root = present.emplace_back();
    root.key = roots[i].who.key;
    root.trace = roots[i].who.trace;
    root.seed = seeds[i].tensor;
    root.recorded_seed = seeds[i].who;
  }
  EagerValues cotangents(wrt.size());
  if (present.empty() || wrt.empty()) return cotangents;
  std::vector<eager::Requested> requested;
  for (const EagerValue& value : wrt) requested.emplace_back(value.who);
  eager::BackwardOptions options;
  options.keep_graph = keep.graph;
  options.create_graph = keep.record;
  options.profile = profile_ ? &*profile_ : nullptr;
  const auto gradients = job_.derive([&](const Graph&) {
    return eager::try_backward<Tensor>(present, executor_, options, requested, &recorder_).value();
  });
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const eager::Gradient<Tensor>& gradient = gradients.requested()[i];
    cotangents[i] = {gradient.recorded, gradient.value};
  }
  return cotangents;
}

}  // namespace tidu::cli
