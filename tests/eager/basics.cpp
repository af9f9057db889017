// basics.cpp - recording single primitives and composite graphs, and running them backward.
#include "support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("[T5] a leaf that is both operands gets both cotangents") {
  Tape tape;
  const Var x = tape.leaf(3.0);
  const Var y = tape.apply<prim::mul>({x, x});
  const Gradients<Tensor> gradients = backward(y);
  CHECK(gradients.size() == 1);
  CHECK(item(gradients, x) == 6.0);
}

TEST_CASE("[T6] an inactive operand gets no entry") {
  Tape tape;
  const Var x = tape.leaf(3.0);
  const Var y = tape.constant(5.0);
  const Gradients<Tensor> gradients = backward(tape.apply<prim::mul>({x, y}), scalar(2.0));
  CHECK(gradients.size() == 1);
  CHECK(item(gradients, x) == 10.0);
}

TEST_CASE("[T2] a composite graph is one node, and values that were not retained are recomputed") {
  GraphBuilder g("layer");
  const Value a = g.input("a", f64);
  const Value e = ops::exp(a);
  const RecordedGraph graph = RecordedGraph::of(g.build({e * e}));
  Tape tape;
  const Var x = tape.leaf(0.5);
  const Var y = tape.apply(graph, {x}, false)[0];
  CHECK(tape.recorder.num_recorded() == 1);
  CHECK(item(backward(y), x) == doctest::Approx(2 * std::exp(1.0)));
}

TEST_CASE("[P6] third order through a composite whose intermediates were not retained") {
  GraphBuilder g("layer");
  const Value a = g.input("a", f64);
  const Value e = ops::exp(a);
  const RecordedGraph graph = RecordedGraph::of(g.build({e * e}));
  Tape tape;
  const Var x = tape.leaf(0.5);
  Var y = tape.apply(graph, {x}, false)[0];
  double expected = std::exp(1.0);
  for (int order = 1; order <= 3; ++order) {
    eager::BackwardOptions options;
    options.create_graph = true;
    eager::Root<Tensor> root;
    root.key = y.first.key;
    root.trace = y.first.trace;
    const auto result =
        eager::backward<Tensor>(std::span(&root, 1), reference(), options, {}, &tape.recorder);
    expected *= 2;
    const auto* entry = result.entry_of(x.first.key);
    REQUIRE(entry != nullptr);
    CHECK(entry->value->item<double>() == doctest::Approx(expected));
    y = {entry->recorded, *entry->value};
  }
}

}  // namespace
}  // namespace tidu::test
