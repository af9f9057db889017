// p_streams.cpp - P11: nodes run on the stream of their forward, and read only values that they waited for.
#include <algorithm>

#include "p_device.hpp"

namespace tidu::test {
namespace {

constexpr Placement s0{0, 0}, s1{0, 1}, s2{0, 2}, s3{0, 3};

std::size_t index_of(const std::vector<std::string>& log, const std::string& line) {
  return static_cast<std::size_t>(std::find(log.begin(), log.end(), line) - log.begin());
}

TEST_CASE("[P11] a node runs on the stream of its forward and waits for the stream of its cotangent") {
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, s1);
  const PlacedVar a = tape.apply<prim::sin>({x}, s1);
  const PlacedVar b = tape.apply<prim::exp>({a}, s2);
  const On caller(s2);
  machine.clear();
  const auto gradients = run(machine, {placed_root(b)}, keep());
  CHECK(gradients.at(x.first.key).item() == doctest::Approx(std::exp(std::sin(0.3)) * std::cos(0.3)));
  const auto log = machine.log();
  CHECK(index_of(log, "run exp on d0s2") < index_of(log, "record d0s2"));
  CHECK(index_of(log, "record d0s2") < index_of(log, "d0s1 waits for d0s2"));
  CHECK(index_of(log, "d0s1 waits for d0s2") < index_of(log, "run sin on d0s1"));
  CHECK(index_of(log, "run sin on d0s1") < log.size());
  CHECK(machine.first_race() == "");
}

TEST_CASE("[P11] on one stream there are no waits") {
  Machine machine;
  MachineTape tape(machine);
  const On caller(s1);
  const PlacedVar x = tape.leaf(0.3, s1);
  const PlacedVar y = tape.apply<prim::mul>({tape.apply<prim::sin>({x}, s1), x}, s1);
  machine.clear();
  run(machine, {placed_root(y)});
  for (const std::string& line : machine.log()) CHECK(line.starts_with("run "));
}

TEST_CASE("[P11] where cotangents of several streams meet, the sum waits for all of them") {
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, s0);
  const PlacedVar y = tape.apply<prim::sin>({x}, s0);
  const PlacedVar a = tape.apply<prim::exp>({y}, s1);
  const PlacedVar b = tape.apply<prim::cos>({y}, s2);
  const PlacedVar out = tape.apply<prim::mul>({a, b}, s3);
  for (const auto order : {eager::Order::latest_first, eager::Order::fifo}) {
    BackwardOptions options = keep();
    options.order = order;
    machine.clear();
    run(machine, {placed_root(out)}, options);
    const auto log = machine.log();
    const std::size_t sum = index_of(log, "run add on d0s0");
    CHECK(sum < log.size());
    CHECK(index_of(log, "d0s0 waits for d0s1") < sum);
    CHECK(index_of(log, "d0s0 waits for d0s2") < sum);
    CHECK(machine.first_race() == "");
  }
}

TEST_CASE("[P11] at the end the caller's stream waits for the streams of the leaves") {
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, s1);
  const PlacedVar w = tape.leaf(0.7, s2);
  const PlacedVar a = tape.apply<prim::sin>({x}, s1);
  const PlacedVar b = tape.apply<prim::exp>({w}, s2);
  const PlacedVar out = tape.apply<prim::mul>({a, b}, s0);
  const On caller(s3);
  machine.clear();
  const auto gradients = run(machine, {placed_root(out)});
  for (const PlacedVar& leaf : {x, w}) {
    CHECK(machine.readable(gradients.at(leaf.first.key), s3));
    CHECK_FALSE(machine.readable(gradients.at(leaf.first.key), Placement{0, 9}));
  }
  CHECK(machine.first_race() == "");
}

TEST_CASE("[P11] also for slots, and for values that were captured") {
  Machine machine;
  MachineTape tape(machine);
  Leaf<Placed> leaf(tape.recorder.keys(), "w", s1);
  const PlacedVar w{EagerOutput{leaf.key(), leaf.trace().hold(), true, 0}, machine.make(scalar(0.3), s1)};
  const PlacedVar a = tape.apply<prim::sin>({w}, s2);
  const PlacedVar out = tape.apply<prim::exp>({a}, s0);
  const On caller(s3);
  BackwardOptions options = keep();
  options.accumulate = true;
  for (int call = 1; call <= 3; ++call) {
    run(machine, {placed_root(out)}, options);
    CHECK(machine.readable(*leaf.gradient(), s3));
    if (call > 1) CHECK(leaf.gradient()->at == s1);  // sums are made on the leaf's stream
    CHECK(leaf.gradient()->item() == doctest::Approx(call * std::exp(std::sin(0.3)) * std::cos(0.3)));
  }
  const std::vector<Requested> wanted{Requested(a.first)};
  const std::vector<eager::Root<Placed>> roots{placed_root(out)};
  const auto gradients = eager::backward<Placed>(roots, machine, keep(), wanted);
  CHECK(machine.readable(*gradients.requested()[0].value, s3));
  CHECK(machine.first_race() == "");
}

TEST_CASE("[P11] a gradient that was put into a slot on another stream is waited for") {
  Machine machine;
  MachineTape tape(machine);
  Leaf<Placed> leaf(tape.recorder.keys(), "w", s1);
  const PlacedVar w{EagerOutput{leaf.key(), leaf.trace().hold(), true, 0}, machine.make(scalar(0.3), s1)};
  const PlacedVar y = tape.apply<prim::sin>({w}, s1);
  BackwardOptions options = keep();
  options.accumulate = true;
  const auto put = [&](Placement at, std::optional<Placement> said) {
    leaf.set_gradient(machine.make(scalar(1.0), at), {}, said);
    run(machine, {placed_root(y)}, options);
    CHECK(leaf.gradient()->item() == doctest::Approx(1 + std::cos(0.3)));
    CHECK(machine.first_race() == "");
  };
  put(s2, s2);
  put(s1, std::nullopt);  // the leaf's
}

TEST_CASE("[P11] a seed that was made on another stream is waited for") {
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, s1);
  const PlacedVar y = tape.apply<prim::sin>({x}, s1);
  {
    const On caller(s2);  // where seeds come from when nothing else is said
    eager::Root<Placed> root = placed_root(y);
    root.seed = machine.make(scalar(2.0), s2);
    run(machine, {root}, keep());
    CHECK(machine.first_race() == "");
  }
  eager::Root<Placed> root = placed_root(y);
  root.seed = machine.make(scalar(2.0), s3);
  root.seed_placement = s3;
  machine.clear();
  const auto gradients = run(machine, {root}, keep());
  CHECK(index_of(machine.log(), "d0s1 waits for d0s3") < index_of(machine.log(), "run sin on d0s1"));
  CHECK(gradients.at(x.first.key).item() == doctest::Approx(2 * std::cos(0.3)));
  CHECK(machine.first_race() == "");
}

TEST_CASE("[P11] a result of a hook on the running thread's stream is waited for") {
  Machine machine;
  MachineTape tape(machine);
  Leaf<Placed> leaf(tape.recorder.keys(), "w", s1);
  const PlacedVar w{EagerOutput{leaf.key(), leaf.trace().hold(), true, 0}, machine.make(scalar(0.3), s1)};
  const PlacedVar a = tape.apply<prim::sin>({w}, s1);
  const PlacedVar out = tape.apply<prim::exp>({a}, s2);
  const On caller(s3);
  const auto change = [&](auto& context) { context.incoming().replace(machine.make(scalar(2.0), s3)); };
  eager::on_value<Placed>(out.first.trace, out.first.key, change);
  eager::before_node<Placed>(a.first.trace, change);
  eager::after_node<Placed>(out.first.trace, [&](eager::HookContext<Placed>& context) {
    context.outgoing(0).replace(machine.make(scalar(5.0), s3));
  });
  leaf.on_value(change);
  BackwardOptions options = keep();
  options.accumulate = true;
  for (int call = 1; call <= 2; ++call) {
    run(machine, {placed_root(out)}, options);
    CHECK(leaf.gradient()->item() == 2.0 * call);
    CHECK(machine.readable(*leaf.gradient(), s3));
  }
  CHECK(machine.first_race() == "");
}

TEST_CASE("[P11] a result of a hook after a node may be read on the node's stream by later hooks") {
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, s1);
  const PlacedVar y = tape.apply<prim::sin>({x}, s1);
  eager::after_node<Placed>(y.first.trace, [&](eager::HookContext<Placed>& context) {
    context.outgoing(0).replace(machine.make(scalar(2.0), s3));
  });
  int seen = 0;
  eager::after_node<Placed>(y.first.trace, [&](eager::HookContext<Placed>& context) {
    CHECK(machine.readable(*context.outgoing(0), s1));
    ++seen;
  });
  const On caller(s3);
  run(machine, {placed_root(y)});
  CHECK(seen == 1);
}

TEST_CASE("[P11] random programs over many streams have no race, backward and at the end") {
  std::mt19937 random(11);
  for (std::uint32_t round = 0; round < 60; ++round) {
    Machine machine;
    MachineTape tape(machine);
    const auto stream = [&] { return Placement{0, random() % 5}; };
    std::vector<PlacedVar> leaves;
    std::vector<PlacedVar> values;
    for (int i = 0; i < 3; ++i) leaves.push_back(tape.leaf(0.1 * (i + 1), stream()));
    values = leaves;
    for (int i = 0; i < 25; ++i) {
      const PlacedVar a = values[random() % values.size()];
      const PlacedVar b = values[random() % values.size()];
      values.push_back(i % 3 == 0 ? tape.apply<prim::sin>({a}, stream())
                                  : tape.apply<prim::mul>({a, b}, stream()));
    }
    const On caller(stream());
    BackwardOptions options = keep();
    options.order = static_cast<eager::Order>(round % 4);
    std::vector<eager::Root<Placed>> roots{placed_root(values.back()),
                                           placed_root(values[values.size() - 2])};
    roots[0].seed = machine.make(scalar(0.5), s3);
    roots[0].seed_placement = s3;
    const auto gradients = run(machine, roots, options);
    CHECK(machine.first_race() == "");
    for (const auto& leaf : gradients.leaves()) CHECK(machine.readable(*leaf.value, Machine::here()));
  }
}

TEST_CASE("[P12] a result of a node on another device is refused") {
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, s0);
  const PlacedVar y = tape.apply<prim::sin>({x}, s0);
  machine.lie_about_device = [](const Placed&) { return std::optional<std::uint32_t>(3); };
  CHECK(kind_of([&] { run(machine, {placed_root(y)}, keep()); }) == ErrorKind::type);
  const std::string message = message_of([&] { run(machine, {placed_root(y)}, keep()); });
  CAPTURE(message);
  CHECK(contains(message, "sin"));
  CHECK(contains(message, "on device 0, got device 3"));
  machine.lie_about_device = nullptr;
  CHECK(run(machine, {placed_root(y)}, keep()).size() == 1);
}

TEST_CASE("[P12] so is a hook's replacement on another device") {
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, s0);
  const PlacedVar y = tape.apply<prim::sin>({x}, s0);
  HookHandle hook =
      eager::on_value<Placed>(y.first.trace, y.first.key, [&](eager::HookContext<Placed>& context) {
        context.incoming().replace(machine.make(scalar(2.0), {3, 0}));
      });
  const std::string message = message_of([&] { run(machine, {placed_root(y)}, keep()); });
  CAPTURE(message);
  for (const char* part : {"sin", "hook", "device 0", "device 3"}) CHECK(contains(message, part));
  hook.remove();
  CHECK(run(machine, {placed_root(y)}, keep()).size() == 1);
}

}  // namespace
}  // namespace tidu::test
