// gated_loops.cpp - see gated_loops.hpp. Operations that hold such a loop get the bool as an operand, beside
// their other operands that are not linear.
#include "primitives/gated_loops.hpp"
#include "primitives/custom_rules.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "graph/copying.hpp"
#include "primitives/scan.hpp"
#include "primitives/while.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

bool is_unbounded(const Operation& operation) {
  return operation.name() == while_loop.name && !WhileParts(operation.op()).shape.max_steps;
}

// Recursion is bounded: graphs nest at most max_graph_depth deep. Each is visited once.
class Gating {
 public:
  bool holds(const Graph& graph) {
    const auto known = holds_.find(&graph.data());
    if (known != holds_.end()) return known->second;
    bool any = false;
    for (std::size_t i = 0; i < graph.num_operations() && !any; ++i) {
      const Operation operation = graph.operation(i);
      any = operation.primitive().has_trait(Trait::holds_graph) &&
            (is_unbounded(operation) || holds(operation.op()));
    }
    return holds_.emplace(&graph.data(), any).first->second;
  }

  struct Gated {
    Graph graph;
    std::vector<Value> values;  // by value of the graph as it was: ids alone
  };
  // The bool is inserted before input `at`.
  const Gated& gated(const Graph& graph, std::size_t at, bool joined = false) {
    const Key key{&graph.data(), at, joined};
    if (const auto it = gated_.find(key); it != gated_.end()) return it->second;
    return gated_.emplace(key, made(graph, at, joined)).first->second;
  }

 private:
  using Key = std::tuple<const GraphData*, std::size_t, bool>;
  struct Changed {
    Op op;
    std::size_t at;  // the new operand
  };

  bool holds(const Op& op) {
    for (const auto& [name, value] : op.attributes()) {
      const auto graphs = value.graphs();
      if (std::any_of(graphs.begin(), graphs.end(), [&](const auto& each) { return holds(Graph(each)); }))
        return true;
    }
    return false;
  }

  // A graph may have been given one before.
  static std::string new_name(const Graph& graph) {
    std::string name = "taken";
    const auto is_there = [&] {
      for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
        if (graph.input_name(i) == name) return true;
      }
      return false;
    };
    for (std::size_t n = 2; is_there(); ++n) name = detail::str("taken.", n);
    return name;
  }

  // `joined`: the output is a condition, which holds only where the bool does.
  Gated made(const Graph& graph, std::size_t at, bool joined) {
    GraphBuilder builder(graph.name(), graph.primitives());
    std::vector<Value> values(graph.num_values());
    Value gate;
    for (std::size_t i = 0; i <= graph.inputs().size(); ++i) {
      if (i == at) gate = builder.input(new_name(graph), Type(DType::boolean));
      if (i == graph.inputs().size()) break;
      const ValueId id = graph.inputs()[i];
      values[id] = builder.input(graph.input_key(i), graph.type(id), graph.label(id));
    }
    detail::OperationCopier copier(builder, graph, values);
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      const std::optional<Changed> with = changed(graph.operation(i));
      if (with) {
        copier.extend(i, with->op, with->at, gate);
      } else {
        copier.copy(i);
      }
    }
    std::vector<Value> outputs;
    for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
    if (joined) outputs[0] = ops::logical_and(gate, outputs[0]);
    return {builder.build(outputs), std::move(values)};
  }

  std::optional<Changed> changed(const Operation& operation) {
    if (!operation.primitive().has_trait(Trait::holds_graph)) return std::nullopt;
    const Op op = operation.op();
    const bool unbounded = is_unbounded(operation);
    if (!unbounded && !holds(op)) return std::nullopt;
    const std::string_view name = op.name();
    Changed result{op, operation.num_inputs()};
    Attributes attributes = op.attributes();
    const auto set = [&](std::string_view attribute, const Attribute& value) {
      for (auto& [key, old] : attributes) {
        if (key == attribute) old = value;
      }
    };
    const auto gate_in = [&](std::string_view attribute, std::size_t at, bool joined = false) {
      const Gated& inner = gated(op.graph(attribute), at, joined);
      set(attribute, inner.graph);
      return inner;
    };
    const auto count_one_more = [&](std::string_view attribute) {
      result.at = static_cast<std::size_t>(op.integer(attribute));
      set(attribute, op.integer(attribute) + 1);
    };
    if (name == scan.name) {
      count_one_more("num_consts");
      gate_in("body", result.at);
    } else if (name == while_loop.name) {
      count_one_more("num_consts");
      gate_in("cond", result.at, unbounded);
      gate_in("body", result.at);
    } else if (name == cond.name) {
      GraphList branches;
      for (const Graph& branch : op.graphs("branches"))
        branches.push_back(gated(branch, result.at - 1).graph.share());
      set("branches", branches);
    } else if (name == linear_call.name) {
      count_one_more("num_residuals");
      gate_in("graph", result.at);
      gate_in("transpose", result.at);
    } else if (name == custom_jvp_call.name && !is_deferred(op, "jvp")) {
      gate_in("graph", result.at);
      gate_in("jvp", result.at);
    } else if (name == custom_linear_solve.name || name == custom_root.name) {
      count_one_more("num_consts");
      for (const auto& [attribute, value] : op.attributes()) {
        if (!value.graphs().empty()) set(attribute, gated_all(value, result.at));
      }
    } else if (name == custom_vjp_call.name && !is_deferred(op, "forward") && !is_deferred(op, "backward")) {
      const Graph graph = op.graph("graph"), forward = op.graph("forward");
      gate_in("graph", result.at);
      const Graph with = gated(forward, result.at).graph;
      const ValueId residual[] = {with.inputs()[result.at]};
      set("forward", with_more_outputs(with, residual));
      gate_in("backward", forward.outputs().size() - graph.outputs().size());
    } else if (name == call.name || name == checkpoint.name) {
      const Gated inner = gate_in("graph", result.at);
      if (const Ints* listed = name == checkpoint.name ? op.attribute("policy").get_if<Ints>() : nullptr)
        set("policy", moved(*listed, inner));
    } else {
      return std::nullopt;
    }
    result.op = Op::make(operation.primitive(), std::move(attributes));
    return result;
  }

  // The gated form of an attribute that holds a graph or several.
  Attribute gated_all(const Attribute& value, std::size_t at) {
    GraphList graphs;
    for (const auto& graph : value.graphs()) graphs.push_back(gated(Graph(graph), at).graph.share());
    return value.get_if<GraphList>() != nullptr ? Attribute(graphs) : Attribute(graphs[0]);
  }

  // Ids of values that a policy lists; those that have become one once.
  static Ints moved(const Ints& listed, const Gated& inner) {
    Ints ids;
    for (const std::int64_t id : listed) {
      const std::int64_t now = inner.values[static_cast<std::size_t>(id)].id();
      if (std::find(ids.begin(), ids.end(), now) == ids.end()) ids.push_back(now);
    }
    return ids;
  }

  std::unordered_map<const GraphData*, bool> holds_;
  std::map<Key, Gated> gated_;
};

}  // namespace

bool holds_unbounded(const Graph& graph) { return Gating().holds(graph); }
Graph gated(const Graph& graph) { return Gating().gated(graph, graph.inputs().size()).graph; }

}  // namespace tidu::prim
