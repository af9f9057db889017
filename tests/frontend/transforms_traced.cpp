// Transforms under trace and compile: the graph contains the computation of a function and its derivatives
// once.
#include <functional>
#include <string_view>
#include <utility>

#include "support.hpp"

namespace tidu::test {
namespace {

namespace transforms_traced_cases {

std::size_t count(const Graph& graph, std::string_view name) {
  std::size_t found = 0;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i)
    found += graph.operation(i).name() == name ? 1 : 0;
  return found;
}

// A loop whose steps hand out something for the value alone.
Array recurrent(const Array& w, const Array& h, const Array& xs) {
  const auto step = [&w](const Array& carry, const Array& x) {
    const Array next = tanh(matmul(w, carry) + x);
    return std::pair(next, sum(square(next)));
  };
  const auto [last, sums] = scan(step, h, xs);
  return sum(last) + sum(sums);
}

struct Given {
  Array w = random_array({4, 4}, 1), h = random_array({4}, 2), xs = random_array({6, 4}, 3);
};

}  // namespace transforms_traced_cases

using namespace transforms_traced_cases;

TEST_CASE("[traced] value_and_grad has one loop forward and one backward") {
  const Given given;
  const auto both = [](const Array& w, const Array& h, const Array& xs) {
    const auto [value, gradients] = value_and_grad(recurrent, {0, 1})(w, h, xs);
    return std::vector<Array>{value, gradients[0], gradients[1]};
  };
  const Graph graph = trace(both, given.w, given.h, given.xs);
  CHECK(count(graph, "scan") == 2);
  const std::vector<Array> eager = both(given.w, given.h, given.xs),
                           compiled = compile(both)(given.w, given.h, given.xs);
  for (std::size_t i = 0; i < eager.size(); ++i) CHECK(distance(eager[i], compiled[i]) < 1e-13);
}

TEST_CASE("[traced] value_and_grad of a function with more results hands these out as they are") {
  const auto f = [](const Array& x, const Array& n) {
    return std::tuple(sum(square(x) * sin(x)), exp(x), n + 1);
  };
  const auto both = [&](const Array& x, const Array& n) {
    const auto [results, gradient] = value_and_grad(f)(x, n);
    const auto& [value, more, whole] = results;
    return std::vector<Array>{value, more, whole, gradient};
  };
  const Array x = random_array({5}, 4), n = array({1, 2, 3});
  const std::vector<Array> eager = both(x, n), compiled = compile(both)(x, n);
  for (std::size_t i = 0; i < eager.size(); ++i) CHECK(distance(eager[i], compiled[i]) < 1e-14);
  CHECK(distance(eager[3], 2.0 * x * sin(x) + square(x) * cos(x)) < 1e-14);
  CHECK_THROWS_WITH_AS(
      trace(
          [](const Array& v) {
            return value_and_grad([](const Array& u) { return std::pair(u, sum(u)); })(v).second;
          },
          x),
      doctest::Contains("expected a function whose (first) result is a floating scalar"), Error);
}

TEST_CASE("[traced] vjp has one loop forward, and the pullback uses its results") {
  const Given given;
  const auto both = [](const Array& w, const Array& h, const Array& xs) {
    const auto [value, pullback] = vjp(recurrent, w, h, xs);
    std::vector<Array> all{value};
    for (const Array& seed : {ones_like(value), 2.0 * value}) {
      const std::vector<Array> gradients = pullback(seed);
      all.insert(all.end(), gradients.begin(), gradients.end());
    }
    return all;
  };
  const Graph graph = trace(both, given.w, given.h, given.xs);
  CHECK(count(graph, "scan") == 3);  // one forward
  const std::vector<Array> eager = both(given.w, given.h, given.xs),
                           compiled = compile(both)(given.w, given.h, given.xs);
  for (std::size_t i = 0; i < eager.size(); ++i) CHECK(distance(eager[i], compiled[i]) < 1e-12);

  // Without a pullback nothing is handed out for it.
  const auto forward = [](const Array& w, const Array& h, const Array& xs) {
    return vjp(recurrent, w, h, xs).first;
  };
  const Graph alone = Program::make(trace(forward, given.w, given.h, given.xs)).graph();
  REQUIRE(count(alone, "scan") == 1);
  for (std::uint32_t i = 0; i < alone.num_operations(); ++i) {
    if (alone.operation(i).name() == "scan") CHECK(alone.operation(i).num_outputs() == 2);
  }
}

TEST_CASE("[traced] pullbacks inside functions that are differentiated") {
  const Given given;
  const auto squared = [&](const Array& h) {
    const auto [value, pullback] =
        vjp([&](const Array& start) { return recurrent(given.w, start, given.xs); }, h);
    const Array gradient = pullback(value);
    return sum(square(gradient)) + value;
  };
  const Array eager = grad(squared)(given.h), compiled = compile(grad(squared))(given.h);
  CHECK(distance(eager, compiled) < 1e-12);
  constexpr double step = 1e-6;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Array along = one_hot(array({static_cast<int>(i)}), 4)[0];
    const Array difference = (squared(given.h + step * along) - squared(given.h - step * along)) / (2 * step);
    CHECK(difference.item<double>() == doctest::Approx(compiled[i].item<double>()).epsilon(1e-6));
  }
}

TEST_CASE("[traced] arguments that results do not depend on, and whole ones, have zeros") {
  const auto all = [](const Array& x, const Array& unused, const Array& n) {
    const auto [value, pullback] =
        vjp([](const Array& a, const Array& b, const Array& c) { return take(a, c) + stop_gradient(sum(b)); },
            x, unused, n);
    std::vector<Array> results = pullback(ones_like(value));
    results.insert(results.begin(), value);
    return results;
  };
  const Array x = random_array({5}, 5), unused = random_array({2, 2}, 6), n = array({4, 0, 4});
  const std::vector<Array> eager = all(x, unused, n), compiled = compile(all)(x, unused, n);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    CHECK(eager[i].type() == compiled[i].type());
    CHECK(distance(eager[i], compiled[i]) == 0);
  }
  CHECK(distance(compiled[1], array({1.0, 0.0, 0.0, 0.0, 2.0})) == 0);
  CHECK(distance(compiled[2], zeros({2, 2})) == 0);
}

}  // namespace
}  // namespace tidu::test
