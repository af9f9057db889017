// compile.cpp - from a Program to instructions: plans for operations, addresses for values.
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "cpu/compiled.hpp"
#include "cpu/fused.hpp"
#include "cpu/fused_rows.hpp"
#include "cpu/loop.hpp"
#include "cpu/moves.hpp"
#include "cpu/node_memory.hpp"
#include "cpu/product_group.hpp"
#include "cpu/product_update.hpp"
#include "cpu/runs.hpp"
#include "cpu/turned.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t small_unit = 16;

bool one_element(Type type) { return type.size() == 1; }

}  // namespace

class Compiler {
 public:
  Compiler(Compiled& target, const CompileOptions& options, const KernelTable& kernels,
           const Surroundings& around)
      : to_(target),
        given_(target.program_),
        graph_(given_.graph()),
        plan_(&given_.plan()),
        options_(options),
        kernels_(kernels),
        around_(around) {}

  void compile() {
    for (const ValueId id : graph_.inputs()) to_.input_types_.push_back(graph_.type(id));
    for (const ValueId id : graph_.outputs()) to_.output_types_.push_back(graph_.type(id));
    place_inputs_and_outputs();
    make_constants();
    // Kernels of other projects might look at all that there is.
    if (!kernels_.has_foreign()) reads_ = find_reads(graph_, to_.constant_at_, around_.reads);
    const Schedule& schedule = to_.program_.schedule();
    to_.instructions_.reserve(schedule.nodes.size());
    to_.operations_.reserve(schedule.nodes.size());
    if (!around_.sums.empty()) find_sums();
    const bool has_composites =
        std::any_of(schedule.nodes.begin(), schedule.nodes.end(),
                    [](const ScheduleNode& node) { return node.kind != NodeKind::operation; });
    if (has_composites) {
      values_ = passes::node_values(graph_, schedule, to_.program_.roots(), to_.program_.splats());
      find_columns();
    }
    std::vector<bool> alone = done_;  // what adds to its result, or is done by what does, or by a group
    for (std::size_t k = 0; k < sums_into_.size(); ++k) {
      if (alone.empty()) alone.resize(sums_into_.size());
      if (sums_into_[k] != no_index) alone[k] = true;
    }
    if (has_composites) make_updates_and_moves(alone);
    if (has_composites) turn_results();
    if (!done_.empty()) plan_memory();
    place_small_values();
    const std::vector<Run> runs = find_runs(to_.program_, options_, alone);
    auto next_run = runs.begin();
    for (std::size_t i = 0; i < schedule.nodes.size(); i += schedule.nodes[i].size) {
      const ScheduleNode& node = schedule.nodes[i];
      if (next_run != runs.end() && next_run->first == i) {
        run(*next_run, node.index);
        i += next_run->count - 1;  // of nodes of size 1
        ++next_run;
      } else if (const auto own = updates_and_moves_.find(i);
                 own != updates_and_moves_.end() && !own->second) {
        continue;  // others do it
      } else if (node.kind != NodeKind::operation || own != updates_and_moves_.end()) {
        composite(i);
      } else if (done_.empty() || !done_[node.index]) {
        step(node.index);
      }
    }
    for (std::uint32_t i = 0; i < graph_.outputs().size(); ++i) finish_output(i);
    to_.mode_ = to_.find_mode(options_.depth);
  }

 private:
  // Values of one element outside the workspace get a place in its small region.
  std::size_t extra_small() {
    const std::size_t at = to_.small_bytes_;
    to_.small_bytes_ += small_unit;
    return at;
  }
  void place_inputs_and_outputs() {
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
  void place_small_values() {
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
    to_.constants_ = to_.arena_->acquire(bytes);
    for (const auto& [id, offset] : computed) {
      std::byte* at = to_.constants_.data + offset;
      const std::uint32_t operation = *graph_.producer(id);
      const Plan plan = plan_of(operation);
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

  // Of an operation that is to add to its result, none where it cannot.
  Plan plan_of(std::uint32_t index, bool adding = false) {
    const Operation operation = graph_.operation(index);
    in_.clear();
    out_.clear();
    for (const ValueId id : operation.inputs()) in_.push_back(graph_.type(id));
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      out_.push_back(graph_.type(operation.output(slot)));
    const Op op = operation.op();
    try {
      PlanRequest request{
          op, in_, out_, options_.threads, options_.check_indices, options_.depth, options_.lanes};
      request.reads = reads_of(index);
      request.fixed = fixed_of(index);
      Plan plan = adding ? kernels_.plan_adding(request) : kernels_.plan(request);
      if (plan || adding) return plan;
    } catch (const Error& error) {
      error.with_message(detail::str(error.what(), "\n  ", describe_operation(graph_, index)))->raise();
    }
    no_kernel(graph_, index);
  }

  const std::vector<bool>* reads_of(std::uint32_t operation) const {
    const OperationRecord& record = graph_.data().operations[operation];
    return reads_.empty() || record.num_outputs != 1 ? nullptr : reads_[record.first_output].get();
  }

  // See Surroundings::fixed: of products.
  std::uint32_t fixed_of(std::uint32_t operation) const {
    const OperationRecord& record = graph_.data().operations[operation];
    if (around_.fixed.empty() || !record.op->primitive->has_trait(Trait::product)) return 0;
    std::uint32_t fixed = 0;
    for (std::uint32_t i = 0; i < std::min(record.num_inputs, 32U); ++i) {
      const SlotId id = plan_->slot_of[graph_.data().operands[record.first_input + i]];
      const bool is_input = small_at_[id] == no_index && plan_->slots[id].storage == Storage::input;
      if (is_input && around_.fixed[plan_->slots[id].index] != 0) fixed |= 1U << i;
    }
    return fixed;
  }

  // The plan of an operation, from the cache when one with the same op and types was planned lately.
  std::uint32_t cached_plan(std::uint32_t index) {
    const OperationRecord& record = graph_.data().operations[index];
    const ValueId* operands = graph_.data().operands.data() + record.first_input;
    if (record.num_inputs > 3 || record.num_outputs > 1 || reads_of(index) != nullptr || fixed_of(index) != 0)
      return keep(plan_of(index));
    Recent key{record.op, {}, no_index};
    std::size_t hash = reinterpret_cast<std::uintptr_t>(record.op) >> 4;
    for (std::uint32_t i = 0; i < record.num_inputs; ++i) {
      key.types[i] = graph_.type(operands[i]).identity();
      hash = hash * 31 + (reinterpret_cast<std::uintptr_t>(key.types[i]) >> 4);
    }
    Recent& recent = recent_[(hash ^ (hash >> 8)) % recent_.size()];
    if (recent.op != key.op || recent.types != key.types) {
      key.plan = keep(plan_of(index));
      recent = key;
    }
    return recent.plan;
  }
  std::uint32_t keep(Plan plan) {
    to_.scratch_bytes_ = std::max(to_.scratch_bytes_, plan.scratch);
    to_.plans_.push_back(std::move(plan));
    bool scalar = to_.plans_.back().scalar != nullptr;
    for (const Type type : in_) scalar = scalar && one_element(type);
    for (const Type type : out_) scalar = scalar && one_element(type);
    is_scalar_.push_back(scalar);
    return static_cast<std::uint32_t>(to_.plans_.size() - 1);
  }

  // See Surroundings::sums: where such an output is the sum of its input and of what an operation makes for
  // it alone, the operation may add to what is there. Then the addition is none of the steps.
  void find_sums() {
    const GraphData& g = graph_.data();
    sums_into_.assign(g.operations.size(), no_index);
    std::vector<std::uint32_t> reads(graph_.num_values(), 0);
    for (const ValueId id : g.operands) ++reads[id];
    for (const ValueId id : graph_.outputs()) ++reads[id];
    std::vector<bool> alone(g.operations.size(), false);  // not in a group or a loop
    const Schedule& schedule = to_.program_.schedule();
    for (std::size_t i = 0; i < schedule.nodes.size(); i += schedule.nodes[i].size) {
      if (schedule.nodes[i].kind == NodeKind::operation) alone[schedule.nodes[i].index] = true;
    }
    const std::size_t first = graph_.inputs().size() - around_.sums.size();
    for (std::size_t k = 0; k < around_.sums.size(); ++k) {
      const std::uint32_t i = around_.sums[k];
      const ValueId sum = graph_.outputs()[i];
      const std::uint32_t addition = g.producers[sum];
      if (addition >= g.operations.size() || !alone[addition] || !to_.program_.is_written_directly(i))
        continue;
      const OperationRecord& record = g.operations[addition];
      if (record.op->primitive != graph_.primitives().add() || reads[sum] != 1) continue;
      const ValueId so_far = g.operands[record.first_input], term = g.operands[record.first_input + 1];
      const std::uint32_t maker = g.producers[term];
      if (so_far != graph_.inputs()[first + k] || reads[so_far] != 1 || reads[term] != 1 ||
          maker >= g.operations.size() || !alone[maker] || graph_.type(sum).size() == 1)
        continue;
      const Plan plan = plan_of(maker, true);
      if (!plan) continue;
      sums_into_[maker] = addition;
      sums_into_[addition] = addition;
    }
  }

  void step(std::uint32_t index) {
    const std::uint32_t sum = sums_into_.empty() ? no_index : sums_into_[index];
    if (sum == index) return;
    const std::uint32_t at = sum == no_index ? cached_plan(index) : keep(plan_of(index, true));
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
  }
  // Operations that groups do: see Note [Columns] in fused.cpp. Kernels of other projects might be another's.
  void find_columns() {
    if (options_.lanes == nullptr || kernels_.has_foreign()) return;
    ColumnFinder finder(to_.program_, values_, around_.wholes, options_.check_indices);
    const std::vector<ScheduleNode>& nodes = to_.program_.schedule().nodes;
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      if (nodes[i].kind != NodeKind::fused_group || nodes[i].index != 0) continue;
      Columns columns = finder.find(i);
      if (!columns.empty()) columns_.emplace(i, std::move(columns));
    }
    if (columns_.empty()) return;
    done_.resize(graph_.num_operations());
    for (std::uint32_t k = 0; k < done_.size(); ++k) done_[k] = finder.is_done(k);
  }
  // Does it read a sum so far, whose place is an output's?
  bool reads_sum(std::uint32_t operation) const {
    const std::size_t first = graph_.inputs().size() - around_.sums.size();
    for (const ValueId id : graph_.operation(operation).inputs()) {
      const SlotId slot = plan_->slot_of[to_.program_.roots()[id]];
      if (slot != no_index && plan_->slots[slot].storage == Storage::input &&
          plan_->slots[slot].index >= first)
        return true;
    }
    return false;
  }
  // See Note [Updates] and Note [Moves]; `other` by operation, or empty: has it another place already?
  void make_updates_and_moves(const std::vector<bool>& other) {
    if (kernels_.has_foreign() || options_.depth > 0) return;
    std::vector<bool> alone(graph_.num_operations(), false);
    const std::vector<ScheduleNode>& nodes = to_.program_.schedule().nodes;
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      const std::uint32_t index = nodes[i].index;
      if (nodes[i].kind == NodeKind::operation)
        alone[index] = (other.empty() || !other[index]) && reads_of(index) == nullptr && !reads_sum(index);
    }
    for (const auto& [node, update] : find_updates(to_.program_, values_, alone)) {
      if (columns_.count(node) != 0) continue;
      const Operation product = graph_.operation(update.product);
      const Op op = product.op();
      const std::array in{graph_.type(product.inputs()[0]), graph_.type(product.inputs()[1])};
      const std::array out{graph_.type(product.output())};
      const std::optional<GemmPlan> plan =
          plan_product_update({op, in, out, options_.threads}, options_.repeats > 1);
      if (!plan) continue;
      done_.resize(graph_.num_operations());
      done_[update.product] = true;
      passes::NodeValues& values = values_[node];
      std::vector<ValueId>& operands = values.operands;
      operands = {to_.program_.roots()[product.inputs()[0]], to_.program_.roots()[product.inputs()[1]],
                  update.x};
      if (!update.literal) operands.push_back(update.scale);
      values.whole = {operands[0], operands[1]};
      updates_and_moves_.emplace(node, plan_update(update, *plan, options_.threads));
    }
    updates_and_moves_.merge(
        make_moves(to_.program_, values_, alone, around_.fixed.empty(), options_.threads, done_));
  }
  // See Note [Turned results].
  void turn_results() {
    if (options_.lanes == nullptr || kernels_.has_foreign() || options_.depth > 0) return;
    turned_ = find_turned(given_, values_, done_, options_);
    if (!turned_.empty()) done_.resize(graph_.num_operations());
    for (const auto& [node, turned] : turned_) done_[turned.operation] = true;
  }
  // What groups and updates do beside has changed who reads what, and when.
  void plan_memory() {
    const std::vector<ScheduleNode>& nodes = given_.schedule().nodes;
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      if (nodes[i].kind == NodeKind::operation && done_[nodes[i].index]) values_[i] = {};
    }
    to_.program_ = place_again(given_, values_);
    plan_ = &to_.program_.plan();
  }
  Plan plan_of_composite(std::size_t node) {
    if (const auto found = updates_and_moves_.find(node); found != updates_and_moves_.end())
      return found->second;
    const passes::NodeValues& values = values_[node];
    const Schedule& schedule = to_.program_.schedule();
    const ScheduleNode& at = schedule.nodes[node];
    if (at.kind == NodeKind::blocked_loop)
      return plan_loop(to_.program_, schedule.loops[at.index], values, reads_, options_, kernels_,
                       to_.arena_);
    if (at.kind == NodeKind::product_group)
      return plan_product_group(to_.program_, node, values, options_, kernels_);
    if (at.index != 0) return plan_rows(to_.program_, node, values, options_, kernels_, to_.arena_, turned_);
    const auto found = columns_.find(node);
    return plan_group(to_.program_, node, values, options_, kernels_,
                      found == columns_.end() ? nullptr : &found->second);
  }
  // Its pointers follow.
  void general(Plan plan, std::size_t num_operands, std::uint32_t operation) {
    to_.scratch_bytes_ = std::max(to_.scratch_bytes_, plan.scratch);
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
    const passes::NodeValues& values = values_[node];
    const std::vector<ScheduleNode>& nodes = given_.schedule().nodes;
    // What an error names: a group's first operation, or what makes a loop's first result.
    const std::uint32_t named = nodes[node].kind == NodeKind::blocked_loop
                                    ? graph_.data().producers[values.results[0]]
                                    : nodes[nodes[node].kind == NodeKind::operation ? node : node + 1].index;
    general(plan_of_composite(node), values.operands.size(), named);
    for (const ValueId id : values.operands) pointer(plan_->slot_of[id]);
    for (const ValueId id : values.results) pointer(plan_->slot_of[id]);
  }
  void run(const Run& run, std::uint32_t first_operation) {
    Plan plan;
    plan.run = [](const void* kernel, const Call& call) {
      static_cast<const RunKernel*>(kernel)->run(call.in);
    };
    plan.state = run.kernel;
    general(std::move(plan), run.values.size(), first_operation);
    for (const ValueId id : run.values) pointer(plan_->slot_of[id]);
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
      case Storage::output: to_.output_pointers_.push_back({at, slot.index, 0}); break;
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
  const Surroundings& around_;
  std::vector<std::uint32_t> small_at_;  // by slot: offset into the small region by 8, or no_index
  std::vector<bool> is_scalar_;          // by plan
  std::array<Recent, 256> recent_{};
  std::vector<Type> in_, out_;
  std::vector<passes::NodeValues> values_;                   // by node, where there are groups or loops
  std::unordered_map<std::size_t, Columns> columns_;         // by node
  std::unordered_map<std::size_t, Plan> updates_and_moves_;  // by node
  TurnedResults turned_;
  std::vector<bool> done_;                // by operation, or empty: does a group do it?
  std::vector<ReadElements> reads_;       // by value, or empty; see find_reads
  std::vector<std::uint32_t> sums_into_;  // by operation: the addition that it does, too; see find_sums
};

Compiled::Compiled(Program program, const CompileOptions& options, const KernelTable& kernels,
                   std::shared_ptr<Arena> arena, const Surroundings& around)
    : program_(std::move(program)), arena_(std::move(arena)) {
  try {
    Compiler(*this, options, kernels, around).compile();
  } catch (...) {
    arena_->release(constants_);
    throw;
  }
}

}  // namespace tidu::cpu_detail
