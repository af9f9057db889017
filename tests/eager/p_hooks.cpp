// p_hooks.cpp - P7: hooks of all kinds, their order, replacing and dropping, changes to hooks while they run,
// and callbacks at the end.
#include "p_support.hpp"

namespace tidu::test {
namespace {

using Log = std::vector<std::string>;

// x -> mul with w -> y -> sin -> z; x and w are leaves with names.
struct Hooked {
  Tape tape;
  Leaf<Tensor> x{tape.recorder.keys(), "x"};
  Leaf<Tensor> w{tape.recorder.keys(), "w"};
  Var y = tape.apply<prim::mul>({var(x, scalar(0.3)), var(w, scalar(2.0))}, Where{"model.cpp", 7});
  Var z = tape.apply<prim::sin>({y}, Where{"model.cpp", 8});
  double dy() const { return std::cos(0.6); }
  double dx(const Gradients<Tensor>& gradients) const { return gradients.at(x.key()).item<double>(); }
};

TEST_CASE("[P7] the four kinds of hooks, in the documented order") {
  Hooked h;
  Log log;
  Spy spy;
  spy.before = [&](const Spy::Call& call) {
    if (call.hook == "transposed") log.push_back("run " + call.name);
  };
  const auto say = [&log](const char* text) { return [&log, text](auto&) { log.push_back(text); }; };
  h.x.on_accumulate(say("accumulate x"));
  h.x.on_value(say("value x"));
  h.x.on_accumulate(say("accumulate x again"));
  eager::after_node<Tensor>(h.y.first.trace, say("after y"));
  eager::before_node<Tensor>(h.y.first.trace, say("before y"));
  eager::on_value<Tensor>(h.y.first.trace, h.y.first.key, say("value y"));
  eager::on_value<Tensor>(h.y.first.trace, h.y.first.key, say("value y again"));
  eager::before_node<Tensor>(
      h.z.first.trace, [&](HookContext<Tensor>& context) { context.at_end([&] { log.push_back("end"); }); });
  run(spy, {root_of(h.z)});
  CHECK(log == Log{"run sin", "value y", "value y again", "before y", "run mul", "after y", "value x",
                   "accumulate x", "accumulate x again", "end"});
}

TEST_CASE("[P7] the arguments of hooks") {
  Hooked h;
  double value = 0;
  Log seen;
  eager::on_value<Tensor>(h.y.first.trace, h.y.first.key, [&](HookContext<Tensor>& context) {
    value = context.incoming()->item<double>();
    CHECK(context.output_slot() == 0);
    CHECK(context.node().name() == "mul");
    CHECK(context.node().where() == "model.cpp:7");
    CHECK_FALSE(context.creates_graph());
  });
  eager::after_node<Tensor>(h.y.first.trace, [&](HookContext<Tensor>& context) {
    CHECK(context.num_incoming() == 1);
    REQUIRE(context.num_outgoing() == 2);
    CHECK(context.incoming()->item<double>() == doctest::Approx(h.dy()));
    CHECK(context.outgoing(0)->item<double>() == doctest::Approx(2 * h.dy()));
    CHECK(context.outgoing(1)->item<double>() == doctest::Approx(0.3 * h.dy()));
    seen.push_back("after");
  });
  h.w.on_accumulate([&](HookContext<Tensor>& context) {
    CHECK(context.node().is_leaf());
    CHECK(context.node().name() == "w");
    CHECK(context.incoming()->item<double>() == doctest::Approx(0.3 * h.dy()));
    seen.push_back("accumulate");
  });
  run(Spy(), {root_of(h.z)});
  CHECK(value == doctest::Approx(h.dy()));
  CHECK(seen == Log{"after", "accumulate"});
}

TEST_CASE("[P7] every kind of hook may replace cotangents") {
  const auto twice = [](auto& context) {
    context.incoming().replace(scalar(2 * context.incoming()->template item<double>()));
  };
  Hooked h;
  double expected = 2 * h.dy();
  const auto step = [&](double factor) {
    expected *= factor;
    CHECK(h.dx(run(Spy(), {root_of(h.z)}, keep())) == doctest::Approx(expected));
  };
  step(1);
  eager::on_value<Tensor>(h.y.first.trace, h.y.first.key, twice);
  step(2);
  eager::before_node<Tensor>(h.y.first.trace, twice);
  step(2);
  eager::after_node<Tensor>(h.y.first.trace, [](HookContext<Tensor>& context) {
    context.outgoing(0).replace(scalar(5 * context.outgoing(0)->item<double>()));
  });
  step(5);
  h.x.on_value(twice);
  step(2);
  h.x.on_accumulate(twice);
  step(2);
}

TEST_CASE("[P7] a dropped cotangent flows nowhere, and one that was absent may be put in") {
  Hooked h;
  Spy spy;
  HookHandle drop = eager::on_value<Tensor>(h.y.first.trace, h.y.first.key,
                                            [](HookContext<Tensor>& context) { context.incoming().drop(); });
  auto gradients = run(spy, {root_of(h.z)}, keep(), {Requested(h.x.key(), h.x.trace())});
  CHECK(spy.names() == Log{"sin"});
  CHECK(gradients.requested()[0].absence == eager::Absence::zero);
  drop.remove();
  eager::after_node<Tensor>(h.y.first.trace, [](HookContext<Tensor>& context) {
    context.outgoing(1).drop();
    CHECK_FALSE(context.outgoing(1));
    CHECK_THROWS(context.outgoing(1).value());
  });
  gradients = run(spy, {root_of(h.z)}, keep());
  CHECK(gradients.size() == 1);
  CHECK(gradients.find(h.w.key()) == nullptr);
  // And the cotangents before: of a node with two outputs of which one is seeded.
  Tape tape;
  const Var x = tape.leaf(0.3);
  const RecordedGraph both = graph_of("both", {f64}, [](const auto& in) {
    return std::vector<Value>{ops::sin(in[0]), ops::cos(in[0])};
  });
  const std::vector<Var> pair = tape.apply(both, {x});
  eager::before_node<Tensor>(pair[0].first.trace, [](HookContext<Tensor>& context) {
    CHECK_FALSE(context.incoming(1));
    context.incoming(1).replace(scalar(10.0));
  });
  CHECK(item(run(spy, {root_of(pair[0])}), x) == doctest::Approx(std::cos(0.3) - 10 * std::sin(0.3)));
}

TEST_CASE(
    "[P7] hooks on several values of one node run by output slot, one that drops ends those of its value") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const RecordedGraph both = graph_of("both", {f64}, [](const auto& in) {
    return std::vector<Value>{ops::sin(in[0]), ops::cos(in[0])};
  });
  const std::vector<Var> pair = tape.apply(both, {x});
  Log log;
  const auto say = [&log](const char* text) { return [&log, text](auto&) { log.push_back(text); }; };
  eager::on_value<Tensor>(pair[1].first.trace, pair[1].first.key, say("1"));
  eager::on_value<Tensor>(pair[0].first.trace, pair[0].first.key, [&](HookContext<Tensor>& context) {
    log.push_back("0");
    context.incoming().drop();
  });
  eager::on_value<Tensor>(pair[1].first.trace, pair[1].first.key, say("1 again"));
  eager::on_value<Tensor>(pair[0].first.trace, pair[0].first.key, say("0 again"));
  const Var out = tape.apply<prim::mul>({pair[0], pair[1]});
  CHECK(item(run(Spy(), {root_of(out)}), x) == doctest::Approx(-std::sin(0.3) * std::sin(0.3)));
  CHECK(log == Log{"0", "1", "1 again"});
}

TEST_CASE("[P7] a hook may drop a cotangent and put another in its place") {
  Hooked h;
  const auto swap = [](auto& context) {
    context.incoming().drop();
    CHECK_FALSE(context.incoming());
    context.incoming().replace(scalar(7.0));
  };
  HookHandle hook = h.x.on_value(swap);
  CHECK(h.dx(run(Spy(), {root_of(h.z)}, keep())) == 7.0);
  hook.remove();
  eager::on_value<Tensor>(h.y.first.trace, h.y.first.key, swap);
  CHECK(h.dx(run(Spy(), {root_of(h.z)}, keep())) == 14.0);
}

TEST_CASE("[P7] a hook on a leaf that is read by its key, put on one of the nodes that stand for it, runs") {
  for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
    Tape tape;
    const Var x = tape.leaf(0.5);
    const Var out = tape.apply<prim::mul>({tape.apply<prim::sin>({x}), tape.apply<prim::cos>({x})});
    const eager::TraceRef reader = eager::NodeView(out.first.trace).edge_node(operand);
    int calls = 0;
    eager::on_value<Tensor>(eager::NodeView(reader).edge_node(0), x.first.key,
                            [&](HookContext<Tensor>&) { ++calls; });
    run(Spy(), {root_of(out)}, keep());
    CHECK(calls == 1);
  }
}

TEST_CASE("[P7] hooks on several nodes that stand for one leaf all run, those on the value first") {
  Tape tape;
  Leaf<Tensor> x(tape.recorder.keys(), "x");
  const Var slot = var(x, scalar(0.5));
  Var by_key = slot;
  by_key.first.trace = {};
  const Var a = tape.apply<prim::sin>({by_key});
  const Var b = tape.apply<prim::cos>({by_key});
  Var out = tape.apply<prim::mul>({a, b});
  Log log;
  const auto say = [&log](const char* text) { return [&log, text](auto&) { log.push_back(text); }; };
  eager::on_value<Tensor>(eager::NodeView(a.first.trace).edge_node(0), x.key(), say("sin's"));
  run(Spy(), {root_of(out)}, keep());
  CHECK(log == Log{"sin's"});
  eager::on_value<Tensor>(eager::NodeView(b.first.trace).edge_node(0), x.key(), say("cos's"));
  run(Spy(), {root_of(out)}, keep());
  CHECK(log.size() == 3);
  out = tape.apply<prim::mul>({out, slot});
  x.on_accumulate(say("accumulate"));
  x.on_value(say("slot's"));
  log.clear();
  run(Spy(), {root_of(out)}, keep());
  REQUIRE(log.size() == 4);
  CHECK(log[0] == "slot's");
  CHECK(log[3] == "accumulate");
}

TEST_CASE("[P7] a hook may release the root and the requested values") {
  Tape tape;
  const Var x = tape.leaf(0.5);
  auto inner = std::make_unique<Var>(tape.apply<prim::exp>({x}));
  auto out = std::make_unique<Var>(tape.apply<prim::sin>({*inner}));
  const Root root = root_of(*out);
  const Requested wanted(inner->first);
  eager::before_node<Tensor>(out->first.trace, [&](HookContext<Tensor>&) {
    out.reset();
    inner.reset();
  });
  const auto gradients = run(Spy(), {root}, {}, {wanted, Requested(x.first)});
  CHECK(gradients.requested()[0].value->item<double>() == doctest::Approx(std::cos(std::exp(0.5))));
  CHECK(item(gradients, x) == doctest::Approx(std::cos(std::exp(0.5)) * std::exp(0.5)));
}

TEST_CASE("[P7] a hook that is removed while others run is not started any more") {
  Hooked h;
  Log log;
  HookHandle self, second, later;
  self = eager::on_value<Tensor>(h.y.first.trace, h.y.first.key, [&](HookContext<Tensor>&) {
    log.push_back("first");
    self.remove();  // while it runs
    second.remove();
    later.remove();
  });
  second = eager::on_value<Tensor>(h.y.first.trace, h.y.first.key,
                                   [&](HookContext<Tensor>&) { log.push_back("second"); });
  eager::on_value<Tensor>(h.y.first.trace, h.y.first.key,
                          [&](HookContext<Tensor>&) { log.push_back("third"); });
  later = h.x.on_accumulate([&](HookContext<Tensor>&) { log.push_back("later"); });
  run(Spy(), {root_of(h.z)}, keep());
  CHECK(log == Log{"first", "third"});
  run(Spy(), {root_of(h.z)}, keep());
  CHECK(log == Log{"first", "third", "third"});
  CHECK_FALSE(static_cast<bool>(self));
}

TEST_CASE("[P7] a hook that is added while a node's hooks run is first called in the next call") {
  Hooked h;
  Log log;
  bool added = false;
  eager::before_node<Tensor>(h.y.first.trace, [&](HookContext<Tensor>& context) {
    log.push_back("old");
    if (std::exchange(added, true)) return;
    eager::before_node<Tensor>(context.node().trace(), [&](HookContext<Tensor>&) { log.push_back("new"); });
    eager::after_node<Tensor>(context.node().trace(), [&](HookContext<Tensor>&) { log.push_back("after"); });
  });
  run(Spy(), {root_of(h.z)}, keep());
  CHECK(log == Log{"old"});
  run(Spy(), {root_of(h.z)}, keep());
  CHECK(log == Log{"old", "old", "new", "after"});
}

TEST_CASE("[P7] a handle outlives its node, and a hook that is let go stays") {
  HookHandle handle;
  int calls = 0;
  {
    Hooked h;
    handle = eager::before_node<Tensor>(h.z.first.trace, [&](HookContext<Tensor>&) { ++calls; });
    {
      const HookHandle dropped = h.x.on_value([&](HookContext<Tensor>&) { ++calls; });
    }
    run(Spy(), {root_of(h.z)});
    CHECK(calls == 2);
  }
  handle.remove();
  handle.remove();
}

TEST_CASE("[P7] callbacks at the end run once, in order, also when callbacks enter them") {
  Hooked h;
  Log log;
  Spy spy;
  spy.before = [&](const Spy::Call& call) {
    if (call.hook == "transposed") log.push_back(call.name);
  };
  h.x.on_accumulate([&](HookContext<Tensor>& context) { context.at_end([&] { log.push_back("leaf"); }); });
  HookHandle first = eager::before_node<Tensor>(h.z.first.trace, [&](HookContext<Tensor>& context) {
    context.at_end([&, end = context.end()]() mutable {
      log.push_back("first");
      end.add([&, end]() mutable {
        log.push_back("from a callback");
        end.add([&] { log.push_back("from that"); });
      });
    });
  });
  run(spy, {root_of(h.z)}, keep());
  CHECK(log == Log{"sin", "mul", "first", "leaf", "from a callback", "from that"});
  first.remove();
  log.clear();
  run(spy, {root_of(h.z)}, keep());
  CHECK(log == Log{"sin", "mul", "leaf"});
}

TEST_CASE("[P7] callbacks see the slots as they are after the call") {
  Hooked h;
  double seen = 0;
  h.x.on_accumulate([&](HookContext<Tensor>& context) {
    CHECK_FALSE(h.x.gradient().has_value());
    context.at_end([&] { seen = h.x.gradient()->item<double>(); });
  });
  BackwardOptions options;
  options.accumulate = true;
  run(Spy(), {root_of(h.z)}, options);
  CHECK(seen == doctest::Approx(2 * h.dy()));
}

struct Odd : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_CASE("[P7] an exception in a callback is reported, the first by its type, and the others still run") {
  Hooked h;
  Log log;
  eager::before_node<Tensor>(h.z.first.trace, [&](HookContext<Tensor>& context) {
    context.at_end([&] { log.push_back("one"); });
    context.at_end([] { throw Odd("odd"); });
    context.at_end([&] { log.push_back("two"); });
    context.at_end([] { throw Error(ErrorKind::execution, "later"); });
    context.at_end([&] { log.push_back("three"); });
  });
  CHECK_THROWS_AS(run(Spy(), {root_of(h.z)}, keep()), Odd);
  CHECK(log == Log{"one", "two", "three"});
}

TEST_CASE("[P7] no callback runs when the call fails") {
  Hooked h;
  bool called = false;
  eager::before_node<Tensor>(h.z.first.trace,
                             [&](HookContext<Tensor>& context) { context.at_end([&] { called = true; }); });
  HookHandle bad =
      eager::before_node<Tensor>(h.y.first.trace, [](HookContext<Tensor>&) { throw Odd("bad"); });
  CHECK_THROWS_AS(run(Spy(), {root_of(h.z)}, keep()), Odd);
  CHECK_FALSE(called);
  bad.remove();
  run(Spy(), {root_of(h.z)}, keep());
  CHECK(called);
}

TEST_CASE("[P7] a replacement of the wrong type is refused, naming hook and node") {
  const auto message = [](const auto& hook) {
    Hooked h;
    hook(h);
    CHECK(kind_of([&] { run(Spy(), {root_of(h.z)}, keep()); }) == ErrorKind::type);
    return message_of([&] { run(Spy(), {root_of(h.z)}, keep()); });
  };
  const auto wrong = [](auto& context) { context.incoming().replace(vec({1, 2})); };
  const auto all = [](const std::string& text, std::initializer_list<const char*> parts) {
    CAPTURE(text);
    for (const char* part : parts) {
      CAPTURE(part);
      CHECK(contains(text, part));
    }
  };
  all(message([&](Hooked& h) { eager::on_value<Tensor>(h.y.first.trace, h.y.first.key, wrong); }),
      {"hook on a value", "mul", "model.cpp:7", "f64[2]", "f64[]"});
  all(message([&](Hooked& h) { eager::before_node<Tensor>(h.y.first.trace, wrong); }),
      {"hook before the node", "mul", "model.cpp:7", "f64[2]"});
  all(message([&](Hooked& h) {
        eager::after_node<Tensor>(h.y.first.trace, [](HookContext<Tensor>& context) {
          context.outgoing(1).replace(Tensor::zeros(Type(f32, Shape{})));
        });
      }),
      {"hook after the node", "mul", "input 1", "f32[]"});
  all(message([&](Hooked& h) { h.x.on_value(wrong); }), {"hook on a value", "\"x\"", "f64[2]", "f64[]"});
  all(message([&](Hooked& h) { h.w.on_accumulate(wrong); }), {"hook on accumulation", "\"w\"", "f64[2]"});
}

TEST_CASE("[P7] a hook on a value that was not recorded, or under a key that is not its own, is refused") {
  Hooked h;
  const auto nothing = [](HookContext<Tensor>&) {};
  CHECK(kind_of([&] { eager::before_node<Tensor>({}, nothing); }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] { eager::on_value<Tensor>(h.y.first.trace, h.z.first.key, nothing); }) ==
        ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace tidu::test
