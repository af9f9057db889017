// level.cpp - see level.hpp. Each test makes comparisons for every direction and keeps the worst.
#include "check/level.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "check/differences.hpp"
#include "check/terms.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::check {
namespace {

// The remaining error when the loop of a rule ends; the rule is that of the limit.
constexpr double tolerance_of_loops = 1e-3;

// The function for the jvp or vjp `next` of `level`: the same derivative of the function of `level`.
DifferenceFunction next_function(const Level& level, const Subject& next, bool forward) {
  const DifferenceFunction& function = level.function;
  if (!function.obstacle.empty() || function.graph.share() == level.subject.graph.share())
    return {next.graph, next.wrt, next.inputs, function.obstacle, function.iterates};
  try {
    const Names names = names_at(function.graph, function.wrt);
    const Graph graph = (forward ? jvp_parts(function.graph, names) : vjp_parts(function.graph, names)).graph;
    DifferenceFunction result = function;
    result.graph = graph;
    for (std::size_t i = level.subject.inputs.size(); i < next.inputs.size(); ++i) {
      result.wrt.push_back(result.inputs.size());
      result.inputs.push_back(next.inputs[i]);
    }
    check_inputs(graph, result.inputs);
    return result;
  } catch (const Error& error) {
    return {next.graph, next.wrt, next.inputs,
            detail::str("its unrolled steps and branches have no such derivative: ", error.what())};
  }
}

class Tester {
 public:
  Tester(const Subject& subject, const DifferenceFunction& function, const Executor& executor,
         const CheckOptions& options)
      : subject_(subject),
        executor_(executor),
        options_(options),
        epsilon_(coarsest_epsilon(subject.graph)),
        rounding_(rounding_tolerance(subject.graph, options, function.iterates)),
        difference_(difference_tolerance(subject.graph, options, function.iterates)),
        derived_(subject.graph, subject.wrt),
        point_(derived_, subject.inputs, executor),
        function_(function),
        difference_test_(
            function, point_.outputs(), executor, epsilon_, difference_, options.seed,
            [this](std::size_t output, const Tensors& u) { return terms_of_tangent(output, u); }),
        random_(options.seed),
        compared_(subject.graph.outputs().size()),
        doubted_(subject.graph.outputs().size()) {}

  LevelResult run(Kinds kinds) {
    if (kinds[index(CheckKind::differences)] && !function_.obstacle.empty()) {
      kinds[index(CheckKind::differences)] = false;
      result_.notes.push_back(detail::str("jvp was not compared with differences in ",
                                          detail::in_quotes(subject_.graph.name()), ": ",
                                          function_.obstacle));
    }
    result_.no_reverse = derived_.refusal();
    if (!derived_.has_reverse())
      kinds[index(CheckKind::transpose)] = kinds[index(CheckKind::twice_transposed)] = false;
    result_.not_finite = !point_.all_finite();
    for (std::size_t direction = 0; direction < options_.directions; ++direction) {
      const Tensors u = point_.random_tangents(random_);
      const MaybeTensors v = point_.random_cotangents(random_);
      const MaybeTensors ju = point_.jvp(u);
      note_not_finite(ju);
      if (kinds[index(CheckKind::linearity)]) linearity(direction, u, ju);
      if (kinds[index(CheckKind::differences)]) differences(direction, u, ju);
      if (kinds[index(CheckKind::transpose)]) transpose(direction, u, v, ju);
      if (kinds[index(CheckKind::twice_transposed)]) twice_transposed(direction, u, ju);
    }
    for (std::size_t k = 0; k < doubted_.size(); ++k) {
      if (doubted_[k] > 0 && compared_[k] == 0) result_.without_differences.push_back(k);
    }
    if (kinds[index(CheckKind::batch)] && options_.batch > 0) batch();
    return std::move(result_);
  }

 private:
  void met(CheckKind kind, const Judged& judged, double tolerance, std::size_t direction) {
    const std::size_t k = index(kind);
    const double error = judged.certain;
    // One of two sides is not finite: that is no measure of how well they agree.
    if (!std::isinf(judged.error)) {
      result_.comparisons[k] += judged.comparisons;
      result_.worst[k] = std::max(result_.worst[k], judged.error);
    }
    if (error > tolerance && (!result_.failed[k] || result_.failed[k]->error < error))
      result_.failed[k] = Disagreement{error, direction, std::nullopt};
  }
  void met(CheckKind kind, double error, double tolerance, std::size_t direction) {
    met(kind, Judged{error, error}, tolerance, direction);
  }
  // Compares two tensors that should be equal. If terms cancel, only their rounding remains, which is random:
  // sides that differ are compared relative to the magnitude of the terms, whose computation takes long.
  template <class Terms>
  double error_of(const Tensor& a, const Tensor& b, double tolerance, const Terms& terms) {
    const double error = relative_error(a, b);
    if (error <= tolerance || std::isinf(error)) return error;
    return within_terms(relative_error(a, b, terms()), tolerance);
  }
  double within_terms(double error, double tolerance) {
    result_.cancelled = result_.cancelled || error <= tolerance;
    return error;
  }
  // The magnitude of the terms of tangent `output` at these tangents.
  double terms_of_tangent(std::size_t output, const Tensors& u) {
    const std::size_t k = *derived_.linearization().tangent_of_output[output];
    const Terms& terms = terms_.try_emplace(k, derived_.linear().graph, k, executor_).first->second;
    return terms.at(point_.inputs_of(derived_.linear(), u));
  }

  bool failed_now(CheckKind kind, std::size_t direction) const {
    const auto& failed = result_.failed[index(kind)];
    return failed && failed->direction == direction;
  }

  void note_not_finite(const MaybeTensors& tensors) {
    for (const std::optional<Tensor>& tensor : tensors)
      result_.not_finite = result_.not_finite || (tensor && !all_finite(*tensor));
  }

  // The tangents with all but those of one input zero.
  Tensors only(const Tensors& u, std::size_t chosen) const {
    Tensors one;
    for (std::size_t k = 0; k < u.size(); ++k) one.push_back(k == chosen ? u[k] : Tensor::zeros(u[k].type()));
    return one;
  }
  // Which input shows it by itself, and how much.
  template <class Error>
  void narrow(CheckKind kind, std::size_t direction, const Tensors& u, const Error& error) {
    if (!failed_now(kind, direction)) return;
    double worst = 0.0;
    for (std::size_t k = 0; k < u.size(); ++k) {
      const double alone = error(only(u, k));
      if (alone <= worst) continue;
      worst = alone;
      result_.failed[index(kind)]->input = subject_.wrt[k];
    }
    if (worst > 0.0) result_.failed[index(kind)]->error = worst;
  }

  void linearity(std::size_t direction, const Tensors& u, const MaybeTensors& ju) {
    constexpr double a = 0.75, b = -1.5;
    const Tensors w = point_.random_tangents(random_);
    Tensors mixed;
    for (std::size_t k = 0; k < u.size(); ++k) mixed.push_back(combine(a, u[k], b, w[k]));
    const MaybeTensors jw = point_.jvp(w), jm = point_.jvp(mixed);
    for (std::size_t k = 0; k < ju.size(); ++k) {
      if (!ju[k]) continue;
      const double error = error_of(*jm[k], combine(a, *ju[k], b, *jw[k]), rounding_, [&] {
        return std::abs(a) * terms_of_tangent(k, u) + std::abs(b) * terms_of_tangent(k, w);
      });
      met(CheckKind::linearity, error, rounding_, direction);
    }
  }

  Judged difference_error(const Tensors& u, const MaybeTensors& ju, bool looks_for_kinks) {
    Judged judged = difference_test_.judge(u, ju, looks_for_kinks);
    result_.cancelled = result_.cancelled || judged.cancelled;
    return judged;
  }
  void differences(std::size_t direction, const Tensors& u, const MaybeTensors& ju) {
    const Judged judged = difference_error(u, ju, true);
    for (std::size_t k = 0; k < ju.size(); ++k) {
      compared_[k] += judged.compared[k];
      doubted_[k] += judged.doubted[k];
    }
    met(CheckKind::differences, judged, difference_, direction);
    narrow(CheckKind::differences, direction, u,
           [&](const Tensors& one) { return difference_error(one, point_.jvp(one), false).certain; });
  }

  double transpose_error(const MaybeTensors& ju, const MaybeTensors& v, const Tensors& u,
                         const MaybeTensors& jtv) {
    const InnerProduct left = inner_product(ju, v);
    const InnerProduct right = inner_product(MaybeTensors(u.begin(), u.end()), jtv);
    const double scale = std::max(left.magnitude, right.magnitude);
    const double error = relative_error(left.value, right.value, scale);
    if (error <= rounding_ || std::isinf(error)) return error;
    double terms = 0.0;
    for (std::size_t k = 0; k < ju.size(); ++k) {
      if (!ju[k] || !v[k]) continue;
      double size = 0.0;
      for (std::int64_t i = 0; i < v[k]->size(); ++i) size += std::abs(v[k]->at(i));
      terms += size * terms_of_tangent(k, u);
    }
    return within_terms(relative_error(left.value, right.value, std::max(scale, terms)), rounding_);
  }
  void transpose(std::size_t direction, const Tensors& u, const MaybeTensors& v, const MaybeTensors& ju) {
    const MaybeTensors jtv = point_.vjp(v);
    note_not_finite(jtv);
    const double error = transpose_error(ju, v, u, jtv);
    met(CheckKind::transpose, error, rounding_, direction);
    narrow(CheckKind::transpose, direction, u,
           [&](const Tensors& one) { return transpose_error(point_.jvp(one), v, one, jtv); });
    if (error == 0.0 && !std::isfinite(inner_product(ju, v).value))
      transpose_elsewhere(direction, u, v, ju, jtv);
  }
  // Both products are infinite or NaN, and say nothing: the same without the elements that make them so.
  void transpose_elsewhere(std::size_t direction, Tensors u, MaybeTensors v, const MaybeTensors& ju,
                           const MaybeTensors& jtv) {
    for (std::size_t k = 0; k < u.size(); ++k)
      if (jtv[k]) u[k] = where_finite(u[k], *jtv[k]);
    for (std::size_t k = 0; k < v.size(); ++k)
      if (v[k] && ju[k]) v[k] = where_finite(*v[k], *ju[k]);
    const MaybeTensors cotangents = point_.vjp(v);
    met(CheckKind::transpose, transpose_error(point_.jvp(u), v, u, cotangents), rounding_, direction);
    narrow(CheckKind::transpose, direction, u,
           [&](const Tensors& one) { return transpose_error(point_.jvp(one), v, one, cotangents); });
  }

  void twice_transposed(std::size_t direction, const Tensors& u, const MaybeTensors& ju) {
    const MaybeTensors twice = point_.twice_transposed(u);
    for (std::size_t k = 0; k < ju.size(); ++k) {
      if (!ju[k]) continue;
      const double error = error_of(*ju[k], twice[k] ? *twice[k] : Tensor::zeros(ju[k]->type()), rounding_,
                                    [&] { return terms_of_tangent(k, u); });
      met(CheckKind::twice_transposed, error, rounding_, direction);
    }
  }

  // Example `example` of an input: the first is the input itself; in others, inexact elements are slightly
  // changed, and exact ones permuted, so that they stay in their domain.
  Tensor example_of(std::size_t input, std::size_t example) {
    Numbers numbers = numbers_of(subject_.inputs[input]);
    const Type type = subject_.inputs[input].type();
    if (is_inexact(type.dtype())) {
      for (std::complex<double>& number : numbers)
        number *= 1.0 + (example == 0 ? 0.0 : random_.uniform(-0.01, 0.01));
    } else if (numbers.size() > 1) {
      std::rotate(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(example % numbers.size()),
                  numbers.end());
    } else if (numbers.size() == 1 && example % 2 == 1) {
      numbers[0] = is_bool(type.dtype()) && numbers[0] == 0.0 ? 1.0 : 0.0;
    }
    return tensor_of(type, numbers);
  }

  // Every subset of up to three inputs over a leading axis; for more inputs all, each one alone, and a random
  // half.
  void batch() {
    const std::size_t count = subject_.inputs.size();
    if (count == 0) return;
    std::vector<std::vector<bool>> masks;
    const auto add = [&](const auto& chosen) {
      masks.emplace_back(count, false);
      for (std::size_t i = 0; i < count; ++i) masks.back()[i] = chosen(i);
    };
    if (count <= 3) {
      for (std::size_t bits = (std::size_t{1} << count) - 1; bits > 0; --bits)
        add([bits](std::size_t i) { return (bits >> i & 1U) != 0; });
    } else {
      add([](std::size_t) { return true; });
      for (std::size_t one = 0; one < count; ++one) add([one](std::size_t i) { return i == one; });
      add([this](std::size_t i) { return i == 0 || random_.below(2) == 1; });
    }
    for (std::size_t m = 0; m < masks.size(); ++m) {
      try {
        batch_over(masks[m], m);
      } catch (const Error& error) {  // no rule, or one that needs an operation which the set lacks
        if (error.kind() != ErrorKind::ad_rule && error.kind() != ErrorKind::unknown_primitive) throw;
        result_.notes.push_back(detail::str("batch was not tested: ", error.what()));
        return;
      }
    }
  }
  void batch_over(const std::vector<bool>& mask, std::size_t direction) {
    BatchOptions options;
    options.inputs = mask;
    options.all_outputs = false;
    const Batching batching = tidu::batch(subject_.graph, options_.batch, options);
    std::vector<Tensors> examples(static_cast<std::size_t>(options_.batch));
    Tensors stacked;
    for (std::size_t i = 0; i < mask.size(); ++i) {
      const Type type = subject_.inputs[i].type();
      Numbers all;
      for (std::size_t e = 0; e < examples.size(); ++e) {
        examples[e].push_back(mask[i] ? example_of(i, e) : subject_.inputs[i]);
        const Numbers one = numbers_of(examples[e].back());
        all.insert(all.end(), one.begin(), one.end());
      }
      Shape shape = type.shape();
      shape.insert(shape.begin(), options_.batch);
      stacked.push_back(mask[i] ? tensor_of(type.with_shape(shape), all) : subject_.inputs[i]);
    }
    const Tensors together = executor_.run(batching.graph, stacked);
    for (std::size_t e = 0; e < examples.size(); ++e) {
      const Tensors alone = executor_.run(subject_.graph, examples[e]);
      for (std::size_t k = 0; k < alone.size(); ++k) {
        const Tensor part = batching.batched_outputs[k]
                                ? together[k].view(alone[k].type(), e * alone[k].num_bytes()).clone()
                                : together[k];
        const double error = error_of(part, alone[k], rounding_, [&] {
          return magnitude_of_terms(subject_.graph, examples[e], k, executor_);
        });
        met(CheckKind::batch, error, rounding_, direction);
      }
    }
    if (failed_now(CheckKind::batch, direction) && std::count(mask.begin(), mask.end(), true) == 1) {
      result_.failed[index(CheckKind::batch)]->input =
          static_cast<std::size_t>(std::find(mask.begin(), mask.end(), true) - mask.begin());
    }
  }

  const Subject& subject_;
  const Executor& executor_;
  const CheckOptions& options_;
  double epsilon_, rounding_, difference_;
  Derived derived_;
  Point point_;
  const DifferenceFunction& function_;
  DifferenceTest difference_test_;
  std::unordered_map<std::size_t, Terms> terms_;  // by output of the linear graph, as needed
  Random random_;
  std::vector<std::size_t> compared_, doubted_;  // by output: elements, with differences
  LevelResult result_;
};

}  // namespace

bool LevelResult::ok() const {
  return std::none_of(failed.begin(), failed.end(), [](const auto& one) { return one.has_value(); });
}

double coarsest_epsilon(const Graph& graph) {
  double epsilon = epsilon_of(DType::f64);
  for (const Type& type : graph.data().types) epsilon = std::max(epsilon, epsilon_of(type.dtype()));
  prim::visit_operations(graph, [&](const Operation& operation, const Graph& at) {
    for (const ValueId id : operation.inputs()) epsilon = std::max(epsilon, epsilon_of(at.type(id).dtype()));
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      epsilon = std::max(epsilon, epsilon_of(at.type(operation.output(slot)).dtype()));
  });
  return epsilon;
}

double difference_tolerance(const Graph& graph, const CheckOptions& options, bool iterates) {
  if (options.difference_tolerance > 0.0) return options.difference_tolerance;
  const double epsilon = coarsest_epsilon(graph);
  return std::max(epsilon < 1e-12 ? 1e-7 : epsilon < 1e-5 ? 2e-3 : 0.2, iterates ? tolerance_of_loops : 0.0);
}

double rounding_tolerance(const Graph& graph, const CheckOptions& options, bool iterates) {
  if (options.rounding_tolerance > 0.0) return options.rounding_tolerance;
  const double epsilon = coarsest_epsilon(graph);
  return std::max(epsilon < 1e-12 ? 1e-10 : epsilon < 1e-5 ? 1e-3 : 0.1, iterates ? tolerance_of_loops : 0.0);
}

std::vector<std::size_t> inexact_inputs(const Graph& graph) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (is_inexact(graph.type(graph.inputs()[i]).dtype())) positions.push_back(i);
  }
  return positions;
}

LevelResult check_level(const Subject& subject, const DifferenceFunction& function, const Executor& executor,
                        const CheckOptions& options, const Kinds& kinds) {
  return Tester(subject, function, executor, options).run(kinds);
}

std::vector<Level> next_order(const Level& level, std::uint64_t seed, std::vector<std::string>& notes) {
  const Subject& subject = level.subject;
  std::vector<Level> levels;
  if (subject.wrt.empty()) return levels;
  const Names names = names_at(subject.graph, subject.wrt);
  Random random(seed);
  for (const bool forward : {true, false}) {
    std::optional<Derivative> derivative;
    try {
      derivative = forward ? jvp_parts(subject.graph, names) : vjp_parts(subject.graph, names);
    } catch (const Error& error) {
      if (!forward && is_refused_transpose(error, subject.graph.primitives()))
        continue;  // reported at first order
      if (error.kind() != ErrorKind::unknown_primitive) throw;
      notes.push_back(detail::str("second order was not tested of the ", forward ? "jvp" : "vjp", " of ",
                                  detail::in_quotes(subject.graph.name()), ": ", error.what()));
      continue;
    }
    Subject next{derivative->graph, subject.wrt, subject.inputs};
    for (std::size_t i = subject.inputs.size(); i < derivative->graph.inputs().size(); ++i) {
      next.wrt.push_back(i);
      next.inputs.push_back(random_tensor(random, derivative->graph.type(derivative->graph.inputs()[i])));
    }
    DifferenceFunction function = next_function(level, next, forward);
    levels.push_back({std::move(next), std::move(function)});
  }
  return levels;
}

}  // namespace tidu::check
