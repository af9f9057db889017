// custom_jvp.cpp - custom_jvp_call. Its JVP rule evaluates the user's graph on primals and tangents: what
// depends on a tangent is linear and goes to the linear graph, the rest takes the place of the call.
//
// Note [Zeros in a rule]: the tangent of a constant operand is a zero that is never made. It goes through the
// user's graph as such: what is linear in zeros alone is zero, a sum with zero is the other term, and only
// where something else needs it an array of zeros is made. What depends on such tangents alone is zero for
// being linear in them, also where a value that is not known to be zero has a part in it (a padding, say).
#include <algorithm>
#include <memory>

#include "primitives/affine.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/graph/strands.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec graph_and_jvp[] = {{"graph", AttributeKind::graph}, {"jvp", AttributeKind::graph}};

void infer_custom_jvp(InferContext& c) {
  const Graph graph = c.op().graph("graph"), jvp = c.op().graph("jvp");
  infer_inner_graph(c, graph);
  std::vector<Slot> inputs, outputs;
  append_slots(inputs, graph, graph.inputs(), "which is input");
  append_slots(inputs, graph, graph.inputs(), "the tangent of input", true);
  append_slots(outputs, graph, graph.outputs(), "which is output");
  append_slots(outputs, graph, graph.outputs(), "the tangent of output", true);
  require_slots(c, jvp, "jvp", "input", jvp.inputs(), inputs);
  require_slots(c, jvp, "jvp", "output", jvp.outputs(), outputs);
}

// A value while the user's graph is evaluated. A zero without a value was never made.
struct Tracked {
  std::optional<Value> value;
  Type type;
  bool linear = false;  // depends on a tangent
  bool zero = false;
  bool vanishes = false;  // is zero because it depends on tangents of constants alone
};

// The rule is not what it has to be.
ADRuleError bent(const std::string& message) {
  return {ADRuleError::Rule::jvp, "custom_jvp_call", std::nullopt, message};
}

class Evaluation {
 public:
  explicit Evaluation(Emitter& emitter) : emitter_(emitter) {}

  Value made(Tracked& tracked) {
    if (!tracked.value) tracked.value = zeros(emitter_, tracked.type);
    return *tracked.value;
  }

  // Graphs nest at most max_graph_depth deep, and so does this.
  std::vector<Tracked> run(const Graph& graph, const std::vector<Tracked>& inputs) {
    return walk<Tracked>(graph, inputs, [&](const Operation& operation, std::vector<Tracked>& operands) {
      std::vector<Tracked> results = apply(graph, operation, operands);
      for (std::size_t slot = 0; slot < results.size(); ++slot)
        results[slot].type = graph.type(operation.output(slot));
      return results;
    });
  }

 private:
  static bool any_linear(const std::vector<Tracked>& operands) {
    return std::any_of(operands.begin(), operands.end(), [](const Tracked& t) { return t.linear; });
  }

  std::vector<Tracked> apply(const Graph& graph, const Operation& operation, std::vector<Tracked>& operands) {
    const Primitive& primitive = operation.primitive();
    const bool zero = gives_zeros(operation, [&](std::size_t i) { return operands[i].zero; });
    const bool known =
        std::all_of(operands.begin(), operands.end(), [](const Tracked& t) { return t.value && !t.linear; });
    if (known) return emit(operation.op(), operands, zero);
    const bool vanishes = gives_vanishing(operation, operands);
    if (zero || vanishes)
      return std::vector<Tracked>(operation.num_outputs(), Tracked{{}, Type(), false, true, vanishes});
    if (primitive.has_trait(Trait::barrier)) return pass_barrier(operation.op(), operands);
    if (primitive.has_trait(Trait::holds_graph) && !has_graph(primitive))
      return control_flow(graph, operation, operands);
    if (primitive.has_trait(Trait::holds_graph)) {
      if (!linear_as_it_is(operation, operands)) return run(operation.op().graph("graph"), operands);
      if (!any_linear(operands) &&
          std::any_of(operands.begin(), operands.end(), [](const Tracked& t) { return t.vanishes; }))
        return std::vector<Tracked>(operation.num_outputs(), Tracked{{}, Type(), false, true, true});
    } else if (std::optional<Tracked> sum = sum_with_zero(graph, operation, operands)) {
      return {*sum};
    }
    for (Tracked& operand : operands) made(operand);
    if (any_linear(operands)) require_linear(graph, operation, operands);
    return emit(operation.op(), operands, false);
  }

  // Were the tangents there, the operation would be linear in them.
  static bool gives_vanishing(const Operation& operation, const std::vector<Tracked>& operands) {
    if (operation.primitive().has_trait(Trait::holds_graph) || any_linear(operands)) return false;
    const auto flags = std::make_unique<bool[]>(operands.size());
    bool any = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      flags[i] = operands[i].vanishes;
      any = any || flags[i];
    }
    return any && operation.primitive().linearity.allows(std::span<const bool>(flags.get(), operands.size()));
  }

  std::vector<Tracked> emit(const Op& op, const std::vector<Tracked>& operands, bool zero) {
    std::vector<Value> values;
    for (const Tracked& operand : operands) values.push_back(*operand.value);
    const bool linear = any_linear(operands);
    std::vector<Tracked> results;
    for (const Value& value : emitter_.emit(op, values))
      results.push_back({value, value.type(), linear, zero, false});
    return results;
  }

  // Tangents pass behind a barrier of their own.
  std::vector<Tracked> pass_barrier(const Op& op, const std::vector<Tracked>& operands) {
    std::vector<Tracked> results = operands;
    for (const bool linear : {false, true}) {
      std::vector<Value> group;
      for (const Tracked& operand : operands) {
        if (operand.value && operand.linear == linear) group.push_back(*operand.value);
      }
      if (group.empty()) continue;
      const Values passed = emitter_.emit(op, group);
      std::size_t next = 0;
      for (Tracked& result : results) {
        if (result.value && result.linear == linear) result.value = passed[next++];
      }
    }
    return results;
  }

  static bool has_graph(const Primitive& primitive) {
    return std::any_of(primitive.attributes.begin(), primitive.attributes.end(),
                       [](const AttributeSpec& spec) { return spec.name == "graph"; });
  }

  // Such an operation stays one, and has to be linear in all that depends on tangents. What does not is made
  // by a primal one, whose tangents do not count.
  std::vector<Tracked> control_flow(const Graph& graph, const Operation& operation,
                                    const std::vector<Tracked>& operands) {
    std::vector<Tracked> given = operands,
                         results(operation.num_outputs(), Tracked{{}, {}, false, true, true});
    std::vector<bool> tangents;
    for (const Tracked& operand : operands) tangents.push_back(operand.linear || operand.vanishes);
    if (any_linear(operands)) {
      std::vector<Standing> standings;
      for (std::size_t i = 0; i < operands.size(); ++i) standings.push_back({tangents[i], operands[i].zero});
      if (const std::optional<std::string> sum = affine_sum(operation, standings)) {
        throw bent(detail::str("expected graph jvp (", detail::in_quotes(graph.name()),
                               ") to be linear in its tangents, got a sum of one and of what neither depends "
                               "on tangents nor is zero by its making: ",
                               *sum));
      }
      for (Tracked& operand : given) made(operand);
      require_linear(graph, operation, given);
      results = emit(operation.op(), given, false);
    }
    const std::vector<bool> depends = depending_results(operation, tangents);
    if (std::find(depends.begin(), depends.end(), false) == depends.end()) return results;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (tangents[i]) given[i] = Tracked{{}, operands[i].type};
      made(given[i]);
    }
    const std::vector<Tracked> primals = emit(operation.op(), given, false);
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!depends[k]) results[k] = primals[k];
    }
    return results;
  }

  // A linear_call whose residuals are primal stays one; other graphs are written out.
  static bool linear_as_it_is(const Operation& operation, const std::vector<Tracked>& operands) {
    if (operation.name() != linear_call.name) return false;
    const auto residuals = static_cast<std::size_t>(operation.op().integer("num_residuals"));
    for (std::size_t i = 0; i < residuals; ++i) {
      if (operands[i].linear || !operands[i].value) return false;
    }
    return true;
  }

  std::optional<Tracked> sum_with_zero(const Graph& graph, const Operation& operation,
                                       const std::vector<Tracked>& operands) {
    const PrimitiveSet::Vocabulary& words = graph.primitives().vocabulary();
    const Primitive* primitive = &operation.primitive();
    if (primitive != words.add && primitive != words.sub) return std::nullopt;
    if (operands[1].zero) return operands[0];
    if (!operands[0].zero) return std::nullopt;
    if (primitive == words.add) return operands[1];
    return emit(Op::make(*words.neg), {operands[1]}, false)[0];
  }

  static void require_linear(const Graph& graph, const Operation& operation,
                             const std::vector<Tracked>& operands) {
    const auto flags = std::make_unique<bool[]>(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) flags[i] = operands[i].linear;
    if (operation.primitive().linearity.allows(std::span<const bool>(flags.get(), operands.size()))) return;
    throw bent(detail::str("expected graph jvp (", detail::in_quotes(graph.name()),
                           ") to be linear in its tangents, got ", operation.name(), " of them ",
                           describe_operation(graph, static_cast<std::uint32_t>(operation.index()))));
  }

  Emitter& emitter_;
};

Derivatives jvp_custom_jvp(JvpContext& c) {
  const Graph jvp = without_unread(c.op().graph("jvp"));
  std::vector<Tracked> inputs;
  for (const Value& primal : c.primals()) inputs.push_back({primal, primal.type()});
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    if (!is_inexact(c.primal(i).dtype())) continue;
    const bool absent = !c.active(i);
    inputs.push_back({c.tangent(i), c.primal(i).type(), !absent, absent, absent});
  }
  Evaluation evaluation(c.emitter());
  std::vector<Tracked> outputs = evaluation.run(jvp, inputs);

  const std::size_t count = c.results().size();
  std::vector<Value> primals;
  for (std::size_t k = 0; k < count; ++k) {
    if (outputs[k].linear) {
      throw bent(detail::str("expected output ", k, " of graph jvp (", detail::in_quotes(jvp.name()),
                             "), which is output ", k, " of graph, not to depend on tangents"));
    }
    primals.push_back(evaluation.made(outputs[k]));
  }
  c.host().replace_results(primals);
  Derivatives tangents;
  std::size_t at = count;
  for (const Value& primal : primals) {
    if (!is_inexact(primal.dtype())) {
      tangents.push_back(std::nullopt);
      continue;
    }
    const Tracked& tangent = outputs[at];
    if (!tangent.linear && !tangent.zero) {
      throw bent(detail::str("expected output ", at, " of graph jvp (", detail::in_quotes(jvp.name()),
                             "), a tangent, to depend on tangents or to be made of zeros"));
    }
    tangents.push_back(tangent.linear ? tangent.value : std::nullopt);
    ++at;
  }
  return tangents;
}

Derivatives transpose_custom_jvp(TransposeContext& c) {
  return transpose_inner_graph(c, [&c](const Graph& inner, std::span<const Value> operands) {
    return ops::call(c.emitter(), inner, operands);
  });
}

Values batch_custom_jvp(BatchContext& c) {
  const Graph graph = c.op().graph("graph");
  std::vector<bool> batched = batched_operands(c);
  const Graph mapped = c.host().batch(graph, batched, c.size());
  for (const std::size_t i : inexact_positions(graph, graph.inputs())) batched.push_back(batched[i]);
  return ops::custom_jvp_call(c.emitter(), mapped, c.host().batch(c.op().graph("jvp"), batched, c.size()),
                              operands_of(c));
}

}  // namespace

// y = graph(x)          (y, dy) = jvp(x, dx)
constinit const Primitive custom_jvp_call{.name = "custom_jvp_call",
                                          .arity = variadic,
                                          .num_outputs = variadic,
                                          .attributes = graph_and_jvp,
                                          .traits = Trait::holds_graph,
                                          .linearity = linearity::linear,
                                          .infer = infer_custom_jvp,
                                          .jvp = jvp_custom_jvp,
                                          .transpose = transpose_custom_jvp,
                                          .batch = batch_custom_jvp};

}  // namespace tidu::prim

namespace tidu::ops {

Values custom_jvp_call(Emitter& emitter, const Graph& graph, const Graph& jvp,
                       std::span<const Value> operands, Where where) {
  return emitter.emit(Op::make(prim::custom_jvp_call, {{"graph", graph}, {"jvp", jvp}}), operands, where);
}

Values custom_jvp_call(const Graph& graph, const Graph& jvp, std::span<const Value> operands, Where where) {
  return emit(Op::make(prim::custom_jvp_call, {{"graph", graph}, {"jvp", jvp}}), operands, where);
}

}  // namespace tidu::ops
