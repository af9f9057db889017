// p_nested.cpp - P9: backward calls inside backward calls: in hooks, rules and the executor, a thousand deep.
#include "p_support.hpp"
#include "support/support.hpp"
#include "threads_of_process.hpp"
#include "tidu/graph/infer.hpp"

namespace tidu::test {
namespace {

// d/dx sin(x), by a backward call of its own.
double inner_gradient(double at) {
  Tape tape;
  const Var x = tape.leaf(at);
  return item(run(reference(), {root_of(tape.apply<prim::sin>({x}))}), x);
}

TEST_CASE("[P9] backward within each kind of hook, and in an executor's hooks") {
  Tape tape;
  Leaf<Tensor> leaf(tape.recorder.keys());
  const Var x = var(leaf, scalar(0.3));
  const Var y = tape.apply<prim::mul>({tape.apply<prim::sin>({x}), x});
  int calls = 0;
  const auto nested = [&](HookContext<Tensor>&) {
    CHECK(inner_gradient(0.7) == std::cos(0.7));
    ++calls;
  };
  eager::on_value<Tensor>(y.first.trace, y.first.key, nested);
  eager::before_node<Tensor>(y.first.trace, nested);
  eager::after_node<Tensor>(y.first.trace, nested);
  leaf.on_value(nested);
  leaf.on_accumulate([&](HookContext<Tensor>& context) {
    nested(context);
    context.at_end([&] { CHECK(inner_gradient(0.2) == std::cos(0.2)); });
  });
  Spy spy;
  spy.before = [&](const Spy::Call&) {
    CHECK(inner_gradient(0.9) == std::cos(0.9));
    ++calls;
  };
  CHECK(item(run(spy, {root_of(y)}), x) == doctest::Approx(std::sin(0.3) + 0.3 * std::cos(0.3)));
  CHECK(calls == 5 + 4);  // mul, sin's cosine, sin, one sum
}

void same_type(InferContext& c) { c.result(c.operand(0)); }
int rule_calls = 0;
double rule_says = 0;
const Primitive halved{.name = "test.halved",
                       .traits = Trait::elementwise,
                       .linearity = linearity::linear,
                       .infer = same_type,
                       .transpose = [](TransposeContext& c) -> Derivatives {
                         ++rule_calls;
                         rule_says += inner_gradient(0.5);
                         return *c.cotangent() * ops::full_like(*c.cotangent(), 0.5);
                       }};
const Primitive odd{.name = "test.odd",
                    .traits = Trait::elementwise,
                    .infer = same_type,
                    .jvp = [](JvpContext& c) -> Derivatives {
                      ++rule_calls;
                      const double factor = inner_gradient(0.5);
                      return emit1(Op::make(halved), {*c.tangent(0)}) * ops::full_like(c.primal(0), factor);
                    }};

// Sums by the graph of the call, after backward calls of its own have added values of many other types.
class SumsLate final : public Interpreted {
 public:
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    for (std::int64_t n = 0; n < 100 && outermost_; ++n) {
      outermost_ = false;
      Tape tape;
      const Var x = tape.leaf(random_tensor(Type(f64, Shape{2 + n}), 1));
      run(*this, {root_of(tape.apply<prim::mul>({x, x}), random_tensor(Type(f64, Shape{2 + n}), 2))});
      outermost_ = true;
    }
    REQUIRE(call.graph->output_types()[0] == call.type);
    return std::move(*reference().try_run(call.graph->graph(), std::vector<Tensor>{a, b})).front();
  }

 private:
  mutable bool outermost_ = true;
};

TEST_CASE("[P9] the graph of a sum is that of its call, whatever calls within it add") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  CHECK(item(run(SumsLate(), {root_of(tape.apply<prim::mul>({x, x}))}), x) == doctest::Approx(0.6));
}

TEST_CASE("[P9] backward within a JVP rule and a transpose rule of the user's own") {
  const PrimitiveSet set = standard_primitives().with({&odd, &halved});
  eager::RecorderOptions options;
  options.save_everything = true;  // rules run in backward
  Tape tape(options);
  const Var x = tape.leaf(0.3);
  const Tensor result = scalar(1.0);
  const RecordedGraph graph = RecordedGraph::of(Op::make(odd), std::array{Type(f64)}, set);
  const EagerInput<Tensor> input(x.first, x.second);
  auto outputs = tape.recorder.record_graph(graph, std::span(&input, 1), std::span(&result, 1));
  CHECK(rule_calls == 0);
  const Var y{std::move(outputs[0]), result};
  CHECK(item(run(reference(), {root_of(y, scalar(3.0))}), x) == doctest::Approx(1.5 * std::cos(0.5)));
  CHECK(rule_calls == 2);
  CHECK(rule_says == doctest::Approx(std::cos(0.5)));
}

// A tape per level, whose hook runs the next level's backward.
struct Levels {
  Tape tape;
  int depth;
  Var x = tape.leaf(0.5);
  Var y = tape.apply<prim::sin>({x});
  std::vector<const char*> stack;
  std::vector<int> threads;
  int deepest = 0;
  BackwardOptions options = keep();
  int level = 0;

  explicit Levels(int levels) : depth(levels) {
    eager::before_node<Tensor>(y.first.trace, [this](HookContext<Tensor>&) { descend(); });
  }
  void descend() {
    const char here = 0;
    stack.push_back(&here);
    deepest = std::max(deepest, level);
    if (level % 100 == 0) threads.push_back(threads_of_this_process());
    if (level < depth) {
      ++level;
      once();
      --level;
    }
  }
  void once() {
    eager::Root<Tensor> root;
    root.key = y.first.key;
    root.trace = y.first.trace;
    const auto gradients = eager::backward<Tensor>(std::span(&root, 1), reference(), options);
    if (gradients.at(x.first.key).item<double>() != std::cos(0.5)) std::abort();
  }
};

TEST_CASE("[P9] a thousand levels deep on one thread, under 4 KB of stack a level") {
  Levels levels(static_cast<int>(scaled(1000)));
  const int threads = threads_of_this_process();
  levels.once();
  CHECK(levels.deepest == levels.depth);
  for (const int count : levels.threads) CHECK(count == threads);
  if (instrumented) return;
  const auto a = reinterpret_cast<std::uintptr_t>(levels.stack.front());
  const auto b = reinterpret_cast<std::uintptr_t>(levels.stack.back());
  const double each = static_cast<double>(a - b) / static_cast<double>(levels.stack.size() - 1);
  CAPTURE(each);
  CHECK(each < 4096);
}

TEST_CASE("[P9] nested backward of the same tape, of a part that is not under way and of the whole") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var a = tape.apply<prim::sin>({x});
  const Var b = tape.apply<prim::exp>({a});
  int depth = 0;
  std::vector<double> inner;
  eager::before_node<Tensor>(b.first.trace, [&](HookContext<Tensor>&) {
    if (depth == 3) return;
    ++depth;
    inner.push_back(item(run(reference(), {root_of(a)}, keep()), x));
    inner.push_back(item(run(reference(), {root_of(b)}, keep()), x));
  });
  const double outer = item(run(reference(), {root_of(b)}, keep()), x);
  const double db = std::exp(std::sin(0.3)) * std::cos(0.3);
  CHECK(outer == doctest::Approx(db));
  REQUIRE(inner.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(inner[i] == doctest::Approx(i < 3 ? std::cos(0.3) : db));
}

TEST_CASE("[P9] an error of a nested call passes through the outer one, or is caught in between") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x}, Where{"outer.cpp", 1});
  const Var z = tape.apply<prim::exp>({tape.leaf(0.1)}, Where{"inner.cpp", 2});
  Spy bad;
  bad.before = [](const Spy::Call&) { throw Error(ErrorKind::execution, "broken"); };
  HookHandle hook = eager::before_node<Tensor>(y.first.trace,
                                               [&](HookContext<Tensor>&) { run(bad, {root_of(z)}, keep()); });
  const std::string message = message_of([&] { run(reference(), {root_of(y)}, keep()); });
  CAPTURE(message);
  for (const char* part : {"broken", "exp", "inner.cpp:2", "sin", "outer.cpp:1"})
    CHECK(contains(message, part));
  hook.remove();
  eager::before_node<Tensor>(y.first.trace,
                             [&](HookContext<Tensor>&) { CHECK_THROWS(run(bad, {root_of(z)}, keep())); });
  CHECK(item(run(reference(), {root_of(y)}, keep()), x) == std::cos(0.3));
}

}  // namespace
}  // namespace tidu::test
