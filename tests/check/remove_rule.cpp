// remove_rule.cpp - take any one rule away from a copy of the standard set: exactly the calls whose active
// path needs it fail, with an ADRuleError that names the primitive, the rule and the operation; all others
// work.
#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "check/helpers.hpp"
#include "check/level.hpp"
#include "primitive_table.hpp"
#include "tidu/linearize/batch.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;
using RuleKind = ADRuleError::Rule;

// A set without one rule, and the record that replaces the whole one.
struct Damaged {
  Primitive record;
  PrimitiveSet set;
};
Damaged* without(const Primitive& primitive, RuleKind rule) {
  static std::deque<Damaged> all;  // records outlive the graphs that use them
  Primitive record = primitive;
  if (rule == RuleKind::jvp) record.jvp = nullptr;
  if (rule == RuleKind::transpose) record.transpose = nullptr;
  if (rule == RuleKind::batch) record.batch = nullptr;
  all.push_back({record, standard_primitives()});
  all.back().set = standard_primitives().replacing(&all.back().record);
  return &all.back();
}

// The same graph on `set`, with one operation more before it, so that places differ from 0: x + x on every
// inexact input.
Graph on_set(const Row& row, DType dtype, const PrimitiveSet& set) {
  const Graph one = subject_of(row, dtype, 3, set).graph;
  GraphBuilder builder("f", set);
  std::vector<Value> operands, outputs;
  for (std::size_t i = 0; i < one.inputs().size(); ++i) {
    const Type type = one.type(one.inputs()[i]);
    const Value x = builder.input(detail::str("operand.", i), type);
    operands.push_back(is_inexact(type.dtype()) ? x + x : x);
  }
  const std::vector<Value> values = inline_graph(builder, one, operands);
  for (const ValueId id : one.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
}

// The rules that a call needs: of which primitives, and of which operations of the transformed graph.
struct Call {
  std::string name;
  RuleKind rule;
  Graph graph;  // that is transformed
  std::function<void()> run;
};

std::vector<Call> calls_on(const Graph& f, const Graph& linear) {
  std::vector<Call> calls{
      {"linearize", RuleKind::jvp, f, [f] { (void)linearize(f); }},
      {"linear_transpose", RuleKind::transpose, linear, [linear] { (void)linear_transpose(linear); }}};
  if (!f.inputs().empty()) calls.push_back({"batch", RuleKind::batch, f, [f] { (void)batch(f, 2); }});
  return calls;
}

// Operations of the graph that the rule of that kind is asked for: on an active path.
std::vector<std::uint32_t> asked(const Graph& graph, RuleKind rule, std::string_view primitive) {
  std::vector<bool> reached(graph.num_values(), false), wanted(graph.num_values(), false);
  for (const ValueId id : graph.inputs())
    reached[id] = rule == RuleKind::batch || is_inexact(graph.type(id).dtype());
  for (const ValueId id : graph.outputs()) wanted[id] = true;
  for (std::uint32_t i = static_cast<std::uint32_t>(graph.num_operations()); i-- > 0;) {
    const Operation operation = graph.operation(i);
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      if (!wanted[operation.output(slot)]) continue;
      for (const ValueId id : operation.inputs()) wanted[id] = true;
    }
  }
  std::vector<std::uint32_t> operations;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    const auto inputs = operation.inputs();
    if (std::none_of(inputs.begin(), inputs.end(), [&](ValueId id) { return reached[id]; })) continue;
    bool active = rule == RuleKind::batch;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      const bool inexact = is_inexact(graph.type(operation.output(slot)).dtype());
      reached[operation.output(slot)] = rule == RuleKind::batch || inexact;
      active = active || (inexact && wanted[operation.output(slot)]);
    }
    if (active && operation.name() == primitive) operations.push_back(i);
  }
  return operations;
}

// The primitives in a graph and in the graphs of its attributes.
void names_in(const Graph& graph, std::set<std::string_view>& names) {
  std::vector<Graph> open{graph};
  while (!open.empty()) {
    const Graph at = open.back();
    open.pop_back();
    for (std::uint32_t i = 0; i < at.num_operations(); ++i) {
      names.insert(at.operation(i).primitive().name);
      for (const auto& [name, value] : at.operation(i).op().attributes()) {
        for (const auto& inner : value.graphs()) open.emplace_back(inner);
      }
    }
  }
}

constexpr std::string_view to_text(RuleKind rule) { return to_string(rule); }

}  // namespace

TEST_CASE("removing any one rule fails exactly the calls that need it") {
  std::size_t failed = 0, passed = 0;
  for (const Row& row : primitive_table()) {
    if (row.operands.empty()) continue;
    const DType dtype = row.dtypes[0];
    const Graph whole = on_set(row, dtype, standard_primitives());
    const Graph whole_linear = linearize(whole).linear;
    std::set<std::string_view> used;
    names_in(whole, used);
    names_in(whole_linear, used);
    for (const std::string_view name : used) {
      const Primitive& primitive = *standard_primitives().find(name);
      for (const RuleKind rule : {RuleKind::jvp, RuleKind::transpose, RuleKind::batch}) {
        const bool there = rule == RuleKind::jvp         ? primitive.jvp != nullptr
                           : rule == RuleKind::transpose ? primitive.transpose != nullptr
                                                         : primitive.batch != nullptr;
        if (!there) continue;
        INFO(describe(row, dtype), " without the ", to_text(rule), " of ", name);
        const PrimitiveSet& set = without(primitive, rule)->set;
        const Graph f = on_set(row, dtype, set);
        // Without a jvp rule of its own a linear or bilinear primitive has the one that linearity gives.
        const bool follows = rule == RuleKind::jvp && set.find(name)->differentiable();
        const Result<Linearization> lin = try_linearize(f);
        const Graph linear = lin ? lin->linear : Graph();
        for (const Call& call : calls_on(f, linear)) {
          if (call.name == "linear_transpose" && !lin) continue;
          INFO(call.name);
          const std::vector<std::uint32_t> places =
              call.rule == rule ? asked(call.graph, rule, name) : std::vector<std::uint32_t>();
          // Inner graphs may need it; those of call, and of any batched operation, do. Rules of the user are
          // not differentiated, and recomputations of a checkpoint are not transposed. The dense matrix of a
          // root's tangents is its linearized residual mapped over unit vectors.
          bool needed_inside = false, maps = false;
          const bool inside = [&] {
            std::set<std::string_view> inner;
            for (std::uint32_t i = 0; i < call.graph.num_operations(); ++i) {
              const Op op = call.graph.operation(i).op();
              maps = maps || (op.name() == "custom_root" && op.graphs("tangent_solve").empty());
              for (const auto& [key, value] : op.attributes()) {
                std::set<std::string_view> names;
                for (const auto& graph : value.graphs()) names_in(Graph(graph), names);
                const std::string_view holder = op.name();
                const bool whole_graph =
                    holder == "call" || (holder == "checkpoint" && rule == RuleKind::jvp);
                if (names.contains(name) && (whole_graph || rule == RuleKind::batch)) needed_inside = true;
                inner.insert(names.begin(), names.end());
              }
            }
            // The derivative of a custom_jvp_transpose transposes that of its rule.
            const bool transposes = rule == RuleKind::transpose && row.primitive == "custom_jvp_transpose";
            const bool further = transposes || (maps && rule == RuleKind::batch);
            return (call.rule == rule || further) && inner.contains(name);
          }();
          try {
            call.run();
            CHECK((follows || (places.empty() && !(call.rule == rule && inside && needed_inside))));
            ++passed;
          } catch (const ADRuleError& error) {
            ++failed;
            CHECK_MESSAGE((inside || (!places.empty())), error.what());
            CHECK(error.rule() == rule);
            CHECK(error.primitive() == name);
            REQUIRE(error.operation().has_value());
            if (!inside) CHECK(std::find(places.begin(), places.end(), *error.operation()) != places.end());
            const std::string text = error.what();
            CHECK(text.find(std::string(name)) != std::string::npos);
            CHECK(text.find(to_text(rule)) != std::string::npos);
            CHECK(text.find("operation ") != std::string::npos);
          }
        }
      }
    }
  }
  // Every rule of every primitive was missed by some call, and most calls never needed the one that was gone.
  CHECK(failed > 300);
  CHECK(passed > 1000);
}

TEST_CASE("each rule of each primitive is needed by some call") {
  std::map<std::string_view, std::array<bool, 3>> needed;
  for (const Row& row : primitive_table()) {
    if (row.operands.empty()) continue;
    const Graph whole = on_set(row, row.dtypes[0], standard_primitives());
    const Graph linear = linearize(whole).linear;
    for (const Call& call : calls_on(whole, linear)) {
      for (const Primitive* primitive : standard_primitives().primitives()) {
        if (!asked(call.graph, call.rule, primitive->name).empty())
          needed[primitive->name][static_cast<std::size_t>(call.rule)] = true;
      }
    }
  }
  for (const Primitive* primitive : standard_primitives().primitives()) {
    INFO(primitive->name);
    const auto& flags = needed[primitive->name];
    CHECK(((primitive->jvp == nullptr) || flags[0]));
    CHECK(((primitive->batch == nullptr) || flags[2]));
  }
}
