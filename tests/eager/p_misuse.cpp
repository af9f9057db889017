// p_misuse.cpp - hooks and views with arguments out of range, hooks by the hundred thousand, and the memory
// of removed ones.
#include "p_support.hpp"

namespace tidu::test {
namespace {

// x -> (x, x x)
struct Misused {
  Tape tape;
  Leaf<Tensor> x{tape.recorder.keys(), "x"};
  std::vector<Var> y = tape.apply(square_pair(), {var(x, scalar(0.3))});
  static RecordedGraph square_pair() {
    GraphBuilder builder("pair");
    const Value v = builder.input("v", f64);
    return RecordedGraph::of(builder.build({v, v * v}));
  }
};

// Can a leaf be an operand with a value given so?
template <class Value>
constexpr bool takes = requires(const Leaf<Tensor>& leaf, Value value) {
  leaf.input(static_cast<Value>(value));
};
static_assert(takes<const Tensor&> && takes<Tensor&>);
static_assert(!takes<Tensor&&> && !takes<const Tensor&&>, "a leaf's value is borrowed: no temporary");

TEST_CASE("[P7] an index of a hook's cotangents that is not there is refused, and the next call works") {
  Misused pair;
  const auto refused = [&](const HookHandle& added, const char* text) {
    HookHandle hook = added;
    expect_parts(message_of([&] {
                   run(Spy(), {root_of(pair.y[0]), root_of(pair.y[1])}, keep());
                 }),
                 {"HookContext", text});
    hook.remove();
    CHECK(run(Spy(), {root_of(pair.y[0]), root_of(pair.y[1])}, keep()).at(pair.x.key()).item<double>() ==
          doctest::Approx(1.6));
  };
  const eager::TraceRef trace = pair.y[1].first.trace;
  refused(eager::on_value<Tensor>(trace, pair.y[1].first.key,
                                  [](HookContext<Tensor>& c) { c.incoming(c.output_slot()).drop(); }),
          "1 cotangents, got 1");
  refused(eager::before_node<Tensor>(trace, [](HookContext<Tensor>& c) { c.outgoing(0).drop(); }),
          "0 cotangents, got 0");
  refused(eager::after_node<Tensor>(trace, [](HookContext<Tensor>& c) { c.outgoing(1).drop(); }),
          "1 cotangents, got 1");
  refused(eager::after_node<Tensor>(trace, [](HookContext<Tensor>& c) { c.incoming(2).drop(); }),
          "2 cotangents, got 2");
}

TEST_CASE("[P10] a negative number of workers is refused") {
  Tape tape;
  const Var x = tape.leaf(0.5);
  const Var y = tape.apply<prim::sin>({x});
  BackwardOptions options = keep();
  options.workers = -5;
  CHECK(kind_of([&] { run(Spy(), {root_of(y)}, options); }) == ErrorKind::invalid_argument);
  CHECK(contains(message_of([&] { run(Spy(), {root_of(y)}, options); }), "at least 0 workers, got -5"));
}

TEST_CASE("a view of nothing, and indices beyond a node's, are refused") {
  Misused pair;
  const auto refused = [](const std::function<void()>& body, const char* text) {
    expect_parts(message_of(body), {"NodeView", text});
  };
  refused([] { eager::NodeView(eager::TraceRef()).name(); }, "an empty one");
  const eager::NodeView node(pair.y[0].first.trace);
  const eager::NodeView leaf(pair.x.trace());
  refused([&] { node.output_key(2); }, "2 outputs, got 2");
  refused([&] { leaf.output_key(1); }, "1 outputs, got 1");
  refused([&] { node.edge_input(1); }, "1 recorded inputs, got 1");
  refused([&] { leaf.edge_node(0); }, "0 recorded inputs, got 0");
  refused([&] { node.edge_slot(1); }, "1 recorded inputs, got 1");
  refused([&] { leaf.saved_name(0); }, "0 saved operands, got 0");
}

TEST_CASE("[P7] many hooks of one node, and the objects of a removed one are released at once") {
  Misused pair;
  constexpr int many = 200'000;
  std::vector<HookHandle> hooks;
  int calls = 0;
  for (int i = 0; i < many; ++i)
    hooks.push_back(pair.x.on_value([&calls](HookContext<Tensor>&) { ++calls; }));
  run(Spy(), {root_of(pair.y[1])}, keep());
  CHECK(calls == many);
  for (std::size_t i = 1; i < hooks.size(); ++i) hooks[i].remove();
  run(Spy(), {root_of(pair.y[1])}, keep());
  CHECK(calls == many + 1);

  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = held;
  HookHandle hook = pair.x.on_value([held](HookContext<Tensor>&) { ++*held; });
  held.reset();
  run(Spy(), {root_of(pair.y[1])}, keep());
  CHECK(!seen.expired());
  hook.remove();
  CHECK(seen.expired());
  hook.remove();
}

TEST_CASE("[P7] a hook that removes itself while it runs ends in its own time") {
  Misused pair;
  HookHandle hook;
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = held;
  hook = pair.x.on_value([&hook, held](HookContext<Tensor>&) {
    hook.remove();
    ++*held;
  });
  held.reset();
  run(Spy(), {root_of(pair.y[1])}, keep());
  CHECK(seen.expired());
  run(Spy(), {root_of(pair.y[1])}, keep());
}

}  // namespace
}  // namespace tidu::test
