// modes.hpp - the modes of a thread that computes with Arrays: whether operations are recorded, which
// executor runs them, anomaly detection and profiling. Each is set by a guard, which restores the former
// mode. Backward calls carry the caller's modes to their worker threads.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tidu/eager/executor.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

/// Are operations on this thread recorded?
bool grad_enabled();

/// Turns recording on or off.
class GradMode {
 public:
  /// Until it is destroyed.
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

/// While it lives, nothing is recorded: results require no gradient. Inside a function that is traced (jvp,
/// vmap, compile, …) neither gradients nor tangents flow through operations under it. A guard outside of such
/// a function does not change the function's derivatives.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

/// f() without recording.
template <class F>
decltype(auto) no_grad(F&& f) {
  const NoGrad guard;
  return std::forward<F>(f)();
}

/// Every operation checks its results, and throws eager::NonFiniteError for the first that is not finite; so
/// does backward().
class AnomalyGuard {
 public:
  /// Until it is destroyed.
  explicit AnomalyGuard(bool enabled = true);
  ~AnomalyGuard();
  AnomalyGuard(const AnomalyGuard&) = delete;
  AnomalyGuard& operator=(const AnomalyGuard&) = delete;

 private:
  bool before_;
};

/// Operations that have no derivative are kept on the tape too, so that explain() can name them.
class ExplainGuard {
 public:
  /// Until it is destroyed.
  explicit ExplainGuard(bool enabled = true);
  ~ExplainGuard();
  ExplainGuard(const ExplainGuard&) = delete;
  ExplainGuard& operator=(const ExplainGuard&) = delete;

 private:
  bool before_;
};

/// Enters runs, recordings and differentiations in `profile`, also the steps of devices on which there are
/// Arrays when it begins.
class ProfileGuard {
 public:
  /// Until it is destroyed; `profile` outlives it.
  explicit ProfileGuard(eager::Profile& profile);
  ~ProfileGuard();
  ProfileGuard(const ProfileGuard&) = delete;
  ProfileGuard& operator=(const ProfileGuard&) = delete;

 private:
  eager::Profile* before_;
  std::vector<std::shared_ptr<const void>> devices_;
};

/// Runs this thread's operations by another executor (cpu() by default), which must outlive the guard.
class ExecutorGuard {
 public:
  /// Until it is destroyed.
  explicit ExecutorGuard(const eager::BackwardExecutor<Tensor>& executor);
  ~ExecutorGuard();
  ExecutorGuard(const ExecutorGuard&) = delete;
  ExecutorGuard& operator=(const ExecutorGuard&) = delete;

 private:
  const eager::BackwardExecutor<Tensor>* before_;
};

/// The executor of threads that say nothing else, from their next operation on. It outlives them.
void set_default_executor(const eager::BackwardExecutor<Tensor>& executor);

}  // namespace tidu
