// simplify.hpp - the argument of a primitive's simplify rule: the operation, the producers of its operands,
// and which of them are constants. A rule returns values that equal the operation's results bit for bit, made
// with less work, or nothing. It emits operations by the same functions as all other code.
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
  Op op;        ///< the operation
  Type result;  ///< of its first result
};

/// The graph that is being made, as SimplifyContext reads it. Passes that call rules implement it.
class SimplifyServices {
 public:
  virtual ~SimplifyServices() = default;
  /// Emits the operations of rules; its values are those of the graph that is being made.
  virtual Emitter& emitter() = 0;
  /// The producer of the value, or nothing for an input.
  virtual std::optional<Operation> producer(ValueId value) const = 0;
  /// The element that all elements of the value equal, as a literal of one element, if that is known.
  virtual std::optional<Literal> splat(ValueId value) const = 0;
  /// The operations that read the value in the original graph. Nothing if the value is an output or more than
  /// 64 operands read it.
  virtual std::optional<std::vector<ValueReader>> readers(ValueId value) const = 0;
  /// May a rule change rounding, signs of zeros, and results at infinities and NaNs?
  virtual bool fast_math() const = 0;
};

/// The argument of a simplify rule. The rule returns as many values as there are results, of the same types,
/// or none.
///
/// Rules must be exact: the values are equal bit for bit for all operands, including -0.0, infinities and NaN
/// (except which NaN it is), unless fast_math() says otherwise. Rules are called in the order of the graph,
/// when the operands are simplified already: a rule looks one or two operations back. The operations that a
/// rule emits are simplified in turn. A rule must not return to a form that another rule rewrites to its own.
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
  /// Is operand `i` an output of the graph, or has it other readers? A shared value is computed in any case.
  bool shared(std::size_t i = 0) const { return shared_[i]; }
  bool fast_math() const { return host_.fast_math(); }
  Emitter& emitter() const { return host_.emitter(); }

  /// The producer of the value, or nothing for an input. Valid until an operation is emitted.
  std::optional<Operation> producer(Value value) const { return host_.producer(value.id()); }
  /// The same if it is of that primitive.
  std::optional<Operation> producer(Value value, const Primitive& primitive) const {
    const std::optional<Operation> found = host_.producer(value.id());
    return found && &found->primitive() == &primitive ? found : std::nullopt;
  }
  /// The former name.
  [[deprecated("use producer")]] std::optional<Operation> maker(Value value) const { return producer(value); }
  /// The former name.
  [[deprecated("use producer")]] std::optional<Operation> maker(Value value,
                                                                const Primitive& primitive) const {
    return producer(value, primitive);
  }
  /// An operand of a producer.
  Value input(const Operation& operation, std::size_t i = 0) const {
    return Value(&host_.emitter(), operation.input(i));
  }
  /// The element that all elements of the value equal, as a literal of one element, if that is known.
  std::optional<Literal> splat(Value value) const { return host_.splat(value.id()); }
  /// The operations that read the value in the original graph; one that reads it in several operands is
  /// listed as often. Nothing if the value is an output or more than 64 operands read it. Values that rules
  /// made have no readers. The first call is linear in the size of the graph.
  std::optional<std::vector<ValueReader>> readers(Value value) const { return host_.readers(value.id()); }

 private:
  SimplifyServices& host_;
  const Op& op_;
  std::span<const Value> operands_;
  std::span<const Type> results_;
  std::span<const bool> shared_;
};

}  // namespace tidu
