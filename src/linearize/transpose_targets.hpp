// transpose_targets.hpp - the emitters of transpose rules: a GraphBuilder, or an emitter of the user.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "linearize/rule_call.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::detail {

// Rules emit through this; ids are those of the target. It knows which values are linear (depend on a
// cotangent).
class Target : public Emitter {
 public:
  explicit Target(const Graph& graph) : graph_(graph) {}
  const PrimitiveSet& primitives() const override { return graph_.primitives(); }
  /// A value of the caller's, linear or not, as a value of this emitter.
  virtual Value enter(Value value, bool is_linear) = 0;
  /// The caller's value of a value of this emitter.
  virtual Value leave(Value value) = 0;
  virtual bool is_linear(Value value) const = 0;
  std::uint32_t current = no_index;

 protected:
  void check(const Op& op, std::span<const Value> operands) {
    flags_.clear();
    any_linear_ = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].is_of(*this)) refuse_foreign(op, operands, i);
      flags_.push_back(is_linear(operands[i]) ? 1 : 0);
      any_linear_ = any_linear_ || flags_.back() != 0;
    }
    if (any_linear_ && !op.primitive().linearity.allows(flags())) refuse_nonlinear(op);
  }
  [[noreturn]] void refuse_foreign(const Op& op, std::span<const Value> operands, std::size_t i) const {
    throw Error(ErrorKind::invalid_argument,
                str('[', op.name(), "] expected operand ", i, " to be a value of the rule that runs, got ",
                    foreign_value(operands[i])));
  }
  [[noreturn]] void refuse_nonlinear(const Op& op) const {
    raise_rule_error(RuleKind::transpose, graph_, current,
                     str("expected operations that are linear in the cotangents, got ", op.name(),
                         " with cotangents where it is not linear"));
  }
  std::span<const bool> flags() const {
    return {reinterpret_cast<const bool*>(flags_.data()), flags_.size()};
  }
  const Graph& graph_;
  std::vector<char> flags_;
  bool any_linear_ = false;
};

// Emits into a GraphBuilder, with roles and origins. The top bit of an id says that the value is linear: the
// bit belongs to the handle and not to the value in the graph, since a seed may be merged with a constant
// that a rule uses. The next bit marks the negative of the value, see Note [Signs].
//
// Note [Signs]: a negation of a cotangent is not emitted but carried through every operation that is linear
// in it. It is applied where cotangents are summed, a + (-b) being a - b, or where the cotangent leaves. So
// transposing a subtraction costs nothing. Operations that hold graphs get the negated cotangent itself: a
// user's backward rule in them need not be odd (a clipped cotangent, a constant part).
class BuilderTarget final : public Target {
 public:
  BuilderTarget(const Graph& graph, GraphBuilder& builder) : Target(graph), builder_(builder) {
    const PrimitiveSet::TransformOps& transform_ops = graph.primitives().transform_ops();
    if (transform_ops.neg == nullptr || transform_ops.sub == nullptr) return;
    neg_op_ = Op::make(*transform_ops.neg);
    sub_op_ = Op::make(*transform_ops.sub);
  }
  Type type_of(ValueId id) const override { return builder_.type_of(id & ~bits); }
  Value enter(Value value, bool is_linear) override {
    return Value(this, value.id() | (is_linear ? linear_bit : 0));
  }
  Value leave(Value value) override { return Value(&builder_, settled(value.id())); }
  bool is_linear(Value value) const override { return (value.id() & linear_bit) != 0; }

  Values emit(const Op& op, std::span<const Value> operands, Where) override {
    const Value first = emit_one(op, operands, {});
    return results_from(first, builder_, first.id() & ~bits);
  }

  Value emit_one(const Op& op, std::span<const Value> operands, Where) override {
    if (!builder_.primitives().contains(&op.primitive())) return emit_one(builder_.resolve(op), operands, {});
    ids_.resize(operands.size());
    std::uint32_t mask = 0;
    ValueId all = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].is_of(*this)) refuse_foreign(op, operands, i);
      const ValueId id = operands[i].id();
      ids_[i] = id & ~bits;
      all |= id;
      if (i < 32) mask |= (id >> 31) << i;
    }
    if (neg_op_ && (all & linear_bit) != 0 && op.record() == neg_op_->record())
      return Value(this, operands[0].id() ^ minus_bit);
    if ((all & minus_bit) != 0) {
      if (neg_op_ && is_sum_of_two_signs(op, operands)) {
        const std::size_t positive = (operands[0].id() & minus_bit) != 0 ? 1 : 0;
        const Value a = operands[positive], b(this, operands[1 - positive].id() & ~minus_bit);
        return emit_one(*sub_op_, std::array{a, b}, {});
      }
      if (op.primitive().has_trait(Trait::holds_graph) || !all_linear_are_negative(operands))
        return emit_one(op, settled(operands), {});
    }
    GraphBuilder::Extra extra;
    if ((all & linear_bit) != 0) {
      if (operands.size() <= 31) {
        if (!op.primitive().linearity.allows_mask(mask)) refuse_nonlinear(op);
        extra.role = 0x80000000U | mask;
      } else {
        check(op, operands);
        extra.role = builder_.make_role(flags());
      }
    }
    extra.origin = origin_of_current();
    return Value(this, builder_.add(op.record(), ids_, extra) | (all & bits));
  }
  const std::vector<std::uint32_t>* origin_map = nullptr;

 private:
  static constexpr ValueId linear_bit = 0x80000000U, minus_bit = 0x40000000U, bits = linear_bit | minus_bit;

  std::uint32_t origin_of_current() const {
    if (current == no_index) return no_index;
    const std::uint32_t origin = graph_.operation(current).origin();
    return origin_map == nullptr || origin == no_index ? origin : (*origin_map)[origin];
  }
  bool is_sum_of_two_signs(const Op& op, std::span<const Value> operands) const {
    return &op.primitive() == primitives().add() && is_linear(operands[0]) && is_linear(operands[1]) &&
           ((operands[0].id() ^ operands[1].id()) & minus_bit) != 0;
  }
  // f(-a, -b) = -f(a, b)
  bool all_linear_are_negative(std::span<const Value> operands) const {
    return std::all_of(operands.begin(), operands.end(), [](const Value& v) {
      return (v.id() & linear_bit) == 0 || (v.id() & minus_bit) != 0;
    });
  }
  // The builder's id of a value; a negative one is written down.
  ValueId settled(ValueId id) {
    if ((id & minus_bit) == 0) return id & ~bits;
    const std::array operand{id & ~bits};
    const GraphBuilder::Extra extra{.role = linear_bit | 1U, .origin = origin_of_current()};
    return builder_.add(neg_op_->record(), operand, extra);
  }
  std::vector<Value> settled(std::span<const Value> operands) {
    std::vector<Value> all;
    for (const Value& v : operands) all.emplace_back(this, settled(v.id()) | (v.id() & linear_bit));
    return all;
  }
  GraphBuilder& builder_;
  std::optional<Op> neg_op_, sub_op_;  // if the set has neg and sub
  std::vector<ValueId> ids_;
};

// Passes everything on to an emitter of the user's; ids are positions in a table.
class ForwardTarget final : public Target {
 public:
  ForwardTarget(const Graph& graph, Emitter& emitter) : Target(graph), emitter_(emitter) {}
  Type type_of(ValueId id) const override { return values_[id].type(); }
  Value enter(Value value, bool is_linear) override {
    values_.push_back(value);
    linear_.push_back(is_linear ? 1 : 0);
    return Value(this, static_cast<ValueId>(values_.size() - 1));
  }
  Value leave(Value value) override { return values_[value.id()]; }
  bool is_linear(Value value) const override { return linear_[value.id()] != 0; }
  Values emit(const Op& op, std::span<const Value> operands, Where where) override {
    check(op, operands);
    const bool result_is_linear = any_linear_;
    std::vector<Value> outer;
    for (const Value& value : operands) outer.push_back(leave(value));
    Values results = emitter_.emit(op, outer, where);
    for (Value& value : results) value = enter(value, result_is_linear);
    return results;
  }

 private:
  Emitter& emitter_;
  std::vector<Value> values_;
  std::vector<char> linear_;
};

}  // namespace tidu::detail
