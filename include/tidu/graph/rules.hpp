// rules.hpp - the arguments of a primitive's rules, JvpContext, TransposeContext and BatchContext, and their
// results. A rule emits operations by the same functions as all other code. Operations on tangents or
// cotangents are linear and go to the linear graph. Operations on primal values alone are residual and go to
// the augmented primal graph. The caller of a rule checks the number and types of its results.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/value.hpp"

namespace tidu {

/// A frontend's own context, passed by mutable reference to every rule. tidu reads only its cache_key. A
/// backward call with workers or devices runs rules on several threads, which may share one context: they
/// must lock the parts that they change.
class ADContext {
 public:
  virtual ~ADContext() = default;
  /// The key under which linearizations with this context may be cached; without one every linearization is
  /// made anew. For a recorded graph, recorders and backward each keep the linearizations of the first 64
  /// keys.
  virtual std::optional<Key128> cache_key() const { return std::nullopt; }
};

/// Tangents or cotangents, one per result or operand. An absent one (std::nullopt) is a zero that was never
/// made. A default-constructed Value is neither: transforms reject it as forgotten by the rule.
class Derivatives {
 public:
  Derivatives() = default;
  /// One that is there.
  Derivatives(Value value) : values_(value) {}
  /// One that is absent.
  Derivatives(std::nullopt_t) : values_(absent_value()) {}
  /// One.
  Derivatives(const std::optional<Value>& value) : values_(value.value_or(absent_value())) {}
  Derivatives(std::initializer_list<std::optional<Value>> values) {
    for (const auto& value : values) push_back(value);
  }
  Derivatives(const std::vector<std::optional<Value>>& values) {
    for (const auto& value : values) push_back(value);
  }
  /// `count` absent ones.
  static Derivatives absent(std::size_t count) {
    Derivatives none;
    none.values_.resize(count);
    std::fill(none.values_.begin(), none.values_.end(), absent_value());
    return none;
  }
  void push_back(const std::optional<Value>& value) { values_.push_back(value.value_or(absent_value())); }
  /// Replaces one.
  void set(std::size_t i, const std::optional<Value>& value) { values_[i] = value.value_or(absent_value()); }
  std::size_t size() const { return values_.size(); }
  std::optional<Value> operator[](std::size_t i) const {
    return values_[i].emitter() == nullptr ? std::nullopt : std::optional<Value>(values_[i]);
  }
  /// Is it a default-constructed Value?
  bool unset(std::size_t i) const { return values_[i] == Value(); }

 private:
  static Value absent_value() { return {nullptr, ~ValueId{0}}; }
  Values values_;
};

/// linearize of a graph that an operation holds, in closed form: residuals are outputs and inputs.
struct InnerLinearization {
  Graph primal;  ///< outputs: those of the graph, then the residuals
  Graph linear;  ///< inputs: the residuals, then the tangents of the active inputs; outputs: tangents that
                 ///< are there
  std::size_t num_residuals;  ///< of its results and inputs
  std::vector<std::optional<std::size_t>>
      tangent_of_output;  ///< by output of the graph: position in linear's outputs
};
/// linear_transpose of a graph that an operation holds.
struct InnerTransposition {
  Graph graph;  ///< inputs: the inputs that are not linear, then one cotangent per seeded output; outputs:
                ///< cotangents that are there
  std::vector<std::optional<std::size_t>>
      cotangent_of_input;  ///< by input of the linear graph: position in graph's outputs
};

/// batch of a graph that an operation holds.
struct InnerBatching {
  Graph graph;  ///< inputs and outputs as the graph's, with the axis where it is carried
  std::vector<bool> batched_outputs;  ///< by output: does it carry the axis?
};

/// How a rule reaches the transform that called it, for operations that hold graphs.
class RuleServices {
 public:
  virtual ~RuleServices() = default;
  /// Linearizes a graph that the operation holds, with respect to its active inputs.
  virtual InnerLinearization linearize(const Graph& graph, const std::vector<bool>& active) = 0;
  /// The transpose of a linear graph by those inputs, given cotangents of those outputs.
  virtual InnerTransposition transpose(const Graph& graph, const std::vector<bool>& linear_inputs,
                                       const std::vector<bool>& seeded_outputs) = 0;
  /// Every output of the result carries the leading axis.
  virtual Graph batch(const Graph& graph, const std::vector<bool>& batched_inputs, std::int64_t size) = 0;
  /// Outputs that depend on no batched input are without the axis.
  virtual InnerBatching batch_reached(const Graph& graph, const std::vector<bool>& batched_inputs,
                                      std::int64_t size) = 0;
  /// Services that outlive the transform, without its context: for graphs that are made on demand.
  virtual std::shared_ptr<RuleServices> later() const = 0;
  /// Does the transform hold sums of 16-bit cotangents in f32 (TransposeOptions::wide_accumulation)? For
  /// transpose rules that add cotangents themselves, as those of loops do.
  virtual bool wide_accumulation() const { return true; }
  /// Replaces the results of the primal operation whose rule is running by `results`.
  virtual void replace_results(std::span<const Value> results) = 0;
};

namespace detail {
struct RuleFrame {  // shared by all contexts
  const Op& op;
  RuleServices& host;
  Emitter& emitter;
  ADContext* context;
};
}  // namespace detail

/// The argument of a JVP rule.
class JvpContext {
 public:
  /// For transforms.
  JvpContext(const detail::RuleFrame& frame, std::span<const Value> primals, std::span<const Value> tangents,
             std::span<const Value> results)
      : frame_(frame), primals_(primals), tangents_(tangents), results_(results) {}

  const Op& op() const { return frame_.op; }
  std::size_t num_operands() const { return primals_.size(); }
  /// Value of an operand.
  Value primal(std::size_t i) const { return primals_[i]; }
  std::span<const Value> primals() const { return primals_; }
  /// Result of the primal operation.
  Value result(std::size_t slot = 0) const { return results_[slot]; }
  std::span<const Value> results() const { return results_; }
  /// Has the operand a tangent?
  bool active(std::size_t i) const { return tangents_[i].emitter() != nullptr; }
  /// The operand's tangent, when there is one.
  std::optional<Value> tangent(std::size_t i) const {
    return active(i) ? std::optional<Value>(tangents_[i]) : std::nullopt;
  }
  Emitter& emitter() const { return frame_.emitter; }
  RuleServices& host() const { return frame_.host; }
  ADContext* context() const { return frame_.context; }

 private:
  const detail::RuleFrame& frame_;
  std::span<const Value> primals_;
  std::span<const Value> tangents_;  // default-constructed: absent
  std::span<const Value> results_;
};

/// The argument of a transpose rule.
class TransposeContext {
 public:
  /// For transforms.
  TransposeContext(const detail::RuleFrame& frame, std::span<const Value> operands,
                   std::span<const Type> types, std::span<const Value> cotangents)
      : frame_(frame), operands_(operands), types_(types), cotangents_(cotangents) {}

  const Op& op() const { return frame_.op; }
  std::size_t num_operands() const { return operands_.size(); }
  /// Is this an operand that the operation is linear in, whose cotangent is wanted?
  bool linear(std::size_t i) const { return operands_[i].emitter() == nullptr; }
  /// An operand that is not linear: a residual. (A linear one has no value here; default-constructed.)
  Value operand(std::size_t i) const { return operands_[i]; }
  /// Type of an operand, linear or not.
  Type operand_type(std::size_t i) const { return types_[i]; }
  std::size_t num_results() const { return cotangents_.size(); }
  /// The cotangent of a result, when there is one.
  std::optional<Value> cotangent(std::size_t slot = 0) const {
    return cotangents_[slot].emitter() == nullptr ? std::nullopt : std::optional<Value>(cotangents_[slot]);
  }
  Emitter& emitter() const { return frame_.emitter; }
  RuleServices& host() const { return frame_.host; }
  ADContext* context() const { return frame_.context; }

 private:
  const detail::RuleFrame& frame_;
  std::span<const Value> operands_;
  std::span<const Type> types_;
  std::span<const Value> cotangents_;
};

/// The argument of a batch rule.
class BatchContext {
 public:
  /// For transforms.
  BatchContext(const detail::RuleFrame& frame, std::span<const Value> operands, std::span<const bool> batched,
               std::span<const Type> types, std::int64_t size)
      : frame_(frame), operands_(operands), batched_(batched), types_(types), size_(size) {}

  const Op& op() const { return frame_.op; }
  std::size_t num_operands() const { return operands_.size(); }
  /// The operand, with the leading axis when batched(i).
  Value operand(std::size_t i) const { return operands_[i]; }
  /// Does the operand carry the leading axis?
  bool batched(std::size_t i) const { return batched_[i]; }
  /// Its type without the leading axis.
  Type operand_type(std::size_t i) const { return types_[i]; }
  /// Extent of the leading axis.
  std::int64_t size() const { return size_; }
  Emitter& emitter() const { return frame_.emitter; }
  RuleServices& host() const { return frame_.host; }
  ADContext* context() const { return frame_.context; }

 private:
  const detail::RuleFrame& frame_;
  std::span<const Value> operands_;
  std::span<const bool> batched_;
  std::span<const Type> types_;
  std::int64_t size_;
};

}  // namespace tidu
