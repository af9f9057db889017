// t_hazards.cpp - [T10] programs whose eager gradient other libraries get wrong without a word, misuse that
// they accept, and random programs against derivatives by dual numbers.
#include <random>

#include "counted.hpp"
#include "support/support.hpp"

namespace tidu::test::counted {
namespace {

using Seeds = std::vector<std::pair<const Var*, double>>;

eager::Gradients<Counted> backward_from(CountedTape& tape, const Seeds& seeds,
                                        const BackwardOptions& options = {}) {
  std::vector<eager::Root<Counted>> roots;
  for (const auto& [var, seed] : seeds) {
    eager::Root<Counted> root;
    root.key = var->who.key;
    root.trace = var->who.trace;
    root.seed = Counted(seed);
    roots.push_back(std::move(root));
  }
  return eager::backward<Counted>(roots, tape.executor, options, {}, &tape.recorder);
}

TEST_CASE("[T10] a node that returns the same value twice") {
  const RecordedGraph graph = graph_of(1, [](std::vector<Value> v) {
    const Value y = v[0] * v[0];
    return std::vector{y, y};
  });
  CountedTape tape;
  const Var x = tape.leaf(2.0);
  const std::vector<Var> y = tape.apply(graph, {&x});
  SUBCASE("both read by later nodes: y1 + 10 y2") {
    const Var z = tape.apply<prim::add>(y[0], tape.apply<prim::mul>(CountedTape::constant(10.0), y[1]));
    CHECK(tape.backward(z).at(x.who.key).value == 44.0);
  }
  SUBCASE("both as roots, seeds 3 and 10") {
    CHECK(backward_from(tape, {{&y[0], 3.0}, {&y[1], 10.0}}).at(x.who.key).value == 52.0);
  }
  SUBCASE("one of them") { CHECK(backward_from(tape, {{&y[1], 10.0}}).at(x.who.key).value == 40.0); }
  SUBCASE("one of them twice") {
    CHECK(backward_from(tape, {{&y[1], 3.0}, {&y[1], 10.0}}).at(x.who.key).value == 52.0);
  }
}

TEST_CASE("[T10] a node that returns its input beside something else: (x + c, x), seeds 3 and 10") {
  const RecordedGraph graph = graph_of(2, [](std::vector<Value> v) {
    return std::vector{v[0] + v[1], v[0]};
  });
  CountedTape tape;
  const Var x = tape.leaf(2.0);
  const Var c = CountedTape::constant(5.0);
  const std::vector<Var> y = tape.apply(graph, {&x, &c});
  CHECK(backward_from(tape, {{&y[0], 3.0}, {&y[1], 10.0}}).at(x.who.key).value == 13.0);
}

TEST_CASE("[T10] shared factors and sums, as one node and operation by operation") {
  const Var c = CountedTape::constant(5.0), a = CountedTape::constant(7.0);
  SUBCASE("(x + c) a + x a") {
    CountedTape tape;
    const Var x = tape.leaf(1.5);
    const Var sum = tape.apply<prim::mul>(tape.apply<prim::add>(x, c), a);
    CHECK(tape.backward(tape.apply<prim::add>(sum, tape.apply<prim::mul>(x, a))).at(x.who.key).value == 14.0);
    const RecordedGraph graph =
        graph_of(3, [](std::vector<Value> v) { return std::vector{(v[0] + v[1]) * v[2] + v[0] * v[2]}; });
    CHECK(tape.backward(tape.apply(graph, {&x, &c, &a}, false).front()).at(x.who.key).value == 14.0);
  }
  SUBCASE("(x + c) x + x x") {
    CountedTape tape;
    const Var x = tape.leaf(2.0);
    const Var sum = tape.apply<prim::mul>(tape.apply<prim::add>(x, c), x);
    CHECK(tape.backward(tape.apply<prim::add>(sum, tape.apply<prim::mul>(x, x))).at(x.who.key).value == 13.0);
    const RecordedGraph graph =
        graph_of(2, [](std::vector<Value> v) { return std::vector{(v[0] + v[1]) * v[0] + v[0] * v[0]}; });
    CHECK(tape.backward(tape.apply(graph, {&x, &c}, false).front()).at(x.who.key).value == 13.0);
  }
}

TEST_CASE("[T10] exp(x)^2 as one node, of which nothing was retained, to the second order") {
  const RecordedGraph graph = graph_of(1, [](std::vector<Value> v) {
    const Value e = ops::exp(v[0]);
    return std::vector{e * e};
  });
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Var y = std::move(tape.apply(graph, {&x}, false).front());
  BackwardOptions options;
  options.create_graph = true;
  const auto first = tape.backward(y, options);
  CHECK(first.at(x.who.key).value == doctest::Approx(2 * std::exp(1.0)));
  const auto* entry = first.entry_of(x.who.key);
  REQUIRE(entry->recorded.trace);
  const auto second = tape.backward({entry->recorded, *entry->value});
  CHECK(second.at(x.who.key).value == doctest::Approx(4 * std::exp(1.0)));
}

TEST_CASE("[T10] x x differentiated twice: the second derivative is 2") {
  CountedTape tape;
  const Var x = tape.leaf(3.0);
  BackwardOptions options;
  options.create_graph = true;
  const auto first = tape.backward(tape.apply<prim::mul>(x, x), options);
  const auto* entry = first.entry_of(x.who.key);
  CHECK(entry->value->value == 6.0);
  CHECK(tape.backward({entry->recorded, *entry->value}).at(x.who.key).value == 2.0);
}

TEST_CASE("[T10] misuse is an error with the expected argument") {
  CountedTape tape;
  const Var x = tape.leaf(3.0);
  const Var y = tape.apply<prim::sin>(x), z = tape.apply<prim::exp>(x);
  const auto refuse = [](const auto& call, std::string_view says) {
    try {
      (void)call();
      FAIL("expected an error that says ", std::string(says));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::invalid_argument);
      CHECK_MESSAGE(std::string_view(error.what()).find(says) != std::string_view::npos, error.what());
    }
  };
  Var mixed = y;
  mixed.who.key = z.who.key;  // another node's output
  refuse([&] { return tape.backward(mixed); }, "the key of an output of the trace");
  mixed.who.key = {y.who.key.source, y.who.key.counter + 1};  // an output that there is not
  refuse([&] { return tape.backward(mixed); }, "the key of an output of the trace");
  refuse([&] { return tape.backward(CountedTape::constant(1.0)); }, "root 0 to be recorded");
  refuse([&] { return backward_from(tape, {}); }, "at least one root");
  const eager::Requested twice[] = {x.who, x.who};
  refuse([&] { return tape.backward(y, {}, twice); }, "twice");
  BackwardOptions options;
  options.create_graph = true;
  eager::Root<Counted> root;
  root.key = y.who.key;
  root.trace = y.who.trace;
  refuse([&] { return eager::backward<Counted>(std::span(&root, 1), tape.executor, options); },
         "expected a recorder");
  // A root of several elements without a seed.
  eager::Recorder<Tensor> recorder(&reference());
  const Tensor v = Tensor::from<double>(Shape{2}, {1.0, 2.0});
  EagerOutput leaf;
  leaf.key = recorder.keys().fresh();
  leaf.requires_grad = true;
  const EagerOutput sin = recorder.record(plain_op<prim::sin>(), {EagerInput<Tensor>(leaf, v)}, v);
  refuse([&] { return eager::try_backward<Tensor>(sin.key, sin.trace, {}, reference()).value(); },
         "expected a seed for root 0 (of type f64[2]");
  // A requested value that is none of its trace.
  const eager::Requested wrong[] = {eager::Requested(z.who.key, y.who.trace)};
  refuse([&] { return tape.backward(y, {}, wrong); }, "requested value");
  // All of it left the tape as it was.
  CHECK(tape.backward(y).at(x.who.key).value == doctest::Approx(std::cos(3.0)));
}

TEST_CASE("[T10] one leaf asked for once, however many names it has in a program") {
  CountedTape tape;
  const Var x = tape.leaf(3.0);
  const eager::Requested requested[] = {x.who};
  const Var y = tape.apply<prim::mul>(x, x);
  BackwardOptions options;
  options.keep_graph = true;
  // Two calls on one tape do not see each other.
  CHECK(tape.backward(y, options, requested).requested()[0].value->value == 6.0);
  CHECK(tape.backward(y, options, requested).requested()[0].value->value == 6.0);
}

// --- random programs

// A value and its derivative along one direction.
struct Dual {
  double x, dx;
};

// A random graph with `inputs` inputs; results may be inputs, repeated, or independent of some inputs.
struct RandomLayer {
  struct Step {
    int op;
    std::size_t a, b;
  };
  std::size_t inputs;
  std::vector<Step> steps;
  std::vector<std::size_t> outputs;

  RandomLayer(std::mt19937& random, std::size_t num_inputs, bool single) : inputs(num_inputs) {
    const auto below = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
    };
    const std::size_t count = single ? 1 : 1 + below(6);
    for (std::size_t i = 0; i < count; ++i)
      steps.push_back({static_cast<int>(below(5)), below(inputs + i), below(inputs + i)});
    if (single) {
      outputs = {inputs};
    } else {
      const std::size_t results = 1 + below(3);
      for (std::size_t i = 0; i < results; ++i) outputs.push_back(below(inputs + count));
    }
  }
  template <class T, class Apply>
  std::vector<T> run(std::vector<T> values, const Apply& apply) const {
    for (const Step& step : steps) values.push_back(apply(step.op, values[step.a], values[step.b]));
    std::vector<T> results;
    for (const std::size_t i : outputs) results.push_back(values[i]);
    return results;
  }
  RecordedGraph graph() const {
    return graph_of(inputs, [&](std::vector<Value> values) {
      return run(std::move(values), [](int op, Value a, Value b) {
        switch (op) {
          case 0: return a + b;
          case 1: return a * b;
          case 2: return -a;
          case 3: return ops::sin(a);
          default: return a - b;
        }
      });
    });
  }
  std::vector<Dual> duals(std::vector<Dual> values) const {
    return run(std::move(values), [](int op, Dual a, Dual b) -> Dual {
      switch (op) {
        case 0: return {a.x + b.x, a.dx + b.dx};
        case 1: return {a.x * b.x, a.dx * b.x + a.x * b.dx};
        case 2: return {-a.x, -a.dx};
        case 3: return {std::sin(a.x), std::cos(a.x) * a.dx};
        default: return {a.x - b.x, a.dx - b.dx};
      }
    });
  }
};

TEST_CASE("[T10] random programs of single and composite nodes agree with dual numbers") {
  std::mt19937 random(20240607);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::size_t programs = scaled(1500);
  std::size_t wrong = 0, zeros = 0;
  for (std::size_t p = 0; p < programs; ++p) {
    CountedTape tape;
    const std::size_t num_leaves = 1 + below(3);
    std::vector<Var> values;
    std::vector<std::vector<Dual>> duals(num_leaves);  // by direction, by value
    for (std::size_t i = 0; i < num_leaves; ++i) {
      values.push_back(tape.leaf(uniform(random)));
      for (std::size_t d = 0; d < num_leaves; ++d)
        duals[d].push_back({values.back().what.value, d == i ? 1.0 : 0.0});
    }
    values.push_back(CountedTape::constant(uniform(random)));
    for (auto& list : duals) list.push_back({values.back().what.value, 0.0});
    const std::size_t invocations = 1 + below(8);
    for (std::size_t i = 0; i < invocations; ++i) {
      const RandomLayer layer(random, 1 + below(3), below(2) == 0);
      std::vector<std::size_t> picked;
      for (std::size_t k = 0; k < layer.inputs; ++k) picked.push_back(below(values.size()));
      std::vector<const Var*> operands;
      for (const std::size_t k : picked) operands.push_back(&values[k]);
      std::vector<Var> made = tape.apply(layer.graph(), operands, below(2) == 0);
      for (auto& list : duals) {
        std::vector<Dual> in;
        for (const std::size_t k : picked) in.push_back(list[k]);
        for (const Dual& dual : layer.duals(std::move(in))) list.push_back(dual);
      }
      for (Var& var : made) values.push_back(std::move(var));
    }
    // Up to three roots, the same one perhaps twice.
    Seeds seeds;
    std::vector<double> expected(num_leaves, 0.0), magnitude(num_leaves, 1.0);
    for (std::size_t r = 0; r < 3; ++r) {
      const std::size_t root = num_leaves + 1 + below(values.size() - num_leaves - 1);
      if (!values[root].who.requires_grad) continue;
      seeds.push_back({&values[root], uniform(random)});
      for (std::size_t d = 0; d < num_leaves; ++d) {
        expected[d] += seeds.back().second * duals[d][root].dx;
        magnitude[d] += std::abs(duals[d][root].dx);
      }
    }
    if (seeds.empty()) continue;
    BackwardOptions options;
    options.create_graph = below(4) == 0;
    options.order = static_cast<eager::Order>(below(4));
    options.order_seed = p;
    const auto gradients = backward_from(tape, seeds, options);
    for (std::size_t d = 0; d < num_leaves; ++d) {
      const Counted* got = gradients.find(values[d].who.key);
      if (got == nullptr) ++zeros;
      const double difference = std::abs((got != nullptr ? got->value : 0.0) - expected[d]);
      if (!(difference <= 1e-9 * magnitude[d])) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(zeros > 0);  // absent ones were met too
  CHECK(Counted::live == 0);
}

}  // namespace
}  // namespace tidu::test::counted
