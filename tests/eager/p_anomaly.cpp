// p_anomaly.cpp - P14: anomaly mode names the operation and its location in the program where a value first
// was not finite: the first in forward order, or the first in backward order.
#include <limits>

#include "p_support.hpp"

namespace tidu::test {
namespace {

using eager::NonFiniteError;
using Phase = NonFiniteError::Phase;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

BackwardOptions watched() {
  BackwardOptions options = keep();
  options.anomaly = true;
  return options;
}
template <class Body>
std::optional<NonFiniteError> caught(const Body& body) {
  try {
    body();
  } catch (const NonFiniteError& error) {
    return error;
  }
  return std::nullopt;
}
void says(const NonFiniteError& error, std::initializer_list<const char*> parts) {
  const std::string message = error.what();
  CAPTURE(message);
  for (const char* part : parts) {
    CAPTURE(part);
    CHECK(contains(message, part));
  }
}

TEST_CASE("[P14] the first non-finite cotangent: operation, place, statistics, path") {
  Tape tape;
  const Var x = tape.leaf(Tensor::from<double>(Shape{2, 2}, {4, 0, 9, 0}));
  const Var root = tape.apply<prim::sqrt>({x}, Where{"loss.cpp", 17});
  const Var sum = tape.apply(Op::make(prim::reduce_sum, {{"axes", Ints{0, 1}}}),
                             {tape.apply<prim::neg>({root})}, Where{"loss.cpp", 19});
  eager::set_name(sum.first.trace, sum.first.key, "loss");
  const auto error = caught([&] { run(Spy(), {root_of(sum)}, watched()); });
  REQUIRE(error.has_value());
  CHECK(error->kind() == ErrorKind::non_finite);
  CHECK(error->phase() == Phase::backward);
  CHECK(error->operation() == "sqrt");
  CHECK(error->where() == "loss.cpp:17");
  CHECK(error->sequence() == eager::NodeView(root.first.trace).sequence());
  says(*error, {"first appears in backward", "sqrt (loss.cpp:17)", "loss", "reduce_sum > neg > sqrt",
                "f64[2,2]", "[0,1]", "[1,1]", "2 zeros"});
}

TEST_CASE("[P14] of two nodes that make one the first in backward order is named") {
  Tape tape;
  const Var x = tape.leaf(0.0);
  const Var early = tape.apply<prim::sqrt>({x}, Where{"f.cpp", 1});
  const Var late = tape.apply<prim::sqrt>({early}, Where{"f.cpp", 2});
  const auto error = caught([&] { run(Spy(), {root_of(late)}, watched()); });
  REQUIRE(error.has_value());
  CHECK(error->where() == "f.cpp:2");
}

TEST_CASE("[P14] of a long path the beginning and the end are named, and a long tape takes no time for it") {
  constexpr int length = 40000;
  Tape tape;
  const Var x = tape.leaf(0.0);
  Var y = tape.apply<prim::sqrt>({x});
  for (int i = 0; i < length; ++i)
    y = i == length - 1 ? tape.apply<prim::sin>({y}) : tape.apply<prim::neg>({y});
  const auto error = caught([&] { run(Spy(), {root_of(y)}, watched()); });
  REQUIRE(error.has_value());
  CHECK(error->operation() == "sqrt");
  says(*error,
       {"along path sin > neg > neg > neg > neg > neg > neg > neg > ... 39985 more ... > neg > neg > neg > "
        "neg > neg > neg > neg > sqrt:"});
  const Var z = tape.leaf(0.0);
  y = tape.apply<prim::sqrt>({z});
  for (int i = 0; i < 16; ++i) y = tape.apply<prim::neg>({y});
  says(caught([&] { run(Spy(), {root_of(y)}, watched()); }).value(),
       {"neg > neg > ... 1 more ... > neg > neg"});
  y = tape.apply<prim::sqrt>({z});
  for (int i = 0; i < 15; ++i) y = tape.apply<prim::neg>({y});
  CHECK_FALSE(contains(caught([&] { run(Spy(), {root_of(y)}, watched()); }).value().what(), "more"));
}

TEST_CASE("[P14] a value of the forward that is not finite explains it: the first in forward order") {
  Tape tape;
  const Var x = tape.leaf(0.0);
  const Var first = tape.apply<prim::log>({x}, Where{"f.cpp", 1});
  const Var second = tape.apply<prim::exp>({first}, Where{"f.cpp", 2});
  const Var third = tape.apply<prim::mul>({second, first}, Where{"f.cpp", 3});
  const Var out = tape.apply<prim::sin>({third}, Where{"f.cpp", 4});
  const auto error = caught([&] { run(Spy(), {root_of(out)}, watched()); });
  REQUIRE(error.has_value());
  CHECK(error->phase() == Phase::forward);
  // The tape keeps operands, not all results: the first node that keeps one is the reader of log's result.
  CHECK((error->operation() == "mul" || error->operation() == "exp"));
  says(*error, {"first appears in forward", "met in backward of sin (f.cpp:4)"});
}

TEST_CASE("[P14] a recorder in anomaly mode stops at the operation that makes one") {
  eager::RecorderOptions options;
  options.anomaly = true;
  Tape tape(options);
  const Var x = tape.leaf(vec({1, 0, 2}));
  const Var y = tape.apply<prim::exp>({x});
  const auto recorded = tape.recorder.num_recorded();
  const auto error = caught([&] { tape.apply<prim::log>({x}, Where{"f.cpp", 5}); });
  REQUIRE(error.has_value());
  CHECK(error->phase() == Phase::forward);
  CHECK(error->operation() == "log");
  CHECK(error->where() == "f.cpp:5");
  says(*error, {"forward of log (f.cpp:5)", "output 0", "f64[3]", "[1]", "input 0"});
  CHECK(tape.recorder.num_recorded() == recorded);
  // Also where nothing requires a gradient; and the tape is as it was.
  CHECK(caught([&] { tape.apply<prim::log>({tape.constant(0.0)}); }).has_value());
  CHECK(run(Spy(), {root_of(y, vec({1, 1, 1}))}).size() == 1);
}

TEST_CASE("[P14] a seed that is not finite") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2}));
  const Var y = tape.apply<prim::sin>({x}, Where{"f.cpp", 6});
  Spy spy;
  const auto error = caught([&] { run(spy, {root_of(y, vec({1, nan}))}, watched()); });
  REQUIRE(error.has_value());
  CHECK(error->phase() == Phase::seed);
  says(*error, {"non-finite seed", "sin", "f.cpp:6", "[1]"});
  CHECK(spy.num_calls() == 0);
  CHECK(caught([&] { run(spy, {root_of(y, vec({inf, 1}))}, watched()); }).has_value());
}

TEST_CASE("[P14] in second order the operation of the backward's own tape is named, at the forward's place") {
  Tape tape;
  const Var x = tape.leaf(0.0);
  const Var y = tape.apply<prim::pow>({x, tape.constant(1.5)}, Where{"f.cpp", 7});
  BackwardOptions options = watched();
  options.create_graph = true;
  const auto first = run(Spy(), {root_of(y)}, options, {}, &tape.recorder);
  const auto* entry = first.entry_of(x.first.key);
  REQUIRE(entry != nullptr);
  CHECK(entry->value->item<double>() == 0.0);
  const Var slope{entry->recorded, *entry->value};
  const auto error = caught([&] { run(Spy(), {root_of(slope)}, watched()); });
  REQUIRE(error.has_value());
  CHECK(error->operation() == "backward of pow");
  CHECK(error->where() == "f.cpp:7");
}

TEST_CASE("[P14] a sum of finite cotangents that overflows is found where they meet") {
  Tape tape;
  const Var x = tape.leaf(1.0);
  const Var y = tape.apply<prim::neg>({x}, Where{"f.cpp", 8});
  const Var big = tape.constant(1e308);
  for (const Var& meeting : {y, x}) {
    const Var a = tape.apply<prim::mul>({meeting, big}, Where{"f.cpp", 9});
    const Var b = tape.apply<prim::mul>({meeting, big}, Where{"f.cpp", 10});
    const Var sum = tape.apply<prim::add>({a, b});
    const auto error = caught([&] { run(Spy(), {root_of(sum)}, watched()); });
    REQUIRE(error.has_value());
    CHECK(error->phase() == Phase::backward);
    says(*error, {"sum"});
  }
}

TEST_CASE("[P14] a cotangent that a hook spoiled is not blamed on the operation alone") {
  Tape tape;
  const Var x = tape.leaf(1.0);
  const Var y = tape.apply<prim::sin>({x}, Where{"f.cpp", 11});
  eager::on_value<Tensor>(y.first.trace, y.first.key,
                          [](HookContext<Tensor>& context) { context.incoming().replace(scalar(inf)); });
  const auto error = caught([&] { run(Spy(), {root_of(y)}, watched()); });
  REQUIRE(error.has_value());
  says(*error, {"sin", "f.cpp:11", "hook"});
  CHECK_FALSE(contains(error->what(), "its incoming cotangent is finite"));
}

TEST_CASE("[P14] a cotangent that a hook after a node spoiled is found if nothing else checks it") {
  Tape tape;
  const Var x = tape.leaf(0.5);
  const Var y = tape.apply<prim::sin>({x}, Where{"f.cpp", 12});
  const Var z = tape.apply<prim::exp>({y}, Where{"f.cpp", 13});
  const auto spoil = [](HookContext<Tensor>& context) { context.outgoing(0).replace(scalar(nan)); };
  eager::after_node<Tensor>(y.first.trace, spoil);
  const auto leaf = caught([&] { run(Spy(), {root_of(y)}, watched()); });
  REQUIRE(leaf.has_value());
  CHECK(leaf->operation() == "sin");
  says(*leaf, {"cotangent of input 0 of sin, recorded at f.cpp:12, which a hook left so", "1 NaN"});
  eager::after_node<Tensor>(z.first.trace, spoil);
  const auto captured = caught([&] { run(Spy(), {root_of(z)}, watched(), {Requested(y.first)}); });
  REQUIRE(captured.has_value());
  says(*captured, {"cotangent of input 0 of exp, recorded at f.cpp:13, which a hook left so"});
}

TEST_CASE("[P14] of a composite graph the operation within it is named, forward and backward") {
  const auto composite = [](const auto& last) {
    return graph_of("layer", {Type(f64, {2})}, [&](const std::vector<Value>& x) {
      const Value s = ops::sub(x[0], ops::full_like(x[0], 1.0), Where{"layer.cpp", 3});
      return std::vector<Value>{ops::neg(last(s, Where{"layer.cpp", 4}))};
    });
  };
  const auto record = [](Tape& tape, const RecordedGraph& graph, const Var& x) {
    const Tensor result = reference().run(graph.graph(), {x.second})[0];
    return Var{tape.recorder.record_graph(graph, std::vector<eager::EagerInput<Tensor>>{{x.first, x.second}},
                                          std::span(&result, 1), {}, Where{"model.cpp", 9})[0],
               result};
  };
  Tape plain;
  const Var x = plain.leaf(vec({5, 1}));
  const Var root = record(plain, composite([](Value v, Where w) { return ops::sqrt(v, w); }), x);
  const auto backward = caught([&] { run(Spy(), {root_of(root, vec({1, 1}))}, watched()); });
  REQUIRE(backward.has_value());
  says(*backward, {"layer (model.cpp:9)", "within it first in the derivative of operation",
                   "sqrt (layer.cpp:4): the result of", "f64[2] has 1 infinity, at [1]"});

  // A residual that is computed anew: x^(-1/2), where nothing else was kept.
  const Var power =
      record(plain, composite([](Value v, Where w) { return ops::rsqrt(ops::square(v), w); }), x);
  const auto residual = caught([&] { run(Spy(), {root_of(power, vec({1, 1}))}, watched()); });
  REQUIRE(residual.has_value());
  says(*residual, {"non-finite", "layer (model.cpp:9)"});

  eager::RecorderOptions options;
  options.anomaly = true;
  Tape stops(options);
  const Var y = stops.leaf(vec({5, 1}));
  const auto forward =
      caught([&] { record(stops, composite([](Value v, Where w) { return ops::log(v, w); }), y); });
  REQUIRE(forward.has_value());
  says(*forward, {"forward of layer (model.cpp:9)", "within it first in operation", "log (layer.cpp:4)",
                  "its result f64[2] has 1 infinity, at [1]"});
}

// Checks watched values at the end, as an executor of a device does.
class Later final : public Interpreted {
 public:
  bool watch_finite(const Tensor& tensor, const std::function<void()>& report) const override {
    if (!all_finite(tensor)) due_.push_back(report);
    return true;
  }
  void check_watched() const override {
    for (const std::function<void()>& report : std::exchange(due_, {})) report();
  }

 private:
  mutable std::vector<std::function<void()>> due_;
};

TEST_CASE(
    "[P14] findings of an executor for a failed call are not reported by the next, nor by one around it") {
  const Later later;
  Tape tape;
  const Var x = tape.leaf(0.0);
  const Var bad = tape.apply<prim::sqrt>({x});
  HookHandle fails = eager::after_node<Tensor>(
      bad.first.trace, [](HookContext<Tensor>&) { throw Error(ErrorKind::execution, "hook"); });
  const Var w = tape.leaf(1.0);
  const Var good = tape.apply<prim::sin>({w});
  CHECK(contains(message_of([&] { run(later, {root_of(bad)}, watched()); }), "hook"));
  CHECK(message_of([&] { run(later, {root_of(good)}, watched()); }) == "");
  HookHandle nests = eager::before_node<Tensor>(good.first.trace, [&](HookContext<Tensor>&) {
    CHECK_THROWS_AS(run(later, {root_of(bad)}, watched()), Error);
  });
  CHECK(message_of([&] { run(later, {root_of(good)}, watched()); }) == "");
  fails.remove();
  nests.remove();
  CHECK(caught([&] { run(later, {root_of(bad)}, watched()); }).has_value());
}

TEST_CASE("[P14] a finding of a nested call about the one around it is raised by that one") {
  const Later later;
  Tape tape;
  const Var inner = tape.apply<prim::sin>({tape.leaf(1.0)});
  const Var between = tape.apply<prim::sin>({tape.leaf(0.0)});
  const Var bad = tape.apply<prim::sqrt>({between}, Where{"f.cpp", 3});
  const HookHandle nests = eager::before_node<Tensor>(between.first.trace, [&](HookContext<Tensor>&) {
    CHECK(message_of([&] { run(later, {root_of(inner)}, watched()); }) == "");
  });
  const auto error = caught([&] { run(later, {root_of(bad)}, watched()); });
  REQUIRE(error.has_value());
  CHECK(error->where() == "f.cpp:3");
  CHECK(message_of([&] { run(later, {root_of(inner)}, watched()); }) == "");
}

TEST_CASE("[P14] for sums of seeds, and of a slot with a cotangent, no operation is named") {
  Tape tape;
  Leaf<Tensor> w(tape.recorder.keys(), "w");
  const Var y = tape.apply<prim::neg>({var(w, scalar(0.0))});
  const Root root = root_of(y, scalar(1.5e308));
  const auto seeds = caught([&] { run(Spy(), {root, root}, watched()); });
  REQUIRE(seeds.has_value());
  CHECK(seeds->sequence() == 0);
  says(*seeds, {"in the sum of the seeds of a value: it f64[] has 1 infinity"});
  w.set_gradient(scalar(-1.5e308));
  BackwardOptions options = watched();
  options.accumulate = true;
  const auto slot = caught([&] { run(Spy(), {root}, options); });
  REQUIRE(slot.has_value());
  CHECK(slot->sequence() == 0);
  says(*slot, {"in the sum of what the slot of a leaf holds and the gradient that is added to it",
               "in add_operands of leaf \"w\""});
}

TEST_CASE("[P14] a sum in a slot that overflows is found before the slot has it") {
  const Later later;
  const Spy spy;
  Tape tape;
  Leaf<Tensor> w(tape.recorder.keys(), "w");
  const Var y = tape.apply<prim::neg>({var(w, scalar(0.0))});
  w.set_gradient(scalar(-1.5e308));
  BackwardOptions options = watched();
  options.accumulate = true;
  for (const bool at_once : {true, false}) {
    const auto error = caught([&] {
      if (at_once) {
        run(spy, {root_of(y, scalar(1.5e308))}, options);
      } else {
        run(later, {root_of(y, scalar(1.5e308))}, options);
      }
    });
    REQUIRE(error.has_value());
    CHECK(w.gradient()->item<double>() == -1.5e308);
    CHECK(message_of([&] { run(later, {root_of(y)}, options); }) == "");
    w.set_gradient(scalar(-1.5e308));
  }
}

class Counting final : public Interpreted {
 public:
  std::optional<bool> is_finite(const Tensor& tensor) const override {
    ++asked;
    return all_finite(tensor);
  }
  mutable int asked = 0;
};

TEST_CASE("[P14] off, no value is looked at, and nothing stops a NaN") {
  const Counting executor;
  Tape tape;
  const Var x = tape.leaf(0.0);
  const Var y = tape.apply<prim::sqrt>({x});
  CHECK(item(run(executor, {root_of(y)}, keep()), x) == inf);
  CHECK(executor.asked == 0);
  CHECK(caught([&] { run(executor, {root_of(y)}, watched()); }).has_value());
  CHECK(executor.asked > 0);
  // On, finite gradients are as they were.
  const Var z = tape.apply<prim::sin>({tape.leaf(0.5)});
  CHECK(run(executor, {root_of(z)}, watched()).leaves()[0].value->item<double>() == std::cos(0.5));
}

}  // namespace
}  // namespace tidu::test
