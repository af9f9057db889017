// counted.hpp - operands that count their live instances, an executor that interprets graphs of f64 scalars
// over them by hand and logs its calls, and faults: the k-th pass through an instrumented point throws. It
// uses the public interface of the eager layer alone.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tidu/tidu.hpp"

namespace tidu::test::counted {

using eager::BackwardOptions;
using eager::EagerInput;
using eager::EagerOutput;
using eager::GraphCall;
using eager::RecordedGraph;

/// The exception of an injected fault; not one of tidu's errors.
struct Injected : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Place {
  none,
  copy,
  forward,
  transposed,
  add,
  ones,
  describe,
  version,
  event,
  wait,
  hook,
  callback,
  rule
};
enum class Manner { foreign, error, result };  ///< thrown by a type of its own, as Error, returned

/// One armed fault for the whole program.
struct Faults {
  static inline Place armed = Place::none;
  static inline Manner manner = Manner::foreign;
  static inline long left = 0;
  static inline bool struck = false;

  static void arm(Place place, Manner how, long k) {
    armed = place;
    manner = how;
    left = k;
    struck = false;
  }
  static void disarm() { armed = Place::none; }
  /// Is it this time?
  static bool due(Place place) {
    if (place != armed || --left != 0) return false;
    struck = true;
    return true;
  }
  static Error error() { return Error(ErrorKind::execution, "injected fault"); }
  static void pass(Place place) {
    if (!due(place)) return;
    if (manner == Manner::foreign) throw Injected("injected fault");
    throw error();
  }
};

struct Counted {
  double value = 0.0;

  explicit Counted(double x) : value(x) { enter(); }
  Counted(const Counted& other) : value(other.value) {
    Faults::pass(Place::copy);
    enter();
  }
  Counted(Counted&& other) noexcept : value(other.value) { enter(); }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) noexcept = default;
  ~Counted() { --live; }

  static inline std::atomic<long> live{0};
  static inline std::atomic<long> peak{0};

 private:
  static void enter() {
    const long now = ++live;
    if (now > peak) peak = now;
  }
};

/// One number, as constants hold it.
inline double number_of(const Op& op) {
  return (op.primitive().name == "full" || op.primitive().name == "constant")
             ? op.literal("value").at(0).real()
             : 0.0;
}

/// Outputs of a closed graph of f64 scalars.
inline std::vector<double> interpret(const Graph& graph, const std::vector<double>& inputs) {
  std::vector<double> values(graph.num_values());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation op = graph.operation(i);
    const std::string_view name = op.name();
    const auto in = [&](std::size_t k) { return values[op.input(k)]; };
    double& out = values[op.output()];
    if (name == "add")
      out = in(0) + in(1);
    else if (name == "sub")
      out = in(0) - in(1);
    else if (name == "mul")
      out = in(0) * in(1);
    else if (name == "neg")
      out = -in(0);
    else if (name == "sin")
      out = std::sin(in(0));
    else if (name == "cos")
      out = std::cos(in(0));
    else if (name == "exp")
      out = std::exp(in(0));
    else if (name == "full" || name == "constant")
      out = number_of(op.op());
    else if (name == "test.pair") {
      out = in(0);
      values[op.output(1)] = in(0) * in(1);
    } else if (name == "test.sum") {
      for (std::size_t k = 0; k < op.num_inputs(); ++k) out += in(k);
    } else if (name.starts_with("test.")) {  // primitives of tests are the identity
      out = in(0);
    } else {
      throw Error(ErrorKind::execution, "no kernel for " + std::string(name));
    }
  }
  std::vector<double> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return outputs;
}

class CountedExecutor final : public eager::BackwardExecutor<Counted> {
 public:
  /// One call of a hook.
  struct Call {
    char hook;  ///< 'f' execute_forward, 't' run_transposed_linear, 'a' add_operands
    std::string node;
    std::size_t inputs, outputs;
  };
  mutable std::vector<Call> calls;
  eager::Placement placement{};                                          ///< placement of the next recorded
                                                                         ///< operation
  std::function<std::optional<std::uint64_t>(const Counted&)> versions;  ///< none: always 0

  std::size_t count(char hook) const {
    std::size_t number = 0;
    for (const Call& call : calls) number += call.hook == hook ? 1U : 0U;
    return number;
  }

  Result<Values> execute_forward(const GraphCall& call,
                                 std::span<const Counted* const> inputs) const override {
    return run('f', Place::forward, call, inputs);
  }
  Result<Values> run_transposed_linear(const GraphCall& call,
                                       std::span<const Counted* const> inputs) const override {
    return run('t', Place::transposed, call, inputs);
  }
  Result<Counted> add_operands(const eager::AddCall&, Counted a, const Counted& b) const override {
    calls.push_back({'a', "add", 2, 1});
    if (auto failure = fail(Place::add)) return *failure;
    return Counted(a.value + b.value);
  }
  std::optional<Type> describe(const Counted&) const override {
    Faults::pass(Place::describe);
    return Type(f64);
  }
  std::optional<std::uint64_t> version(const Counted& operand) const override {
    Faults::pass(Place::version);
    return versions ? versions(operand) : 0;
  }
  eager::Placement current_placement() const override { return placement; }
  eager::Event record(eager::Placement) const override {
    Faults::pass(Place::event);
    return std::make_shared<int>(0);
  }
  void wait(eager::Placement, const eager::Event&) const override { Faults::pass(Place::wait); }
  Result<std::optional<Counted>> ones_like(Type) const override {
    if (auto failure = fail(Place::ones)) return *failure;
    return std::optional<Counted>(Counted(1.0));
  }

 private:
  static std::optional<Error> fail(Place place) {
    if (!Faults::due(place)) return std::nullopt;
    if (Faults::manner == Manner::foreign) throw Injected("injected fault");
    if (Faults::manner == Manner::error) throw Faults::error();
    return Faults::error();
  }
  static Result<Values> run(char hook, Place place, const GraphCall& call,
                            std::span<const Counted* const> inputs, std::vector<Call>& log) {
    log.push_back({hook, call.node->name(), inputs.size(), call.graph.outputs().size()});
    if (auto failure = fail(place)) return *failure;
    std::vector<double> numbers;
    for (const Counted* input : inputs) numbers.push_back(input->value);
    Values results;
    for (const double x : interpret(call.graph, numbers)) results.push_back(Counted(x));
    return results;
  }
  Result<Values> run(char hook, Place place, const GraphCall& call,
                     std::span<const Counted* const> inputs) const {
    return run(hook, place, call, inputs, calls);
  }
};

/// The identity of a value, and the value.
struct Var {
  EagerOutput who;
  Counted what;
};

/// A frontend over Counted.
class CountedTape {
 public:
  explicit CountedTape(const eager::RecorderOptions& options = {}) : recorder(&executor, options) {}

  Var leaf(double x) {
    EagerOutput who;
    who.key = recorder.keys().fresh();
    who.requires_grad = true;
    return {who, Counted(x)};
  }
  static Var of(const eager::Leaf<Counted>& leaf, double x) {
    EagerOutput who;
    who.key = leaf.key();
    who.trace = leaf.trace().hold();
    who.requires_grad = true;
    return {who, Counted(x)};
  }
  static Var constant(double x) { return {EagerOutput{}, Counted(x)}; }

  std::vector<Var> apply(const RecordedGraph& graph, const std::vector<const Var*>& operands,
                         bool retain_outputs = true) {
    std::vector<double> numbers;
    for (const Var* operand : operands) numbers.push_back(operand->what.value);
    std::vector<Counted> results;
    for (const double x : interpret(graph.graph(), numbers)) results.emplace_back(x);
    std::vector<EagerInput<Counted>> inputs;
    for (const Var* operand : operands) inputs.emplace_back(operand->who, operand->what);
    auto outputs = recorder.record_graph(
        graph, inputs, retain_outputs ? std::span<const Counted>(results) : std::span<const Counted>());
    std::vector<Var> made;
    for (std::size_t i = 0; i < results.size(); ++i)
      made.push_back({std::move(outputs[i]), std::move(results[i])});
    return made;
  }
  Var apply(const Op& op, const std::vector<const Var*>& operands,
            const PrimitiveSet& set = standard_primitives()) {
    const std::vector<Type> types(operands.size(), Type(f64));
    return std::move(apply(RecordedGraph::of(op, types, set), operands).front());
  }
  template <const Primitive& P>
  Var apply(const Var& x) {
    return apply(plain_op<P>(), {&x});
  }
  template <const Primitive& P>
  Var apply(const Var& x, const Var& y) {
    return apply(plain_op<P>(), {&x, &y});
  }

  eager::Gradients<Counted> backward(const Var& root, const BackwardOptions& options = {},
                                     std::span<const eager::Requested> requested = {}) {
    eager::Root<Counted> one;
    one.key = root.who.key;
    one.trace = root.who.trace;
    return eager::backward<Counted>(std::span(&one, 1), executor, options, requested, &recorder);
  }

  CountedExecutor executor;
  eager::Recorder<Counted> recorder;
};

/// A graph of f64 scalars by name.
inline RecordedGraph graph_of(std::size_t inputs,
                              const std::function<std::vector<Value>(std::vector<Value>)>& f,
                              const std::string& name = "layer") {
  GraphBuilder builder(name);
  std::vector<Value> values;
  for (std::size_t i = 0; i < inputs; ++i) values.push_back(builder.input("x" + std::to_string(i), f64));
  return RecordedGraph::of(builder.build(f(values)));
}

}  // namespace tidu::test::counted
