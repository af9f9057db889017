// regions.cpp - see regions.hpp.
#include "eager/regions.hpp"

#include <algorithm>

#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager::detail {
namespace {

using tidu::detail::str;

bool is_row_of(Type row, Type all) {
  return all.dtype() == row.dtype() && all.rank() == row.rank() + 1 &&
         std::equal(row.shape().begin(), row.shape().end(), all.shape().begin() + 1);
}

bool is_carry(const RegionBinding& binding) {
  return !binding.operands.empty() && !binding.inputs.empty() && !binding.outputs.empty();
}

const Attribute* attribute(const Op& op, std::string_view name) {
  for (const auto& [given, value] : op.attributes())
    if (given == name) return &value;
  return nullptr;
}

}  // namespace

RegionRuns::RegionRuns(const RegionExecution& execution, const Graph& graph, const Operation& operation,
                       std::vector<const void*> operands)
    : execution_(execution), set_(graph.primitives()), op_(operation.op()), operands_(std::move(operands)) {
  if (operation.primitive().region_bindings == nullptr) return;
  for (const ValueId id : operation.inputs()) operand_types_.push_back(graph.type(id));
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
    result_types_.push_back(graph.type(operation.output(slot)));
  bindings_ = operation.primitive().region_bindings(op_);
  for (const auto& [name, value] : op_.attributes())
    for (const auto& held : value.graphs()) graphs_.emplace_back(held);
  if (!graphs_.empty() && !bindings_.empty()) find_kind();
}

bool RegionRuns::is_sliced(std::size_t operand, const RegionBinding::Port& input) const {
  const Graph& graph = graphs_[input.graph];
  return is_row_of(graph.type(graph.inputs()[input.index]), operand_types_[operand]);
}

// A loop has carries, operands that are read row by row or results that are put together of rows; one with a
// condition has a binding that is always needed and made inside; a choice one that comes from outside.
void RegionRuns::find_kind() {
  bool loop = false, chooses = false, ends = false;
  for (const RegionBinding& binding : bindings_) {
    loop = loop || is_carry(binding) || (!binding.count.empty() && !binding.inputs.empty());
    chooses = chooses || (binding.always && !binding.operands.empty() && binding.inputs.empty());
    if (binding.always && !binding.outputs.empty() && binding.operands.empty()) {
      ends = true;
      condition_ = binding.outputs[0].graph;
    }
    for (const RegionBinding::Port& input : binding.inputs)
      loop = loop || (!binding.operands.empty() && is_sliced(binding.operands[0], input));
    for (const RegionBinding::Port& output : binding.outputs) {
      const Graph& graph = graphs_[output.graph];
      loop = loop || (!binding.results.empty() && is_row_of(graph.type(graph.outputs()[output.index]),
                                                            result_types_[binding.results[0]]));
    }
  }
  if (chooses && !loop) {
    kind_ = Kind::branches;
  } else if (ends && graphs_.size() == 2) {
    kind_ = Kind::loop_with_condition;
    taken_ = 1 - condition_;
    steps_ = max_steps;
  } else if (loop && graphs_.size() == 1) {
    kind_ = Kind::loop;
    find_length();
  } else if (!loop && !chooses && !ends) {
    kind_ = Kind::call;
  }
}

void RegionRuns::find_length() {
  const Attribute* length = attribute(op_, "length");
  const Attribute* reverse = attribute(op_, "reverse");
  if (length == nullptr || length->get_if<std::int64_t>() == nullptr) {
    kind_ = Kind::unknown;
    return;
  }
  steps_ = *length->get_if<std::int64_t>();
  reverse_ = reverse != nullptr && reverse->get_if<bool>() != nullptr && *reverse->get_if<bool>();
  if (steps_ > max_steps) kind_ = Kind::unknown;
}

RegionRuns::Buffer RegionRuns::run(const Graph& graph, std::span<const void* const> inputs) const {
  const ExecutorSlot slot;
  auto results = std::make_unique<OperandBuffer>(execution_.host.table, graph.outputs().size());
  execution_.host.execute_forward({graph, slot, execution_.placement, execution_.node}, inputs,
                                  results->data());
  results->filled = true;
  return results;
}

const void* RegionRuns::row_of(std::size_t operand, std::int64_t row) {
  if (set_.transform_ops().leading_block == nullptr)
    throw Error(ErrorKind::unknown_primitive, "expected a primitive set that takes rows");
  GraphBuilder builder("row", set_);
  const Value x = builder.input("x", operand_types_[operand]);
  const Graph slice = builder.build({set_.transform_ops().leading_block(x, row, {})});
  slices_.push_back(run(slice, {&operands_[operand], 1}));
  return slices_.back()->at(0);
}

// The inputs of a graph of this step.
void RegionRuns::gather(std::size_t graph) {
  inputs_.assign(graphs_[graph].inputs().size(), nullptr);
  for (const RegionBinding& binding : bindings_) {
    for (const RegionBinding::Port& input : binding.inputs) {
      if (input.graph != graph || binding.operands.empty()) continue;
      const std::size_t operand = binding.operands[0];
      inputs_[input.index] = is_sliced(operand, input) ? row_of(operand, row_) : operands_[operand];
    }
  }
}

bool RegionRuns::takes_branch() {
  const auto index = std::find_if(bindings_.begin(), bindings_.end(),
                                  [](const RegionBinding& binding) { return binding.always; });
  const std::optional<bool> is_zero = execution_.host.is_zero(operands_[index->operands[0]]);
  if (!is_zero || (!*is_zero && graphs_.size() > 2)) return false;
  taken_ = *is_zero || graphs_.size() == 1 ? 0 : 1;
  gather(taken_);
  return true;
}

bool RegionRuns::begin_step() {
  if (step_ > 0) {
    Buffer outputs = run(graphs_[taken_], inputs_);
    for (const RegionBinding& binding : bindings_)
      if (is_carry(binding)) operands_[binding.operands[0]] = outputs->at(binding.outputs[0].index);
    carries_ = std::move(outputs);
    slices_.clear();
  }
  if (step_ == steps_) return false;
  row_ = reverse_ ? steps_ - 1 - step_ : step_;
  if (kind_ == Kind::loop_with_condition) {
    gather(condition_);
    const Buffer goes_on = run(graphs_[condition_], inputs_);
    if (execution_.host.is_zero(goes_on->at(0)).value_or(true)) return false;
  }
  gather(taken_);
  return true;
}

bool RegionRuns::next() {
  ++step_;
  switch (kind_) {
    case Kind::unknown: return false;
    case Kind::call:
      if (step_ == 0) gather(0);
      return step_ == 0;
    case Kind::branches: return step_ == 0 && takes_branch();
    case Kind::loop:
    case Kind::loop_with_condition: return begin_step();
  }
  return false;
}

std::string RegionRuns::place() const {
  if (kind_ == Kind::branches) return str(", in branch ", taken_);
  return kind_ == Kind::loop || kind_ == Kind::loop_with_condition ? str(", at step ", row_) : std::string();
}

}  // namespace tidu::eager::detail
