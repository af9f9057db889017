// linearize.cpp - one sweep over the operations on a path from wrt to an output. The Linearizer is the
// emitter that rules see: ids with the top bit are values of the linear graph, the others of the augmented
// primal graph; an operation with an operand of the first kind is linear, and primal operands of it become
// externals.
#include "tidu/linearize/linearize.hpp"

#include <algorithm>
#include <array>

#include "graph/known_zeros.hpp"
#include "linearize/rule_call.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

using detail::RuleKind;

constexpr ValueId linear_bit = 0x80000000U;

std::vector<std::size_t> resolve_wrt(const Graph& graph, const LinearizeOptions& options) {
  std::vector<std::size_t> wrt;
  if (!options.wrt) {
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      if (is_inexact(graph.type(graph.inputs()[i]).dtype())) wrt.push_back(i);
    }
    return wrt;
  }
  std::vector<bool> seen(graph.inputs().size(), false);
  for (const std::size_t i : *options.wrt) {
    if (i >= graph.inputs().size()) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("linearize: expected an input of ", detail::in_quotes(graph.name()), " below ",
                              graph.inputs().size(), " in wrt, got ", i));
    }
    if (seen[i]) {
      throw Error(ErrorKind::invalid_argument, detail::str("linearize: expected each input once in wrt, got ",
                                                           detail::printable(graph.input_name(i)), " twice"));
    }
    seen[i] = true;
    const Type type = graph.type(graph.inputs()[i]);
    if (!is_inexact(type.dtype())) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("linearize: expected a floating or complex input in wrt, got ",
                              detail::printable(graph.input_name(i)), " of type ", type));
    }
    wrt.push_back(i);
  }
  return wrt;
}

// Why a rule may not return this value as the tangent of result `slot`, which has this type; empty: it may.
// `is_tangent`: does the value depend linearly on tangents of this emitter?
std::string fault_of_tangent(const Value& tangent, const Emitter& emitter, bool is_tangent, Type type,
                             std::size_t slot) {
  if (!is_tangent) {
    return detail::str("expected tangent ", slot, " to depend linearly on the operands' tangents, got ",
                       tangent.is_of(emitter) ? "a primal value" : "a value of another emitter");
  }
  if (tangent.type() == type && is_inexact(type.dtype())) return {};
  return detail::str("expected ",
                     is_inexact(type.dtype()) ? "a tangent of type " : "no tangent for a result of type ",
                     type, ", got ", tangent.type());
}

// The operations that have to be differentiated: a tangent reaches them, and one of their tangents can reach
// an output. Both sweeps take time linear in the graph.
struct ActiveOperations {
  FlatArray<char> active;  // by operation
  std::size_t count = 0;
  bool any_holds_graph = false;  // of all operations of the graph
};

ActiveOperations find_active(const GraphData& g, std::span<const std::size_t> wrt) {
  ActiveOperations found;
  FlatArray<char> forward(g.types.size(), 0);
  FlatArray<char> backward(g.types.size(), 0);
  found.active.assign(g.operations.size(), 0);
  for (const std::size_t i : wrt) forward[g.inputs[i]] = 1;
  for (const OperationRecord& record : g.operations) {
    if (record.op->primitive->has_trait(Trait::holds_graph)) found.any_holds_graph = true;
    const ValueId* operands = g.operands.data() + record.first_input;
    bool reached = false;
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) reached = reached || forward[operands[k]] != 0;
    if (!reached) continue;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
      const ValueId id = record.first_output + slot;
      forward[id] = is_inexact(g.types[id].dtype()) ? 1 : 0;
    }
  }
  for (const ValueId id : g.outputs) backward[id] = forward[id];
  for (std::size_t i = g.operations.size(); i-- > 0;) {
    const OperationRecord& record = g.operations[i];
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
      if (backward[record.first_output + slot] != 0) found.active[i] = 1;
    }
    if (found.active[i] == 0) continue;
    ++found.count;
    const ValueId* operands = g.operands.data() + record.first_input;
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
      if (forward[operands[k]] != 0) backward[operands[k]] = 1;
    }
  }
  return found;
}

// Tells which values of a graph that grows are zero by their making. Each operation is looked at once.
class KnownZeros {
 public:
  bool is_zero(const GraphData& g, ValueId id) {
    zero_.resize(g.types.size(), 0);
    for (; next_ < g.operations.size(); ++next_) {
      const Operation operation(g, next_);
      if (!detail::gives_zeros(operation, [&](std::size_t k) { return zero_[operation.input(k)] != 0; }))
        continue;
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) zero_[operation.output(slot)] = 1;
    }
    return zero_[id] != 0;
  }

 private:
  std::vector<char> zero_;  // by value
  std::uint32_t next_ = 0;  // the first operation that was not looked at
};

class Linearizer final : public Emitter, public detail::InnerServices {
 public:
  Linearizer(const Graph& graph, const LinearizeOptions& options, detail::InnerGraphs* inner)
      : InnerServices(options.context, inner),
        graph_(graph),
        context_(options.context),
        wrt_(resolve_wrt(graph, options)),
        active_(find_active(graph.data(), wrt_)),
        copies_primal_(!active_.any_holds_graph && !graph.data().may_repeat),
        linear_(graph.name(), graph.primitives(), {.deduplicate = true, .record_where = false}) {
    if (copies_primal_) {
      augmented_ = GraphBuilder::extending(graph, {.deduplicate = true, .record_where = false});
    } else {
      start_rebuilding();
    }
    externals_.assign(augmented_->num_values(), no_index);
    tangents_.assign(graph.num_values(), no_index);
    linear_.reserve(2 * active_.count + 16, 2 * active_.count + 16, 4 * active_.count + 16);
  }

  Linearization run() {
    const Key128 instance = detail::fresh_instance();
    for (std::size_t k = 0; k < wrt_.size(); ++k) {
      const ValueId id = graph_.inputs()[wrt_[k]];
      const std::string label =
          graph_.label(id).empty() ? std::string() : std::string(graph_.label(id)) + ".tangent";
      tangents_[id] =
          linear_.input(InputKey::tangent(graph_.key(id), instance, k), graph_.type(id), label).id();
    }
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      current_ = i;
      // The rule of an operation that holds a graph replaces it by another one.
      const bool replaced =
          active_.active[i] != 0 && graph_.operation(i).primitive().has_trait(Trait::holds_graph);
      if (!copies_primal_ && !replaced) copy_operation(i);
      if (active_.active[i] != 0) differentiate(i);
      if (replaced && value_map_[graph_.operation(i).output()] == no_index) copy_operation(i);
    }
    return finish();
  }

  // --- Emitter, for rules
  Type type_of(ValueId id) const override {
    return (id & linear_bit) != 0 ? linear_.type_of(id & ~linear_bit) : augmented_->type_of(id);
  }
  const PrimitiveSet& primitives() const override { return graph_.primitives(); }

  Values emit(const Op& op, std::span<const Value> operands, Where) override {
    const Value first = emit_one(op, operands, {});
    const GraphBuilder& builder = (first.id() & linear_bit) != 0 ? linear_ : *augmented_;
    return detail::results_from(first, builder, first.id() & ~linear_bit);
  }

  Value emit_one(const Op& op, std::span<const Value> operands, Where) override {
    if (!primitives().contains(&op.primitive())) return emit_one(linear_.resolve(op), operands, {});
    ids_.resize(operands.size());
    ValueId all = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].is_of(*this)) {
        throw Error(ErrorKind::invalid_argument, detail::str('[', op.name(), "] expected operand ", i,
                                                             " to be a value of the rule that runs, got ",
                                                             detail::foreign_value(operands[i])));
      }
      ids_[i] = operands[i].id();
      all |= ids_[i];
    }
    GraphBuilder::Extra extra;
    if ((all & linear_bit) == 0) {
      extra.origin = copies_primal_ ? current_ : origin_map_[current_];
      return Value(this, augmented_->add(op.record(), ids_, extra));
    }
    extra.origin = current_;
    extra.role = import_operands(op);
    return Value(this, linear_.add(op.record(), ids_, extra) | linear_bit);
  }

  // --- RuleServices
  void replace_results(std::span<const Value> results) override {
    const Operation operation = graph_.operation(current_);
    if (results.size() != operation.num_outputs()) {
      rule_error(detail::str("expected ", operation.num_outputs(),
                             " results in the place of the primal ones, got ", results.size()));
    }
    for (std::size_t slot = 0; slot < results.size(); ++slot) {
      if (!results[slot].is_of(*this) || (results[slot].id() & linear_bit) != 0 ||
          results[slot].type() != graph_.type(operation.output(slot))) {
        rule_error(detail::str("expected a primal value of type ", graph_.type(operation.output(slot)),
                               " to replace result ", slot));
      }
      value_map_[operation.output(slot)] = results[slot].id();
    }
    const std::uint32_t producer = augmented_->data().producers[results[0].id()];
    origin_map_[current_] = producer < GraphData::from_external ? producer : no_index;
  }

 private:
  [[noreturn]] void rule_error(const std::string& message) const {
    detail::raise_rule_error(RuleKind::jvp, graph_, current_, message);
  }

  void start_rebuilding() {
    augmented_ = std::make_unique<GraphBuilder>(graph_.name(), graph_.primitives());
    value_map_.assign(graph_.num_values(), no_index);
    origin_map_.assign(graph_.num_operations(), no_index);
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      value_map_[id] = augmented_->input(graph_.input_key(i), graph_.type(id), graph_.label(id)).id();
    }
    for (const ValueId id : graph_.externals())
      value_map_[id] = augmented_->external(graph_.key(id), graph_.type(id)).id();
  }

  void copy_operation(std::uint32_t index) {
    const OperationRecord& record = graph_.data().operations[index];
    const Operation operation = graph_.operation(index);
    GraphBuilder::Extra extra;
    if (!operation.where().empty()) extra.where = augmented_->intern_where(operation.where());
    if (operation.is_linear()) {
      linear_flags_.assign(record.num_inputs, 0);
      for (std::size_t k = 0; k < record.num_inputs; ++k)
        linear_flags_[k] = operation.is_linear_in(k) ? 1 : 0;
      extra.role = augmented_->make_role(flags());
    }
    if (operation.origin() != no_index && operation.origin() < index)
      extra.origin = origin_map_[operation.origin()];
    ids_.clear();
    for (const ValueId id : operation.inputs()) ids_.push_back(value_map_[id]);
    const ValueId first = augmented_->add_typed(
        record.op, ids_, graph_.data().types.data() + record.first_output, record.num_outputs, extra);
    origin_map_[index] = augmented_->data().producers[first];
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
      value_map_[record.first_output + slot] = first + slot;
  }

  std::span<const bool> flags() const {
    static_assert(sizeof(bool) == 1);
    return {reinterpret_cast<const bool*>(linear_flags_.data()), linear_flags_.size()};
  }

  // Turns ids_ into ids of the linear graph and returns the role.
  std::uint32_t import_operands(const Op& op) {
    std::uint32_t mask = 0;
    const PrimitiveSet::TransformOps& transform_ops = primitives().transform_ops();
    if (&op.primitive() == transform_ops.add || &op.primitive() == transform_ops.sub) require_zeros(op);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      ValueId& id = ids_[i];
      if ((id & linear_bit) != 0) {
        if (i < 32) mask |= 1U << i;
        id &= ~linear_bit;
        continue;
      }
      if (id >= externals_.size()) {
        externals_.resize(augmented_->num_values() + augmented_->num_values() / 2, no_index);
      }
      ValueId& external = externals_[id];
      if (external == no_index) {
        external = linear_.add_external(augmented_->data().keys[id], augmented_->type_of(id));
        residuals_.push_back(id);
      }
      id = external;
    }
    if (ids_.size() <= 31) {
      if (!op.primitive().linearity.allows_mask(mask)) refuse_operands(op);
      return 0x80000000U | mask;
    }
    // Many operands: those that are not externals are linear.
    linear_flags_.assign(ids_.size(), 0);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      linear_flags_[i] = linear_.data().producers[ids_[i]] != GraphData::from_external ? 1 : 0;
    }
    if (!op.primitive().linearity.allows(flags())) refuse_operands(op);
    return linear_.make_role(flags());
  }

  // A term of a sum with a tangent that is no tangent itself has to be zero: otherwise the tangent would be
  // affine, and reverse mode would lose the constant. In other operations that are linear in several operands
  // jointly, such as a pad, such an operand may be masked out later.
  void require_zeros(const Op& op) {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if ((ids_[i] & linear_bit) != 0 || zeros_.is_zero(augmented_->data(), ids_[i])) continue;
      rule_error(detail::str("expected operations that are linear in the tangents, got ", op.name(),
                             " of a tangent and of operand ", i,
                             ", which depends on none and is not zero by its making"));
    }
  }

  [[noreturn]] void refuse_operands(const Op& op) const {
    rule_error(detail::str("expected operations that are linear in the tangents, got ", op.name(),
                           " with tangents where it is not linear"));
  }

  Value primal_value(ValueId id) {
    const ValueId mapped = copies_primal_ ? id : value_map_[id];
    return mapped == no_index ? Value() : Value(this, mapped);
  }

  void differentiate(std::uint32_t index) {
    const Operation operation = graph_.operation(index);
    primals_.clear();
    operand_tangents_.clear();
    results_.clear();
    for (const ValueId id : operation.inputs()) {
      primals_.push_back(primal_value(id));
      operand_tangents_.push_back(tangents_[id] == no_index ? Value()
                                                            : Value(this, tangents_[id] | linear_bit));
    }
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      results_.push_back(primal_value(operation.output(slot)));
    // All tangents may have turned out absent.
    if (std::all_of(operand_tangents_.begin(), operand_tangents_.end(),
                    [](const Value& t) { return t.emitter() == nullptr; }))
      return;

    const Primitive& primitive = operation.primitive();
    if (!primitive.differentiable()) {
      if (primitive.has_trait(Trait::no_tangent)) return;
      rule_error("expected a jvp rule, got a record without one");
    }
    const Op op = operation.op();
    const detail::RuleFrame frame{op, *this, *this, context_};
    JvpContext rule_context(frame, primals_, operand_tangents_, results_);
    const Derivatives derivatives = detail::in_rule(RuleKind::jvp, graph_, index, [&] {
      return primitive.jvp != nullptr ? primitive.jvp(rule_context)
                                      : jvp_of_linear(rule_context, primitive.linearity);
    });
    accept(operation, derivatives);
  }

  void accept(const Operation& operation, const Derivatives& derivatives) {
    if (derivatives.size() != operation.num_outputs()) {
      rule_error(detail::str("expected ", operation.num_outputs(), " tangents from the jvp rule, got ",
                             derivatives.size()));
    }
    for (std::size_t slot = 0; slot < derivatives.size(); ++slot) {
      if (derivatives.unset(slot)) rule_error(detail::unset_derivative("tangent", slot));
      const std::optional<Value> tangent = derivatives[slot];
      if (!tangent) continue;
      const Type type = graph_.type(operation.output(slot));
      const bool is_tangent = tangent->is_of(*this) && (tangent->id() & linear_bit) != 0;
      if (const std::string fault = fault_of_tangent(*tangent, *this, is_tangent, type, slot); !fault.empty())
        rule_error(fault);
      tangents_[operation.output(slot)] = tangent->id() & ~linear_bit;
    }
  }

  // The JVP that follows from linearity. Joint: f(t0, t1, …), zeros for absent ones. Bilinear: f(t0, y) +
  // f(x, t1).
  Derivatives jvp_of_linear(const JvpContext& c, const Linearity& spec) {
    for (std::size_t i = 0; i < c.primals().size(); ++i) {
      if (c.active(i) && !spec.includes(i))
        rule_error(detail::str("expected a jvp rule for operand ", i, ", in which the record is not linear"));
    }
    std::vector<Value> operands(c.primals().begin(), c.primals().end());
    if (spec.kind == Linearity::Kind::joint) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!spec.includes(i)) continue;
        operands[i] = c.active(i) ? *c.tangent(i) : zeros(*this, operands[i].type());
      }
      Derivatives all;
      for (const Value& value : emit(c.op(), operands, {})) {
        all.push_back(is_inexact(value.dtype()) ? std::optional<Value>(value) : std::nullopt);
      }
      return all;
    }
    std::optional<Value> sum;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!c.active(i)) continue;
      operands[i] = *c.tangent(i);
      const Value term = emit_one(c.op(), operands, {});
      operands[i] = c.primal(i);
      sum = sum ? emit_one(sum_op(), std::array{*sum, term}, {}) : term;
    }
    return sum;
  }

  const Op& sum_op() {
    if (!sum_op_) {
      if (primitives().add() == nullptr)
        rule_error("expected a primitive set that names the primitive that adds");
      sum_op_ = Op::make(*primitives().add());
    }
    return *sum_op_;
  }

  Linearization finish() {
    Linearization result;
    std::vector<ValueId> tangent_ids;
    std::vector<ValueId> primal_outputs;
    for (const ValueId id : graph_.outputs()) {
      primal_outputs.push_back(copies_primal_ ? id : value_map_[id]);
      if (tangents_[id] == no_index) {
        result.tangent_of_output.push_back(std::nullopt);
      } else {
        result.tangent_of_output.push_back(tangent_ids.size());
        tangent_ids.push_back(tangents_[id]);
      }
    }
    result.primal = graph_;
    result.augmented = augmented_->build_ids(std::move(primal_outputs));
    result.linear = linear_.build_ids(std::move(tangent_ids));
    result.value_map = std::move(value_map_);
    result.residuals = std::move(residuals_);
    result.wrt = std::move(wrt_);
    return result;
  }

  const Graph& graph_;
  ADContext* context_;
  std::vector<std::size_t> wrt_;
  const ActiveOperations active_;
  const bool copies_primal_;  // else it is rebuilt, operation by operation
  std::unique_ptr<GraphBuilder> augmented_;
  GraphBuilder linear_;
  std::vector<ValueId> value_map_;         // when rebuilding: primal -> augmented
  std::vector<std::uint32_t> origin_map_;  // when rebuilding: primal operation -> augmented operation
  FlatArray<ValueId> externals_;           // augmented -> external of linear
  std::vector<ValueId> residuals_;         // external of linear -> augmented
  FlatArray<ValueId> tangents_;            // primal -> linear
  std::uint32_t current_ = 0;
  std::optional<Op> sum_op_;
  KnownZeros zeros_;  // of augmented
  // scratch
  std::vector<ValueId> ids_;
  std::vector<char> linear_flags_;
  std::vector<Value> primals_, operand_tangents_, results_;
};

}  // namespace

Linearization linearize(const Graph& graph, const LinearizeOptions& options) {
  return Linearizer(graph, options, nullptr).run();
}

Linearization detail::linearize_inner(const Graph& graph, const LinearizeOptions& options,
                                      InnerGraphs& inner) {
  return Linearizer(graph, options, &inner).run();
}

Result<Linearization> try_linearize(const Graph& graph, const LinearizeOptions& options) {
  return detail::capture([&] { return linearize(graph, options); });
}

}  // namespace tidu
