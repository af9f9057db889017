// context.cpp - the thread's context, and the modes that belong to it.
#include "frontend/context.hpp"

#include <atomic>

#include "tidu/frontend/modes.hpp"

namespace tidu {
namespace frontend_detail {

constinit thread_local Context* current_context = nullptr;

namespace {

std::atomic<const HostExecutor*> default_executor{nullptr};

// Ends the thread's context with the thread; Arrays may outlive it.
struct Owner {
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    current_context = nullptr;
    delete held;
  }
  Context* held = nullptr;
};

// The caller's modes, for threads that work on its behalf.
class Modes final : public eager::ThreadState {
 public:
  explicit Modes(const Context& from)
      : grad_mode_(from.grad_mode), executor_(from.host.executor()), options_(from.recorder.options()) {}
  std::shared_ptr<const ThreadState> install() const override {
    Context& to = context();
    auto before = std::make_shared<Modes>(to);
    to.grad_mode = grad_mode_;
    to.set_executor(executor_);
    to.set_options(options_);
    return before;
  }

 private:
  bool grad_mode_;
  const HostExecutor* executor_;
  eager::RecorderOptions options_;
};

const HostExecutor* initial_executor() {
  const HostExecutor* chosen = default_executor.load(std::memory_order_acquire);
  return chosen != nullptr ? chosen : &cpu();
}

}  // namespace

std::shared_ptr<const eager::ThreadState> Host::thread_state() const {
  return std::make_shared<Modes>(context());
}

Context::Context()
    : host(initial_executor()),
      cpu(dynamic_cast<const CpuExecutor*>(host.executor())),
      recorder(&host),
      cache(std::make_unique<CacheEntry[]>(cache_size)) {}

void Context::set_executor(const HostExecutor* executor) {
  if (executor == host.executor()) return;
  host.set_executor(executor);
  cpu = dynamic_cast<const CpuExecutor*>(executor);
  cache = std::make_unique<CacheEntry[]>(cache_size);
}

void Context::set_options(const eager::RecorderOptions& options) {
  recorder.set_options(options);
  watches = options.anomaly || options.keep_blocked || options.profile != nullptr;
}

Context& make_context() {
  thread_local Owner owner;
  owner.held = new Context;
  current_context = owner.held;
  return *owner.held;
}

}  // namespace frontend_detail

using frontend_detail::context;

namespace {

// Changes one of the recorder's options and returns what it was.
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
    : before_(exchange_option(&eager::RecorderOptions::profile, &profile)) {}
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
