// terms.cpp - see terms.hpp. Every result gets an addend of its own, a zero, by which the output is
// differentiated in reverse.
#include "check/terms.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "check/derived.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/program/passes.hpp"

namespace tidu::check {
namespace {

constexpr std::size_t most_written_out = std::size_t{1} << 22;

// The graph with a zero added to every floating or complex result; by input, the value that it stands for.
struct Perturbed {
  Graph graph;
  std::vector<std::size_t> wrt;
  std::vector<ValueId> values;  // aligned with wrt
  Tensors inputs;
};

Perturbed perturb(const Graph& graph, std::span<const Tensor> inputs, std::size_t output) {
  GraphBuilder builder(graph.name(), graph.primitives());
  Perturbed result{{}, {}, {}, Tensors(inputs.begin(), inputs.end())};
  const Key128 source = detail::random_key();
  const Op add = Op::make(*graph.primitives().add());
  std::vector<ValueId> ids(graph.num_values(), no_index), operands;
  const auto vary = [&](ValueId value, std::size_t input) {
    result.wrt.push_back(input);
    result.values.push_back(value);
  };
  std::vector<ValueId> addends(graph.num_values(), no_index);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    ids[id] = builder.input(graph.input_key(i), graph.type(id)).id();
    if (is_inexact(graph.type(id).dtype())) vary(ids[id], i);
  }
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (!graph.producer(id) || !is_inexact(graph.type(id).dtype())) continue;
    addends[id] = builder.input(InputKey::fresh(source, id), graph.type(id)).id();
    result.inputs.push_back(Tensor::zeros(graph.type(id)));
  }
  std::size_t next = inputs.size();
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    operands.clear();
    for (const ValueId id : operation.inputs()) operands.push_back(ids[id]);
    const ValueId first = builder.add(operation.record().op, operands);
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      const ValueId id = operation.output(slot);
      ids[id] = first + static_cast<ValueId>(slot);
      if (addends[id] == no_index) continue;
      ids[id] = builder.add(add.record(), std::array{ids[id], addends[id]});
      vary(ids[id], next++);
    }
  }
  result.graph = builder.build_ids({ids[graph.outputs()[output]]});
  return result;
}

double sum_of_products(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += std::abs(a.at(i)) * std::abs(b.at(i));
  return sum;
}

}  // namespace

double magnitude_of_terms(const Graph& graph, std::span<const Tensor> inputs, std::size_t output,
                          const Executor& executor) {
  const Type type = graph.type(graph.outputs()[output]);
  if (!is_inexact(type.dtype()) || type.size() == 0) return 0.0;
  try {
    const Graph written = passes::write_out_graphs(graph, most_written_out);
    const Perturbed perturbed = perturb(written, inputs, output);
    const Derived derived(perturbed.graph, perturbed.wrt);
    if (!derived.active(0)) return 0.0;
    const Point point(derived, perturbed.inputs, executor);
    Random random(7);
    Numbers signs(static_cast<std::size_t>(type.size()));
    for (std::complex<double>& sign : signs) sign = random.below(2) == 0 ? -1.0 : 1.0;
    const MaybeTensors cotangents = point.vjp({tensor_of(type, signs)});
    const Tensors values = all_values(perturbed.graph, perturbed.inputs, executor);
    double largest = 0.0;
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i]) continue;
      const double sum = sum_of_products(values[perturbed.values[i]], *cotangents[i]);
      if (std::isfinite(sum)) largest = std::max(largest, sum);
    }
    return largest / static_cast<double>(type.size());
  } catch (const Error&) {  // a missing rule
    return 0.0;
  }
}

}  // namespace tidu::check
