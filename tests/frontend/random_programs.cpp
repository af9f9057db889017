// random_programs.cpp - programs drawn at random: gradients and Hessian products on the tape against those of
// the traced graph, run by the reference executor.
#include <functional>

#include "support.hpp"

namespace tidu::test {
namespace {

// A program of `length` steps over a growing list of Arrays of shapes that broadcast together.
Array program(unsigned seed, std::size_t length, const std::vector<Array>& inputs) {
  std::mt19937 engine(seed);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
  std::vector<Array> values = inputs;
  for (std::size_t i = 0; i < length; ++i) {
    const Array a = values[pick(values.size())], b = values[pick(values.size())];
    switch (pick(14)) {
      case 0: values.push_back(a + b); break;
      case 1: values.push_back(a - b); break;
      case 2: values.push_back(tanh(a) * b); break;
      case 3: values.push_back(a / (2.0 + square(b))); break;
      case 4: values.push_back(sin(a)); break;
      case 5: values.push_back(exp(-square(a))); break;
      case 6: values.push_back(logistic(a)); break;
      case 7: values.push_back(where(a > 0.1, a, 0.5 * b)); break;
      case 8: values.push_back(mean(a, {}, true) * b); break;
      case 9: values.push_back(a.ndim() > 0 ? softmax(a) : a * a); break;
      case 10: values.push_back(a.ndim() > 0 ? cumsum(a, -1) : cos(a)); break;
      case 11: values.push_back(a.ndim() > 0 ? sum(a, -1, true) + b : a); break;
      case 12: values.push_back(log(1.5 + tanh(a))); break;
      default: values.push_back(a.ndim() == 2 ? matmul(a, a.T()) * 0.1 : maximum(a, b)); break;
    }
    // Square products would not broadcast with the rest.
    if (values.back().ndim() == 2 && values.back().shape() == Shape{3, 3})
      values.back() = mean(values.back());
  }
  Array total(0.0);
  for (const Array& value : values) total += sum(tanh(value));
  return total;
}

TEST_CASE("random programs: the tape agrees with the graph") {
  const unsigned count = static_cast<unsigned>(scaled(40));
  for (unsigned seed = 1; seed <= count; ++seed) {
    CAPTURE(seed);
    const std::vector<Array> x{random_array({3, 4}, 3 * seed, 0.7), random_array({4}, 3 * seed + 1, 0.7),
                               random_array({3, 1}, 3 * seed + 2, 0.7)};
    const auto f = [&](const std::vector<Array>& v) { return program(seed, 12, v); };
    const Graph graph = trace(f, x);
    std::vector<Tensor> tensors;
    for (const Array& array : x) tensors.push_back(array.tensor());
    const std::vector<Tensor> wanted = reference().run(grad(graph), tensors);
    const std::vector<Array> got = grad(f)(x);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(distance(got[i], Array(wanted[i])) < 1e-11);

    if (seed % 4 != 0) continue;
    std::vector<Array> v;
    for (std::size_t i = 0; i < x.size(); ++i) {
      v.push_back(random_array(x[i].shape(), 7 * seed + static_cast<unsigned>(i)));
      tensors.push_back(v.back().tensor());
    }
    const std::vector<Tensor> second = reference().run(hvp(graph), tensors);
    const std::vector<Array> products = hvp(f, x, v);
    for (std::size_t i = 0; i < x.size(); ++i)
      CHECK(distance(products[i], Array(second[second.size() - x.size() + i])) < 1e-9);
  }
}

TEST_CASE("explain says why a gradient is absent") {
  Array w = array({1.0, 3.0, 2.0}), x(2.0);
  w.set_requires_grad(true, "w");
  x.set_requires_grad(true, "x");
  const ExplainGuard guard;
  const Array y = argmax(w).to(f64) * x;
  const eager::Explanation absent = explain(w, y);
  CHECK(absent.status == eager::Explanation::Status::absent);
  CHECK(contains(absent.text, "argmax"));
  CHECK(explain(x, y).status == eager::Explanation::Status::present);
  CHECK(explain(x, y * 0.0).status == eager::Explanation::Status::zero);
}

}  // namespace
}  // namespace tidu::test
