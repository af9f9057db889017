// while.cpp - while: its record and type rule, and functions that its rules share.
#include "primitives/while.hpp"

#include "primitives/scan.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr std::int64_t no_bound = -1;
constexpr AttributeSpec while_attributes[] = {{"cond", AttributeKind::graph},
                                              {"body", AttributeKind::graph},
                                              {"max_steps", AttributeKind::integer, true, no_bound},
                                              {"num_consts", AttributeKind::integer, true, 0}};

void require_inputs(const InferContext& c, const Graph& graph, std::string_view attribute) {
  const std::size_t inputs = graph.inputs().size();
  c.require(c.num_operands() == inputs, "expected ", inputs, " operands for ", attribute, " ",
            detail::in_quotes(graph.name()), ", got ", c.num_operands());
  const auto num_consts = static_cast<std::size_t>(c.op().integer("num_consts"));
  for (std::size_t i = 0; i < inputs; ++i) {
    const Type expected = graph.type(graph.inputs()[i]);
    const bool is_const = i < num_consts;
    c.require(c.operand(i) == expected, "expected ", expected, " for operand ", i, ", ",
              is_const ? "const " : "carry ", is_const ? i : i - num_consts, " (input ",
              detail::in_quotes(graph.input_name(i)), " of ", attribute, " ", detail::in_quotes(graph.name()),
              "), got ", c.operand(i));
  }
}

void infer_while(InferContext& c) {
  const Graph cond = c.op().graph("cond"), body = c.op().graph("body");
  const std::int64_t max_steps = c.op().integer("max_steps"), num_consts = c.op().integer("num_consts");
  const auto num_operands = static_cast<std::int64_t>(c.num_operands());
  c.require(max_steps >= no_bound, "expected max_steps >= 0, or none, got ", max_steps);
  c.require(num_consts >= 0 && num_consts < num_operands,
            "expected num_consts to be at least 0 and less than ", num_operands,
            ", the number of operands, got ", num_consts);
  require_inputs(c, cond, "cond");
  require_inputs(c, body, "body");
  c.require(cond.outputs().size() == 1, "expected cond ", detail::in_quotes(cond.name()),
            " to give one bool[], got ", cond.outputs().size(), " outputs");
  c.require(cond.type(cond.outputs()[0]) == Type(DType::boolean), "expected cond ",
            detail::in_quotes(cond.name()), " to give a bool[], got ", cond.type(cond.outputs()[0]));
  const auto num_carry = static_cast<std::size_t>(num_operands - num_consts);
  c.require(body.outputs().size() == num_carry, "expected body ", detail::in_quotes(body.name()), " to give ",
            num_carry, " carries, got ", body.outputs().size());
  for (std::size_t k = 0; k < num_carry; ++k) {
    const Type carry = c.operand(static_cast<std::size_t>(num_consts) + k),
               output = body.type(body.outputs()[k]);
    c.require(output == carry, "expected body ", detail::in_quotes(body.name()), " to give carry ", k,
              " as it came in, ", carry, ", got ", output);
    c.result(carry);
  }
  refuse_effects(c, cond, "cond");
  refuse_effects(c, body, "body");
}

std::vector<RegionBinding> bindings_of_while(const Op& op) {
  const WhileParts parts(op);
  const std::size_t in_cond = 0, in_body = 1;
  std::vector<RegionBinding> region_bindings(1);
  region_bindings[0].outputs = {{in_cond, 0}};
  region_bindings[0].always = true;
  for (std::size_t i = 0; i < parts.num_operands; ++i) {
    RegionBinding& binding = region_bindings.emplace_back();
    binding.operands = {i};
    binding.inputs = {{in_cond, i}, {in_body, i}};
    if (i < parts.shape.num_consts) {
      binding.count = "num_consts";
      continue;
    }
    const std::size_t k = i - parts.shape.num_consts;
    binding.results = {k};
    binding.outputs = {{in_body, k}};
  }
  return region_bindings;
}

}  // namespace

WhileParts::WhileParts(const Op& op)
    : cond(op.graph("cond")),
      body(op.graph("body")),
      shape{static_cast<std::size_t>(op.integer("num_consts")), std::nullopt},
      num_operands(body.inputs().size()),
      num_carry(body.outputs().size()) {
  if (op.integer("max_steps") != no_bound) shape.max_steps = op.integer("max_steps");
}

void WhileParts::spread(std::vector<bool>& operands) const {
  bool grew = true;
  while (grew) {
    const std::vector<bool> depends = depending_on(body, operands);
    grew = false;
    for (std::size_t k = 0; k < num_carry; ++k) {
      if (depends[body.outputs()[k]] && !operands[carry(k)]) operands[carry(k)] = grew = true;
    }
  }
}

WhileBuilder::InBoth WhileBuilder::add(std::string_view name, Value operand) {
  operands_.push_back(operand);
  return {cond_.input(name, operand.type()), body_.input(name, operand.type())};
}
WhileBuilder::InBoth WhileBuilder::add_const(std::string_view name, Value operand) {
  ++num_consts_;
  return add(name, operand);
}
WhileBuilder::InBoth WhileBuilder::add_carry(std::string_view name, Value first, bool wanted) {
  wanted_.push_back(wanted);
  return add(name, first);
}

// By operand: wanted carries, the operands that cond reads, and the operands from which such carries are
// computed.
std::vector<bool> WhileBuilder::needed(const Graph& cond, const Graph& body) const {
  std::vector<bool> needed(operands_.size(), false);
  for (std::size_t k = 0; k < wanted_.size(); ++k) needed[num_consts_ + k] = wanted_[k];
  const std::vector<bool> read = reachable(cond, cond.outputs());
  for (std::size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] || read[cond.inputs()[i]];
  bool grew = true;
  while (grew) {
    std::vector<ValueId> roots;
    for (std::size_t k = 0; k < wanted_.size(); ++k) {
      if (needed[num_consts_ + k]) roots.push_back(body.outputs()[k]);
    }
    const std::vector<bool> reached = reachable(body, roots);
    grew = false;
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (reached[body.inputs()[i]] && !needed[i]) needed[i] = grew = true;
    }
  }
  return needed;
}

std::vector<Value> WhileBuilder::emit(Emitter& emitter, std::optional<std::int64_t> max_steps) {
  const Graph cond = cond_.build({predicate_}), body = body_.build(outputs_);
  const std::vector<bool> kept = needed(cond, body);
  WhileShape shape{0, max_steps};
  std::vector<Value> operands;
  std::vector<std::size_t> carries;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    operands.push_back(operands_[i]);
    if (i < num_consts_) {
      ++shape.num_consts;
    } else {
      carries.push_back(i - num_consts_);
    }
  }
  const std::size_t first[] = {0};
  const Values results = ops::while_loop(emitter, restricted(cond, kept, first),
                                         restricted(body, kept, carries), operands, shape);
  std::vector<Value> by_carry(wanted_.size());
  for (std::size_t j = 0; j < carries.size(); ++j) by_carry[carries[j]] = results[j];
  return by_carry;
}

// c = body(consts, c) while cond(consts, c): see while_derivatives.cpp.
constinit const Primitive while_loop{.name = "while",
                                     .arity = variadic,
                                     .num_outputs = variadic,
                                     .attributes = while_attributes,
                                     .traits = Trait::holds_graph,
                                     .linearity = linearity::linear,
                                     .infer = infer_while,
                                     .jvp = jvp_while,
                                     .transpose = transpose_while,
                                     .batch = batch_while,
                                     .region_bindings = bindings_of_while};

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

// The type rule rejects a negative bound; the internal value for no bound is not the caller's.
Op while_op(const Graph& cond, const Graph& body, const WhileShape& shape) {
  Attributes attributes{
      {"cond", cond}, {"body", body}, {"num_consts", static_cast<std::int64_t>(shape.num_consts)}};
  if (shape.max_steps) attributes.emplace_back("max_steps", *shape.max_steps);
  if (shape.max_steps && *shape.max_steps < 0) {
    throw Error(ErrorKind::type,
                detail::str("[while] expected max_steps >= 0, or none, got ", *shape.max_steps));
  }
  return Op::make(prim::while_loop, std::move(attributes));
}

}  // namespace

Values while_loop(Emitter& emitter, const Graph& cond, const Graph& body, std::span<const Value> operands,
                  const WhileShape& shape, Where where) {
  return emitter.emit(while_op(cond, body, shape), operands, where);
}

Values while_loop(const Graph& cond, const Graph& body, std::span<const Value> operands,
                  const WhileShape& shape, Where where) {
  return emit(while_op(cond, body, shape), operands, where);
}

}  // namespace tidu::ops
