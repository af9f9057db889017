// compile.cpp - from a Program to instructions: a plan for each step, addresses for values.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <unordered_set>
#include <utility>

#include "cpu/compiled.hpp"
#include "cpu/fusion/fused.hpp"
#include "cpu/fusion/fused_rows.hpp"
#include "cpu/fusion/straight_line.hpp"
#include "cpu/loop.hpp"
#include "cpu/operation_plans.hpp"
#include "cpu/steps/donation.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t small_unit = 16;

bool one_element(Type type) { return type.size() == 1; }

}  // namespace

class Compiler {
 public:
  Compiler(Compiled& target, const CompileOptions& options, const KernelTable& kernels,
           const CallSite& call_site)
      : to_(target),
        given_(target.program_),
        graph_(given_.graph()),
        plan_(&given_.plan()),
        options_(options),
        kernels_(kernels),
        call_site_(call_site),
        memory_stats_(*options.memory_stats),
        plans_(given_, options, kernels, target.arena_, call_site) {}

  void compile() {
    for (const ValueId id : graph_.inputs()) to_.input_types_.push_back(graph_.type(id));
    for (const ValueId id : graph_.outputs()) to_.output_types_.push_back(graph_.type(id));
    assign_inputs_and_outputs();
    make_constants();
    if (runs(CpuPass::demanded_elements)) plans_.find_reads(to_.constant_at_);
    const Schedule& schedule = given_.schedule();
    to_.instructions_.reserve(schedule.nodes.size());
    to_.operations_.reserve(schedule.nodes.size());
    fuse_steps();
    assign_small_values();
    make_instructions();
    for (std::uint32_t i = 0; i < graph_.outputs().size(); ++i) finish_output(i);
    if (runs(CpuPass::donation)) to_.donated_ = find_donated_inputs(to_.program_, *fused_, traits_);
    to_.mode_ = to_.find_mode(options_.depth);
  }

 private:
  bool runs(CpuPass pass) const { return given_.options().passes.runs(pass); }
  // Values of one element outside the workspace get a place in its small region.
  std::size_t extra_small() {
    const std::size_t at = to_.small_bytes_;
    to_.small_bytes_ += small_unit;
    return at;
  }
  void assign_inputs_and_outputs() {
    small_at_.assign(plan_->slots.size(), no_index);
    for (std::uint32_t i = 0; i < graph_.inputs().size(); ++i) {
      const Type type = graph_.type(graph_.inputs()[i]);
      if (!one_element(type)) continue;
      const std::size_t at = extra_small();
      set_small(plan_->slot_of[graph_.inputs()[i]], at);
      to_.loads_.push_back({i, static_cast<std::uint32_t>(type.bytes()), at});
    }
    for (SlotId id = 0; id < plan_->slots.size(); ++id) {
      const Slot& slot = plan_->slots[id];
      if (slot.storage == Storage::output && one_element(graph_.type(graph_.outputs()[slot.index])))
        set_small(id, extra_small());
    }
  }
  // Behind those.
  void assign_small_values() {
    small_at_.resize(plan_->slots.size(), no_index);
    for (SlotId id = 0; id < plan_->slots.size(); ++id) {
      const Slot& slot = plan_->slots[id];
      if (slot.storage == Storage::small) set_small(id, to_.small_bytes_ + slot.offset);
    }
    to_.small_bytes_ += plan_->small_bytes;
  }
  void set_small(SlotId id, std::size_t offset) {
    if (offset / 8 >= no_index)
      throw Error(ErrorKind::out_of_memory, "cpu: expected less than 32 GiB of small values");
    small_at_[id] = static_cast<std::uint32_t>(offset / 8);
  }

  void make_constants() {
    to_.constant_at_.resize(graph_.num_values(), nullptr);
    std::size_t bytes = 0;
    std::vector<std::pair<ValueId, std::size_t>> computed;
    for (const OperationRecord& record : graph_.data().operations) {
      if (record.num_inputs != 0 || record.num_outputs != 1) continue;
      const ValueId id = record.first_output;
      const SlotId slot = plan_->slot_of[id];
      if (slot == no_index || plan_->slots[slot].storage != Storage::constant) continue;
      const Type type = graph_.type(id);
      if (const Literal* literal = carried(*record.op, type)) {
        to_.constant_at_[id] = literal->bytes();
      } else {
        computed.emplace_back(id, bytes);
        bytes += aligned(type.bytes());
      }
    }
    to_.constants_ = to_.arena_->acquire(bytes, true);
    memory_stats_.constants += bytes;
    for (const auto& [id, offset] : computed) {
      std::byte* at = to_.constants_.data + offset;
      const Plan plan = plans_.plan(*graph_.producer(id));
      const ArenaLease scratch(*to_.arena_, plan.scratch);
      plan.run(plan.state.get(), Call{nullptr, &at, scratch.data()});
      to_.constant_at_[id] = at;
    }
    for (ValueId id = 0; id < to_.constant_at_.size(); ++id) {
      if (to_.constant_at_[id] == nullptr || !one_element(graph_.type(id))) continue;
      const std::size_t at = extra_small();
      set_small(plan_->slot_of[id], at);
      to_.literals_.push_back({static_cast<std::uint32_t>(to_.literals_.size()), small_unit, at});
      const std::size_t end = to_.literal_bytes_.size();
      to_.literal_bytes_.resize(end + small_unit);
      std::memcpy(to_.literal_bytes_.data() + end, to_.constant_at_[id], graph_.type(id).bytes());
    }
  }

  // The plan of an operation, from the cache when one with the same op and types was planned lately.
  std::uint32_t cached_plan(std::uint32_t index) {
    const OperationRecord& record = graph_.data().operations[index];
    const ValueId* operands = graph_.data().operands.data() + record.first_input;
    if (record.num_inputs > 3 || record.num_outputs > 1 || !plans_.is_general(index))
      return keep(plans_.plan(index), index);
    Recent key{record.op, {}, no_index};
    std::size_t hash = reinterpret_cast<std::uintptr_t>(record.op) >> 4;
    for (std::uint32_t i = 0; i < record.num_inputs; ++i) {
      key.types[i] = graph_.type(operands[i]).identity();
      hash = hash * 31 + (reinterpret_cast<std::uintptr_t>(key.types[i]) >> 4);
    }
    Recent& recent = recent_[(hash ^ (hash >> 8)) % recent_.size()];
    if (recent.op != key.op || recent.types != key.types) {
      key.plan = keep(plans_.plan(index), index);
      recent = key;
    }
    return recent.plan;
  }
  void take_memory_for(const Plan& plan) {
    to_.scratch_bytes_ = std::max(to_.scratch_bytes_, plan.scratch);
    memory_stats_.library = std::max(memory_stats_.library, plan.library);
  }
  std::uint32_t keep(Plan plan, std::uint32_t index) {
    take_memory_for(plan);
    const Operation operation = graph_.operation(index);
    bool scalar = plan.scalar != nullptr;
    for (const ValueId id : operation.inputs()) scalar = scalar && one_element(graph_.type(id));
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      scalar = scalar && one_element(graph_.type(operation.output(slot)));
    to_.plans_.push_back(std::move(plan));
    is_scalar_.push_back(scalar);
    return static_cast<std::uint32_t>(to_.plans_.size() - 1);
  }

  // Adds the instruction of an operation, which absorbs the addition `sum` unless that is no_index. Returns
  // whether it cannot fail.
  bool operation(std::uint32_t index, std::uint32_t sum) {
    const std::uint32_t at = sum == no_index ? cached_plan(index) : keep(plans_.plan_adding(index), index);
    const Plan& plan = to_.plans_[at];
    const OperationRecord& record = graph_.data().operations[index];
    const ValueId* operands = graph_.data().operands.data() + record.first_input;
    Instruction instruction;
    if (is_scalar_[at]) {
      instruction.execute = plan.scalar;
      instruction.c = plan.parameter;
      std::uint32_t* places[] = {&instruction.a, &instruction.b, &instruction.c};
      for (std::uint32_t i = 0; i < record.num_inputs; ++i)
        *places[i] = small_at_[plan_->slot_of[operands[i]]];
      instruction.out = small_at_[plan_->slot_of[record.first_output]];
    } else {
      instruction.execute = run_general;
      instruction.a = static_cast<std::uint32_t>(to_.steps_.size());
      to_.steps_.push_back(
          {plan.run, plan.state.get(), static_cast<std::uint32_t>(to_.num_pointers_), record.num_inputs});
      for (std::uint32_t i = 0; i < record.num_inputs; ++i) {
        const SlotId id = plan_->slot_of[operands[i]];
        if (plan.prepare == nullptr || plan.prepared != i) {
          pointer(id);
        } else {
          prepared_pointer({plan_->slots[id].index, record.op, graph_.type(operands[i]), plan.prepare,
                            plan.state, plan.prepared_bytes});
        }
      }
      for (std::uint32_t i = 0; i < record.num_outputs; ++i) {
        const ValueId result =
            sum == no_index ? record.first_output + i : graph_.data().operations[sum].first_output;
        pointer(plan_->slot_of[result]);
      }
    }
    to_.instructions_.push_back(instruction);
    to_.operations_.push_back(index);
    return plan.cannot_fail;
  }
  // Runs the step passes and assigns buffers. Copy elision may keep roots alive if that takes little more
  // memory in all; else the passes run again, and it keeps small roots alone.
  void fuse_steps() {
    constexpr std::size_t any = ~std::size_t{0}, little = std::size_t{1} << 19;
    for (const std::size_t max_kept : {any, little}) {
      fused_ =
          std::make_unique<StepGraph>(given_, plans_, options_, call_site_, kernels_.has_custom(), max_kept);
      run_step_passes(*fused_);
      to_.program_ = fused_->assign_buffers();
      plan_ = &to_.program_.plan();
      if (plan_->large_bytes <= given_.plan().large_bytes + little) return;
    }
  }
  // One instruction for each step or straight-line kernel.
  void make_instructions() {
    const Schedule& schedule = given_.schedule();
    std::vector<StraightLineBlock> blocks;
    if (runs(CpuPass::straight_line))
      blocks = find_straight_line_blocks(to_.program_, options_, fused_->changed_operations());
    auto next_block = blocks.begin();
    for (std::size_t i = 0; i < schedule.nodes.size(); i += schedule.nodes[i].size) {
      const ScheduleNode& node = schedule.nodes[i];
      const Step* const step = fused_->empty() ? nullptr : &fused_->at(i);
      if (next_block != blocks.end() && next_block->first == i) {
        run_block(*next_block, node.index);
        for (std::size_t k = 0; k < next_block->count; ++k) traits_.cannot_fail.insert(i + k);
        i += next_block->count - 1;  // of nodes of size 1
        ++next_block;
      } else if (step != nullptr && step->absorbed) {
        continue;
      } else if (node.kind != NodeKind::operation || (step != nullptr && step->plan)) {
        composite(i);
      } else if (operation(node.index, step == nullptr ? no_index : step->addition)) {
        traits_.cannot_fail.insert(i);
      }
    }
  }
  Plan plan_of_composite(std::size_t node) {
    const Step& step = fused_->at(node);
    if (step.plan) return *step.plan;
    const passes::NodeValues& values = step.values;
    const Schedule& schedule = to_.program_.schedule();
    const ScheduleNode& at = schedule.nodes[node];
    if (at.kind == NodeKind::blocked_loop)
      return plan_loop(to_.program_, schedule.loops[at.index], values, plans_.reads(), options_, kernels_,
                       to_.arena_);
    if (at.index != 0) return plan_rows(to_.program_, node, values, options_, kernels_, to_.arena_);
    return plan_fusion(to_.program_, node, values, options_, kernels_, step.around_fusion.get());
  }
  // Its pointers follow.
  void general(Plan plan, std::size_t num_operands, std::uint32_t operation) {
    take_memory_for(plan);
    Instruction instruction;
    instruction.execute = run_general;
    instruction.a = static_cast<std::uint32_t>(to_.steps_.size());
    to_.steps_.push_back({plan.run, plan.state.get(), static_cast<std::uint32_t>(to_.num_pointers_),
                          static_cast<std::uint32_t>(num_operands)});
    to_.plans_.push_back(std::move(plan));
    is_scalar_.push_back(false);
    to_.instructions_.push_back(instruction);
    to_.operations_.push_back(operation);
  }
  void composite(std::size_t node) {
    const passes::NodeValues& values = fused_->at(node).values;
    const std::vector<ScheduleNode>& nodes = given_.schedule().nodes;
    // The operation that an error names: a fusion's first, or the producer of a loop's first result.
    const std::uint32_t named = nodes[node].kind == NodeKind::blocked_loop
                                    ? graph_.data().producers[values.results[0]]
                                    : nodes[nodes[node].kind == NodeKind::operation ? node : node + 1].index;
    Plan plan = plan_of_composite(node);
    if (plan.in_one_pass) traits_.in_one_pass.insert(node);
    if (plan.cannot_fail) traits_.cannot_fail.insert(node);
    general(std::move(plan), values.operands.size(), named);
    for (const ValueId id : values.operands) pointer(plan_->slot_of[id]);
    for (const ValueId id : values.results) pointer(plan_->slot_of[id]);
  }
  void run_block(const StraightLineBlock& block, std::uint32_t first_operation) {
    Plan plan;
    plan.run = [](const void* kernel, const Call& call) {
      static_cast<const StraightLineKernel*>(kernel)->run(call.in);
    };
    plan.state = block.kernel;
    general(std::move(plan), block.values.size(), first_operation);
    for (const ValueId id : block.values) pointer(plan_->slot_of[id]);
  }
  void pointer(SlotId id) {
    if (to_.num_pointers_ >= no_index)
      throw Error(ErrorKind::out_of_memory, "cpu: expected fewer than 2^32 operands");
    const auto at = static_cast<std::uint32_t>(to_.num_pointers_++);
    const Slot& slot = plan_->slots[id];
    if (small_at_[id] != no_index) {
      to_.small_pointers_.push_back({at, 0, std::size_t{small_at_[id]} * 8});
      return;
    }
    switch (slot.storage) {
      case Storage::input: to_.input_pointers_.push_back({at, slot.index, 0}); break;
      case Storage::output: to_.output_pointers_.push_back({at, slot.index, slot.offset}); break;
      case Storage::constant: to_.constant_pointers_.push_back({at, slot.index, 0}); break;
      default: to_.large_pointers_.push_back({at, 0, slot.offset}); break;
    }
  }
  void prepared_pointer(Preparation preparation) {
    const auto position = graph_.inputs().size() + to_.preparations_.size();
    to_.input_pointers_.push_back(
        {static_cast<std::uint32_t>(to_.num_pointers_++), static_cast<std::uint32_t>(position), 0});
    to_.preparations_.push_back(std::move(preparation));
  }
  void finish_output(std::uint32_t position) {
    const ValueId id = graph_.outputs()[position];
    const SlotId slot = plan_->slot_of[id];
    const Type type = graph_.type(id);
    if (type.size() == 0) return;
    if (small_at_[slot] != no_index) {
      to_.stores_.push_back(
          {position, static_cast<std::uint32_t>(type.bytes()), std::size_t{small_at_[slot]} * 8});
    } else if (!to_.program_.is_written_directly(position)) {
      to_.copies_.push_back({position, plan_->slots[slot]});
    }
  }

  struct Recent {
    const OpRecord* op = nullptr;
    std::array<const void*, 3> types{};
    std::uint32_t plan = no_index;
  };

  Compiled& to_;
  const Program given_;
  const Graph& graph_;
  const SlotPlan* plan_;  // of the given one; in the end that of the target's
  const CompileOptions& options_;
  const KernelTable& kernels_;
  const CallSite& call_site_;
  MemoryStats& memory_stats_;
  std::vector<std::uint32_t> small_at_;  // by slot: offset into the small region by 8, or no_index
  std::vector<bool> is_scalar_;          // by plan
  std::array<Recent, 256> recent_{};
  OperationPlans plans_;
  std::unique_ptr<StepGraph> fused_;
  PlanTraits traits_;
};

Compiled::Compiled(Program program, const CompileOptions& options, const KernelTable& kernels,
                   std::shared_ptr<Arena> arena, const CallSite& call_site)
    : program_(std::move(program)), arena_(std::move(arena)), threads_(options.threads) {
  CompileOptions own = options;
  if (options.memory_stats == nullptr) own.memory_stats = &memory_stats_;
  own.num_carry = call_site.num_carry;
  try {
    // Not on the stack, which programs inside programs share.
    std::make_unique<Compiler>(*this, own, kernels, call_site)->compile();
  } catch (...) {
    arena_->release(constants_);
    throw;
  }
}

}  // namespace tidu::cpu_detail
