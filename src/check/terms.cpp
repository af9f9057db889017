// terms.cpp - see terms.hpp. The output is differentiated in reverse by an addend of every result.
#include "check/terms.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::check {
namespace {

constexpr std::size_t max_unrolled = std::size_t{1} << 22;

double sum_of_products(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += std::abs(a.at(i)) * std::abs(b.at(i));
  return sum;
}

}  // namespace

Terms::Terms(const Graph& graph, std::size_t output, const Executor& executor)
    : executor_(executor), type_(graph.type(graph.outputs()[output])) {
  if (!is_inexact(type_.dtype()) || type_.size() == 0) return;
  try {
    const Graph written = passes::inline_graphs(graph, max_unrolled);
    const Graph one = with_outputs(written, std::array{output});
    perturbed_ = perturb(one, {}, std::vector<bool>(one.num_values(), true));
    derived_.emplace(perturbed_.graph, perturbed_.changed);
    if (!derived_->active(0) || !derived_->has_reverse()) derived_.reset();
  } catch (const Error&) {  // a missing rule
    derived_.reset();
  }
}

double Terms::at(std::span<const Tensor> inputs) const {
  if (!derived_) return 0.0;
  try {
    Tensors arguments(inputs.begin(), inputs.end());
    arguments.insert(arguments.end(), perturbed_.inputs.begin(), perturbed_.inputs.end());
    const Point point(*derived_, arguments, executor_);
    Random random(7);
    Numbers signs(static_cast<std::size_t>(type_.size()));
    for (std::complex<double>& sign : signs) sign = random.below(2) == 0 ? -1.0 : 1.0;
    const MaybeTensors cotangents = point.vjp({tensor_of(type_, signs)});
    const Tensors values = all_values(perturbed_.graph, arguments, executor_);
    double largest = 0.0;
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i]) continue;
      const double sum = sum_of_products(values[perturbed_.values[i]], *cotangents[i]);
      if (std::isfinite(sum)) largest = std::max(largest, sum);
    }
    return largest / static_cast<double>(type_.size());
  } catch (const Error&) {  // a missing kernel
    return 0.0;
  }
}

double magnitude_of_terms(const Graph& graph, std::span<const Tensor> inputs, std::size_t output,
                          const Executor& executor) {
  return Terms(graph, output, executor).at(inputs);
}

}  // namespace tidu::check
