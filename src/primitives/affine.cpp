// affine.cpp - see affine.hpp.
#include "primitives/affine.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "primitives/custom_rules.hpp"
#include "primitives/scan.hpp"
#include "primitives/while.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::prim {
namespace {

using Standings = std::vector<Standing>;

// Graphs nest at most max_graph_depth deep, and so does this. Each is looked at once for each standing of its
// inputs.
class SumFinder {
 public:
  std::optional<std::string> found;

  // The standings of these values of the graph.
  Standings outputs(const Graph& graph, const Standings& inputs, std::span<const ValueId> wanted) {
    const std::vector<bool> needed = reachable(graph, wanted);
    Standings values(graph.num_values());
    for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
    Standings operands;
    for (std::size_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      bool read = false;
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        read = read || needed[operation.output(slot)];
      if (!read) continue;
      operands.clear();
      for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
      look_at_sum(graph, operation, operands);
      const Standings results = of(operation, operands);
      for (std::size_t slot = 0; slot < results.size(); ++slot)
        values[operation.output(slot)] = results[slot];
    }
    Standings result;
    for (const ValueId id : wanted) result.push_back(values[id]);
    return result;
  }

  // By result.
  Standings of(const Operation& operation, const Standings& operands) {
    const bool any =
        std::any_of(operands.begin(), operands.end(), [](const Standing& each) { return each.depends; });
    const bool zero = detail::gives_zeros(operation, [&](std::size_t k) { return operands[k].zero; });
    const bool holds = operation.primitive().has_trait(Trait::holds_graph);
    const bool bent = any && !zero && (any_bent(operands) || (!holds && !allows(operation, operands)));
    Standings plain(operation.num_outputs(), Standing{any, zero, bent});
    if (!holds) return plain;
    if (operation.name() == scan.name) return of_scan(ScanParts(operation.op()), operands);
    if (operation.name() == while_loop.name) return of_while(WhileParts(operation.op()), operands);
    if (operation.name() == cond.name) return of_cond(operation.op().graphs("branches"), operands);
    const std::shared_ptr<const GraphData>* const called = called_graph(operation);
    if (linear_as_it_says(operation, operands)) return plain;
    if (called != nullptr && !solves(operation)) return inside(Graph(*called), operands);
    for (Standing& result : plain) result.bent = result.depends && !result.zero;
    return plain;
  }

 private:
  static bool any_bent(const Standings& operands) {
    return std::any_of(operands.begin(), operands.end(), [](const Standing& each) { return each.bent; });
  }
  static bool allows(const Operation& operation, const Standings& operands) {
    const auto flags = std::make_unique<bool[]>(operands.size());
    for (std::size_t k = 0; k < operands.size(); ++k) flags[k] = operands[k].depends && !operands[k].zero;
    return operation.primitive().linearity.allows(std::span<const bool>(flags.get(), operands.size()));
  }

  // How it does so is none of its derivative.
  static bool solves(const Operation& operation) {
    return operation.name() == custom_linear_solve.name || operation.name() == custom_root.name;
  }
  // If no residual depends on the inputs, or a custom_vjp_call is linear by its rule.
  static bool linear_as_it_says(const Operation& operation, const Standings& operands) {
    if (operation.name() == custom_vjp_call.name) {
      std::vector<bool> depends;
      for (const Standing& operand : operands) depends.push_back(operand.depends);
      return linear_by_rule(operation.op(), depends);
    }
    const std::optional<std::size_t> residuals = residuals_of_linear(operation);
    return residuals &&
           std::none_of(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(*residuals),
                        [](const Standing& each) { return each.depends; });
  }

  void look_at_sum(const Graph& graph, const Operation& operation, const Standings& operands) {
    const PrimitiveSet::TransformOps& transform_ops = graph.primitives().transform_ops();
    const Primitive* const primitive = &operation.primitive();
    if (found || (primitive != transform_ops.add && primitive != transform_ops.sub)) return;
    if (operands[0].depends == operands[1].depends || operands[operands[0].depends ? 1 : 0].zero) return;
    found = detail::str(operation.name(), ' ',
                        describe_operation(graph, static_cast<std::uint32_t>(operation.index())));
  }

  const Standings& inside(const Graph& graph, const Standings& inputs) {
    auto key = std::pair(&graph.data(), inputs);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    Standings result = outputs(graph, inputs, graph.outputs());
    return known_.emplace(std::move(key), std::move(result)).first->second;
  }

  // The join of two standings, for a value that may be either.
  static void join(Standing& to, const Standing& from) {
    to.depends = to.depends || from.depends;
    to.zero = to.zero && from.zero;
    to.bent = to.bent || from.bent;
  }

  Standings of_cond(const std::vector<Graph>& branches, const Standings& operands) {
    const Standings inputs(operands.begin() + 1, operands.end());
    Standings results = inside(branches[0], inputs);
    for (const Graph& branch : branches) {
      const Standings& other = inside(branch, inputs);
      for (std::size_t k = 0; k < results.size(); ++k) join(results[k], other[k]);
    }
    for (Standing& result : results) {
      result.depends = result.depends || operands[0].depends;
      result.bent = result.bent || operands[0].depends;
    }
    return results;
  }

  // Input `first` and the following ones are the input carries; outputs begin with the output carries.
  // `results`: those before the first step; outputs after the carries are computed by each step.
  Standings looped(const Graph& body, std::size_t first, std::size_t num_carry, Standings inputs,
                   Standings results, std::int64_t length) {
    // A carry may depend on it in one step, and be bent in a later one.
    const std::size_t most = 2 * num_carry + 2;
    for (std::size_t step = 0; step < most && static_cast<std::int64_t>(step) < length; ++step) {
      const Standings made = inside(body, inputs);
      for (std::size_t k = 0; k < made.size(); ++k) join(results[k], made[k]);
      if (std::equal(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(num_carry),
                     inputs.begin() + static_cast<std::ptrdiff_t>(first)))
        break;
      std::copy_n(made.begin(), num_carry, inputs.begin() + static_cast<std::ptrdiff_t>(first));
    }
    return results;
  }

  Standings of_scan(const ScanParts& parts, const Standings& operands) {
    Standings results(parts.num_outputs, Standing{false, true});
    std::copy_n(operands.begin() + static_cast<std::ptrdiff_t>(parts.shape.num_consts), parts.shape.num_carry,
                results.begin());
    return looped(parts.body, parts.shape.num_consts, parts.shape.num_carry, operands, std::move(results),
                  parts.shape.length);
  }

  Standings of_while(const WhileParts& parts, const Standings& operands) {
    Standings results(operands.begin() + static_cast<std::ptrdiff_t>(parts.shape.num_consts), operands.end());
    const std::int64_t most =
        parts.shape.max_steps.value_or(2 * static_cast<std::int64_t>(parts.num_carry) + 2);
    return looped(parts.body, parts.shape.num_consts, parts.num_carry, operands, std::move(results), most);
  }

  std::map<std::pair<const GraphData*, Standings>, Standings> known_;
};

}  // namespace

std::vector<Standing> standings(const Graph& graph, const std::vector<Standing>& inputs) {
  return SumFinder().outputs(graph, inputs, graph.outputs());
}

std::optional<std::string> affine_sum(const Graph& graph, const std::vector<Standing>& inputs,
                                      const std::vector<std::size_t>& outputs) {
  std::vector<ValueId> wanted;
  for (const std::size_t k : outputs) wanted.push_back(graph.outputs()[k]);
  SumFinder finder;
  finder.outputs(graph, inputs, wanted);
  return finder.found;
}

std::optional<std::string> affine_sum(const Operation& operation, const std::vector<Standing>& operands) {
  SumFinder finder;
  finder.of(operation, operands);
  return finder.found;
}

}  // namespace tidu::prim
