// terms.cpp - see terms.hpp. The output is differentiated in reverse by an addend of every result.
#include "check/terms.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "check/derived.hpp"
#include "check/perturb.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/program/passes.hpp"

namespace tidu::check {
namespace {

constexpr std::size_t most_written_out = std::size_t{1} << 22;

double sum_of_products(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += std::abs(a.at(i)) * std::abs(b.at(i));
  return sum;
}

}  // namespace

double magnitude_of_terms(const Graph& graph, std::span<const Tensor> inputs, std::size_t output,
                          const Executor& executor) {
  const Type type = graph.type(graph.outputs()[output]);
  if (!is_inexact(type.dtype()) || type.size() == 0) return 0.0;
  try {
    const Graph written = passes::write_out_graphs(graph, most_written_out);
    const Graph one = with_outputs(written, std::array{output});
    const Perturbed perturbed = perturb(one, inputs, std::vector<bool>(one.num_values(), true));
    const Derived derived(perturbed.graph, perturbed.changed);
    if (!derived.active(0)) return 0.0;
    const Point point(derived, perturbed.inputs, executor);
    Random random(7);
    Numbers signs(static_cast<std::size_t>(type.size()));
    for (std::complex<double>& sign : signs) sign = random.below(2) == 0 ? -1.0 : 1.0;
    const MaybeTensors cotangents = point.vjp({tensor_of(type, signs)});
    const Tensors values = all_values(perturbed.graph, perturbed.inputs, executor);
    double largest = 0.0;
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i]) continue;
      const double sum = sum_of_products(values[perturbed.values[i]], *cotangents[i]);
      if (std::isfinite(sum)) largest = std::max(largest, sum);
    }
    return largest / static_cast<double>(type.size());
  } catch (const Error&) {  // a missing rule
    return 0.0;
  }
}

}  // namespace tidu::check
