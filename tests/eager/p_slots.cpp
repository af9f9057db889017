// p_slots.cpp - P8: adding gradients to the slots of leaves, or returning them.
#include "p_counted.hpp"

namespace tidu::test {
namespace {

BackwardOptions into_slots() {
  BackwardOptions options = keep();
  options.accumulate = true;
  return options;
}

// sum = a·b + a·c, of which c has no slot.
struct Model {
  Tape tape;
  Leaf<Tensor> a{tape.recorder.keys(), "a"};
  Leaf<Tensor> b{tape.recorder.keys(), "b"};
  Var c = tape.leaf(vec({7, 8}));
  Var va = var(a, vec({1, 2}));
  Var vb = var(b, vec({3, 5}));
  Var sum = tape.apply<prim::add>({tape.apply<prim::mul>({va, vb}), tape.apply<prim::mul>({va, c})});
  Root root = root_of(sum, vec({1, 10}));
};

TEST_CASE("[P8] slots are added to, call after call, until they are cleared") {
  Model m;
  for (int call = 1; call <= 3; ++call) {
    const auto gradients = run(Spy(), {m.root}, into_slots());
    CHECK(same_bits(*m.a.gradient(), vec({10.0 * call, 130.0 * call})));
    CHECK(same_bits(*m.b.gradient(), vec({1.0 * call, 20.0 * call})));
    // Gradients of leaves without a slot are returned.
    CHECK(gradients.size() == 1);
    CHECK(same_bits(gradient(gradients, m.c), vec({1, 20})));
  }
  m.a.clear_gradient();
  CHECK_FALSE(m.a.gradient().has_value());
  m.b.set_gradient(vec({100, 200}));
  run(Spy(), {m.root}, into_slots());
  CHECK(same_bits(*m.a.gradient(), vec({10, 130})));
  CHECK(same_bits(*m.b.gradient(), vec({101, 220})));
}

TEST_CASE("[P8] returned instead: slots are left alone") {
  Model m;
  m.a.set_gradient(vec({1, 1}));
  const auto gradients = run(Spy(), {m.root}, keep());
  CHECK(gradients.size() == 3);
  CHECK(same_bits(gradient(gradients, m.va), vec({10, 130})));
  CHECK(same_bits(*m.a.gradient(), vec({1, 1})));
  CHECK_FALSE(m.b.gradient().has_value());
}

TEST_CASE("[P8] a gradient that the user holds never changes, though sums are made in place") {
  Model m;
  Spy spy;
  run(spy, {m.root}, into_slots());
  const Tensor held = *m.a.gradient();
  const Tensor copy = held.clone();
  for (int i = 0; i < 3; ++i) run(spy, {m.root}, into_slots());
  CHECK(same_bits(held, copy));
  CHECK(same_bits(*m.a.gradient(), vec({40, 520})));
  // Neither are a gradient that was set, a seed that became a gradient, or a returned gradient.
  const Tensor put = vec({5, 5});
  m.b.set_gradient(put);
  run(spy, {m.root}, into_slots());
  CHECK(same_bits(put, vec({5, 5})));
  const Tensor seed = vec({3, 4});
  m.a.clear_gradient();
  for (int i = 0; i < 3; ++i) run(spy, {root_of(m.va, seed)}, into_slots());
  CHECK(same_bits(seed, vec({3, 4})));
  CHECK(same_bits(*m.a.gradient(), vec({9, 12})));
  const auto wanted = run(spy, {m.root}, into_slots(), {Requested(m.a.key(), m.a.trace())});
  const Tensor returned = *wanted.requested()[0].value;
  run(spy, {m.root}, into_slots());
  CHECK(same_bits(returned, vec({10, 130})));
}

TEST_CASE("[P8] a cotangent that goes to two places is not changed by the sum at one of them") {
  // add hands the same operand to both sides; a sum at one of them must not reach the other.
  Tape tape;
  const Var x = tape.leaf(vec({1, 2}));
  const Var y = tape.leaf(vec({3, 4}));
  const Var s = tape.apply<prim::add>({x, y});
  const Var out = tape.apply<prim::add>({s, x});
  const auto gradients = run(Spy(), {root_of(out, vec({1, 1}))});
  CHECK(same_bits(gradient(gradients, x), vec({2, 2})));
  CHECK(same_bits(gradient(gradients, y), vec({1, 1})));
}

TEST_CASE("[P8] the order of sums is the same for any order of nodes, returned or accumulated") {
  Tape tape;
  Leaf<Tensor> leaf(tape.recorder.keys());
  const Var x = var(leaf, random_tensor(Type(f64, Shape{16}), 1));
  std::vector<Var> parts;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const Var scaled_x =
        tape.apply<prim::mul>({x, tape.constant(random_tensor(Type(f64, Shape{16}), 100 + i))});
    parts.push_back(i % 3 == 0 ? tape.apply<prim::sin>({scaled_x}) : scaled_x);
  }
  Var out = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) out = tape.apply<prim::add>({parts[i], out});
  const Root root = root_of(out, random_tensor(Type(f64, Shape{16}), 7));
  const Tensor expected = run(Spy(), {root}, keep()).at(leaf.key());
  for (const auto order : {eager::Order::latest_first, eager::Order::fifo, eager::Order::lifo,
                           eager::Order::random, eager::Order::random, eager::Order::random}) {
    BackwardOptions options = keep();
    options.order = order;
    options.order_seed += 17;
    CHECK(same_bits(run(Spy(), {root}, options).at(leaf.key()), expected));
    options.accumulate = true;
    leaf.clear_gradient();
    run(Spy(), {root}, options);
    CHECK(same_bits(*leaf.gradient(), expected));
  }
}

TEST_CASE("[P8] all slots change or none: a hook on one leaf fails") {
  Model m;
  m.a.set_gradient(vec({1, 1}));
  HookHandle bad = m.b.on_accumulate([](HookContext<Tensor>&) { throw std::runtime_error("no"); });
  for (const bool at_once : {true, false}) {
    BackwardOptions options = into_slots();
    options.exit_at_once = at_once;
    CHECK_THROWS(run(Spy(), {m.root}, options));
    CHECK(same_bits(*m.a.gradient(), vec({1, 1})));
    CHECK_FALSE(m.b.gradient().has_value());
  }
  bad.remove();
  run(Spy(), {m.root}, into_slots());
  CHECK(same_bits(*m.a.gradient(), vec({11, 131})));
}

TEST_CASE("[P8] all slots change or none: any one of the executor's calls fails") {
  Model m;
  m.a.set_gradient(vec({1, 1}));
  m.b.set_gradient(vec({2, 2}));
  int fail_at = 0;
  for (; fail_at < 100; ++fail_at) {
    Spy spy;
    int calls = 0;
    spy.before = [&](const Spy::Call&) {
      if (calls++ == fail_at) throw std::runtime_error("no");
    };
    try {
      run(spy, {m.root}, into_slots());
      break;
    } catch (const std::runtime_error&) {
      CHECK(same_bits(*m.a.gradient(), vec({1, 1})));
      CHECK(same_bits(*m.b.gradient(), vec({2, 2})));
    }
  }
  CHECK(fail_at >= 6);  // three nodes, the sum at a, the sums at both slots
  CHECK(same_bits(*m.a.gradient(), vec({11, 131})));
  CHECK(same_bits(*m.b.gradient(), vec({3, 22})));
}

TEST_CASE("[P8] a hook that accumulates into the same slots meanwhile loses nothing") {
  Model m;
  bool inside = false;
  m.b.on_accumulate([&](HookContext<Tensor>& context) {
    if (std::exchange(inside, true)) return;
    run(Spy(), {m.root}, into_slots());
    context.at_end([&] { CHECK(same_bits(*m.a.gradient(), vec({20, 260}))); });
  });
  run(Spy(), {m.root}, into_slots());
  CHECK(same_bits(*m.a.gradient(), vec({20, 260})));
  CHECK(same_bits(*m.b.gradient(), vec({2, 40})));
}

TEST_CASE("[P8] a leaf that is also read by its key alone keeps slot and hooks, whichever comes first") {
  for (const bool first : {false, true}) {
    for (const bool one_node : {false, true}) {
      Tape tape;
      Leaf<Tensor> x(tape.recorder.keys(), "x");
      int hooks = 0;
      x.on_accumulate([&](HookContext<Tensor>&) { ++hooks; });
      const Var slot = var(x, scalar(3));
      Var by_key = slot;
      by_key.first.trace = {};
      const Var other = tape.leaf(2.0);
      const Var a = first ? slot : by_key;
      const Var b = first ? by_key : slot;
      const Var out =
          one_node
              ? tape.apply<prim::mul>({a, b})
              : tape.apply<prim::add>({tape.apply<prim::mul>({a, other}), tape.apply<prim::mul>({b, other})});
      const auto gradients = run(Spy(), {root_of(out)}, into_slots());
      CHECK(gradients.find(x.key()) == nullptr);
      REQUIRE(x.gradient().has_value());
      CHECK(x.gradient()->item<double>() == (one_node ? 6 : 4));
      CHECK(hooks == 1);
    }
  }
}

TEST_CASE("[P8] requested values only: the other slots are left alone") {
  Model m;
  const auto gradients = run(Spy(), {m.root}, into_slots(), {Requested(m.b.key(), m.b.trace())});
  CHECK(same_bits(*m.b.gradient(), vec({1, 20})));
  CHECK(same_bits(*gradients.requested()[0].value, vec({1, 20})));
  CHECK_FALSE(m.a.gradient().has_value());
}

TEST_CASE("[P8] a slot is freed with its leaf, or when it is cleared") {
  const int before = Counted::live;
  {
    CountedTape tape;
    Leaf<Counted> leaf(tape.recorder.keys());
    leaf.set_gradient(Counted(scalar(1)));
    CHECK(Counted::live - before == 1);
    leaf.clear_gradient();
    CHECK(Counted::live == before);
    leaf.set_gradient(Counted(scalar(1)));
  }
  CHECK(Counted::live == before);
}

TEST_CASE("[P8] a gradient for a leaf without a Leaf is returned, and keeps nothing alive") {
  const int before = Counted::live;
  for (const bool in_call : {false, true}) {
    CAPTURE(in_call);
    CountedTape tape;
    auto leaf = std::make_unique<Leaf<Counted>>(tape.recorder.keys(), "w");
    const eager::Key key = leaf->key();
    const CountedVar x{EagerOutput{key, leaf->trace().hold(), true, 0}, Counted(scalar(0.5))};
    const CountedVar y = tape.apply<prim::exp>({x});
    const CountedVar out = tape.apply<prim::sin>({y});
    eager::before_node<Counted>(y.first.trace, [&](HookContext<Counted>&) { leaf.reset(); });
    if (!in_call) leaf.reset();
    BackwardOptions options = into_slots();
    options.create_graph = true;
    const auto gradients = tape.backward(out, options);
    REQUIRE(gradients.size() == 1);
    CHECK(gradients.at(key).item() == doctest::Approx(std::cos(std::exp(0.5)) * std::exp(0.5)));
  }
  CHECK(Counted::live == before);
}

}  // namespace
}  // namespace tidu::test
