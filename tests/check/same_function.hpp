// same_function.hpp - two graphs against each other, on the reference interpreter and on the CPU.
#pragma once

#include "check/helpers.hpp"
#include "tidu/cpu/executor.hpp"

namespace tidu::test {

/// The operations of that primitive in the graph itself.
inline std::vector<Operation> operations_of(const Graph& graph, std::string_view name) {
  std::vector<Operation> found;
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.operation(i).name() == name) found.push_back(graph.operation(i));
  }
  return found;
}

/// Floating numbers between -1 and 1, integers that count from `first`, bools that are every second one true.
inline Tensors inputs_for(const Graph& graph, std::uint64_t seed, std::int64_t first = 0) {
  Random random(seed);
  Tensors inputs;
  for (const ValueId id : graph.inputs()) {
    const Type type = graph.type(id);
    Numbers numbers(static_cast<std::size_t>(type.size()));
    std::int64_t next = first;
    for (auto& number : numbers)
      number = is_inexact(type.dtype()) ? random.uniform(-1, 1) : static_cast<double>(next++);
    if (!is_bool(type.dtype())) {
      inputs.push_back(check::tensor_of(type, numbers));
      continue;
    }
    Tensor flags(type);
    next = first;
    for (bool& flag : flags.mutable_elements<bool>()) flag = next++ % 2 != 0;
    inputs.push_back(flags);
  }
  return inputs;
}

/// Has `got` the results of `expected`, which runs on the interpreter?
inline void same_function(const Graph& got, const Graph& expected, const Tensors& inputs,
                          double tolerance = 1e-11) {
  const Tensors wanted = run(expected, inputs);
  for (const Tensors& outputs : {run(got, inputs), cpu().run(got, inputs)}) {
    REQUIRE(outputs.size() == wanted.size());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      CAPTURE(k);
      CHECK(near(outputs[k], wanted[k], tolerance));
    }
  }
}
inline void same_function(const Graph& got, const Graph& expected, double tolerance = 1e-11) {
  same_function(got, expected, inputs_for(got, 7), tolerance);
}

}  // namespace tidu::test
