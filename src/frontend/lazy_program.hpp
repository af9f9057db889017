// lazy_program.hpp - LazyTrace::Program: a compiled program of a LazyTrace, as it is kept in the compile
// cache.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "frontend/lazy.hpp"
#include "graph/kept_bytes.hpp"
#include "tidu/cpu/executor.hpp"

namespace tidu::frontend_detail {

/// A tensor whose memory nothing else can write to.
inline Tensor own(Tensor&& made) {
  return made.exclusive() || made.resident() != nullptr ? std::move(made) : made.clone();
}

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
/// The use of deferral by one thread's pattern, so that other users of the program do not affect the decision
/// to defer.
struct DeferralUse {
  std::uint64_t runs = 0;              // runs of the pattern, under the lock of its trace
  std::atomic<std::uint64_t> read{0};  // number of reads of deferred results
  /// Should this run defer? One read in a given number of runs costs one further computation in that number.
  bool is_worth() {
    constexpr std::uint64_t runs_for_reading = 16;
    return runs++ >= runs_for_reading * read.load(std::memory_order_relaxed);
  }
};

inline std::vector<ReusableInputs> safely_reused(const Executable& executable) {
  std::vector<ReusableInputs> reused;
  std::ranges::copy_if(executable.reusable_inputs(), std::back_inserter(reused), &ReusableInputs::safe);
  return reused;
}

/// Invariant: the graphs keep the addresses in the program's words from being reused.
struct LazyTrace::Program {
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
  void compile(const CpuExecutor& executor) {
    executable.emplace(executor.compile(graph));
    reused = safely_reused(*executable);
  }
  void run(const LazyRunner& runner, std::span<const Tensor* const> inputs, std::vector<Tensor>& made) const {
    made.resize(graph.outputs().size());
    if (executable) return executable->run_into(inputs, made);
    eager::Operands<Tensor> results =
        runner.executor->execute_forward({graph, slot, runner.placement}, inputs).value();
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = own(std::move(results[i]));
  }
};

/// The contents of a deferred lazy tensor, instead of elements.
struct DeferredResult {
  std::shared_ptr<const LazyTrace::Program> program;
  std::shared_ptr<DeferralUse> use;
  std::size_t which;  // index in the program's deferral
  std::vector<Tensor> operands;

  Tensor make() const;
};

}  // namespace tidu::frontend_detail
