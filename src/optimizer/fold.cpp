// fold.cpp - constant folding: values that depend on constants alone are computed once, by an evaluator that
// is an argument.
#include <limits>

#include "optimizer/rewrite.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

// Folded values take at most that many times the bytes that one value may have.
constexpr std::size_t max_values = 256;

bool carries_tensor(const OperationRecord& record) {
  for (const auto& [name, value] : record.op->attributes) {
    if (value.get_if<Literal>() != nullptr) return true;
  }
  return false;
}

bool is_plain(const Primitive& primitive) {
  return !primitive.has_trait(Trait::impure) && !primitive.has_trait(Trait::barrier) &&
         !primitive.has_trait(Trait::holds_graph);
}

// By value: 0, or 1 for a constant, or 2 for a value computed from constants. A repetition of one element is
// not folded: a copy would only take memory.
std::vector<char> find_known(const Graph& graph, std::size_t constant_bytes) {
  std::vector<char> known(graph.num_values(), 0);
  const GraphData& g = graph.data();
  for (const OperationRecord& record : g.operations) {
    const Primitive& primitive = *record.op->primitive;
    if (!is_plain(primitive) || record.num_outputs == 0) continue;
    bool from_known = record.num_inputs > 0 || primitive.has_trait(Trait::constant);
    for (std::uint32_t i = 0; i < record.num_inputs && from_known; ++i)
      from_known = known[g.operands[record.first_input + i]] != 0;
    if (!from_known) continue;
    const bool carried = record.num_inputs == 0 && carries_tensor(record);
    bool small = true;
    for (std::uint32_t i = 0; i < record.num_outputs; ++i)
      small = small && graph.type(record.first_output + i).bytes() <= constant_bytes;
    const bool repeated = record.num_inputs == 0 && primitive.has_trait(Trait::repeats);
    if (!small && (!carried || repeated)) continue;
    for (std::uint32_t i = 0; i < record.num_outputs; ++i)
      known[record.first_output + i] = record.num_inputs == 0 ? 1 : 2;
  }
  return known;
}

// Values of kind 2 that are outputs or have an unknown reader, and values computed together with them.
std::vector<ValueId> find_wanted(const Graph& graph, const std::vector<char>& known, std::size_t max_bytes) {
  const GraphData& g = graph.data();
  std::vector<bool> wanted(graph.num_values(), false);
  std::vector<ValueId> list;
  std::size_t bytes = 0;
  const auto want = [&](ValueId id) {
    if (known[id] != 2 || wanted[id]) return;
    const OperationRecord& record = g.operations[g.producers[id]];
    std::size_t more = 0;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
      more += graph.type(record.first_output + slot).bytes();
    if (more > max_bytes - bytes) return;
    bytes += more;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
      wanted[record.first_output + slot] = true;
      list.push_back(record.first_output + slot);
    }
  };
  for (const OperationRecord& record : g.operations) {
    if (record.num_outputs > 0 && known[record.first_output] != 0) continue;
    for (std::uint32_t i = 0; i < record.num_inputs; ++i) want(g.operands[record.first_input + i]);
  }
  for (const ValueId id : g.outputs) want(id);
  return list;
}

// The graph without inputs whose outputs are the wanted values.
Graph graph_of(const Graph& graph, std::span<const ValueId> wanted) {
  const std::vector<bool> needed = reachable(graph, wanted);
  GraphBuilder builder(graph.name() + " constants", graph.primitives());
  std::vector<ValueId> values(graph.num_values(), 0), operands;
  const GraphData& g = graph.data();
  for (const OperationRecord& record : g.operations) {
    bool here = false;
    for (std::uint32_t i = 0; i < record.num_outputs; ++i) here = here || needed[record.first_output + i];
    if (!here || record.op->impure) continue;
    operands.clear();
    for (std::uint32_t i = 0; i < record.num_inputs; ++i)
      operands.push_back(values[g.operands[record.first_input + i]]);
    const ValueId first = builder.add_typed(record.op, operands, g.types.data() + record.first_output,
                                            record.num_outputs, GraphBuilder::Extra());
    for (std::uint32_t i = 0; i < record.num_outputs; ++i) values[record.first_output + i] = first + i;
  }
  std::vector<ValueId> outputs;
  for (const ValueId id : wanted) outputs.push_back(values[id]);
  return builder.build_ids(std::move(outputs));
}

}  // namespace

Graph fold_constants(const Graph& graph, const ConstantEvaluator& evaluate, const OptimizeOptions& options) {
  const auto make_constant = graph.primitives().transform_ops().constant;
  if (evaluate == nullptr || make_constant == nullptr) return graph;
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  const std::size_t bytes =
      options.constant_bytes > most / max_values ? most : max_values * options.constant_bytes;
  const std::vector<ValueId> wanted = find_wanted(graph, find_known(graph, options.constant_bytes), bytes);
  if (wanted.empty()) return graph;
  std::vector<Literal> tensors;
  try {
    tensors = evaluate(graph_of(graph, wanted));
  } catch (const Error& error) {
    return graph;  // an error that is not folded is thrown by the run that needs the value
  }
  bool fits = tensors.size() == wanted.size();
  for (std::size_t i = 0; fits && i < wanted.size(); ++i) fits = tensors[i].type() == graph.type(wanted[i]);
  if (!fits) {
    throw Error(ErrorKind::execution,
                detail::str("Program::make: expected the evaluator to give ", wanted.size(),
                            " tensors of the types asked for, got ", tensors.size(), " or other types"));
  }
  std::unordered_map<ValueId, Literal> known;
  for (std::size_t i = 0; i < wanted.size(); ++i) known.emplace(wanted[i], tensors[i]);
  return rewrite(graph, {.rules = options.simplify, .fast_math = options.fast_math, .tensors = &known});
}

}  // namespace tidu::passes
