// rematerialized.cpp - which values kernels compute again.
#include "cuda/kernels/rematerialized.hpp"

#include <algorithm>
#include <string_view>

namespace tidu::cuda_detail {
namespace {

constexpr std::size_t max_sources = 4;
// Instructions for an element: an H100 has time for some 80 of f32 while 8 bytes are written and read.
constexpr std::size_t max_cost = 4, max_cost_of_large = 24;
constexpr std::size_t min_large_bytes = std::size_t{1} << 20;

// How many instructions an element takes, about, where that is few; else 0.
std::size_t cost_of(const Operation& operation, DType dtype) {
  const std::string_view name = operation.name();
  constexpr std::string_view ones[] = {"neg", "abs", "add",    "sub",     "mul", "multiply_no_nan",
                                       "max", "min", "square", "eq",      "ne",  "lt",
                                       "le",  "gt",  "ge",     "select_n"};
  if (std::find(std::begin(ones), std::end(ones), name) != std::end(ones)) return 1;
  if (dtype != DType::f32) return 0;
  if (name == "div" || name == "divide_no_nan" || name == "reciprocal" || name == "sqrt" || name == "rsqrt" ||
      name == "exp")
    return 8;
  return name == "tanh" || name == "logistic" ? 12 : 0;
}

// By value: elements are read many times each, in a larger array.
std::vector<bool> spread_out(const Graph& graph, const KnownValues& known) {
  std::vector<bool> spread(graph.num_values(), false);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (operation.name() != "broadcast_in_dim") continue;
    const ValueId x = operation.input(0);
    if (graph.type(x).size() == graph.type(operation.output()).size()) continue;
    for (const ValueId source : known.sources(x)) spread[source] = true;
  }
  return spread;
}

// What a value would be computed from.
struct Recipe {
  std::size_t cost = 0;
  std::vector<ValueId> sources;
};

}  // namespace

std::vector<bool> rematerialized_values(const Graph& graph, const KnownValues& known) {
  std::vector<bool> again(graph.num_values(), false);
  std::vector<Recipe> recipes(graph.num_values());
  const std::vector<bool> spread = spread_out(graph, known);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    if (!known.by_element[i]) continue;
    const Operation operation = graph.operation(i);
    const ValueId id = operation.output();
    const std::size_t own = graph.type(id).bytes();
    Recipe recipe{cost_of(operation, graph.type(id).dtype()), {}};
    if (known.asked_for[id] || known.given[id] || recipe.cost == 0) continue;
    const bool large_once = own >= min_large_bytes && !spread[id];
    const std::size_t most = large_once ? max_cost_of_large : max_cost;
    bool fits = true;
    for (const ValueId in : operation.inputs()) {
      for (const ValueId source : known.sources(in)) {
        fits = fits && (again[source] || known.given[source] || known.asked_for[source] ||
                        known.read_elsewhere[source]);
        if (again[source]) recipe.cost += recipes[source].cost;
        const std::vector<ValueId> one{source};
        for (const ValueId from : again[source] ? recipes[source].sources : one) {
          if (std::find(recipe.sources.begin(), recipe.sources.end(), from) == recipe.sources.end())
            recipe.sources.push_back(from);
        }
      }
      if (!fits || recipe.sources.size() > max_sources) break;
    }
    if (!fits || recipe.sources.size() > max_sources || recipe.cost > most) continue;
    std::size_t large = 0, small = 0;
    for (const ValueId source : recipe.sources) {
      const std::size_t bytes = graph.type(source).bytes();
      fits = fits && bytes <= own;
      (4 * bytes > own ? large : small) += 4 * bytes > own ? 1 : bytes;
    }
    if (!fits || large > 1 || 4 * small > own) continue;
    again[id] = true;
    recipes[id] = std::move(recipe);
  }
  return again;
}

}  // namespace tidu::cuda_detail
