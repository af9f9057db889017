// rule_call.hpp - functions that the transforms share: the errors of rules, the checks of a rule's results,
// the memo of graphs that operations hold, and closed forms of linear graphs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/linearize/linearize.hpp"
#include "tidu/linearize/transpose.hpp"

namespace tidu::detail {

using RuleKind = ADRuleError::Rule;

/// Throws: `message`, the primitive, and the operation's source location. `primal`: the graph from which the
/// operations of a linear graph derive, if it is known.
[[noreturn]] void raise_rule_error(RuleKind rule, const Graph& graph, std::uint32_t operation,
                                   const std::string& message, const Graph* primal = nullptr);

/// The message for a default-constructed Value among the tangents or cotangents of a rule.
std::string unset_derivative(std::string_view what, std::size_t index);

/// For a catch (...): throws an Error for an exception of a rule that is none, with the operation's source
/// location.
[[noreturn]] void raise_foreign(RuleKind rule, const Graph& graph, std::uint32_t operation,
                                const Graph* primal);

/// "another's" or "a default-constructed Value": an operand of an operation of a rule that is not the rule's
/// value.
inline std::string_view foreign_value(const Value& value) {
  return value.emitter() == nullptr ? "a default-constructed Value" : "another's";
}

/// Rethrows an Error of a rule, with the operation's source location if the error has none.
[[noreturn]] void raise_from_rule(const Error& error, RuleKind rule, const Graph& graph,
                                  std::uint32_t operation, const Graph* primal);

/// Runs a rule. An Error that it throws gets the operation's location, and other exceptions become an Error.
/// `primal`: the graph from which the operations of a linear graph derive, if it is known.
template <class Body>
auto in_rule(RuleKind rule, const Graph& graph, std::uint32_t operation, Body&& body,
             const Graph* primal = nullptr) {
  try {
    return body();
  } catch (const Error& error) {
    raise_from_rule(error, rule, graph, operation, primal);
  } catch (...) {
    raise_foreign(rule, graph, operation, primal);
  }
}

/// The results of an operation, of which the builder's graph has the first as value `id`, from `first` on.
inline Values results_from(Value first, const GraphBuilder& builder, ValueId id) {
  const GraphData& g = builder.data();
  Values results;
  results.resize(g.operations[g.producers[id]].num_outputs);
  for (std::uint32_t slot = 0; slot < results.size(); ++slot)
    results[slot] = Value(first.emitter(), first.id() + slot);
  return results;
}

/// Rules call linearize, transpose and batch for inner graphs through this; results are cached for the
/// duration of one transform, except with a context without a cache key. Transforms of inner graphs share it,
/// at any depth: a loop is derived more than once, for its carries, and without a cache the loops in it would
/// be derived more often at each level.
class InnerGraphs final {
 public:
  explicit InnerGraphs(ADContext* context, bool wide_accumulation = true)
      : context_(context),
        wide_accumulation_(wide_accumulation),
        keeps_(context == nullptr || context->cache_key().has_value()) {}
  InnerLinearization linearize(const Graph& graph, const std::vector<bool>& active);
  InnerTransposition transpose(const Graph& graph, const std::vector<bool>& linear_inputs,
                               const std::vector<bool>& seeded_outputs);
  InnerBatching batch(const Graph& graph, const std::vector<bool>& batched_inputs, std::int64_t size,
                      bool all_outputs);
  bool wide_accumulation() const { return wide_accumulation_; }

 private:
  using Key = std::tuple<Key128, std::vector<bool>, std::vector<bool>, std::int64_t>;
  ADContext* context_;
  bool wide_accumulation_;
  bool keeps_;
  std::map<Key, InnerLinearization> linearized_;
  std::map<Key, InnerTransposition> transposed_;
  std::map<Key, InnerBatching> batched_;
};

/// RuleServices over an InnerGraphs, one of its own or `shared`; replacing results is for linearize alone.
class InnerServices : public RuleServices {
 public:
  InnerServices(ADContext* context, InnerGraphs* shared, bool wide_accumulation = true)
      : own_(context, wide_accumulation), inner_(shared ? *shared : own_) {}
  InnerLinearization linearize(const Graph& graph, const std::vector<bool>& active) override {
    return inner_.linearize(graph, active);
  }
  InnerTransposition transpose(const Graph& graph, const std::vector<bool>& linear_inputs,
                               const std::vector<bool>& seeded_outputs) override {
    return inner_.transpose(graph, linear_inputs, seeded_outputs);
  }
  Graph batch(const Graph& graph, const std::vector<bool>& batched_inputs, std::int64_t size) override {
    return inner_.batch(graph, batched_inputs, size, true).graph;
  }
  InnerBatching batch_reached(const Graph& graph, const std::vector<bool>& batched_inputs,
                              std::int64_t size) override {
    return inner_.batch(graph, batched_inputs, size, false);
  }
  std::shared_ptr<RuleServices> later() const override {
    return std::make_shared<InnerServices>(nullptr, nullptr, wide_accumulation());
  }
  bool wide_accumulation() const override { return inner_.wide_accumulation(); }
  void replace_results(std::span<const Value> results) override;

 private:
  InnerGraphs own_;
  InnerGraphs& inner_;
};

/// The transforms, of a graph that an operation holds.
Linearization linearize_inner(const Graph& graph, const LinearizeOptions& options, InnerGraphs& inner);
Transposition transpose_inner(const Graph& graph, const TransposeOptions& options, InnerGraphs& inner);
Batching batch_inner(const Graph& graph, std::int64_t size, const BatchOptions& options, InnerGraphs& inner);

/// Copies the operations of a linear graph into `builder`: `values` maps the ids of its inputs and externals
/// to ids of `builder`, and is filled for the rest. Roles are kept; origins go through `origin_map` (an
/// operation of the primal graph -> one of `builder`) when it is given, else are kept as they are.
void copy_linear(GraphBuilder& builder, const Graph& linear, std::vector<ValueId>& values,
                 const std::vector<std::uint32_t>* origin_map = nullptr);

/// linear_transpose_with into a builder that holds the residuals already; origins go through `origin_map`
/// when it is given. `options`: those of the derivative.
std::vector<std::optional<Value>> transpose_into(GraphBuilder& builder, const Graph& linear,
                                                 std::span<const Value> externals,
                                                 std::span<const std::optional<Value>> cotangents,
                                                 const TransposeOptions& options,
                                                 const std::vector<std::uint32_t>* origin_map);

}  // namespace tidu::detail
