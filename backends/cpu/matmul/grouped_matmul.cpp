// grouped_matmul.cpp - see grouped_matmul.hpp. The matmuls of a group share one plan, since they differ only
// in the addresses of their operands.
#include "cpu/matmul/grouped_matmul.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "cpu/parallel.hpp"
#include "cpu/schedule/multiplications.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

// Multiplications that are worth a thread, at least.
constexpr double matmul_grain = 1 << 17;

struct GroupedMatmulState {
  Plan plan;                                           // of each
  std::vector<std::array<std::uint32_t, 2>> operands;  // by matmul: indices into the group's operands
  std::size_t scratch = 0;                             // bytes of each
  int threads = 1;
  std::int64_t grain = 1;  // matmuls
};
void run_grouped_matmul(const GroupedMatmulState& s, const Call& call) {
  const auto count = static_cast<std::int64_t>(s.operands.size());
  parallel_for(s.threads, count, s.grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::byte* const in[] = {call.in[s.operands[i][0]], call.in[s.operands[i][1]]};
      s.plan.run(s.plan.state.get(), Call{in, call.out + i, call.scratch + i * s.scratch});
    }
  });
}

}  // namespace

Plan plan_grouped_matmul(const Program& program, std::size_t node, const passes::NodeValues& values,
                         const CompileOptions& options, const KernelTable& kernels) {
  const Graph& graph = program.graph();
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  const Operation first = graph.operation(nodes[node + 1].index);
  const Op op = first.op();
  const std::array in{graph.type(first.inputs()[0]), graph.type(first.inputs()[1])};
  const std::array out{graph.type(first.output())};
  GroupedMatmulState state;
  try {
    state.plan = kernels.plan({op, in, out, 1, options.check_indices, options.depth, options.vector_jit});
  } catch (const Error& error) {
    error.with_message(detail::str(error.what(), "\n  ", describe_operation(graph, nodes[node + 1].index)))
        ->raise();
  }
  if (!state.plan) no_kernel(graph, nodes[node + 1].index);
  for (std::size_t k = node + 1; k < node + nodes[node].size; ++k) {
    const Operation matmul = graph.operation(nodes[k].index);
    std::array<std::uint32_t, 2> indices{};
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto at =
          std::find(values.operands.begin(), values.operands.end(), program.roots()[matmul.inputs()[i]]);
      indices[i] = static_cast<std::uint32_t>(at - values.operands.begin());
    }
    state.operands.push_back(indices);
  }
  state.scratch = aligned(state.plan.scratch);
  state.threads = options.threads;
  const double work = std::max(1.0, passes::multiplications(op, in, out[0]));
  state.grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(matmul_grain / work));
  const std::size_t count = state.operands.size(), scratch = state.scratch * count,
                    library = state.plan.library *
                              std::min(count, static_cast<std::size_t>(std::max(state.threads, 1)));
  Plan plan = make_plan<GroupedMatmulState, run_grouped_matmul>(std::move(state), scratch);
  plan.library = library;
  return plan;
}

}  // namespace tidu::cpu_detail
