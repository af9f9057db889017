// transpose.cpp - one backward sweep over a linear graph. Cotangents are indexed by the linear graph's value
// ids, summed per value, and dropped when their operation has been transposed.
#include "tidu/linearize/transpose.hpp"

#include <array>

#include "linearize/rule_call.hpp"
#include "linearize/transpose_targets.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

using detail::BuilderTarget;
using detail::ForwardTarget;
using detail::RuleKind;
using detail::Target;

struct Options {
  std::vector<std::size_t> linear_inputs;
  std::vector<char> is_linear_input;  // by input
  std::vector<bool> seeded;           // by output
  ADContext* context;
  const Graph* primal;
  bool wide_accumulation;
};

Options resolve_options(const Graph& graph, const TransposeOptions& given) {
  Options options;
  options.context = given.context;
  options.primal = given.primal;
  options.wide_accumulation =
      given.wide_accumulation && graph.primitives().transform_ops().convert != nullptr;
  options.is_linear_input.assign(graph.inputs().size(), 0);
  if (given.linear_inputs) {
    options.linear_inputs = *given.linear_inputs;
  } else {
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) options.linear_inputs.push_back(i);
  }
  for (const std::size_t i : options.linear_inputs) {
    if (i >= graph.inputs().size() || options.is_linear_input[i] != 0) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("linear_transpose: expected each input of ", detail::in_quotes(graph.name()),
                              " (", graph.inputs().size(), ") at most once among the linear ones, got ", i,
                              i < graph.inputs().size() ? " twice" : ""));
    }
    if (!is_inexact(graph.type(graph.inputs()[i]).dtype())) {
      throw Error(
          ErrorKind::invalid_argument,
          detail::str("linear_transpose: expected floating or complex linear inputs, got ",
                      detail::printable(graph.input_name(i)), " of type ", graph.type(graph.inputs()[i])));
    }
    options.is_linear_input[i] = 1;
  }
  options.seeded = given.seeded.value_or(std::vector<bool>(graph.outputs().size(), true));
  if (options.seeded.size() != graph.outputs().size()) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("linear_transpose: expected ", graph.outputs().size(), " flags in seeded, got ",
                            options.seeded.size()));
  }
  return options;
}

class Transposer {
 public:
  Transposer(const Graph& graph, const Options& options, Target& target, std::span<const Value> parameters,
             std::span<const Value> externals, detail::InnerGraphs* inner = nullptr)
      : graph_(graph),
        options_(options),
        target_(target),
        host_(options.context, inner, options.wide_accumulation) {
    depends_.assign(graph.num_values(), 0);
    outer_.assign(graph.num_values(), Value());
    std::size_t parameter = 0;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const ValueId id = graph.inputs()[i];
      if (options.is_linear_input[i] != 0) {
        depends_[id] = 1;
      } else {
        outer_[id] = target.enter(parameters[parameter++], false);
      }
    }
    for (std::size_t i = 0; i < externals.size(); ++i) {
      if (externals[i].emitter() != nullptr) outer_[graph.externals()[i]] = target.enter(externals[i], false);
    }
    spread();
  }

  std::vector<std::optional<Value>> run(std::span<const std::optional<Value>> seeds) {
    cotangents_.assign(graph_.num_values(), Value());
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      const ValueId id = graph_.outputs()[i];
      if (seeds[i] && depends_[id] != 0) receive(id, target_.enter(*seeds[i], true));
    }
    for (std::size_t i = graph_.num_operations(); i-- > 0;) {
      target_.current = static_cast<std::uint32_t>(i);
      transpose(static_cast<std::uint32_t>(i));
    }
    std::vector<std::optional<Value>> result;
    for (const std::size_t i : options_.linear_inputs) {
      const Value value = take(graph_.inputs()[i]);
      result.push_back(value.emitter() == nullptr ? std::nullopt
                                                  : std::optional<Value>(target_.leave(value)));
    }
    return result;
  }

 private:
  [[noreturn]] void rule_error(const std::string& message) const {
    detail::raise_rule_error(RuleKind::transpose, graph_, target_.current, message, options_.primal);
  }

  // A value that is neither floating nor complex has no cotangent, and must not depend on the inputs in which
  // the graph is to be linear.
  [[noreturn]] void refuse_dependent(std::uint32_t index) {
    target_.current = index;
    rule_error(detail::str("expected operations that are linear in the linear inputs of ",
                           detail::in_quotes(graph_.name()), ", got a result of type ",
                           graph_.type(graph_.operation(index).output()),
                           " that depends on them and that a linear operation reads"));
  }

  // Marks the values that depend on the linear inputs, and emits the others (constants, functions of
  // parameters) if they are needed.
  void spread() {
    std::vector<bool> needed(graph_.num_values(), false);
    bool any = false;
    for (std::size_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      bool linear_here = false;
      for (const ValueId id : operation.inputs()) linear_here = linear_here || depends_[id] != 0;
      if (!linear_here) continue;
      for (const ValueId id : operation.inputs()) {
        if (depends_[id] != 0 || !graph_.producer(id)) continue;
        needed[id] = true;
        any = true;
      }
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        if (is_inexact(graph_.type(operation.output(slot)).dtype())) depends_[operation.output(slot)] = 1;
      }
    }
    for (const ValueId id : graph_.outputs()) {
      if (depends_[id] == 0) {
        throw Error(ErrorKind::invalid_argument,
                    detail::str("linear_transpose: expected ", detail::in_quotes(graph_.name()),
                                " to be linear in its linear inputs, got an output (%", id,
                                ") that does not depend on them"));
      }
    }
    if (!any) return;
    for (std::size_t i = graph_.num_operations(); i-- > 0;) {
      const Operation operation = graph_.operation(i);
      bool wanted = false;
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        wanted = wanted || needed[operation.output(slot)];
      if (!wanted) continue;
      for (const ValueId id : operation.inputs()) needed[id] = true;
    }
    std::vector<Value> operands;
    for (std::size_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      bool wanted = false;
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        wanted = wanted || needed[operation.output(slot)];
      if (!wanted) continue;
      operands.clear();
      for (const ValueId id : operation.inputs()) {
        if (depends_[id] != 0) refuse_dependent(static_cast<std::uint32_t>(i));
        operands.push_back(outer_[id]);
      }
      const Values results = target_.emit(operation.op(), operands);
      for (std::size_t slot = 0; slot < results.size(); ++slot)
        outer_[operation.output(slot)] = results[slot];
    }
  }

  // The only function of this transform that sums cotangents; tapes sum in eager/cotangents.cpp.
  void receive(ValueId id, Value cotangent) {
    Value& slot = cotangents_[id];
    if (slot.emitter() == nullptr) {
      slot = cotangent;
    } else if (is_held_wide(id)) {
      receive_wide(id, cotangent);
    } else {
      slot = sum(slot, cotangent);
    }
  }

  // Note [Wide accumulation]: a sum of n numbers of 16 bits that is rounded to 16 bits after each term is off
  // by up to n/2 units in the last place, and stagnates once it is 2^8 (bf16) or 2^11 (f16) times a term. So
  // it is held in f32, and rounded when the cotangent is read. Two terms are added in 16 bits, which is f32
  // arithmetic rounded once. The second term waits until a third one arrives or the value is reached.
  bool is_held_wide(ValueId id) const {
    const DType dtype = graph_.type(id).dtype();
    return options_.wide_accumulation && accumulation_dtype(dtype) != dtype;
  }
  void receive_wide(ValueId id, Value cotangent) {
    Value& slot = cotangents_[id];
    if (slot.dtype() == graph_.type(id).dtype()) {
      if (second_.size() == 0) second_.assign(graph_.num_values(), Second());
      Second& second = second_[id];
      if (second.cotangent.emitter() == nullptr) {
        second = {cotangent, target_.current};
        return;
      }
      slot = sum(widened(slot), widened(std::exchange(second.cotangent, Value())));
    }
    slot = sum(slot, widened(cotangent));
  }
  // The whole cotangent of a value, which is forgotten.
  Value take(ValueId id) {
    Value cotangent = std::exchange(cotangents_[id], Value());
    if (cotangent.emitter() == nullptr || !is_held_wide(id)) return cotangent;
    const DType dtype = graph_.type(id).dtype();
    if (cotangent.dtype() != dtype) return convert(cotangent, dtype);
    if (second_.size() == 0 || second_[id].cotangent.emitter() == nullptr) return cotangent;
    const std::uint32_t current = std::exchange(target_.current, second_[id].origin);
    cotangent = sum(cotangent, std::exchange(second_[id].cotangent, Value()));
    target_.current = current;
    return cotangent;
  }

  Value sum(Value a, Value b) {
    if (!sum_op_) {
      if (graph_.primitives().add() == nullptr) {
        throw Error(ErrorKind::unknown_primitive,
                    "linear_transpose: expected a primitive set that names the primitive that adds");
      }
      sum_op_ = Op::make(*graph_.primitives().add());
    }
    return target_.emit_one(*sum_op_, std::array{a, b});
  }
  Value convert(Value x, DType dtype) const { return graph_.primitives().transform_ops().convert(x, dtype); }
  Value widened(Value x) const { return convert(x, accumulation_dtype(x.dtype())); }

  void transpose(std::uint32_t index) {
    const Operation operation = graph_.operation(index);
    seeds_.clear();
    bool any = false;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      seeds_.push_back(take(operation.output(slot)));
      any = any || seeds_.back().emitter() != nullptr;
    }
    if (!any) return;
    operands_.clear();
    types_.clear();
    active_.clear();
    for (const ValueId id : operation.inputs()) {
      operands_.push_back(depends_[id] != 0 ? Value() : outer_[id]);
      types_.push_back(graph_.type(id));
      active_.push_back(depends_[id]);
    }
    const Primitive& primitive = operation.primitive();
    if (!primitive.linearity.allows(
            std::span(reinterpret_cast<const bool*>(active_.data()), active_.size()))) {
      rule_error(detail::str(
          "expected an operation that is linear in the operands that depend on the linear inputs, ",
          detail::list(std::span(reinterpret_cast<const bool*>(active_.data()), active_.size()))));
    }
    if (primitive.transpose == nullptr) rule_error("expected a transpose rule, got a record without one");
    const Op op = operation.op();
    const detail::RuleFrame frame{op, host_, target_, options_.context};
    TransposeContext rule_context(frame, operands_, types_, seeds_);
    const Derivatives derivatives = detail::in_rule(
        RuleKind::transpose, graph_, index, [&] { return primitive.transpose(rule_context); },
        options_.primal);
    accept(operation, derivatives);
  }

  void accept(const Operation& operation, const Derivatives& derivatives) {
    if (derivatives.size() != operation.num_inputs()) {
      rule_error(detail::str("expected ", operation.num_inputs(), " cotangents from the transpose rule, got ",
                             derivatives.size()));
    }
    for (std::size_t k = 0; k < derivatives.size(); ++k) {
      if (derivatives.unset(k)) rule_error(detail::unset_derivative("cotangent", k));
      const std::optional<Value> cotangent = derivatives[k];
      if (!cotangent) continue;
      if (active_[k] == 0)
        rule_error(detail::str("expected no cotangent for operand ", k, ", which is not linear, got one"));
      if (!cotangent->is_of(target_) || !target_.is_linear(*cotangent)) {
        rule_error(detail::str(
            "expected the cotangent of operand ", k, " to depend on the cotangents of the results, got ",
            cotangent->is_of(target_) ? "a value that does not" : "one of another emitter"));
      }
      if (cotangent->type() != types_[k]) {
        rule_error(detail::str("expected a cotangent of type ", types_[k], " for operand ", k, ", got ",
                               cotangent->type()));
      }
      receive(operation.input(k), *cotangent);
    }
  }

  const Graph& graph_;
  const Options& options_;
  Target& target_;
  detail::InnerServices host_;
  FlatArray<char> depends_;      // by value: on a linear input
  FlatArray<Value> outer_;       // by value that does not: its stand-in in the target
  FlatArray<Value> cotangents_;  // by value
  // A cotangent that has come to a value of 16 bits beside another, and the operation that it comes from.
  struct Second {
    Value cotangent;
    std::uint32_t origin = no_index;
  };
  FlatArray<Second> second_;  // by value; empty before there is one
  std::optional<Op> sum_op_;
  // scratch
  std::vector<Value> seeds_, operands_;
  std::vector<Type> types_;
  std::vector<char> active_;
};

// `externals`: those that are not needed may be unset.
void check_values(const Emitter& emitter, const Graph& graph, const Options& options,
                  std::span<const Value> parameters, std::span<const Value> externals,
                  std::span<const std::optional<Value>> cotangents) {
  const auto expect = [&graph](std::size_t expected, std::size_t got, std::string_view what) {
    if (expected != got) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("linear_transpose: expected ", expected, ' ', what, " for ",
                              detail::in_quotes(graph.name()), ", got ", got));
    }
  };
  expect(graph.inputs().size() - options.linear_inputs.size(), parameters.size(), "parameters");
  expect(graph.externals().size(), externals.size(), "externals");
  expect(graph.outputs().size(), cotangents.size(), "cotangents");
  const auto check = [&emitter](const Value& value, Type type, std::string_view what, std::string_view of,
                                std::size_t i) {
    if (!value.is_of(emitter)) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("linear_transpose: expected ", what, " of the emitter that is given for ", of,
                              ' ', i, ", got ", value.emitter() == nullptr ? "an unset one" : "another's"));
    }
    if (value.type() != type) {
      throw Error(ErrorKind::type, detail::str("linear_transpose: expected ", what, " of type ", type,
                                               " for ", of, ' ', i, ", got ", value.type()));
    }
  };
  std::size_t parameter = 0;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (options.is_linear_input[i] == 0)
      check(parameters[parameter++], graph.type(graph.inputs()[i]), "a parameter", "input", i);
  }
  for (std::size_t i = 0; i < externals.size(); ++i) {
    if (externals[i].emitter() != nullptr)
      check(externals[i], graph.type(graph.externals()[i]), "a value", "external", i);
  }
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (cotangents[i]) check(*cotangents[i], graph.type(graph.outputs()[i]), "a cotangent", "output", i);
  }
}

}  // namespace

std::vector<std::optional<Value>> linear_transpose_with(Emitter& emitter, const Graph& linear,
                                                        std::span<const Value> parameters,
                                                        std::span<const Value> externals,
                                                        std::span<const std::optional<Value>> cotangents,
                                                        const TransposeOptions& given) {
  const Options options = resolve_options(linear, given);
  check_values(emitter, linear, options, parameters, externals, cotangents);
  if (auto* builder = dynamic_cast<GraphBuilder*>(&emitter)) {
    BuilderTarget target(linear, *builder);
    return Transposer(linear, options, target, parameters, externals).run(cotangents);
  }
  ForwardTarget target(linear, emitter);
  return Transposer(linear, options, target, parameters, externals).run(cotangents);
}

std::vector<std::optional<Value>> detail::transpose_into(GraphBuilder& builder, const Graph& linear,
                                                         std::span<const Value> externals,
                                                         std::span<const std::optional<Value>> cotangents,
                                                         const TransposeOptions& given,
                                                         const std::vector<std::uint32_t>* origin_map) {
  const Options options = resolve_options(linear, given);
  check_values(builder, linear, options, {}, externals, cotangents);
  BuilderTarget target(linear, builder);
  target.origin_map = origin_map;
  return Transposer(linear, options, target, {}, externals).run(cotangents);
}

namespace {

Transposition transposed(const Graph& graph, const TransposeOptions& given, detail::InnerGraphs* inner) {
  const Options options = resolve_options(graph, given);
  GraphBuilder builder(graph.name(), graph.primitives(), {.deduplicate = true, .record_where = false});
  builder.reserve(graph.num_values() * 2 + 16, graph.num_operations() * 2 + 16,
                  graph.data().operands.size() * 2 + 16);
  const Key128 instance = detail::fresh_instance();
  std::vector<Value> parameters;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (options.is_linear_input[i] != 0) continue;
    const ValueId id = graph.inputs()[i];
    parameters.push_back(builder.input(graph.input_key(i), graph.type(id), graph.label(id)));
  }
  std::vector<std::optional<Value>> seeds;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId id = graph.outputs()[i];
    seeds.push_back(options.seeded[i]
                        ? std::optional<Value>(builder.input(InputKey::cotangent(graph.key(id), instance, i),
                                                             graph.type(id), detail::str("cotangent.", i)))
                        : std::nullopt);
  }
  std::vector<Value> externals;
  externals.reserve(graph.externals().size());
  for (const ValueId id : graph.externals())
    externals.emplace_back(&builder, builder.add_external(graph.key(id), graph.type(id)));

  BuilderTarget target(graph, builder);
  const auto cotangents = Transposer(graph, options, target, parameters, externals, inner).run(seeds);
  Transposition result;
  std::vector<ValueId> outputs;
  for (const auto& cotangent : cotangents) {
    result.cotangent_of_input.push_back(cotangent ? std::optional<std::size_t>(outputs.size())
                                                  : std::nullopt);
    if (cotangent) outputs.push_back(cotangent->id());
  }
  result.graph = builder.build_ids(std::move(outputs));
  return result;
}

}  // namespace

Transposition linear_transpose(const Graph& graph, const TransposeOptions& given) {
  return transposed(graph, given, nullptr);
}

Transposition detail::transpose_inner(const Graph& graph, const TransposeOptions& given, InnerGraphs& inner) {
  return transposed(graph, given, &inner);
}

Result<Transposition> try_linear_transpose(const Graph& linear, const TransposeOptions& options) {
  return detail::capture([&] { return linear_transpose(linear, options); });
}

Result<std::vector<std::optional<Value>>> try_linear_transpose_with(
    Emitter& emitter, const Graph& linear, std::span<const Value> parameters,
    std::span<const Value> externals, std::span<const std::optional<Value>> cotangents,
    const TransposeOptions& options) {
  return detail::capture(
      [&] { return linear_transpose_with(emitter, linear, parameters, externals, cotangents, options); });
}

}  // namespace tidu
