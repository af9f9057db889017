// program.cpp - Program::make: the passes in order.
#include "tidu/program/program.hpp"

#include <algorithm>
#include <ostream>

#include "program/groups.hpp"
#include "program/loops.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/strands.hpp"
#include "tidu/program/passes.hpp"

namespace tidu {

Program::Program() {
  static const auto& empty = *new std::shared_ptr<const Data>(std::make_shared<const Data>());
  data_ = empty;
}

Program Program::make(const Graph& graph, const Options& options, const ConstantEvaluator& evaluate) {
  if (!graph.externals().empty()) {
    const ValueId first = graph.externals()[0];
    throw Error(ErrorKind::invalid_argument,
                detail::str("Program::make: expected a graph without externals, got ",
                            graph.externals().size(), " in ", detail::in_quotes(graph.name()),
                            ", the first a ", graph.type(first), " with key ", to_hex(graph.key(first)),
                            "; merge it with the graph that defines them first"));
  }
  auto data = std::make_shared<Data>();
  data->options = options;
  const Graph written_out = without_unread(passes::write_out_graphs(graph, options.max_operations));
  data->graph = options.simplify ? passes::simplify(written_out, options.fast_math) : prune(written_out);
  if (options.simplify) data->graph = passes::merge_loops(data->graph);
  if (options.fuse && options.shift) data->graph = passes::moves_as_shifts(data->graph);
  data->graph = without_unread(passes::fold_constants(data->graph, evaluate, options));
  std::vector<bool> is_constant = passes::find_constants(data->graph, options.constant_bytes);
  data->roots = passes::storage_roots(data->graph);
  data->splats = passes::find_splats(data->graph);
  passes::LoopPlan loops;
  if (options.block) loops = passes::find_loops(data->graph, data->roots, data->splats, options, is_constant);
  data->schedule = options.fuse ? passes::fused_schedule(data->graph, data->splats, is_constant,
                                                         std::move(loops), options.group_products)
                                : passes::sequential_schedule(data->graph, is_constant, std::move(loops));
  if (options.fuse)
    data->schedule = passes::compute_again(data->graph, std::move(data->schedule), data->roots, data->splats);
  if (options.fuse)
    data->schedule =
        passes::delay_products(data->graph, std::move(data->schedule), data->roots, data->splats);
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
