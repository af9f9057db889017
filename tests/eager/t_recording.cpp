// t_recording.cpp - a frontend's description of an invocation, and the results of recording: inputs with and
// without traces, retained values, keys, outputs.
#include <thread>
#include <unordered_set>

#include "counted.hpp"

namespace tidu::test::counted {
namespace {

RecordedGraph squared_exp() {  // exp(x)^2
  return graph_of(1, [](std::vector<Value> x) {
    const Value e = ops::exp(x[0]);
    return std::vector{e * e};
  });
}

TEST_CASE("[T1] an invocation is described by graph, inputs, outputs and retained values") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  SUBCASE("a leaf is known by its key alone, a constant by neither") {
    CHECK(!x.who.trace);
    const Var c = CountedTape::constant(3.0);
    const Var y = tape.apply<prim::mul>(x, c);
    REQUIRE(y.who.trace);
    const eager::NodeView node(y.who.trace);
    CHECK(node.num_edges() == 1);
    CHECK(node.edge_input(0) == 0);
    CHECK(eager::NodeView(node.edge_node(0)).is_leaf());
    CHECK(eager::NodeView(node.edge_node(0)).output_key(0) == x.who.key);
    CHECK(tape.backward(y).at(x.who.key).value == 3.0);
  }
  SUBCASE("a value that was made comes with the trace that made it") {
    const Var y = tape.apply<prim::sin>(x);
    const Var z = tape.apply<prim::exp>(y);
    CHECK(eager::NodeView(z.who.trace).edge_node(0) == eager::TraceRef(y.who.trace));
    // The key identifies an output of a trace with several outputs.
    const RecordedGraph pair = graph_of(1, [](std::vector<Value> v) {
      return std::vector{v[0] + v[0], ops::sin(v[0]), v[0] * v[0]};
    });
    const std::vector<Var> three = tape.apply(pair, {&x});
    const double expected[] = {2.0, std::cos(0.5), 1.0};
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      const Var read = tape.apply<prim::neg>(three[slot]);
      CHECK(eager::NodeView(read.who.trace).edge_slot(0) == slot);
      BackwardOptions options;
      options.keep_graph = true;
      CHECK(tape.backward(read, options).at(x.who.key).value == doctest::Approx(-expected[slot]));
    }
    // Without it the value is a leaf of its own.
    Var cut = y;
    cut.who.trace = {};
    const auto gradients = tape.backward(tape.apply<prim::exp>(cut));
    CHECK(gradients.find(x.who.key) == nullptr);
    CHECK(gradients.at(y.who.key).value == doctest::Approx(std::exp(y.what.value)));
  }
  SUBCASE("a retained value is used, not computed again") {
    const RecordedGraph graph = squared_exp();
    // Deliberately another number than exp(0.5): the gradient shows which one was read.
    const Counted retained(10.0);
    const ValueId e = graph.graph().operation(0).output();
    const eager::Retained<Counted> kept[] = {{e, &retained}};
    const EagerInput<Counted> inputs[] = {{x.who, x.what}};
    const auto outputs = tape.recorder.record_graph(graph, inputs, {}, kept);
    const auto gradients = tape.backward({outputs[0], Counted(0.0)});
    CHECK(gradients.at(x.who.key).value == 200.0);
    CHECK(tape.executor.count('f') == 0);
  }
  SUBCASE("values that backward does not read need no data") {
    const EagerInput<Counted> inputs[] = {{x.who.key, {}, true, nullptr}, {x.who.key, {}, true, nullptr}};
    const RecordedGraph add = RecordedGraph::of(plain_op<prim::add>(), std::array{Type(f64), Type(f64)});
    const auto outputs = tape.recorder.record_graph(add, inputs);
    CHECK(eager::NodeView(outputs[0].trace).num_saved() == 0);
    CHECK(tape.backward({outputs[0], Counted(0.0)}).at(x.who.key).value == 2.0);
  }
  SUBCASE("misdescribed invocations are refused, and nothing is recorded") {
    const auto refused = [&](const std::vector<EagerInput<Counted>>& inputs,
                             const std::vector<Counted>& outputs, std::string_view says) {
      const RecordedGraph mul = RecordedGraph::of(plain_op<prim::mul>(), std::array{Type(f64), Type(f64)});
      try {
        (void)tape.recorder.record_graph(mul, inputs, outputs);
        FAIL("expected an error that says ", std::string(says));
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::invalid_argument);
        CHECK_MESSAGE(std::string_view(error.what()).find(says) != std::string_view::npos, error.what());
      }
      CHECK(tape.recorder.num_recorded() == 0);
    };
    const EagerInput<Counted> input(x.who, x.what);
    refused({input}, {}, "expected 2 inputs, got 1");
    refused({input, input}, {Counted(1.0), Counted(1.0)}, "expected 1 outputs or none, got 2");
    refused({input, {x.who.key, {}, true, nullptr}}, {}, "expected data for input 1");
    refused({input, {eager::Key{}, {}, true, &x.what}}, {}, "expected a key for input 1");
    const Var other = CountedTape().apply<prim::sin>(x);
    refused({input, {x.who.key, other.who.trace, true, &x.what}}, {}, "to come with the trace that made it");
  }
}

TEST_CASE("[T2] a primitive is a graph of one operation, a whole layer is one node") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Var y = tape.apply<prim::sin>(x);
  const auto graph = eager::NodeView(y.who.trace).graph();
  REQUIRE(graph.has_value());
  CHECK(graph->graph().num_operations() == 1);
  CHECK(eager::NodeView(y.who.trace).name() == "sin");
  CHECK(graph->graph().operation(0).name() == "sin");
  const Var z = std::move(tape.apply(squared_exp(), {&y}).front());
  CHECK(tape.recorder.num_recorded() == 2);
  CHECK(eager::NodeView(z.who.trace).name() == "layer");
  CHECK(eager::NodeView(z.who.trace).num_edges() == 1);
  CHECK(tape.backward(z).at(x.who.key).value ==
        doctest::Approx(2 * std::exp(2 * std::sin(0.5)) * std::cos(0.5)));
  // Each of the two nodes ran once.
  CHECK(tape.executor.count('t') == 2);
}

TEST_CASE("[T2] graphs of equal structure are one, whatever their builder") {
  CHECK(squared_exp() == squared_exp());
  CHECK(!(squared_exp() == graph_of(1, [](std::vector<Value> x) { return std::vector{ops::exp(x[0])}; })));
}

TEST_CASE("[T3] keys never collide, between sources and threads") {
  const std::size_t sources = 16, each = 5000;
  std::vector<std::vector<eager::Key>> made(sources);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < sources; ++t) {
    threads.emplace_back([&made, t] {
      eager::KeySource keys;
      CountedTape tape;
      for (std::size_t i = 0; i < each; ++i) {
        made[t].push_back(keys.fresh());
        made[t].push_back(tape.recorder.keys().fresh());
        if (i % 1000 == 0) keys = eager::KeySource();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::unordered_set<eager::Key> all;
  for (const auto& keys : made) all.insert(keys.begin(), keys.end());
  CHECK(all.size() == sources * 2 * each);
  CHECK(all.count(eager::Key{}) == 0);
}

TEST_CASE("[T3] keys of one source are consecutive, those of leaves and outputs alike") {
  CountedTape tape;
  const Var x = tape.leaf(1.0);
  const Var y = tape.apply<prim::sin>(x);
  const Var c = tape.apply<prim::sin>(CountedTape::constant(1.0));  // not recorded, and named all the same
  const eager::Key first = tape.recorder.keys().fresh(5), next = tape.recorder.keys().fresh();
  CHECK(y.who.key.counter == x.who.key.counter + 1);
  CHECK(c.who.key.counter == y.who.key.counter + 1);
  CHECK(first.counter == c.who.key.counter + 1);
  CHECK(next.counter == first.counter + 5);
  // As many for a node as it has outputs.
  const RecordedGraph twice = graph_of(1, [](std::vector<Value> v) {
    return std::vector{v[0] + v[0], -v[0]};
  });
  const std::vector<Var> pair = tape.apply(twice, {&x});
  CHECK(pair[0].who.key.counter == next.counter + 1);
  CHECK(pair[1].who.key.counter == next.counter + 2);
  CHECK(tape.recorder.keys().fresh().counter == next.counter + 3);
  CHECK(next.source == x.who.key.source);
}

TEST_CASE("[T4] outputs come back with key, trace, requires_grad and slot, and share one node") {
  const RecordedGraph graph = graph_of(2, [](std::vector<Value> v) {
    return std::vector{v[0], v[0] * v[1], ops::sin(v[1])};
  });
  CountedTape tape;
  const Var x = tape.leaf(2.0);
  const Var c = CountedTape::constant(5.0);
  const std::vector<Var> y = tape.apply(graph, {&x, &c});
  REQUIRE(y.size() == 3);
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    CHECK(y[slot].who.output_slot == slot);
    CHECK(y[slot].who.key.counter == y[0].who.key.counter + slot);
    CHECK(y[slot].who.requires_grad == (slot != 2));
    CHECK(static_cast<bool>(y[slot].who.trace) == (slot != 2));  // sin(c) has no derivative
  }
  CHECK(y[0].who.trace == y[1].who.trace);
  CHECK(tape.recorder.num_recorded() == 1);
  BackwardOptions options;
  options.keep_graph = true;
  CHECK(tape.backward(y[0], options).at(x.who.key).value == 1.0);
  CHECK(tape.backward(y[1], options).at(x.who.key).value == 5.0);
}

TEST_CASE("[T4] a value that was not recorded has a key alone") {
  CountedTape tape;
  const Var c = CountedTape::constant(5.0);
  const Var y = tape.apply<prim::mul>(c, c);
  CHECK(y.who.key);
  CHECK(!y.who.trace);
  CHECK(!y.who.requires_grad);
}

TEST_CASE("nothing is recorded and nothing allocated for the tape when no input requires a gradient") {
  CountedTape tape;
  const Var c = CountedTape::constant(5.0);
  const Var warm = tape.apply<prim::mul>(c, c);
  const std::size_t blocks = tidu::detail::pool_statistics().blocks_in_use;
  const long live = Counted::live;
  std::vector<EagerOutput> held;
  held.reserve(1000);
  const RecordedGraph mul = RecordedGraph::of(plain_op<prim::mul>(), std::array{Type(f64), Type(f64)});
  for (int i = 0; i < 1000; ++i) {
    const EagerInput<Counted> inputs[] = {EagerInput<Counted>(c.what), {warm.who, warm.what}};
    held.push_back(std::move(tape.recorder.record_graph(mul, inputs, std::span(&warm.what, 1))[0]));
  }
  CHECK(tape.recorder.num_recorded() == 0);
  CHECK(tidu::detail::pool_statistics().blocks_in_use == blocks);
  CHECK(Counted::live == live);
}

}  // namespace
}  // namespace tidu::test::counted
