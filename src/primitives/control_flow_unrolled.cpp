// control_flow_unrolled.cpp - unrolls scans, and loops with a bound, to the operations of all their steps,
// and conds to all their branches.
#include <unordered_map>

#include "primitives/cond.hpp"
#include "primitives/scan.hpp"
#include "primitives/while.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace {

bool is_bounded_loop(const Operation& operation) {
  return operation.name() == prim::while_loop.name && prim::WhileParts(operation.op()).shape.max_steps;
}

bool is_control_flow(const Operation& operation) {
  return operation.name() == prim::scan.name || operation.name() == prim::cond.name ||
         is_bounded_loop(operation);
}

// Which graphs hold such, each looked through once.
class Finder {
 public:
  explicit Finder(const std::function<bool(const Operation&)>& stays) : stays_(stays) {}
  bool stays(const Operation& operation) const { return stays_ && stays_(operation); }
  bool holds_control_flow(const Graph& graph) {
    const auto [found, fresh] = known_.try_emplace(graph.share().get(), false);
    if (!fresh) return found->second;
    for (std::size_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      if (stays(operation)) continue;
      const auto* inner = prim::called_graph(operation);
      // Graphs nest at most max_graph_depth deep, and so do these calls.
      if (is_control_flow(operation) || (inner != nullptr && holds_control_flow(Graph(*inner))))
        return known_[graph.share().get()] = true;
    }
    return false;
  }

 private:
  const std::function<bool(const Operation&)>& stays_;
  std::unordered_map<const GraphData*, bool> known_;
};

class Writer {
 public:
  Writer(GraphBuilder& builder, Finder& finder, std::size_t max_operations)
      : builder_(builder), finder_(finder), max_operations_(max_operations) {}

  std::vector<Value> write(const Graph& graph, std::span<const Value> inputs) {
    return prim::walk<Value>(graph, inputs,
                             [&](const Operation& operation, const std::vector<Value>& operands) {
                               std::vector<Value> results = apply(operation, operands);
                               if (builder_.num_operations() > max_operations_) refuse(graph);
                               return results;
                             });
  }

 private:
  [[noreturn]] void refuse(const Graph& graph) const {
    throw Error(ErrorKind::invalid_argument,
                detail::str("with_control_flow_unrolled: expected at most ", max_operations_,
                            " operations once loops are unrolled and branches inlined, got more in ",
                            detail::in_quotes(graph.name())));
  }
  std::vector<Value> apply(const Operation& operation, const std::vector<Value>& operands) {
    if (!finder_.stays(operation)) {
      if (operation.name() == prim::scan.name) return steps(prim::ScanParts(operation.op()), operands);
      if (operation.name() == prim::cond.name) return branches(operation.op(), operands);
      if (is_bounded_loop(operation))
        return write(prim::while_as_scan(prim::WhileParts(operation.op())), operands);
      if (const auto* inner = prim::called_graph(operation);
          inner != nullptr && finder_.holds_control_flow(Graph(*inner)))
        return write(Graph(*inner), operands);
    }
    const Values results = builder_.emit(operation.op(), operands);
    return {results.begin(), results.end()};
  }

  // Every branch, and of each result the one at the index.
  std::vector<Value> branches(const Op& op, const std::vector<Value>& operands) {
    std::vector<std::vector<Value>> cases;
    for (const Graph& branch : op.graphs("branches")) {
      // Branches whose operations were all made before count too.
      if (++steps_ > max_operations_) refuse(branch);
      const std::vector<Value> outputs = write(branch, std::span(operands).subspan(1));
      cases.resize(outputs.size());
      for (std::size_t k = 0; k < outputs.size(); ++k) cases[k].push_back(outputs[k]);
    }
    std::vector<Value> results;
    for (const std::vector<Value>& of_branches : cases)
      results.push_back(prim::select_case(operands[0], of_branches));
    return results;
  }

  std::vector<Value> steps(const prim::ScanParts& parts, const std::vector<Value>& operands) {
    const std::int64_t length = parts.shape.length;
    std::vector<Value> inputs = operands, results(parts.num_outputs);
    // A step counts as an operation, though all of its own were made before.
    if (static_cast<std::size_t>(length) > max_operations_ - steps_) refuse(parts.body);
    steps_ += static_cast<std::size_t>(length);
    std::vector<std::vector<Value>> ys(parts.num_outputs);
    for (std::size_t k = 0; k < parts.num_outputs; ++k) {
      if (parts.is_y(k)) ys[k].resize(static_cast<std::size_t>(length));
    }
    for (std::int64_t step = 0; step < length; ++step) {
      const std::int64_t at = parts.shape.reverse ? length - 1 - step : step;
      for (std::size_t i = 0; i < parts.num_inputs; ++i) {
        if (!parts.is_x(i)) continue;
        Ints start(operands[i].rank(), 0), limit = operands[i].shape();
        start[0] = at;
        limit[0] = at + 1;
        inputs[i] =
            ops::reshape(ops::slice(operands[i], start, limit), parts.body.type(parts.input(i)).shape());
      }
      const std::vector<Value> outputs = write(parts.body, inputs);
      for (std::size_t k = 0; k < parts.num_outputs; ++k) {
        if (parts.is_y(k)) {
          ys[k][static_cast<std::size_t>(at)] = ops::expand_dims(outputs[k], {0});
        } else {
          inputs[parts.carry(k)] = outputs[k];
        }
      }
    }
    for (std::size_t k = 0; k < parts.num_outputs; ++k) {
      if (!parts.is_y(k)) {
        results[k] = inputs[parts.carry(k)];
      } else if (length == 0) {
        results[k] = ops::full(builder_, prim::with_leading_axis(parts.body.type(parts.output(k)), 0), 0.0);
      } else {
        results[k] = ops::concatenate(ys[k], 0);
      }
    }
    return results;
  }

  GraphBuilder& builder_;
  Finder& finder_;
  std::size_t max_operations_;
  std::size_t steps_ = 0;
};

}  // namespace

Graph with_control_flow_unrolled(const Graph& graph, std::size_t max_operations,
                                 const std::function<bool(const Operation&)>& stays) {
  Finder finder(stays);
  if (!graph.externals().empty() || !finder.holds_control_flow(graph)) return graph;
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    inputs.push_back(builder.input(graph.input_key(i), graph.type(id), graph.label(id)));
  }
  return builder.build(Writer(builder, finder, max_operations).write(graph, inputs));
}

}  // namespace tidu
