// context.cpp - the thread's context and its modes.
#include "frontend/context.hpp"

#include <atomic>

#include "frontend/hot.hpp"
#include "frontend/lazy.hpp"
#include "graph/thread_kept.hpp"
#include "tidu/frontend/modes.hpp"

namespace tidu {
namespace frontend_detail {

constinit thread_local Context* current_context = nullptr;

namespace {

std::atomic<const DispatchExecutor*> default_executor{nullptr};

// Ends the thread's context with the thread. Arrays may outlive it, and so may lazy tensors, which are
// evaluated before. Failed ones of another executor are left: that executor may have been destroyed.
struct Owner {
  Owner() { current_context = &held; }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (held.trace != nullptr) {
      try {
        held.trace->evaluate_all();
      } catch (...) {  // the readers of failed values get the error
      }
    }
    current_context = nullptr;
  }
  Context held;
};

// The caller's modes, for threads that work on its behalf.
class Modes final : public eager::ThreadState {
 public:
  explicit Modes(const Context& from)
      : grad_mode_(from.grad_mode), executor_(from.host.executor()), options_(from.recorder.options()) {
    of_executors_.push_back(executor_->thread_state());
    if (!devices_in_use()) return;
    for (const DispatchExecutor* const other : device_executors())
      if (other != executor_) of_executors_.push_back(other->thread_state());
  }
  std::shared_ptr<const ThreadState> install() const override {
    Context& to = context();
    auto before = std::make_shared<Modes>(to);
    to.grad_mode = grad_mode_;
    to.set_executor(executor_);
    to.set_options(options_);
    for (const auto& state : of_executors_)
      if (state != nullptr) state->install();
    return before;
  }

 private:
  bool grad_mode_;
  const DispatchExecutor* executor_;
  eager::RecorderOptions options_;
  std::vector<std::shared_ptr<const ThreadState>> of_executors_;
};

const DispatchExecutor* initial_executor() {
  const DispatchExecutor* chosen = default_executor.load(std::memory_order_acquire);
  return chosen != nullptr ? chosen : &cpu();
}

}  // namespace

std::shared_ptr<const eager::ThreadState> ErasedExecutor::thread_state() const {
  return std::make_shared<Modes>(context());
}

// Threads that work for another one have a context of their own, which is not lazy.
bool ErasedExecutor::records() const {
  const Context& c = context();
  return c.intercepts && &c.host == this;
}

bool ErasedExecutor::intercepted(const eager::GraphCall& call, std::span<const Tensor* const> inputs,
                                 Tensor* out) const {
  if (!records()) return false;
  const std::size_t count = call.graph.outputs().size();
  std::uninitialized_default_construct_n(out, count);
  bool recorded = false;
  try {
    recorded = record_lazily(context(), call.graph, 0, inputs, std::span<Tensor>(out, count));
  } catch (...) {
    std::destroy_n(out, count);
    throw;
  }
  if (!recorded) std::destroy_n(out, count);
  return recorded;
}

// Only if devices are in use. Returns false, without effect, if the thread's executor has to run the call.
bool ErasedExecutor::run_on_devices(const eager::GraphCall& call, bool linear,
                                    std::span<const Tensor* const> inputs, Tensor* out) const {
  const std::uint32_t home = executor_->current_placement().device;
  std::vector<std::uint32_t> devices;
  std::uint32_t device = 0;
  bool several = false;
  for (const Tensor* const input : inputs) {
    const std::uint32_t there = input->device() != 0 ? input->device() : home;
    devices.push_back(there);
    several = several || (there != 0 && device != 0 && there != device);
    if (there != 0) device = there;
  }
  const Spread& spread = Spread::of(call.graph, call.slot);
  if (several || spread.moves()) {
    std::vector<Tensor> made(call.graph.outputs().size());
    spread.stages(call.graph, devices, true).run(*executor_, linear, inputs, made);
    std::uninitialized_move_n(made.begin(), made.size(), out);
    return true;
  }
  if (device == 0) device = call.placement.device;  // the inputs are seeds
  if (device == 0 || device == home) return false;
  const std::size_t count = call.graph.outputs().size();
  if (intercepts_.load(std::memory_order_relaxed) && records()) {
    std::vector<Tensor> results(count);
    if (record_lazily(context(), call.graph, device, inputs, results)) {
      std::uninitialized_move_n(results.begin(), count, out);
      return true;
    }
  }
  const DispatchExecutor& executor = executor_on(device);
  const eager::Placement placement =
      call.placement.device == device ? call.placement : executor.current_placement();
  executor.run_at({call.graph, call.slot, placement, call.node}, linear, inputs, out);
  return true;
}

void ErasedExecutor::check_watched() const {
  executor_->check_watched();
  if (!devices_in_use()) return;
  for (const DispatchExecutor* const other : device_executors())
    if (other != executor_) other->check_watched();
}

Result<Tensor> ErasedExecutor::add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const {
  const std::uint32_t device = a.device() != 0 ? a.device() : b.device();
  const DispatchExecutor& executor = executor_at(device);
  const eager::Placement placement = &executor == executor_ || call.placement.device == device
                                         ? call.placement
                                         : executor.current_placement();
  if (intercepts_.load(std::memory_order_relaxed) && call.graph != nullptr && records()) [[unlikely]] {
    return tidu::detail::capture([&] {
      const Tensor* inputs[] = {&a, &b};
      Tensor sum;
      if (!record_lazily(context(), call.graph->graph(), &executor == executor_ ? 0 : device, inputs,
                         std::span(&sum, 1)))
        return executor.add_operands({call.type, call.graph, placement}, std::move(a), b).value();
      return sum;
    });
  }
  return executor.add_operands({call.type, call.graph, placement}, std::move(a), b);
}

Context::~Context() {
  if (trace != nullptr) trace->end();
  for (const std::shared_ptr<LazyTrace>& old : retired) old->end();
}

Context::Context()
    : host(initial_executor()),
      cpu(dynamic_cast<const CpuExecutor*>(host.executor())),
      runs_library_alone(cpu == &tidu::cpu()),
      recorder(&host),
      cache(std::make_unique<CacheEntry[]>(cache_size)) {}

LazyRunner Context::runner_on(std::uint32_t device) const {
  const DispatchExecutor& executor = host.executor_at(device);
  const CpuExecutor* const on_cpu = &executor == host.executor() ? cpu : nullptr;
  return {&executor, on_cpu, on_cpu != nullptr ? eager::Placement() : executor.current_placement()};
}

const eager::RecordedGraph* GraphTable::find(const std::string& key) {
  if (const auto found = recent_.find(key); found != recent_.end()) return &found->second;
  const auto found = before_.find(key);
  if (found == before_.end()) return nullptr;
  eager::RecordedGraph graph = std::move(found->second);
  before_.erase(found);
  return &keep(key, std::move(graph));
}

const eager::RecordedGraph& GraphTable::keep(std::string key, eager::RecordedGraph graph) {
  if (recent_.size() >= most) {
    before_ = std::move(recent_);
    recent_.clear();
  }
  return recent_.insert_or_assign(std::move(key), std::move(graph)).first->second;
}

void Context::set_executor(const DispatchExecutor* executor) {
  know_device(*executor);
  if (executor == host.executor()) return;
  // The former executor runs operations that were recorded for it.
  if (trace != nullptr)
    trace_for({executor, dynamic_cast<const CpuExecutor*>(executor), executor->current_placement()});
  host.set_executor(executor);
  cpu = dynamic_cast<const CpuExecutor*>(executor);
  runs_library_alone = cpu == &tidu::cpu();
  empty_cache();
}

void Context::empty_cache() {
  cache = std::make_unique<CacheEntry[]>(cache_size);
  cache_of = cpu != nullptr ? cpu->id() : 0;
}

void Context::set_options(const eager::RecorderOptions& options) {
  recorder.set_options(options);
  watches = options.anomaly || options.keep_blocked || options.profile != nullptr;
}

Context& make_context() { return tidu::detail::ThreadKept<Owner>::get().held; }

}  // namespace frontend_detail

using frontend_detail::context;

namespace {

// Changes one of the recorder's options and returns its former value.
template <class T>
T exchange_option(T eager::RecorderOptions::*member, T value) {
  eager::RecorderOptions options = context().recorder.options();
  const T before = std::exchange(options.*member, value);
  context().set_options(options);
  return before;
}

}  // namespace

bool grad_enabled() { return context().grad_mode; }

GradMode::GradMode(bool enabled) : before_(std::exchange(context().grad_mode, enabled)) {}
GradMode::~GradMode() { context().grad_mode = before_; }

AnomalyGuard::AnomalyGuard(bool enabled)
    : before_(exchange_option(&eager::RecorderOptions::anomaly, enabled)) {}
AnomalyGuard::~AnomalyGuard() { exchange_option(&eager::RecorderOptions::anomaly, before_); }

ExplainGuard::ExplainGuard(bool enabled)
    : before_(exchange_option(&eager::RecorderOptions::keep_blocked, enabled)) {}
ExplainGuard::~ExplainGuard() { exchange_option(&eager::RecorderOptions::keep_blocked, before_); }

ProfileGuard::ProfileGuard(eager::Profile& profile)
    : before_(exchange_option(&eager::RecorderOptions::profile, &profile)) {
  const frontend_detail::DispatchExecutor* const own = context().host.executor();
  devices_.push_back(own->profile_device(profile));
  if (!frontend_detail::devices_in_use()) return;
  for (const frontend_detail::DispatchExecutor* const other : frontend_detail::device_executors())
    if (other != own) devices_.push_back(other->profile_device(profile));
}
ProfileGuard::~ProfileGuard() { exchange_option(&eager::RecorderOptions::profile, before_); }

ExecutorGuard::ExecutorGuard(const eager::BackwardExecutor<Tensor>& executor)
    : before_(context().host.executor()) {
  context().set_executor(&executor);
}
ExecutorGuard::~ExecutorGuard() { context().set_executor(before_); }

void set_default_executor(const eager::BackwardExecutor<Tensor>& executor) {
  frontend_detail::default_executor.store(&executor, std::memory_order_release);
  if (frontend_detail::current_context != nullptr) context().set_executor(&executor);
}

}  // namespace tidu
