// p_keep.cpp - P2 (memory), P5: the values that a backward call frees during the call, and those that it
// keeps.
#include <algorithm>

#include "p_counted.hpp"

namespace tidu::test {
namespace {

TEST_CASE("[P2] memory falls during backward: saved values go in the reverse of the order they came in") {
  const int before = Counted::live;
  {
    CountedTape tape;
    CountedVar y = tape.leaf(0.3);
    const int length = 50;
    for (int i = 0; i < length; ++i) y = tape.apply<prim::sin>({y});
    const int saved = Counted::live - before;
    CHECK(saved == length + 1);
    std::vector<int> live;
    tape.executor.at_node = [&] { live.push_back(Counted::live - before); };
    y.second = Counted();
    const auto gradients = tape.backward(y);
    REQUIRE(live.size() == static_cast<std::size_t>(length));
    // A constant number of cotangents, and one saved value less after each node.
    for (int i = 0; i < length; ++i) {
      CAPTURE(i);
      CHECK(live[static_cast<std::size_t>(i)] <= length - i + 4);
    }
  }
  CHECK(Counted::live == before);
}

TEST_CASE("[P5] without keep_graph every node's saved values go right after it ran") {
  const int before = Counted::live;
  CountedTape tape;
  CountedVar x = tape.leaf(0.3);
  CountedVar a = tape.apply<prim::exp>({x});  // keeps its output
  CountedVar b = tape.apply<prim::exp>({a});
  CountedVar c = tape.apply<prim::exp>({b});
  a.second = b.second = c.second = Counted();
  CHECK(Counted::live - before == 4);
  CHECK(eager::NodeView(b.first.trace).num_saved() == 1);
  std::vector<bool> freed;
  tape.executor.at_node = [&] {
    for (const CountedVar* value : {&c, &b, &a}) freed.push_back(eager::NodeView(value->first.trace).freed());
  };
  const auto gradients = tape.backward(c);
  CHECK(freed == std::vector<bool>{false, false, false, true, false, false, true, true, false});
  CHECK(Counted::live - before == 2);  // x, and its gradient
  CHECK(eager::NodeView(b.first.trace).num_saved() == 0);
}

TEST_CASE("[P5] a second backward is an error that names the node and says how to keep") {
  CountedTape tape;
  const CountedVar x = tape.leaf(0.3);
  const CountedVar y = tape.apply<prim::sin>({tape.apply<prim::exp>({x})});
  tape.backward(y);
  CHECK(kind_of([&] { tape.backward(y); }) == ErrorKind::tape);
  const std::string message = message_of([&] { tape.backward(y); });
  CAPTURE(message);
  CHECK((contains(message, "[sin]") || contains(message, "[exp]")));
  CHECK(contains(message, "keep_graph"));
  // No node runs, not even one that could.
  const CountedVar z = tape.apply<prim::cos>({y});
  int nodes = 0;
  tape.executor.at_node = [&] { ++nodes; };
  CHECK(kind_of([&] { tape.backward(z); }) == ErrorKind::tape);
  CHECK(nodes == 0);
}

TEST_CASE("[P5] the error says where the node was recorded") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x}, Where{"layer.cpp", 17});
  run(Spy(), {root_of(y)});
  const std::string message = message_of([&] { run(Spy(), {root_of(y)}); });
  CAPTURE(message);
  CHECK(contains(message, "[sin]"));
  CHECK(contains(message, "layer.cpp:17"));
}

TEST_CASE("[P5] nodes that saved nothing run again; only those that need freed values are refused") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.leaf(0.5);
  const Var sum = tape.apply<prim::add>({x, tape.apply<prim::neg>({y})});
  CHECK(item(run(Spy(), {root_of(sum)}), y) == -1.0);
  CHECK(item(run(Spy(), {root_of(sum)}), y) == -1.0);
  const Var z = tape.apply<prim::sin>({sum});
  run(Spy(), {root_of(z)});
  CHECK(item(run(Spy(), {root_of(sum)}), x) == 1.0);
  CHECK_THROWS(run(Spy(), {root_of(z)}));
  // Selective: the freed values are not on the path.
  const Var u = tape.leaf(2.0);
  const Var w = tape.apply<prim::add>({z, u});
  const auto gradients = run(Spy(), {root_of(w)}, {}, {Requested(u.first)});
  CHECK(gradients.requested()[0].value->item<double>() == 1.0);
  CHECK_THROWS(run(Spy(), {root_of(w)}, {}, {Requested(x.first)}));
}

TEST_CASE("[P5] keep_graph allows any number of calls, with equal results") {
  Tape tape;
  const Var x = tape.leaf(random_tensor(Type(f64, Shape{5}), 1));
  Var y = x;
  for (int i = 0; i < 5; ++i) y = tape.apply<prim::mul>({tape.apply<prim::sin>({y}), y});
  const Tensor seed = random_tensor(Type(f64, Shape{5}), 2);
  const Tensor first = gradient(run(Spy(), {root_of(y, seed)}, keep()), x);
  for (int i = 0; i < 4; ++i) CHECK(same_bits(gradient(run(Spy(), {root_of(y, seed)}, keep()), x), first));
  CHECK(same_bits(gradient(run(Spy(), {root_of(y, seed)}), x), first));
  CHECK_THROWS(run(Spy(), {root_of(y, seed)}));
  // A composite node keeps all its operands.
  const RecordedGraph product = graph_of(
      "product", {f64, f64, f64}, [](const auto& in) { return std::vector<Value>{in[0] * in[1] * in[2]}; });
  const Var a = tape.leaf(2.0), b = tape.leaf(3.0), c = tape.leaf(5.0);
  const Var abc = tape.apply(product, {a, b, c})[0];
  CHECK(eager::NodeView(abc.first.trace).num_saved() == 3);
  for (int i = 0; i < 3; ++i) CHECK(item(run(Spy(), {root_of(abc)}, keep()), b) == 10.0);
}

TEST_CASE("[P5] create_graph keeps in any case") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x});
  BackwardOptions options;
  options.create_graph = true;
  run(Spy(), {root_of(y)}, options, {}, &tape.recorder);
  CHECK(item(run(Spy(), {root_of(y)}), x) == doctest::Approx(std::cos(0.3)));
}

TEST_CASE("[P5] a node that did not run keeps its saved values") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var z = tape.leaf(0.5);
  const Var a = tape.apply<prim::sin>({x});
  const Var b = tape.apply<prim::exp>({z});
  const Var out = tape.apply<prim::add>({a, b});
  run(Spy(), {root_of(out)}, {}, {Requested(x.first)});
  CHECK(eager::NodeView(a.first.trace).freed());
  CHECK_FALSE(eager::NodeView(b.first.trace).freed());
  CHECK(run(Spy(), {root_of(out)}, {}, {Requested(z.first)}).requested()[0].value->item<double>() ==
        doctest::Approx(std::exp(0.5)));
}

}  // namespace
}  // namespace tidu::test
