// perturb.cpp - see perturb.hpp.
#include "check/perturb.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "check/derived.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/passes.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::check {
namespace {

// Longer loops are not unrolled: rounding within them is then not observed.
constexpr std::size_t max_shaken = std::size_t{1} << 14;

Graph written_out_to_shake(const Graph& graph) {
  try {
    return passes::inline_graphs(with_control_flow_unrolled(graph, max_shaken), max_shaken);
  } catch (const Error&) {
    return graph;
  }
}

bool is_decision(const Graph& graph, const Operation& operation) {
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
    if (is_inexact(graph.type(operation.output(slot)).dtype())) return false;
  }
  return true;
}

// By value: do decisions depend on it?
std::vector<bool> read_by_decisions(const Graph& graph) {
  std::vector<bool> read(graph.num_values(), false);
  for (auto i = static_cast<std::uint32_t>(graph.num_operations()); i-- > 0;) {
    const Operation operation = graph.operation(i);
    bool any = is_decision(graph, operation);
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      any = any || read[operation.output(slot)];
    if (!any) continue;
    for (const ValueId id : operation.inputs()) read[id] = true;
  }
  return read;
}

}  // namespace

Perturbed perturb(const Graph& graph, std::span<const Tensor> inputs, const std::vector<bool>& chosen,
                  bool keep_decisions) {
  if (graph.primitives().add() == nullptr) {
    throw Error(ErrorKind::unknown_primitive,
                detail::str("expected a primitive set that names its add, to perturb ",
                            detail::in_quotes(graph.name())));
  }
  GraphBuilder builder(graph.name(), graph.primitives());
  Perturbed result{{}, {}, {}, Tensors(inputs.begin(), inputs.end())};
  const Key128 source = detail::random_key();
  const Op add = Op::make(*graph.primitives().add());
  std::vector<ValueId> ids(graph.num_values(), no_index), exact = ids, operands, outputs;
  const std::vector<bool> read =
      keep_decisions ? read_by_decisions(graph) : std::vector<bool>(graph.num_values(), false);
  const auto is_changed = [&](ValueId id) { return chosen[id] && is_inexact(graph.type(id).dtype()); };
  const auto change = [&](ValueId value, std::size_t input) {
    result.changed.push_back(input);
    result.values.push_back(value);
  };
  std::vector<ValueId> addends(graph.num_values(), no_index);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    exact[id] = ids[id] = builder.input(graph.input_key(i), graph.type(id)).id();
    if (is_changed(id)) change(ids[id], i);
  }
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (!graph.producer(id) || !is_changed(id)) continue;
    addends[id] = builder.input(InputKey::fresh(source, id), graph.type(id)).id();
    result.inputs.push_back(Tensor::zeros(graph.type(id)));
  }
  std::size_t next = graph.inputs().size();
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    const auto copy = [&](const std::vector<ValueId>& values) {
      operands.clear();
      for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
      return builder.add(operation.record().op, operands);
    };
    const ValueId first = copy(keep_decisions && is_decision(graph, operation) ? exact : ids);
    bool twice = false;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      twice = twice || read[operation.output(slot)];
    twice = twice && !operation.primitive().has_trait(Trait::impure);
    const ValueId first_exact = twice ? copy(exact) : first;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      const ValueId id = operation.output(slot);
      ids[id] = first + static_cast<ValueId>(slot);
      exact[id] = first_exact + static_cast<ValueId>(slot);
      if (addends[id] == no_index) continue;
      ids[id] = builder.add(add.record(), std::array{ids[id], addends[id]});
      change(ids[id], next++);
    }
  }
  for (const ValueId id : graph.outputs()) outputs.push_back(ids[id]);
  result.graph = builder.build_ids(std::move(outputs));
  return result;
}

Shaken::Shaken(const Graph& graph, std::span<const std::size_t> wrt, std::span<const Tensor> inputs,
               const Executor& executor, std::uint64_t seed)
    : executor_(executor), random_(seed) {
  const Graph written = written_out_to_shake(graph);
  std::vector<bool> moved(written.inputs().size(), false);
  for (const std::size_t i : wrt) moved[i] = true;
  perturbed_ = perturb(written, inputs, prim::depending_on(written, moved), true);
  const Tensors values = all_values(perturbed_.graph, perturbed_.inputs, executor);
  for (const ValueId id : perturbed_.values) sizes_.push_back(values[id]);
}

Tensors Shaken::run(std::span<const Tensor> inputs) {
  Tensors moved = perturbed_.inputs;
  std::copy(inputs.begin(), inputs.end(), moved.begin());
  for (std::size_t k = 0; k < sizes_.size(); ++k) {
    Tensor& tensor = moved[perturbed_.changed[k]];
    const double unit = epsilon_of(tensor.dtype());
    Numbers numbers = numbers_of(tensor);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double step = unit * std::abs(sizes_[k].at(static_cast<std::int64_t>(i)));
      numbers[i] +=
          std::complex<double>(step * random_.uniform(-2.0, 2.0), step * random_.uniform(-2.0, 2.0));
    }
    tensor = tensor_of(tensor.type(), numbers);
  }
  return executor_.run(perturbed_.graph, moved);
}

}  // namespace tidu::check
