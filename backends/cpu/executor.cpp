// executor.cpp - CpuExecutor and Executable, over what compiles and runs.
#include "tidu/cpu/executor.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <unordered_map>

#include "cpu/arena.hpp"
#include "cpu/compiled.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "cpu/inner_program.hpp"
#include "cpu/kernel_table.hpp"
#include "cpu/processors.hpp"
#include "graph/kept_bytes.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu {

namespace {

// Bytes that an executable keeps, roughly: instructions, pointers and plans by operation, tables by value,
// constants, and a workspace or two. Of a small program most is what any one has. Each graph that an
// operation holds is a program of its own.
class Footprint {
 public:
  std::size_t of(const Program& program) {
    return of(program.graph(), false) + 2 * program.plan().small_bytes + program.plan().constant_bytes;
  }

 private:
  static std::size_t sum(std::size_t a, std::size_t b) {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 4;
    return std::min(a + b, most);
  }
  // Graphs nest at most max_graph_depth deep, and so does this.
  std::size_t of(const Graph& graph, bool with_constants) {
    std::size_t bytes = 8192 + 256 * graph.num_operations() + 96 * graph.num_values();
    for (const OperationRecord& record : graph.data().operations) {
      for (const auto& [name, value] : record.op->attributes) {
        if (const auto* const literal = with_constants ? value.get_if<Literal>() : nullptr)
          bytes = sum(bytes, literal->type().bytes());
        for (const std::shared_ptr<const GraphData>& held : value.graphs()) {
          auto known = held_.find(held.get());
          if (known == held_.end()) known = held_.emplace(held.get(), of(Graph(held), true)).first;
          bytes = sum(bytes, known->second);
        }
      }
    }
    return bytes;
  }
  std::unordered_map<const GraphData*, std::size_t> held_;
};

// Bytes of literals that the graph holds and the program compiled from it does not, as rules of functions.
std::size_t literals_beside(const Graph& program, const Graph& graph) {
  detail::KeptBytes kept;
  kept.add(program);
  const std::size_t there = kept.literals();
  kept.add(graph);
  return kept.literals() - there;
}

}  // namespace

Result<std::vector<Tensor>> Executable::try_run(std::span<const Tensor> inputs) const {
  return detail::capture([&] { return compiled_->run(inputs); });
}
void Executable::run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const {
  try {
    compiled_->run_into(inputs, outputs);
  } catch (const std::bad_alloc&) {  // while outputs are made, or in finding memory to run in
    throw Error(ErrorKind::out_of_memory, "Executable::run_into: out of memory");
  }
}
std::vector<Tensor> Executable::run(std::span<const Tensor> inputs) const { return try_run(inputs).value(); }
std::vector<Tensor> Executable::run(std::initializer_list<Tensor> inputs) const {
  return run(std::span<const Tensor>(inputs.begin(), inputs.size()));
}
std::vector<Tensor> Executable::run_named(std::span<const NamedTensor> inputs) const {
  return run(arrange_inputs(names_ != nullptr ? Graph(names_) : program().graph(), inputs));
}
Executable Executable::with_keys_of(const Graph& graph) const {
  Executable other(*this);
  other.names_ = graph.data().input_keys != program().graph().data().input_keys ? graph.share() : nullptr;
  return other;
}
const Program& Executable::program() const { return compiled_->program(); }
std::size_t Executable::peak_bytes() const { return compiled_->peak_bytes(); }
int Executable::threads() const { return compiled_->threads(); }
const std::vector<ReusableInputs>& Executable::reusable_inputs() const { return compiled_->donated().sets; }
std::size_t Executable::num_instructions() const { return compiled_->num_instructions(); }
std::size_t Executable::kept_bytes() const { return Footprint().of(program()); }

CpuExecutor::CpuExecutor(const CpuOptions& options)
    : options_(options),
      kernels_(std::make_shared<const cpu_detail::KernelTable>()),
      arena_(std::make_shared<cpu_detail::Arena>(options.cached_bytes)) {}

CpuExecutor CpuExecutor::with_kernel(std::string_view primitive, Kernel kernel, DTypes supported) const {
  if (!kernel) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("CpuExecutor::with_kernel: expected a kernel for ", primitive, ", got none"));
  }
  CpuExecutor other(*this);
  other.renew_identity();
  other.kernels_ = kernels_->with(primitive, std::move(kernel), supported);
  return other;
}

CpuExecutor CpuExecutor::with_options(const CpuOptions& options) const {
  CpuExecutor other(*this);
  other.renew_identity();
  other.options_ = options;
  if (options.cached_bytes != options_.cached_bytes)
    other.arena_ = std::make_shared<cpu_detail::Arena>(options.cached_bytes);
  return other;
}

Result<std::vector<Tensor>> CpuExecutor::try_run(const Graph& graph, std::span<const Tensor> inputs) const {
  return detail::capture([&] {
    check_inputs(graph, inputs);
    return compile(graph).run(inputs);
  });
}

namespace {

using TensorValues = CpuExecutor::Values;

const Executable& kept(const CpuExecutor& executor, const Graph& graph, const eager::ExecutorSlot& slot) {
  return slot.get<Executable>(executor.id(), [&] { return executor.compile(graph); });
}

TensorValues run_kept(const CpuExecutor& executor, const Graph& graph, const eager::ExecutorSlot& slot,
                      std::span<const Tensor* const> inputs) {
  TensorValues values;
  const std::size_t count = graph.outputs().size();
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) values.emplace_back();
  kept(executor, graph, slot).run_into(inputs, std::span<Tensor>(values.begin(), count));
  return values;
}

}  // namespace

Result<CpuExecutor::Values> CpuExecutor::execute_forward(const eager::GraphCall& call,
                                                         std::span<const Tensor* const> inputs) const {
  return detail::capture([&] { return run_kept(*this, call.graph, call.slot, inputs); });
}

Result<CpuExecutor::Values> CpuExecutor::run_transposed_linear(const eager::GraphCall& call,
                                                               std::span<const Tensor* const> inputs) const {
  return detail::capture([&] { return run_kept(*this, call.graph, call.slot, inputs); });
}

void CpuExecutor::run_at(const eager::GraphCall& call, bool, std::span<const Tensor* const> inputs,
                         Tensor* out) const {
  const std::size_t count = call.graph.outputs().size();
  std::uninitialized_default_construct_n(out, count);
  try {
    kept(*this, call.graph, call.slot).run_into(inputs, std::span<Tensor>(out, count));
  } catch (...) {
    std::destroy_n(out, count);
    throw;
  }
}

Result<Tensor> CpuExecutor::add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const {
  return detail::capture([&] {
    const Tensor* inputs[] = {&a, &b};
    Tensor sum;
    if (call.graph != nullptr) {
      kept(*this, call.graph->graph(), call.graph->slot()).run_into(inputs, std::span(&sum, 1));
    } else {
      const auto graph = eager::RecordedGraph::of(plain_op<prim::add>(), std::array{a.type(), a.type()});
      kept(*this, graph.graph(), graph.slot()).run_into(inputs, std::span(&sum, 1));
    }
    return sum;
  });
}

bool CpuExecutor::supports(const Primitive& primitive, DType dtype) const {
  return kernels_->supports(primitive.name, dtype);
}

// The executor's number stands for its kernels and options.
Result<Executable> CpuExecutor::try_compile(const Graph& graph) const {
  return detail::capture([&] {
    const std::uint64_t words[] = {id()};
    const CacheRequest request{detail::mix(detail::mix(graph.structural_key(), graph.name()), id()), words,
                               &graph};
    const auto found = compile_cache().get<Executable>(request, [&] {
      ProgramOptions options = options_.program;
      options.fuse = options.fuse && !kernels_->has_custom();
      options.block = options.block && !kernels_->has_custom() && !options_.check_indices;
      options.simplify = options.simplify && !options_.check_indices;  // rules leave out who would see them
      const auto evaluate = [&](const Graph& constants) {
        std::vector<Literal> tensors;
        for (const Tensor& tensor : compile(Program::make(constants, options)).run({}))
          tensors.push_back(tensor.to_literal());
        return tensors;
      };
      auto made = std::make_shared<const Executable>(compile(Program::make(graph, options, evaluate)));
      return CacheMade<Executable>{made,
                                   made->kept_bytes() + literals_beside(made->program().graph(), graph)};
    });
    return found->with_keys_of(graph);
  });
}

Result<Executable> CpuExecutor::try_compile(const Program& program) const {
  return detail::capture([&] {
    cpu_detail::InnerPrograms inner;
    cpu_detail::CompileOptions compile_options;
    compile_options.inner = &inner;
    compile_options.check_indices = options_.check_indices;
    if (program.options().passes.runs(CpuPass::vector_code))
      compile_options.vector_jit = cpu_detail::VectorJit::get(options_.vector_units);
    compile_options.threads = options_.threads > 0 ? options_.threads : cpu_detail::usable_processors();
    Program runnable = program;
    const bool fuse = program.options().fuse && !kernels_->has_custom();
    const bool block = program.options().block && !kernels_->has_custom() && !options_.check_indices;
    if (fuse != program.options().fuse || block != program.options().block) {
      ProgramOptions options = program.options();
      options.fuse = fuse;
      options.block = block;
      runnable = Program::make(program.graph(), options);
    }
    return Executable(std::make_shared<const cpu_detail::Compiled>(std::move(runnable), compile_options,
                                                                   *kernels_, arena_));
  });
}

const CpuExecutor& cpu() {
  static const CpuExecutor& executor = *new CpuExecutor;  // outlives every static that computes
  return executor;
}

}  // namespace tidu
