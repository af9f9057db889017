// own_primitives.cpp - graphs with primitives of the user, called on Arrays: in every transform, and in
// operations that hold graphs.
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "support.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test {
namespace {

// y = x³:   dy = 3 x² dx
constinit const Primitive own_cube{
    .name = "own.cube",
    .traits = Trait::elementwise | Trait::inexact,
    .infer = [](InferContext& c) { c.result(c.operand(0)); },
    .jvp = [](JvpContext& c) -> Derivatives {
      return ops::full_like(c.primal(0), 3.0) * ops::square(c.primal(0)) * *c.tangent(0);
    },
    .batch = [](BatchContext& c) -> Values { return emit1(c.op(), {c.operand(0)}); }};
constinit const Primitive own_twice{
    .name = "own.twice",
    .traits = Trait::elementwise | Trait::inexact,
    .linearity = linearity::linear,
    .infer = [](InferContext& c) { c.result(c.operand(0)); },
    .transpose = [](TransposeContext& c) -> Derivatives { return emit1(c.op(), {*c.cotangent()}); },
    .batch = [](BatchContext& c) -> Values { return emit1(c.op(), {c.operand(0)}); }};

template <const Primitive& P>
Array own_apply(const PrimitiveSet& set, const Array& x) {
  GraphBuilder g("own", set);
  const Value input = g.input("x", x.type());
  return call_graph(g.build({emit1(plain_op<P>(), {input})}), {x})[0];
}
Array own_cubed(const Array& x) {
  static const PrimitiveSet set = standard_primitives().with({&own_cube});
  return own_apply<own_cube>(set, x);
}
Array own_doubled(const Array& x) {
  static const PrimitiveSet set = standard_primitives().with({&own_twice});
  return own_apply<own_twice>(set, x);
}

const CpuExecutor& own_executor() {
  static const CpuExecutor executor =
      CpuExecutor()
          .with_kernel("own.cube",
                       [](const KernelCall& call) {
                         const auto x = call.input(0).elements<double>();
                         const auto y = call.output().mutable_elements<double>();
                         for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] * x[i];
                       },
                       {f64})
          .with_kernel("own.twice",
                       [](const KernelCall& call) {
                         const auto x = call.input(0).elements<double>();
                         const auto y = call.output().mutable_elements<double>();
                         for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
                       },
                       {f64});
  return executor;
}

}  // namespace

TEST_CASE("functions that call graphs of own primitives go through every transform") {
  const ExecutorGuard guard(own_executor());
  const Array x = array({1.0, -2.0, 0.5}), v = array({0.5, 1.0, -1.0});
  // With own primitives, and the same with standard ones.
  const auto own = [](const Array& a) { return own_doubled(own_cubed(a)) * a; };
  const auto plain = [](const Array& a) { return 2.0 * pow(a, 3) * a; };
  const auto same = [](const Array& got, const Array& expected) {
    REQUIRE(got.type() == expected.type());
    CHECK(distance(got, expected) < 1e-12);
  };
  const auto all = [&](const auto& f, const auto& g) {
    const auto of = [](const auto& h) { return [&h](const Array& a) { return sum(h(a)); }; };
    same(f(x), g(x));
    same(compile(f)(x), g(x));
    same(grad(of(f))(x), grad(of(g))(x));
    same(compile(grad(of(f)))(x), grad(of(g))(x));
    same(grad(compile(of(f)))(x), grad(of(g))(x));
    same(jacfwd(f)(x), jacfwd(g)(x));
    same(jacrev(f)(x), jacfwd(g)(x));
    same(hessian(of(f))(x), hessian(of(g))(x));
    same(hvp(of(f), x, v), hvp(of(g), x, v));
    same(jvp(f, x, v).second, jvp(g, x, v).second);
    same(vmap(f)(stack({x, v})), vmap(g)(stack({x, v})));
    same(vmap(grad(of(f)))(stack({x, v})), vmap(grad(of(g)))(stack({x, v})));
    if (f(x).ndim() == 1) same(vmap(vjp(f, x).second)(eye(3)), jacrev(g)(x));
    for (const bool lazily : {false, true}) {
      std::optional<Lazy> lazy;
      if (lazily) lazy.emplace();
      const Array leaf = test::leaf(x);
      sum(f(leaf)).backward();
      same(*leaf.grad(), grad(of(g))(x));
    }
  };
  all(own, plain);
  const auto in_scan = [](const auto& f) {
    return [&f](const Array& a) {
      const auto step = [&f](const Array& carry, const Array& i) {
        return std::pair(f(carry) * 0.1 + i, f(carry));
      };
      return scan(step, a, arange(2, f64)).second;
    };
  };
  all(in_scan(own), in_scan(plain));
  const auto in_while = [](const auto& f) {
    return [&f](const Array& a) {
      return while_loop([](const Array& c) { return sum(c * c) < 50.0; },
                        [&f](const Array& c) { return f(c) * 0.1 + c * 1.5; }, a, 6);
    };
  };
  all(in_while(own), in_while(plain));
  // One branch alone has own primitives, the other others.
  const auto in_cond = [](const auto& f, const auto& g) {
    return [&f, &g](const Array& a) { return cond(sum(a) > -0.25, f, g, a) + cond(sum(a) > 0.0, f, g, a); };
  };
  const auto pair = [](const Array& a) { return a + a; };
  all(in_cond(own_cubed, own_doubled), in_cond([](const Array& a) { return pow(a, 3); }, pair));
  const auto in_rules = [](const auto& f) {
    return [&f](const Array& a) {
      const auto ruled =
          custom_jvp([&f](const Array& y) { return f(y); },
                     [&f](const Array& y, const Array& t) { return std::pair(f(y), f(y) * t); });
      return ruled(a) + checkpoint([&f](const Array& y) { return f(y) * y; })(a);
    };
  };
  all(in_rules(own), in_rules(plain));
}

TEST_CASE("an own primitive in the place of a standard one does not mix with that") {
  static const Primitive straight_round{.name = "round",
                                        .attributes = prim::round.attributes,
                                        .traits = Trait::elementwise,
                                        .infer = prim::round.infer,
                                        .jvp = [](JvpContext& c) -> Derivatives { return c.tangent(0); },
                                        .batch = prim::round.batch};
  GraphBuilder g("straight", standard_primitives().replacing(&straight_round));
  const Value input = g.input("x", {f64, {2}});
  const Graph straight = g.build({emit1(Op::make(straight_round, {}), {input})});
  const auto rounded = [&](const Array& a) { return sum(call_graph(straight, {a})[0]); };
  const Array x = array({0.25, 1.75});
  CHECK(elements(grad(rounded)(x)) == std::vector<double>{1, 1});
  const std::string error = error_of([&] { (void)compile(grad(rounded))(x); });
  CHECK(contains(error, "[round] expected a primitive with a name of its own"));
  CHECK(contains(error, "own_primitives.cpp"));
}

TEST_CASE("graphs of own primitives that are called again are found again") {
  const ExecutorGuard guard(own_executor());
  const Array xs = ones({2, 3});
  const auto run = [&] { return vmap(jacfwd(own_cubed))(xs); };
  (void)run();
  const CacheStatistics before = compile_cache().statistics();
  for (int i = 0; i < 3; ++i) (void)run();
  CHECK(compile_cache().statistics().misses == before.misses);
}

TEST_CASE("loops alike, of which one has a primitive of its own, are two") {
  const ExecutorGuard guard(own_executor());
  const Array h = array({0.1, 0.2, 0.3}), xs = ones({4, 3});
  for (const bool own_first : {true, false}) {
    const auto f = [own_first](const Array& start, const Array& slices) {
      const auto with = [](bool own) {
        return [own](const Array& c, const Array& x) {
          const Array next = tanh(c + x);
          return std::pair(next, own ? own_cubed(next) : sin(next));
        };
      };
      const auto [last, ys] = scan(with(own_first), start, slices);
      const auto [same, more] = scan(with(!own_first), start, slices);
      return sum(last) + sum(same) + sum(ys) - 2.0 * sum(more);
    };
    CHECK(distance(compile(f)(h, xs), f(h, xs)) < 1e-13);
    CHECK(distance(compile(grad(f))(h, xs), grad(f)(h, xs)) < 1e-13);
  }
}

}  // namespace tidu::test
