// made_again.cpp - which values kernels compute again.
#include "cuda/kernels/made_again.hpp"

#include <algorithm>
#include <string_view>

namespace tidu::cuda_detail {
namespace {

constexpr std::size_t most_operations = 4, most_sources = 4;

bool is_one_instruction(std::string_view name) {
  constexpr std::string_view names[] = {"neg", "abs", "add", "sub", "mul", "max", "min",     "square",
                                        "eq",  "ne",  "lt",  "le",  "gt",  "ge",  "select_n"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// What a value would be computed from.
struct Recipe {
  std::size_t operations = 0;
  std::vector<ValueId> sources;
};

}  // namespace

std::vector<bool> values_made_again(const Graph& graph, const KnownValues& known) {
  std::vector<bool> again(graph.num_values(), false);
  std::vector<Recipe> recipes(graph.num_values());
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    if (!known.by_element[i]) continue;
    const Operation operation = graph.operation(i);
    const ValueId id = operation.output();
    if (known.asked_for[id] || !is_one_instruction(operation.name())) continue;
    Recipe recipe{1, {}};
    bool fits = true;
    for (const ValueId in : operation.inputs()) {
      for (const ValueId source : known.sources(in)) {
        fits = fits && (known.given[source] || again[source]);
        recipe.operations += recipes[source].operations;
        const std::vector<ValueId> one{source};
        for (const ValueId from : again[source] ? recipes[source].sources : one) {
          if (std::find(recipe.sources.begin(), recipe.sources.end(), from) == recipe.sources.end())
            recipe.sources.push_back(from);
        }
      }
      if (!fits || recipe.sources.size() > most_sources) break;
    }
    if (!fits || recipe.sources.size() > most_sources || recipe.operations > most_operations) continue;
    const std::size_t own = graph.type(id).bytes();
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
