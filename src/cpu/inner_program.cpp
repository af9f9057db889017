// inner_program.cpp - see inner_program.hpp.
#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

std::unique_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context,
                                              const Surroundings& around) {
  const auto evaluate = [&context](const Graph& constants) {
    std::vector<Literal> tensors;
    const Compiled compiled(Program::make(constants, context.program), context.options, context.kernels,
                            context.arena);
    for (const Tensor& tensor : compiled.run({})) tensors.push_back(tensor.to_literal());
    return tensors;
  };
  return std::make_unique<const Compiled>(Program::make(graph, context.program, evaluate), context.options,
                                          context.kernels, context.arena, around);
}

}  // namespace tidu::cpu_detail
