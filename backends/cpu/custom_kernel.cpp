// custom_kernel.cpp - tensors over the pointers of a step, and the graphs that a kernel may run.
#include "cpu/custom_kernel.hpp"

#include <cstring>

#include "cpu/compiled.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr int deepest = 64;

// Compiles what it runs each time: a kernel that runs graphs decides which.
class NestedRunner final : public GraphRunner {
 public:
  NestedRunner(std::shared_ptr<const KernelTable> table, const CompileOptions& options)
      : table_(std::move(table)), options_(options) {}
  std::vector<Tensor> run_nested(const Graph& graph, std::span<const Tensor> inputs,
                                 int depth) const override {
    if (depth > deepest) {
      throw Error(ErrorKind::execution,
                  detail::str("run: expected graphs that nest at most ", deepest, " deep, got ",
                              detail::in_quotes(graph.name()), " at depth ", depth));
    }
    check_inputs(graph, inputs);
    CompileOptions options = options_;
    options.depth = depth;
    ProgramOptions whole_operations;
    whole_operations.fuse = whole_operations.block = !table_->has_custom();
    return Compiled(Program::make(graph, whole_operations), options, *table_, std::make_shared<Arena>(0))
        .run(inputs);
  }

 private:
  std::shared_ptr<const KernelTable> table_;
  CompileOptions options_;
};

struct ForeignState {
  Op op;
  std::vector<Type> in, out;
  Kernel kernel;
  std::shared_ptr<const NestedRunner> runner;
  int depth;
};

Tensor over(Type type, std::byte* at) {
  return type.size() == 0 ? Tensor(type)
                          : Tensor::wrap(type, static_cast<void*>(at), std::shared_ptr<void>());
}

void run_foreign(const ForeignState& s, const Call& call) {
  std::vector<Tensor> operands, results;
  for (std::size_t i = 0; i < s.in.size(); ++i) {
    operands.push_back(s.in[i].size() == 0 ? Tensor(s.in[i])
                                           : Tensor::wrap(s.in[i], static_cast<const void*>(call.in[i]),
                                                          std::shared_ptr<const void>()));
  }
  for (std::size_t i = 0; i < s.out.size(); ++i) results.push_back(over(s.out[i], call.out[i]));
  s.kernel(KernelCall(s.op, operands, results, *s.runner, s.depth));
  for (std::size_t i = 0; i < s.out.size(); ++i) {
    if (results[i].type() != s.out[i]) {
      throw Error(ErrorKind::execution,
                  detail::str('[', s.op.name(), "] expected the kernel to give ", s.out[i], " for result ", i,
                              ", got ", results[i].type()));
    }
    if (s.out[i].size() != 0 && results[i].bytes() != call.out[i]) {
      std::memcpy(call.out[i], results[i].bytes(), s.out[i].bytes());
    }
  }
}

}  // namespace

Plan plan_custom(const PlanRequest& request, const Kernel& kernel, std::shared_ptr<const KernelTable> table) {
  const CompileOptions options{request.threads, request.check_indices, request.depth, request.vector_jit};
  return make_plan<ForeignState, run_foreign>(
      {request.op,
       {request.in.begin(), request.in.end()},
       {request.out.begin(), request.out.end()},
       kernel,
       std::make_shared<const NestedRunner>(std::move(table), options),
       request.depth});
}

}  // namespace tidu::cpu_detail
