// lazy_runs.hpp - LazyRun: one evaluation of operations of a trace; RunsInProgress: those that run now, for
// threads that must wait for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "frontend/lazy_program.hpp"
#include "frontend/lazy_values.hpp"
#include "graph/fork_mutex.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// One evaluation. Once its inputs and results are listed it is independent of the trace, whose lock is not
/// held while the program runs.
struct LazyRun {
  std::vector<std::uint32_t> order;          // needed operations, the last one first
  std::vector<std::uint32_t> first_numbers;  // of results; in the reverse order of `order`
  std::uint32_t numbers = 0;
  std::vector<std::uint64_t> words;
  std::vector<std::uint32_t> input_values, output_values;
  std::vector<Tensor> inputs;
  std::vector<const Tensor*> pointers;
  std::vector<Tensor> results;  // aligned with output_values, without deferred results
  std::vector<Tensor> made;
  std::vector<Tensor> dropped;  // leaves that are no longer needed
  struct Lent {
    std::uint32_t output;  // the output that takes the memory
    LazyResult* leaf;      // of a leaf that `inputs` holds
  };
  std::vector<Lent> lent;  // see Note [Donated memory] in lazy.hpp
  struct DeferredOutput {
    Tensor tensor;
    std::shared_ptr<DeferredResult> result;
    Tensor made;  // or empty
  };
  std::vector<DeferredOutput> deferred;  // see Note [Deferred results]

  // --- with the lock
  /// Lists the inputs of a program of a hot trace, and its outputs as results, which may be deferred. Ids are
  /// numbers of values.
  void list(const std::shared_ptr<const LazyProgram>& program, const std::shared_ptr<DeferralUse>& use,
            const LazyValues& values, std::span<const std::uint32_t> input_ids,
            std::span<const std::uint32_t> output_ids);
  bool defers() const { return !deferred.empty(); }
  /// Donates the memory of inputs to outputs, if only the run and the `trace` refer to it.
  void lend(std::span<const ReusableInputs> reused, std::size_t num_outputs, const LazyTrace* trace);
  /// Undoes lend() after a failure.
  void take_back() noexcept;
  /// Gives the results to their lazy tensors. `values`: of the trace at that time.
  void keep_results(LazyValues& values);
  /// The same for deferred results, whose elements may be there or not. Returns the number of those that are
  /// not.
  std::uint64_t keep_deferred(LazyValues& values);

  // --- without the lock
  /// Runs the program of a hot trace.
  void run(const LazyProgram& program, const LazyRunner& runner);
  /// Computes the deferred results, for callers that cannot wait. If it throws, those that follow are not
  /// computed.
  void compute_deferred();

  void clear() {
    lent.clear();
    deferred.clear();
    order.clear();
    first_numbers.clear();
    words.clear();
    input_values.clear();
    output_values.clear();
    inputs.clear();
    pointers.clear();
    results.clear();
    made.clear();
    dropped.clear();
  }
};

/// The runs of a trace that are in progress, which do not hold the trace's lock. All functions need the lock.
/// See Note [Locking of traces] in lazy.hpp.
class RunsInProgress {
 public:
  /// After this, the next begin() cannot throw.
  void reserve_one() { running_.reserve(running_.size() + 1); }
  /// `ends`: the run will end without the calling thread, as all its kernels are the library's.
  void begin(const LazyRun& run, bool ends) {
    running_.push_back({&run, std::this_thread::get_id(), tidu::detail::Forks::count(), ends});
  }
  /// For the thread that began the run.
  void end(const LazyRun& run) noexcept {
    const auto at = std::find_if(running_.begin(), running_.end(),
                                 [&](const Running& running) { return running.run == &run; });
    *at = running_.back();
    running_.pop_back();
    if (waiting_.load(std::memory_order_relaxed) == 0) return;
    ended_.fetch_add(1, std::memory_order_release);
    ended_.notify_all();
  }
  /// Waits for the runs of other threads for which concerns(run) is true; releases the lock meanwhile. Does
  /// not wait for runs that may need the calling thread to end.
  template <class Lock, class Predicate>
  void wait(Lock& lock, const Predicate& concerns) {
    const auto here = std::this_thread::get_id();
    const std::uint32_t now = tidu::detail::Forks::count();
    const auto is_waited_for = [&](const Running& running) {
      return running.ends && running.thread != here && running.forks == now && concerns(*running.run);
    };
    while (std::any_of(running_.begin(), running_.end(), is_waited_for)) {
      waiting_.fetch_add(1, std::memory_order_relaxed);
      const std::uint32_t before = ended_.load(std::memory_order_acquire);
      lock.unlock();
      ended_.wait(before, std::memory_order_acquire);
      lock.lock();
      waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

 private:
  struct Running {
    const LazyRun* run;
    std::thread::id thread;
    std::uint32_t forks;  // a child of fork() lacks the other threads
    bool ends;
  };
  std::vector<Running> running_;
  std::atomic<std::uint32_t> ended_{0};  // counted while a thread waits
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace tidu::frontend_detail
