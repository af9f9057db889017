// simplify.hpp - what the simplify rule of a primitive sees: the operation, what makes its operands, and
// which of them are constants. A rule returns values that equal the operation's results bit for bit, made
// with less work, or nothing. It writes with the same emitting functions as everybody else.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/graph/value.hpp"

namespace tidu {

/// An operation that reads a value, and the type of its first result.
struct ValueReader {
  Op op;        ///< what it does
  Type result;  ///< of its first result
};

/// How a rule asks about values of the graph that is being made. For whoever calls rules.
class SimplifyServices {
 public:
  virtual ~SimplifyServices() = default;
  /// Takes down what rules emit; its values are those of the graph that is being made.
  virtual Emitter& emitter() = 0;
  /// The operation that makes the value, or nothing for an input.
  virtual std::optional<Operation> maker(ValueId value) const = 0;
  /// Of one element: the element that all elements of the value equal, if that is known.
  virtual std::optional<Literal> splat(ValueId value) const = 0;
  /// What reads the value in the graph as it was; nothing where the value is an output, or where that is much
  /// (more than 64 operands).
  virtual std::optional<std::vector<ValueReader>> readers(ValueId value) const = 0;
  /// May a rule change results by what rounding, signs of zeros, infinities and NaNs make of them?
  virtual bool fast_math() const = 0;
};

/// What a simplify rule sees. It returns as many values as there are results, of the same types, or none.
///
/// Rules must be exact: the values are equal bit for bit for all operands, -0.0, infinities and NaN among
/// them (which NaN it is does not count), unless fast_math() says otherwise. Rules are called in
/// the order of the graph, when the operands are simplified already, so that looking one or two operations
/// back is enough; what a rule emits is simplified in turn. A rule must not lead back to where it came from.
class SimplifyContext {
 public:
  /// For passes.
  SimplifyContext(SimplifyServices& host, const Op& op, std::span<const Value> operands,
                  std::span<const Type> results, std::span<const bool> shared)
      : host_(host), op_(op), operands_(operands), results_(results), shared_(shared) {}

  const Op& op() const { return op_; }
  std::size_t num_operands() const { return operands_.size(); }
  /// An operand, as a value of the graph that is being made.
  Value operand(std::size_t i = 0) const { return operands_[i]; }
  std::span<const Value> operands() const { return operands_; }
  std::size_t num_results() const { return results_.size(); }
  /// Type of a result.
  Type result_type(std::size_t slot = 0) const { return results_[slot]; }
  /// Does something else read operand `i`, or is it an output of the graph? What is shared is there anyway.
  bool shared(std::size_t i = 0) const { return shared_[i]; }
  bool fast_math() const { return host_.fast_math(); }
  Emitter& emitter() const { return host_.emitter(); }

  /// The operation that makes the value, or nothing for an input. Valid until something is emitted.
  std::optional<Operation> maker(Value value) const { return host_.maker(value.id()); }
  /// The same when it is of that primitive.
  std::optional<Operation> maker(Value value, const Primitive& primitive) const {
    const std::optional<Operation> found = host_.maker(value.id());
    return found && &found->primitive() == &primitive ? found : std::nullopt;
  }
  /// An operand of what maker() gave.
  Value input(const Operation& operation, std::size_t i = 0) const {
    return Value(&host_.emitter(), operation.input(i));
  }
  /// Of one element: the element that all elements of the value equal, if that is known.
  std::optional<Literal> splat(Value value) const { return host_.splat(value.id()); }
  /// What reads the value in the graph as it was, an operation as often as it does; nothing where the value
  /// is an output, or where more than 64 do. What rules made has no readers. Linear in the size of the graph
  /// when first asked.
  std::optional<std::vector<ValueReader>> readers(Value value) const { return host_.readers(value.id()); }

 private:
  SimplifyServices& host_;
  const Op& op_;
  std::span<const Value> operands_;
  std::span<const Type> results_;
  std::span<const bool> shared_;
};

}  // namespace tidu
