// checkpoints.cpp - checkpoint beyond the table of primitives: policies and the values that they save, second
// order, impure operations.
#include <malloc.h>  // mallinfo2

#include <algorithm>
#include <cmath>
#include <optional>

#include "check/custom_support.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/graph/merge.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::test::custom_calls {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (a.at(i) != b.at(i)) return false;
  }
  return true;
}
std::size_t bytes_of(const std::vector<Residual>& manifest) {
  std::size_t bytes = 0;
  for (const Residual& residual : manifest) bytes += residual.bytes;
  return bytes;
}

TEST_CASE("checkpoint: saves bytes of residuals and memory, and changes no bit of a gradient") {
  const Graph kept = layers(12, 16, CheckpointPolicy::everything()), by_call = layers(12, 16, std::nullopt);
  const Graph dropped = layers(12, 16, CheckpointPolicy::nothing());
  const Graph some = layers(12, 16, CheckpointPolicy::save({5}));  // the second tanh
  const std::size_t all = bytes_of(pullback(kept).manifest), none = bytes_of(pullback(dropped).manifest),
                    few = bytes_of(pullback(some).manifest);
  CHECK(all == bytes_of(pullback(by_call).manifest));
  CHECK(none < few);
  CHECK(few < all);
  CHECK(none * 3 < all);

  const auto peak = [](const Graph& f) { return Program::make(value_and_grad(f)).peak_bytes(); };
  CHECK(peak(dropped) * 2 < peak(kept));
  CHECK(peak(some) < peak(kept));
  // Neither is it undone in one graph that was merged, dumped or made again.
  const Graph gradient = value_and_grad(dropped);
  const std::vector<Graph> parts{gradient};
  CHECK(Program::make(materialize_merge(parts)).peak_bytes() == peak(dropped));
  CHECK(Program::make(graph_from_json(to_json(gradient))).peak_bytes() == peak(dropped));
  CHECK(Program::make(prune(Program::make(gradient).graph())).peak_bytes() == peak(dropped));
  const Linearization lin = linearize(dropped);
  const Transposition transposed = linear_transpose(lin.linear);
  const std::vector<Graph> apart{lin.augmented, transposed.graph};
  const Graph merged = materialize_merge(apart);
  const Linearization lin_kept = linearize(kept);
  const std::vector<Graph> apart_kept{lin_kept.augmented, linear_transpose(lin_kept.linear).graph};
  CHECK(Program::make(merged).peak_bytes() * 2 < Program::make(materialize_merge(apart_kept)).peak_bytes());

  const Tensors in = inputs_of(kept, 5);
  const Tensors expected = cpu().run(value_and_grad(by_call), in);
  for (const Graph& f : {kept, dropped, some}) {
    const Tensors got = cpu().run(value_and_grad(f), in);
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(same_bits(got[k], expected[k]));
    const Tensors interpreted = reference().run(value_and_grad(f), in);
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(near(interpreted[k], expected[k]));
  }
}

// Every tanh reads the size of the heap; sanitizers have their own heaps.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TIDU_TEST_HEAP 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef TIDU_TEST_HEAP
#endif
#endif
#ifdef TIDU_TEST_HEAP
TEST_CASE("checkpoint: the memory that an executor is seen to use is less") {
  static std::size_t most = 0;
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const ReferenceExecutor watched = reference().with_kernel("tanh", [in_use](const KernelCall& c) {
    const auto x = c.input(0).elements<double>();
    const auto y = c.output().mutable_elements<double>();
    std::transform(x.begin(), x.end(), y.begin(), [](double v) { return std::tanh(v); });
    most = std::max(most, in_use());
  });
  const auto peak = [&](const CheckpointPolicy& policy) {
    const Graph f = value_and_grad(layers(24, 64, policy));
    const Tensors in = inputs_of(f, 5);
    const std::size_t before = in_use();
    most = before;
    watched.run(f, in);
    return most - before;
  };
  const std::size_t kept = peak(CheckpointPolicy::everything()), dropped = peak(CheckpointPolicy::nothing());
  CHECK(kept > 24 * 4 * 16 * 64 * sizeof(double) / 2);
  CHECK(dropped * 2 < kept);
}
#endif

TEST_CASE("checkpoint: second order recomputes too, and agrees with a call in every mode") {
  const auto net = [](const std::optional<CheckpointPolicy>& policy) { return layers(3, 4, policy); };
  const Graph by_call = net(std::nullopt);
  const auto peak = [](const Graph& f) { return Program::make(hvp(f)).peak_bytes(); };
  CHECK(peak(layers(12, 16, CheckpointPolicy::nothing())) * 2 <
        peak(layers(12, 16, CheckpointPolicy::everything())));
  for (const CheckpointPolicy& policy :
       {CheckpointPolicy::nothing(), CheckpointPolicy::everything(), CheckpointPolicy::save({3, 5})}) {
    const Graph f = net(policy);
    check_same(hvp(f), hvp(by_call), 21);
    check_same(jvp(f), jvp(by_call), 22);
    check_same(vjp(vjp(f)), vjp(vjp(by_call)), 23);
    check_same(vjp(jvp(f)), vjp(jvp(by_call)), 24);
    check_same(jvp(vjp(vjp(f))), jvp(vjp(vjp(by_call))), 25, 1e-9);
    check_same(vjp(f, {"w"}), vjp(by_call, {"w"}), 26);
    for (const Names& batched : {Names{"x"}, Names{"w"}, Names{}}) {
      check_same(vmap(f, 3, batched), vmap(by_call, 3, batched), 27);
      check_same(vjp(vmap(f, 3, batched)), vjp(vmap(by_call, 3, batched)), 28);
      check_same(vmap(vjp(f), 3, batched), vmap(vjp(by_call), 3, batched), 29);
    }
  }
}

TEST_CASE("checkpoint: the result of an impure operation is kept, and does not run twice") {
  static const Primitive draw{.name = "test.draw",
                              .traits = Trait::impure | Trait::no_tangent,
                              .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&draw});
  GraphBuilder inner("noisy", set);
  const Value a = inner.input("a", v3);
  const Graph noisy = inner.build({ops::sin(a * emit1(Op::make(draw), {a}))});
  GraphBuilder g("f", set);
  const Graph f = g.build({ops::checkpoint(noisy, std::vector{g.input("x", v3)})[0]});
  const auto executor =
      reference().with_kernel("test.draw", [](const KernelCall& c) { c.outputs()[0] = c.input(0); });
  std::size_t draws = 0;
  const Graph written = Program::make(vjp(f)).graph();
  for (std::size_t i = 0; i < written.num_operations(); ++i)
    draws += written.operation(i).name() == "test.draw" ? 1U : 0U;
  CHECK(draws == 1);
  CHECK(executor.run(vjp(f), {vector({1.0, 2.0, 3.0}), vector({1.0, 1.0, 1.0})}).size() == 2);
}

TEST_CASE("checkpoint: an impure operation in a call does not run twice either") {
  // Gives another number in each run.
  static std::size_t runs = 0;
  static const Primitive draw{.name = "test.draw",
                              .traits = Trait::impure | Trait::no_tangent,
                              .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&draw});
  const auto executor = reference().with_kernel("test.draw", [](const KernelCall& c) {
    c.outputs()[0] = scalar(1.0 + 0.25 * static_cast<double>(++runs));
  });
  // sin(a n), and n, after `level` calls; then the exponential of it.
  const auto noisy = [](int level) {
    GraphBuilder inner("noisy", set), outer("outer", set);
    const Value a = inner.input("a", f64), n = emit1(Op::make(draw), {a});
    Graph graph = inner.build({ops::sin(ops::exp(a) * n), n});
    for (int i = 0; i < level; ++i) {
      GraphBuilder g("calls", set);
      const Values results = ops::call(graph, std::vector{g.input("a", f64)});
      graph = g.build({results[0], results[1]});
    }
    const Value x = outer.input("x", f64);
    const Values results = ops::call(graph, std::vector{ops::sin(x)});
    return outer.build({ops::exp(results[0]) * x, results[1]});
  };
  for (const int level : {0, 2}) {
    const Graph graph = noisy(level);
    const ValueId first = graph.operation(1).output();
    for (const CheckpointPolicy& policy :
         {CheckpointPolicy::nothing(), CheckpointPolicy::everything(), CheckpointPolicy::save({first}),
          CheckpointPolicy::save({first + 2})}) {
      CAPTURE(level);
      GraphBuilder g("f", set);
      const Values results = ops::checkpoint(graph, std::vector{g.input("x", f64)}, policy);
      const Graph f = g.build({results[0], results[1]});
      const double x = 0.4, s = std::sin(x), e = std::exp(s);
      const auto value = [&](double n) { return std::exp(std::sin(e * n)) * x; };
      const auto slope = [&](double n) {
        return std::exp(std::sin(e * n)) * (1.0 + x * std::cos(e * n) * n * e * std::cos(x));
      };
      const auto once = [&](const Graph& derived, const Tensors& more) {
        runs = 0;
        Tensors inputs{scalar(x)};
        inputs.insert(inputs.end(), more.begin(), more.end());
        const Tensors got = executor.run(derived, inputs);
        CHECK(runs == 1);
        const double n = got.at(1).at(0).real();
        CHECK(n == 1.25);
        CHECK(near(got.at(0).at(0), value(n)));
        return got;
      };
      const double n = 1.25;
      const Graph pulled = vjp(with_outputs(f, std::vector<std::size_t>{0, 1}));
      CHECK(near(once(pulled, {scalar(1.0), scalar(0.0)}).at(2).at(0), slope(n)));
      CHECK(near(once(jvp(f), {scalar(1.0)}).at(2).at(0), slope(n)));
      // Second order, against differences of the first.
      const double h = 1e-5, wanted = [&] {
        const auto at = [&](double y) {
          const double inner = std::exp(std::sin(y)) * n;
          return std::exp(std::sin(inner)) * (1.0 + y * std::cos(inner) * inner * std::cos(y));
        };
        return (at(x + h) - at(x - h)) / (2 * h);
      }();
      const Graph forward = jvp(pulled, {"x"}), twice = vjp(pulled, {"x"});
      CHECK(near(once(forward, {scalar(1.0), scalar(0.0), scalar(1.0)}).at(5).at(0), wanted, 1e-8));
      CHECK(near(once(twice, {scalar(1.0), scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0)}).at(3).at(0),
                 wanted, 1e-8));
    }
  }
}

}  // namespace
}  // namespace tidu::test::custom_calls
