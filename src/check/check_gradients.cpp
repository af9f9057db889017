// check_gradients.cpp - reports as text; and graphs of f16 and bf16, which are tested without differences,
// and with them in f32.
#include "tidu/check/check_gradients.hpp"

#include <algorithm>

#include "check/checker.hpp"
#include "check/culprit.hpp"
#include "check/widen.hpp"

namespace tidu {
namespace {

using check::figure;
using check::index;
using check::Kinds;
using check::kinds_in_order;
using check::Tensors;

// The report on a graph with f16 or bf16 in f32, or nothing where there is no such graph or executor.
std::optional<CheckReport> widened_report(const Graph& graph, std::span<const Tensor> inputs,
                                          const Executor& executor, const CheckOptions& options) {
  const auto wide = check::widened(graph);
  if (!wide) return std::nullopt;
  Tensors tensors;
  for (const Tensor& input : inputs) tensors.push_back(check::widened(input));
  try {
    return check::report(*wide, tensors, executor, options, check::all_kinds);
  } catch (const Error&) {  // an executor without f32
    return std::nullopt;
  }
}

// Joins two reports on one graph; the second is that in f32 and has the differences.
CheckReport joined(CheckReport report, const CheckReport& wide) {
  for (const CheckFinding& finding : wide.findings) {
    const bool known = std::any_of(report.findings.begin(), report.findings.end(), [&](CheckFinding other) {
      for (Graph& graph : other.custom_rule) graph = check::widened(graph).value_or(graph);
      return check::same_fault(finding, other);
    });
    if (!known) report.findings.push_back(finding);
  }
  report.ok = report.findings.empty();
  for (const std::string& note : wide.notes) {
    if (std::find(report.notes.begin(), report.notes.end(), note) == report.notes.end())
      report.notes.push_back(note);
  }
  const std::size_t differences = index(CheckKind::differences);
  report.worst[differences] = wide.worst[differences];
  report.comparisons[differences] = wide.comparisons[differences];
  if (report.comparisons[differences] > 0)
    report.notes.emplace_back("jvp was compared with differences in f32: those of 16 bits are too inexact");
  return report;
}

}  // namespace

std::string_view describe(CheckKind kind) {
  constexpr std::string_view texts[] = {
      "the linear graph is not linear", "jvp disagrees with differences", "vjp disagrees with jvp",
      "the transpose of the transpose disagrees with jvp", "batch disagrees with a loop"};
  return texts[index(kind)];
}

std::string to_text(const CheckReport& report) {
  constexpr std::string_view agreements[] = {
      "the linear graph is linear", "jvp agrees with differences", "vjp agrees with jvp",
      "the transpose of the transpose agrees with jvp", "batch agrees with a loop"};
  std::string text;
  for (const CheckFinding& finding : report.findings) text += finding.message + '\n';
  for (const CheckKind kind : kinds_in_order) {
    const std::size_t k = index(kind);
    if (!report.ok || report.comparisons[k] == 0) continue;
    text += detail::str(agreements[k], " to ", figure(report.worst[k]), " (", report.comparisons[k],
                        report.comparisons[k] == 1 ? " comparison)\n" : " comparisons)\n");
  }
  for (const std::string& note : report.notes) text += "note: " + note + '\n';
  if (text.empty()) text = "nothing to check: no operation and no floating or complex input\n";
  return text;
}

CheckReport check_gradients(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor,
                            const CheckOptions& options) {
  if (!check::has_sixteen_bits(graph))
    return check::report(graph, inputs, executor, options, check::all_kinds);
  check_inputs(graph, inputs);
  Kinds kinds = check::all_kinds;
  kinds[index(CheckKind::differences)] = false;
  CheckReport report = check::report(graph, inputs, executor, options, kinds);
  if (const auto wide = widened_report(graph, inputs, executor, options))
    return joined(std::move(report), *wide);
  report.notes.emplace_back(
      "jvp was not compared with differences: those of 16 bits are too inexact, and in f32 the graph does "
      "not run");
  return report;
}

Result<CheckReport> try_check_gradients(const Graph& graph, std::span<const Tensor> inputs,
                                        const Executor& executor, const CheckOptions& options) {
  return detail::capture([&] { return check_gradients(graph, inputs, executor, options); });
}

}  // namespace tidu
