// strong_zeros.cpp - gradients through branches that were not taken, where their derivatives are infinite, to
// third order in every mix of modes; and that nothing else changes.
#include "tidu/primitives/strong_zeros.hpp"

#include "check/helpers.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/primitives/custom.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

const Type v4{f64, {4}};
constexpr DerivativeOptions strong{.linear_transform = strong_zeros};

// f of x, 0 where x is 0; then squared, times w, and summed, so that higher orders have something to derive.
Graph masked(const std::function<Value(Value)>& f, bool in_graph) {
  const auto branch = [&](Value x) {
    return ops::select_n(ops::eq(x, ops::full_like(x, 0.0)), f(x), ops::full_like(x, 0.0));
  };
  GraphBuilder g("masked");
  const Value x = g.input("x", v4), w = g.input("w", v4);
  const Value y = in_graph ? ops::checkpoint(of_x(v4, branch), std::vector{x})[0] : branch(x);
  return g.build({ops::reduce_sum(y * y * w, {0})});
}

// The derivative by x along a fixed direction, `order` times, by the given modes; outputs one array or
// number.
Graph derived(Graph f, const std::vector<bool>& forward, const DerivativeOptions& options) {
  for (const bool by_jvp : forward) {
    const Derivative d = by_jvp ? jvp_parts(f, {"x"}, options) : vjp_parts(f, {"x"}, options);
    f = with_outputs(d.graph, std::vector<std::size_t>{d.first});
  }
  return f;
}

TEST_CASE("strong_zeros: log and sqrt after a mask, to third order in every mode") {
  const std::vector<std::pair<std::string, std::function<Value(Value)>>> functions{
      {"log", [](Value x) { return ops::log(x); }},
      {"sqrt", [](Value x) { return ops::sqrt(x); }},
      {"reciprocal", [](Value x) { return ops::full_like(x, 1.0) / x; }},
      {"x^1.5", [](Value x) { return ops::sqrt(x) * x; }},
      {"log of a product", [](Value x) {
         const Value d = ops::broadcast_in_dim(x, {4, 1}, {0});
         return ops::log(ops::squeeze(ops::matmul(d, ops::full(*x.emitter(), Type(f64, {1, 1}), 1.0)), {1}));
       }}};
  for (const auto& function : functions) {
    for (const bool in_graph : {false, true}) {
      for (std::size_t order = 1; order <= 3; ++order) {
        for (std::size_t mask = 0; mask < (std::size_t{1} << order); ++mask) {
          std::vector<bool> modes;
          for (std::size_t i = 0; i < order; ++i) modes.push_back((mask >> i & 1U) != 0);
          CAPTURE(function.first);
          CAPTURE(in_graph);
          CAPTURE(detail::list(modes));
          const Graph safe = derived(masked(function.second, in_graph), modes, strong);
          const Graph plain = derived(masked(function.second, in_graph), modes, {});
          Random random(order);
          Tensors at{vector({0.5, 0.0, 2.0, 0.0}), vector({1.0, 2.0, -1.0, 0.5})};
          Tensors away{vector({0.5, 0.0, 2.0, 0.0}), at[1]};
          for (std::size_t i = 2; i < safe.inputs().size(); ++i) {
            at.push_back(check::random_tensor(random, safe.type(safe.inputs()[i])));
            away.push_back(at.back());
          }
          // Without the masked elements, whatever they contribute is zero: x there is 1, and w is 0 there.
          away[0] = vector({0.5, 1.0, 2.0, 1.0});
          away[1] = vector({1.0, 0.0, -1.0, 0.0});
          const Tensor got = reference().run(safe, at)[0], fast = cpu().run(safe, at)[0],
                       want = reference().run(plain, away)[0];
          REQUIRE(got.type() == want.type());
          for (std::int64_t i = 0; i < got.size(); ++i) {
            CHECK(got.at(i).real() == doctest::Approx(want.at(i).real()).epsilon(1e-10));
            CHECK(fast.at(i).real() == doctest::Approx(want.at(i).real()).epsilon(1e-10));
          }
        }
      }
    }
  }
}

TEST_CASE("strong_zeros: without it the same gradient is NaN") {
  const Graph f = masked([](Value x) { return x * ops::log(x); }, false);
  const Tensors at{vector({0.5, 0.0, 2.0, 0.0}), vector({1.0, 2.0, -1.0, 0.5})};
  CHECK(std::isnan(run(grad(f, {"x"}), at)[0].at(1).real()));
  CHECK(run(grad(f, {"x"}, strong), at)[0].at(1) == 0.0);
  const Pullback pulled = pullback(f, {"x"}, strong);
  Tensors residuals = run(pulled.forward, at);
  residuals.erase(residuals.begin());
  residuals.push_back(scalar(1.0));
  CHECK(run(pulled.backward, residuals)[0].at(1) == 0.0);
  for (const Graph& all : {jacfwd(f, {"x"}, strong), jacrev(f, {"x"}, strong), hessian(f, {"x"}, strong),
                           hvp(f, {"x"}, strong)}) {
    Tensors in = at;
    if (all.inputs().size() > 2) in.push_back(vector({1.0, -1.0, 0.5, 2.0}));
    for (const Tensor& result : run(all, in)) {
      for (std::int64_t i = 0; i < result.size(); ++i) CHECK(std::isfinite(result.at(i).real()));
    }
  }
}

TEST_CASE("strong_zeros: a factor of zero hides a root, a cotangent that is zero keeps its derivative") {
  // y sqrt(x) at x = 0, y = 0.
  const Graph root = of_xy(f64, f64, [](Value x, Value y) { return Values{ops::sqrt(x) * y}; });
  CHECK(run(grad(root, {"x"}, strong), {scalar(0.0), scalar(0.0)})[0].at(0) == 0.0);
  // (x y)^2 at y = 0: the cotangent of x y is zero there, and its derivative is not.
  const Graph square = of_xy(f64, f64, [](Value x, Value y) { return Values{ops::square(x * y)}; });
  const Graph second = hessian(square, {"x", "y"}, strong), usual = hessian(square, {"x", "y"});
  const Tensors got = run(second, {scalar(3.0), scalar(0.0)}), want = run(usual, {scalar(3.0), scalar(0.0)});
  for (std::size_t k = 0; k < want.size(); ++k) CHECK(got[k].at(0) == want[k].at(0));
  CHECK(want[3].at(0) == 18.0);
}

TEST_CASE("strong_zeros: finite derivatives are the same to the last bit, complex ones too") {
  const auto f = [](Value x, Value y) {
    return Values{ops::matmul(ops::sin(x), y) / ops::exp(ops::matmul(x, y)), ops::reduce_prod(x, {0})};
  };
  for (const DType dtype : {f64, c128, f32}) {
    const Graph graph = of_xy(Type(dtype, {2, 3}), Type(dtype, {3, 2}), f);
    for (const bool reverse : {false, true}) {
      const Graph safe = reverse ? vjp(graph, {}, strong) : jvp(graph, {}, strong);
      const Graph plain = reverse ? vjp(graph) : jvp(graph);
      Random random(2);
      Tensors in;
      for (const ValueId id : plain.inputs()) in.push_back(check::random_tensor(random, plain.type(id)));
      const Tensors a = run(safe, in), b = run(plain, in);
      for (std::size_t k = 0; k < a.size(); ++k) {
        for (std::int64_t i = 0; i < a[k].size(); ++i) CHECK(a[k].at(i) == b[k].at(i));
      }
    }
  }
}

TEST_CASE("strong_zeros: a transform that changes the interface is refused") {
  const Graph f = of_x(f64, [](Value x) { return ops::sin(x); });
  DerivativeOptions options;
  options.linear_transform = [](const Graph& linear) { return with_outputs(linear, {}); };
  CHECK_THROWS_AS(jvp(f, {}, options), Error);
  CHECK_THROWS_AS(vjp(f, {}, options), Error);
  CHECK_THROWS_AS(pullback(f, {}, options), Error);
  options.linear_transform = [](const Graph& linear) {
    GraphBuilder none("none", linear.primitives());
    return none.build({ops::full(none, f64, 0.0)});
  };
  CHECK_THROWS_AS(vjp(f, {}, options), Error);
  CHECK_THROWS_AS(pullback(f, {}, options), Error);
  options.linear_transform = [](const Graph& linear) {
    const auto wider = GraphBuilder::extending(linear);
    return wider->build({ops::convert_element_type(wider->value(linear.outputs()[0]), f32)});
  };
  CHECK_THROWS_AS(vjp(f, {}, options), Error);
  CHECK_THROWS_AS(pullback(f, {}, options), Error);
}

}  // namespace
