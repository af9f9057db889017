// p_order.cpp - P1, P2: dependency counts, and the order in which nodes and leaves are worked off.
#include <algorithm>

#include "p_support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("[P1] a node with many consumers runs once, with the sum of their cotangents") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x});
  Var total = tape.apply<prim::mul>({y, tape.constant(2.0)});
  for (const double factor : {3.0, 5.0, 7.0, 11.0})
    total = tape.apply<prim::add>({total, tape.apply<prim::mul>({y, tape.constant(factor)})});
  Spy spy;
  spy.keep_inputs = true;
  BackwardOptions options;
  options.order = eager::Order::fifo;  // in which a node that is ready too early would run too early
  const auto gradients = run(spy, {root_of(total, scalar(0.5))}, options);
  std::map<std::uint64_t, int> times;
  for (const std::uint64_t node : spy.sequences()) ++times[node];
  CHECK(times.size() == 10);
  for (const auto& [node, count] : times) CHECK(count == 1);
  const Spy::Call last = spy.calls("transposed").back();
  CHECK(last.name == "sin");
  CHECK(last.inputs.back().item<double>() == 14.0);
  CHECK(item(gradients, x) == doctest::Approx(14 * std::cos(0.3)));
}

TEST_CASE("[P1] consumers that the roots do not reach are not waited for, and do not run") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x});
  const Var z = tape.apply<prim::exp>({y});
  const Var other = tape.apply<prim::cos>({y});
  Spy spy;
  CHECK(item(run(spy, {root_of(z)}, keep()), x) == doctest::Approx(std::exp(std::sin(0.3)) * std::cos(0.3)));
  CHECK(spy.names() == std::vector<std::string>{"exp", "sin"});
  spy.clear();
  CHECK(item(run(spy, {root_of(other)}), x) == doctest::Approx(-std::sin(std::sin(0.3)) * std::cos(0.3)));
  CHECK(spy.names() == std::vector<std::string>{"cos", "sin"});
}

TEST_CASE("[P1] a root inside the graph waits for the roots after it") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x});
  const Var z = tape.apply<prim::exp>({y});
  for (const bool inner_first : {true, false}) {
    Spy spy;
    std::vector<Root> roots{root_of(y, scalar(10.0)), root_of(z, scalar(2.0))};
    if (!inner_first) std::swap(roots[0], roots[1]);
    BackwardOptions options = keep();
    options.order = eager::Order::fifo;
    const double got = item(run(spy, roots, options), x);
    CHECK(spy.names() == std::vector<std::string>{"exp", "sin"});
    CHECK(got == doctest::Approx((10 + 2 * std::exp(std::sin(0.3))) * std::cos(0.3)));
  }
}

TEST_CASE("[P1] both operands of one node count, and several outputs of one node are one node") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::exp>({x});
  const Var square = tape.apply<prim::mul>({y, y});
  const RecordedGraph both = graph_of("both", {f64}, [](const auto& in) {
    return std::vector<Value>{ops::sin(in[0]), ops::cos(in[0])};
  });
  const std::vector<Var> pair = tape.apply(both, {square});
  const Var out = tape.apply<prim::mul>({pair[0], pair[1]});
  Spy spy;
  const double e = std::exp(0.3);
  CHECK(item(run(spy, {root_of(out)}), x) == doctest::Approx(std::cos(2 * e * e) * 2 * e * e));
  CHECK(spy.names() == std::vector<std::string>{"mul", "both", "mul", "exp"});
}

// Two chains that are recorded alternately and meet in the end.
struct Braid {
  Tape tape;
  Var x, y, out;
  explicit Braid(int length) : x(tape.leaf(0.3)), y(tape.leaf(0.7)) {
    Var a = x;
    Var b = y;
    for (int i = 0; i < length; ++i) {
      a = tape.apply<prim::sin>({a});
      b = tape.apply<prim::cos>({b});
    }
    out = tape.apply<prim::mul>({a, b});
  }
};

TEST_CASE("[P2] among ready nodes the latest runs first") {
  Braid braid(20);
  Spy spy;
  run(spy, {root_of(braid.out)}, keep());
  std::vector<std::uint64_t> order = spy.sequences();
  CHECK(order.size() == 41);
  CHECK(std::is_sorted(order.rbegin(), order.rend()));
  // Not so in the other orders, which the caller may choose: the last ready node is run first, …
  BackwardOptions options = keep();
  options.order = eager::Order::lifo;
  spy.clear();
  run(spy, {root_of(braid.out)}, options);
  order = spy.sequences();
  CHECK_FALSE(std::is_sorted(order.rbegin(), order.rend()));
}

TEST_CASE("[P2] in the latest-first order also nodes of several recorders and late roots fall into place") {
  Tape tape;
  Tape other;
  const Var x = tape.leaf(0.3);
  Var a = tape.apply<prim::sin>({x});
  Var b = other.apply<prim::cos>({a});
  const Var early = tape.apply<prim::exp>({x});
  a = tape.apply<prim::sin>({b});
  b = other.apply<prim::cos>({b});
  const Var late = other.apply<prim::mul>({a, b});
  Spy spy;
  const auto gradients = run(spy, {root_of(early), root_of(late)});
  const std::vector<std::uint64_t> order = spy.sequences();
  CHECK(order.size() == 6);
  CHECK(std::is_sorted(order.rbegin(), order.rend()));
  const double s = std::sin(0.3);
  const double c = std::cos(s);
  const double dc = -std::sin(s) * std::cos(0.3);
  CHECK(item(gradients, x) ==
        doctest::Approx(std::exp(0.3) + (std::cos(c) * std::cos(c) - std::sin(c) * std::sin(c)) * dc));
}

TEST_CASE("[P2] a leaf is accumulated as soon as its last cotangent is there") {
  Tape tape;
  Leaf<Tensor> early(tape.recorder.keys(), "early");
  Leaf<Tensor> late(tape.recorder.keys(), "late");
  Var v = var(early, scalar(0.3));
  for (int i = 0; i < 3; ++i) v = tape.apply<prim::sin>({v});
  v = tape.apply<prim::mul>({v, var(late, scalar(2.0))});
  v = tape.apply<prim::exp>({v});
  Spy spy;
  std::vector<std::string> log;
  spy.before = [&](const Spy::Call& call) {
    if (call.hook == "transposed") log.push_back(call.name);
  };
  late.on_accumulate([&](HookContext<Tensor>&) { log.push_back("late"); });
  early.on_accumulate([&](HookContext<Tensor>&) { log.push_back("early"); });
  run(spy, {root_of(v)});
  CHECK(log == std::vector<std::string>{"exp", "mul", "late", "sin", "sin", "sin", "early"});
}

TEST_CASE("[P2] a backward call inside another one ends before the outer one goes on") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var a = tape.apply<prim::sin>({x});
  const Var b = tape.apply<prim::exp>({x});
  const Var out = tape.apply<prim::mul>({a, b});
  const Var inner = tape.apply<prim::cos>({tape.apply<prim::tanh>({tape.leaf(1.0)})});
  Spy spy;
  eager::before_node<Tensor>(b.first.trace,
                             [&](HookContext<Tensor>&) { run(spy, {root_of(inner)}, keep()); });
  run(spy, {root_of(out)});
  CHECK(spy.names() == std::vector<std::string>{"mul", "cos", "tanh", "exp", "sin"});
}

}  // namespace
}  // namespace tidu::test
