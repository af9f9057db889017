// eager_run.hpp - EagerRun: the graph of a command line executed operation by operation by an eager executor,
// each recorded as a separate invocation; and backward calls over the recording.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/job.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/eager/recorder.hpp"

namespace tidu::cli {

/// A value of the tape. Without a trace no gradient flows to it; without a tensor it is absent (a zero).
struct EagerValue {
  eager::EagerOutput who;
  std::optional<Tensor> tensor;
};
using EagerValues = std::vector<EagerValue>;

class EagerRun {
 public:
  /// Executes the job's graph; inputs at the positions `wrt` are leaves, all others constants. With
  /// `profiled` a profile is kept. Throws Error (invalid_argument) when the job's executor runs no tapes;
  /// errors name operation and file.
  EagerRun(const Job& job, const std::vector<std::size_t>& wrt, bool profiled);
  EagerRun(const EagerRun&) = delete;
  EagerRun& operator=(const EagerRun&) = delete;

  /// Those of the graph.
  const EagerValues& outputs() const { return outputs_; }
  /// The leaves, aligned with `wrt`.
  const EagerValues& leaves() const { return leaves_; }
  /// The profile of all executions, recordings and backward calls so far, or null.
  const eager::Profile* profile() const { return profile_ ? &*profile_ : nullptr; }
  /// A leaf of its own.
  EagerValue leaf(Tensor tensor);

  struct Keep {
    bool graph = false;   ///< the tape can be run backward again
    bool record = false;  ///< the cotangents can be differentiated themselves
  };
  /// Cotangents of `wrt` from those of the roots. Roots that were not recorded, and those whose seed is
  /// absent, contribute nothing.
  EagerValues backward(std::span<const EagerValue> roots, std::span<const EagerValue> seeds,
                       std::span<const EagerValue> wrt, Keep keep);

 private:
  void execute(const Graph& graph, std::span<const Tensor> inputs, const std::vector<std::size_t>& wrt);
  /// `values`, by value id, get the results.
  void execute(const Operation& operation, const Graph& graph, EagerValues& values);
  Where where_of(const Operation& operation);

  const Job& job_;
  const eager::BackwardExecutor<Tensor>& executor_;
  std::deque<std::string> files_;  // file names to which source locations on the tape point
  std::optional<eager::Profile> profile_;
  eager::Recorder<Tensor> recorder_;
  std::deque<eager::Leaf<Tensor>> slots_;
  EagerValues leaves_;
  EagerValues outputs_;
};

}  // namespace tidu::cli
