// support.hpp - helpers of the tests of the eager layer: a value of a tape, and recording by name.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tidu/tidu.hpp"

namespace tidu::test {

using eager::EagerInput;
using eager::EagerOutput;
using eager::Gradients;
using eager::RecordedGraph;
using eager::Recorder;
using Var = std::pair<EagerOutput, Tensor>;  ///< the identity of a value, and the value

inline Tensor scalar(double x) { return Tensor::scalar(x); }

/// A frontend in thirty lines: executes by the reference interpreter, records by Recorder.
class Tape {
 public:
  explicit Tape(const eager::RecorderOptions& options = {}) : recorder(&reference(), options) {}

  Var leaf(Tensor value) {
    EagerOutput who;
    who.key = recorder.keys().fresh();
    who.requires_grad = true;
    return {who, std::move(value)};
  }
  Var leaf(double value) { return leaf(scalar(value)); }
  Var constant(Tensor value) { return {EagerOutput{}, std::move(value)}; }
  Var constant(double value) { return constant(scalar(value)); }

  std::vector<Var> apply(const RecordedGraph& graph, const std::vector<Var>& operands,
                         bool retain_outputs = true, Where where = Where::current()) {
    std::vector<Tensor> tensors;
    for (const Var& operand : operands) tensors.push_back(operand.second);
    const std::vector<Tensor> results = reference().run(graph.graph(), tensors);
    std::vector<EagerInput<Tensor>> inputs;
    for (const Var& operand : operands) inputs.emplace_back(operand.first, operand.second);
    auto outputs = recorder.record_graph(
        graph, inputs, retain_outputs ? std::span<const Tensor>(results) : std::span<const Tensor>(), {},
        where);
    std::vector<Var> made;
    for (std::size_t i = 0; i < results.size(); ++i) made.emplace_back(std::move(outputs[i]), results[i]);
    return made;
  }
  Var apply(const Op& op, const std::vector<Var>& operands, Where where = Where::current()) {
    std::vector<Type> types;
    for (const Var& operand : operands) types.push_back(operand.second.type());
    return apply(RecordedGraph::of(op, types), operands, true, where)[0];
  }
  template <const Primitive& P>
  Var apply(const std::vector<Var>& operands, Where where = Where::current()) {
    return apply(plain_op<P>(), operands, where);
  }

  Recorder<Tensor> recorder;
};

inline Gradients<Tensor> backward(const Var& root, std::optional<Tensor> seed = std::nullopt,
                                  const eager::BackwardOptions& options = {}) {
  return eager::try_backward(root.first.key, root.first.trace, std::move(seed), reference(), nullptr, options)
      .value();
}

inline double item(const Gradients<Tensor>& gradients, const Var& leaf) {
  return gradients.at(leaf.first.key).item<double>();
}

}  // namespace tidu::test
