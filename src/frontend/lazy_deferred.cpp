// lazy_deferred.cpp - Deferral: finds the results of a program that may never be read. See Note [Deferred
// results] in lazy.hpp.
#include <algorithm>
#include <optional>

#include "frontend/context.hpp"
#include "frontend/lazy_program.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::frontend_detail {
namespace {

constexpr std::size_t min_bytes = std::size_t{1} << 16;
constexpr std::size_t times_smaller = 2;  // the operands together, at least

// The producer of the value, if it is a layout operation of one operand.
std::optional<Operation> layout_operation_of(const Graph& graph, ValueId id) {
  const std::optional<std::uint32_t> producer = graph.producer(id);
  if (!producer) return std::nullopt;
  const Operation operation = graph.operation(*producer);
  const bool is_layout =
      operation.primitive().has_trait(Trait::view) || &operation.primitive() == &prim::transpose;
  if (!is_layout || operation.num_inputs() != 1 || operation.num_outputs() != 1) return std::nullopt;
  return operation;
}

// A result that is a matmul of two smaller arrays, except for layout operations.
class DeferredMatmul {
 public:
  DeferredMatmul(const Graph& graph, ValueId result) : graph_(graph) {
    if (graph_.type(result).bytes() < min_bytes) return;
    const std::optional<std::uint32_t> producer = graph_.producer(root(result, after_));
    if (!producer) return;
    const Operation operation = graph_.operation(*producer);
    if (&operation.primitive() != &prim::dot_general) return;
    std::size_t bytes = 0;
    for (const ValueId id : operation.inputs()) {
      sources_.push_back(root(id, before_.emplace_back()));
      bytes += graph_.type(sources_.back()).bytes();
    }
    if (times_smaller * bytes <= graph_.type(result).bytes()) matmul_ = operation;
  }
  explicit operator bool() const { return matmul_.has_value(); }
  // The matmul's operands before their layout operations, in the graph.
  const std::vector<ValueId>& sources() const { return sources_; }
  // The graph that computes the result from the sources.
  Graph make_graph() const {
    GraphBuilder builder("deferred");
    std::vector<Value> operands;
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      const Value source = builder.input(detail::str('x', k), graph_.type(sources_[k]));
      operands.push_back(with_layouts(builder, before_[k], source));
    }
    return builder.build({with_layouts(builder, after_, builder.emit_one(matmul_->op(), operands))});
  }

 private:
  // The value before its layout operations, which are listed, the last one first.
  ValueId root(ValueId id, std::vector<Operation>& layouts) const {
    while (const std::optional<Operation> layout = layout_operation_of(graph_, id)) {
      layouts.push_back(*layout);
      id = layout->input(0);
    }
    return id;
  }
  static Value with_layouts(GraphBuilder& builder, const std::vector<Operation>& layouts, Value value) {
    for (std::size_t i = layouts.size(); i-- > 0;)
      value = builder.emit_one(layouts[i].op(), std::span(&value, 1));
    return value;
  }

  const Graph& graph_;
  std::vector<Operation> after_;
  std::vector<std::vector<Operation>> before_;
  std::vector<ValueId> sources_;
  std::optional<Operation> matmul_;
};

}  // namespace

std::shared_ptr<const Deferral> Deferral::make(const Graph& program) {
  const std::span<const ValueId> outputs = program.outputs();
  std::vector<std::uint32_t> kept;
  std::vector<Result> results;
  std::vector<ValueId> sources;
  for (std::uint32_t i = 0; i < outputs.size(); ++i) {
    const DeferredMatmul matmul(program, outputs[i]);
    if (!matmul || std::ranges::count(outputs, outputs[i]) != 1) {
      kept.push_back(i);
      continue;
    }
    const Graph graph = matmul.make_graph();
    Result result{i, graph, cpu().compile(graph), {}};
    for (const ValueId id : matmul.sources()) {
      const auto at = std::ranges::find(sources, id) - sources.begin();
      if (at == std::ssize(sources)) sources.push_back(id);
      result.operands.push_back(static_cast<std::uint32_t>(at));
    }
    results.push_back(std::move(result));
  }
  if (results.empty()) return nullptr;
  std::vector<ValueId> wanted;
  for (const std::uint32_t i : kept) wanted.push_back(outputs[i]);
  for (Result& result : results) {
    for (std::uint32_t& operand : result.operands) operand += static_cast<std::uint32_t>(kept.size());
  }
  wanted.insert(wanted.end(), sources.begin(), sources.end());
  const Graph graph = prune(GraphBuilder::extending(program)->build_ids(std::move(wanted)));
  auto made = std::make_shared<Deferral>(graph, cpu().compile(graph));
  made->reused = safely_reused(made->executable);
  made->kept = std::move(kept);
  made->results = std::move(results);
  return made;
}

}  // namespace tidu::frontend_detail
