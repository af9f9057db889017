// jacobian.cpp - jacfwd and jacrev: every direction is a row of one batched linear graph, seeded with unit
// vectors.

#include <algorithm>
#include <cstdint>

#include "linearize/derive.hpp"
#include "linearize/rule_call.hpp"

namespace tidu {
namespace {

using detail::Derivation;

const PrimitiveSet::TransformOps& ops_for_jacobians(const Graph& f) {
  const PrimitiveSet::TransformOps& transform_ops = f.primitives().transform_ops();
  if (transform_ops.basis == nullptr || transform_ops.leading_block == nullptr ||
      transform_ops.trailing_block == nullptr) {
    throw Error(ErrorKind::unknown_primitive,
                "jacobian: expected a primitive set that can make unit vectors and take blocks of rows");
  }
  return transform_ops;
}

void refuse_complex(const Graph& f, const Derivation& d) {
  const auto refuse = [&f](Type type, const std::string& what) {
    if (!is_complex(type.dtype())) return;
    throw Error(
        ErrorKind::invalid_argument,
        detail::str(
            "jacobian: expected real inputs and outputs of ", detail::in_quotes(f.name()), ", got ", what,
            " of type ", type,
            "; split it with real and imag (and join inputs with complex), and differentiate the parts"));
  };
  for (const std::size_t i : d.lin.wrt)
    refuse(f.type(f.inputs()[i]), detail::str("input ", detail::printable(f.input_name(i))));
  for (const std::size_t k : detail::inexact_outputs(f))
    refuse(f.type(f.outputs()[k]), detail::str("output ", k));
}

Type block_type(Type output, Type input) {
  Shape shape = output.shape();
  shape.insert(shape.end(), input.shape().begin(), input.shape().end());
  return output.with_shape(shape);
}

// Unit vectors for values of these types, each with its own rows of `rows`.
std::vector<Value> unit_vectors(Derivation& d, const std::vector<Type>& types, std::int64_t rows) {
  const PrimitiveSet::TransformOps& transform_ops = d.lin.primal.primitives().transform_ops();
  std::vector<Value> seeds;
  std::int64_t offset = 0;
  for (const Type type : types) {
    seeds.push_back(transform_ops.basis(*d.builder, type, rows, offset));
    offset += type.size();
  }
  return seeds;
}

std::int64_t total_size(const std::vector<Type>& types) {
  std::int64_t total = 0;
  for (const Type type : types) total += type.size();
  return total;
}

// By output of a linear graph, by input: does a path lead from that to this? 64 inputs at a time.
std::vector<std::vector<bool>> paths(const Graph& linear) {
  std::vector<std::vector<bool>> found(linear.outputs().size(),
                                       std::vector<bool>(linear.inputs().size(), false));
  std::vector<std::uint64_t> from(linear.num_values());
  for (std::size_t first = 0; first < linear.inputs().size(); first += 64) {
    const std::size_t count = std::min<std::size_t>(64, linear.inputs().size() - first);
    std::fill(from.begin(), from.end(), 0);
    for (std::size_t i = 0; i < count; ++i) from[linear.inputs()[first + i]] = std::uint64_t{1} << i;
    for (std::uint32_t at = 0; at < linear.num_operations(); ++at) {
      const Operation operation = linear.operation(at);
      std::uint64_t all = 0;
      for (const ValueId id : operation.inputs()) all |= from[id];
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) from[operation.output(slot)] = all;
    }
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (std::size_t i = 0; i < count; ++i)
        found[k][first + i] = (from[linear.outputs()[k]] >> i & 1U) != 0;
    }
  }
  return found;
}

}  // namespace

Derivative jacfwd_parts(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  Derivation d(f, wrt, options);
  refuse_complex(f, d);
  const PrimitiveSet::TransformOps& transform_ops = ops_for_jacobians(f);
  std::vector<Type> inputs;
  for (const std::size_t i : d.lin.wrt) inputs.push_back(f.type(f.inputs()[i]));
  const std::int64_t rows = total_size(inputs);
  const Graph batched =
      batch(d.lin.linear, rows, {.inputs = {}, .all_outputs = true, .context = options.context}).graph;
  const auto reached = paths(d.lin.linear);
  const std::vector<Value> tangents = d.apply_linear(batched, unit_vectors(d, inputs, rows));
  for (const std::size_t k : detail::inexact_outputs(f)) {
    const auto& position = d.lin.tangent_of_output[k];
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::optional<Value> block;
      if (position && reached[*position][i])
        block = transform_ops.trailing_block(tangents[*position], offset, inputs[i].shape());
      d.add_output(block, block_type(f.type(f.outputs()[k]), inputs[i]));
      offset += inputs[i].size();
    }
  }
  return d.finish(f);
}

Derivative jacrev_parts(const Graph& f, const Names& wrt, const DerivativeOptions& options) {
  Derivation d(f, wrt, options);
  refuse_complex(f, d);
  const PrimitiveSet::TransformOps& transform_ops = ops_for_jacobians(f);
  const Transposition transposition =
      linear_transpose(d.lin.linear, detail::transpose_options(options, d.lin));
  std::vector<Type> seeded;
  std::vector<std::int64_t> offsets;  // of their rows
  std::int64_t next = 0;
  for (const ValueId id : d.lin.linear.outputs()) {
    seeded.push_back(d.lin.linear.type(id));
    offsets.push_back(next);
    next += seeded.back().size();
  }
  const std::int64_t rows = total_size(seeded);
  const Graph batched =
      batch(transposition.graph, rows, {.inputs = {}, .all_outputs = true, .context = options.context}).graph;
  const auto reached = paths(d.lin.linear);
  const std::vector<Value> gradients = d.apply_linear(batched, unit_vectors(d, seeded, rows));
  for (const std::size_t k : detail::inexact_outputs(f)) {
    const Type output = f.type(f.outputs()[k]);
    const auto& position = d.lin.tangent_of_output[k];
    for (std::size_t i = 0; i < d.lin.wrt.size(); ++i) {
      const auto& gradient = transposition.cotangent_of_input[i];
      std::optional<Value> block;
      if (position && gradient && reached[*position][i])
        block = transform_ops.leading_block(gradients[*gradient], offsets[*position], output.shape());
      d.add_output(block, block_type(output, f.type(f.inputs()[d.lin.wrt[i]])));
    }
  }
  return d.finish(f);
}

}  // namespace tidu
