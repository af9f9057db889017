// executor_kit_operands.cpp - the methods of an executor that inspect one operand: describe, bytes,
// ones_like, is_finite, is_zero and version, for some types of each dtype and for those of the caller's
// graphs.
#include <algorithm>
#include <limits>

#include "check/executor_kit.hpp"

namespace tidu::check {

using detail::str;

namespace {

class OperandMethods {
 public:
  OperandMethods(Kit& kit, Type type) : kit_(kit), executor_(kit.executor), type_(type) {}

  void check_type() {
    const AnyOperand x = executor_.from_tensor(random_input(kit_.random, type_, true));
    kit_.log.tested(ExecutorCheck::operands);
    if (const std::optional<Type> described = executor_.describe(x)) {
      if (*described != type_) say("describe", str("expected ", type_, ", got ", *described));
    } else {
      kit_.log.note("describe gives no type: types of seeds and cotangents are not checked");
    }
    if (const std::size_t bytes = executor_.bytes(x); bytes != 0 && bytes < type_.bytes())
      say("bytes", str("expected at least ", type_.bytes(), " for ", type_, ", got ", bytes));
  }
  void check_ones() {
    if (!is_inexact(type_.dtype())) return;
    Result<std::optional<AnyOperand>> ones = executor_.ones_like(type_);
    kit_.log.tested(ExecutorCheck::operands);
    if (!ones) {
      say("ones_like", str("expected ones of ", type_, ", got an error: ", ones.error().what()));
    } else if (!*ones) {
      kit_.log.note("ones_like gives nothing: every root needs a seed");
    } else {
      const Tensor got = executor_.to_tensor(**ones);
      const Tensor expected = tensor_of(type_, Numbers(static_cast<std::size_t>(type_.size()), 1.0));
      const ShownPair shown = show_pair(expected, got);
      if (!same_bits(expected, got)) say("ones_like", str("expected ", shown.expected, ", got ", shown.got));
    }
  }
  void check_predicates() {
    judge(Numbers(count(), 0.0), true, true);
    if (count() == 0) return;
    judge(Numbers(count(), 1.0), true, false);
    for (const std::size_t at : {std::size_t{0}, count() - 1}) {
      Numbers one(count(), 0.0);
      one[at] = 1.0;
      judge(one, true, false);
      if (!is_inexact(type_.dtype())) continue;
      one[at] = -0.0;
      judge(one, true, true);
      one[at] = std::numeric_limits<double>::quiet_NaN();
      judge(one, false, false);
      one[at] = -std::numeric_limits<double>::infinity();
      judge(one, false, false);
    }
  }
  void check_version() {
    if (count() == 0) return;
    AnyOperand x = executor_.from_tensor(random_input(kit_.random, type_, true));
    const std::optional<std::uint64_t> before = executor_.version(x);
    if (!before) {
      kit_.log.note("version is unknown: writes to what a tape keeps go unnoticed");
      return;
    }
    kit_.log.tested(ExecutorCheck::operands);
    const Tensor elements = executor_.to_tensor(x);
    if (executor_.version(x) != before) say("version", "expected it to stay when elements are read");
    if (!executor_.can_write()) return;
    std::uint64_t last = *before;
    for (int round = 0; round < 2; ++round) {
      executor_.write(x);
      const std::optional<std::uint64_t> now = executor_.version(x);
      if (now.value_or(0) <= last)
        say("version", str("expected more than ", last, " after a write, got ", now.value_or(0)));
      last = now.value_or(0);
    }
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(type_.size()); }
  void say(std::string_view method, const std::string& message) {
    kit_.log.finding(ExecutorCheck::operands, method, message);
  }
  void judge(const Numbers& numbers, bool finite, bool zero) {
    const Tensor tensor = tensor_of(type_, numbers);
    const AnyOperand x = executor_.from_tensor(tensor);
    kit_.log.tested(ExecutorCheck::operands);
    const auto one = [&](std::string_view method, std::optional<bool> got, bool expected) {
      if (!got) {
        kit_.log.note(str(method, " gives nothing: anomaly mode and explain() know less"));
      } else if (*got != expected) {
        say(method, str("expected ", expected ? "true" : "false", " for ", show(tensor)));
      }
    };
    one("is_finite", executor_.is_finite(x), finite);
    one("is_zero", executor_.is_zero(x), zero);
  }

  Kit& kit_;
  const AnyExecutor& executor_;
  Type type_;
};

}  // namespace

namespace {

// The types of tested operands: some shapes in each dtype, and those of the inputs and outputs of the
// caller's graphs.
std::vector<Type> operand_types(const Kit& kit) {
  std::vector<Type> types;
  const auto add = [&](Type type) {
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  };
  for (const DType dtype : kit.options.dtypes)
    for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 3}, Shape{0}}) add(Type(dtype, shape));
  for (const Graph& graph : kit.options.more_graphs) {
    for (const ValueId id : graph.inputs()) add(graph.type(id));
    for (const ValueId id : graph.outputs()) add(graph.type(id));
  }
  return types;
}

}  // namespace

void check_operands(Kit& kit) {
  const std::vector<Type> types = operand_types(kit);
  const auto test = [&](std::string_view method, void (OperandMethods::*check)()) {
    kit.announce(ExecutorCheck::operands, method);
    for (const Type type : types) {
      OperandMethods methods(kit, type);
      const std::string failure = failure_of([&] { (methods.*check)(); });
      if (!failure.empty())
        kit.log.finding(ExecutorCheck::operands, "operands", str(type, ": expected answers, got ", failure));
    }
  };
  test("describe and bytes", &OperandMethods::check_type);
  test("ones_like", &OperandMethods::check_ones);
  test("is_finite and is_zero", &OperandMethods::check_predicates);
  test("version", &OperandMethods::check_version);
}

}  // namespace tidu::check
