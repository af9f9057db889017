// cond.hpp - functions that the rules of cond share: branches that a rule makes, and the selection between
// results.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::prim {

/// The branches of a cond that a rule makes, and its operands. Every branch has an input for each operand.
class CondBuilder {
 public:
  /// As many branches, of these names, as `like` has.
  explicit CondBuilder(std::span<const Graph> like);

  /// Such an operand; by branch, the input that stands for it.
  std::vector<Value> add(std::string_view name, Value operand);
  std::size_t num_branches() const { return builders_.size(); }
  GraphBuilder& branch(std::size_t branch) { return *builders_[branch]; }
  /// The next output of a branch.
  void add_output(std::size_t branch, Value value) { outputs_[branch].push_back(value); }
  /// A zero, where other branches have a value.
  void add_zero(std::size_t branch, Type type) { add_output(branch, zeros(*builders_[branch], type)); }
  /// The cond. Operands that no branch reads are left out. Once.
  Values emit(Value index);

 private:
  std::vector<std::unique_ptr<GraphBuilder>> builders_;
  std::vector<std::vector<Value>> outputs_;  // by branch
  std::vector<Value> operands_;
};

/// The case at `which`, a scalar or of the shape of the cases; an index out of range is clamped.
Value select_case(Value which, std::span<const Value> cases);

/// x of shape [n, ...] with zeros for the examples where `taken`, bool[n], is false. Note [Cases not taken]:
/// a computation for an example whose results are dropped may give infinity or NaN, and so may its
/// derivatives, and a cotangent of 0 times infinity is not 0. So its operands are masked as well as its
/// results: no cotangent flows back. The mask value is zero, and not x without a derivative, since x may be a
/// tangent, in which all operations have to be linear.
Value where_taken(Value taken, Value x);

// --- the rules, in files of their own
Derivatives jvp_cond(JvpContext& c);
Derivatives transpose_cond(TransposeContext& c);

}  // namespace tidu::prim
