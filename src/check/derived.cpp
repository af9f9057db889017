// derived.cpp - see derived.hpp.
#include "check/derived.hpp"

#include <algorithm>
#include <unordered_set>

#include "tidu/tensor/inspect.hpp"

namespace tidu::check {

Closed close(const Graph& graph, bool every_value) {
  GraphBuilder builder(graph.name(), graph.primitives());
  Closed closed;
  const Key128 source = detail::random_key();
  std::vector<Value> externals, inputs, outputs;
  for (const ValueId id : graph.externals()) {
    externals.push_back(builder.input(InputKey::fresh(source, closed.externals.size()), graph.type(id)));
    closed.externals.push_back(graph.key(id));
  }
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    inputs.push_back(builder.input(graph.input_key(i), graph.type(id)));
  }
  const std::vector<Value> values = inline_graph(builder, graph, inputs, externals);
  if (every_value) {
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        outputs.push_back(values[operation.output(slot)]);
    }
  } else {
    for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  }
  closed.graph = builder.build(outputs);
  return closed;
}

Graph rebuilt(const Graph& graph, const PrimitiveSet& primitives) {
  GraphBuilder builder(graph.name(), primitives);
  std::vector<Value> inputs, outputs;
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    std::string name = graph.input_name(i);
    while (!names.insert(name).second) name += "'";
    inputs.push_back(builder.input(name, graph.type(graph.inputs()[i])));
  }
  const std::vector<Value> values = inline_graph(builder, graph, inputs);
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
}

Derived::Derived(const Graph& f, std::span<const std::size_t> wrt) {
  LinearizeOptions options;
  options.wrt.emplace(wrt.begin(), wrt.end());
  linearization_ = linearize(f, options);
  const auto builder = GraphBuilder::extending(linearization_.augmented);
  std::vector<ValueId> outputs(linearization_.augmented.outputs().begin(),
                               linearization_.augmented.outputs().end());
  outputs.insert(outputs.end(), linearization_.residuals.begin(), linearization_.residuals.end());
  forward_ = builder->build_ids(std::move(outputs));
  linear_ = close(linearization_.linear);
  try {
    const Transposition transposed = linear_transpose(linearization_.linear);
    transposed_ = close(transposed.graph);
    cotangent_of_wrt_ = transposed.cotangent_of_input;
    const Transposition twice = linear_transpose(transposed.graph);
    twice_ = close(twice.graph);
    twice_of_seed_ = twice.cotangent_of_input;
  } catch (const Error& error) {
    if (!is_refused_transpose(error, f.primitives())) throw;
    refusal_ = error.what();
  }
}

bool is_refused_transpose(const Error& error, const PrimitiveSet& primitives) {
  const auto* refused = dynamic_cast<const ADRuleError*>(&error);
  if (refused == nullptr || refused->rule() != ADRuleError::Rule::transpose) return false;
  const Primitive* primitive = primitives.find(refused->primitive());
  return primitive != nullptr && primitive->transpose != nullptr;
}

Point::Point(const Derived& derived, std::span<const Tensor> inputs, const Executor& executor)
    : derived_(derived), executor_(executor), inputs_(inputs.begin(), inputs.end()) {
  outputs_ = executor.run(derived.forward_, inputs);
  const Linearization& lin = derived.linearization_;
  const std::size_t own = lin.augmented.outputs().size();
  for (std::size_t i = 0; i < lin.residuals.size(); ++i)
    values_.emplace(lin.augmented.key(lin.residuals[i]), outputs_[own + i]);
  outputs_.resize(own);
}

Tensors Point::inputs_of(const Closed& closed, std::span<const Tensor> arguments) const {
  Tensors all;
  for (const ValueKey& key : closed.externals) all.push_back(values_.at(key));
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

Tensors Point::run(const Closed& closed, std::span<const Tensor> arguments) const {
  return executor_.run(closed.graph, inputs_of(closed, arguments));
}

MaybeTensors Point::jvp(const Tensors& tangents) const {
  const Tensors results = run(derived_.linear_, tangents);
  MaybeTensors by_output;
  for (const auto& position : derived_.linearization_.tangent_of_output)
    by_output.push_back(position ? std::optional<Tensor>(results[*position]) : std::nullopt);
  return by_output;
}

MaybeTensors Point::vjp(const MaybeTensors& cotangents) const {
  Tensors seeds;
  for (std::size_t k = 0; k < cotangents.size(); ++k) {
    if (derived_.active(k)) seeds.push_back(cotangents[k].value());
  }
  const Tensors results = run(derived_.transposed_, seeds);
  MaybeTensors by_wrt;
  for (const auto& position : derived_.cotangent_of_wrt_)
    by_wrt.push_back(position ? std::optional<Tensor>(results[*position]) : std::nullopt);
  return by_wrt;
}

MaybeTensors Point::twice_transposed(const Tensors& tangents) const {
  Tensors seeds;
  for (std::size_t k = 0; k < tangents.size(); ++k) {
    if (derived_.cotangent_of_wrt_[k]) seeds.push_back(tangents[k]);
  }
  const Tensors results = run(derived_.twice_, seeds);
  MaybeTensors by_output;
  for (const auto& position : derived_.linearization_.tangent_of_output) {
    const std::optional<std::size_t> at = position ? derived_.twice_of_seed_[*position] : std::nullopt;
    by_output.push_back(at ? std::optional<Tensor>(results[*at]) : std::nullopt);
  }
  return by_output;
}

bool Point::all_finite() const {
  const auto finite = [](const Tensor& tensor) { return tidu::all_finite(tensor); };
  return std::all_of(outputs_.begin(), outputs_.end(), finite) &&
         std::all_of(values_.begin(), values_.end(), [&](const auto& value) { return finite(value.second); });
}

MaybeTensors Point::random_cotangents(Random& random) const {
  MaybeTensors cotangents;
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    cotangents.push_back(derived_.active(k) ? std::optional<Tensor>(random_tensor(random, outputs_[k].type()))
                                            : std::nullopt);
  }
  return cotangents;
}

Tensors Point::random_tangents(Random& random) const {
  Tensors tangents;
  for (const std::size_t i : derived_.wrt()) tangents.push_back(random_tensor(random, inputs_[i].type()));
  return tangents;
}

Graph single_operation(const Graph& graph, std::uint32_t index) {
  const Operation operation = graph.operation(index);
  GraphBuilder builder(std::string(operation.name()), graph.primitives());
  std::vector<Value> operands;
  for (std::size_t i = 0; i < operation.num_inputs(); ++i)
    operands.push_back(builder.input(detail::str("operand.", i), graph.type(operation.input(i))));
  return builder.build(builder.emit(operation.op(), operands));
}

Tensors all_values(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor) {
  const auto builder = GraphBuilder::extending(graph);
  std::vector<ValueId> produced;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.producer(id)) produced.push_back(id);
  }
  const Tensors results = executor.run(builder->build_ids(produced), inputs);
  Tensors values(graph.num_values());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (std::size_t i = 0; i < produced.size(); ++i) values[produced[i]] = results[i];
  return values;
}

}  // namespace tidu::check
