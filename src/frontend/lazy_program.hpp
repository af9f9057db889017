// lazy_program.hpp - LazyProgram: a compiled program of a LazyTrace, as it is kept in the compile cache, and
// StandaloneOps: the operations that it is made of.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "frontend/lazy_runner.hpp"
#include "graph/kept_bytes.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/eager/executor.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// See Note [Deferred results].
struct Deferral {
  /// A matmul of two arrays, perhaps with layout operations before and after it.
  struct Result {
    std::uint32_t output;                 // of the program
    Graph graph;                          // from those arrays to the result
    Executable executable;                // of that graph
    std::vector<std::uint32_t> operands;  // outputs of Deferral::graph
  };
  Deferral(Graph graph_here, Executable compiled)
      : graph(std::move(graph_here)), executable(std::move(compiled)) {}
  Graph graph;                         // the program with the other outputs, and then the arrays
  Executable executable;               // of that graph
  std::vector<ReusableInputs> reused;  // only safe ones
  std::vector<std::uint32_t> kept;     // the other outputs of the program, in order
  std::vector<Result> results;

  /// Null if there is nothing to defer. For cpu().
  static std::shared_ptr<const Deferral> make(const Graph& program);
};
/// The use of deferral by one thread's hot trace, so that other users of the program do not affect the
/// decision to defer.
struct DeferralUse {
  std::uint64_t runs = 0;              // runs of the hot trace, under the lock of its trace
  std::atomic<std::uint64_t> read{0};  // number of reads of deferred results
  /// Should this run defer? One read in a given number of runs costs one further computation in that number.
  bool is_worth() {
    constexpr std::uint64_t runs_for_reading = 16;
    return runs++ >= runs_for_reading * read.load(std::memory_order_relaxed);
  }
};

std::vector<ReusableInputs> safely_reused(const Executable& executable);

/// Does this thread compile or run a program of a trace at the moment?
bool evaluating();

/// The operations of a run apart from their trace, which may change meanwhile.
struct StandaloneOps {
  struct Step {
    Graph graph;
    std::vector<std::uint32_t> operands;  // numbers of values
    std::uint32_t first_result;
  };
  std::vector<Step> steps;
  std::vector<std::pair<std::uint32_t, Tensor>> inputs;
  std::vector<std::uint32_t> outputs;
  std::uint32_t numbers;  // of values

  /// Runs them one after another, for those that are not worth a program.
  void run(const LazyRunner& runner, std::vector<Tensor>& made) const;
  /// All of them as one graph. `parts`: receives their graphs.
  Graph build_graph(std::vector<Graph>& parts) const;
};

/// Invariant: the graphs keep the addresses in the program's words from being reused.
struct LazyProgram {
  std::vector<Graph> parts;
  Graph graph;
  std::optional<Executable> executable;
  eager::ExecutorSlot slot;
  /// Inputs whose memory is donated to outputs: see Note [Donated memory].
  std::vector<ReusableInputs> reused;
  std::shared_ptr<const Deferral> deferral;  // or null

  /// Includes the compiled executable, although the cache may also count it under a separate entry: that
  /// entry may be dropped first.
  std::size_t kept_bytes() const {
    detail::KeptBytes kept;
    for (const Graph& part : parts) kept.add(part);
    kept.add(graph);
    std::size_t bytes = executable ? executable->kept_bytes() : 0;
    if (deferral != nullptr) {
      kept.add(deferral->graph);
      bytes += deferral->executable.kept_bytes();
    }
    return bytes + kept.all();
  }
  /// Compiles the operations. `defers`: with deferred results, if there are any.
  static std::shared_ptr<LazyProgram> make(const StandaloneOps& ops, const LazyRunner& runner, bool defers);
  void run(const LazyRunner& runner, std::span<const Tensor* const> inputs, std::vector<Tensor>& made) const;
  /// Instead of some results, computes the arrays of which they are made.
  void run_deferring(std::span<const Tensor* const> inputs, std::vector<Tensor>& made) const;
};

/// The contents of a deferred lazy tensor, instead of elements.
struct DeferredResult {
  std::shared_ptr<const LazyProgram> program;
  std::shared_ptr<DeferralUse> use;
  std::size_t which;  // index in the program's deferral
  std::vector<Tensor> operands;

  Tensor make() const;
};

}  // namespace tidu::frontend_detail
