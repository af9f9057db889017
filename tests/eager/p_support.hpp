// p_support.hpp - helpers of the tests of the backward engine: Spy, an executor that logs its calls and can
// be made to misbehave, and short names for roots, options and graphs.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support.hpp"

namespace tidu::test {

using eager::BackwardOptions;
using eager::HookContext;
using eager::HookHandle;
using eager::Leaf;
using eager::Requested;
using Root = eager::Root<Tensor>;

inline Tensor vec(std::initializer_list<double> elements) {
  return Tensor::from<double>(Shape{static_cast<std::int64_t>(elements.size())}, elements);
}
inline Tensor random_tensor(Type type, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  Tensor tensor(type);
  for (double& element : tensor.mutable_elements<double>()) element = uniform(engine);
  return tensor;
}

/// Runs by the reference interpreter; a test overrides the methods that it is about.
class Interpreted : public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    return reference().execute_forward(call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override {
    return reference().run_transposed_linear(call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    return reference().add_operands(call, std::move(a), b);
  }
};

/// Runs by the reference interpreter, adds in place where it may, and keeps a log.
class Spy final : public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  struct Call {
    std::string hook;        ///< "forward", "transposed", "add"
    std::string name;        ///< of the node's primitive or graph; empty for add
    std::uint64_t node = 0;  ///< sequence number
    std::vector<Tensor> inputs;
  };
  using Run = std::function<Result<Values>(const Call&)>;

  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    return run("forward", call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override {
    return run("transposed", call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    enter({"add", "", 0, {}});
    if (before) before({"add", "", 0, {}});
    if (!a.exclusive() || a.dtype() != f64) return reference().add_operands(call, std::move(a), b);
    for (std::int64_t i = 0; i < a.size(); ++i)
      a.mutable_elements<double>()[static_cast<std::size_t>(i)] +=
          b.elements<double>()[static_cast<std::size_t>(i)];
    return a;
  }

  std::vector<Call> calls(const std::string& hook) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Call> some;
    for (const Call& call : log_)
      if (call.hook == hook) some.push_back(call);
    return some;
  }
  std::size_t num_calls() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_.size();
  }
  /// Names of the nodes whose transposed graph ran, in order.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Call& call : calls("transposed")) all.push_back(call.name);
    return all;
  }
  std::vector<std::uint64_t> sequences() const {
    std::vector<std::uint64_t> all;
    for (const Call& call : calls("transposed")) all.push_back(call.node);
    return all;
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.clear();
  }

  std::function<void(const Call&)> before;                       ///< called before everything that runs
  std::function<void(const Call&, std::vector<Tensor>&)> after;  ///< may change the results
  bool keep_inputs = false;

 private:
  void enter(Call call) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.push_back(std::move(call));
  }
  Result<Values> run(const char* hook, const eager::GraphCall& call,
                     std::span<const Tensor* const> inputs) const {
    Call seen{hook, call.node->name(), call.node->sequence(), {}};
    std::vector<Tensor> tensors;
    for (const Tensor* input : inputs) tensors.push_back(*input);
    if (keep_inputs) seen.inputs = tensors;
    enter(seen);
    if (before) before(seen);
    auto made = reference().try_run(call.graph, tensors);
    if (!made) return Result<Values>(made.error());
    if (after) after(seen, *made);
    return Values(std::move(*made));
  }

  mutable std::mutex mutex_;
  mutable std::vector<Call> log_;
};

inline Root root_of(const Var& value, std::optional<Tensor> seed = std::nullopt) {
  Root root;
  root.key = value.first.key;
  root.trace = value.first.trace;
  root.seed = std::move(seed);
  return root;
}

inline Gradients<Tensor> run(const eager::BackwardExecutor<Tensor>& executor, const std::vector<Root>& roots,
                             const BackwardOptions& options = {},
                             const std::vector<Requested>& requested = {},
                             Recorder<Tensor>* recorder = nullptr) {
  return eager::backward<Tensor>(roots, executor, options, requested, recorder);
}

inline BackwardOptions keep() {
  BackwardOptions options;
  options.keep_graph = true;
  return options;
}

template <class Body>
RecordedGraph graph_of(const char* name, const std::vector<Type>& types, const Body& body) {
  GraphBuilder builder(name);
  std::vector<Value> inputs;
  for (const Type type : types) inputs.push_back(builder.input(std::to_string(inputs.size()), type));
  const std::vector<Value> outputs = body(inputs);
  return RecordedGraph::of(builder.build(outputs));
}

inline BackwardOptions workers(int count) {
  BackwardOptions options = keep();
  options.workers = count;
  return options;
}

/// Sums of `width` branches, each of which reads all leaves: wide fan-in at leaves and in between. `salt`
/// makes new graphs, which are in no cache.
inline Var wide(Tape& tape, const std::vector<Var>& leaves, int width, double salt) {
  const RecordedGraph mix = graph_of("mix", {f64, f64}, [salt](const auto& in) {
    return std::vector<Value>{ops::sin(in[0] * in[1] * ops::full_like(in[0], salt)) + in[1]};
  });
  Var shared = tape.apply<prim::exp>({tape.apply<prim::mul>({leaves[0], leaves[1]})});
  Var sum = shared;
  for (int i = 0; i < width; ++i) {
    Var branch = shared;
    for (std::size_t k = 0; k < leaves.size(); ++k)
      branch =
          tape.apply(mix, {leaves[(k + static_cast<std::size_t>(i)) % leaves.size()], branch}, i % 2 == 0)[0];
    sum = tape.apply<prim::add>({branch, sum});
  }
  return sum;
}

/// The message of the exception of `body`; empty when there is none.
template <class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}
template <class Body>
std::optional<ErrorKind> kind_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// All of that is in the message.
inline void expect_parts(const std::string& message, std::initializer_list<const char*> parts) {
  CAPTURE(message);
  for (const char* part : parts) {
    CAPTURE(part);
    CHECK(contains(message, part));
  }
}
inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::equal(a.bytes(), a.bytes() + a.num_bytes(), b.bytes());
}
inline Tensor gradient(const Gradients<Tensor>& gradients, const Var& leaf) {
  return gradients.at(leaf.first.key);
}

/// A Leaf as an operand of a Tape.
inline Var var(const Leaf<Tensor>& leaf, Tensor value) {
  return {EagerOutput{leaf.key(), leaf.trace().hold(), true, 0}, std::move(value)};
}

}  // namespace tidu::test
