// custom.cpp - see custom.hpp: a graph of one operation, called.
#include "tidu/frontend/custom.hpp"

#include <functional>

#include "frontend/context.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/graph/deferred_graph.hpp"

namespace tidu::frontend_detail {

std::vector<Array> call_operation(std::string_view name, const std::vector<Array>& arguments,
                                  const std::function<Values(Emitter&, std::span<const Value>)>& emit,
                                  Where where, std::span<const Graph> bodies) {
  std::optional<Graph> graph;
  try {
    GraphBuilder builder{std::string(name), standard_primitives()};
    for (const Graph& body : bodies) builder.extend_primitives(body.primitives());
    std::vector<Value> inputs;
    for (const Array& argument : arguments)
      inputs.push_back(builder.input(detail::str('x', inputs.size()), argument.type()));
    const Values results = emit(builder, inputs);
    graph = builder.build(std::span<const Value>(results.data(), results.size()));
  } catch (const Error& error) {
    raise_located(error, name, types_of(arguments), where);
  }
  return call_graph(*graph, arguments, where);
}

Graph close_rule(const Traced& traced, std::string_view custom, Where where) {
  for (const Array& array : traced.captured) {
    const bool differentiated = array.requires_grad() && grad_enabled();
    if (!differentiated && !array.is_traced()) continue;
    refuse(ErrorKind::invalid_argument, custom,
           detail::str("expected functions of their arguments and of data, got one (",
                       detail::in_quotes(traced.graph.name()), ") that captures an Array (", array.type(),
                       ") ", differentiated ? "that requires a gradient" : "of another trace",
                       ": pass it as an argument, or what it holds where it is a constant, detach()"),
           where);
  }
  return closed(traced, where);
}

std::vector<Array> call_custom(const Primitive& primitive, Attributes attributes,
                               const std::vector<Array>& arguments, Where where) {
  std::vector<Graph> bodies;
  for (const auto& attribute : attributes) {
    for (const auto& graph : attribute.second.graphs()) bodies.emplace_back(graph);
  }
  const auto emit = [&](Emitter& emitter, std::span<const Value> operands) {
    return emitter.emit(Op::make(primitive, attributes), operands, where);
  };
  return call_operation(&primitive == &prim::custom_jvp_call ? "custom_jvp" : "custom_vjp", arguments, emit,
                        where, bodies);
}

Key128 identity_of_type(const char* type) { return detail::mix(Key128{47, 53}, std::string_view(type)); }

namespace {

// A custom function whose rules are being traced on this thread.
struct TracedRule {
  Key128 identity, function;
  Key128 self;             // key of its rules where they refer to themselves
  bool recursive = false;  // do they?
  TracedRule* around = nullptr;
  int depth = 1;
};
thread_local TracedRule* innermost_rule = nullptr;

class Tracing {
 public:
  explicit Tracing(TracedRule& rule) : around_(innermost_rule) {
    rule.around = around_;
    rule.depth = around_ == nullptr ? 1 : around_->depth + 1;
    innermost_rule = &rule;
  }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
  ~Tracing() { innermost_rule = around_; }

 private:
  TracedRule* around_;
};

constexpr int max_rules_within_rules = 6;

Attributes deferred(const std::vector<std::string>& names, const Graph& function, const Key128& key,
                    const TraceRules& trace) {
  Attributes attributes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    attributes.emplace_back(names[i], std::make_shared<const DeferredGraph>(
                                          detail::str(function.name(), '.', names[i]),
                                          detail::mix(key, names[i]), [trace, i] { return trace()[i]; }));
  }
  return attributes;
}

}  // namespace

// The key of rules that refer to themselves is computed from the rules without this key: they are traced once
// to compute it, and once more with it.
Attributes rules_of(const Key128& identity, const Graph& function, const std::vector<std::string>& names,
                    const TraceRules& trace, const std::function<TraceRules()>& later) {
  TracedRule rule{identity, function.structural_key(), detail::mix(identity, "itself")};
  for (TracedRule* at = innermost_rule; at != nullptr; at = at->around) {
    if (at->identity != rule.identity || at->function != rule.function) continue;
    at->recursive = true;
    return deferred(names, function, at->self, later());
  }
  if (innermost_rule != nullptr && innermost_rule->depth == max_rules_within_rules)
    return deferred(names, function, detail::fresh_instance(), later());
  const Tracing tracing(rule);
  std::vector<Graph> graphs = trace();
  if (rule.recursive) {
    for (const Graph& graph : graphs) rule.self = detail::mix(rule.self, graph.structural_key());
    graphs = trace();
  }
  Attributes attributes;
  for (std::size_t i = 0; i < names.size(); ++i) attributes.emplace_back(names[i], graphs[i]);
  return attributes;
}

std::vector<Array> call_checkpoint(const Graph& graph, const CheckpointPolicy& policy,
                                   const std::vector<Array>& arguments, Where where) {
  const auto emit = [&](Emitter& emitter, std::span<const Value> operands) {
    return ops::checkpoint(emitter, graph, operands, policy, where);
  };
  return call_operation("checkpoint", arguments, emit, where, std::span(&graph, 1));
}

}  // namespace tidu::frontend_detail
