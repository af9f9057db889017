// derive.hpp - Derivation: the part that jvp, vjp and the Jacobians share. The graph under construction is
// the augmented primal graph, to which inputs, the linear or transposed graph, and outputs are added.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"

namespace tidu::detail {

std::vector<std::size_t> inexact_outputs(const Graph& f);

/// options.linear_transform of a linear graph, checked; the graph itself without one.
Graph transformed(const Graph& linear, const DerivativeOptions& options);

/// How the linear graph of `lin`, which the options borrow, is transposed for a derivative.
TransposeOptions transpose_options(const DerivativeOptions& options, const Linearization& lin,
                                   std::optional<std::vector<bool>> seeded = std::nullopt);

struct Derivation {
  Derivation(const Graph& f, const Names& wrt, const DerivativeOptions& given);
  /// An input with that key and label, or so named (options.named_inputs).
  Value new_input(const InputKey& key, Type type, const std::string& label);
  /// Writes a graph whose externals are those of lin.linear, transformed; returns its outputs.
  std::vector<Value> apply_linear(const Graph& graph, std::span<const Value> inputs);
  /// A derivative, zeros of that type when absent.
  void add_output(const std::optional<Value>& value, Type type);
  Derivative finish(const Graph& f);

  DerivativeOptions options;
  Linearization lin;
  std::unique_ptr<GraphBuilder> builder;
  std::vector<Value> residuals;  ///< by external of lin.linear
  std::vector<Value> outputs;    ///< of the graph under construction: those of f, then derivatives
  std::vector<bool> present;     ///< by derivative
  std::optional<std::vector<std::uint32_t>>
      origin_map;  ///< primal operation -> operation in the builder, when they differ

 private:
  std::unordered_set<Key128> keys_;  ///< of the builder's inputs, for who names new ones
};

}  // namespace tidu::detail
