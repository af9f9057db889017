// masked.cpp - masked elements: if an operand is out of a function's domain, select before it and after it
// (the "double where"), and gradients are finite and right, of first and of second order. Selecting only
// afterwards is enough where derivatives are infinite, and not where factors of a product are.
#include <cmath>

#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

const Type lanes{f64, {4}};

struct Masked {
  std::string name;
  double safe;  ///< replaces masked elements
  std::function<Value(Value)> f;
  std::function<double(double)> first, second;
};

std::vector<Masked> functions() {
  return {{"log", 1.0, [](Value x) { return ops::log(x); }, [](double x) { return 1.0 / x; },
           [](double x) { return -1.0 / (x * x); }},
          {"sqrt", 1.0, [](Value x) { return ops::sqrt(x); }, [](double x) { return 0.5 / std::sqrt(x); },
           [](double x) { return -0.25 / (x * std::sqrt(x)); }},
          {"reciprocal", 1.0, [](Value x) { return ops::reciprocal(x); },
           [](double x) { return -1.0 / (x * x); }, [](double x) { return 2.0 / (x * x * x); }},
          {"division", 1.0, [](Value x) { return ops::full_like(x, 1.0) / x; },
           [](double x) { return -1.0 / (x * x); }, [](double x) { return 2.0 / (x * x * x); }},
          {"pow", 1.0, [](Value x) { return ops::pow(x, ops::full_like(x, 1.5)); },
           [](double x) { return 1.5 * std::sqrt(x); }, [](double x) { return 0.75 / std::sqrt(x); }}};
}

// The sum over the elements with x > 0 of f(x).
Graph masked_sum(const Masked& m, bool before) {
  return of_x(lanes, [&](Value x) {
    const Value zero = ops::full_like(x, 0.0);
    const Value mask = ops::gt(x, zero);
    const Value inside = before ? ops::select_n(mask, ops::full_like(x, m.safe), x) : x;
    return ops::reduce_sum(ops::select_n(mask, zero, m.f(inside)), {0});
  });
}

}  // namespace

TEST_CASE("masked elements: gradients are finite and right, first and second order") {
  const Tensor x = vector({0.7, 0.0, -1.3, 2.1}), v = vector({0.4, -1.1, 0.9, -0.3});
  for (const Masked& m : functions()) {
    INFO(m.name);
    Numbers gradient(4), curvature(4);
    for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
      const auto at = static_cast<std::int64_t>(i);
      gradient[i] = m.first(x.at(at).real());
      curvature[i] = m.second(x.at(at).real()) * v.at(at).real();
    }
    const Graph f = masked_sum(m, true);
    CHECK(near(run(grad(f), {x}).at(0), check::tensor_of(lanes, gradient)));
    CHECK(near(run(tangents_of(grad(f), {"x"}), {x, v}).at(0), check::tensor_of(lanes, curvature)));
    // Forward over forward, and reverse over reverse.
    double along = 0.0;
    for (const Complex c : curvature) along += c.real();
    const Graph second = tangents_of(tangents_of(f), {"x"});
    CHECK(near(number(second, {x, v, vector({1.0, 1.0, 1.0, 1.0})}), along));
    CHECK(near(run(gradients_of(grad(f), {"x"}), {x, v}).at(0), check::tensor_of(lanes, curvature)));
    const CheckReport report = check_gradients(f, Tensors{x}, reference());
    CHECK_MESSAGE(report.ok, to_text(report));
    CHECK(report.notes.empty());
  }
}

TEST_CASE("masked elements: to select only afterwards is enough") {
  const Tensor x = vector({0.7, 0.0, -1.3, 2.1}), v = vector({1.0, -0.5, 2.0, 0.3});
  for (const Masked& m : functions()) {
    CAPTURE(m.name);
    const Graph f = masked_sum(m, false);
    Numbers slopes, curvature;
    for (std::int64_t i = 0; i < 4; ++i) {
      const double at = x.at(i).real();
      slopes.push_back(at > 0 ? m.first(at) : 0.0);
      curvature.push_back(at > 0 ? m.second(at) * v.at(i).real() : 0.0);
    }
    CHECK(near(run(grad(f), {x}).at(0), check::tensor_of(lanes, slopes)));
    CHECK(near(run(tangents_of(grad(f), {"x"}), {x, v}).at(0), check::tensor_of(lanes, curvature)));
    CHECK(near(run(gradients_of(grad(f), {"x"}), {x, v}).at(0), check::tensor_of(lanes, curvature)));
  }
}

TEST_CASE("masked elements: an infinite factor needs a mask before the product") {
  const Tensor x = vector({0.7, 0.0, -1.3, 2.1});
  const Masked entropy{"x log x", 1.0, [](Value a) { return a * ops::log(a); }, nullptr, nullptr};
  const Tensor gradient = run(grad(masked_sum(entropy, false)), {x}).at(0);
  CHECK(near(gradient.at(0), 1.0 + std::log(0.7)));
  CHECK(std::isnan(gradient.at(1).real()));
}
