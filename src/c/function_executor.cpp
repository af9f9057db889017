// function_executor.cpp - an executor of tapes made of functions in C. The functions count operands; the
// compiled form of a graph is kept with the graph.
#include <set>

#include "c/executor.hpp"

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::str;

namespace {

struct FunctionExecutor;

class Prepared;

// Results of `prepare`, which live as long as both executor and graph: the destruction of either discards
// them.
struct Registry {
  explicit Registry(const tidu_executor_functions& of) : functions(of) {}
  void discard(void* data) const { functions.discard(functions.user, data); }
  tidu_executor_functions functions;
  std::mutex mutex;
  std::set<const Prepared*> prepared;
};

// An entry of a graph: a handle of it for callbacks, and the result of `prepare`.
class Prepared {
 public:
  Prepared(const Graph& graph, const std::string& name, const std::shared_ptr<Registry>& registry);
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared();
  const tidu_graph* graph() const { return graph_.get(); }
  void* data() const { return data_; }

 private:
  std::unique_ptr<tidu_graph, void (*)(tidu_graph*)> graph_;
  std::shared_ptr<Registry> registry_;  // null: there is nothing to discard
  void* data_ = nullptr;
};

class FunctionTapes final : public TapeExecutor {
 public:
  explicit FunctionTapes(const FunctionExecutor& owner) : owner_(owner) {}
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Operand* const> inputs) const override;
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Operand* const> inputs) const override;
  Result<Operand> add_operands(const eager::AddCall& call, Operand a, const Operand& b) const override;
  bool wide_accumulation() const override;
  std::optional<Type> describe(const Operand& operand) const override;
  Result<std::optional<Operand>> ones_like(Type type) const override;
  std::optional<bool> is_finite(const Operand& operand) const override;
  std::optional<std::uint64_t> version(const Operand& operand) const override;

 private:
  using Run = decltype(tidu_executor_functions::execute_forward);
  Values run(Run function, const char* name, const eager::GraphCall& call,
             std::span<const Operand* const> inputs) const;
  const FunctionExecutor& owner_;
};

struct FunctionExecutor final : tidu_executor {
  explicit FunctionExecutor(const tidu_executor_functions& given)
      : functions(given),
        name(given.name != nullptr ? given.name : "executor"),
        registry(std::make_shared<Registry>(given)),
        tape_executor(*this) {
    functions.destroy = nullptr;  // until it is there
  }
  ~FunctionExecutor() override {
    {
      const std::lock_guard lock(registry->mutex);
      for (const Prepared* prepared : registry->prepared) registry->discard(prepared->data());
      registry->prepared.clear();
    }
    if (functions.destroy != nullptr) functions.destroy(functions.user);
  }
  void retain_operand(void* operand) const noexcept override { functions.retain(functions.user, operand); }
  void release_operand(void* operand) const noexcept override { functions.release(functions.user, operand); }
  const TapeExecutor& tapes() const override { return tape_executor; }

  tidu_executor_functions functions;
  const std::string name;
  const std::shared_ptr<Registry> registry;
  const FunctionTapes tape_executor;
};

Prepared::Prepared(const Graph& graph, const std::string& name, const std::shared_ptr<Registry>& registry)
    : graph_(new tidu_graph(graph), tidu_graph_release) {
  const tidu_executor_functions& functions = registry->functions;
  if (functions.prepare == nullptr) return;
  const Callback callback("prepare");
  callback.check(functions.prepare(functions.user, graph_.get(), &data_), name);
  const std::lock_guard lock(registry->mutex);
  try {
    registry->prepared.insert(this);
  } catch (...) {
    registry->discard(data_);
    throw;
  }
  registry_ = registry;
}

Prepared::~Prepared() {
  if (registry_ == nullptr) return;
  const std::lock_guard lock(registry_->mutex);
  if (registry_->prepared.erase(this) != 0) registry_->discard(data_);
}

// Results of a callback: released when it fails.
class Outputs {
 public:
  Outputs(std::size_t count, const FunctionExecutor& owner) : operands_(count, nullptr), owner_(owner) {}
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;
  ~Outputs() {
    for (void* operand : operands_)
      if (operand != nullptr) owner_.release_operand(operand);
  }
  void** data() { return operands_.data(); }
  std::size_t size() const { return operands_.size(); }
  Operand take(std::size_t i) { return Operand::adopt(std::exchange(operands_[i], nullptr), owner_); }
  void check(const char* callback) const {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i] == nullptr) {
        throw Error(ErrorKind::execution, str('[', tidu::detail::printable(owner_.name), "] expected ",
                                              callback, " to set operand ", i, ", got NULL"));
      }
    }
  }

 private:
  std::vector<void*> operands_;
  const FunctionExecutor& owner_;
};

FunctionTapes::Values FunctionTapes::run(Run function, const char* name, const eager::GraphCall& call,
                                         std::span<const Operand* const> inputs) const {
  const auto& prepared = call.slot.get<std::shared_ptr<const Prepared>>(
      id(), [&] { return std::make_shared<const Prepared>(call.graph, owner_.name, owner_.registry); });
  std::vector<void*> given;
  given.reserve(inputs.size());
  for (const Operand* input : inputs) given.push_back(input->data());
  Outputs outputs(call.graph.outputs().size(), owner_);
  Values values;
  values.reserve(outputs.size());
  const Callback callback(name);
  callback.check(function(owner_.functions.user, prepared->graph(), prepared->data(), given.data(),
                          given.size(), outputs.data(), outputs.size()),
                 owner_.name);
  outputs.check(name);
  for (std::size_t i = 0; i < outputs.size(); ++i) values.push_back(outputs.take(i));
  return values;
}

Result<FunctionTapes::Values> FunctionTapes::execute_forward(const eager::GraphCall& call,
                                                             std::span<const Operand* const> inputs) const {
  return run(owner_.functions.execute_forward, "execute_forward", call, inputs);
}

Result<FunctionTapes::Values> FunctionTapes::run_transposed_linear(
    const eager::GraphCall& call, std::span<const Operand* const> inputs) const {
  const Run own = owner_.functions.run_transposed_linear;
  return run(own != nullptr ? own : owner_.functions.execute_forward, "run_transposed_linear", call, inputs);
}

Result<Operand> FunctionTapes::add_operands(const eager::AddCall& call, Operand a, const Operand& b) const {
  Outputs sum(1, owner_);
  const tidu_type type = shown(call.type);
  const Callback callback("add_operands");
  const tidu_status status =
      owner_.functions.add_operands(owner_.functions.user, &type, a.data(), b.data(), sum.data());
  callback.check(status, owner_.name);
  sum.check("add_operands");
  return sum.take(0);
}

bool FunctionTapes::wide_accumulation() const { return owner_.functions.wide_accumulation != 0; }

std::optional<Type> FunctionTapes::describe(const Operand& operand) const {
  if (owner_.functions.describe == nullptr) return std::nullopt;
  tidu_type type{};
  const Callback callback("describe");
  callback.check(owner_.functions.describe(owner_.functions.user, operand.data(), &type), owner_.name);
  return Call{"describe"}.type(&type, "type");
}

Result<std::optional<Operand>> FunctionTapes::ones_like(Type type) const {
  if (owner_.functions.ones_like == nullptr) return std::optional<Operand>();
  Outputs ones(1, owner_);
  const tidu_type of = shown(type);
  const Callback callback("ones_like");
  callback.check(owner_.functions.ones_like(owner_.functions.user, &of, ones.data()), owner_.name);
  ones.check("ones_like");
  return std::optional<Operand>(ones.take(0));
}

std::optional<bool> FunctionTapes::is_finite(const Operand& operand) const {
  if (owner_.functions.is_finite == nullptr) return std::nullopt;
  std::int32_t finite = 0;
  const Callback callback("is_finite");
  callback.check(owner_.functions.is_finite(owner_.functions.user, operand.data(), &finite), owner_.name);
  return finite != 0;
}

std::optional<std::uint64_t> FunctionTapes::version(const Operand& operand) const {
  if (owner_.functions.version == nullptr) return std::nullopt;
  std::uint64_t version = 0;
  const Callback callback("version");
  callback.check(owner_.functions.version(owner_.functions.user, operand.data(), &version), owner_.name);
  return version;
}

}  // namespace

tidu_status tidu_executor_create(const tidu_executor_functions* functions, tidu_executor** executor) {
  clear(executor);
  return guarded(__func__, [&](const Call& call) {
    call.need(functions, "functions");
    call.need(executor, "executor");
    const tidu_executor_functions read = options_of(call, functions, "functions");
    call.need(read.retain, "functions->retain");
    call.need(read.release, "functions->release");
    call.need(read.execute_forward, "functions->execute_forward");
    call.need(read.add_operands, "functions->add_operands");
    if (read.prepare != nullptr) call.need(read.discard, "functions->discard");
    auto* const made = new FunctionExecutor(read);
    made->functions.destroy = read.destroy;
    *executor = made;
  });
}
