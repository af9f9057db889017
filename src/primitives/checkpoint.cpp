// checkpoint.cpp - checkpoint: a call whose derivative keeps the values that its policy selects, and
// rematerializes the other residuals in the linear graph.
//
// Note [Recomputation]: the linear operation of a checkpoint holds a graph of the kept values and the
// tangents: an optimization_barrier over the kept values, the operations of the forward graph that the
// residuals need, then the linear ones. Its transpose leaves the recomputation before the transposed
// operations, so that it runs when the cotangents are there. The barrier prevents merging of the
// recomputation with the equal operations of the forward graph. Barriers of different graphs have different
// instances, so that recomputations for tangents and for cotangents are not merged either. Both operations
// are checkpoints that keep nothing, so that derivatives of higher order recompute too.
#include <algorithm>

#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec graph_and_policy[] = {{"graph", AttributeKind::graph},
                                              {"policy", AttributeKind::policy}};

void infer_checkpoint(InferContext& c) {
  const Graph graph = c.op().graph("graph");
  infer_inner_graph(c, graph);
  const Attribute& policy = c.op().attribute("policy");
  if (const std::string* word = policy.get_if<std::string>()) {
    c.require(*word == "nothing" || *word == "everything",
              "expected policy \"nothing\", \"everything\" or a list of values, got ",
              detail::in_quotes(*word));
    return;
  }
  std::vector<bool> seen(graph.num_values(), false);
  for (const std::int64_t id : *policy.get_if<Ints>()) {
    c.require(id >= 0 && static_cast<std::size_t>(id) < graph.num_values(),
              "expected policy to list values of graph ", detail::in_quotes(graph.name()), ", 0 to ",
              graph.num_values(), " exclusive, got ", id);
    c.require(!seen[static_cast<std::size_t>(id)], "expected policy to list each value once, got ", id,
              " twice");
    seen[static_cast<std::size_t>(id)] = true;
  }
}

bool keeps_everything(const Op& op) {
  const std::string* word = op.attribute("policy").get_if<std::string>();
  return word != nullptr && *word == "everything";
}

CheckpointPolicy policy_of(const Op& op) {
  if (keeps_everything(op)) return CheckpointPolicy::everything();
  const Ints* listed = op.attribute("policy").get_if<Ints>();
  if (listed == nullptr) return CheckpointPolicy::nothing();
  std::vector<ValueId> ids;
  for (const std::int64_t id : *listed) ids.push_back(static_cast<ValueId>(id));
  return CheckpointPolicy::save(ids);
}

// A barrier's instance that differs between graphs and is the same for equal ones.
std::int64_t instance_for(const Graph& graph) {
  return static_cast<std::int64_t>(graph.structural_key().low & 0x7fffffffU);
}

// Values of the graph to keep in addition to its inputs: those that the policy lists, and results of impure
// operations, which must not run twice.
std::vector<ValueId> kept_values(const Op& op, const Graph& graph) {
  std::vector<bool> kept(graph.num_values(), false);
  if (const Ints* listed = op.attribute("policy").get_if<Ints>()) {
    for (const std::int64_t id : *listed) kept[static_cast<std::size_t>(id)] = true;
  }
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (!operation.is_impure()) continue;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) kept[operation.output(slot)] = true;
  }
  for (const ValueId id : graph.inputs()) kept[id] = false;
  std::vector<ValueId> ids;
  for (ValueId id = 0; id < kept.size(); ++id) {
    if (kept[id]) ids.push_back(id);
  }
  return ids;
}

// The linear operation of a checkpoint: see Note [Recomputation].
class Recomputation {
 public:
  Recomputation(JvpContext& c, const Graph& graph, std::vector<ValueId> kept)
      : c_(c), graph_(graph), kept_(std::move(kept)), count_(graph.outputs().size()) {
    std::vector<bool> active;
    for (std::size_t i = 0; i < c.num_operands(); ++i) active.push_back(c.active(i));
    inner_ = c.host().linearize(kept_.empty() ? graph : with_more_outputs(graph, kept_), active);
  }

  Derivatives emit() {
    for (std::size_t k = 0; k < count_; ++k) {
      if (inner_.tangent_of_output[k])
        roots_.push_back(inner_.linear.outputs()[*inner_.tangent_of_output[k]]);
    }
    Derivatives result = Derivatives::absent(count_);
    if (roots_.empty()) return result;
    find_sources();
    std::vector<Value> operands = save_residuals();
    const Graph graph = build(operands);
    const Values tangents = ops::checkpoint(c_.emitter(), graph, operands);
    std::size_t next = 0;
    for (std::size_t k = 0; k < count_; ++k) {
      if (inner_.tangent_of_output[k]) result.set(k, tangents[next++]);
    }
    return result;
  }

 private:
  std::span<const ValueId> residuals() const {
    return inner_.primal.outputs().subspan(count_ + kept_.size());
  }

  // Goes back from the residuals that the tangents need to inputs, kept values, and results of impure
  // operations, including further results of a call of such a graph, which graph_ does not have.
  void find_sources() {
    const Graph& primal = inner_.primal;
    linear_needs_ = reachable(inner_.linear, roots_);
    is_source_.assign(primal.num_values(), false);
    is_used_.assign(primal.num_values(), false);
    wanted_.assign(primal.num_operations(), false);
    for (const ValueId id : primal.inputs()) is_source_[id] = true;
    for (std::size_t k = 0; k < kept_.size(); ++k) is_source_[primal.outputs()[count_ + k]] = true;
    for (std::size_t i = 0; i < primal.num_operations(); ++i) {
      const Operation operation = primal.operation(i);
      for (std::size_t slot = 0; slot < operation.num_outputs() && operation.is_impure(); ++slot)
        is_source_[operation.output(slot)] = true;
    }
    std::vector<ValueId> stack;
    for (std::size_t r = 0; r < residuals().size(); ++r) {
      if (linear_needs_[inner_.linear.inputs()[r]]) stack.push_back(residuals()[r]);
    }
    while (!stack.empty()) {
      const ValueId id = stack.back();
      stack.pop_back();
      if (is_used_[id]) continue;
      is_used_[id] = true;
      if (is_source_[id]) continue;
      const std::uint32_t producer = *primal.producer(id);
      if (wanted_[producer]) continue;
      wanted_[producer] = true;
      for (const ValueId operand : primal.operation(producer).inputs()) stack.push_back(operand);
    }
  }

  // The outer values for the sources: operands, and further results of the operation that replaces the primal
  // one.
  std::vector<Value> save_residuals() {
    const Graph& primal = inner_.primal;
    std::vector<ValueId> in_graph;  // by source, of graph_
    std::vector<bool> listed(primal.num_values(), false);
    const auto list = [&](ValueId id, ValueId of_graph) {
      if (!is_used_[id] || !is_source_[id] || listed[id] || primal.is_input(id)) return false;
      listed[id] = true;
      sources_.push_back(id);
      in_graph.push_back(of_graph);
      return true;
    };
    for (std::size_t k = 0; k < kept_.size(); ++k) list(primal.outputs()[count_ + k], kept_[k]);
    bool beyond = false;  // are there sources that graph_ has not?
    for (ValueId id = 0; id < primal.num_values(); ++id) beyond = list(id, no_index) || beyond;
    std::vector<Value> operands;
    if (!sources_.empty()) {
      const Graph& from = beyond ? primal : graph_;
      const auto outputs = from.outputs().first(count_);
      std::vector<ValueId> all(outputs.begin(), outputs.end());
      std::vector<std::size_t> result_slot;
      for (const ValueId id : beyond ? sources_ : in_graph) {
        const auto output = std::find(outputs.begin(), outputs.end(), id);
        result_slot.push_back(output != outputs.end() ? static_cast<std::size_t>(output - outputs.begin())
                                                      : all.size());
        if (output == outputs.end()) all.push_back(id);
      }
      GraphBuilder::Options options;
      options.deduplicate = false;
      const Graph with = GraphBuilder::extending(from, options)->build_ids(std::move(all));
      const Values results =
          ops::checkpoint(c_.emitter(), with, c_.primals(), beyond ? policy_of_primal() : policy_of(c_.op()));
      c_.host().replace_results(std::span<const Value>(results.data(), count_));
      for (const std::size_t slot : result_slot) operands.push_back(results[slot]);
    }
    for (std::size_t i = 0; i < c_.num_operands(); ++i) {
      const ValueId id = inner_.primal.inputs()[i];
      if (!is_used_[id]) continue;
      sources_.push_back(id);
      operands.push_back(c_.primal(i));
    }
    return operands;
  }

  // The policy, by values of inner_.primal.
  CheckpointPolicy policy_of_primal() const {
    if (c_.op().attribute("policy").get_if<Ints>() == nullptr) return policy_of(c_.op());
    std::vector<ValueId> ids;
    for (const ValueId id : inner_.primal.outputs().subspan(count_, kept_.size())) {
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    return CheckpointPolicy::save(ids);
  }

  // The graph, with the tangents that it needs added to the operands.
  Graph build(std::vector<Value>& operands) {
    const Graph& primal = inner_.primal;
    GraphBuilder builder(graph_.name() + ".recomputed", graph_.primitives());
    std::vector<Value> kept;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      kept.push_back(builder.input(detail::str("kept.", i), primal.type(sources_[i])));
    std::vector<Value> arguments(inner_.linear.inputs().size());
    std::size_t at = inner_.num_residuals;
    for (std::size_t i = 0; i < c_.num_operands(); ++i) {
      if (!c_.active(i)) continue;
      const ValueId id = inner_.linear.inputs()[at];
      if (linear_needs_[id]) {
        arguments[at] = builder.input(detail::str("tangent.", i), inner_.linear.type(id));
        operands.push_back(*c_.tangent(i));
      }
      ++at;
    }
    const bool recomputes = std::find(wanted_.begin(), wanted_.end(), true) != wanted_.end();
    if (recomputes && !kept.empty()) {
      const Values passed = ops::optimization_barrier(kept, instance_for(primal));
      kept.assign(passed.begin(), passed.end());
    }
    std::vector<Value> values(primal.num_values());
    for (std::size_t i = 0; i < sources_.size(); ++i) values[sources_[i]] = kept[i];
    std::vector<Value> inputs;
    for (std::uint32_t i = 0; i < primal.num_operations(); ++i) {
      if (!wanted_[i]) continue;
      const Operation operation = primal.operation(i);
      inputs.clear();
      for (const ValueId id : operation.inputs()) inputs.push_back(values[id]);
      const Values results = builder.emit(operation.op(), inputs);
      for (std::size_t slot = 0; slot < results.size(); ++slot) {
        Value& value = values[operation.output(slot)];
        if (value.emitter() == nullptr) value = results[slot];
      }
    }
    for (std::size_t r = 0; r < inner_.num_residuals; ++r) {
      if (linear_needs_[inner_.linear.inputs()[r]]) arguments[r] = values[residuals()[r]];
    }
    const std::vector<Value> linear = inline_graph(builder, inner_.linear, arguments, {}, &linear_needs_);
    std::vector<Value> outputs;
    for (const ValueId id : roots_) outputs.push_back(linear[id]);
    return builder.build(outputs);
  }

  JvpContext& c_;
  Graph graph_;
  std::vector<ValueId> kept_;
  std::size_t count_;
  InnerLinearization inner_;
  std::vector<ValueId> roots_;             // of inner_.linear
  std::vector<bool> linear_needs_;         // by value of inner_.linear
  std::vector<bool> is_source_, is_used_;  // by value of inner_.primal
  std::vector<bool> wanted_;               // by operation of inner_.primal
  std::vector<ValueId> sources_;           // of inner_.primal, in the order of the operands
};

Derivatives jvp_checkpoint(JvpContext& c) {
  const Graph graph = c.op().graph("graph");
  if (keeps_everything(c.op())) {
    return jvp_inner_graph(c, [&c](const Graph& inner, std::span<const Value> operands) {
      return ops::call(c.emitter(), inner, operands);
    });
  }
  return Recomputation(c, graph, kept_values(c.op(), graph)).emit();
}

// `inner` with a barrier after its first inputs, which are not linear.
Graph behind_barrier(const Graph& inner, std::size_t count) {
  GraphBuilder builder(inner.name(), inner.primitives());
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < inner.inputs().size(); ++i) {
    const ValueId id = inner.inputs()[i];
    inputs.push_back(builder.input(inner.input_key(i), inner.type(id), inner.label(id)));
  }
  const Values passed =
      ops::optimization_barrier(std::span<const Value>(inputs.data(), count), instance_for(inner));
  std::copy(passed.begin(), passed.end(), inputs.begin());
  const std::vector<Value> values = inline_graph(builder, inner, inputs);
  std::vector<Value> outputs;
  for (const ValueId id : inner.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
}

Derivatives transpose_checkpoint(TransposeContext& c) {
  const bool everything = keeps_everything(c.op());
  std::size_t parameters = 0;
  for (std::size_t i = 0; i < c.num_operands(); ++i) parameters += c.linear(i) ? 0U : 1U;
  return transpose_inner_graph(c, [&](const Graph& inner, std::span<const Value> operands) {
    if (everything) return ops::call(c.emitter(), inner, operands);
    return ops::checkpoint(c.emitter(), parameters == 0 ? inner : behind_barrier(inner, parameters),
                           operands);
  });
}

Values batch_checkpoint(BatchContext& c) {
  const Graph graph = c.op().graph("graph");
  const std::vector<bool> batched = batched_operands(c);
  const Ints* listed = c.op().attribute("policy").get_if<Ints>();
  if (listed == nullptr) {
    const InnerBatching inner = c.host().batch_reached(graph, batched, c.size());
    return ops::checkpoint(c.emitter(), inner.graph, operands_of(c), policy_of(c.op()));
  }
  // The batched graph with the listed values as further outputs says where they are in it.
  std::vector<ValueId> ids(listed->size());
  std::transform(listed->begin(), listed->end(), ids.begin(),
                 [](std::int64_t id) { return static_cast<ValueId>(id); });
  const InnerBatching offered = c.host().batch_reached(with_more_outputs(graph, ids), batched, c.size());
  const std::size_t count = graph.outputs().size();
  std::vector<ValueId> saved;
  for (const ValueId id : offered.graph.outputs().subspan(count)) {
    if (std::find(saved.begin(), saved.end(), id) == saved.end()) saved.push_back(id);
  }
  GraphBuilder::Options options;
  options.deduplicate = false;
  const auto outputs = offered.graph.outputs().first(count);
  const Graph mapped =
      GraphBuilder::extending(offered.graph, options)->build_ids({outputs.begin(), outputs.end()});
  return ops::checkpoint(c.emitter(), mapped, operands_of(c), CheckpointPolicy::save(saved));
}

// Ids that the policy lists are those of the graph as it is.
std::vector<RegionBinding> bindings_of_checkpoint(const Op& op) {
  if (op.attribute("policy").get_if<Ints>() != nullptr) return {};
  return bindings_of_inner_graph(op);
}

}  // namespace

// y = graph(x)          dy = checkpoint(recomputed)(kept, dx), ct_x = checkpoint(transposed)(kept, ct)
constinit const Primitive checkpoint{.name = "checkpoint",
                                     .arity = variadic,
                                     .num_outputs = variadic,
                                     .attributes = graph_and_policy,
                                     .traits = Trait::holds_graph,
                                     .linearity = linearity::linear,
                                     .infer = infer_checkpoint,
                                     .jvp = jvp_checkpoint,
                                     .transpose = transpose_checkpoint,
                                     .batch = batch_checkpoint,
                                     .region_bindings = bindings_of_checkpoint};

std::vector<const Primitive*> custom_primitives() {
  return {&custom_jvp_call,     &custom_jvp_transpose, &custom_vjp_call, &linear_call,
          &custom_linear_solve, &custom_root,          &checkpoint};
}

}  // namespace tidu::prim

namespace tidu {

CheckpointPolicy CheckpointPolicy::nothing() { return CheckpointPolicy(Attribute("nothing")); }
CheckpointPolicy CheckpointPolicy::everything() { return CheckpointPolicy(Attribute("everything")); }
CheckpointPolicy CheckpointPolicy::save(const std::vector<ValueId>& values) {
  return CheckpointPolicy(Attribute(Ints(values.begin(), values.end())));
}
CheckpointPolicy::CheckpointPolicy(const CheckpointPolicy& other) = default;
CheckpointPolicy::CheckpointPolicy(CheckpointPolicy&& other) noexcept = default;
CheckpointPolicy& CheckpointPolicy::operator=(const CheckpointPolicy& other) = default;
CheckpointPolicy& CheckpointPolicy::operator=(CheckpointPolicy&& other) noexcept = default;
CheckpointPolicy::~CheckpointPolicy() = default;
CheckpointPolicy::CheckpointPolicy(Attribute attribute) : attribute_(std::move(attribute)) {}

}  // namespace tidu

namespace tidu::ops {

Values checkpoint(Emitter& emitter, const Graph& graph, std::span<const Value> operands,
                  const CheckpointPolicy& policy, Where where) {
  return emitter.emit(Op::make(prim::checkpoint, {{"graph", graph}, {"policy", policy.attribute()}}),
                      operands, where);
}

Values checkpoint(const Graph& graph, std::span<const Value> operands, const CheckpointPolicy& policy,
                  Where where) {
  return emit(Op::make(prim::checkpoint, {{"graph", graph}, {"policy", policy.attribute()}}), operands,
              where);
}

}  // namespace tidu::ops
