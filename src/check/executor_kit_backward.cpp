// executor_kit_backward.cpp - whole backward calls: a graph recorded as one node and operation by operation,
// run backward on one thread and on two, and recorded and run backward again. A wrapper between engine and
// executor judges every call of a method by itself, so that a finding names the method at fault.
#include <atomic>

#include "check/executor_kit.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::check {
namespace {

using detail::str;
using eager::EagerInput;
using eager::EagerOutput;
using Gradients = eager::Gradients<AnyOperand>;

class Watcher final : public eager::BackwardExecutor<AnyOperand> {
 public:
  Watcher(Kit& kit, ExecutorCheck check) : kit_(kit), check_(check) {}
  std::size_t faults() const { return faults_.load(); }

  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const AnyOperand* const> inputs) const override {
    return run(Hook::execute_forward, call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const AnyOperand* const> inputs) const override {
    return run(Hook::run_transposed_linear, call, inputs);
  }
  Result<AnyOperand> add_operands(const eager::AddCall& call, AnyOperand a,
                                  const AnyOperand& b) const override {
    const eager::RecordedGraph sum = call.graph != nullptr ? *call.graph : Kit::sum_of(call.type);
    const Trial trial = kit_.trial("a + b within backward", sum.graph(), {tensor(a), tensor(b)}, false);
    Outcome outcome = Kit::add(kit_.executor, call, std::move(a), b);
    if (!kit_.judge(check_, "add_operands", trial, outcome)) ++faults_;
    if (!outcome.values) return Error(ErrorKind::execution, outcome.failure);
    return std::move((*outcome.values)[0]);
  }
  bool wide_accumulation() const override { return kit_.executor.wide_accumulation(); }
  std::optional<Type> describe(const AnyOperand& x) const override { return kit_.executor.describe(x); }
  std::optional<std::uint32_t> device_of(const AnyOperand& x) const override {
    return kit_.executor.device_of(x);
  }
  Result<std::optional<AnyOperand>> ones_like(Type type) const override {
    return kit_.executor.ones_like(type);
  }
  std::optional<bool> is_finite(const AnyOperand& x) const override { return kit_.executor.is_finite(x); }
  std::optional<bool> is_zero(const AnyOperand& x) const override { return kit_.executor.is_zero(x); }
  std::optional<std::uint64_t> version(const AnyOperand& x) const override {
    return kit_.executor.version(x);
  }
  eager::Placement current_placement() const override { return kit_.executor.current_placement(); }
  eager::Event record(eager::Placement placement) const override { return kit_.executor.record(placement); }
  void wait(eager::Placement placement, const eager::Event& event) const override {
    kit_.executor.wait(placement, event);
  }
  std::shared_ptr<const eager::ThreadState> thread_state() const override {
    return kit_.executor.thread_state();
  }

 private:
  Tensor tensor(const AnyOperand& operand) const { return kit_.executor.to_tensor(operand); }

  Result<Values> run(Hook hook, const eager::GraphCall& call,
                     std::span<const AnyOperand* const> inputs) const {
    Tensors tensors;
    for (const AnyOperand* input : inputs) tensors.push_back(tensor(*input));
    const Trial trial = kit_.trial("within backward", call.graph, tensors, false);
    Outcome outcome = Kit::call_in_place(kit_.executor, hook, call, inputs);
    if (kit_.is_right(trial, outcome)) {
      kit_.log.tested(check_);
    } else {
      const bool hook_is_right = kit_.is_right(trial, Kit::call(kit_.executor, hook, call, inputs));
      kit_.judge(check_, hook_is_right ? "run_at" : to_string(hook), trial, outcome);
      ++faults_;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (same_bits(tensors[i], tensor(*inputs[i]))) continue;
      ++faults_;
      const ShownPair shown = show_pair(tensors[i], tensor(*inputs[i]));
      kit_.log.finding(ExecutorCheck::ownership, to_string(hook),
                       str("within backward: expected input ", i, " to stay ", shown.expected, ", got ",
                           shown.got, show(call.graph, tensors)));
    }
    if (!outcome.values) return Error(ErrorKind::execution, outcome.failure);
    return std::move(*outcome.values);
  }

  Kit& kit_;
  ExecutorCheck check_;
  mutable std::atomic<std::size_t> faults_{0};
};

// A value of the tape.
struct Var {
  EagerOutput who;
  Tensor value;
  std::optional<AnyOperand> operand;
};

class Call {
 public:
  Call(Kit& kit, const Kit::Function& function, ExecutorCheck check)
      : kit_(kit), function_(function), check_(check), watcher_(kit, check), recorder_(&watcher_) {
    const Graph& graph = function.graph;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const Type type = graph.type(graph.inputs()[i]);
      Var& input = inputs_.emplace_back();
      input.value = random_input(kit.random, type, function.exact);
      input.operand = kit.executor.from_tensor(input.value);
      if (!is_inexact(type.dtype())) continue;
      input.who.key = recorder_.keys().fresh();
      input.who.requires_grad = true;
      wrt_.push_back(i);
    }
  }

  void record_as_one() {
    how_ = "recorded as one node";
    outputs_ = record(eager::RecordedGraph::of(function_.graph), inputs_);
  }
  void record_by_operations() {
    how_ = "recorded operation by operation";
    const Graph& graph = function_.graph;
    std::vector<Var> values(graph.num_values());
    for (std::size_t i = 0; i < inputs_.size(); ++i) values[graph.inputs()[i]] = inputs_[i];
    for (std::size_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      std::vector<Var> operands;
      std::vector<Type> types;
      for (const ValueId id : operation.inputs()) {
        operands.push_back(values[id]);
        types.push_back(graph.type(id));
      }
      const std::vector<Var> results =
          record(eager::RecordedGraph::of(operation.op(), types, graph.primitives()), operands);
      for (std::size_t slot = 0; slot < results.size(); ++slot)
        values[operation.output(slot)] = results[slot];
    }
    for (const ValueId id : graph.outputs()) outputs_.push_back(values[id]);
  }

  void judge_gradients(int workers) {
    eager::BackwardOptions options;
    options.workers = workers;
    make_roots();
    if (roots_.empty()) return;
    const std::size_t faults = watcher_.faults();
    const std::string failure = failure_of([&] {
      judge(eager::backward<AnyOperand>(roots_, watcher_, options), derivative_.graph, arguments_,
            "gradient");
    });
    if (!failure.empty() && watcher_.faults() == faults) say("expected gradients, got " + failure);
  }

  /// Gradients that are recorded, and the gradients of those.
  void judge_second_order() {
    make_roots();
    if (roots_.empty()) return;
    const Graph gradients = with_outputs(derivative_.graph, gradient_positions());
    Names names;
    for (const std::size_t i : wrt_) names.push_back(gradients.input_name(i));
    Derivative second;
    try {
      second = vjp_parts(gradients, names);
    } catch (const Error& error) {  // a set of the caller's without zeros, say
      kit_.log.note(str(function_.what, ": no second derivative tested: ", error.what()));
      return;
    }
    if (!kit_.usable(second.graph)) return;

    eager::BackwardOptions options;
    options.create_graph = true;
    const std::size_t faults = watcher_.faults();
    const std::string failure = failure_of([&] {
      const Gradients first = eager::backward<AnyOperand>(roots_, watcher_, options, {}, &recorder_);
      roots_.clear();
      Tensors arguments = arguments_;
      for (const std::size_t i : wrt_) {
        Tensor seed = random_input(kit_.random, inputs_[i].value.type(), function_.exact);
        const auto* entry = first.entry_of(inputs_[i].who.key);
        const bool used = entry != nullptr && entry->recorded.trace;
        if (used) add_root(entry->recorded, seed);
        arguments.push_back(used ? seed : Tensor::zeros(seed.type()));
      }
      if (roots_.empty()) return;
      derivative_ = second;
      const Gradients again = eager::backward<AnyOperand>(roots_, watcher_, {});
      judge(again, second.graph, arguments, "second derivative");
    });
    if (!failure.empty() && watcher_.faults() == faults) say("expected second derivatives, got " + failure);
  }

 private:
  std::vector<Var> record(const eager::RecordedGraph& graph, const std::vector<Var>& operands) {
    Tensors tensors;
    std::vector<EagerInput<AnyOperand>> inputs;
    for (const Var& operand : operands) {
      tensors.push_back(operand.value);
      inputs.emplace_back(operand.who, *operand.operand);
    }
    const Tensors results = kit_.oracle.run(graph.graph(), tensors);
    AnyOperands made = kit_.operands(results);
    // Outputs that are not given are computed again when backward reads them.
    const bool given = made.size() == 1 || kit_.random.below(2) == 0;
    const auto who = recorder_.record_graph(
        graph, inputs, given ? std::span<const AnyOperand>(made) : std::span<const AnyOperand>());
    std::vector<Var> vars;
    for (std::size_t i = 0; i < results.size(); ++i) vars.push_back({who[i], results[i], std::move(made[i])});
    return vars;
  }

  void add_root(const EagerOutput& who, const Tensor& seed) {
    eager::Root<AnyOperand>& root = roots_.emplace_back();
    root.key = who.key;
    root.trace = who.trace;
    root.seed = kit_.executor.from_tensor(seed);
  }

  // Seeds for the outputs through which gradients flow on the tape; zeros for the others.
  void make_roots() {
    roots_.clear();
    arguments_.clear();
    derivative_ = vjp_parts(function_.graph);
    for (const Var& input : inputs_) arguments_.push_back(input.value);
    for (const std::size_t k : derivative_.outputs) {
      const Tensor seed = random_input(kit_.random, outputs_[k].value.type(), function_.exact);
      const bool used = static_cast<bool>(outputs_[k].who.trace);
      if (used) add_root(outputs_[k].who, seed);
      arguments_.push_back(used ? seed : Tensor::zeros(seed.type()));
    }
  }
  std::vector<std::size_t> gradient_positions() const {
    std::vector<std::size_t> positions;
    for (std::size_t k = 0; k < derivative_.wrt.size(); ++k) positions.push_back(derivative_.first + k);
    return positions;
  }

  // `graph` gives the expected gradients from derivative_.first on.
  void judge(const Gradients& got, const Graph& graph, const Tensors& arguments, const char* what) {
    kit_.log.tested(check_);
    const Trial expected = kit_.trial("", graph, arguments, function_.exact);
    for (std::size_t k = 0; k < wrt_.size(); ++k) {
      const Tensor& wanted = expected.expected[derivative_.first + k];
      const AnyOperand* gradient = got.find(inputs_[wrt_[k]].who.key);
      const Tensor value =
          gradient != nullptr ? kit_.executor.to_tensor(*gradient) : Tensor::zeros(wanted.type());
      if (kit_.agrees(wanted, value, expected.exact, expected.scale)) continue;
      // If a method was at fault, that is the finding.
      const ShownPair shown = show_pair(wanted, value);
      if (watcher_.faults() == 0)
        say(str("expected ", shown.expected, " as ", what, " of input ", wrt_[k], ", got ", shown.got));
      return;
    }
  }
  void say(const std::string& message) {
    Tensors tensors;
    for (const Var& input : inputs_) tensors.push_back(input.value);
    kit_.log.finding(check_, "backward",
                     str(function_.what, ' ', how_, ": ", message, show(function_.graph, tensors)));
  }

  Kit& kit_;
  const Kit::Function& function_;
  ExecutorCheck check_;
  Watcher watcher_;
  eager::Recorder<AnyOperand> recorder_;
  std::vector<Var> inputs_, outputs_;
  std::vector<std::size_t> wrt_;
  std::vector<eager::Root<AnyOperand>> roots_;
  Derivative derivative_;
  Tensors arguments_;  // of derivative_.graph
  const char* how_ = "";
};

}  // namespace

void check_backward(Kit& kit) {
  kit.announce(ExecutorCheck::backward, "whole backward calls, recorded ones too");
  for (const Kit::Function& function : kit.functions) {
    const auto one = [&](ExecutorCheck check, bool by_operations, auto judge) {
      Call call(kit, function, check);
      by_operations ? call.record_by_operations() : call.record_as_one();
      judge(call);
    };
    for (const bool by_operations : {false, true}) {
      if (by_operations && !function.by_operations) break;
      one(ExecutorCheck::backward, by_operations, [](Call& call) { call.judge_gradients(1); });
      if (kit.usable_on_tape(function.graph, by_operations, true))
        one(ExecutorCheck::create_graph, by_operations, [](Call& call) { call.judge_second_order(); });
    }
    if (function.by_operations)
      one(ExecutorCheck::backward, true, [](Call& call) { call.judge_gradients(2); });
  }
}

}  // namespace tidu::check
