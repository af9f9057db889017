// lazy_program.hpp - what a program is that a LazyTrace has in the compile cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "frontend/lazy.hpp"
#include "tidu/cpu/executor.hpp"

namespace tidu::frontend_detail {

/// What nobody else writes to.
inline Tensor own(Tensor&& made) {
  return made.exclusive() || made.resident() != nullptr ? std::move(made) : made.clone();
}

/// The graphs keep the addresses in its words from being used again.
struct LazyTrace::Program {
  std::vector<Graph> parts;
  Graph graph;
  std::optional<Executable> executable;
  eager::ExecutorSlot slot;
  /// Inputs that may lend outputs their memory: see Note [Lent memory].
  std::vector<ReusableInputs> reused;

  void compile(const CpuExecutor& executor) {
    executable.emplace(executor.compile(graph));
    std::ranges::copy_if(executable->reusable_inputs(), std::back_inserter(reused), &ReusableInputs::safe);
  }
  void run(const LazyRunner& runner, std::span<const Tensor* const> inputs, std::vector<Tensor>& made) const {
    made.resize(graph.outputs().size());
    if (executable) return executable->run_into(inputs, made);
    eager::Operands<Tensor> results =
        runner.executor->execute_forward({graph, slot, runner.placement}, inputs).value();
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = own(std::move(results[i]));
  }
};

}  // namespace tidu::frontend_detail
