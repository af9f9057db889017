// transforms.cpp - jvp, vjp, grad, hvp: linearize, perhaps transpose, and append the result to the augmented
// primal graph.
#include "tidu/linearize/transforms.hpp"

#include <array>
#include <unordered_map>

#include "graph/defect.hpp"
#include "graph/input_index.hpp"
#include "linearize/derive.hpp"
#include "linearize/rule_call.hpp"
#include "tidu/graph/region_bindings.hpp"

namespace tidu {
namespace detail {

std::vector<std::size_t> inexact_outputs(const Graph& f) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < f.outputs().size(); ++i) {
    if (is_inexact(f.type(f.outputs()[i]).dtype())) positions.push_back(i);
  }
  return positions;
}

Graph transformed(const Graph& linear, const DerivativeOptions& options) {
  if (options.linear_transform == nullptr) return linear;
  Graph graph = options.linear_transform(linear);
  const auto refuse = [](const auto&... parts) {
    throw Error(ErrorKind::invalid_argument, str("linear_transform: expected ", parts...));
  };
  if (graph.inputs().size() != linear.inputs().size() ||
      graph.externals().size() != linear.externals().size() ||
      graph.outputs().size() != linear.outputs().size()) {
    refuse("a graph with ", linear.inputs().size(), " inputs, ", linear.externals().size(), " externals and ",
           linear.outputs().size(), " outputs, as it was given, got ", graph.inputs().size(), ", ",
           graph.externals().size(), " and ", graph.outputs().size());
  }
  const auto check = [&](std::string_view what, std::span<const ValueId> got,
                         std::span<const ValueId> given) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (graph.type(got[i]) != linear.type(given[i]))
        refuse(what, ' ', i, " of type ", linear.type(given[i]), ", as it was given, got ",
               graph.type(got[i]));
    }
  };
  check("input", graph.inputs(), linear.inputs());
  check("output", graph.outputs(), linear.outputs());
  for (std::size_t i = 0; i < graph.externals().size(); ++i) {
    if (graph.key(graph.externals()[i]) != linear.key(linear.externals()[i]))
      refuse("the externals in the order in which they were given, got another one as external ", i);
  }
  return graph;
}

TransposeOptions transpose_options(const DerivativeOptions& options, const Linearization& lin,
                                   std::optional<std::vector<bool>> seeded) {
  TransposeOptions made;
  made.seeded = std::move(seeded);
  made.context = options.context;
  made.wide_accumulation = options.wide_accumulation;
  made.primal = &lin.primal;
  return made;
}

Derivation::Derivation(const Graph& f, const Names& wrt, const DerivativeOptions& given)
    : options(given), lin(linearize(f, {.wrt = wrt_positions(f, wrt), .context = given.context})) {
  GraphBuilder::Options builder_options;
  builder_options.record_where = false;
  builder = GraphBuilder::extending(lin.augmented, builder_options);
  for (const ValueId id : lin.residuals) residuals.push_back(builder->value(id));
  for (const ValueId id : lin.augmented.outputs()) outputs.push_back(builder->value(id));
  if (!lin.value_map.empty()) {
    origin_map.emplace();
    for (std::size_t i = 0; i < f.num_operations(); ++i) {
      origin_map->push_back(
          lin.augmented.producer(lin.value_map[f.operation(i).output()]).value_or(no_index));
    }
  }
}

Value Derivation::new_input(const InputKey& key, Type type, const std::string& label) {
  if (!options.named_inputs) return builder->input(key, type, label);
  if (keys_.empty()) {
    for (const InputKey& there : builder->data().input_keys) keys_.insert(there.bits());
  }
  std::string name = label;
  for (std::size_t n = 2; !keys_.insert(InputKey::named(name).bits()).second; ++n) name = str(label, '.', n);
  return builder->input(name, type);
}

std::vector<Value> Derivation::apply_linear(const Graph& linear, std::span<const Value> inputs) {
  const Graph graph = transformed(linear, options);
  std::vector<ValueId> values(graph.num_values(), no_index);
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i].id();
  for (std::size_t i = 0; i < residuals.size(); ++i) values[graph.externals()[i]] = residuals[i].id();
  copy_linear(*builder, graph, values, origin_map ? &*origin_map : nullptr);
  std::vector<Value> results;
  for (const ValueId id : graph.outputs()) results.push_back(builder->value(values[id]));
  return results;
}

void Derivation::add_output(const std::optional<Value>& value, Type type) {
  outputs.push_back(value ? *value : zeros(*builder, type));
  present.push_back(value.has_value());
}

Derivative Derivation::finish(const Graph& f) {
  Derivative result;
  result.wrt = lin.wrt;
  result.outputs = inexact_outputs(f);
  result.first = f.outputs().size();
  result.present = std::move(present);
  result.graph = eliminate_dead_code(prune(builder->build(outputs)));
  return result;
}

}  // namespace detail

using detail::Derivation;

std::vector<std::size_t> wrt_positions(const Graph& f, const Names& wrt) {
  std::vector<std::size_t> positions;
  if (wrt.empty()) {
    for (std::size_t i = 0; i < f.inputs().size(); ++i) {
      if (is_inexact(f.type(f.inputs()[i]).dtype())) positions.push_back(i);
    }
    return positions;
  }
  const detail::InputIndex index(f);
  for (const std::string& name : wrt) {
    const std::optional<std::size_t> position = index.find(name);
    if (!position) {
      Names known;
      for (std::size_t i = 0; i < f.inputs().size(); ++i) known.push_back(f.input_name(i));
      throw Error(ErrorKind::invalid_argument,
                  detail::str("wrt: expected inputs of ", detail::in_quotes(f.name()), ", ",
                              detail::list(known), ", got ", detail::in_quotes(name)));
    }
    positions.push_back(*position);
  }
  return positions;  // linearize rejects repeated and integer ones
}

Names names_at(const Graph& f, std::span<const std::size_t> positions) {
  const detail::InputIndex index(f);
  Names names;
  for (const std::size_t i : positions) {
    if (i >= f.inputs().size()) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("names_at: expected an input of ", detail::in_quotes(f.name()), " below ",
                              f.inputs().size(), ", got ", i));
    }
    std::string name = f.input_name(i);
    names.push_back(index.find(name) == i ? std::move(name) : to_hex(f.input_key(i).bits()));
  }
  return names;
}

Derivative jvp_parts(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  Derivation d(f, wrt, options);
  const Key128 instance = detail::fresh_instance();
  std::vector<Value> tangents;
  for (const std::size_t i : d.lin.wrt) {
    const ValueId id = f.inputs()[i];
    tangents.push_back(
        d.new_input(InputKey::tangent(f.key(id), instance, i), f.type(id), f.input_name(i) + ".tangent"));
  }
  const std::vector<Value> results = d.apply_linear(d.lin.linear, tangents);
  for (const std::size_t k : detail::inexact_outputs(f)) {
    const auto& position = d.lin.tangent_of_output[k];
    d.add_output(position ? std::optional<Value>(results[*position]) : std::nullopt, f.type(f.outputs()[k]));
  }
  return d.finish(f);
}

namespace {

// Gradients of wrt from cotangents of the outputs (by output; absent: zero).
void transpose_onto(Derivation& d, const Graph& f, std::span<const std::optional<Value>> by_output) {
  std::vector<std::optional<Value>> cotangents(d.lin.linear.outputs().size());
  for (std::size_t k = 0; k < by_output.size(); ++k) {
    if (d.lin.tangent_of_output[k]) cotangents[*d.lin.tangent_of_output[k]] = by_output[k];
  }
  if (d.options.linear_transform != nullptr) {
    std::vector<bool> seeded;
    std::vector<Value> seeds;
    for (const std::optional<Value>& cotangent : cotangents) {
      seeded.push_back(cotangent.has_value());
      if (cotangent) seeds.push_back(*cotangent);
    }
    const Transposition transposition =
        linear_transpose(d.lin.linear, detail::transpose_options(d.options, d.lin, seeded));
    const std::vector<Value> results = d.apply_linear(transposition.graph, seeds);
    for (std::size_t i = 0; i < d.lin.wrt.size(); ++i) {
      const auto& at = transposition.cotangent_of_input[i];
      d.add_output(at ? std::optional<Value>(results[*at]) : std::nullopt, f.type(f.inputs()[d.lin.wrt[i]]));
    }
    return;
  }
  const auto gradients = detail::transpose_into(*d.builder, d.lin.linear, d.residuals, cotangents,
                                                detail::transpose_options(d.options, d.lin),
                                                d.origin_map ? &*d.origin_map : nullptr);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    d.add_output(gradients[i], f.type(f.inputs()[d.lin.wrt[i]]));
}

void require_floating_scalar(const Graph& f, std::string_view what, bool has_aux = false) {
  if (f.outputs().size() == 1 || (has_aux && !f.outputs().empty())) {
    const Type type = f.type(f.outputs()[0]);
    if (type.rank() == 0 && is_floating(type.dtype())) return;
    throw Error(ErrorKind::invalid_argument,
                detail::str(what, ": expected ", detail::in_quotes(f.name()), " to have ",
                            has_aux ? "a floating scalar as its first output" : "one floating scalar output",
                            ", got ", type));
  }
  throw Error(ErrorKind::invalid_argument,
              detail::str(what, ": expected ", detail::in_quotes(f.name()),
                          " to have one floating scalar output, got ", f.outputs().size(), " outputs"));
}

Graph only_derivatives(const Derivative& d) {
  std::vector<std::size_t> positions;
  for (std::size_t i = d.first; i < d.graph.outputs().size(); ++i) positions.push_back(i);
  return eliminate_dead_code(with_outputs(d.graph, positions));
}

}  // namespace

Derivative vjp_parts(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  Derivation d(f, wrt, options);
  const Key128 instance = detail::fresh_instance();
  std::vector<std::optional<Value>> by_output(f.outputs().size());
  std::size_t number = 0;
  for (const std::size_t k : detail::inexact_outputs(f)) {
    const ValueId id = f.outputs()[k];
    by_output[k] = d.new_input(InputKey::cotangent(f.key(id), instance, k), f.type(id),
                               detail::str("cotangent.", number++));
  }
  transpose_onto(d, f, by_output);
  return d.finish(f);
}

Derivative value_and_grad_parts(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  require_floating_scalar(f, "grad", options.has_aux);
  Derivation d(f, wrt, options);
  const auto ones = f.primitives().transform_ops().ones;
  if (ones == nullptr)
    throw Error(ErrorKind::unknown_primitive, "grad: expected a primitive set that can make ones");
  const std::optional<Value> seed = d.lin.tangent_of_output[0]
                                        ? std::optional<Value>(ones(*d.builder, f.type(f.outputs()[0])))
                                        : std::nullopt;
  transpose_onto(d, f, std::array{seed});
  return d.finish(f);
}

Derivative hvp_parts(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  require_floating_scalar(f, "hvp");
  const Derivative first = value_and_grad_parts(f, wrt, options);
  Derivative both = jvp_parts(first.graph, names_at(f, first.wrt), options);
  // Outputs of both: value, gradients, tangent of the value, tangents of the gradients.
  const std::size_t count = first.wrt.size();
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < 1 + count; ++i) kept.push_back(i);
  for (std::size_t i = 0; i < count; ++i) kept.push_back(2 + count + i);
  Derivative result;
  result.graph = eliminate_dead_code(with_outputs(both.graph, kept));
  result.wrt = first.wrt;
  result.outputs = first.outputs;
  result.first = 1;
  result.present = first.present;
  result.present.insert(result.present.end(), both.present.begin() + 1, both.present.end());
  return result;
}

Graph jvp(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return jvp_parts(f, wrt, options).graph;
}
Graph vjp(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return vjp_parts(f, wrt, options).graph;
}
Graph value_and_grad(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return value_and_grad_parts(f, wrt, options).graph;
}
Graph grad(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return only_derivatives(value_and_grad_parts(f, wrt, options));
}
Graph hvp(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return hvp_parts(f, wrt, options).graph;
}
Graph jacfwd(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return only_derivatives(jacfwd_parts(f, wrt, options));
}
Graph jacrev(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return only_derivatives(jacrev_parts(f, wrt, options));
}
Graph hessian(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  require_floating_scalar(f, "hessian");
  const Derivative first = value_and_grad_parts(f, wrt, options);
  return jacfwd(only_derivatives(first), names_at(f, first.wrt), options);
}

Graph vmap(const Graph& f, std::int64_t size, const Names& batched, ADContext* context) {
  BatchOptions options;
  options.context = context;
  options.inputs.emplace(f.inputs().size(), batched.empty());
  const detail::InputIndex index(f);
  for (const std::string& name : batched) {
    const std::optional<std::size_t> position = index.find(name);
    if (!position) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("vmap: expected inputs of ", detail::in_quotes(f.name()), ", got ",
                              detail::in_quotes(name)));
    }
    (*options.inputs)[*position] = true;
  }
  return batch(f, size, options).graph;
}

Graph with_outputs(const Graph& f, std::span<const std::size_t> outputs) {
  std::vector<ValueId> ids;
  for (const std::size_t i : outputs) {
    if (i >= f.outputs().size()) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("with_outputs: expected an output of ", detail::in_quotes(f.name()), " below ",
                              f.outputs().size(), ", got ", i));
    }
    ids.push_back(f.outputs()[i]);
  }
  GraphBuilder::Options options;
  options.deduplicate = false;  // prune merges
  return prune(GraphBuilder::extending(f, options)->build_ids(std::move(ids)));
}

std::vector<Residual> manifest(const Graph& forward, const Graph& transposed) {
  std::unordered_map<ValueKey, ValueId> wanted;
  for (const ValueId id : transposed.externals()) wanted.emplace(transposed.key(id), no_index);
  for (ValueId id = 0; id < forward.num_values(); ++id) {
    if (const auto it = wanted.find(forward.key(id)); it != wanted.end() && it->second == no_index)
      it->second = id;
  }
  std::vector<Residual> residuals;
  for (const ValueId external : transposed.externals()) {
    const ValueKey& key = transposed.key(external);
    const ValueId id = wanted.at(key);
    if (id == no_index) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("manifest: expected ", detail::in_quotes(forward.name()),
                              " to define the external ", to_hex(key), ", it does not"));
    }
    const Type type = forward.type(id);
    const bool is_input = forward.is_input(id);
    std::string origin;
    if (const auto producer = forward.producer(id)) {
      origin = detail::str(forward.operation(*producer).name(), ' ', describe_operation(forward, *producer));
    } else {
      origin = std::string(forward.label(id));
    }
    residuals.push_back({id, key, type, type.bytes(), is_input, std::move(origin)});
  }
  return residuals;
}

Pullback pullback(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  const Linearization lin = linearize(f, {.wrt = wrt_positions(f, wrt), .context = options.context});
  const Transposition transposition = linear_transpose(lin.linear, detail::transpose_options(options, lin));
  const Graph backward = prune(detail::transformed(transposition.graph, options));

  Pullback result;
  result.wrt = lin.wrt;
  result.gradient = transposition.cotangent_of_input;
  result.outputs = detail::inexact_outputs(f);
  result.manifest = manifest(lin.augmented, backward);

  const auto forward = GraphBuilder::extending(lin.augmented);
  std::vector<ValueId> outputs(lin.augmented.outputs().begin(), lin.augmented.outputs().end());
  for (const Residual& residual : result.manifest) outputs.push_back(residual.value);
  result.forward = eliminate_dead_code(prune(forward->build_ids(std::move(outputs))));

  GraphBuilder closed(detail::str(f.name(), ".pullback"), f.primitives());
  std::vector<Value> residuals;
  for (std::size_t i = 0; i < result.manifest.size(); ++i) {
    residuals.push_back(closed.input(detail::str("residual.", i), result.manifest[i].type));
  }
  // A cotangent per inexact output; those without a path are not read.
  std::vector<Value> cotangents(backward.inputs().size());
  std::size_t number = 0;
  for (const std::size_t k : result.outputs) {
    const Value cotangent = closed.input(detail::str("cotangent.", number++), f.type(f.outputs()[k]));
    if (lin.tangent_of_output[k]) cotangents[*lin.tangent_of_output[k]] = cotangent;
  }
  const std::vector<Value> values = detail::own_step(
      "closing a pullback", [&] { return inline_graph(closed, backward, cotangents, residuals); });
  std::vector<Value> gradients;
  for (const ValueId id : backward.outputs()) gradients.push_back(values[id]);
  result.backward = eliminate_dead_code(closed.build(gradients));
  return result;
}

#define TIDU_TRY(name)                                                                           \
  Result<Graph> try_##name(const Graph& f, const Names& wrt, const DerivativeOptions& options) { \
    return detail::capture([&] { return name(f, wrt, options); });                               \
  }
TIDU_TRY(jvp)
TIDU_TRY(vjp)
TIDU_TRY(grad)
TIDU_TRY(value_and_grad)
TIDU_TRY(hvp)
TIDU_TRY(jacfwd)
TIDU_TRY(jacrev)
TIDU_TRY(hessian)
#undef TIDU_TRY

Result<Graph> try_vmap(const Graph& f, std::int64_t size, const Names& batched, ADContext* context) {
  return detail::capture([&] { return vmap(f, size, batched, context); });
}
Result<Pullback> try_pullback(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  return detail::capture([&] { return pullback(f, wrt, options); });
}

}  // namespace tidu
