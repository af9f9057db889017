// call.hpp - BackwardCall: one backward call: seeds its roots, runs nodes and leaves whose cotangents have
// all arrived, and sends the results on. A node or leaf is ready when every edge that leads to it has been
// settled, with a cotangent or without. All state belongs to this call alone, so calls may run concurrently
// on shared parts of a tape, and nest.
//
// Invariant with several threads: the mutex of the run (parallel.cpp) guards the ready queues, and the
// dependency counts and contributions of ReachedNodes. Only its thread touches a running node. Everything
// else is constant once the run begins, or has a mutex of its own.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "eager/arrivals.hpp"
#include "eager/call_hooks.hpp"
#include "eager/captures.hpp"
#include "eager/contributions.hpp"
#include "eager/cotangents.hpp"
#include "eager/failure.hpp"
#include "eager/node_runner.hpp"
#include "eager/reached.hpp"
#include "eager/ready.hpp"
#include "eager/roots.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/eager/host.hpp"

namespace tidu::eager::detail {

/// Number of backward calls in which this thread is.
extern thread_local std::uint32_t calls_on_this_thread;
class DepthGuard {
 public:
  explicit DepthGuard(std::uint32_t depth) : before_(std::exchange(calls_on_this_thread, depth)) {}
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  ~DepthGuard() { calls_on_this_thread = before_; }

 private:
  std::uint32_t before_;
};

class BackwardCall {
 public:
  explicit BackwardCall(const BackwardRequest& request);
  BackwardCall(const BackwardCall&) = delete;
  BackwardCall& operator=(const BackwardCall&) = delete;
  ~BackwardCall();

  // --- in this order
  /// Finds the nodes that run, and counts the cotangents that each waits for.
  void prepare();
  void seed_roots();
  /// Runs all nodes and leaves. Their errors are kept; throws only if the run cannot begin.
  void run();
  /// Throws the first error. Otherwise adds gradients to slots, and returns the others and the requested
  /// ones.
  BackwardOutcome finish();

  // --- for the threads of a run
  const BackwardRequest& request() const { return request_; }
  /// Number of enclosing backward calls on the thread of this one.
  std::uint32_t depth() const { return depth_; }
  ReadyQueues& ready() { return ready_; }
  FirstError& errors() { return errors_; }
  /// Runs one node, or skips it after a failure. `outgoing` is by edge; with several threads, its cotangents
  /// are on the devices of their targets. An exception is kept, and thrown again at once or at the end.
  void run_node(State& state, std::span<Cotangent*> outgoing);
  /// The same for the hooks of a leaf, by its index.
  void run_leaf(std::uint32_t index);
  /// Sends the cotangents of a node that ran (all null if it did not) to its producers.
  void deliver(const State& state, std::span<Cotangent*> outgoing);

  // --- for tests
  ReachedNodes& reached() { return reached_; }

 private:
  bool wants_threads();
  void run_serially();
  void run_threaded();
  void check_stop() const;
  void finish_leaf(LeafState& leaf);
  void run_leaf_hooks(LeafState& leaf, std::span<Cotangent*> cotangent);
  void settle(const Edge& edge, bool failed);
  [[gnu::cold]] void keep_failure(Node& target, const char* phase);
  void push_ready(LeafState& leaf) { ready_.push(leaf, reached_.leaves().index(leaf)); }
  void join_streams(std::span<Cotangent* const> sums);
  void accumulate();

  // Callbacks end last, after the cotangents and then the roots are released.
  const BackwardRequest& request_;
  const BackwardOptions& options_;
  const OperandTable& table_;
  const std::uint32_t depth_;
  Placement caller_{};
  bool threaded_ = false;
  CotangentOps cotangents_;
  CallHooks hooks_;
  FirstError errors_;
  Roots roots_;
  Captures captures_;
  ReachedNodes reached_;
  Contributions contributions_;
  Arrivals arrivals_;  // anomaly mode
  ReadyQueues ready_;
  NodeRunner runner_;
};

}  // namespace tidu::eager::detail
