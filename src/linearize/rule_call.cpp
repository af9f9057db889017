// rule_call.cpp - errors of rules; and graphs that operations hold: linearized, transposed and batched in
// closed form, with residuals as outputs and inputs.
#include "linearize/rule_call.hpp"

#include "graph/foreign_exception.hpp"

namespace tidu::detail {

namespace {

// The source location of an operation; one of a linear graph has that of the operation that it derives from.
std::string place_of(const Graph& graph, std::uint32_t operation, const Graph* primal) {
  const std::uint32_t origin = graph.operation(operation).origin();
  const bool knows_origin = primal != nullptr && origin < primal->num_operations();
  const std::string_view where = knows_origin ? primal->operation(origin).where() : std::string_view();
  return describe_operation(graph, operation) + (where.empty() ? "" : str(", ", printable(where)));
}

}  // namespace

void raise_rule_error(RuleKind rule, const Graph& graph, std::uint32_t operation, const std::string& message,
                      const Graph* primal) {
  const std::string name(graph.operation(operation).name());
  throw ADRuleError(
      rule, name, operation,
      str('[', name, "] ", message, "\n  rule: ", to_string(rule), ", ", place_of(graph, operation, primal)));
}

std::string unset_derivative(std::string_view what, std::size_t index) {
  return str("expected ", what, ' ', index,
             " to be a value of the rule, or std::nullopt where it is zero, got a default-constructed Value");
}

void raise_from_rule(const Error& error, RuleKind rule, const Graph& graph, std::uint32_t operation,
                     const Graph* primal) {
  const std::string_view kind = to_string(rule);
  const std::string place = place_of(graph, operation, primal);
  std::string message = error.what();
  // As raise_rule_error says it.
  if (message.find(str("rule: ", kind, ", ", place)) == std::string::npos)
    message += str("\n  in the ", kind, " rule of ", graph.operation(operation).name(), ", ", place);
  const auto* of_rule = dynamic_cast<const ADRuleError*>(&error);
  if (of_rule != nullptr && !of_rule->operation())
    throw ADRuleError(of_rule->rule(), of_rule->primitive(), operation, message);
  error.with_message(message)->raise();
  throw Error(error.kind(), message);
}

void raise_foreign(RuleKind rule, const Graph& graph, std::uint32_t operation, const Graph* primal) {
  const std::string got = foreign_exception();
  throw Error(ErrorKind::internal, str('[', graph.operation(operation).name(), "] expected the ",
                                       to_string(rule), " rule to run, got ", got, "\n  rule: ",
                                       to_string(rule), ", ", place_of(graph, operation, primal)));
}

void InnerServices::replace_results(std::span<const Value>) {
  throw Error(ErrorKind::invalid_argument, "replace_results: expected to be called from a jvp rule");
}

void copy_linear(GraphBuilder& builder, const Graph& linear, std::vector<ValueId>& values,
                 const std::vector<std::uint32_t>* origin_map) {
  const GraphData& g = linear.data();
  std::vector<ValueId> ids;
  for (std::uint32_t i = 0; i < g.operations.size(); ++i) {
    const OperationRecord& record = g.operations[i];
    const Operation operation = linear.operation(i);
    ids.clear();
    for (const ValueId id : operation.inputs()) ids.push_back(values[id]);
    GraphBuilder::Extra extra;
    if (operation.is_linear()) {
      extra.role = g.roles[i];
      if ((extra.role & 0x80000000U) == 0) {
        const auto& wide = g.wide_roles[extra.role & 0x3fffffffU];
        auto plain = std::make_unique<bool[]>(wide.size());
        for (std::size_t k = 0; k < wide.size(); ++k) plain[k] = wide[k];
        extra.role = builder.make_role(std::span<const bool>(plain.get(), wide.size()));
      }
    }
    extra.origin = operation.origin();
    if (origin_map != nullptr && extra.origin != no_index) extra.origin = (*origin_map)[extra.origin];
    const ValueId first =
        builder.add_typed(record.op, ids, g.types.data() + record.first_output, record.num_outputs, extra);
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
      values[record.first_output + slot] = first + slot;
  }
}

InnerLinearization InnerGraphs::linearize(const Graph& graph, const std::vector<bool>& active) {
  Key key{graph.structural_key(), active, {}, 0};
  if (const auto it = linearized_.find(key); it != linearized_.end()) return it->second;

  LinearizeOptions options;
  options.context = context_;
  options.wrt.emplace();
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (active[i]) options.wrt->push_back(i);
  }
  const Linearization lin = linearize_inner(graph, options, *this);

  InnerLinearization inner;
  inner.num_residuals = lin.residuals.size();
  inner.tangent_of_output = lin.tangent_of_output;
  const auto primal = GraphBuilder::extending(lin.augmented);
  std::vector<ValueId> outputs(lin.augmented.outputs().begin(), lin.augmented.outputs().end());
  outputs.insert(outputs.end(), lin.residuals.begin(), lin.residuals.end());
  inner.primal = prune(primal->build_ids(std::move(outputs)));

  GraphBuilder closed(str(graph.name(), ".linear"), graph.primitives());
  std::vector<ValueId> values(lin.linear.num_values(), no_index);
  for (std::size_t i = 0; i < lin.residuals.size(); ++i) {
    const ValueId id = lin.linear.externals()[i];
    values[id] = closed.input(str("residual.", i), lin.linear.type(id)).id();
  }
  for (std::size_t i = 0; i < lin.wrt.size(); ++i) {
    const ValueId id = lin.linear.inputs()[i];
    values[id] = closed.input(str("tangent.", lin.wrt[i]), lin.linear.type(id)).id();
  }
  copy_linear(closed, lin.linear, values);
  std::vector<ValueId> tangents;
  for (const ValueId id : lin.linear.outputs()) tangents.push_back(values[id]);
  inner.linear = closed.build_ids(std::move(tangents));
  if (!keeps_) return inner;
  return linearized_.emplace(std::move(key), std::move(inner)).first->second;
}

InnerTransposition InnerGraphs::transpose(const Graph& graph, const std::vector<bool>& linear_inputs,
                                          const std::vector<bool>& seeded_outputs) {
  Key key{graph.structural_key(), linear_inputs, seeded_outputs, 0};
  if (const auto it = transposed_.find(key); it != transposed_.end()) return it->second;

  TransposeOptions options;
  options.context = context_;
  options.wide_accumulation = wide_accumulation_;
  options.seeded = seeded_outputs;
  options.linear_inputs.emplace();
  for (std::size_t i = 0; i < linear_inputs.size(); ++i) {
    if (linear_inputs[i]) options.linear_inputs->push_back(i);
  }
  const Transposition transposition = transpose_inner(graph, options, *this);

  InnerTransposition inner;
  // Inputs get names by position, so that equal structures give equal inner graphs.
  std::vector<std::string> names;
  const std::size_t parameters = linear_inputs.size() - options.linear_inputs->size();
  for (std::size_t i = 0; i < transposition.graph.inputs().size(); ++i) {
    names.push_back(i < parameters ? str("residual.", i) : str("cotangent.", i - parameters));
  }
  inner.graph = with_input_names(transposition.graph, names);
  inner.cotangent_of_input.resize(linear_inputs.size());
  for (std::size_t k = 0; k < options.linear_inputs->size(); ++k) {
    inner.cotangent_of_input[(*options.linear_inputs)[k]] = transposition.cotangent_of_input[k];
  }
  if (!keeps_) return inner;
  return transposed_.emplace(std::move(key), std::move(inner)).first->second;
}

InnerBatching InnerGraphs::batch(const Graph& graph, const std::vector<bool>& batched_inputs,
                                 std::int64_t size, bool all_outputs) {
  Key key{graph.structural_key(), batched_inputs, {all_outputs}, size};
  if (const auto it = batched_.find(key); it != batched_.end()) return it->second;
  BatchOptions options;
  options.inputs = batched_inputs;
  options.all_outputs = all_outputs;
  options.context = context_;
  Batching made = batch_inner(graph, size, options, *this);
  InnerBatching batched{std::move(made.graph), std::move(made.batched_outputs)};
  if (!keeps_) return batched;
  return batched_.emplace(std::move(key), std::move(batched)).first->second;
}

}  // namespace tidu::detail
