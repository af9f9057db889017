// implicit_rules.cpp - see implicit_rules.hpp.
#include "check/implicit_rules.hpp"

#include <algorithm>

#include "check/inside.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::check {
namespace {

// The view of the one operation of `one`, which has a custom rule; `fixed`: does an operand depend on a fixed
// value?
RuleView view_by_trying(const Subject& one, bool fixed, const Executor& executor,
                        const CheckOptions& options) {
  const auto agrees = [&](const RuleViews& views) {
    const DifferenceFunction function = difference_function(one, executor, views);
    return check_level(one, function, executor, options, just(CheckKind::differences)).ok();
  };
  if (agrees({})) return RuleView::by_operands;
  const Operation operation = one.graph.operation(0);
  const bool stops = !primitive_without_tangent(operation.op().graph("graph")).empty();
  if (stops && agrees({{operation.op().key(), RuleView::inside}})) return RuleView::inside;
  return fixed ? RuleView::by_values : RuleView::by_operands;
}

}  // namespace

RuleViews rule_views(const Subject& subject, const Executor& executor, const CheckOptions& options) {
  RuleViews all;
  const Graph written = with_graphs_inlined(subject.graph, true);
  const Tensors values = all_values(written, subject.inputs, executor);
  const std::vector<bool> active = reached_from(written, subject.wrt);
  const std::vector<bool> depends = depending_on_fixed(written);
  for (std::uint32_t i = 0; i < written.num_operations(); ++i) {
    const Operation operation = written.operation(i);
    const std::string_view rule = custom_rule(operation);
    if (rule.empty() || rule == "transpose") continue;
    const Key128& key = operation.op().key();
    const auto known = std::ranges::find(all, key, &RuleViews::value_type::first);
    // A view that is right at one operation may be wrong at another.
    if (known != all.end() && known->second != RuleView::by_operands) continue;
    const Subject one = standalone(written, i, values, active);
    if (one.wrt.empty()) continue;
    const bool fixed = std::ranges::any_of(operation.inputs(), [&](ValueId id) { return depends[id]; });
    try {
      const RuleView view = view_by_trying(one, fixed, executor, options);
      if (known != all.end()) {
        known->second = view;
      } else {
        all.emplace_back(key, view);
      }
    } catch (const Error&) {
      // Without an optional rule, it may be right.
    }
  }
  std::erase_if(all, [](const auto& entry) { return entry.second == RuleView::by_operands; });
  return all;
}

TestResult test_with_rules(const Subject& subject, const Executor& executor, const CheckOptions& options,
                           int order, const Kinds& kinds) {
  TestResult result{test(subject, difference_function(subject, executor), executor, options, order, kinds),
                    {}};
  const auto fails = [](const Faults& faults) {
    return faults.of[index(CheckKind::differences)].has_value();
  };
  if (!fails(result.faults) || !has_custom_rule(subject.graph)) return result;
  RuleViews views = rule_views(subject, executor, options);
  if (views.empty()) return result;
  result.faults =
      test(subject, difference_function(subject, executor, views), executor, options, order, kinds);
  result.views = std::move(views);
  return result;
}

}  // namespace tidu::check
