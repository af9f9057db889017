// cond.cpp - cond: its record, type rule and batch rule, and functions that its rules share. Derivatives are
// in cond_derivatives.cpp.
#include "primitives/cond.hpp"

#include <algorithm>
#include <numeric>

#include "graph/in_all.hpp"
#include "primitives/gated_loops.hpp"
#include "primitives/scan.hpp"
#include "tidu/graph/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec cond_attributes[] = {{"branches", AttributeKind::graphs}};

void infer_cond(InferContext& c) {
  const std::vector<Graph> branches = c.op().graphs("branches");
  c.require(!branches.empty(), "expected one branch or more, got none");
  c.require(c.num_operands() > 0, "expected an index, got no operand");
  const Type index = c.operand(0);
  c.require(index == Type(bool_) || index == Type(i32),
            "expected a scalar index of dtype bool or i32 for operand 0, got ", index);
  c.require(index == Type(i32) || branches.size() == 2,
            "expected 2 branches for an index of dtype bool, got ", branches.size());
  const Graph& first = branches[0];
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const Graph& branch = branches[b];
    c.require(branch.inputs().size() == c.num_operands() - 1, "expected an index and ",
              branch.inputs().size(), " operands for branch ", b, " (", detail::in_quotes(branch.name()),
              "), got ", c.num_operands(), " operands in all");
    for (std::size_t i = 0; i < branch.inputs().size(); ++i) {
      const Type expected = branch.type(branch.inputs()[i]);
      c.require(c.operand(i + 1) == expected, "expected ", expected, " for operand ", i + 1, " (input ",
                detail::in_quotes(branch.input_name(i)), " of branch ", b, ", ",
                detail::in_quotes(branch.name()), "), got ", c.operand(i + 1));
    }
    c.require(!branch.outputs().empty(), "expected branches with one output or more, got none in branch ", b,
              " (", detail::in_quotes(branch.name()), ")");
    c.require(branch.outputs().size() == first.outputs().size(), "expected ", first.outputs().size(),
              " outputs in branch ", b, " (", detail::in_quotes(branch.name()), "), as in branch 0 (",
              detail::in_quotes(first.name()), "), got ", branch.outputs().size());
    for (std::size_t k = 0; k < branch.outputs().size(); ++k) {
      const Type expected = first.type(first.outputs()[k]), got = branch.type(branch.outputs()[k]);
      c.require(got == expected, "expected ", expected, " for output ", k, " of branch ", b, " (",
                detail::in_quotes(branch.name()), "), as in branch 0 (", detail::in_quotes(first.name()),
                "), got ", got);
    }
    refuse_effects(c, branch, "branch");
  }
  for (const ValueId id : first.outputs()) c.result(first.type(id));
}

// Which examples take a branch: bool[n].
Value takes(Value index, std::size_t branch, std::size_t num_branches) {
  if (is_bool(index.dtype())) return branch == 1 ? index : ops::logical_not(index);
  const Value number = ops::full_like(index, static_cast<double>(branch));
  if (branch == 0) return ops::le(index, number);
  return branch + 1 == num_branches ? ops::ge(index, number) : ops::eq(index, number);
}

// The outputs of branches have the axis where that of one of them does.
std::vector<Graph> batched_alike(BatchContext& c, const std::vector<Graph>& branches,
                                 const std::vector<bool>& batched) {
  std::vector<InnerBatching> mapped;
  std::vector<bool> reached(branches[0].outputs().size(), false);
  for (const Graph& branch : branches) {
    mapped.push_back(c.host().batch_reached(branch, batched, c.size()));
    for (std::size_t k = 0; k < reached.size(); ++k)
      reached[k] = reached[k] || mapped.back().batched_outputs[k];
  }
  std::vector<Graph> graphs;
  for (const InnerBatching& each : mapped) {
    graphs.push_back(each.graph);
    if (each.batched_outputs == reached) continue;
    const auto builder = GraphBuilder::extending(each.graph);
    std::vector<Value> outputs;
    for (std::size_t k = 0; k < reached.size(); ++k) {
      const Value value = builder->value(each.graph.outputs()[k]);
      outputs.push_back(reached[k] && !each.batched_outputs[k] ? broadcast_to_batch(value, c.size()) : value);
    }
    graphs.back() = builder->build(outputs);
  }
  return graphs;
}

// If the index has the batch axis, every branch runs on all examples, and each example selects its results.
// An operand that the examples share is copied for each if it is a scalar, for its derivative; larger ones
// are not copied, since that would multiply matmuls with them: see Note [Cases not taken]. Loops without a
// bound get the mask of the examples that take them: see Note [Loops not taken].
Values batch_cond(BatchContext& c) {
  std::vector<Graph> branches = c.op().graphs("branches");
  std::vector<Value> operands = operands_of(c);
  std::vector<bool> batched = batched_operands(c);
  operands.erase(operands.begin());
  batched.erase(batched.begin());
  const bool index_per_example = c.batched(0) && branches.size() > 1;
  for (std::size_t i = 0; i < operands.size() && index_per_example; ++i) {
    if (batched[i] || operands[i].rank() != 0 || !is_inexact(operands[i].dtype())) continue;
    operands[i] = broadcast_to_batch(operands[i], c.size());
    batched[i] = true;
  }
  const Value index = c.operand(0);
  if (!c.batched(0)) return ops::cond(index, batched_alike(c, branches, batched), operands);
  std::vector<Graph> mapped;
  std::vector<bool> told;
  for (Graph& branch : branches) {
    std::vector<bool> inputs = batched;
    told.push_back(index_per_example && holds_unbounded(branch));
    if (told.back()) {
      branch = gated(branch);
      inputs.push_back(true);
    }
    mapped.push_back(c.host().batch(branch, inputs, c.size()));
  }
  std::vector<std::vector<Value>> cases(mapped[0].outputs().size());
  for (std::size_t b = 0; b < mapped.size(); ++b) {
    std::vector<Value> inputs = operands;
    const Value taken = index_per_example ? takes(index, b, mapped.size()) : Value();
    for (std::size_t i = 0; i < inputs.size() && index_per_example; ++i) {
      if (batched[i]) inputs[i] = where_taken(taken, inputs[i]);
    }
    if (told[b]) inputs.push_back(taken);
    const std::vector<Value> values = inline_graph(c.emitter(), mapped[b], inputs);
    for (std::size_t k = 0; k < cases.size(); ++k) cases[k].push_back(values[mapped[b].outputs()[k]]);
  }
  Values results;
  for (const std::vector<Value>& of_branches : cases) {
    const Shape& shape = of_branches[0].shape();
    results.push_back(
        select_case(shape.size() == 1 ? index : ops::broadcast_in_dim(index, shape, {0}), of_branches));
  }
  return results;
}

// Replaces the cond by the branch that is known to be taken, or by the only one.
Values simplify_cond(SimplifyContext& c) {
  const std::vector<Graph> branches = c.op().graphs("branches");
  std::size_t taken = 0;
  if (const std::optional<Literal> index = c.splat(c.operand(0))) {
    const auto last = static_cast<double>(branches.size() - 1);
    taken = static_cast<std::size_t>(std::clamp(index->at(0).real(), 0.0, last));
  } else if (!std::all_of(branches.begin(), branches.end(),
                          [&](const Graph& each) { return structurally_equal(each, branches[0]); })) {
    return Values();
  }
  if (detail::operations_in_all(branches[taken]) > max_unrolled) return Values();
  return write_out(c.emitter(), branches[taken], c.operands().subspan(1));
}

std::vector<RegionBinding> bindings_of_cond(const Op& op) {
  const std::vector<Graph> branches = op.graphs("branches");
  std::vector<RegionBinding> region_bindings(1);
  region_bindings[0].operands = {0};
  region_bindings[0].always = true;
  const auto in_branches = [&](std::size_t i) {
    std::vector<RegionBinding::Port> ports;
    for (std::size_t b = 0; b < branches.size(); ++b) ports.push_back({b, i});
    return ports;
  };
  for (std::size_t i = 0; i < branches[0].inputs().size(); ++i) {
    RegionBinding& binding = region_bindings.emplace_back();
    binding.operands = {i + 1};
    binding.inputs = in_branches(i);
  }
  for (std::size_t k = 0; k < branches[0].outputs().size(); ++k) {
    RegionBinding& binding = region_bindings.emplace_back();
    binding.results = {k};
    binding.outputs = in_branches(k);
  }
  return region_bindings;
}

}  // namespace

CondBuilder::CondBuilder(std::span<const Graph> like) : outputs_(like.size()) {
  for (const Graph& branch : like)
    builders_.push_back(std::make_unique<GraphBuilder>(branch.name(), branch.primitives()));
}

std::vector<Value> CondBuilder::add(std::string_view name, Value operand) {
  operands_.push_back(operand);
  std::vector<Value> inputs;
  for (const auto& builder : builders_) inputs.push_back(builder->input(name, operand.type()));
  return inputs;
}

Values CondBuilder::emit(Value index) {
  std::vector<Graph> branches;
  std::vector<bool> read(operands_.size(), false);
  std::vector<std::size_t> all(outputs_[0].size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t b = 0; b < builders_.size(); ++b) {
    branches.push_back(builders_[b]->build(outputs_[b]));
    const std::vector<bool> needed = reachable(branches[b], branches[b].outputs());
    for (std::size_t i = 0; i < read.size(); ++i) read[i] = read[i] || needed[branches[b].inputs()[i]];
  }
  for (Graph& branch : branches) branch = restricted(branch, read, all);
  std::vector<Value> kept;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read[i]) kept.push_back(operands_[i]);
  }
  return ops::cond(index, branches, kept);
}

Value where_taken(Value taken, Value x) {
  if (!is_inexact(x.dtype())) return x;
  const Value which = x.rank() == 1 ? taken : ops::broadcast_in_dim(taken, x.shape(), {0});
  return ops::select_n(which, ops::full_like(x, 0.0), x);
}

Value select_case(Value which, std::span<const Value> cases) {
  if (cases.size() == 1) return cases[0];
  if (is_bool(which.dtype())) return ops::select_n(which, cases);
  Emitter& emitter = *which.emitter();
  const Value first = ops::full(emitter, Type(i32), 0.0),
              last = ops::full(emitter, Type(i32), static_cast<double>(cases.size() - 1));
  return ops::select_n(ops::clamp(first, which, last), cases);
}

// y = branches[index](x): see cond_derivatives.cpp.
constinit const Primitive cond{.name = "cond",
                               .arity = variadic,
                               .num_outputs = variadic,
                               .attributes = cond_attributes,
                               .traits = Trait::holds_graph,
                               .linearity = linearity::linear_in(~1U),
                               .infer = infer_cond,
                               .jvp = jvp_cond,
                               .transpose = transpose_cond,
                               .batch = batch_cond,
                               .simplify = simplify_cond,
                               .region_bindings = bindings_of_cond};

}  // namespace tidu::prim

namespace tidu::ops {

Values cond(Value index, std::span<const Graph> branches, std::span<const Value> operands, Where where) {
  GraphList graphs;
  for (const Graph& branch : branches) graphs.push_back(branch.share());
  std::vector<Value> all{index};
  all.insert(all.end(), operands.begin(), operands.end());
  return emit(Op::make(prim::cond, {{"branches", std::move(graphs)}}), all, where);
}

}  // namespace tidu::ops
