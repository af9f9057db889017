// inside.cpp - see inside.hpp.
#include "check/inside.hpp"

#include <algorithm>

#include "check/equations.hpp"
#include "check/faults.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::check {
namespace {

bool is_graph(const AttributeSpec& spec) {
  return spec.kind == AttributeKind::graph || spec.kind == AttributeKind::rule;
}
bool has_attribute(const Operation& operation, std::string_view name) {
  const auto& specs = operation.primitive().attributes;
  return std::any_of(specs.begin(), specs.end(),
                     [&](const AttributeSpec& spec) { return is_graph(spec) && spec.name == name; });
}

std::vector<bool> flags_of(const Subject& one) {
  std::vector<bool> active(one.inputs.size(), false);
  for (const std::size_t i : one.wrt) active[i] = true;
  return active;
}
std::vector<std::size_t> positions_of(const std::vector<bool>& flags) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) result.push_back(i);
  }
  return result;
}

// Inputs of a loop's body that depend on an active operand in some step.
std::vector<std::size_t> active_in_loop(const Graph& body, std::vector<bool> active, std::size_t num_consts,
                                        std::size_t num_carry) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<bool> reached = reached_from(body, positions_of(active));
    for (std::size_t k = 0; k < num_carry; ++k) {
      if (active[num_consts + k] || !reached[body.outputs()[k]]) continue;
      active[num_consts + k] = changed = true;
    }
  }
  return positions_of(active);
}

std::vector<Execution> steps_of_scan(const Subject& one, const Executor& executor) {
  const Op op = one.graph.operation(0).op();
  const Graph body = op.graph("body");
  const auto length = static_cast<std::size_t>(op.integer("length"));
  const auto num_consts = static_cast<std::size_t>(op.integer("num_consts"));
  const auto num_carry = static_cast<std::size_t>(op.integer("num_carry"));
  const std::vector<std::size_t> wrt = active_in_loop(body, flags_of(one), num_consts, num_carry);
  std::vector<Execution> steps;
  Tensors inputs = one.inputs;
  const std::size_t num_steps = std::min(length, step_limit);
  for (std::size_t step = 0; step < num_steps; ++step) {
    const std::size_t slice = op.boolean("reverse") ? length - 1 - step : step;
    for (std::size_t i = num_consts + num_carry; i < inputs.size(); ++i) {
      const Tensor& x = one.inputs[i];
      inputs[i] = x.view(body.type(body.inputs()[i]), slice * (x.num_bytes() / length)).clone();
    }
    steps.push_back({{body, wrt, inputs}, "the body of scan"});
    if (step + 1 == num_steps) break;
    const Tensors results = executor.run(body, inputs);
    for (std::size_t k = 0; k < num_carry; ++k) inputs[num_consts + k] = results[k];
  }
  return steps;
}

std::vector<Execution> steps_of_while(const Subject& one, const Executor& executor) {
  const Op op = one.graph.operation(0).op();
  const Graph body = op.graph("body"), goes_on = op.graph("cond");
  const auto num_consts = static_cast<std::size_t>(op.integer("num_consts"));
  const std::size_t num_carry = one.inputs.size() - num_consts;
  std::size_t most = step_limit;
  if (const std::int64_t bound = op.integer("max_steps"); bound >= 0)
    most = std::min(most, static_cast<std::size_t>(bound));
  const std::vector<std::size_t> wrt = active_in_loop(body, flags_of(one), num_consts, num_carry);
  std::vector<Execution> steps;
  Tensors inputs = one.inputs;
  while (steps.size() < most && executor.run(goes_on, inputs)[0].at(0) != 0.0) {
    steps.push_back({{body, wrt, inputs}, "the body of while"});
    const Tensors results = executor.run(body, inputs);
    std::copy(results.begin(), results.end(), inputs.begin() + static_cast<std::ptrdiff_t>(num_consts));
  }
  return steps;
}

Execution chosen_branch(const Subject& one) {
  const std::vector<Graph> branches = one.graph.operation(0).op().graphs("branches");
  const double last = static_cast<double>(branches.size() - 1);
  const auto branch = static_cast<std::size_t>(std::clamp(one.inputs[0].at(0).real(), 0.0, last));
  Execution chosen{{branches[branch], {}, {}}, detail::str("branch ", branch, " of cond")};
  chosen.subject.inputs.assign(one.inputs.begin() + 1, one.inputs.end());
  for (const std::size_t i : one.wrt) chosen.subject.wrt.push_back(i - 1);  // the index is not inexact
  return chosen;
}

}  // namespace

std::string_view custom_rule(const Operation& operation) {
  if (!operation.primitive().has_trait(Trait::holds_graph)) return {};
  if (operation.name() == prim::custom_jvp_transpose.name) return {};  // its jvp is the rule of another graph
  for (const std::string_view name : {"jvp", "backward", "transpose"}) {
    if (has_attribute(operation, name)) return name;
  }
  return {};
}

std::vector<Graph> attribute_graphs(const Operation& operation) {
  std::vector<Graph> graphs;
  for (const AttributeSpec& spec : operation.primitive().attributes)
    if (is_graph(spec)) {
      graphs.push_back(operation.op().graph(spec.name));
    } else if (spec.kind == AttributeKind::graphs) {
      for (const Graph& graph : operation.op().graphs(spec.name)) graphs.push_back(graph);
    }
  return graphs;
}

bool has_custom_rule(const Graph& graph) {
  bool found = false;
  prim::visit_operations(graph, [&](const Operation& operation, const Graph&) {
    found = found || !custom_rule(operation).empty();
  });
  return found;
}

bool has_iterating_rule(const Graph& graph) {
  bool found = false;
  prim::visit_operations(graph, [&](const Operation& operation, const Graph&) {
    if (found || custom_rule(operation).empty()) return;
    for (const Graph& held : attribute_graphs(operation)) {
      prim::visit_operations(held, [&](const Operation& inner, const Graph&) {
        found = found || inner.name() == prim::while_loop.name;
      });
    }
  });
  return found;
}

std::vector<Execution> executions(const Subject& one, const Executor& executor) {
  const Operation operation = one.graph.operation(0);
  if (!operation.primitive().has_trait(Trait::holds_graph) || !custom_rule(operation).empty()) return {};
  if (operation.name() == prim::scan.name) return steps_of_scan(one, executor);
  if (operation.name() == prim::while_loop.name) return steps_of_while(one, executor);
  if (operation.name() == prim::cond.name) return {chosen_branch(one)};
  if (solves_equation(operation)) return {equation_of(one, executor)};
  if (!has_attribute(operation, "graph")) return {};
  return {
      {{operation.op().graph("graph"), one.wrt, one.inputs}, detail::str("the graph of ", operation.name())}};
}

}  // namespace tidu::check
