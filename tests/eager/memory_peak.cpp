// memory_peak.cpp - [C6] [C7] live objects during backward and after it: cotangents along a chain, rounds of
// recording and backward, dropped tapes.
#include "counted.hpp"
#include "support/support.hpp"

namespace tidu::test::counted {
namespace {

std::size_t blocks() { return tidu::detail::pool_statistics().blocks_in_use; }

// The most operands that live during backward over a chain beyond those that were there before.
long peak_of_chain(int length, const BackwardOptions& options) {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  Var y = tape.apply<prim::exp>(x);
  for (int i = 1; i < length; ++i)
    y = i % 2 == 0 ? tape.apply<prim::neg>(y) : tape.apply<prim::mul>(y, CountedTape::constant(1.01));
  const long before = Counted::live;
  Counted::peak = before;
  {
    const auto gradients = tape.backward(y, options);
    CHECK(gradients.size() == 1);
    // Requested cotangents survive, and the values that the tape keeps.
    const long saved = options.keep_graph ? 0 : (length - 1 + 1) / 2 + 1;
    CHECK(Counted::live == before + 1 - saved);
  }
  return Counted::peak - before;
}

TEST_CASE("[C6] the cotangents that live at once on a chain do not depend on its length") {
  for (const bool keep : {true, false}) {
    BackwardOptions options;
    options.keep_graph = keep;
    const long most = peak_of_chain(10, options);
    CHECK(most <= 6);
    CHECK(peak_of_chain(100, options) == most);
    CHECK(peak_of_chain(10001, options) == most);
  }
}

TEST_CASE("[C6] a captured cotangent survives, its neighbours do not") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  std::vector<Var> chain{tape.apply<prim::sin>(x)};
  for (int i = 0; i < 50; ++i) chain.push_back(tape.apply<prim::neg>(chain.back()));
  const eager::Requested requested[] = {chain[20].who, chain[40].who};
  BackwardOptions options;
  options.keep_graph = true;
  const long before = Counted::live;
  const auto gradients = tape.backward(chain.back(), options, requested);
  CHECK(Counted::live == before + 2);
}

// Records and runs a program with a composite node, a leaf slot and second order.
void round(CountedTape& tape, const eager::Leaf<Counted>& w, bool run) {
  static const RecordedGraph layer = graph_of(2, [](std::vector<Value> v) {
    const Value e = ops::exp(v[0] * v[1]);
    return std::vector{e * e, v[0]};
  });
  const Var x = tape.leaf(0.3), p = CountedTape::of(w, 0.2);
  const std::vector<Var> y = tape.apply(layer, {&x, &p}, false);
  const Var z = tape.apply<prim::mul>(tape.apply<prim::sin>(y[0]), y[1]);
  if (!run) return;
  BackwardOptions options;
  options.create_graph = true;
  const auto first = tape.backward(z, options);
  const auto* entry = first.entry_of(x.who.key);
  options.create_graph = false;
  options.accumulate = true;
  (void)tape.backward({entry->recorded, *entry->value}, options);
}

TEST_CASE("[C7] 100,000 rounds of recording and backward do not grow") {
  const long live = Counted::live;
  {
    CountedTape tape;
    const eager::Leaf<Counted> w(tape.recorder.keys(), "w");
    for (int i = 0; i < 50; ++i) round(tape, w, true);
    tape.executor.calls.clear();
    const long operands = Counted::live;
    const auto pool = tidu::detail::pool_statistics();
    const auto graphs = eager::cached_graph_statistics().graphs;
    const std::size_t rounds = scaled(100000);
    for (std::size_t i = 0; i < rounds; ++i) {
      round(tape, w, true);
      tape.executor.calls.clear();
    }
    CHECK(Counted::live == operands);
    CHECK(blocks() == pool.blocks_in_use);
    CHECK(tidu::detail::pool_statistics().reserved_bytes == pool.reserved_bytes);
    CHECK(eager::cached_graph_statistics().graphs == graphs);
  }
  CHECK(Counted::live == live);
}

TEST_CASE("[C7] a tape that is dropped without backward frees everything") {
  CountedTape tape;
  eager::Leaf<Counted> w(tape.recorder.keys(), "w");
  round(tape, w, false);
  const long operands = Counted::live;
  const std::size_t before = blocks();
  for (int i = 0; i < 100; ++i) round(tape, w, false);
  CHECK(Counted::live == operands);
  CHECK(blocks() == before);
  {
    const Var x = tape.leaf(0.5);
    Var y = tape.apply<prim::sin>(x);
    for (int i = 0; i < 1000; ++i) y = tape.apply<prim::exp>(y);
    CHECK(Counted::live > operands + 1000);
    if (tidu::detail::pool_statistics().pooled) CHECK(blocks() > before + 1000);
  }
  CHECK(Counted::live == operands);
  CHECK(blocks() == before);
}

TEST_CASE("[C7] hooks, names and the objects that they hold go with the tape") {
  const long live = Counted::live;
  {
    CountedTape tape;
    const Var x = tape.leaf(0.5);
    const Var y = tape.apply<prim::sin>(x);
    // A hook that holds the trace of another node of the same tape.
    auto hook = eager::on_value<Counted>(y.who.trace, y.who.key,
                                         [x, copy = Counted(1.0)](eager::HookContext<Counted>&) {});
    eager::set_name(y.who.trace, y.who.key, "loss");
  }
  CHECK(Counted::live == live);
}

TEST_CASE("cost does not depend on values that have nothing to do with it") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const auto run = [&] {
    tape.executor.calls.clear();
    const Var y = tape.apply<prim::mul>(tape.apply<prim::sin>(x), tape.apply<prim::exp>(x));
    const long before = Counted::live;
    Counted::peak = before;
    CHECK(tape.backward(y).size() == 1);
    return std::pair{tape.executor.calls.size(), Counted::peak - before};
  };
  const auto alone = run();
  // Unrelated ones, and others that hang on the same leaf and on nothing that is differentiated.
  std::vector<Var> others;
  const Var other = tape.leaf(0.1);
  for (std::size_t i = 0; i < scaled(100000); ++i)
    others.push_back(tape.apply<prim::sin>(i % 2 == 0 ? x : other));
  CHECK(run() == alone);
}

}  // namespace
}  // namespace tidu::test::counted
