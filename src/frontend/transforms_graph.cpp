// transforms_graph.cpp - the transforms that trace: the function becomes a graph, the graph is transformed,
// and the result is called as one operation, which is recorded as one node or written into an outer trace.
#include <algorithm>
#include <optional>

#include "frontend/transforms.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/linearize.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/linearize/transpose.hpp"

namespace tidu::frontend_detail {
namespace {

// A function's graph on some arguments, ready to be called with them.
struct Applied {
  Traced traced;
  std::vector<Array> inputs;  ///< arguments, then captured values
};

Applied apply_traced(const FlatFunction& f, const std::vector<Array>& arguments, const char* name,
                     Where where) {
  Applied applied{trace_flat(f, arguments, name, where), arguments};
  applied.inputs.insert(applied.inputs.end(), applied.traced.captured.begin(), applied.traced.captured.end());
  return applied;
}

std::vector<std::size_t> inexact_positions(const std::vector<Array>& arrays) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (is_inexact(arrays[i].dtype())) positions.push_back(i);
  return positions;
}

std::vector<Type> output_types(const Graph& graph) {
  std::vector<Type> types;
  for (const ValueId output : graph.outputs()) types.push_back(graph.type(output));
  return types;
}

std::vector<Array> call(const Graph& graph, std::vector<Array> inputs, const std::vector<Array>& more,
                        Where where) {
  inputs.insert(inputs.end(), more.begin(), more.end());
  return call_graph(graph, inputs, where);
}

// The result of make(); an Error of it gets the function, its arguments and the source location.
template <class Make>
auto located(const char* name, const std::vector<Array>& arguments, Where where, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    raise_located(error, name, arguments, where);
  }
}

// The first output must be a floating scalar.
void require_scalar_output(const Graph& graph, const char* name, Where where) {
  if (graph.outputs().empty())
    refuse(ErrorKind::invalid_argument, name, "expected a function that returns an Array, got none", where);
  const Type type = graph.type(graph.outputs()[0]);
  if (type.rank() != 0 || !is_floating(type.dtype())) {
    refuse(ErrorKind::invalid_argument, name,
           detail::str("expected a function whose (first) result is a floating scalar, got ", type), where);
  }
}
// The graph of that output alone.
Graph scalar_output(const Graph& graph, const char* name, Where where) {
  require_scalar_output(graph, name, where);
  const std::size_t first[] = {0};
  return with_outputs(graph, first);
}

}  // namespace

void require_tangents(const std::vector<Array>& arguments, const std::vector<Array>& tangents,
                      const char* name, Where where) {
  require_arrays(arguments, name, where);
  require_arrays(tangents, name, where, "tangents");
  if (arguments.size() != tangents.size()) {
    refuse(
        ErrorKind::invalid_argument, name,
        detail::str("expected a tangent for each of ", arguments.size(), " arguments, got ", tangents.size()),
        where);
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!is_inexact(arguments[i].dtype())) {
      refuse(ErrorKind::type, name,
             detail::str("expected floating or complex arguments, got ", arguments[i].type(), " (argument ",
                         i, "): what has no tangent is captured by the function, not one of its arguments"),
             where);
    }
    if (arguments[i].type() != tangents[i].type()) {
      refuse(ErrorKind::type, name,
             detail::str("expected tangents of the arguments' types, got ", tangents[i].type(), " for ",
                         arguments[i].type(), " (argument ", i, ')'),
             where);
    }
  }
}

void require_cotangents(std::span<const Type> outputs, std::span<const Array> cotangents, Where where) {
  if (cotangents.size() != outputs.size()) {
    refuse(
        ErrorKind::invalid_argument, "vjp",
        detail::str("expected a cotangent for each of ", outputs.size(), " results, got ", cotangents.size()),
        where);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_inexact(outputs[i].dtype())) continue;  // it has none: whatever stands there is not read
    if (cotangents[i].empty_handle()) require_arrays(cotangents.first(i + 1), "vjp", where, "cotangents");
    if (cotangents[i].type() == outputs[i]) continue;
    refuse(ErrorKind::type, "vjp",
           detail::str("expected a cotangent of type ", outputs[i], " for result ", i, ", got ",
                       cotangents[i].type()),
           where);
  }
}

ValueAndGradients traced_value_and_gradients(const FlatFunction& f, const std::vector<Array>& arguments,
                                             const std::vector<std::size_t>& wrt, const char* name,
                                             Where where) {
  const Applied applied = apply_traced(f, arguments, name, where);
  const Graph& graph = applied.traced.graph;
  require_scalar_output(graph, name, where);
  // One graph, in which loops with residuals as further results replace those without.
  const Derivative both = located(name, arguments, where, [&] {
    return value_and_grad_parts(graph, names_at(graph, wrt), {.has_aux = true});
  });
  std::vector<Array> outputs = call_graph(both.graph, applied.inputs, where);
  const auto first = outputs.begin() + static_cast<std::ptrdiff_t>(both.first);
  std::vector<Array> gradients(first, outputs.end());
  outputs.erase(first, outputs.end());
  return {std::move(outputs), std::move(gradients)};
}

namespace {

FlatPullback pullback_of(const Applied& applied, const std::vector<Array>& arguments, Where where) {
  const Graph& graph = applied.traced.graph;
  const std::vector<std::size_t> wrt = inexact_positions(arguments);
  const Derivative made =
      located("vjp", arguments, where, [&] { return vjp_parts(graph, names_at(graph, wrt)); });
  return [graph, derivative = made, arguments, inputs = applied.inputs,
          where](const std::vector<Array>& cotangents) {
    require_cotangents(output_types(graph), cotangents, where);
    std::vector<Array> seeds;
    for (const std::size_t output : derivative.outputs) seeds.push_back(cotangents[output]);
    const std::vector<Array> all = call(derivative.graph, inputs, seeds, where);
    std::vector<Array> results;
    std::size_t next = derivative.first;
    for (const Array& argument : arguments)
      results.push_back(is_inexact(argument.dtype()) ? all[next++] : zeros(argument.shape(), f64));
    return results;
  };
}

// A function's graph with its residuals after its outputs, and the graph of cotangents from these.
struct SplitVjp {
  Graph forward, backward;
  std::vector<std::size_t> seeded;               // outputs whose cotangents backward reads
  std::vector<std::optional<std::size_t>> from;  // by argument: position among the outputs of backward
};

SplitVjp split_vjp(const Graph& graph, const std::vector<std::size_t>& wrt) {
  const Linearization lin = linearize(graph, {.wrt = wrt});
  SplitVjp split;
  const auto forward = GraphBuilder::extending(lin.augmented);
  std::vector<ValueId> outputs(lin.augmented.outputs().begin(), lin.augmented.outputs().end());
  outputs.insert(outputs.end(), lin.residuals.begin(), lin.residuals.end());
  split.forward = forward->build_ids(std::move(outputs));
  GraphBuilder backward(graph.name() + ".vjp", graph.primitives());
  std::vector<Value> residuals;
  for (const ValueId id : lin.linear.externals())
    residuals.push_back(backward.input(detail::str("residual.", residuals.size()), lin.linear.type(id)));
  std::vector<std::optional<Value>> cotangents(lin.linear.outputs().size());
  for (std::size_t k = 0; k < lin.tangent_of_output.size(); ++k) {
    const std::optional<std::size_t>& at = lin.tangent_of_output[k];
    if (!at) continue;
    cotangents[*at] = backward.input(detail::str("cotangent.", k), graph.type(graph.outputs()[k]));
    split.seeded.push_back(k);
  }
  const std::vector<std::optional<Value>> made = linear_transpose_with(
      backward, lin.linear, {}, residuals, cotangents, {.linear_inputs = {}, .seeded = {}, .primal = &graph});
  std::vector<Value> gradients;
  split.from.resize(graph.inputs().size());
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (!made[i]) continue;
    split.from[wrt[i]] = gradients.size();
    gradients.push_back(*made[i]);
  }
  split.backward = backward.build(gradients);
  return split;
}

}  // namespace

std::pair<std::vector<Array>, FlatPullback> traced_vjp(const FlatFunction& f,
                                                       const std::vector<Array>& arguments, Where where) {
  const Applied applied = apply_traced(f, arguments, "vjp", where);
  const Graph& graph = applied.traced.graph;
  SplitVjp made =
      located("vjp", arguments, where, [&] { return split_vjp(graph, inexact_positions(arguments)); });
  std::vector<Array> results = call_graph(made.forward, applied.inputs, where);
  const auto first = results.begin() + static_cast<std::ptrdiff_t>(graph.outputs().size());
  std::vector<Array> residuals(first, results.end());
  results.erase(first, results.end());
  FlatPullback pullback = [types = output_types(graph), split = std::move(made),
                           residuals = std::move(residuals), arguments,
                           where](const std::vector<Array>& cotangents) {
    require_cotangents(types, cotangents, where);
    std::vector<Array> seeds;
    for (const std::size_t k : split.seeded) seeds.push_back(cotangents[k]);
    const std::vector<Array> gradients = call(split.backward, residuals, seeds, where);
    std::vector<Array> by_argument;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (split.from[i])
        by_argument.push_back(gradients[*split.from[i]]);
      else
        by_argument.push_back(
            zeros(arguments[i].shape(), is_inexact(arguments[i].dtype()) ? arguments[i].dtype() : f64));
    }
    return by_argument;
  };
  return {std::move(results), std::move(pullback)};
}

FlatPullback traced_pullback(const FlatFunction& f, const std::vector<Array>& arguments, Where where) {
  return pullback_of(apply_traced(f, arguments, "vjp", where), arguments, where);
}

std::vector<Array> traced_hvp(const FlatFunction& f, const std::vector<Array>& arguments,
                              const std::vector<Array>& tangents, Where where) {
  const Applied applied = apply_traced(f, arguments, "hvp", where);
  const Graph& graph = applied.traced.graph;
  const Graph scalar = scalar_output(graph, "hvp", where);
  const Derivative derivative = located("hvp", arguments, where, [&] {
    return hvp_parts(scalar, names_at(graph, inexact_positions(arguments)));
  });
  std::vector<Array> all = call(derivative.graph, applied.inputs, tangents, where);
  all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(arguments.size()));
  return all;
}

std::pair<std::vector<Array>, std::vector<Array>> jvp_flat(const FlatFunction& f,
                                                           const std::vector<Array>& arguments,
                                                           const std::vector<Array>& tangents, Where where) {
  require_tangents(arguments, tangents, "jvp", where);
  const Applied applied = apply_traced(f, arguments, "jvp", where);
  const Graph& graph = applied.traced.graph;
  const Derivative derivative = located("jvp", arguments, where, [&] {
    return jvp_parts(graph, names_at(graph, inexact_positions(arguments)));
  });
  const std::vector<Array> all = call(derivative.graph, applied.inputs, tangents, where);
  std::vector<Array> outputs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(derivative.first));
  std::vector<Array> output_tangents;
  for (const Array& output : outputs) output_tangents.push_back(zeros_like(output, where));
  for (std::size_t i = 0; i < derivative.outputs.size(); ++i)
    output_tangents[derivative.outputs[i]] = all[derivative.first + i];
  return {std::move(outputs), std::move(output_tangents)};
}

std::vector<Array> jacobian_flat(Jacobian kind, const FlatFunction& f, const std::vector<Array>& arguments,
                                 const std::vector<std::size_t>& wrt, Where where) {
  const char* const name = kind == Jacobian::forward   ? "jacfwd"
                           : kind == Jacobian::reverse ? "jacrev"
                                                       : "hessian";
  require_arrays(arguments, name, where);
  const Applied applied = apply_traced(f, arguments, name, where);
  const Graph& graph = applied.traced.graph;
  if (kind != Jacobian::hessian &&
      std::none_of(graph.outputs().begin(), graph.outputs().end(),
                   [&](ValueId output) { return is_inexact(graph.type(output).dtype()); })) {
    refuse(ErrorKind::invalid_argument, name,
           graph.outputs().empty() ? std::string("expected a function that returns an Array, got none")
                                   : detail::str("expected a function with a floating result, got ",
                                                 graph.type(graph.outputs()[0])),
           where);
  }
  const Names names = names_at(graph, wrt);
  const Graph whole = kind == Jacobian::hessian ? scalar_output(graph, name, where) : graph;
  const Graph derivative = located(name, arguments, where, [&] {
    return kind == Jacobian::forward   ? jacfwd(whole, names)
           : kind == Jacobian::reverse ? jacrev(whole, names)
                                       : hessian(whole, names);
  });
  std::vector<Array> blocks = call_graph(derivative, applied.inputs, where);
  if (kind == Jacobian::hessian) return blocks;
  // Results that are not floating do not change: zeros stand for them, so that each result has its blocks.
  std::vector<Array> all;
  auto next = blocks.begin();
  for (const ValueId output : graph.outputs()) {
    const Type type = graph.type(output);
    for (const std::size_t argument : wrt) {
      if (is_inexact(type.dtype())) {
        all.push_back(std::move(*next++));
        continue;
      }
      const Type by = graph.type(graph.inputs()[argument]);
      Shape shape = type.shape();
      shape.insert(shape.end(), by.shape().begin(), by.shape().end());
      all.push_back(zeros(shape, by.dtype(), where));
    }
  }
  return all;
}

std::vector<std::optional<int>> axes_of_arguments(const InAxes& given,
                                                  const std::vector<std::size_t>& offsets, Where where) {
  const std::size_t count = offsets.size() - 1;
  const std::vector<std::optional<int>> in_axes =
      given.for_all() ? std::vector<std::optional<int>>(count, given.axes()[0]) : given.axes();
  if (!in_axes.empty() && in_axes.size() != count) {
    refuse(ErrorKind::invalid_argument, "vmap",
           detail::str("expected an axis or none for each of ", count, " arguments, got ", in_axes.size()),
           where);
  }
  std::vector<std::optional<int>> axes;
  for (std::size_t i = 0; i < count; ++i)
    axes.insert(axes.end(), offsets[i + 1] - offsets[i],
                in_axes.empty() ? std::optional<int>(0) : in_axes[i]);
  return axes;
}

std::vector<Array> vmap_flat(const FlatFunction& f, const std::vector<Array>& arguments,
                             const std::vector<std::optional<int>>& axes, Where where) {
  require_arrays(arguments, "vmap", where);
  std::vector<Array> moved, examples;
  std::vector<std::size_t> mapped;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Array& argument = arguments[i];
    if (!axes[i]) {
      moved.push_back(argument);
      examples.push_back(argument);
      continue;
    }
    const auto rank = static_cast<int>(argument.ndim());
    const int axis = *axes[i] < 0 ? *axes[i] + rank : *axes[i];
    if (axis < 0 || axis >= rank) {
      refuse(ErrorKind::invalid_argument, "vmap",
             detail::str("expected an axis to map over, got ", *axes[i], " for ", argument.type(), " (Array ",
                         i, " of the arguments)"),
             where);
    }
    Shape shape = argument.shape();
    Ints order{axis};
    for (int k = 0; k < rank; ++k)
      if (k != axis) order.push_back(k);
    const std::int64_t size = shape[static_cast<std::size_t>(axis)];
    shape.erase(shape.begin() + axis);
    moved.push_back(axis == 0 ? argument : transpose(argument, Axes(order), where));
    examples.push_back(placeholder(Type(argument.dtype(), shape)));
    mapped.push_back(i);
    const std::int64_t first = moved[mapped[0]].shape()[0];
    if (size != first) {
      refuse(ErrorKind::invalid_argument, "vmap",
             detail::str("expected as many examples in each argument, got ", first, " in ",
                         arguments[mapped[0]].type(), " and ", size, " in ", argument.type()),
             where);
    }
  }
  if (mapped.empty())
    refuse(ErrorKind::invalid_argument, "vmap", "expected an argument to map over, got none", where);
  Applied applied{trace_flat(f, examples, "vmap", where), std::move(moved)};
  applied.inputs.insert(applied.inputs.end(), applied.traced.captured.begin(), applied.traced.captured.end());
  const Graph& graph = applied.traced.graph;
  const std::int64_t examples_in_all = applied.inputs[mapped[0]].shape()[0];
  const Graph batched = located("vmap", arguments, where,
                                [&] { return vmap(graph, examples_in_all, names_at(graph, mapped)); });
  return call_graph(batched, applied.inputs, where);
}

void move_examples(std::vector<Array>& outputs, const std::vector<int>& out_axes,
                   const std::vector<std::size_t>& offsets, Where where) {
  const std::size_t count = offsets.size() - 1;
  if (out_axes.size() != 1 && out_axes.size() != count) {
    refuse(ErrorKind::invalid_argument, "vmap",
           detail::str("expected an axis for each of ", count, " results, or one for all, got ",
                       out_axes.size()),
           where);
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      const auto rank = static_cast<int>(outputs[k].ndim());
      const int axis = out_axes[out_axes.size() == 1 ? 0 : i];
      if (axis < -rank || axis >= rank) {
        refuse(ErrorKind::invalid_argument, "vmap",
               detail::str("expected a place for the examples among the axes of ", outputs[k].type(),
                           ", got ", axis, " (Array ", k, " of the results)"),
               where);
      }
      if (axis != 0 && axis != -rank) outputs[k] = moveaxis(outputs[k], 0, axis, where);
    }
  }
}

}  // namespace tidu::frontend_detail
