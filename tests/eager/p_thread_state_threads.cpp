// p_thread_state_threads.cpp - P10 and P13 of thread-local state: nodes see the caller's on any thread, no
// other thread has it when the call returns, and an exception of installing it reaches the caller.
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "p_support.hpp"
#include "support/support.hpp"

namespace tidu::test {
namespace {

// A frontend's mode, for instance whether gradients are on.
thread_local int mode_of_thread = 0;
class Mode final : public eager::ThreadState {
 public:
  explicit Mode(int mode) : mode_(mode) {}
  std::shared_ptr<const ThreadState> install() const override {
    auto before = std::make_shared<Mode>(mode_of_thread);
    mode_of_thread = mode_;
    return before;
  }

 private:
  int mode_;
};
class ModeExecutor final : public Interpreted {
 public:
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    see();
    return Interpreted::execute_forward(call, inputs);
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override {
    see();
    return Interpreted::run_transposed_linear(call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    see();
    return Interpreted::add_operands(call, std::move(a), b);
  }
  std::shared_ptr<const eager::ThreadState> thread_state() const override {
    if (state != nullptr) return state;
    return std::make_shared<Mode>(mode_of_thread);
  }
  std::shared_ptr<const eager::ThreadState> state;  // instead of the mode
  std::set<int> modes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_;
  }
  std::size_t threads() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return threads_.size();
  }

 private:
  void see() const {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.insert(mode_of_thread);
    threads_.insert(std::this_thread::get_id());
  }
  mutable std::mutex mutex_;
  mutable std::set<int> seen_;
  mutable std::set<std::thread::id> threads_;
};

TEST_CASE("[P10] nodes see the caller's thread-local state on whatever thread they run") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 8, 0.7);
  for (const int mode : {5, 6, 0}) {
    const ModeExecutor executor;
    mode_of_thread = mode;
    std::set<int> hooks;
    std::mutex mutex;
    HookHandle hook = eager::after_node<Tensor>(out.first.trace, [&](HookContext<Tensor>&) {
      const std::lock_guard<std::mutex> lock(mutex);
      hooks.insert(mode_of_thread);
    });
    run(executor, {root_of(out)}, workers(4));
    CHECK(executor.modes() == std::set<int>{mode});
    CHECK(executor.threads() > 1);
    CHECK(hooks == std::set<int>{mode});
    CHECK(mode_of_thread == mode);
    hook.remove();
  }
}

// Counts the threads that have it, and takes its time to go.
class Held final : public eager::ThreadState {
 public:
  explicit Held(std::atomic<int>& threads, bool goes = false) : threads_(threads), goes_(goes) {}
  std::shared_ptr<const ThreadState> install() const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    threads_ += goes_ ? -1 : 1;
    return goes_ ? nullptr : std::make_shared<Held>(threads_, true);
  }

 private:
  std::atomic<int>& threads_;
  bool goes_;
};

TEST_CASE("[P10] when the call returns no other thread has the caller's state, which may end then") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 8, 0.7);
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::atomic<int> threads{0};
    ModeExecutor executor;
    executor.state = std::make_shared<Held>(threads);
    run(executor, {root_of(out)}, workers(4));
    CHECK(executor.threads() > 1);
    CHECK(threads == 0);
  }
}

// Notes on which threads it ends.
class Ending final : public eager::ThreadState {
 public:
  explicit Ending(std::atomic<int>& elsewhere) : elsewhere_(elsewhere) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() override {
    if (std::this_thread::get_id() != made_on_) ++elsewhere_;
  }
  std::shared_ptr<const ThreadState> install() const override { return nullptr; }

 private:
  std::atomic<int>& elsewhere_;
  const std::thread::id made_on_ = std::this_thread::get_id();
};

TEST_CASE("[P10] the caller's state ends on the caller's thread") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 8, 0.6);
  std::atomic<int> elsewhere{0};
  for (std::size_t repeat = 0; repeat < scaled(200); ++repeat) {
    ModeExecutor executor;
    executor.state = std::make_shared<Ending>(elsewhere);
    run(executor, {root_of(out)}, workers(4));
  }
  CHECK(elsewhere == 0);
}

// The state that threads of other calls had cannot be restored.
class Unrestorable final : public eager::ThreadState {
 public:
  explicit Unrestorable(bool restores = false) : restores_(restores) {}
  std::shared_ptr<const ThreadState> install() const override {
    if (restores_) throw Error(ErrorKind::execution, "no way back");
    return std::make_shared<Unrestorable>(true);
  }

 private:
  bool restores_;
};

TEST_CASE("[P13] an exception of restoring a thread's own state reaches the caller, and the thread goes on") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 8, 0.8);
  ModeExecutor executor;
  bool failed = false;
  for (int repeat = 0; repeat < 100 && !failed; ++repeat) {  // until a helper comes in time
    executor.state = std::make_shared<Unrestorable>();
    failed = message_of([&] { run(executor, {root_of(out)}, workers(4)); }) == "no way back";
    executor.state = nullptr;
    CHECK(run(executor, {root_of(out)}, workers(4)).size() == 4);
  }
  CHECK(failed);
}

}  // namespace
}  // namespace tidu::test
