// c_counts.cpp - [C1] [C2] [C5] pending counts, the order in which ready nodes run, and nodes that never run.
#include <random>

#include "counted.hpp"
#include "eager/call.hpp"
#include "support/support.hpp"

namespace tidu::test::counted {
namespace {

constexpr eager::Order every_order[] = {eager::Order::latest_first, eager::Order::fifo, eager::Order::lifo,
                                        eager::Order::random};

// The counts of a backward call before it runs any node.
class Counts {
 public:
  Counts(CountedTape& tape, const Var& root)
      : host_(tape.executor),
        root_{root.who.key, root.who.trace.node(), nullptr, nullptr, {}},
        request_{host_, nullptr, std::span(&root_, 1), {}, options_},
        call_(request_) {
    call_.prepare();
  }
  std::uint32_t of(const Var& var) {
    return call_.reached().state(*eager::detail::node_of(var.who.trace.node())).dependencies;
  }
  std::uint32_t of_leaf(const Var& var) { return call_.reached().leaves().find(var.who.key)->dependencies; }
  std::size_t unfinished() { return call_.reached().num_to_run(); }
  // Runs it, and returns the sum of dependences that are still open then.
  std::uint32_t left_after_running() {
    call_.seed_roots();
    call_.run();
    std::uint32_t left = 0;
    call_.reached().states().for_each([&](eager::detail::State& state) { left += state.dependencies; });
    for (const auto& leaf : call_.reached().leaves().list()) left += leaf.dependencies;
    return left;
  }

 private:
  BackwardOptions options_;
  eager::detail::ErasedExecutorOf<Counted> host_;
  eager::detail::UntypedRoot root_;
  eager::detail::BackwardRequest request_;
  eager::detail::BackwardCall call_;
};

TEST_CASE("[C1] a node waits for each edge of its consumers once; x x counts two") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Var a = tape.apply<prim::sin>(x);
  const Var b = tape.apply<prim::mul>(a, a);
  const Var c = tape.apply<prim::mul>(a, b);
  const Var unrelated = tape.apply<prim::exp>(a);  // no root depends on it
  Counts counts(tape, c);
  CHECK(counts.of(c) == 0);
  CHECK(counts.of(b) == 1);
  CHECK(counts.of(a) == 3);
  CHECK(counts.of_leaf(x) == 1);
  CHECK(counts.unfinished() == 3);  // leaves are not run
  CHECK(counts.left_after_running() == 0);
  CHECK(tape.executor.count('t') == 3);
}

TEST_CASE("[C1] every node sees its whole cotangent, once") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Var a = tape.apply<prim::sin>(x);
  const Var b = tape.apply<prim::mul>(a, a);
  const Var c = tape.apply<prim::mul>(a, b);  // a^3
  const Var d = tape.apply<prim::add>(c, a);
  int calls = 0;
  double seen = 0.0;
  auto hook = eager::on_value<Counted>(a.who.trace, a.who.key, [&](eager::HookContext<Counted>& context) {
    ++calls;
    seen = context.incoming()->value;
  });
  BackwardOptions options;
  options.keep_graph = true;
  // The count alone says when a node is ready, also where it would run before its consumers.
  for (const eager::Order order : every_order) {
    options.order = order;
    calls = 0;
    tape.executor.calls.clear();
    CHECK(tape.backward(d, options).size() == 1);
    CHECK(calls == 1);
    CHECK(seen == doctest::Approx(3 * a.what.value * a.what.value + 1));
    CHECK(tape.executor.count('t') == 4);
  }
}

// A program with wide fan-in of numbers of very different size, nodes with several outputs, and values of
// several recorders.
struct Wide {
  CountedTape tapes[3];
  std::vector<Var> leaves;
  std::optional<Var> root;

  Wide() {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> exponent(-9.0, 9.0);
    const auto below = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
    };
    const RecordedGraph pair = graph_of(2, [](std::vector<Value> v) {
      return std::vector{v[0] * v[1], v[0] + v[1]};
    });
    for (int i = 0; i < 3; ++i) leaves.push_back(tapes[below(3)].leaf(0.1 + 0.3 * i));
    const Var hub = tapes[0].apply<prim::sin>(leaves[0]);
    std::vector<Var> ends;
    for (std::size_t i = 0; i < 300; ++i) {
      CountedTape& tape = tapes[below(3)];
      const Var factor = CountedTape::constant((below(2) == 0 ? 1 : -1) * std::pow(10.0, exponent(random)));
      const Var scaled = tape.apply<prim::mul>(below(3) == 0 ? leaves[below(3)] : hub, factor);
      std::vector<Var> both = tapes[below(3)].apply(pair, {&scaled, &leaves[below(3)]});
      ends.push_back(std::move(both[below(2)]));
    }
    Var sum = ends[0];
    for (std::size_t i = 1; i < ends.size(); ++i) sum = tapes[below(3)].apply<prim::add>(sum, ends[i]);
    root = std::move(sum);
  }
  std::vector<double> gradients(const BackwardOptions& options) {
    const auto result = tapes[1].backward(*root, options);
    std::vector<double> numbers;
    for (const Var& leaf : leaves) numbers.push_back(result.at(leaf.who.key).value);
    return numbers;
  }
  std::vector<std::string> order() const {
    std::vector<std::string> names;
    for (const auto& call : tapes[1].executor.calls)
      if (call.hook == 't') names.push_back(call.node);
    return names;
  }
};

TEST_CASE("[C2] the order of ready nodes never changes a bit of the result") {
  Wide program;
  BackwardOptions options;
  options.keep_graph = true;
  const std::vector<double> expected = program.gradients(options);
  const std::vector<std::string> usual = program.order();
  std::size_t other_orders = 0;
  for (const eager::Order order : every_order) {
    options.order = order;
    const std::size_t seeds = order == eager::Order::random ? scaled(40) : 1;
    for (options.order_seed = 1; options.order_seed <= seeds; ++options.order_seed) {
      program.tapes[1].executor.calls.clear();
      CHECK(program.gradients(options) == expected);
      if (program.order() != usual) ++other_orders;
    }
  }
  CHECK(other_orders > 2);  // the orders do differ
  // The same with the backward computation recorded, and accumulated where no slot is.
  options.create_graph = true;
  CHECK(program.gradients(options) == expected);
}

TEST_CASE("[C2] sums depend on the order in which numbers are added: the test above can fail") {
  // 1e16 + 1 - 1e16 in any other order is 1.
  CountedTape tape;
  const Var x = tape.leaf(1.0);
  const auto times = [&](double factor) { return tape.apply<prim::mul>(x, CountedTape::constant(factor)); };
  const Var a = times(1e16), b = times(1.0), c = times(-1e16);
  BackwardOptions options;
  options.keep_graph = true;
  const auto gradient = [&](const Var& p, const Var& q, const Var& r, eager::Order order) {
    options.order = order;
    const Var root = tape.apply<prim::add>(tape.apply<prim::add>(p, q), r);
    return tape.backward(root, options).at(x.who.key).value;
  };
  // Folded from the latest invocation to the first, whatever the root looks like: (-1e16 + 1) + 1e16.
  for (const eager::Order order : every_order) {
    CHECK(gradient(a, b, c, order) == (-1e16 + 1.0) + 1e16);
    CHECK(gradient(c, a, b, order) == (-1e16 + 1.0) + 1e16);
  }
}

TEST_CASE("[C2] invocations of several recorders that nothing orders are folded by recorder") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(-1e6, 1e6);
  for (int round = 0; round < 10; ++round) {
    CountedTape tapes[8];
    const Var x = tapes[0].leaf(1.0);
    std::vector<std::pair<std::uint64_t, double>> terms;
    std::optional<Var> sum;
    for (CountedTape& tape : tapes) {
      const double factor = uniform(random);
      // The first invocation of its recorder, like all the others.
      Var term = tape.apply<prim::mul>(x, CountedTape::constant(factor));
      terms.emplace_back(term.who.key.source, factor);
      sum = sum ? tape.apply<prim::add>(*sum, term) : std::move(term);
    }
    std::sort(terms.rbegin(), terms.rend());
    double expected = 0.0;
    for (const auto& [source, factor] : terms) expected += factor;
    BackwardOptions options;
    options.keep_graph = true;
    for (const eager::Order order : every_order) {
      options.order = order;
      CHECK(tapes[0].backward(*sum, options).at(x.who.key).value == expected);
    }
  }
}

TEST_CASE("[C5] a node never runs without a cotangent for one of its outputs") {
  CountedTape tape;
  const Var x = tape.leaf(0.5), y = tape.leaf(0.7);
  const Var a = tape.apply<prim::exp>(x);
  const Var b = tape.apply<prim::exp>(y);
  // Called when a node has run.
  int ran = 0;
  const auto watch = [&](const Var& var) {
    (void)eager::after_node<Counted>(var.who.trace, [&](eager::HookContext<Counted>&) { ++ran; });
  };
  SUBCASE("a structural zero") {
    const RecordedGraph graph = graph_of(2, [](std::vector<Value> v) {
      return std::vector{v[0] * v[0], v[1] * v[1]};
    });
    const std::vector<Var> both = tape.apply(graph, {&a, &b});
    watch(b);
    const auto gradients = tape.backward(both[0]);
    CHECK(gradients.size() == 1);
    CHECK(ran == 0);
    CHECK(tape.executor.count('t') == 2);  // the layer and a, never b
    CHECK(tape.executor.calls.back().node == "exp");
  }
  SUBCASE("a hook that drops the only one") {
    const Var c = tape.apply<prim::mul>(a, b);
    auto hook = eager::on_value<Counted>(
        b.who.trace, b.who.key, [](eager::HookContext<Counted>& context) { context.incoming().drop(); });
    watch(b);
    CHECK(tape.backward(c).size() == 1);
    CHECK(ran == 0);
    CHECK(tape.executor.count('t') == 2);
  }
  SUBCASE("a hook before the node that drops it") {
    const Var c = tape.apply<prim::mul>(a, b);
    auto hook = eager::before_node<Counted>(
        c.who.trace, [](eager::HookContext<Counted>& context) { context.incoming().drop(); });
    watch(c);
    watch(a);
    CHECK(tape.backward(c).size() == 0);
    CHECK(ran == 0);
    CHECK(tape.executor.calls.empty());
  }
  SUBCASE("nodes after an absent cotangent are settled all the same") {
    const Var c = tape.apply<prim::sin>(b);
    const Var d = tape.apply<prim::add>(tape.apply<prim::mul>(a, c), b);
    auto hook = eager::on_value<Counted>(
        c.who.trace, c.who.key, [](eager::HookContext<Counted>& context) { context.incoming().drop(); });
    watch(c);
    const auto gradients = tape.backward(d);
    CHECK(ran == 0);
    CHECK(gradients.at(y.who.key).value == doctest::Approx(std::exp(0.7)));
  }
}

}  // namespace
}  // namespace tidu::test::counted
