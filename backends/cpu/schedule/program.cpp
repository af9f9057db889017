// program.cpp - Program::make: the optimizer, then the passes of the scheduler in order.
#include "tidu/cpu/program.hpp"

#include <algorithm>
#include <ostream>

#include "cpu/schedule/fusion_limits.hpp"
#include "cpu/schedule/loops.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu {

Program::Program() {
  static const auto& empty = *new std::shared_ptr<const Data>(std::make_shared<const Data>());
  data_ = empty;
}

Program Program::make(const Graph& graph, const Options& options, const ConstantEvaluator& evaluate) {
  auto data = std::make_shared<Data>();
  data->options = options;
  GraphPass offset_views;
  if (options.fuse && options.offset_views && options.shift) offset_views = passes::offset_views;
  data->graph = optimize(graph, options, evaluate, offset_views);
  std::vector<bool> is_constant = passes::find_constants(data->graph, options.constant_bytes);
  data->roots = passes::alias_roots(data->graph);
  data->splats = passes::find_splats(data->graph);
  passes::LoopPlan loops;
  if (options.block) loops = passes::find_loops(data->graph, data->roots, data->splats, options, is_constant);
  data->schedule =
      options.fuse ? passes::fused_schedule(data->graph, data->splats, is_constant, std::move(loops), options)
                   : passes::sequential_schedule(data->graph, is_constant, std::move(loops));
  if (options.fuse && options.passes.runs(CpuPass::rematerialize))
    data->schedule =
        passes::rematerialize_values(data->graph, std::move(data->schedule), data->roots, data->splats);
  if (options.fuse && options.passes.runs(CpuPass::delay_matmuls))
    data->schedule = passes::delay_matmuls(data->graph, std::move(data->schedule), data->roots, data->splats);
  data->plan = passes::assign_slots(data->graph, data->schedule, is_constant, data->roots, data->splats,
                                    options.in_place);
  for (const BlockedLoop& loop : data->schedule.loops)
    data->plan.block_bytes = std::max(data->plan.block_bytes, passes::block_bytes(loop));
  return Program(std::move(data));
}

Result<Program> Program::try_make(const Graph& graph, const Options& options,
                                  const ConstantEvaluator& evaluate) {
  return detail::capture([&] { return make(graph, options, evaluate); });
}

Program Program::with_plan(SlotPlan plan) const {
  auto data = std::make_shared<Data>(*data_);
  data->plan = std::move(plan);
  return Program(std::move(data));
}

std::ostream& operator<<(std::ostream& out, const Program& program) { return out << to_text(program); }

}  // namespace tidu
