// p_counted.hpp - Counted, an operand whose live instances are counted, and an executor and a tape for it,
// for tests of memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "p_support.hpp"

namespace tidu::test {

/// A handle to a tensor; `live` counts the tensors.
struct Counted {
  struct Box {
    explicit Box(Tensor t) : tensor(std::move(t)) { ++live; }
    Box(const Box&) = delete;
    Box& operator=(const Box&) = delete;
    ~Box() { --live; }
    Tensor tensor;
  };
  static inline std::atomic<int> live{0};
  std::shared_ptr<const Box> box;
  Counted() = default;
  explicit Counted(Tensor t) : box(std::make_shared<const Box>(std::move(t))) {}
  double item() const { return box->tensor.item<double>(); }
};

class CountedExecutor final : public eager::BackwardExecutor<Counted> {
 public:
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Counted* const> inputs) const override {
    return run(call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Counted* const> inputs) const override {
    if (at_node) at_node();
    return run(call, inputs);
  }
  Result<Counted> add_operands(const eager::AddCall& call, Counted a, const Counted& b) const override {
    return Counted(reference().add_operands(call, a.box->tensor, b.box->tensor).value());
  }
  std::optional<Type> describe(const Counted& operand) const override { return operand.box->tensor.type(); }
  Result<std::optional<Counted>> ones_like(Type type) const override {
    return std::optional<Counted>(Counted(ones(type)));
  }
  std::function<void()> at_node;

 private:
  static Result<Values> run(const eager::GraphCall& call, std::span<const Counted* const> inputs) {
    std::vector<Tensor> tensors;
    for (const Counted* input : inputs) tensors.push_back(input->box->tensor);
    Values made;
    for (Tensor& tensor : reference().run(call.graph, tensors)) made.push_back(Counted(std::move(tensor)));
    return made;
  }
};

using CountedVar = std::pair<EagerOutput, Counted>;

class CountedTape {
 public:
  CountedVar leaf(double value) {
    EagerOutput who;
    who.key = recorder.keys().fresh();
    who.requires_grad = true;
    return {who, Counted(scalar(value))};
  }
  CountedVar apply(const RecordedGraph& graph, const std::vector<CountedVar>& operands) {
    std::vector<Tensor> tensors;
    std::vector<EagerInput<Counted>> inputs;
    for (const CountedVar& operand : operands) {
      tensors.push_back(operand.second.box->tensor);
      inputs.emplace_back(operand.first, operand.second);
    }
    const std::vector<Counted> results{Counted(reference().run(graph.graph(), tensors)[0])};
    return {std::move(recorder.record_graph(graph, inputs, results)[0]), results[0]};
  }
  template <const Primitive& P>
  CountedVar apply(const std::vector<CountedVar>& operands) {
    const std::vector<Type> types(operands.size(), Type(f64));
    return apply(RecordedGraph::of(plain_op<P>(), types), operands);
  }
  Gradients<Counted> backward(const CountedVar& value, const BackwardOptions& options = {}) {
    eager::Root<Counted> root;
    root.key = value.first.key;
    root.trace = value.first.trace;
    return eager::backward<Counted>(std::span(&root, 1), executor, options, {}, &recorder);
  }
  CountedExecutor executor;
  Recorder<Counted> recorder{&executor};
};

}  // namespace tidu::test
