// parallel.cpp - one backward call on several threads. The calling thread (the owner) runs host nodes;
// helpers from a pool join in when the caller asks for workers; every other device has one thread, for all
// calls, that runs its nodes.
//
// Note [No deadlock]: a thread that waits for its call to end waits for nodes that run on other threads,
// never for a thread to become free. An owner runs host nodes itself; an owner that is itself the thread of a
// device (a call nested in a hook there) continues to serve that device while it waits. Deeper calls have
// priority.
//
// Note [Leaked]: threads are detached and the objects that they wait for are never destroyed, so that a
// process may exit while they wait. A child after fork() has none of them; it starts new ones.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <system_error>
#include <thread>

#include "eager/call.hpp"

namespace tidu::eager::detail {
namespace {

class Run;

// Runs with something ready for one device, or that want helpers: each once, with how many times it is to be
// taken.
struct WorkQueue {
  struct Wanted {
    std::shared_ptr<Run> run;
    std::size_t count;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Wanted> runs;
  std::size_t total = 0;    // of the counts
  std::size_t idle = 0;     // helpers that wait
  std::size_t threads = 0;  // started

  void add(const std::shared_ptr<Run>& run, std::size_t count) {
    const std::lock_guard<std::mutex> lock(mutex);
    add_locked(run, count);
  }
  void add_locked(const std::shared_ptr<Run>& run, std::size_t count) {
    const auto at = std::find_if(runs.begin(), runs.end(), [&](const Wanted& w) { return w.run == run; });
    if (at != runs.end()) {
      at->count += count;
    } else {
      runs.push_back({run, count});
    }
    total += count;
    changed.notify_all();
  }
  // Under the lock, from a queue that is not empty. Calls of one depth take turns.
  std::shared_ptr<Run> take_deepest();
  void remove(const Run* run) {
    std::shared_ptr<Run> gone;  // let go of after the lock
    const std::lock_guard<std::mutex> lock(mutex);
    const auto at =
        std::find_if(runs.begin(), runs.end(), [&](const Wanted& w) { return w.run.get() == run; });
    if (at == runs.end()) return;
    total -= at->count;
    gone = std::move(at->run);
    runs.erase(at);
  }
};

thread_local std::uint32_t device_of_this_thread = 0;

// Threads of this process.
class Workers {
 public:
  static Workers& get() {
    static std::atomic<Workers*> current{nullptr};
    const pid_t process = ::getpid();
    Workers* workers = current.load(std::memory_order_acquire);
    while (workers == nullptr || workers->process_ != process) {
      auto fresh = std::make_unique<Workers>(process);
      if (current.compare_exchange_strong(workers, fresh.get(), std::memory_order_acq_rel))
        return *fresh.release();
    }
    return *workers;
  }
  explicit Workers(pid_t process) : process_(process) {}

  // The queue of a device, with its thread. Throws Error (execution) when that cannot be started.
  WorkQueue& device(std::uint32_t number);
  // Asks for `count` helpers; as many threads are started as are missing, up to a bound, and as can be.
  void help(const std::shared_ptr<Run>& run, std::size_t count);
  void withdraw(const Run* run) { helpers_.remove(run); }
  void withdraw(const Run* run, std::uint32_t device);

 private:
  static constexpr std::size_t max_helpers = 256;
  const pid_t process_;
  WorkQueue helpers_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::unique_ptr<WorkQueue>> devices_;
};

// The state that the threads of one call share. It outlives the call while a thread uses it.
class Run : public std::enable_shared_from_this<Run> {
 public:
  explicit Run(BackwardCall& call)
      : call_(call),
        depth(call.depth()),
        state_(call.request().host.thread_state()),
        owner_device_(device_of_this_thread) {
    if (owner_device_ != 0) owner_queue_ = &Workers::get().device(owner_device_);
  }

  // The owner's part. Throws nothing; the error is kept in the call.
  void drive();
  // A helper's part: until the call has ended.
  void help();
  // One node or leaf of that device. Device threads only.
  void serve(std::uint32_t device);

 private:
  using Lock = std::unique_lock<std::mutex>;

  template <class Work>
  void on_another_thread(const Work& work);
  // Takes something that is ready for the device and runs it, with the lock released meanwhile.
  bool run_next(std::uint32_t device, Lock& lock);
  bool ended() const;
  void announce(Lock& lock);
  void wake();

  // From a handler.
  void fail() {
    call_.errors().keep(std::current_exception());
    failed_ = true;
    wake();
  }

  BackwardCall& call_;  // not touched once closed_

 public:
  const std::uint32_t depth;

 private:
  std::shared_ptr<const ThreadState> state_;  // until the last visitor has left
  const std::uint32_t owner_device_;
  WorkQueue* owner_queue_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> changes_{0};
  std::size_t running_ = 0;
  std::size_t visitors_ = 0;  // other threads that have the caller's state, or are about to
  bool failed_ = false;       // no further node is started
  bool closed_ = false;
};

std::shared_ptr<Run> WorkQueue::take_deepest() {
  const auto at = std::max_element(
      runs.begin(), runs.end(), [](const Wanted& a, const Wanted& b) { return a.run->depth < b.run->depth; });
  --total;
  if (--at->count != 0) {
    std::rotate(at, at + 1, runs.end());
    return runs.back().run;
  }
  std::shared_ptr<Run> run = std::move(at->run);
  runs.erase(at);
  return run;
}

WorkQueue& Workers::device(std::uint32_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<WorkQueue>& queue = devices_[number];
  if (queue == nullptr) {
    auto made = std::make_unique<WorkQueue>();
    const auto serve = [number, &work = *made] {
      device_of_this_thread = number;
      while (true) {
        std::shared_ptr<Run> run;
        {
          std::unique_lock<std::mutex> wait(work.mutex);
          work.changed.wait(wait, [&] { return !work.runs.empty(); });
          run = work.take_deepest();
        }
        run->serve(number);
      }
    };
    try {
      std::thread(serve).detach();
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::execution, tidu::detail::str("backward: expected a thread for device ", number,
                                                          ", got none: ", error.what()));
    }
    queue = std::move(made);
  }
  return *queue;
}

void Workers::withdraw(const Run* run, std::uint32_t device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = devices_.find(device);
  if (at != devices_.end() && at->second != nullptr) at->second->remove(run);
}

void Workers::help(const std::shared_ptr<Run>& run, std::size_t count) {
  count = std::min(count, max_helpers);
  const std::lock_guard<std::mutex> lock(helpers_.mutex);
  const auto serve = [&work = helpers_] {
    while (true) {
      std::shared_ptr<Run> next;
      {
        std::unique_lock<std::mutex> wait(work.mutex);
        ++work.idle;
        work.changed.wait(wait, [&] { return !work.runs.empty(); });
        --work.idle;
        next = work.take_deepest();
      }
      next->help();
    }
  };
  try {
    for (std::size_t i = 0; i < count; ++i) {
      if (helpers_.idle > helpers_.total + i || helpers_.threads >= max_helpers) continue;
      std::thread(serve).detach();
      ++helpers_.threads;
    }
  } catch (const std::system_error&) {  // it goes with those that there are
  }
  helpers_.add_locked(run, count);
}

bool Run::ended() const {
  if (running_ != 0) return false;
  if (failed_) return true;
  ReadyQueues& ready = call_.ready();
  if (!ready.host().empty()) return false;
  return std::all_of(ready.devices().begin(), ready.devices().end(),
                     [](const auto& entry) { return entry.second.empty(); });
}

void Run::wake() {
  changes_.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
  if (owner_queue_ != nullptr) {
    const std::lock_guard<std::mutex> lock(owner_queue_->mutex);
    owner_queue_->changed.notify_all();
  }
}

// Notifies devices of ready nodes, once per node, so that none is missed.
void Run::announce(Lock& lock) {
  std::vector<std::pair<std::uint32_t, std::size_t>> ready;
  for (auto& [device, queue] : call_.ready().devices())
    if (const std::size_t count = queue.announce(); count != 0) ready.emplace_back(device, count);
  if (ready.empty()) return;
  lock.unlock();
  for (const auto& [device, count] : ready) {
    Workers::get().device(device).add(shared_from_this(), count);
  }
  lock.lock();
}

bool Run::run_next(std::uint32_t device, Lock& lock) {
  if (closed_ || failed_) return false;
  ReadyQueue& queue = call_.ready().of(device);
  if (queue.empty()) return false;
  ++running_;
  try {
    if (queue.has_leaves()) {
      const std::uint32_t leaf = queue.pop_leaf();
      lock.unlock();
      call_.run_leaf(leaf);
      lock.lock();
    } else {
      State& state = queue.pop_node();
      lock.unlock();
      std::vector<Cotangent*> outgoing(state.node->num_edges, nullptr);
      const CotangentGuard guard(call_.request().host.table, outgoing);
      call_.run_node(state, outgoing);
      lock.lock();
      call_.deliver(state, outgoing);
    }
  } catch (...) {
    call_.errors().keep(std::current_exception());
    if (!lock.owns_lock()) lock.lock();
    failed_ = true;
  }
  if (!failed_) {
    try {
      announce(lock);
    } catch (...) {
      call_.errors().keep(std::current_exception());
      if (!lock.owns_lock()) lock.lock();
      failed_ = true;
    }
  }
  --running_;
  wake();
  return true;
}

void Run::drive() {
  const std::shared_ptr<Run> self = shared_from_this();
  Workers& workers = Workers::get();
  Lock lock(mutex_);
  try {
    announce(lock);
    const int wanted = call_.request().options.workers;
    if (wanted > 1) workers.help(self, static_cast<std::size_t>(wanted) - 1);
  } catch (...) {
    call_.errors().keep(std::current_exception());
    if (!lock.owns_lock()) lock.lock();
    failed_ = true;
  }
  while (true) {
    if (run_next(0, lock) || (owner_device_ != 0 && run_next(owner_device_, lock))) continue;
    if (ended()) break;
    const std::uint64_t seen = changes_.load(std::memory_order_acquire);
    if (owner_queue_ == nullptr) {
      changed_.wait(lock, [&] { return changes_.load(std::memory_order_acquire) != seen; });
      continue;
    }
    lock.unlock();
    std::shared_ptr<Run> other;
    {
      std::unique_lock<std::mutex> wait(owner_queue_->mutex);
      owner_queue_->changed.wait(wait, [&] {
        return !owner_queue_->runs.empty() || changes_.load(std::memory_order_acquire) != seen;
      });
      if (!owner_queue_->runs.empty()) other = owner_queue_->take_deepest();
    }
    if (other != nullptr) other->serve(owner_device_);
    lock.lock();
  }
  closed_ = true;
  wake();
  // Objects that the caller's state refers to may end with the call.
  changed_.wait(lock, [&] { return visitors_ == 0; });
  std::shared_ptr<const ThreadState> state = std::move(state_);
  lock.unlock();
  state = nullptr;  // here, and not on the thread that lets go of the run last
  workers.withdraw(this);
  for (const auto& entry : call_.ready().devices()) workers.withdraw(this, entry.first);
}

// An exception of installing the caller's state is an error of the call, unless that has ended without this
// thread; an exception of restoring the thread's own state is an error in any case, since the call waits for
// it.
template <class Work>
void Run::on_another_thread(const Work& work) {
  Lock lock(mutex_);
  if (closed_) return;
  ++visitors_;
  lock.unlock();
  std::shared_ptr<const ThreadState> before;
  try {
    if (state_ != nullptr) before = state_->install();
    const DepthGuard guard(depth + 1);
    lock.lock();
    work(lock);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    if (!closed_) fail();
  }
  if (lock.owns_lock()) lock.unlock();
  try {
    if (before != nullptr) before->install();
    before = nullptr;
    lock.lock();
  } catch (...) {
    before = nullptr;
    lock.lock();
    fail();
  }
  if (--visitors_ == 0 && closed_) changed_.notify_all();
}

void Run::help() {
  on_another_thread([this](Lock& lock) {
    while (!closed_) {
      if (run_next(0, lock)) continue;
      const std::uint64_t seen = changes_.load(std::memory_order_acquire);
      changed_.wait(lock, [&] { return closed_ || changes_.load(std::memory_order_acquire) != seen; });
    }
  });
}

void Run::serve(std::uint32_t device) {
  on_another_thread([this, device](Lock& lock) { run_next(device, lock); });
}

}  // namespace

void BackwardCall::run_threaded() { std::make_shared<Run>(*this)->drive(); }

}  // namespace tidu::eager::detail
