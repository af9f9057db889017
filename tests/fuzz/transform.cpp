// transform.cpp - see transform.hpp.
#include "fuzz/transform.hpp"

#include <algorithm>
#include <cmath>

#include "check/derived.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {
namespace {

using check::MaybeTensors;
using check::Tensors;

Tensors run(const Graph& graph, const Tensors& inputs) { return reference().run(graph, inputs); }

// The derivatives alone, of the graphs that jvp and vjp make.
Graph derivatives_of(const Derivative& derivative) {
  std::vector<std::size_t> positions;
  for (std::size_t k = derivative.first; k < derivative.graph.outputs().size(); ++k) positions.push_back(k);
  return with_outputs(derivative.graph, positions);
}
Graph tangents_of(const Graph& f, const Names& wrt) { return derivatives_of(jvp_parts(f, wrt)); }
Graph gradients_of(const Graph& f, const Names& wrt) { return derivatives_of(vjp_parts(f, wrt)); }

Tensors operator+(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

check::InnerProduct product_of(const Tensors& a, const Tensors& b) {
  return check::inner_product(MaybeTensors(a.begin(), a.end()), MaybeTensors(b.begin(), b.end()));
}

// A number that several ways must agree on.
class Agreement {
 public:
  Agreement(bool exact, std::string what) : exact_(exact), what_(std::move(what)) {}
  void add(const Tensors& a, const Tensors& b) {
    const check::InnerProduct product = product_of(a, b);
    values_.push_back(product.value);
    magnitude_ = std::max(magnitude_, product.magnitude);
    finite_ = finite_ && std::isfinite(product.magnitude);
  }
  double value() const { return values_[0]; }
  double magnitude() const { return magnitude_; }
  /// Integers beyond 2^53 are no integers any more; sums of terms far larger than the result lose digits.
  bool judged() const { return finite_ && magnitude_ <= 0x1p45; }
  std::string complaint() const {
    if (!judged()) return {};
    for (const double value : values_) {
      if (exact_ ? value == values_[0] : std::abs(value - values_[0]) <= 1e-8 * std::max(1.0, magnitude_))
        continue;
      return detail::str(what_, ": the ways give ", detail::list(values_), "; ");
    }
    return {};
  }

 private:
  bool exact_;
  std::string what_;
  std::vector<double> values_;
  double magnitude_ = 0.0;
  bool finite_ = true;
};

// The central difference along `direction` of the result of `value` at inputs; checked against the agreement.
template <class F>
std::string against_differences(const RandomCase& c, const Tensors& direction, const F& value,
                                const Agreement& agreement, std::string_view what) {
  if (!agreement.judged()) return {};
  const auto f = [&](double s) {
    Tensors inputs = c.inputs;
    for (std::size_t k = 0; k < direction.size(); ++k)
      inputs[c.positions[k]] = check::combine(1.0, inputs[c.positions[k]], s, direction[k]);
    return value(inputs);
  };
  const double scale = std::max(1.0, agreement.magnitude());
  double best = 0.0;
  // Functions that vary fast need the shorter steps.
  for (const double h : {2e-3, 2e-4, 2e-5, 2e-6, 2e-7}) {
    const double far = f(h), near = f(h / 2), coarse = (far - f(-h)) / (2.0 * h),
                 fine = (near - f(-h / 2)) / h;
    best = (4.0 * fine - coarse) / 3.0;
    const double noise = 1e-14 * (std::abs(far) + std::abs(near)) / h;
    const double doubt = std::abs(best - fine) + 1e-9 * scale + noise;
    if (std::abs(best - agreement.value()) <= 1e-6 * scale + doubt) return {};
  }
  return detail::str(what, ": differences give ", best, ", got ", agreement.value(), "; ");
}

// Does the transpose of the transpose give the tangents of the linear graph, up to `tolerance`?
std::string transposed_twice(const RandomCase& c, const Tensors& u, double tolerance) {
  const check::Derived derived(c.graph, c.positions);
  const check::Point point(derived, c.inputs, reference());
  const MaybeTensors once = point.jvp(u), twice = point.twice_transposed(u);
  for (std::size_t k = 0; k < once.size(); ++k) {
    if (!once[k]) continue;
    const Tensor other = twice[k] ? *twice[k] : Tensor::zeros(once[k]->type());
    for (const std::complex<double> z : check::numbers_of(check::combine(1.0, *once[k], -1.0, other))) {
      if (!(std::abs(z) <= tolerance)) return detail::str("transposed twice: output ", k, " differs; ");
    }
  }
  return {};
}

}  // namespace

TransformReport judge(const RandomCase& c, check::Random& random, const TransformOptions& options) {
  std::vector<Type> input_types, output_types;
  for (const std::size_t i : c.positions) input_types.push_back(c.graph.type(c.graph.inputs()[i]));
  for (const ValueId id : c.graph.outputs()) output_types.push_back(c.graph.type(id));
  const Tensors u = random_numbers(random, input_types, c.exact);
  const Tensors w = random_numbers(random, input_types, c.exact);
  const Tensors z = random_numbers(random, input_types, c.exact);
  const Tensors v = random_numbers(random, output_types, c.exact);
  const Tensors& x = c.inputs;
  const bool differences = options.differences && !c.exact;
  TransformReport report;
  const auto settle = [&](const Agreement& agreement) {
    report.complaints += agreement.complaint();
    report.judged += agreement.judged() ? 1 : 0;
  };

  const Graph forward = tangents_of(c.graph, c.wrt);   // inputs x, u
  const Graph reverse = gradients_of(c.graph, c.wrt);  // inputs x, v
  Agreement first(c.exact, "order 1");
  first.add(run(forward, x + u), v);
  first.add(run(reverse, x + v), u);
  settle(first);
  if (first.judged())
    report.complaints += transposed_twice(c, u, c.exact ? 0.0 : 1e-9 * std::max(1.0, first.magnitude()));
  if (differences) {
    report.complaints += against_differences(
        c, u, [&](const Tensors& at) { return product_of(run(c.graph, at), v).value; }, first, "order 1");
  }
  if (options.order < 2) return report;

  const Graph fof = tangents_of(forward, c.wrt);           // x, u, w
  const Graph over_reverse = tangents_of(reverse, c.wrt);  // x, v, w
  const Graph rof = gradients_of(forward, c.wrt);          // x, u, v
  const Graph ror = gradients_of(reverse, c.wrt);          // x, v, u
  Agreement second(c.exact, "order 2");
  second.add(run(fof, x + u + w), v);
  second.add(run(over_reverse, x + v + w), u);
  second.add(run(rof, x + u + v), w);
  second.add(run(ror, x + v + u), w);
  settle(second);
  if (differences) {
    report.complaints += against_differences(
        c, w, [&](const Tensors& at) { return product_of(run(forward, at + u), v).value; }, second,
        "order 2");
  }
  if (options.order < 3) return report;

  Agreement third(c.exact, "order 3");
  third.add(run(tangents_of(fof, c.wrt), x + u + w + z), v);
  third.add(run(gradients_of(fof, c.wrt), x + u + w + v), z);
  third.add(run(tangents_of(ror, c.wrt), x + v + u + z), w);
  third.add(run(gradients_of(ror, c.wrt), x + v + u + w), z);
  third.add(run(gradients_of(over_reverse, c.wrt), x + v + w + u), z);
  settle(third);
  if (differences) {
    report.complaints += against_differences(
        c, z, [&](const Tensors& at) { return product_of(run(rof, at + u + v), w).value; }, third, "order 3");
  }
  return report;
}

std::string complaint_of_bytes(std::string_view bytes) {
  try {
    ByteChoices choices({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    const RandomCase c = random_case(choices);
    check::Random random(bytes.size());
    std::string complaints = judge(c, random, {.order = 2, .differences = false}).complaints;
    if (!complaints.empty()) complaints += '\n' + to_text(c.graph);
    return complaints;
  } catch (const std::exception& error) {
    return detail::str("thrown: ", error.what());
  }
}

}  // namespace tidu::test
