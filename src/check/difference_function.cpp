// difference_function.cpp - see difference_function.hpp.
#include "check/difference_function.hpp"

#include <algorithm>
#include <optional>

#include "check/derived.hpp"
#include "check/inside.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/passes.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::check {
namespace {

constexpr std::size_t max_operations = std::size_t{1} << 24;
// The maximum number of steps and branches; each of them costs time in every run of a difference.
constexpr std::size_t max_of_control_flow = std::size_t{1} << 14;

bool is_frozen(const Graph& graph, const Operation& operation) {
  if (operation.num_inputs() == 0) return false;
  if (operation.primitive().has_trait(Trait::no_tangent)) return true;
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
    if (is_inexact(graph.type(operation.output(slot)).dtype())) return false;
  }
  return true;
}

// Does it give inexact results of inexact operands that differences would see and tangents do not?
bool hides_differences(const Graph& graph, const Operation& operation) {
  const auto inexact = [&](ValueId id) { return is_inexact(graph.type(id).dtype()); };
  if (!operation.primitive().has_trait(Trait::no_tangent) ||
      std::ranges::none_of(operation.inputs(), inexact))
    return false;
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
    if (inexact(operation.output(slot))) return true;
  }
  return false;
}

std::string hidden_inside(const Graph& graph);
// Graphs nest at most max_graph_depth deep, and so do these calls.
std::string hidden_in_attributes(const Operation& operation) {
  if (!operation.primitive().has_trait(Trait::holds_graph) || !custom_rule(operation).empty()) return {};
  for (const auto& [name, attribute] : operation.op().attributes()) {
    GraphList graphs;
    if (const auto* graph = attribute.get_if<std::shared_ptr<const GraphData>>()) graphs = {*graph};
    if (const auto* list = attribute.get_if<GraphList>()) graphs = *list;
    for (const auto& graph : graphs) {
      if (std::string found = primitive_without_tangent(Graph(graph)); !found.empty()) return found;
    }
  }
  return {};
}
// Text on operations in inner graphs that were inlined: in steps or branches.
std::string hidden_inside(const Graph& graph) {
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    if (std::string found = hidden_in_attributes(graph.operation(i)); !found.empty()) return found;
  }
  return {};
}

Graph written_out(const Graph& graph, bool steps, const RuleViews& views) {
  const auto stays = [&](const Operation& operation) {
    const std::string_view rule = custom_rule(operation);
    return !rule.empty() && view_of(views, operation) != RuleView::inside;
  };
  const Graph without_steps = steps ? with_control_flow_unrolled(graph, max_of_control_flow, stays) : graph;
  return passes::inline_graphs(without_steps, max_operations, stays);
}
// Nothing where that takes too many operations.
std::optional<Graph> steps_written_out(const Graph& graph, const RuleViews& views) {
  try {
    return written_out(graph, true, views);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The graph with the fixed values as inputs after its own.
class Freezer {
 public:
  Freezer(const Graph& graph, const RuleViews& views)
      : graph_(graph),
        views_(views),
        builder_(graph.name(), graph.primitives()),
        fixed_(graph.num_values(), no_index),
        live_(graph.num_values(), no_index) {}

  DifferenceFunction run(const Subject& subject, const Executor& executor) {
    find_wanted();
    const Key128 source = tidu::detail::random_key();
    std::vector<ValueId> frozen;
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i)
      fixed_[graph_.inputs()[i]] =
          builder_
              .input(graph_.input_key(i), graph_.type(graph_.inputs()[i]), graph_.label(graph_.inputs()[i]))
              .id();
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      if (!is_frozen(graph_, operation)) continue;
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        const ValueId id = operation.output(slot);
        fixed_[id] = builder_.input(InputKey::fresh(source, frozen.size()), graph_.type(id)).id();
        frozen.push_back(id);
      }
    }
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) copy(graph_.operation(i));
    std::vector<ValueId> outputs;
    for (const ValueId id : graph_.outputs()) outputs.push_back(fixed_[id]);
    DifferenceFunction function{builder_.build_ids(std::move(outputs)), subject.wrt, subject.inputs};
    const Tensors values = all_values(graph_, subject.inputs, executor);
    for (const ValueId id : frozen) function.inputs.push_back(values[id]);
    return function;
  }

 private:
  bool by_values(const Operation& operation) const {
    return !custom_rule(operation).empty() && view_of(views_, operation) == RuleView::by_values;
  }
  // Which values depend on fixed ones, and which of these are wanted as they move.
  void find_wanted() {
    std::vector<bool> depends(graph_.num_values(), false);
    wanted_.assign(graph_.num_values(), false);
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      const bool one = is_frozen(graph_, operation) ||
                       (!by_values(operation) &&
                        std::ranges::any_of(operation.inputs(), [&](ValueId id) { return depends[id]; }));
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        depends[operation.output(slot)] = one;
    }
    for (std::uint32_t i = static_cast<std::uint32_t>(graph_.num_operations()); i-- > 0;) {
      const Operation operation = graph_.operation(i);
      bool all = by_values(operation);
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        all = all || wanted_[operation.output(slot)];
      if (!all) continue;
      for (const ValueId id : operation.inputs()) wanted_[id] = wanted_[id] || depends[id];
    }
  }
  ValueId emit(const Operation& operation, bool as_they_move) {
    operands_.clear();
    for (const ValueId id : operation.inputs())
      operands_.push_back(as_they_move && live_[id] != no_index ? live_[id] : fixed_[id]);
    return builder_.add(operation.record().op, operands_);
  }
  void copy(const Operation& operation) {
    const auto place = [&](std::vector<ValueId>& ids, ValueId first) {
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        ids[operation.output(slot)] = first + static_cast<ValueId>(slot);
    };
    if (operation.num_outputs() == 0 || fixed_[operation.output()] == no_index)
      place(fixed_, emit(operation, by_values(operation)));
    bool moves = false;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      moves = moves || wanted_[operation.output(slot)];
    if (moves) place(live_, emit(operation, true));
  }

  const Graph& graph_;
  const RuleViews& views_;
  GraphBuilder builder_;
  std::vector<ValueId> fixed_, live_, operands_;
  std::vector<bool> wanted_;
};

DifferenceFunction frozen_function(const Subject& subject, const Executor& executor, const RuleViews& views) {
  Graph written = written_out(subject.graph, false, views);
  const std::string hidden = hidden_inside(written);
  if (!hidden.empty() || !views.empty()) {
    std::optional<Graph> steps = steps_written_out(subject.graph, views);
    if (steps && hidden_inside(*steps).empty()) {
      written = *std::move(steps);
    } else if (!hidden.empty()) {
      return {
          subject.graph, subject.wrt, subject.inputs,
          detail::str("it holds ", hidden,
                      " without tangent in a loop without a bound, or in more steps and branches than are "
                      "written out for that")};
    }
  }
  bool any = false;
  for (std::uint32_t i = 0; i < written.num_operations(); ++i)
    any = any || is_frozen(written, written.operation(i));
  if (!any) return {subject.graph, subject.wrt, subject.inputs};
  return Freezer(written, views).run(subject, executor);
}

}  // namespace

RuleView view_of(const RuleViews& views, const Operation& operation) {
  const auto found = std::ranges::find(views, operation.op().key(), &RuleViews::value_type::first);
  return found == views.end() ? RuleView::by_operands : found->second;
}

std::vector<bool> depending_on_fixed(const Graph& graph) {
  std::vector<bool> depends(graph.num_values(), false);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    const bool one = is_frozen(graph, operation) ||
                     std::ranges::any_of(operation.inputs(), [&](ValueId id) { return depends[id]; });
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) depends[operation.output(slot)] = one;
  }
  return depends;
}

std::string primitive_without_tangent(const Graph& graph) {
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (hides_differences(graph, operation)) return std::string(operation.name());
    if (std::string found = hidden_in_attributes(operation); !found.empty()) return found;
  }
  return {};
}

Graph with_graphs_inlined(const Graph& graph, bool steps) {
  if (steps) {
    if (std::optional<Graph> written = steps_written_out(graph, {})) return *std::move(written);
  }
  return written_out(graph, false, {});
}

DifferenceFunction difference_function(const Subject& subject, const Executor& executor,
                                       const RuleViews& views) {
  DifferenceFunction function = frozen_function(subject, executor, views);
  function.iterates = has_iterating_rule(subject.graph);
  return function;
}

}  // namespace tidu::check
