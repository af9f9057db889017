// while.hpp - functions that the rules of while share: an op taken apart, and a loop assembled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::prim {

/// The attributes of a while. Operand i is input i of cond and of body; result k is output k of body, and its
/// initial value is operand carry(k).
struct WhileParts {
  explicit WhileParts(const Op& op);
  Graph cond, body;
  WhileShape shape;
  std::size_t num_operands, num_carry;

  std::size_t carry(std::size_t k) const { return shape.num_consts + k; }
  /// Does result k equal its operand, whatever happens?
  bool stays(std::size_t k) const { return body.outputs()[k] == body.inputs()[carry(k)]; }
  /// Is it the same in every step: a const, or a carry that stays?
  bool is_fixed(std::size_t operand) const {
    return operand < shape.num_consts || stays(operand - shape.num_consts);
  }
  Type type(std::size_t operand) const { return body.type(body.inputs()[operand]); }
  /// Adds to the flags, by operand, the carries that depend on flagged operands in some step.
  void spread(std::vector<bool>& operands) const;
};

/// The graphs of a while that a rule makes, and its operands: consts first, then carries.
class WhileBuilder {
 public:
  /// With the names of `like`.
  explicit WhileBuilder(const WhileParts& like)
      : cond_(like.cond.name(), like.cond.primitives()), body_(like.body.name(), like.body.primitives()) {}

  /// The values for an operand in the two graphs.
  struct InBoth {
    Value in_cond, in_body;
  };
  InBoth add_const(std::string_view name, Value operand);
  /// One that is not `wanted` is kept where others need it.
  InBoth add_carry(std::string_view name, Value first, bool wanted);
  void set_predicate(Value value) { predicate_ = value; }
  /// Adds an output of the body: a next carry.
  void add_output(Value value) { outputs_.push_back(value); }
  GraphBuilder& cond() { return cond_; }
  GraphBuilder& body() { return body_; }
  /// The loop, on `emitter`: its results by carry, default-constructed where it is not kept. Once.
  std::vector<Value> emit(Emitter& emitter, std::optional<std::int64_t> max_steps);

 private:
  std::vector<bool> needed(const Graph& cond, const Graph& body) const;
  InBoth add(std::string_view name, Value operand);

  GraphBuilder cond_, body_;
  std::size_t num_consts_ = 0;
  std::vector<Value> operands_, outputs_;
  Value predicate_;
  std::vector<bool> wanted_;  // by carry
};

/// A while with a bound as a graph of its operands and results: a scan of that many steps. Steps after the
/// loop's end pass their carries on. By `branch` they compute nothing: body is a branch of a cond. By
/// `select` they compute body and drop its results by select_n, so that the dependences of a carry show in
/// the scan's body; operands that are `linear` in some step are then masked by zeros: see Note [Cases not
/// taken].
enum class IdleSteps : std::uint8_t { branch, select };
Graph while_as_scan(const WhileParts& loop, IdleSteps idle = IdleSteps::branch,
                    const std::vector<bool>& linear = {});

// --- the rules, each in a file of its own
Derivatives jvp_while(JvpContext& c);
Derivatives transpose_while(TransposeContext& c);
Values batch_while(BatchContext& c);

}  // namespace tidu::prim
