// p_device.hpp - a fake machine of devices and streams: work is done at once, but every stream has a vector
// clock, and reading a value that a stream did not wait for is logged as a race. Recordings, waits and runs
// are logged with their placement.
#pragma once

#include <map>
#include <set>
#include <thread>

#include "p_support.hpp"

namespace tidu::test {

using eager::Placement;

inline std::string place_name(Placement at) {
  return "d" + std::to_string(at.device) + "s" + std::to_string(at.stream);
}

/// A tensor that was made by the piece of work number `tick` of a stream.
struct Placed {
  std::shared_ptr<const Tensor> tensor;
  Placement at{};
  std::uint64_t tick = 0;
  double item() const { return tensor->item<double>(); }
};

class Machine final : public eager::BackwardExecutor<Placed> {
 public:
  using Stream = std::pair<std::uint32_t, std::uint64_t>;
  using Clock = std::map<Stream, std::uint64_t>;
  struct Work {
    std::string what;  ///< name of the graph, or "add"
    Placement at;
    std::thread::id thread;
  };

  static Placement& here() {
    thread_local Placement current;
    return current;
  }

  /// A value that the running thread makes on a stream.
  Placed make(Tensor tensor, Placement at) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return made(std::move(tensor), at);
  }
  std::vector<Placed> execute(const Graph& graph, const std::vector<const Placed*>& inputs,
                              Placement at) const {
    return run(graph, inputs, at, "");
  }
  /// May work on that stream read the value without waiting any more?
  bool readable(const Placed& value, Placement at) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return knows(at, value);
  }
  /// The user's synchronisation for an input that was made on another stream.
  void synchronise(const Placed& value, Placement at) const { wait(at, record(value.at)); }

  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Placed* const> inputs) const override {
    return Values(run(call.graph, {inputs.begin(), inputs.end()}, call.placement, call.node->name()));
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Placed* const> inputs) const override {
    if (at_node) at_node(*call.node);
    return Values(run(call.graph, {inputs.begin(), inputs.end()}, call.placement, call.node->name()));
  }
  Result<Placed> add_operands(const eager::AddCall& call, Placed a, const Placed& b) const override {
    return run(call.graph->graph(), {&a, &b}, call.placement, "add")[0];
  }
  std::optional<Type> describe(const Placed& operand) const override { return operand.tensor->type(); }
  std::optional<std::uint32_t> device_of(const Placed& operand) const override {
    return lie_about_device ? lie_about_device(operand) : operand.at.device;
  }
  Result<std::optional<Placed>> ones_like(Type type) const override {
    return std::optional<Placed>(make(ones(type), here()));
  }
  Placement current_placement() const override { return here(); }
  eager::Event record(Placement at) const override {
    if (at_record) at_record(at);
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.push_back("record " + place_name(at));
    return std::make_shared<Recorded>(Recorded{clocks_[stream(at)], at});
  }
  void wait(Placement at, const eager::Event& event) const override {
    const auto& recorded = *static_cast<const Recorded*>(event.get());
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.push_back(place_name(at) + " waits for " + place_name(recorded.at));
    Clock& clock = clocks_[stream(at)];
    for (const auto& [other, tick] : recorded.clock) clock[other] = std::max(clock[other], tick);
  }
  std::shared_ptr<const eager::ThreadState> thread_state() const override {
    return state ? state() : nullptr;
  }

  std::vector<std::string> log() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_;
  }
  /// The first value that was read without having been waited for; empty when there was none.
  std::string first_race() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return races_.empty() ? std::string() : races_.front();
  }
  std::vector<Work> works() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return works_;
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.clear();
    works_.clear();
  }

  std::function<void(const eager::NodeView&)> at_node;
  std::function<void(Placement)> at_record;
  std::function<std::optional<std::uint32_t>(const Placed&)> lie_about_device;
  std::function<std::shared_ptr<const eager::ThreadState>()> state;

 private:
  struct Recorded {
    Clock clock;
    Placement at;
  };
  static Stream stream(Placement at) { return {at.device, at.stream}; }
  Placed made(Tensor tensor, Placement at) const {
    const std::uint64_t tick = ++clocks_[stream(at)][stream(at)];
    return {std::make_shared<const Tensor>(std::move(tensor)), at, tick};
  }
  bool knows(Placement at, const Placed& value) const {
    return clocks_[stream(at)][stream(value.at)] >= value.tick;
  }
  std::vector<Placed> run(const Graph& graph, const std::vector<const Placed*>& inputs, Placement at,
                          const std::string& name) const {
    std::vector<Tensor> tensors;
    for (const Placed* input : inputs) tensors.push_back(*input->tensor);
    const std::vector<Tensor> results = reference().run(graph, tensors);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Placed* input : inputs) {
      if (!knows(at, *input))
        races_.push_back(name + " on " + place_name(at) + " reads what was made on " + place_name(input->at));
    }
    log_.push_back("run " + name + " on " + place_name(at));
    works_.push_back({name, at, std::this_thread::get_id()});
    std::vector<Placed> values;
    for (const Tensor& result : results) values.push_back(made(result, at));
    return values;
  }

  mutable std::mutex mutex_;
  mutable std::map<Stream, Clock> clocks_;
  mutable std::vector<std::string> log_;
  mutable std::vector<std::string> races_;
  mutable std::vector<Work> works_;
};

using PlacedVar = std::pair<EagerOutput, Placed>;

/// A frontend for it: forward waits for its operands like a careful user.
class MachineTape {
 public:
  explicit MachineTape(const Machine& on) : machine(on), recorder(&on) {}
  PlacedVar leaf(double value, Placement at) {
    EagerOutput who;
    who.key = recorder.keys().fresh();
    who.requires_grad = true;
    return {who, machine.make(scalar(value), at)};
  }
  template <const Primitive& P>
  PlacedVar apply(const std::vector<PlacedVar>& operands, Placement at) {
    const std::vector<Type> types(operands.size(), Type(f64));
    const RecordedGraph graph = RecordedGraph::of(plain_op<P>(), types);
    std::vector<EagerInput<Placed>> inputs;
    std::vector<const Placed*> values;
    for (const PlacedVar& operand : operands) {
      if (!machine.readable(operand.second, at)) machine.synchronise(operand.second, at);
      inputs.emplace_back(operand.first, operand.second);
      values.push_back(&operand.second);
    }
    const std::vector<Placed> results = machine.execute(graph.graph(), values, at);
    auto outputs = recorder.record_graph(graph, inputs, results, {}, at, Where::current());
    return {std::move(outputs[0]), results[0]};
  }
  const Machine& machine;
  Recorder<Placed> recorder;
};

inline eager::Root<Placed> placed_root(const PlacedVar& value) {
  eager::Root<Placed> root;
  root.key = value.first.key;
  root.trace = value.first.trace;
  return root;
}
inline Gradients<Placed> run(const Machine& machine, const std::vector<eager::Root<Placed>>& roots,
                             const BackwardOptions& options = {}) {
  return eager::backward<Placed>(roots, machine, options);
}

/// Puts the running thread on a stream for a while.
class On {
 public:
  explicit On(Placement at) : before_(std::exchange(Machine::here(), at)) {}
  On(const On&) = delete;
  On& operator=(const On&) = delete;
  ~On() { Machine::here() = before_; }

 private:
  Placement before_;
};

}  // namespace tidu::test
