// parallel.cpp - the helpers of parallel loops: threads that are started at first need and sleep between
// loops.
//
// Invariants: one loop at a time has the helpers; pieces are claimed from one counter; a loop ends only when
// every helper that looked at it has let go, so that its context may live on the caller's stack.
#include "cpu/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tidu::cpu_detail {
namespace {

struct Loop {
  void (*body)(void*, std::int64_t);
  void* context;
  std::int64_t pieces;
  std::atomic<std::int64_t> next{0};
  void work() {
    for (std::int64_t piece = next.fetch_add(1); piece < pieces; piece = next.fetch_add(1))
      body(context, piece);
  }
};

class Helpers {
 public:
  // Never destroyed: a helper may outlive static destruction.
  static Helpers& get() {
    static Helpers* const helpers = new Helpers;
    return *helpers;
  }
  bool run(int wanted, Loop& loop) {
    const std::unique_lock<std::mutex> owner(owner_, std::try_to_lock);
    if (!owner.owns_lock()) return false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (static_cast<int>(threads_.size()) < wanted && start()) {
      }
      loop_ = &loop;
      places_ = wanted;
      ++generation_;
    }
    wake_.notify_all();
    loop.work();
    std::unique_lock<std::mutex> lock(mutex_);
    loop_ = nullptr;
    done_.wait(lock, [this] { return inside_ == 0; });
    return true;
  }

 private:
  bool start() {
    try {
      threads_.emplace_back([this] { serve(); });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }
  void serve() {
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return generation_ != seen && loop_ != nullptr; });
      seen = generation_;
      if (places_ == 0) continue;
      --places_;
      ++inside_;
      Loop& loop = *loop_;
      lock.unlock();
      loop.work();
      lock.lock();
      if (--inside_ == 0) done_.notify_all();
    }
  }

  std::mutex owner_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Loop* loop_ = nullptr;
  int places_ = 0;
  int inside_ = 0;
  std::uint64_t generation_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

void run_pieces(int threads, std::int64_t pieces, void (*body)(void* context, std::int64_t piece),
                void* context) {
  Loop loop{body, context, pieces};
  const auto helpers = static_cast<int>(std::min<std::int64_t>(threads - 1, pieces - 1));
  if (helpers > 0 && Helpers::get().run(helpers, loop)) return;
  loop.work();
}

}  // namespace tidu::cpu_detail
