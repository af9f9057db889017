// p_roots.cpp - P3, P4: roots and their seeds, and backward for chosen values alone.
#include "p_support.hpp"

namespace tidu::test {
namespace {

// Two outputs of one node.
std::vector<Var> sine_and_cosine(Tape& tape, const Var& x) {
  const RecordedGraph both = graph_of("both", {f64}, [](const auto& in) {
    return std::vector<Value>{ops::sin(in[0]), ops::cos(in[0])};
  });
  return tape.apply(both, {x});
}

TEST_CASE("[P3] several roots, each with a seed of its own, add up") {
  Tape tape;
  const Var x = tape.leaf(vec({0.2, 0.4, 0.6}));
  const Var a = tape.apply<prim::sin>({x});
  const Var b = tape.apply<prim::exp>({x});
  const Tensor u = vec({1.5, -2.0, 0.25});
  const Tensor v = vec({-0.5, 3.0, 1.25});
  const auto gradients = run(Spy(), {root_of(a, u), root_of(b, v), root_of(a, v)});
  const Tensor got = gradient(gradients, x);
  for (std::int64_t i = 0; i < 3; ++i) {
    const double at = x.second.at(i).real();
    CHECK(got.at(i).real() ==
          doctest::Approx((u.at(i).real() + v.at(i).real()) * std::cos(at) + v.at(i).real() * std::exp(at)));
  }
}

TEST_CASE("[P3] a root of one element has an implicit seed of one, whatever its shape") {
  Tape tape;
  const Var x = tape.leaf(Tensor::from<double>(Shape{1, 1}, {0.5}));
  const Var y = tape.apply<prim::sin>({x});
  const Tensor got = gradient(run(Spy(), {root_of(y)}), x);
  CHECK(got.shape() == Shape{1, 1});
  CHECK(got.item<double>() == doctest::Approx(std::cos(0.5)));
}

TEST_CASE("[P3] a missing or misshapen seed is refused before any work") {
  Tape tape;
  const Var x = tape.leaf(vec({0.2, 0.4}));
  const Var y = tape.apply<prim::sin>({x});
  const Var s = tape.apply<prim::exp>({tape.leaf(0.5)});
  Spy spy;
  int hooks = 0;
  eager::on_value<Tensor>(s.first.trace, s.first.key, [&](HookContext<Tensor>&) { ++hooks; });
  const auto refused = [&](const std::vector<Root>& roots, ErrorKind kind, const std::string& part) {
    CHECK(kind_of([&] { run(spy, roots); }) == kind);
    const std::string message = message_of([&] { run(spy, roots); });
    CAPTURE(message);
    CHECK(contains(message, part));
  };
  refused({root_of(s), root_of(y)}, ErrorKind::invalid_argument, "expected a seed for root 1");
  refused({root_of(y), root_of(s)}, ErrorKind::invalid_argument, "expected a seed for root 0");
  refused({root_of(s), root_of(y, vec({1, 2, 3}))}, ErrorKind::type, "got f64[3]");
  refused({root_of(s), root_of(y, scalar(1))}, ErrorKind::type, "expected a seed of type f64[2] for root 1");
  refused({root_of(s), root_of(y, Tensor::zeros(Type(f32, Shape{2})))}, ErrorKind::type, "f32[2]");
  CHECK(spy.num_calls() == 0);
  CHECK(hooks == 0);
  // Nothing was freed by the refused calls.
  CHECK(run(spy, {root_of(s), root_of(y, vec({1, 1}))}).size() == 2);
}

TEST_CASE("[P3] no root, and a root without a trace, are refused; a leaf may be a root") {
  Tape tape;
  Spy spy;
  CHECK(kind_of([&] { run(spy, {}); }) == ErrorKind::invalid_argument);
  const Var constant = tape.apply<prim::sin>({tape.constant(1.0)});
  CHECK(kind_of([&] { run(spy, {root_of(constant)}); }) == ErrorKind::invalid_argument);
  const Leaf<Tensor> leaf(tape.recorder.keys(), "w");
  const Var x = var(leaf, vec({1, 2}));
  const Var y = tape.apply<prim::mul>({x, x});
  CHECK(same_bits(gradient(run(spy, {root_of(x, vec({5, 6})), root_of(y, vec({1, 1}))}), x), vec({7, 10})));
  CHECK(spy.names() == std::vector<std::string>{"mul"});
}

TEST_CASE("[P3] a seed of the caller's is not changed by sums that are made in place") {
  Tape tape;
  const Leaf<Tensor> leaf(tape.recorder.keys());
  const Var x = var(leaf, vec({1, 2}));
  const Var y = tape.apply<prim::mul>({x, x});
  const Tensor seed = vec({5, 6});
  run(Spy(), {root_of(x, seed), root_of(y, vec({1, 1}))}, keep());
  CHECK(same_bits(seed, vec({5, 6})));
}

// x -> sin -> a -> exp -> b -> (mul by cos(z)) -> out
struct Diamond {
  Tape tape;
  Var x = tape.leaf(0.3);
  Var z = tape.leaf(0.8);
  Var a = tape.apply<prim::sin>({x});
  Var b = tape.apply<prim::exp>({a});
  Var c = tape.apply<prim::cos>({z});
  Var out = tape.apply<prim::mul>({b, c});
  double da() const { return std::cos(0.8) * std::exp(std::sin(0.3)); }
};

TEST_CASE("[P4] with requested inputs only nodes on a path to them run") {
  Diamond d;
  Spy spy;
  const auto gradients = run(spy, {root_of(d.out)}, keep(), {Requested(d.z.first)});
  CHECK(spy.names() == std::vector<std::string>{"mul", "cos"});
  CHECK(gradients.requested().size() == 1);
  CHECK(gradients.requested()[0].value->item<double>() ==
        doctest::Approx(-std::sin(0.8) * std::exp(std::sin(0.3))));
  CHECK(gradients.find(d.x.first.key) == nullptr);
  spy.clear();
  run(spy, {root_of(d.out)}, keep(), {Requested(d.x.first)});
  CHECK(spy.names() == std::vector<std::string>{"mul", "exp", "sin"});
}

TEST_CASE("[P4] the transposed graph computes nothing for operands that are off the path") {
  Diamond d;
  Spy spy;
  std::size_t results = 0;
  spy.after = [&](const Spy::Call&, std::vector<Tensor>& made) { results += made.size(); };
  run(spy, {root_of(d.out)}, keep(), {Requested(d.b.first)});
  CHECK(results == 1);
}

TEST_CASE("[P4] a captured intermediate: after the hooks on it, before its node, which does not run") {
  Diamond d;
  Spy spy;
  std::vector<std::string> log;
  spy.before = [&](const Spy::Call& call) {
    if (call.hook == "transposed") log.push_back(call.name);
  };
  eager::on_value<Tensor>(d.a.first.trace, d.a.first.key, [&](HookContext<Tensor>& context) {
    log.push_back("value");
    context.incoming().replace(scalar(2 * context.incoming()->item<double>()));
  });
  eager::before_node<Tensor>(d.a.first.trace, [&](HookContext<Tensor>& context) {
    log.push_back("before");
    context.incoming().replace(scalar(100.0));
  });
  const auto one = run(spy, {root_of(d.out)}, keep(), {Requested(d.a.first)});
  CHECK(one.requested()[0].value->item<double>() == doctest::Approx(2 * d.da()));
  CHECK(log == std::vector<std::string>{"mul", "exp", "value"});
  CHECK(one.size() == 0);
  // Together with a leaf after it the node runs, and the captured cotangent is from before that.
  log.clear();
  const auto both = run(spy, {root_of(d.out)}, keep(), {Requested(d.x.first), Requested(d.a.first)});
  CHECK(log == std::vector<std::string>{"mul", "exp", "value", "before", "sin"});
  CHECK(both.requested()[0].value->item<double>() == doctest::Approx(100 * std::cos(0.3)));
  CHECK(both.requested()[1].value->item<double>() == doctest::Approx(2 * d.da()));
}

TEST_CASE("[P4] the results come in the order of the request, leaves and intermediates mixed") {
  Diamond d;
  const std::vector<std::pair<Var, double>> all{{d.z, -std::sin(0.8) * std::exp(std::sin(0.3))},
                                                {d.a, d.da()},
                                                {d.out, 1.0},
                                                {d.x, d.da() * std::cos(0.3)},
                                                {d.b, std::cos(0.8)}};
  for (std::size_t turn = 0; turn < all.size(); ++turn) {
    std::vector<Requested> requested;
    for (std::size_t i = 0; i < all.size(); ++i)
      requested.push_back(all[(i + turn) % all.size()].first.first);
    const auto gradients = run(Spy(), {root_of(d.out)}, keep(), requested);
    REQUIRE(gradients.requested().size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [value, expected] = all[(i + turn) % all.size()];
      CHECK(gradients.requested()[i].key == value.first.key);
      CHECK(gradients.requested()[i].value->item<double>() == doctest::Approx(expected));
    }
  }
}

TEST_CASE("[P4] one output of a node with several can be captured") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const std::vector<Var> pair = sine_and_cosine(tape, x);
  const Var out = tape.apply<prim::mul>({pair[0], pair[1]});
  const auto gradients =
      run(Spy(), {root_of(out)}, keep(), {Requested(pair[1].first), Requested(pair[0].first)});
  CHECK(gradients.requested()[0].value->item<double>() == doctest::Approx(std::sin(0.3)));
  CHECK(gradients.requested()[1].value->item<double>() == doctest::Approx(std::cos(0.3)));
}

TEST_CASE("[P4] nodes on a path only to another output than the captured one do not run") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const std::vector<Var> pair = sine_and_cosine(tape, x);
  const Var first = tape.apply<prim::exp>({pair[0]});
  const Var second = tape.apply<prim::tanh>({pair[1]});
  const Var out = tape.apply<prim::add>({first, second});
  for (const BackwardOptions& options : {keep(), workers(2)}) {
    const Spy spy;
    const auto one = run(spy, {root_of(out)}, options, {pair[0].first});
    CHECK(spy.names() == std::vector<std::string>{"add", "exp"});
    CHECK(one.requested()[0].value->item<double>() == doctest::Approx(std::exp(std::sin(0.3))));
  }
  // With the node's own inputs wanted, all of it runs; an output that no root depends on is unreachable.
  const Spy spy;
  const auto all = run(spy, {root_of(out)}, keep(), {pair[1].first, x.first});
  CHECK(spy.names() == std::vector<std::string>{"add", "tanh", "exp", "both"});
  CHECK(all.requested()[1].absence == eager::Absence::none);
  const Spy other;
  const auto none = run(other, {root_of(first)}, keep(), {pair[1].first});
  CHECK(other.num_calls() == 0);
  CHECK(none.requested()[0].absence == eager::Absence::unreachable);
}

TEST_CASE("[P4] one output of a node is captured although its consumers read another one, too") {
  Tape tape;
  const Var x = tape.leaf(0.3), w = tape.leaf(0.7);
  const std::vector<Var> pair = sine_and_cosine(tape, x);
  const Var product = tape.apply<prim::mul>({pair[0], pair[1]});
  const Var apart =
      tape.apply<prim::add>({tape.apply<prim::exp>({pair[0]}), tape.apply<prim::mul>({pair[1], w})});
  for (const BackwardOptions& options : {keep(), workers(2)}) {
    const auto one = run(Spy(), {root_of(product)}, options, {pair[0].first});
    REQUIRE(one.requested()[0].value.has_value());
    CHECK(one.requested()[0].value->item<double>() == doctest::Approx(std::cos(0.3)));
    const auto other = run(Spy(), {root_of(product)}, options, {pair[1].first});
    REQUIRE(other.requested()[0].value.has_value());
    CHECK(other.requested()[0].value->item<double>() == doctest::Approx(std::sin(0.3)));
    const auto two = run(Spy(), {root_of(apart)}, options, {pair[0].first, w.first});
    REQUIRE(two.requested()[0].value.has_value());
    CHECK(two.requested()[0].value->item<double>() == doctest::Approx(std::exp(std::sin(0.3))));
    CHECK(two.requested()[1].value->item<double>() == doctest::Approx(std::cos(0.3)));
  }
}

// Looking through all outputs for each that is read would take hundreds of times as long.
TEST_CASE("[P4] very many outputs of one node can be captured, in linear time") {
  constexpr std::size_t count = 20000;
  Tape tape;
  const Var x = tape.leaf(0.3);
  const RecordedGraph split =
      graph_of("split", {f64}, [](const auto& in) { return std::vector<Value>(count, ops::sin(in[0])); });
  const RecordedGraph sum = graph_of("sum", std::vector<Type>(count, f64), [](const auto& in) {
    Value total = in[0];
    for (std::size_t i = 1; i < count; ++i) total = total + in[i];
    return std::vector<Value>{total};
  });
  const std::vector<Var> pieces = tape.apply(split, {x});
  const Var out = tape.apply(sum, pieces)[0];
  std::vector<Requested> requested;
  for (const Var& piece : pieces) requested.emplace_back(piece.first);
  const auto gradients = run(Interpreted(), {root_of(out)}, {}, requested);
  for (const auto& gradient : gradients.requested()) REQUIRE(gradient.value->item<double>() == 1.0);
}

TEST_CASE("[P4] the same value twice is refused, and the error for an absent one names the reason") {
  Diamond d;
  const Var unrelated = d.tape.leaf(1.0);
  const Var after = d.tape.apply<prim::sin>({d.out});
  Spy spy;
  CHECK(kind_of([&] {
          run(spy, {root_of(d.out)}, keep(), {Requested(d.x.first), Requested(d.x.first)});
        }) == ErrorKind::invalid_argument);
  CHECK(kind_of([&] {
          run(spy, {root_of(d.out)}, keep(), {d.a.first, d.x.first, d.a.first});
        }) == ErrorKind::invalid_argument);
  CHECK(spy.num_calls() == 0);
  const auto gradients =
      run(spy, {root_of(d.out)}, keep(), {unrelated.first, after.first, Requested(eager::Key{}), d.x.first});
  CHECK(gradients.requested()[0].absence == eager::Absence::unreachable);
  CHECK(gradients.requested()[1].absence == eager::Absence::unreachable);
  CHECK(gradients.requested()[2].absence == eager::Absence::not_recorded);
  CHECK(gradients.requested()[3].absence == eager::Absence::none);
  CHECK_FALSE(gradients.requested()[0].value.has_value());
}

}  // namespace
}  // namespace tidu::test
