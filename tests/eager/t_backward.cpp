// t_backward.cpp - the calls of backward to the executor, their order, and its results; errors and the
// context of rules.
#include "counted.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::test::counted {
namespace {

std::vector<std::string> nodes_run(const CountedTape& tape) {
  std::vector<std::string> names;
  for (const auto& call : tape.executor.calls)
    if (call.hook == 't') names.push_back(call.node);
  return names;
}

TEST_CASE("[T5] nodes run once each, consumers before producers") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Var a = tape.apply<prim::sin>(x);
  const Var b = tape.apply<prim::exp>(a);
  const Var c = tape.apply<prim::cos>(a);
  const Var d = tape.apply<prim::mul>(b, c);
  const Var e = tape.apply<prim::neg>(d);
  const auto gradients = tape.backward(e);
  const std::vector<std::string> run = nodes_run(tape);
  CHECK(run == std::vector<std::string>{"neg", "mul", "cos", "exp", "sin"});
  const double s = std::sin(0.5);
  CHECK(gradients.at(x.who.key).value ==
        doctest::Approx(-std::cos(0.5) * std::exp(s) * (std::cos(s) - std::sin(s))));
  // The two paths meet at a.
  CHECK(tape.executor.count('a') == 1);
}

TEST_CASE("[T5] cotangents that are absent stay absent") {
  const RecordedGraph graph = graph_of(2, [](std::vector<Value> v) {
    return std::vector{v[0] * v[0], v[1] * v[1]};
  });
  CountedTape tape;
  const Var x = tape.leaf(0.5), y = tape.leaf(0.7);
  const Var from = tape.apply<prim::exp>(y);
  const std::vector<Var> both = tape.apply(graph, {&x, &from});
  const auto gradients = tape.backward(both[0]);
  CHECK(gradients.size() == 1);
  CHECK(gradients.at(x.who.key).value == 1.0);
  CHECK(tape.executor.count('a') == 0);
  REQUIRE(tape.executor.count('t') == 1);  // exp never ran
  const auto& call = tape.executor.calls.back();
  CHECK(call.hook == 't');
  CHECK(call.inputs == 2);  // x, and one cotangent (its x + x needs no more)
  CHECK(call.outputs == 1);
}

TEST_CASE("[T5] values that were not retained are computed first, and only those") {
  const RecordedGraph graph = graph_of(1, [](std::vector<Value> v) {
    const Value e = ops::exp(v[0]);
    return std::vector{e * e};
  });
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Var y = std::move(tape.apply(graph, {&x}).front());
  const Var z = tape.apply<prim::exp>(y);
  CHECK(tape.backward(z).size() == 1);
  std::string hooks;
  for (const auto& call : tape.executor.calls) hooks += call.hook;
  CHECK(hooks == "tft");  // exp has its result
  // The result of exp(sin x) is there, and cos x is not.
  const RecordedGraph chain =
      graph_of(1, [](std::vector<Value> v) { return std::vector{ops::exp(ops::sin(v[0]))}; });
  tape.executor.calls.clear();
  const auto gradients = tape.backward(std::move(tape.apply(chain, {&x}).front()));
  CHECK(gradients.at(x.who.key).value == doctest::Approx(std::exp(std::sin(0.5)) * std::cos(0.5)));
  REQUIRE(tape.executor.calls.size() == 2);
  CHECK(tape.executor.calls[0].hook == 'f');
  CHECK(tape.executor.calls[0].outputs == 1);
}

TEST_CASE("[T6] the result holds the leaves that require a gradient, and nothing is computed for others") {
  CountedTape tape;
  const Var x = tape.leaf(3.0), y = tape.leaf(4.0);
  Var passive = y;
  passive.who.requires_grad = false;
  const Var p = tape.apply<prim::mul>(x, passive);
  CHECK(eager::NodeView(p.who.trace).num_saved() == 1);
  const auto gradients = tape.backward(p);
  CHECK(gradients.size() == 1);
  CHECK(gradients.at(x.who.key).value == 4.0);
  CHECK(gradients.find(y.who.key) == nullptr);
  CHECK_THROWS_AS((void)gradients.at(y.who.key), Error);
  REQUIRE(tape.executor.calls.size() == 1);
  CHECK(tape.executor.calls[0].outputs == 1);
  CHECK(tape.executor.calls[0].inputs == 2);  // y and the cotangent
}

TEST_CASE("[T6] requested cotangents come back in the order of the request, beside the leaves") {
  CountedTape tape;
  const Var x = tape.leaf(3.0), y = tape.leaf(4.0), unused = tape.leaf(1.0);
  const Var a = tape.apply<prim::mul>(x, y);
  const Var b = tape.apply<prim::mul>(a, a);
  const eager::Requested requested[] = {a.who, unused.who, y.who};
  const auto gradients = tape.backward(b, {}, requested);
  REQUIRE(gradients.requested().size() == 3);
  CHECK(gradients.requested()[0].key == a.who.key);
  CHECK(gradients.requested()[0].value->value == 24.0);
  CHECK(!gradients.requested()[1].value);
  CHECK(gradients.requested()[1].absence == eager::Absence::unreachable);
  CHECK(gradients.requested()[2].value->value == 72.0);
  CHECK(gradients.size() == 1);  // x was not asked for
  CHECK(gradients.find(x.who.key) == nullptr);
  CHECK(tape.executor.calls.back().outputs == 1);
}

// --- errors

class Failing final : public eager::BackwardExecutor<double> {
 public:
  char failing = 0;
  Result<Values> execute_forward(const GraphCall& call, std::span<const double* const> in) const override {
    return run('f', call, in);
  }
  Result<Values> run_transposed_linear(const GraphCall& call,
                                       std::span<const double* const> in) const override {
    return run('t', call, in);
  }
  Result<double> add_operands(const eager::AddCall&, double a, const double& b) const override {
    if (failing == 'a') return Error(ErrorKind::execution, "device 7 is on fire");
    return a + b;
  }

 private:
  Result<Values> run(char hook, const GraphCall& call, std::span<const double* const> in) const {
    if (failing == hook) return Error(ErrorKind::execution, "device 7 is on fire");
    if (failing == '!') throw std::runtime_error("of my own");
    std::vector<double> inputs;
    for (const double* x : in) inputs.push_back(*x);
    std::vector<double> outputs = interpret(call.graph, inputs);
    if (failing == '#') outputs.push_back(0.0);
    return Values(outputs);
  }
};

TEST_CASE("[T7] an executor's failure comes back with its kind and words, and says which node") {
  const RecordedGraph graph = graph_of(1, [](std::vector<Value> v) {
    const Value e = ops::exp(v[0]);
    return std::vector{e * e};
  });
  Failing executor;
  eager::Recorder<double> recorder(&executor);
  const double x = 0.5;
  EagerOutput leaf;
  leaf.key = recorder.keys().fresh();
  leaf.requires_grad = true;
  const EagerInput<double> inputs[] = {{leaf, x}};
  const auto y = recorder.record_graph(graph, inputs);
  const EagerInput<double> twice[] = {{y[0], x}, {y[0], x}};
  const auto z = recorder.record_graph(
      RecordedGraph::of(plain_op<prim::add>(), std::array{Type(f64), Type(f64)}), twice);
  BackwardOptions options;
  options.keep_graph = true;
  const auto attempt = [&] {
    return eager::try_backward<double>(z[0].key, z[0].trace, 1.0, executor, nullptr, options);
  };
  const std::pair<char, const char*> phases[] = {{'f', "in execute_forward of the backward of layer"},
                                                 {'t', "in run_transposed_linear of the backward of add"},
                                                 {'a', "in add_operands"}};
  for (const auto& [hook, says] : phases) {
    executor.failing = hook;
    const auto result = attempt();
    REQUIRE(!result.has_value());
    CHECK(result.error().kind() == ErrorKind::execution);
    const std::string_view what = result.error().what();
    CHECK_MESSAGE(what.substr(0, 19) == "device 7 is on fire", what);
    if (hook != 'a') CHECK_MESSAGE(what.find(says) != std::string_view::npos, what);
  }
  executor.failing = '#';
  CHECK(attempt().error().kind() == ErrorKind::execution);
  CHECK(std::string_view(attempt().error().what()).find("expected 2 values") != std::string_view::npos);
  executor.failing = '!';
  CHECK(attempt().error().kind() == ErrorKind::internal);
  CHECK(std::string_view(attempt().error().what()) == "of my own");
  executor.failing = 0;
  CHECK(attempt().value().at(leaf.key) == doctest::Approx(4 * std::exp(1.0)));
}

// --- rules

struct CountingContext : ADContext {
  explicit CountingContext(std::optional<Key128> its_key = std::nullopt) : key(its_key) {}
  std::optional<Key128> cache_key() const override { return key; }
  std::optional<Key128> key;
  int jvps = 0, transposes = 0;
  double factor = 1.0;  ///< of the derivative that its rules give
};
CountingContext& context_of(ADContext* context) {
  REQUIRE(context != nullptr);
  return dynamic_cast<CountingContext&>(*context);
}

// y = x, whose derivative the context scales.
const Primitive scaled_identity{.name = "test.pass",
                                .linearity = linearity::linear,
                                .infer = [](InferContext& c) { c.result(c.operand(0)); },
                                .jvp = [](JvpContext& c) -> Derivatives {
                                  CountingContext& context = context_of(c.context());
                                  ++context.jvps;
                                  const Value t = emit(c.op(), Values(*c.tangent(0)))[0];
                                  return t * ops::full_like(c.primal(0), context.factor);
                                },
                                .transpose = [](TransposeContext& c) -> Derivatives {
                                  ++context_of(c.context()).transposes;
                                  return c.cotangent();
                                }};
const PrimitiveSet& passing_set() {
  static const PrimitiveSet set = standard_primitives().with({&scaled_identity});
  return set;
}
RecordedGraph passing(int length) {
  GraphBuilder builder("passing", passing_set());
  Value x = builder.input("x", f64);
  for (int i = 0; i < length; ++i) x = emit(Op::make(scaled_identity), Values(x))[0];
  return RecordedGraph::of(builder.build({x}));
}

struct Passing {
  eager::RecorderOptions options;
  CountedExecutor executor;
  std::optional<eager::Recorder<Counted>> recorder;
  EagerOutput leaf, y;
  Counted x{2.0};

  void record(int length) {
    recorder.emplace(&executor, options);
    leaf.key = recorder->keys().fresh();
    leaf.requires_grad = true;
    const EagerInput<Counted> inputs[] = {{leaf, x}};
    y = std::move(recorder->record_graph(passing(length), inputs)[0]);
  }
  double backward(ADContext* context) {
    BackwardOptions how;
    how.keep_graph = true;
    return eager::try_backward<Counted>(y.key, y.trace, Counted(1.0), executor, context, how)
        .value()
        .at(leaf.key)
        .value;
  }
};

// y = x, whose derivative a context scales, where there is one.
const Primitive maybe_scaled{.name = "test.maybe_scaled",
                             .linearity = linearity::linear,
                             .infer = [](InferContext& c) { c.result(c.operand(0)); },
                             .jvp = [](JvpContext& c) -> Derivatives {
                               const double factor =
                                   c.context() != nullptr ? context_of(c.context()).factor : 1.0;
                               return *c.tangent(0) * ops::full_like(c.primal(0), factor);
                             },
                             .transpose = [](TransposeContext& c) -> Derivatives { return c.cotangent(); }};

TEST_CASE("[T8] no key of a context is that of no context") {
  static const PrimitiveSet set = standard_primitives().with({&maybe_scaled});
  GraphBuilder builder("maybe scaled", set);
  const Value x = builder.input("x", f64);
  const RecordedGraph graph = RecordedGraph::of(builder.build({emit(Op::make(maybe_scaled), Values(x))[0]}));
  Passing program;
  program.recorder.emplace(&program.executor, program.options);
  program.leaf.key = program.recorder->keys().fresh();
  program.leaf.requires_grad = true;
  const EagerInput<Counted> inputs[] = {{program.leaf, program.x}};
  program.y = std::move(program.recorder->record_graph(graph, inputs)[0]);
  CountingContext context(Key128{0, 0});
  context.factor = 3.0;
  CHECK(program.backward(nullptr) == 1.0);
  CHECK(program.backward(&context) == 3.0);
  CHECK(program.backward(nullptr) == 1.0);
}

TEST_CASE("[T8] a context without a key reaches every rule, once per call, and nothing is cached") {
  CountingContext context;
  context.factor = 3.0;
  Passing program;
  program.options.context = &context;
  program.record(2);  // results of rules could not be cached now: they run in backward
  const int before = context.jvps;
  CHECK(program.backward(&context) == 9.0);
  CHECK(context.jvps == before + 2);
  CHECK(context.transposes == context.jvps);
  context.factor = 5.0;
  CHECK(program.backward(&context) == 25.0);
  CHECK(context.jvps == before + 4);
  CHECK(context.transposes == context.jvps);
}

TEST_CASE("[T8] with save_everything no rule runs before backward") {
  CountingContext context;
  Passing program;
  program.options.save_everything = true;
  program.record(3);  // there is no context yet
  CHECK(context.jvps + context.transposes == 0);
  context.factor = 2.0;
  CHECK(program.backward(&context) == 8.0);
  CHECK(context.jvps == 3);
  CHECK(context.transposes == 3);
}

TEST_CASE("[T8] results of rules are reused under their cache key, and never under another key") {
  CountingContext first(Key128{71, 1}), second(Key128{71, 2});
  first.factor = 2.0;
  second.factor = 7.0;
  Passing program;
  program.options.context = &first;
  program.record(4);
  CHECK(first.jvps == 4);
  CHECK(program.backward(&first) == 16.0);
  CHECK(program.backward(&first) == 16.0);
  CHECK(first.jvps == 4);
  CHECK(first.transposes == 4);
  CHECK(program.backward(&second) == 2401.0);
  CHECK(program.backward(&second) == 2401.0);
  CHECK(second.jvps == 4);
  CHECK(second.transposes == 4);
  CHECK(program.backward(&first) == 16.0);
  Passing again;
  again.options.context = &first;
  again.record(4);
  CHECK(again.backward(&first) == 16.0);
  CHECK(first.jvps == 4);
}

TEST_CASE("[T7] a failing rule comes back as ADRuleError, wherever it is called") {
  static const Primitive no_jvp{.name = "test.no_jvp",
                                .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const Primitive no_transpose{.name = "test.no_transpose",
                                      .linearity = linearity::linear,
                                      .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  for (const Primitive* primitive : {&no_jvp, &no_transpose}) {
    const PrimitiveSet set = standard_primitives().with({primitive});
    CountedExecutor executor;
    eager::Recorder<Counted> recorder(&executor);
    EagerOutput leaf;
    leaf.key = recorder.keys().fresh();
    leaf.requires_grad = true;
    const Counted x(1.0);
    const std::array types{Type(f64)};
    // Recording is no crime: perhaps backward is never called.
    const EagerOutput y = recorder.record(Op::make(*primitive), {EagerInput<Counted>(leaf, x)}, x, types,
                                          Where::current(), set);
    REQUIRE(y.requires_grad);
    for (int i = 0; i < 2; ++i) {
      const auto result = eager::try_backward<Counted>(y.key, y.trace, Counted(1.0), executor);
      REQUIRE(!result.has_value());
      CHECK(result.error().kind() == ErrorKind::ad_rule);
      const auto* error = dynamic_cast<const ADRuleError*>(&result.error());
      REQUIRE(error != nullptr);
      CHECK(error->primitive() == primitive->name);
      CHECK(error->rule() == (primitive == &no_jvp ? ADRuleError::Rule::jvp : ADRuleError::Rule::transpose));
      CHECK(std::string_view(error->what()).find("t_backward.cpp") != std::string_view::npos);
    }
  }
}

TEST_CASE("a second backward over a structure seen before calls no rule") {
  const auto round = [] {
    CountedTape tape;
    const Var x = tape.leaf(0.5);
    const Var a = tape.apply<prim::sin>(x);
    const std::vector<Var> b = tape.apply(graph_of(
                                              1,
                                              [](std::vector<Value> v) {
                                                const Value e = ops::exp(v[0]);
                                                return std::vector{e * e, ops::cos(e)};
                                              },
                                              "seen before"),
                                          {&a}, false);
    const Var c = tape.apply<prim::mul>(b[0], b[1]);
    return tape.backward(c).at(x.who.key).value;
  };
  const auto start = eager::cached_graph_statistics();
  const double first = round();
  const auto warm = eager::cached_graph_statistics();
  CHECK(warm.linearizations > start.linearizations);
  CHECK(warm.transpositions > start.transpositions);
  for (int i = 0; i < 10; ++i) CHECK(round() == first);
  const auto after = eager::cached_graph_statistics();
  CHECK(after.linearizations == warm.linearizations);
  CHECK(after.transpositions == warm.transpositions);
  CHECK(after.graphs == warm.graphs);
}

TEST_CASE("[T8] contexts whose keys never come again fill no memory, and the first ones stay cached") {
  Passing pass;
  CountingContext recording(Key128{5, 5});
  pass.options.context = &recording;
  pass.record(2);
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      CountingContext context(Key128{i, 77});
      context.factor = 1.0 + static_cast<double>(i);
      CHECK(pass.backward(&context) == context.factor * context.factor);
      const bool is_cached = round == 1 && i < 60;
      if (is_cached || i > 100) CHECK(context.jvps == (is_cached ? 0 : 2));
    }
  }
}

TEST_CASE(
    "[T8] recorders whose context has another key each time fill no memory, and the first ones stay cached") {
  Passing pass;
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      CountingContext context(Key128{i, 78});
      context.factor = 1.0 + static_cast<double>(i);
      pass.options.context = &context;
      pass.record(3);
      const bool is_kept = i < 64;
      CHECK(context.jvps == (is_kept && round == 0 ? 3 : 0));
      CHECK(pass.backward(&context) == context.factor * context.factor * context.factor);
      // Backward keeps those of 64 more.
      if (i < 64 || i >= 128) CHECK(context.jvps == (is_kept && round == 1 ? 0 : 3));
    }
  }
}

TEST_CASE("[T10] however many cached graphs are in use, the store looks at few for each that comes") {
  const std::size_t limit = eager::set_cached_graph_limit(16);
  const auto start = eager::cached_graph_statistics();
  constexpr std::uint64_t count = 3000;
  {
    std::vector<RecordedGraph> held;
    for (std::uint64_t i = 0; i < count; ++i) {
      held.push_back(graph_of(
          1, [](std::vector<Value> v) { return std::vector{ops::sin(v[0])}; },
          detail::str("cached graph ", i)));
    }
    const auto full = eager::cached_graph_statistics();
    CHECK(full.graphs >= count);
    CHECK(full.looked_at - start.looked_at <= 4 * (start.graphs + count));
  }
  // Unused ones are dropped when as many again would come, not later.
  for (std::uint64_t i = 0; i < 2 * count + 2 * start.graphs; ++i) {
    (void)graph_of(
        1, [](std::vector<Value> v) { return std::vector{ops::cos(v[0])}; }, detail::str("cached graph ", i));
  }
  const auto after = eager::cached_graph_statistics();
  CHECK(after.evictions - start.evictions >= count);
  CHECK(after.graphs <= start.graphs + count);
  CHECK(after.looked_at - start.looked_at <= 12 * (start.graphs + count));
  eager::set_cached_graph_limit(limit);
}

}  // namespace
}  // namespace tidu::test::counted
