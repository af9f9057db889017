// optimize.cpp - optimize: the passes in order.
#include "tidu/optimizer/optimize.hpp"

#include "tidu/graph/builder.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu {

Graph optimize(const Graph& graph, const OptimizeOptions& options, const ConstantEvaluator& evaluate,
               const GraphPass& for_target) {
  if (!graph.externals().empty()) {
    const ValueId first = graph.externals()[0];
    throw Error(
        ErrorKind::invalid_argument,
        detail::str("optimize: expected a graph without externals, got ", graph.externals().size(), " in ",
                    detail::in_quotes(graph.name()), ", the first a ", graph.type(first), " with key ",
                    to_hex(graph.key(first)), "; merge it with the graph that defines them first"));
  }
  const Graph inlined = eliminate_dead_code(passes::inline_graphs(graph, options.max_operations));
  Graph made = options.simplify ? passes::simplify(inlined, options.fast_math) : prune(inlined);
  if (options.simplify && options.merge_loops) made = passes::merge_loops(made);
  if (for_target) made = for_target(made);
  return eliminate_dead_code(passes::fold_constants(made, evaluate, options));
}

Result<Graph> try_optimize(const Graph& graph, const OptimizeOptions& options,
                           const ConstantEvaluator& evaluate, const GraphPass& for_target) {
  return detail::capture([&] { return optimize(graph, options, evaluate, for_target); });
}

}  // namespace tidu
