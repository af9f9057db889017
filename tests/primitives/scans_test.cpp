// scans_test.cpp - the rules of cumulative primitives, sort, top_k and dynamic slices for cases that the
// table of tests/check does not have: zeros and ties, third order, long axes, and starts that differ between
// examples.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tidu/graph/builder.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace {

using namespace tidu;
using Numbers = std::vector<double>;
using Body = std::function<Value(Value)>;

Tensor vector_of(const Numbers& x) {
  return Tensor::from<double>({static_cast<std::int64_t>(x.size())}, std::span<const double>(x));
}
Numbers numbers(const Tensor& x) {
  Numbers all;
  for (std::int64_t k = 0; k < x.size(); ++k) all.push_back(x.at(k).real());
  return all;
}
Graph graph_of(std::int64_t n, const Body& body) {
  GraphBuilder builder("f");
  return builder.build({body(builder.input("x", Type(f64, {n})))});
}
std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  verify(graph);
  return reference().run(graph, std::span<const Tensor>(inputs));
}
// The cotangent of x for that of the result.
Numbers pulled(const Body& body, const Numbers& x, const Numbers& ct) {
  const Graph graph = vjp(graph_of(static_cast<std::int64_t>(x.size()), body));
  return numbers(run(graph, {vector_of(x), vector_of(ct)}).back());
}
Numbers pushed(const Body& body, const Numbers& x, const Numbers& t) {
  const Graph graph = jvp(graph_of(static_cast<std::int64_t>(x.size()), body));
  return numbers(run(graph, {vector_of(x), vector_of(t)}).back());
}

void check_close(const Numbers& got, const Numbers& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-11));
}

// Σ over prefixes i of w_i times the derivative of x_0 … x_i by the elements of `by`, which are different.
double product_derivative(const Numbers& x, const Numbers& w, const std::vector<std::size_t>& by) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double product = w[i];
    for (const std::size_t k : by) product = k > i ? 0.0 : product;
    for (std::size_t j = 0; j <= i; ++j) {
      if (std::find(by.begin(), by.end(), j) == by.end()) product *= x[j];
    }
    sum += product;
  }
  return sum;
}

TEST_CASE("cumprod is right to third order with any number of zeros") {
  const Numbers w{0.5, -1.5, 2.0, 0.75, -3.0, 1.25};
  for (const bool reverse : {false, true}) {
    const Graph weighted = graph_of(6, [&](Value x) {
      const Value weights = ops::constant(*x.emitter(), vector_of(w).to_literal());
      const Value turned = reverse ? ops::rev(x, {0}) : x;  // reverse of the reversed: the same prefixes
      const Value y = ops::cumprod(turned, 0, reverse);
      return ops::reduce_sum(ops::mul(reverse ? ops::rev(y, {0}) : y, weights), {0});
    });
    for (const Numbers& x : {Numbers{2, 3, -1, 0.5, 4, 1}, Numbers{2, 0, -1, 0.5, 4, 1},
                             Numbers{0, 3, 0, 0.5, 4, 0}, Numbers{0, 0, 0, 0, 0, 0}}) {
      CAPTURE(x);
      const Graph first = grad(weighted);
      const Numbers gradient = numbers(run(first, {vector_of(x)})[0]);
      for (std::size_t i = 0; i < 6; ++i) {
        CHECK(gradient[i] == doctest::Approx(product_derivative(x, w, {i})));
        Numbers unit(6, 0.0);
        unit[i] = 1.0;
        const Graph second = jvp(first);
        const Numbers row = numbers(run(second, {vector_of(x), vector_of(unit)}).back());
        for (std::size_t j = 0; j < 6; ++j)
          CHECK(row[j] == doctest::Approx(i == j ? 0.0 : product_derivative(x, w, {i, j})));
      }
      // along one direction and against two others
      const Numbers u{1, -2, 0.5, 3, 1, -1};
      const Numbers third =
          numbers(run(jvp(jvp(first)), {vector_of(x), vector_of(u), vector_of(u), vector_of(Numbers(6, 0.0))})
                      .back());
      for (std::size_t k = 0; k < 6; ++k) {
        double want = 0.0;
        for (std::size_t i = 0; i < 6; ++i) {
          for (std::size_t j = 0; j < 6; ++j) {
            if (i != j && i != k && j != k) want += u[i] * u[j] * product_derivative(x, w, {i, j, k});
          }
        }
        CHECK(third[k] == doctest::Approx(want));
      }
    }
  }
}

TEST_CASE("the first of equal values gets the cotangent of cummax and cummin") {
  const Numbers x{1, 1, 3, 0, 3, 3, 1}, ct{1, 10, 100, 1000, 1e4, 1e5, 1e6};
  const auto largest = [](bool reverse) { return [=](Value v) { return ops::cummax(v, 0, reverse); }; };
  const auto least = [](bool reverse) { return [=](Value v) { return ops::cummin(v, 0, reverse); }; };
  CHECK(pulled(largest(false), x, ct) == Numbers{11, 0, 1111100, 0, 0, 0, 0});
  CHECK(pulled(largest(true), x, ct) == Numbers{0, 0, 0, 0, 0, 111111, 1e6});
  CHECK(pulled(least(false), x, ct) == Numbers{111, 0, 0, 1111000, 0, 0, 0});
  CHECK(pulled(least(true), x, ct) == Numbers{0, 0, 0, 1111, 0, 0, 1110000});
  CHECK(pushed(largest(false), x, ct) == Numbers{1, 1, 100, 100, 100, 100, 100});
  CHECK(pushed(largest(false), {-0.0, 0.0}, {1, 2}) == Numbers{1, 1});
  const Numbers nans{2, NAN, 5, NAN};
  CHECK(pushed(largest(false), nans, {1, 2, 3, 4}) == Numbers{1, 2, 2, 2});
  CHECK(pushed(least(true), nans, {1, 2, 3, 4}) == Numbers{4, 4, 4, 4});
}

TEST_CASE("cumlogsumexp has weights where exponentials overflow and underflow") {
  const Body logs = [](Value x) { return ops::cumlogsumexp(x, 0); };
  const Numbers x{-5000, -5000, 0, 1000, 1000, 2000, -3000};
  check_close(pushed(logs, x, {1, 3, 10, 20, 40, 100, 7}), {1, 2, 10, 20, 30, 100, 100});
  check_close(pulled(logs, x, {1, 1, 1, 1, 1, 1, 1}), {1.5, 0.5, 1, 1.5, 0.5, 2, 0});
  const Graph second = hvp(graph_of(7, [&](Value v) { return ops::reduce_sum(logs(v), {0}); }));
  const Numbers row = numbers(run(second, {vector_of(x), vector_of({1, 0, 0, 1, 0, 1, 1})}).back());
  check_close(row, {0.25, -0.25, 0, 0.25, -0.25, 0, 0});
  check_close(pushed(logs, {-INFINITY, 0, -INFINITY, 0}, {1, 2, 3, 4}), {1, 2, 2, 3});
}

TEST_CASE("sort and top_k move cotangents back to where values came from") {
  const Body sorted = [](Value x) { return ops::sort(x); };
  CHECK(pulled(sorted, {2, 1, 2, -0.0, 0.0}, {1, 10, 100, 1000, 1e4}) == Numbers{1000, 100, 1e4, 1, 10});
  const Body top = [](Value x) { return ops::top_k(x, 3)[0]; };
  CHECK(pulled(top, {2, 5, 2, 5, 1}, {1, 10, 100}) == Numbers{100, 1, 0, 10, 0});
  CHECK(pushed(top, {2, NAN, 2, 5, 1}, {1, 2, 3, 4, 5}) == Numbers{2, 4, 1});
}

// The derivative both ways: its operations, and its largest value.
struct Cost {
  std::size_t operations;
  std::int64_t largest;
};
Cost cost_of(std::int64_t n, const Body& body) {
  const Graph graph = vjp(graph_of(n, body));
  Cost cost{graph.num_operations(), 0};
  for (const Type& type : graph.data().types) cost.largest = std::max(cost.largest, type.size());
  return cost;
}

TEST_CASE("derivatives along a long axis take no n x n values, and few operations") {
  const std::vector<Body> bodies{
      [](Value x) { return ops::cumprod(x, 0); }, [](Value x) { return ops::cumlogsumexp(x, 0, true); },
      [](Value x) { return ops::cummax(x, 0); }, [](Value x) { return ops::sort(x); },
      [](Value x) { return ops::top_k(x, 10)[0]; }};
  for (const Body& body : bodies) {
    const Cost at_1000 = cost_of(1000, body);
    const Cost at_million = cost_of(1'000'000, body);
    CHECK(at_1000.largest <= 1001);
    CHECK(at_million.largest <= 1'000'001);
    CHECK(at_million.operations < 700);  // at most some 35 for each doubling of the axis
  }
}

// One run of the batched graph against one run for each example.
void check_batch(const Graph& graph, const std::vector<std::vector<Tensor>>& examples,
                 const std::vector<bool>& batched) {
  const auto size = static_cast<std::int64_t>(examples.size());
  std::vector<Tensor> inputs;
  for (std::size_t k = 0; k < batched.size(); ++k) {
    const Type type = examples[0][k].type();
    if (!batched[k]) {
      inputs.push_back(examples[0][k]);
      continue;
    }
    Shape shape{size};
    shape.insert(shape.end(), type.shape().begin(), type.shape().end());
    Tensor all{type.with_shape(shape)};
    for (std::size_t e = 0; e < examples.size() && type.bytes() != 0; ++e) {
      const auto bytes = static_cast<std::ptrdiff_t>(type.bytes());
      std::copy_n(examples[e][k].bytes(), bytes,
                  all.mutable_bytes() + static_cast<std::ptrdiff_t>(e) * bytes);
    }
    inputs.push_back(all);
  }
  BatchOptions options;
  options.inputs = batched;
  const Tensor got = run(batch(graph, size, options).graph, inputs)[0];
  for (std::size_t e = 0; e < examples.size(); ++e) {
    const Tensor want = run(graph, examples[e])[0];
    for (std::int64_t i = 0; i < want.size(); ++i) {
      const std::complex<double> a = got.at(static_cast<std::int64_t>(e) * want.size() + i), b = want.at(i);
      CHECK(a == b);
      CHECK(std::signbit(a.real()) == std::signbit(b.real()));
    }
  }
}

// Ascending from `first`, every third one negated; zeros are negative.
Tensor some(Type type, double first) {
  Tensor tensor(type);
  for (std::int64_t i = 0; i < type.size(); ++i) {
    const double value = first + static_cast<double>(i);
    const auto at = static_cast<std::size_t>(i);
    if (type.dtype() == bool_) tensor.mutable_elements<bool>()[at] = i % 3 == 0;
    if (type.dtype() == i32) tensor.mutable_elements<std::int32_t>()[at] = static_cast<std::int32_t>(value);
    if (type.dtype() == f64) tensor.mutable_elements<double>()[at] = i % 3 == 0 ? -value : value;
    if (type.dtype() == c128) tensor.mutable_elements<std::complex<double>>()[at] = {value, -value};
  }
  return tensor;
}

TEST_CASE("dynamic slices with starts that differ between examples") {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> start(-3, 8);
  struct Case {
    Shape array, window;
  };
  for (const Case& each :
       {Case{{5, 4}, {2, 3}}, Case{{5, 4}, {5, 3}}, Case{{5, 4}, {1, 1}}, Case{{5, 4}, {0, 2}},
        Case{{3, 2, 4}, {3, 2, 4}}, Case{{2, 3, 4}, {1, 3, 2}}, Case{{0, 3}, {0, 2}}, Case{{}, {}}}) {
    for (const DType dtype : {f64, bool_, i32, c128}) {
      for (const DType index : {i32, i64}) {
        const std::size_t rank = each.array.size();
        GraphBuilder slice("slice"), update("update");
        std::vector<Value> in_slice, in_update;
        const Value x = slice.input("x", Type(dtype, each.array));
        const Value y = update.input("x", Type(dtype, each.array));
        const Value u = update.input("u", Type(dtype, each.window));
        for (std::size_t k = 0; k < rank; ++k) {
          in_slice.push_back(slice.input("i" + std::to_string(k), Type(index)));
          in_update.push_back(update.input("i" + std::to_string(k), Type(index)));
        }
        const Graph sliced = slice.build({ops::dynamic_slice(x, in_slice, each.window)});
        const Graph updated = update.build({ops::dynamic_update_slice(y, u, in_update)});
        for (std::size_t mask = 1; mask < std::size_t{1} << (rank + 2); ++mask) {
          std::vector<bool> batched;
          for (std::size_t k = 0; k < rank + 2; ++k) batched.push_back(((mask >> k) & 1U) != 0);
          std::vector<std::vector<Tensor>> examples(3);
          for (std::size_t e = 0; e < 3; ++e) {
            examples[e] = {some(Type(dtype, each.array), batched[0] ? 100.0 * static_cast<double>(e) : 0.0),
                           some(Type(dtype, each.window), batched[1] ? -9.0 * static_cast<double>(e) : 0.0)};
            for (std::size_t k = 0; k < rank; ++k) {
              const Tensor drawn = Tensor::scalar(index, static_cast<double>(start(random)));
              examples[e].push_back(batched[k + 2] || e == 0 ? drawn : examples[0][k + 2]);
            }
          }
          check_batch(updated, examples, batched);
          if (batched[1]) continue;
          for (auto& example : examples) example.erase(example.begin() + 1);
          batched.erase(batched.begin() + 1);
          check_batch(sliced, examples, batched);
        }
      }
    }
  }
}

}  // namespace
