// copying.cpp - see copying.hpp.
#include "graph/copying.hpp"

#include <memory>
#include <span>

#include "tidu/graph/error.hpp"

namespace tidu::detail {

OperationCopier::OperationCopier(GraphBuilder& builder, const Graph& graph, std::vector<Value>& values)
    : builder_(builder),
      graph_(graph),
      values_(values),
      same_set_(builder.primitives() == graph.primitives()),
      wheres_(graph.data().where_table.size(), no_index),
      moved_(graph.data().origins.empty() ? 0 : graph.num_operations(), no_index) {}

GraphBuilder::Extra OperationCopier::extra(const Operation& operation, const std::vector<bool>* operands) {
  const GraphData& g = graph_.data();
  const std::uint32_t i = operation.index();
  GraphBuilder::Extra extra;
  if (operation.is_linear()) {
    if (operands == nullptr && (g.roles[i] & 0x80000000U) != 0) {
      extra.role = g.roles[i];
    } else {
      const auto linear = std::make_unique<bool[]>(operation.num_inputs());
      std::size_t count = 0;
      for (std::size_t k = 0; k < operation.num_inputs(); ++k) {
        if (operands == nullptr || (*operands)[k]) linear[count++] = operation.is_linear_in(k);
      }
      extra.role = builder_.make_role(std::span<const bool>(linear.get(), count));
    }
  }
  if (!g.wheres.empty() && g.wheres[i] != no_index) {
    std::uint32_t& where = wheres_[g.wheres[i]];
    if (where == no_index) where = builder_.intern_where(g.where_table[g.wheres[i]]);
    extra.where = where;
  }
  if (operation.origin() != no_index && operation.origin() < i) extra.origin = moved_[operation.origin()];
  return extra;
}

ValueId OperationCopier::operand(std::uint32_t index, std::size_t k) const {
  const ValueId id = graph_.operation(index).input(k);
  if (values_[id].emitter() == nullptr) {
    const std::string_view name = graph_.operation(index).name();
    // The caller must give inputs and externals; a missing result of an operation is a defect.
    throw Error(graph_.producer(id) ? ErrorKind::internal : ErrorKind::invalid_argument,
                str('[', name, "] expected a value for operand ", k, " (%", id, "), got an unset one\n  ",
                    describe_operation(graph_, index)));
  }
  return values_[id].id();
}

void OperationCopier::copy(std::uint32_t index) {
  const GraphData& g = graph_.data();
  const OperationRecord& record = g.operations[index];
  const Operation operation = graph_.operation(index);
  ids_.clear();
  for (std::size_t k = 0; k < operation.num_inputs(); ++k) ids_.push_back(operand(index, k));
  const GraphBuilder::Extra more = extra(operation, nullptr);
  ValueId first = 0;
  if (same_set_) {
    first =
        builder_.add_typed(record.op, ids_, g.types.data() + record.first_output, record.num_outputs, more);
  } else {
    first = builder_.add(builder_.resolve(Op::of(record.op)).record(), ids_, more);
  }
  if (!moved_.empty()) moved_[index] = builder_.data().producers[first];
  for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
    values_[record.first_output + slot] = Value(&builder_, first + slot);
}

void OperationCopier::replace(std::uint32_t index, const Op& op, const std::vector<bool>& operands,
                              const std::vector<bool>& results) {
  const Operation operation = graph_.operation(index);
  ids_.clear();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]) ids_.push_back(operand(index, i));
  }
  ValueId next = builder_.add(op.record(), ids_, extra(operation, &operands));
  if (!moved_.empty()) moved_[index] = builder_.data().producers[next];
  for (std::size_t slot = 0; slot < results.size(); ++slot) {
    if (results[slot]) values_[operation.output(slot)] = Value(&builder_, next++);
  }
}

void OperationCopier::extend(std::uint32_t index, const Op& op, std::size_t at, Value operand) {
  const Operation operation = graph_.operation(index);
  const std::size_t count = operation.num_inputs() + 1;
  GraphBuilder::Extra more = extra(operation, nullptr);
  const auto linear = std::make_unique<bool[]>(count);
  ids_.clear();
  for (std::size_t i = 0, from = 0; i < count; ++i) {
    if (i == at) {
      ids_.push_back(operand.id());
      continue;
    }
    linear[i] = operation.is_linear() && operation.is_linear_in(from);
    ids_.push_back(this->operand(index, from++));
  }
  if (operation.is_linear()) more.role = builder_.make_role(std::span<const bool>(linear.get(), count));
  const ValueId first = builder_.add(op.record(), ids_, more);
  if (!moved_.empty()) moved_[index] = builder_.data().producers[first];
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
    const auto id = static_cast<ValueId>(first + slot);
    values_[operation.output(slot)] = Value(&builder_, id);
  }
}

}  // namespace tidu::detail
