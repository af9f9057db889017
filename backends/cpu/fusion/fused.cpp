// fused.cpp - planning of fusions.
//
// Note [Segments]: consecutive operations of a fusion for which vector code can be generated are one segment,
// which is one generated kernel. Each other operation is a segment of its own, planned for vectors of a
// block's length. A value that another segment or a reduction reads is kept for the block, in the result's
// memory if it is a result of the fusion. If a result shares the memory of an operand and there are several
// segments, the result is kept aside until the block is done.
//
// Note [Columns]: a fusion gathers columns of a matrix block by block, instead of reading a transpose or the
// rows of a `take`, if only the fusion reads these. The last step of a fusion may be a concatenate that
// interleaves its values, one element each. Columns are held for a block of few elements, so that they are
// still in the first-level cache when they are read or interleaved.
//
// Note [Fused loads]: a slice, pad, broadcast, iota or roll (two slices of an array) that only fusions read
// is not materialized. A fusion reads its elements at the source if they are contiguous there; otherwise it
// copies them to a thread's memory, block by block. A fusion of one segment runs line by line. Its lines are
// as long as the shortest lines of its fused loads, and parts of them that are contiguous at the source are
// read there. The source may be read while results are written, so no result takes its memory.
//
// Note [Small fusions]: generating code takes as long as some ten thousand operations on elements, so small
// fusions run operation by operation. The bits are the same: those of a value do not depend on the fusion
// that it is in.
#include "cpu/fusion/fused.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "cpu/fusion/columns_plan.hpp"
#include "cpu/fusion/fused_run.hpp"
#include "cpu/fusion/reduce.hpp"
#include "cpu/kernels/elementwise.hpp"
#include "cpu/schedule/splat.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

// Elements times operations from which on code is generated.
constexpr std::int64_t worth_generating = 4096;
// Bytes that the values kept for a block may take together.
constexpr std::size_t block_memory = std::size_t{1} << 16;

class FusionPlanner {
 public:
  FusionPlanner(const Program& program, std::size_t node, const passes::NodeValues& values,
                const CompileOptions& options, const KernelTable& kernels,
                const PrologueAndEpilogue* around_fusion)
      : program_(program),
        graph_(program.graph()),
        roots_(program.roots()),
        splats_(program.splats()),
        values_(values),
        options_(options),
        kernels_(kernels),
        columns_(around_fusion == nullptr || around_fusion->columns.empty() ? nullptr
                                                                            : &around_fusion->columns) {
    if (around_fusion != nullptr) loads_ = around_fusion->loads;
    for (std::uint32_t i = 0; i < values.operands.size(); ++i) operand_at_[values.operands[i]] = i;
    for (std::uint32_t i = 0; i < values.results.size(); ++i) result_at_[values.results[i]] = i;
    const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
    for (std::size_t k = node + 1; k < node + nodes[node].size; ++k) {
      const Operation operation = graph_.operation(nodes[k].index);
      if (operation.primitive().has_trait(Trait::elementwise)) {
        operations_.push_back(nodes[k].index);
        state_.count = graph_.type(operation.output()).size();
      } else if (result_at_.find(operation.output()) != result_at_.end()) {
        reductions_.push_back(nodes[k].index);  // one whose result is read
      }
    }
    for (const ValueId operand : values.operands) operand_slots_.push_back(program.slot_of(operand));
  }

  // Null where memory for generated code is not to be had.
  Plan plan() {
    VectorJit* jit = options_.vector_jit;
    const std::int64_t steps = state_.count * static_cast<std::int64_t>(operations_.size());
    if (steps < (worth_generating + options_.repeats - 1) / options_.repeats) jit = nullptr;
    make_segments(jit);
    assign_memory();
    assign_columns();
    state_.parts = assign_reductions();
    if (!finish_segments()) return Plan();
    constexpr int max_threads = 64;
    state_.threads = std::min(options_.threads, max_threads);
    state_.grain = std::max(element_grain / state_.block, std::int64_t{1}) * state_.block;
    const std::int64_t pieces = (state_.count + state_.grain - 1) / state_.grain;
    const std::int64_t at_once = std::clamp<std::int64_t>(pieces, 1, state_.threads);
    const std::size_t scratch = state_.parts + static_cast<std::size_t>(at_once) * state_.memory;
    Plan plan = make_plan<FusionState, run_fusion>(std::move(state_), scratch);
    plan.in_one_pass = is_in_one_pass();
    plan.cannot_fail = cannot_fail();
    return plan;
  }

 private:
  // A segment under construction: vector code if `operation` is no_index, else that operation.
  struct Draft {
    std::uint32_t operation = no_index;
    VectorProgram code;
    std::unordered_map<ValueId, std::uint16_t> virtual_register_of;  // what the code has loaded or made
    std::vector<ValueId> reads;  // by operand of the code: a root in memory
    std::vector<ValueId> makes;
  };

  // What an operand is: a root that has memory or is made here, or a literal (no_index).
  ValueId read(ValueId operand) const { return passes::memory_of(graph_, roots_, splats_, operand); }

  // Without a vector JIT every operation is a segment of its own.
  void make_segments(VectorJit* jit) {
    for (const std::uint32_t index : operations_) {
      if (jit == nullptr || !add_to_vectors(index)) {
        drafts_.push_back({});
        drafts_.back().operation = index;
      }
      const ValueId result = graph_.operation(index).output();
      drafts_.back().makes.push_back(result);
      segment_of_[result] = drafts_.size() - 1;
    }
  }
  bool add_to_vectors(std::uint32_t index) {
    const Operation operation = graph_.operation(index);
    const DType result = graph_.type(operation.output()).dtype();
    std::vector<DType> dtypes;
    for (const ValueId id : operation.inputs()) dtypes.push_back(graph_.type(id).dtype());
    const DType computed = computed_dtype(dtypes, result);
    const bool open = !drafts_.empty() && drafts_.back().operation == no_index;
    const DType dtype = computed != bool_ ? element_dtype(computed) : open ? drafts_.back().code.dtype : f32;
    if (dtype == bool_ || !has_vector_code(operation.op(), dtypes, result, dtype)) return false;
    if (!open || drafts_.back().code.dtype != dtype) {
      drafts_.push_back({});
      drafts_.back().code.dtype = dtype;
    }
    Draft& draft = drafts_.back();
    std::vector<std::uint16_t> registers;
    for (const ValueId id : operation.inputs()) registers.push_back(register_of(draft, id));
    draft.virtual_register_of[operation.output()] =
        *add_operation(draft.code, operation.op(), computed, registers, result);
    return true;
  }
  std::uint16_t register_of(Draft& draft, ValueId operand) {
    const ValueId id = read(operand);
    if (id == no_index) return add_immediate(draft.code, passes::splat_literal(graph_, splats_[operand]));
    const auto it = draft.virtual_register_of.find(id);
    if (it != draft.virtual_register_of.end()) return it->second;
    const VectorOp op = load_op(graph_.type(id));
    const std::uint16_t value = draft.code.add({.op = op, .index = draft.code.num_operands++});
    draft.reads.push_back(id);
    draft.virtual_register_of[id] = value;
    return value;
  }

  // Assigns memory to values that another segment or a reduction reads, and chooses the length of a block.
  void assign_memory() {
    for (std::size_t at = 0; at < drafts_.size(); ++at) {
      for_reads(drafts_[at], [&](ValueId id) {
        const auto it = segment_of_.find(id);
        if (it != segment_of_.end() && it->second != at) keep(id);
      });
    }
    if (columns_ != nullptr) {
      for (const GatheredColumn& column : columns_->gathered) keep(column.column);
      for (const ValueId id : columns_->of) {
        if (segment_of_.find(id) != segment_of_.end()) keep(id);
      }
    }
    for (const FusedLoad& operand : loads_) {
      if (operand.map.is_one_line()) {
        const std::size_t offset = static_cast<std::size_t>(operand.map.offset) * operand.map.size;
        direct_[operand.value] = {ElementSource::Kind::operand, operand_at_.at(operand.map.source),
                                  step_of(operand.value), offset};
      } else {
        keep(operand.value);
      }
    }
    for (const std::uint32_t reduction : reductions_) keep(roots_[graph_.operation(reduction).inputs()[0]]);
    const bool simple =
        drafts_.size() == 1 && drafts_[0].operation == no_index && reductions_.empty() && kept_.empty();
    for (const ValueId id : values_.results) {
      if (graph_.type(id).size() == 1) continue;  // a reduction's result
      if (is_in_place(id) && drafts_.size() > 1) {
        aside_.push_back(id);
        kept_.emplace(id, 0);
      } else {
        kept_.erase(id);
      }
    }
    std::size_t per_element = 0;
    for (const auto& [id, offset] : kept_) per_element += size_of(graph_.type(id).dtype());
    for (const Draft& draft : drafts_) {
      if (draft.operation == no_index) continue;
      for (const ValueId id : graph_.operation(draft.operation).inputs()) {
        if (is_repeated(id)) per_element += size_of(graph_.type(id).dtype());
      }
    }
    state_.block = reduction_block;
    while (state_.block < 4 * reduction_block &&
           static_cast<std::size_t>(2 * state_.block) * per_element <= block_memory)
      state_.block *= 2;
    if (simple) state_.block = element_grain;
    find_line();
    if (columns_ != nullptr) state_.block = rows_of_columns(per_element);
    state_.block = std::min(state_.block, std::max<std::int64_t>(1, state_.count));
    assign_gathered();
    for (auto& [id, offset] : kept_) {
      if (gathered_.find(id) == gathered_.end()) offset = add_scratch(graph_.type(id).dtype());
      if (state_.line > 0 && is_mapped(id)) state_.memory += line_padding;
    }
    for (const FusedLoad& operand : loads_) {
      const auto kept = kept_.find(operand.value);
      if (kept == kept_.end()) continue;
      if (state_.line > 0)
        mapped_[operand.value] = {ElementSource::Kind::mapped,
                                  static_cast<std::uint32_t>(state_.mapped_loads.size()),
                                  step_of(operand.value)};
      state_.mapped_loads.push_back(
          {operand.map.source == no_index ? no_index : operand_at_.at(operand.map.source), kept->second,
           operand.map, operand.map.are_equal(), operand.map.has_padded_lines()});
    }
    for (const ValueId id : aside_) {
      state_.copyings.push_back({kept_[id], result_at_[id], step_of(id)});
    }
  }
  bool is_mapped(ValueId id) const {
    return std::any_of(loads_.begin(), loads_.end(),
                       [&](const auto& operand) { return operand.value == id; });
  }
  // See Plan::in_one_pass.
  bool is_in_one_pass() const {
    return drafts_.size() == 1 && drafts_[0].operation == no_index && columns_ == nullptr && loads_.empty();
  }
  // A kernel with more pointers allocates memory for them.
  bool cannot_fail() const {
    return columns_ == nullptr && loads_.empty() && std::ranges::all_of(drafts_, [](const Draft& draft) {
             return draft.reads.size() + draft.makes.size() <= VectorKernel::few_pointers;
           });
  }
  // Is a result's memory that of an operand?
  bool is_in_place(ValueId id) const {
    const SlotId slot = program_.slot_of(id);
    return std::find(operand_slots_.begin(), operand_slots_.end(), slot) != operand_slots_.end();
  }
  // See Note [Fused loads]. A block consists of whole lines, unless the fusion reduces elements.
  void find_line() {
    constexpr std::int64_t shortest = 64, most = 4 * reduction_block;  // elements
    if (columns_ != nullptr || drafts_.size() != 1 || drafts_[0].operation != no_index || !aside_.empty())
      return;
    std::int64_t line = 0;
    for (const FusedLoad& operand : loads_) {
      if (kept_.find(operand.value) == kept_.end()) continue;
      const std::int64_t extent = operand.map.axes.back().extent;
      line = line == 0 ? extent : std::min(line, extent);
    }
    const auto reduces_mapped = [&](std::uint32_t reduction) {
      return is_mapped(roots_[graph_.operation(reduction).inputs()[0]]);
    };
    if (line < shortest || std::any_of(reductions_.begin(), reductions_.end(), reduces_mapped)) return;
    state_.line = line;
    find_cuts();
    for (const ValueId id : values_.results) state_.in_place = state_.in_place || is_in_place(id);
    state_.block = !reductions_.empty() ? 2 * reduction_block : line < most ? most / line * line : most;
  }
  // A fused load that is one line is read at its source, except at its ends, which are separate pieces.
  void find_cuts() {
    for (const FusedLoad& operand : loads_) {
      if (kept_.find(operand.value) == kept_.end() || operand.map.axes.size() > 1) continue;
      const AccessAxis& axis = operand.map.axes.back();
      for (const std::int64_t cut : {axis.begin, axis.begin + axis.count, axis.roll})
        if (cut > 0 && cut < state_.count) state_.cuts.push_back(cut);
    }
    std::sort(state_.cuts.begin(), state_.cuts.end());
    // Cuts that are near each other, or near an end, bound one piece.
    constexpr std::int64_t near = 256;
    std::vector<std::int64_t> cuts;
    for (std::size_t i = 0, next = 0; i < state_.cuts.size(); i = next) {
      next = i + 1;
      while (next < state_.cuts.size() && state_.cuts[next] - state_.cuts[next - 1] < near) ++next;
      const std::int64_t first = state_.cuts[i], last = state_.cuts[next - 1];
      if (first >= near) cuts.push_back(first);
      if (last > first || first < near) {
        if (state_.count - last >= near) cuts.push_back(last);
      }
    }
    state_.cuts = std::move(cuts);
  }
  template <class Body>
  void for_reads(const Draft& draft, const Body& body) {
    if (draft.operation == no_index) {
      for (const ValueId id : draft.reads) body(id);
    } else {
      for (const ValueId operand : graph_.operation(draft.operation).inputs()) {
        if (read(operand) != no_index) body(read(operand));
      }
    }
  }
  void keep(ValueId id) { kept_.emplace(id, 0); }
  bool is_repeated(ValueId operand) const {
    return splats_[operand] != no_index && graph_.type(operand).size() > 1;
  }
  std::uint32_t add_scratch(DType dtype) {
    const std::size_t at = state_.memory;
    state_.memory += scratch_bytes(dtype);
    return static_cast<std::uint32_t>(at);
  }
  std::size_t scratch_bytes(DType dtype) const {
    return aligned(static_cast<std::size_t>(state_.block) * size_of(dtype));
  }
  std::uint32_t step_of(ValueId id) const {
    const Type type = graph_.type(id);
    return type.size() == 1 ? 0 : static_cast<std::uint32_t>(size_of(type.dtype()));
  }
  ElementSource source_of(ValueId id) {
    if (const auto mapped = mapped_.find(id); mapped != mapped_.end()) return mapped->second;
    if (const auto kept = kept_.find(id); kept != kept_.end())
      return {ElementSource::Kind::kept, kept->second, step_of(id)};
    if (const auto direct = direct_.find(id); direct != direct_.end()) return direct->second;
    if (const auto operand = operand_at_.find(id); operand != operand_at_.end())
      return {ElementSource::Kind::operand, operand->second, step_of(id)};
    return {ElementSource::Kind::result, result_at_.at(id), step_of(id)};
  }

  void assign_columns() {
    if (columns_ == nullptr || columns_->result == no_index) return;
    Interleaving rows = plan_interleaving(graph_, *columns_, state_.gatherings, state_.block, state_.memory);
    rows.result = result_at_.at(columns_->result);
    for (const ValueId id : columns_->of) rows.columns.push_back(source_of(id));
    state_.interleaving = std::move(rows);
  }
  void assign_gathered() {
    if (columns_ == nullptr) return;
    GatheringPlan plan = plan_gathering(graph_, *columns_, operand_at_, state_.block, state_.memory);
    for (const auto& [id, offset] : plan.offsets) kept_[id] = offset;
    state_.gatherings = std::move(plan.gatherings);
    gathered_ = std::move(plan.offsets);
  }

  std::size_t assign_reductions() {
    std::size_t bytes = 0;
    for (const std::uint32_t index : reductions_) {
      const Operation operation = graph_.operation(index);
      const ValueId from = roots_[operation.inputs()[0]];
      ReductionStep reduction;
      reduction.size = size_of(graph_.type(from).dtype());
      reduction.functions = reduction_functions(operation.primitive(), graph_.type(from).dtype());
      if (reduction.functions.block == nullptr) no_kernel(graph_, index);
      reduction.from = source_of(from);
      reduction.result = result_at_.at(operation.output());
      reduction.parts = bytes;
      bytes += aligned(static_cast<std::size_t>((state_.count + reduction_block - 1) / reduction_block) *
                       reduction.size);
      state_.reductions.push_back(reduction);
    }
    return bytes;
  }

  bool finish_segments() {
    for (Draft& draft : drafts_) {
      Segment segment;
      if (draft.operation != no_index) {
        finish_operation(draft.operation, segment);
      } else if (!finish_vectors(draft, segment)) {
        return false;
      }
      state_.segments.push_back(std::move(segment));
    }
    state_.scratch = state_.memory;
    state_.memory += aligned(kernel_scratch_);
    return true;
  }
  bool finish_vectors(Draft& draft, Segment& segment) {
    for (const ValueId id : draft.reads) segment.in.push_back(source_of(id));
    for (const ValueId id : draft.makes) {
      if (kept_.find(id) == kept_.end() && result_at_.find(id) == result_at_.end()) continue;
      const bool mask = graph_.type(id).dtype() == bool_;
      draft.code.add({.op = mask ? VectorOp::store_mask : VectorOp::store,
                      .a = draft.virtual_register_of[id],
                      .index = draft.code.num_results++});
      segment.out.push_back(source_of(id));
    }
    segment.kernel = options_.vector_jit->compile(draft.code);
    return segment.kernel != nullptr;
  }
  void finish_operation(std::uint32_t index, Segment& segment) {
    const Operation operation = graph_.operation(index);
    for (const ValueId operand : operation.inputs()) {
      if (!is_repeated(operand)) {
        segment.in.push_back(source_of(roots_[operand]));
        continue;
      }
      const DType dtype = graph_.type(operand).dtype();
      const std::uint32_t to = add_scratch(dtype);
      const ValueId source = read(operand);
      Filling filling{to, nullptr, {}, size_of(dtype)};
      if (source == no_index) {
        filling.element = passes::splat_literal(graph_, splats_[operand]).bytes();
      } else {
        filling.from = source_of(source);
      }
      state_.fillings.push_back(filling);
      segment.in.push_back({ElementSource::Kind::kept, to, static_cast<std::uint32_t>(size_of(dtype))});
    }
    // A value that no other segment reads has no memory yet.
    const ValueId result = operation.output();
    if (kept_.find(result) == kept_.end() && result_at_.find(result) == result_at_.end())
      kept_[result] = add_scratch(graph_.type(result).dtype());
    segment.out.push_back(source_of(result));
    segment.whole = plan_operation(index, state_.block);
    const std::int64_t last = state_.count % state_.block;
    if (last != 0) segment.last = plan_operation(index, last);
  }
  Plan plan_operation(std::uint32_t index, std::int64_t length) {
    const Operation operation = graph_.operation(index);
    const auto of_block = [&](ValueId id) {
      const Type type = graph_.type(id);
      return type.size() == 1 ? type : Type(type.dtype(), {length});
    };
    std::vector<Type> in;
    for (const ValueId id : operation.inputs()) in.push_back(of_block(id));
    const Type out(graph_.type(operation.output()).dtype(), {length});
    const Op op = operation.op();
    Plan plan;
    try {
      plan = kernels_.plan(
          {op, in, {&out, 1}, 1, options_.check_indices, options_.depth, options_.vector_jit, true});
    } catch (const Error& error) {
      error.with_message(detail::str(error.what(), "\n  ", describe_operation(graph_, index)))->raise();
    }
    if (!plan) no_kernel(graph_, index);
    kernel_scratch_ = std::max(kernel_scratch_, plan.scratch);
    return plan;
  }

  const Program& program_;
  const Graph& graph_;
  const std::vector<ValueId>& roots_;
  const std::vector<ValueId>& splats_;
  const passes::NodeValues& values_;
  const CompileOptions& options_;
  const KernelTable& kernels_;
  const Columns* const columns_;  // or null
  std::vector<FusedLoad> loads_;
  FusionState state_;
  std::vector<std::uint32_t> operations_, reductions_;
  std::unordered_map<ValueId, std::uint32_t> operand_at_, result_at_;
  std::vector<SlotId> operand_slots_;
  std::vector<Draft> drafts_;
  std::unordered_map<ValueId, std::size_t> segment_of_;
  std::unordered_map<ValueId, std::uint32_t> kept_;      // by value: bytes into a thread's memory
  std::unordered_map<ValueId, ElementSource> direct_;    // slices that are read where they come from
  std::unordered_map<ValueId, ElementSource> mapped_;    // what is read line by line
  std::unordered_map<ValueId, std::uint32_t> gathered_;  // columns
  std::vector<ValueId> aside_;
  std::size_t kernel_scratch_ = 0;
};

}  // namespace

Plan plan_fusion(const Program& program, std::size_t node, const passes::NodeValues& values,
                 const CompileOptions& options, const KernelTable& kernels,
                 const PrologueAndEpilogue* around_fusion) {
  Plan plan = FusionPlanner(program, node, values, options, kernels, around_fusion).plan();
  if (plan) return plan;
  CompileOptions loops = options;
  loops.vector_jit = nullptr;
  return FusionPlanner(program, node, values, loops, kernels, around_fusion).plan();
}

}  // namespace tidu::cpu_detail
