// lazy_program.hpp - what a program is that a LazyTrace has in the compile cache.
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

/// What nobody else writes to.
inline Tensor own(Tensor&& made) {
  return made.exclusive() || made.resident() != nullptr ? std::move(made) : made.clone();
}

/// See Note [Deferred results].
struct Deferral {
  /// A product of two arrays, which may be moved before and behind.
  struct Result {
    std::uint32_t output;                 // of the program
    Graph graph;                          // of those arrays
    Executable executable;                // of it
    std::vector<std::uint32_t> operands;  // outputs here
  };
  Deferral(Graph graph_here, Executable compiled)
      : graph(std::move(graph_here)), executable(std::move(compiled)) {}
  Graph graph;                         // the program's outputs but those, then the arrays
  Executable executable;               // of it
  std::vector<ReusableInputs> reused;  // safely
  std::vector<std::uint32_t> kept;     // outputs of the program, in order
  std::vector<Result> results;

  /// Null where nothing is to be deferred. For cpu().
  static std::shared_ptr<const Deferral> make(const Graph& program);
};
/// What becomes of them in a thread's pattern: which steps defer depends on nothing that others do with the
/// program.
struct DeferralUse {
  std::uint64_t runs = 0;              // of the pattern, under the lock of its trace
  std::atomic<std::uint64_t> read{0};  // results, as often
  /// Is it worth it this time? Of what is read once in so many runs one more is computed in as many.
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

/// The graphs keep the addresses in its words from being used again.
struct LazyTrace::Program {
  std::vector<Graph> parts;
  Graph graph;
  std::optional<Executable> executable;
  eager::ExecutorSlot slot;
  /// Inputs that may lend outputs their memory: see Note [Lent memory].
  std::vector<ReusableInputs> reused;
  std::shared_ptr<const Deferral> deferral;  // or null

  /// What it compiled may have a place of its own in the cache, and is counted there too: it may be dropped
  /// there first.
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

/// What a promise was left with instead of elements.
struct DeferredResult {
  std::shared_ptr<const LazyTrace::Program> program;
  std::shared_ptr<DeferralUse> use;
  std::size_t which;  // among those of the program's deferral
  std::vector<Tensor> operands;

  Tensor make() const;
};

}  // namespace tidu::frontend_detail
