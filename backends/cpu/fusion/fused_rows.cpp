// fused_rows.cpp - planning and running of row fusions.
#include "cpu/fusion/fused_rows.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "cpu/fusion/reduce.hpp"
#include "cpu/fusion/rows.hpp"
#include "cpu/fusion/rows_plan.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/parallel.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr int max_threads = 64;
constexpr std::size_t max_pointers = 640;
// Elements of a range where a thread waits awake for the next loop.
constexpr std::int64_t short_grain = element_grain;

struct RowsState {
  std::shared_ptr<const RowKernel> kernel, streaming;
  std::vector<std::uint32_t> streams;  // results
  std::int64_t rows = 0;
  std::int64_t grain = 0;        // rows
  bool is_short = false;         // not worth the waking of a thread
  std::int64_t period = 1;       // rows
  std::int64_t reduce_rows = 0;  // that are reduced together
  std::size_t period_size = 0;   // bytes
  std::vector<std::uint32_t> periodic;
  int threads = 1;
  std::size_t num_operands = 0, num_results = 0;
  std::vector<RowsPlan::ColumnReduction> reductions;
  std::size_t columns_bytes = 0;  // of a reduction of one chunk, in scratch memory after that of threads
  std::size_t memory = 0;         // of each thread
  std::size_t workers = 1;
};

template <class T>
void fill_identity(std::byte* at, Reduction reduction, std::int64_t count) {
  const T infinity = std::numeric_limits<T>::infinity();
  std::fill_n(reinterpret_cast<T*>(at), count,
              reduction == Reduction::sum       ? T(0)
              : reduction == Reduction::largest ? -infinity
                                                : infinity);
}

template <class T>
void combine(Reduction reduction, T* to, const T* from, std::int64_t count) {
  switch (reduction) {
    case Reduction::sum: return reduce_into<Add>(to, from, count);
    case Reduction::largest: return reduce_into<Maximum>(to, from, count);
    case Reduction::smallest: return reduce_into<Minimum>(to, from, count);
  }
}

class RowsRun {
 public:
  RowsRun(const RowsState& s, const Call& call)
      : s_(s), call_(call), kernel_(s.streaming.get()), code_(s.kernel->code()) {
    for (const std::uint32_t result : s.streams) {
      if (reinterpret_cast<std::uintptr_t>(call.out[result]) % cache_line != 0) kernel_ = nullptr;
    }
    if (kernel_ == nullptr) kernel_ = s.kernel.get();
    parts_ = call.scratch + s.workers * s.memory;
  }
  void run() {
    const auto some = [&](std::int64_t begin, std::int64_t end) {
      const ScratchSlots::Lease lease(slots_);
      std::byte* const memory = call_.scratch + lease.slot() * s_.memory;
      rows(begin, end, memory);
    };
    if (s_.is_short) {
      parallel_for_awake(s_.threads, s_.rows, s_.grain, some);
    } else {
      parallel_for(s_.threads, s_.rows, s_.grain, some);
    }
    if (code_.dtype == f32) {
      combine_chunks<float>();
    } else {
      combine_chunks<double>();
    }
  }

 private:
  std::byte* part(std::int64_t chunk, std::size_t reduction) const {
    if (chunk == 0) return call_.out[s_.reductions[reduction].result];
    return parts_ +
           (static_cast<std::size_t>(chunk - 1) * s_.reductions.size() + reduction) * s_.columns_bytes;
  }
  void fill(const std::byte** pointers) const {
    std::copy_n(call_.in, s_.num_operands, pointers);
    std::copy_n(call_.out, s_.num_results, pointers + s_.num_operands);
  }
  // The array that has its byte at `offset` there. It may begin before what there is: no arithmetic on
  // pointers leads there.
  static const std::byte* array_at(const std::byte* byte, std::size_t offset) {
    const auto address = reinterpret_cast<std::uintptr_t>(byte) - offset;
    return reinterpret_cast<const std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  }
  void rows(std::int64_t begin, std::int64_t end, std::byte* scratch) const {
    const std::byte* pointers[max_pointers];
    fill(pointers);
    if (s_.reductions.empty()) return periods(pointers, scratch, begin, end);
    for (std::int64_t at = begin; at < end; at += s_.reduce_rows) {
      for (std::size_t f = 0; f < s_.reductions.size(); ++f) {
        std::byte* const to = part(at / s_.reduce_rows, f);
        const std::int64_t count = code_.columns * s_.period;
        if (code_.dtype == f32) {
          fill_identity<float>(to, s_.reductions[f].reduction, count);
        } else {
          fill_identity<double>(to, s_.reductions[f].reduction, count);
        }
        pointers[s_.reductions[f].pointer] = to;
      }
      periods(pointers, scratch, at, std::min(at + s_.reduce_rows, end));
    }
  }
  // Rows of one period after another, of arrays that begin where their first row would be.
  void periods(const std::byte** pointers, std::byte* scratch, std::int64_t begin, std::int64_t end) const {
    if (s_.period == 1) return kernel_->run(pointers, scratch, begin, end - begin);
    const auto move = [&](std::int64_t by) {
      const std::size_t bytes = static_cast<std::size_t>(by) * s_.period_size;
      for (const std::uint32_t i : s_.periodic) pointers[i] = array_at(pointers[i], bytes);
    };
    std::int64_t at = begin, moved = 0;
    while (at < end) {
      const std::int64_t number = at / s_.period, stop = std::min(end, (number + 1) * s_.period);
      move(number - moved);
      moved = number;
      kernel_->run(pointers, scratch, at, stop - at);
      at = stop;
    }
    move(-moved);
  }
  // Combines chunks as reduce_rows of reduce.hpp does; each chunk has memory of its own.
  template <class T>
  void combine_chunks() const {
    const std::int64_t chunks = (s_.rows + s_.reduce_rows - 1) / s_.reduce_rows;
    if (s_.reductions.empty() || chunks < 2) return;
    in_cascade(
        std::int64_t{0}, chunks, std::int64_t{0}, [](std::int64_t, std::int64_t) {},
        [](std::int64_t, std::int64_t chunk) { return chunk; },
        [&](std::int64_t to, std::int64_t chunk) {
          for (std::size_t f = 0; f < s_.reductions.size(); ++f) {
            combine(s_.reductions[f].reduction, reinterpret_cast<T*>(part(to, f)),
                    reinterpret_cast<const T*>(part(chunk, f)), code_.columns * s_.period);
          }
        });
  }

  const RowsState& s_;
  const Call& call_;
  const RowKernel* kernel_;
  const RowsCode& code_;
  std::byte* parts_;
  // Bit i: nobody has the i-th thread's memory. As many bodies run at once as there are threads.
  ScratchSlots slots_;
};
void run_rows(const RowsState& s, const Call& call) noexcept { RowsRun(s, call).run(); }

// A plan without `run` if there is no vector code for all of the fusion.
Plan plan_generated(const Program& program, std::size_t node, const passes::NodeValues& values,
                    const CompileOptions& options) {
  if (options.vector_jit == nullptr || values.operands.size() + values.results.size() > max_pointers)
    return {};
  std::optional<RowsPlan> plan = plan_rows_code(program, node, values, options.repeats, options.num_carry);
  // What checks indices says where they are: no code does.
  if (!plan || (options.check_indices && plan->code.has_indices())) return {};
  RowsState state;
  state.num_operands = values.operands.size();
  state.num_results = values.results.size();
  RowsCode& code = plan->code;
  if (!plan->streams.empty()) state.streaming = options.vector_jit->compile(code);
  for (RowsCode::Phase& phase : code.phases) {
    for (VectorInst& step : phase.elements) {
      if (step.op == VectorOp::stream) step.op = VectorOp::store;
    }
  }
  state.kernel = options.vector_jit->compile(code);
  if (state.kernel == nullptr) return {};
  state.streams = std::move(plan->streams);
  state.reductions = std::move(plan->reductions);
  state.rows = plan->rows;
  state.period = plan->period;
  state.periodic = std::move(plan->periodic);
  state.reduce_rows = reduction_chunk * state.period;
  state.threads = std::min(options.threads, max_threads);
  state.grain = std::max<std::int64_t>(1, 2 * element_grain / code.columns);
  state.is_short = state.rows < 2 * state.grain;
  if (state.is_short) state.grain = std::max<std::int64_t>(1, short_grain / code.columns);
  std::int64_t chunks = 1;
  if (!state.reductions.empty()) {
    state.grain = (state.grain + state.reduce_rows - 1) / state.reduce_rows * state.reduce_rows;
    chunks = (state.rows + state.reduce_rows - 1) / state.reduce_rows;
  }
  const std::int64_t pieces = (state.rows + state.grain - 1) / state.grain;
  state.workers = static_cast<std::size_t>(std::clamp<std::int64_t>(pieces, 1, state.threads));
  state.memory = aligned(state.kernel->scratch_bytes());
  state.period_size = static_cast<std::size_t>(code.columns * state.period) * size_of(code.dtype);
  state.columns_bytes = aligned(state.period_size);
  const std::size_t parts =
      static_cast<std::size_t>(chunks - 1) * state.reductions.size() * state.columns_bytes;
  const std::size_t scratch = state.workers * state.memory + parts;
  return make_plan<RowsState, run_rows>(std::move(state), scratch);
}

// The fusion's operations one by one, as a program of their own. A result that takes the memory of an operand
// is first computed in scratch memory, since a later operation may read the operand.
struct OneByOne {
  struct Aside {
    std::uint32_t result;
    std::size_t offset, bytes;  // in the scratch memory
  };
  std::unique_ptr<const Compiled> program;
  std::size_t num_results = 0;
  std::vector<Aside> asides;
  std::size_t pointers = 0;  // to the results then, in the scratch memory
};
void run_one_by_one(const OneByOne& s, const Call& call) {
  s.program->prepare_inner(call.scratch);
  if (s.asides.empty()) return s.program->run_inner(call.scratch, call.in, call.out);
  auto** const out = reinterpret_cast<std::byte**>(call.scratch + s.pointers);
  std::copy_n(call.out, s.num_results, out);
  for (const OneByOne::Aside& aside : s.asides) out[aside.result] = call.scratch + aside.offset;
  s.program->run_inner(call.scratch, call.in, out);
  for (const OneByOne::Aside& aside : s.asides)
    std::memcpy(call.out[aside.result], out[aside.result], aside.bytes);
}

Graph graph_of_fusion(const Program& program, std::size_t node, const passes::NodeValues& values) {
  const Graph& graph = program.graph();
  GraphBuilder builder("rows", graph.primitives());
  std::unordered_map<ValueId, Value> made;
  for (const ValueId id : values.operands)
    made.emplace(id, builder.input(detail::str('x', made.size()), graph.type(id)));
  const auto emit = [&](std::uint32_t index) {
    const Operation operation = graph.operation(index);
    std::vector<Value> operands;
    for (const ValueId id : operation.inputs()) operands.push_back(made.at(id));
    made.emplace(operation.output(), builder.emit_one(operation.op(), operands));
  };
  // Which operand a result is made of: a barrier passes each of its own, and is none of the fusion's.
  const auto passed = [&](ValueId id) {
    const Operation operation = graph.operation(*graph.producer(id));
    return operation.num_outputs() == 1 ? std::size_t{0} : static_cast<std::size_t>(id - operation.output(0));
  };
  // Views, repeated elements and literals on the way to an operand.
  const auto reach = [&](ValueId operand) {
    std::vector<ValueId> chain;
    for (ValueId id = operand; made.find(id) == made.end();) {
      chain.push_back(id);
      const Operation operation = graph.operation(*graph.producer(id));
      if (operation.num_inputs() == 0) break;
      id = operation.inputs()[passed(id)];
    }
    for (std::size_t i = chain.size(); i-- > 0;) {
      const Operation operation = graph.operation(*graph.producer(chain[i]));
      if (operation.num_outputs() == 1 && operation.num_inputs() <= 1) {
        emit(operation.index());
      } else {
        made.emplace(chain[i], made.at(operation.inputs()[passed(chain[i])]));
      }
    }
  };
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  for (std::size_t k = node + 1; k < node + nodes[node].size; ++k) {
    for (const ValueId id : graph.operation(nodes[k].index).inputs()) reach(id);
    emit(nodes[k].index);
  }
  std::vector<Value> results;
  for (const ValueId id : values.results) results.push_back(made.at(id));
  return builder.build(results);
}

}  // namespace

Plan plan_rows(const Program& program, std::size_t node, const passes::NodeValues& values,
               const CompileOptions& options, const KernelTable& kernels,
               const std::shared_ptr<Arena>& arena) {
  Plan plan = plan_generated(program, node, values, options);
  if (plan) return plan;
  ProgramOptions one_by_one = program.options();
  one_by_one.fuse = one_by_one.block = one_by_one.simplify = false;
  auto compiled = std::make_unique<const Compiled>(
      Program::make(graph_of_fusion(program, node, values), one_by_one), options, kernels, arena);
  std::size_t scratch = aligned(compiled->inner_bytes());
  OneByOne state{std::move(compiled), values.results.size(), {}, 0};
  for (std::uint32_t i = 0; i < values.results.size(); ++i) {
    const auto is_here = [&](ValueId operand) {
      return program.slot_of(operand) == program.slot_of(values.results[i]);
    };
    if (std::none_of(values.operands.begin(), values.operands.end(), is_here)) continue;
    const std::size_t bytes = program.graph().type(values.results[i]).bytes();
    state.asides.push_back({i, scratch, bytes});
    scratch += aligned(bytes);
  }
  state.pointers = scratch;
  if (!state.asides.empty()) scratch += aligned(state.num_results * sizeof(std::byte*));
  return make_plan<OneByOne, run_one_by_one>(std::move(state), scratch);
}

}  // namespace tidu::cpu_detail
