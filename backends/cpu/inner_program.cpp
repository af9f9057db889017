// inner_program.cpp - see inner_program.hpp.
#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

std::shared_ptr<const Compiled>& InnerPrograms::at(const Graph& graph, const CompileOptions& options) {
  const Key128 key = detail::mix(graph.structural_key(), graph.name());
  return programs_[{key, options.threads, options.depth, options.repeats}];
}

std::shared_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context) {
  if (context.options.inner == nullptr) return compile_inner(graph, context, CallSite());
  if (auto known = context.options.inner->at(graph, context.options)) return known;
  auto made = compile_inner(graph, context, CallSite());
  context.options.inner->at(graph, context.options) = made;
  return made;
}

std::shared_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context,
                                              const CallSite& call_site) {
  const auto evaluate = [&context](const Graph& constants) {
    std::vector<Literal> tensors;
    CompileOptions options = context.options;
    options.memory_stats = nullptr;  // it does not last
    const Compiled compiled(Program::make(constants, context.program), options, context.kernels,
                            context.arena);
    for (const Tensor& tensor : compiled.run({})) tensors.push_back(tensor.to_literal());
    return tensors;
  };
  return std::make_shared<const Compiled>(Program::make(graph, context.program, evaluate), context.options,
                                          context.kernels, context.arena, call_site);
}

}  // namespace tidu::cpu_detail
