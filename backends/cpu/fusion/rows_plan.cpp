// rows_plan.cpp - phases of a row fusion, and their steps.
//
// Note [Phases]: an operation can be done in a phase if all reductions that it needs are done in earlier
// phases. A value that a reduction or a result needs is computed in the first phase that can do it, any other
// value in the phase that needs it. Later phases load or compute a value again, unless that takes longer than
// keeping it.
//
// Note [In place]: a result that takes the memory of an operand is written after the same elements of the
// operand are read. Such a fusion has only one phase.
//
// Note [Streams]: results that are too large for the caches are written past them if their rows are whole
// cache lines, which saves reading the old contents. Memory that is not aligned takes other code.
#include "cpu/fusion/rows_plan.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "cpu/cpu_target.hpp"
#include "cpu/is_any_of.hpp"
#include "cpu/schedule/splat.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

using passes::RowStep;

class RowsPlanner {
 public:
  RowsPlanner(const Program& program, std::size_t node, const passes::NodeValues& values,
              std::int64_t repeats, std::size_t num_carry)
      : program_(program), graph_(program.graph()), repeats_(repeats), num_carry_(num_carry) {
    const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
    code_.columns = nodes[node].index;
    for (std::uint32_t i = 0; i < values.results.size(); ++i) result_of_[values.results[i]] = i;
    for (std::size_t k = node + 1; k < node + nodes[node].size; ++k) {
      Item item;
      item.operation = nodes[k].index;
      const Operation operation = graph_.operation(item.operation);
      item.result = operation.output();
      const DType dtype = graph_.type(item.result).dtype();
      if (dtype == f64 || dtype == f32) code_.dtype = dtype;
      item.step = passes::row_step(graph_, item.operation);
      if (item.step.kind != RowStep::Kind::none)
        plan_.rows = item.step.rows * item.step.columns / code_.columns;
      // Nobody need read what a barrier lets through.
      if (item.step.kind == RowStep::Kind::reduce_columns && !is_result(item)) continue;
      item_of_[item.result] = static_cast<std::uint32_t>(items_.size());
      items_.push_back(item);
    }
    for (std::uint32_t i = 0; i < values.operands.size(); ++i) pointer_of_[values.operands[i]] = i;
    num_operands_ = static_cast<std::uint32_t>(values.operands.size());
    for (const ValueId operand : values.operands) operand_slots_.push_back(program.slot_of(operand));
    code_.num_pointers = static_cast<std::uint32_t>(values.operands.size() + values.results.size());
  }

  std::optional<RowsPlan> plan() {
    if (!can_reduce_rows(code_.columns)) return {};
    for (Item& item : items_) {
      if (!classify(item)) return {};
    }
    if (!find_period()) return {};
    find_phases();
    for (std::uint32_t phase = 0; phase < num_phases_; ++phase) {
      code_.phases.emplace_back();
      if (!write_elements(phase) || !write_row(phase)) return {};
    }
    plan_.code = std::move(code_);
    return std::move(plan_);
  }

 private:
  enum class Kind : std::uint8_t {
    whole,      // element by element
    of_row,     // the same of elements for each row
    reduction,  // of a row
    column,     // reduction of all rows
    along_row,  // repeats an element for each row
    all_rows,   // repeats a row
    each_row,   // repeats each of some rows
    gathered    // a row that an index names
  };
  static constexpr std::uint32_t never = no_index;
  struct Item {
    std::uint32_t operation = 0;
    ValueId result = 0;
    RowStep step;
    Kind kind = Kind::whole;
    std::uint32_t ready = 0;  // of elements: the first phase that can do it; of a row: the first to find it
    std::uint32_t done = never;  // of elements: the first phase that does it
    bool needed = false;         // in the phase at hand
    bool kept = false;           // for a later phase
    std::uint32_t slot = never, keep = never;
    double cost = 0;  // of computing it again
  };

  // Where the operand's elements are; no_index for a literal.
  ValueId read(ValueId operand) const {
    return passes::memory_of(graph_, program_.roots(), program_.splats(), operand);
  }
  Item* item_of(ValueId operand) {
    const ValueId id = read(operand);
    const auto it = id == no_index ? item_of_.end() : item_of_.find(id);
    return it == item_of_.end() ? nullptr : &items_[it->second];
  }
  static bool is_of_row(const Item& item) {
    return item.kind == Kind::of_row || item.kind == Kind::reduction;
  }

  bool classify(Item& item) {
    const Operation operation = graph_.operation(item.operation);
    const std::span<const ValueId> inputs = operation.inputs();
    switch (item.step.kind) {
      case RowStep::Kind::reduce_rows: item.kind = Kind::reduction; break;
      case RowStep::Kind::reduce_columns: item.kind = Kind::column; break;
      case RowStep::Kind::along_rows: item.kind = Kind::along_row; break;
      case RowStep::Kind::rows: item.kind = Kind::all_rows; break;
      case RowStep::Kind::each_row: item.kind = Kind::each_row; break;
      case RowStep::Kind::gathered: item.kind = Kind::gathered; break;
      case RowStep::Kind::none: {
        for (const ValueId id : inputs) {
          const Item* of = item_of(id);
          if (of != nullptr && is_of_row(*of)) item.kind = Kind::of_row;
        }
      }
    }
    item.cost = item.kind == Kind::whole ? own_cost(operation) : 0;
    for (const ValueId id : inputs) {
      const Item* of = item_of(id);
      if (of == nullptr) {
        item.cost += 0.5;
        continue;
      }
      item.ready = std::max(item.ready, of->ready);
      if (!is_of_row(*of)) item.cost += of->cost;
    }
    if (item.kind == Kind::reduction) ++item.ready;
    if (item.kind == Kind::reduction || item.kind == Kind::column) {
      if (!is_any_of(operation, prim::reduce_sum, prim::reduce_max, prim::reduce_min)) return false;
      if (graph_.type(item.result).dtype() == bool_) return false;
    }
    if (item.kind == Kind::of_row && result_of_.find(item.result) != result_of_.end() &&
        graph_.type(item.result).dtype() == bool_)
      return false;
    if (is_of_row(item)) item.slot = code_.num_slots++;
    return true;
  }
  static double own_cost(const Operation& operation) {
    if (is_any_of(operation, prim::div, prim::divide_no_nan, prim::multiply_no_nan, prim::sqrt)) return 4;
    const bool cheap =
        is_any_of(operation, prim::add, prim::sub, prim::mul, prim::neg, prim::abs, prim::max, prim::min,
                  prim::square, prim::lt, prim::le, prim::gt, prim::ge, prim::eq, prim::ne, prim::select_n);
    return cheap ? 1 : 8;
  }
  bool is_result(const Item& item) const { return result_of_.find(item.result) != result_of_.end(); }
  // Does it take elements in a phase of its own?
  bool is_root(const Item& item) const {
    if (item.kind == Kind::reduction || item.kind == Kind::column) return true;
    return !is_of_row(item) && is_result(item);
  }
  std::uint32_t phase_of_root(const Item& item) const {
    return item.kind == Kind::reduction ? item.ready - 1 : item.ready;
  }

  // See Note [Periods]. False where there is more than one, or where an operand with a period is read in
  // another way too.
  bool find_period() {
    for (const Item& item : items_) {
      if (!is_periodic(item)) continue;
      const std::int64_t period = item.step.columns / code_.columns;
      if (plan_.period > 1 && plan_.period != period) return false;
      plan_.period = period;
      const Operation operation = graph_.operation(item.operation);
      plan_.periodic.push_back(item.kind == Kind::column ? result_pointer(item.result)
                                                         : pointer_of_.at(read(operation.inputs()[0])));
    }
    if (plan_.period == 1) return true;
    std::sort(plan_.periodic.begin(), plan_.periodic.end());
    plan_.periodic.erase(std::unique(plan_.periodic.begin(), plan_.periodic.end()), plan_.periodic.end());
    for (const Item& item : items_) {
      if (is_periodic(item)) continue;
      if (item.kind == Kind::column) return false;
      for (const ValueId id : graph_.operation(item.operation).inputs()) {
        const auto at = read(id) == no_index ? pointer_of_.end() : pointer_of_.find(read(id));
        if (at != pointer_of_.end() &&
            std::binary_search(plan_.periodic.begin(), plan_.periodic.end(), at->second))
          return false;
      }
    }
    return true;
  }
  bool is_periodic(const Item& item) const {
    return (item.kind == Kind::column || item.kind == Kind::all_rows) && item.step.columns != code_.columns;
  }

  // Finds, phase by phase, the values that it needs, and which of them were computed earlier.
  void find_needed(std::uint32_t phase) {
    constexpr double cheap = 2.5;
    for (Item& item : items_) item.needed = is_root(item) && phase_of_root(item) == phase;
    for (std::size_t i = items_.size(); i-- > 0;) {
      Item& item = items_[i];
      if (!item.needed) continue;
      if (item.done < phase && item.cost > cheap) {
        item.kept = true;
        continue;
      }
      item.done = std::min(item.done, phase);
      for (const ValueId id : graph_.operation(item.operation).inputs()) {
        Item* of = item_of(id);
        if (of != nullptr && !is_of_row(*of)) of->needed = true;
      }
    }
  }
  void find_phases() {
    num_phases_ = 0;
    for (const Item& item : items_) {
      if (is_root(item)) num_phases_ = std::max(num_phases_, phase_of_root(item) + 1);
    }
    for (std::uint32_t phase = 0; phase < num_phases_; ++phase) find_needed(phase);
    for (Item& item : items_) {
      if (item.kept && (!is_result(item) || streams(item))) item.keep = code_.num_kept++;
    }
    for (Item& item : items_) item.done = never;
  }

  // See Note [Streams]. Of a block of a loop `repeats` tells how many there are; carries are one.
  bool streams(const Item& item) const {
    if (is_of_row(item) || item.kind == Kind::column || !is_result(item)) return false;
    const Type type = graph_.type(item.result);
    const Slot& slot = program_.slot(program_.slot_of(item.result));
    const std::int64_t bytes =
        static_cast<std::int64_t>(type.bytes()) * (slot.index < num_carry_ ? 1 : repeats_);
    return slot.storage == Storage::output && bytes >= CpuTarget::last_level &&
           code_.columns * static_cast<std::int64_t>(size_of(type.dtype())) % CpuTarget::line == 0 &&
           type.dtype() == code_.dtype;
  }
  std::uint32_t result_pointer(ValueId id) const { return num_operands_ + result_of_.at(id); }
  // Adds steps to a list as add_operation does to a code.
  bool write_elements(std::uint32_t phase) {
    find_needed(phase);
    virtual_register_of_.clear();
    list_ = VectorProgram{code_.dtype, {}, 0, 0};
    std::vector<VectorInst> last;
    for (Item& item : items_) {
      if (!item.needed) continue;
      const Operation operation = graph_.operation(item.operation);
      const ValueId operand = operation.inputs()[0];
      switch (item.kind) {
        case Kind::reduction:
          list_.add({.op = reduction_of(operation, VectorOp::reduce_sum),
                     .a = register_of(operand, phase),
                     .index = item.slot});
          continue;
        case Kind::column: {
          const VectorOp op = reduction_of(operation, VectorOp::column_sum);
          const std::uint32_t pointer = result_pointer(item.result);
          const std::uint64_t own = is_periodic(item) ? 1 : 0;
          list_.add({.op = op, .a = register_of(operand, phase), .index = pointer, .bits = own});
          const Reduction reduction = op == VectorOp::column_sum   ? Reduction::sum
                                      : op == VectorOp::column_max ? Reduction::largest
                                                                   : Reduction::smallest;
          plan_.reductions.push_back({result_of_.at(item.result), pointer, reduction});
          continue;
        }
        case Kind::along_row: virtual_register_of_[item.result] = along_row(operand); break;
        case Kind::all_rows:
          virtual_register_of_[item.result] =
              list_.add({.op = is_periodic(item) ? VectorOp::load : VectorOp::load_column,
                         .index = pointer_of_.at(read(operand))});
          break;
        case Kind::each_row:
        case Kind::gathered:
          virtual_register_of_[item.result] =
              list_.add({.op = VectorOp::load_gathered, .index = gather(item)});
          break;
        default: {
          if (item.done < phase && item.kept) {
            virtual_register_of_[item.result] = loaded_again(item);
            continue;
          }
          const std::optional<std::uint16_t> value = add(operation, phase);
          if (!value) return false;
          virtual_register_of_[item.result] = *value;
        }
      }
      // Done for the first time?
      const std::uint16_t value = virtual_register_of_[item.result];
      if (is_root(item) && phase_of_root(item) == phase) {
        if (streams(item)) plan_.streams.push_back(result_of_.at(item.result));
        const VectorInst store{.op = streams(item)          ? VectorOp::stream
                                     : list_.is_mask(value) ? VectorOp::store_mask
                                                            : VectorOp::store,
                               .a = value,
                               .index = result_pointer(item.result)};
        if (!is_in_place(item)) {
          list_.add(store);
        } else if (num_phases_ > 1 || list_.steps[value].op <= VectorOp::immediate) {
          return false;
        } else {
          last.push_back(store);
        }
      }
      if (item.keep != never && item.done == phase) {
        list_.add({.op = VectorOp::keep, .a = value, .index = item.keep});
      }
    }
    for (const VectorInst& store : last) list_.add(store);
    // Many vectors at once have so many copies of the steps, each of which has a number.
    constexpr std::size_t max_copies = 16;
    if (max_copies * list_.steps.size() >= no_register) return false;
    code_.phases.back().elements = std::move(list_.steps);
    return true;
  }
  // See Note [In place].
  bool is_in_place(const Item& item) const {
    const SlotId slot = program_.slot_of(item.result);
    return std::find(operand_slots_.begin(), operand_slots_.end(), slot) != operand_slots_.end();
  }
  std::uint32_t gather(const Item& item) {
    const Operation operation = graph_.operation(item.operation);
    RowsCode::Gather gather{.array = pointer_of_.at(read(operation.inputs()[0]))};
    if (item.kind == Kind::each_row) {
      gather.together = item.step.columns / code_.columns;
      gather.every = gather.together * item.step.times;
      gather.rows = item.step.rows / item.step.times * gather.together;
    } else {
      const ValueId indices = read(operation.inputs()[1]);
      gather.indices = pointer_of_.at(indices);
      gather.rows = item.step.picked_of;
      gather.wide = graph_.type(indices).dtype() == i64;
    }
    const auto found = std::find(code_.gathers.begin(), code_.gathers.end(), gather);
    if (found == code_.gathers.end()) code_.gathers.push_back(gather);
    return static_cast<std::uint32_t>(std::find(code_.gathers.begin(), code_.gathers.end(), gather) -
                                      code_.gathers.begin());
  }
  static VectorOp reduction_of(const Operation& operation, VectorOp sum) {
    const int which = is_any_of(operation, prim::reduce_sum)   ? 0
                      : is_any_of(operation, prim::reduce_max) ? 1
                                                               : 2;
    return static_cast<VectorOp>(static_cast<int>(sum) + which);
  }
  std::uint16_t loaded_again(const Item& item) {
    const bool mask = graph_.type(item.result).dtype() == bool_;
    if (item.keep != never)
      return list_.add({.op = mask ? VectorOp::kept_mask : VectorOp::kept, .index = item.keep});
    return list_.add(
        {.op = mask ? VectorOp::load_mask : VectorOp::load, .index = result_pointer(item.result)});
  }
  // Is it a bool for each row that the fusion does not compute? No instruction loads one.
  bool is_foreign_mask(ValueId operand) {
    const ValueId id = read(operand);
    return id != no_index && graph_.type(id).dtype() == bool_ && graph_.type(id).size() != 1 &&
           !item_of_.contains(id);
  }
  std::uint16_t along_row(ValueId operand) {
    const Item* of = item_of(operand);
    if (of != nullptr) return slot(*of);
    return list_.add({.op = VectorOp::splat_row, .index = pointer_of_.at(read(operand))});
  }
  std::uint16_t slot(const Item& item) {
    const bool mask = graph_.type(item.result).dtype() == bool_;
    return list_.add({.op = mask ? VectorOp::slot_mask : VectorOp::slot, .index = item.slot});
  }
  std::optional<std::uint16_t> add(const Operation& operation, std::uint32_t phase) {
    std::vector<std::uint16_t> registers;
    std::vector<DType> dtypes;
    for (const ValueId id : operation.inputs()) {
      if (phase == never && is_foreign_mask(id)) return std::nullopt;
      registers.push_back(register_of(id, phase));
      dtypes.push_back(graph_.type(id).dtype());
    }
    const DType result = graph_.type(operation.output()).dtype();
    if (!has_vector_code(operation.op(), dtypes, result, code_.dtype)) return std::nullopt;
    return add_operation(list_, operation.op(), computed_dtype(dtypes, result), registers, result);
  }
  std::uint16_t register_of(ValueId operand, std::uint32_t phase) {
    const ValueId id = read(operand);
    if (id == no_index)
      return add_immediate(list_, passes::splat_literal(graph_, program_.splats()[operand]));
    const auto it = virtual_register_of_.find(id);
    if (it != virtual_register_of_.end()) return it->second;
    const auto made = item_of_.find(id);
    if (made != item_of_.end()) {
      const Item& item = items_[made->second];
      return virtual_register_of_[id] = slot(item);
    }
    const Type type = graph_.type(id);
    const bool of_row = phase == never && type.size() != 1;
    return virtual_register_of_[id] =
               list_.add({.op = of_row ? VectorOp::splat_row : load_op(type), .index = pointer_of_.at(id)});
  }

  // Writes what is computed from the phase's reductions, and the reductions that other nodes read.
  bool write_row(std::uint32_t phase) {
    virtual_register_of_.clear();
    list_ = VectorProgram{code_.dtype, {}, 0, 0};
    for (Item& item : items_) {
      if (!is_of_row(item) || item.ready != phase + 1) continue;
      const auto result = result_of_.find(item.result);
      std::uint16_t value = 0;
      if (item.kind == Kind::of_row) {
        const std::optional<std::uint16_t> made = add(graph_.operation(item.operation), never);
        if (!made) return false;
        value = virtual_register_of_[item.result] = *made;
        list_.add({.op = VectorOp::set_slot, .a = value, .index = item.slot});
      }
      if (result == result_of_.end()) continue;
      if (item.kind == Kind::reduction) value = register_of(item.result, never);
      list_.add({.op = VectorOp::store_row, .a = value, .index = result_pointer(item.result)});
    }
    code_.phases.back().row = std::move(list_.steps);
    return true;
  }

  const Program& program_;
  const Graph& graph_;
  const std::int64_t repeats_;
  const std::size_t num_carry_;
  std::vector<Item> items_;
  std::unordered_map<ValueId, std::uint32_t> item_of_, pointer_of_, result_of_;
  std::vector<SlotId> operand_slots_;
  RowsCode code_;
  std::uint32_t num_operands_ = 0;
  RowsPlan plan_;
  std::uint32_t num_phases_ = 0;
  VectorProgram list_;
  std::unordered_map<ValueId, std::uint16_t> virtual_register_of_;  // by value: in list_
};

}  // namespace

std::optional<RowsPlan> plan_rows_code(const Program& program, std::size_t node,
                                       const passes::NodeValues& values, std::int64_t repeats,
                                       std::size_t num_carry) {
  return RowsPlanner(program, node, values, repeats, num_carry).plan();
}

}  // namespace tidu::cpu_detail
