// infer.hpp - InferContext: the argument of a type rule. It has the operation and the types of its operands,
// and takes the types of results or an error.
#pragma once

#include <span>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu {

/// Passed to a primitive's type rule, which calls `result` once per result or `fail`.
class InferContext {
 public:
  /// Results go to `results`, which is emptied first.
  InferContext(const Op& op, std::span<const Type> operands, std::vector<Type>& results)
      : op_(op), operands_(operands), results_(results) {
    results_.clear();
  }

  const Op& op() const { return op_; }
  std::size_t num_operands() const { return operands_.size(); }
  /// Type of one operand.
  Type operand(std::size_t i) const { return operands_[i]; }
  std::span<const Type> operands() const { return operands_; }

  /// The type of the next result.
  void result(Type type) { results_.push_back(type); }
  void result(DType dtype, const Shape& shape) { results_.push_back(Type(dtype, shape)); }
  const std::vector<Type>& results() const { return results_; }

  /// Throws Error (type): "[op] " and the message, made of all arguments.
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(ErrorKind::type, detail::str('[', op_.name(), "] ", parts...));
  }
  /// fail(parts...) unless it holds.
  template <class... Parts>
  void require(bool holds, const Parts&... parts) const {
    if (!holds) fail(parts...);
  }

 private:
  const Op& op_;
  std::span<const Type> operands_;
  std::vector<Type>& results_;
};

/// The result types of `op` on operands of these types. Throws Error (type) when they do not fit, also for a
/// wrong number.
std::vector<Type> infer_types(const Op& op, std::span<const Type> operands);
void infer_types(const Op& op, std::span<const Type> operands, std::vector<Type>& results);

}  // namespace tidu
