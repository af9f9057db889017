// explain.cpp - the texts of explain(), word by word.
#include "tidu/eager/explain.hpp"

#include "support.hpp"
#include "support/printable.hpp"

namespace tidu::test::explain_cases {
namespace {

using eager::Explanation;
using Status = Explanation::Status;
using Cause = Explanation::Cause;

eager::RecorderOptions keeping() {
  eager::RecorderOptions options;
  options.keep_blocked = true;
  return options;
}

// A tape with a named leaf w = [3, -1, 2].
struct Program {
  explicit Program(const eager::RecorderOptions& options = keeping())
      : tape(options), slot(tape.recorder.keys(), "w"), w(variable(slot)) {}

  static Var variable(const eager::Leaf<Tensor>& leaf) {
    return {{leaf.key(), leaf.trace().hold(), true, 0}, Tensor::from<double>({3}, {3.0, -1.0, 2.0})};
  }
  // One operation, or several as one, of one operand.
  template <class F>
  Var map(const char* name, const Var& x, const F& f, Where where = {}) {
    GraphBuilder g(name);
    return tape.apply(RecordedGraph::of(g.build({f(g.input("x", x.second.type()))})), {x}, true, where)[0];
  }
  Var argmax(const Var& x, Where where) {
    return map(
        "argmax", x, [](Value v) { return ops::argmax(v, 0); }, where);
  }
  Var to_f64(const Var& x) {
    return map("convert_element_type", x, [](Value v) { return ops::convert_element_type(v, f64); });
  }
  Var sum(const Var& x, Where where = {}) {
    return map(
        "reduce_sum", x, [](Value v) { return ops::reduce_sum(v, {0}); }, where);
  }
  template <const Primitive& P>
  Var op(const std::vector<Var>& operands, Where where = {}) {
    return tape.apply<P>(operands, where);
  }
  Explanation explain(const Var& target, const Var& root, const char* name = "") const {
    return eager::explain<Tensor>(target.first, root.first, reference(), &tape.recorder, name);
  }
  Explanation explain(const Var& root) const { return explain(w, root); }

  Tape tape;
  eager::Leaf<Tensor> slot;
  Var w;
};

TEST_CASE("explain: only through an operation without derivative") {
  Program p;
  const Var index = p.to_f64(p.argmax(p.w, {"head.cpp", 77}));
  const Var x = p.tape.leaf(2.0);
  const Explanation found = p.explain(p.op<prim::mul>({index, x}));
  CHECK(found.status == Status::absent);
  CHECK(found.cause == Cause::no_derivative);
  CHECK(found.text ==
        "absent: \"w\" reaches the root only through argmax (operation 1, head.cpp:77), which has no "
        "derivative");
  REQUIRE(found.operations.size() == 1);
  CHECK(eager::NodeView(found.operations[0]).where() == "head.cpp:77");
}

TEST_CASE("explain: the root itself has no derivative") {
  Program p;
  const Var index = p.argmax(p.op<prim::neg>({p.w}), {"head.cpp", 7});
  CHECK(p.explain(index).text ==
        "absent: \"w\" reaches the root only through argmax (operation 2, head.cpp:7), which has no "
        "derivative");
}

TEST_CASE("explain: through several operations without derivative, each named once, three at most") {
  Program p;
  std::vector<Var> rounded;
  for (std::uint32_t line = 1; line <= 5; ++line)
    rounded.push_back(p.op<prim::floor>({p.w}, {"a.cpp", line}));
  Var two = p.op<prim::add>({rounded[0], rounded[1]});
  CHECK(p.explain(two).text ==
        "absent: \"w\" reaches the root only through floor (operation 1, a.cpp:1) and floor (operation 2, "
        "a.cpp:2), which have no derivative");
  for (std::size_t i = 2; i < 5; ++i) two = p.op<prim::add>({two, p.op<prim::sin>({rounded[i]})});
  const Explanation all = p.explain(two);
  CHECK(all.text ==
        "absent: \"w\" reaches the root only through floor (operation 1, a.cpp:1), floor (operation 2, "
        "a.cpp:2), "
        "floor (operation 3, a.cpp:3) and 2 more, which have no derivative");
  CHECK(all.operations.size() == Explanation::named);
}

TEST_CASE("explain: an output without derivative of an operation that has one") {
  Program p;
  GraphBuilder g("top");
  const Value x = g.input("x", {f64, {3}});
  const auto both =
      p.tape.apply(RecordedGraph::of(g.build({ops::sin(x), ops::argmax(x, 0)})), {p.w}, true, {"top.cpp", 4});
  const Var root = p.to_f64(both[1]);
  CHECK(p.explain(root).text ==
        "absent: \"w\" reaches the root only through output 1 of top (operation 1, top.cpp:4), which has no "
        "derivative");
  CHECK(p.explain(both[1]).text == p.explain(root).text);
  CHECK(
      p.explain(both[1], root, "i").text ==
      "absent: \"i\" does not require a gradient: it was made by top (operation 1, top.cpp:4), which has no "
      "derivative for its output 1");
  CHECK(p.explain(p.sum(both[0])).status == Status::present);
}

TEST_CASE("explain: where it was detached") {
  Program p;
  Var constant = p.op<prim::sin>({p.w});
  constant.first.requires_grad = false;
  const Var root = p.sum(p.op<prim::mul>({constant, p.tape.leaf(p.w.second)}, {"d.cpp", 9}));
  const Explanation found = p.explain(root);
  CHECK(found.cause == Cause::detached);
  CHECK(found.text ==
        "absent: \"w\" reaches the root only where mul (operation 2, d.cpp:9) takes it as a constant (it was "
        "detached, or recording was off)");
  const Var both =
      p.op<prim::add>({p.op<prim::floor>({p.w}, {"f.cpp", 1}), p.op<prim::mul>({constant, constant})});
  CHECK(
      p.explain(both).text ==
      "absent: \"w\" reaches the root only through floor (operation 4, f.cpp:1), which has no derivative, or "
      "where mul (operation 5) takes it as a constant (it was detached, or recording was off)");
}

TEST_CASE("explain: roots that require no gradient") {
  Program p;
  const Var root = p.sum(p.w);
  const Var constant = p.tape.constant(1.0);
  CHECK(p.explain(constant, root, "c").text ==
        "absent: \"c\" does not require a gradient: it is a constant or was detached");
  CHECK(p.explain(constant, root, "c").cause == Cause::not_recorded);
  const Var index = p.argmax(p.w, {"head.cpp", 77});
  CHECK(p.explain(index, root).text ==
        "absent: output 0 of argmax (operation 2, head.cpp:77) does not require a gradient: it was made by "
        "argmax (operation 2, head.cpp:77), which has no derivative");
  CHECK(
      p.explain(p.to_f64(index), root, "i").text ==
      "absent: \"i\" does not require a gradient: it was made by convert_element_type (operation 3), none of "
      "whose operands requires one");
}

TEST_CASE("explain: a value that is given by its key, or by key and trace") {
  Program p;
  const Var y = p.op<prim::sin>({p.w}), root = p.sum(y);
  const auto of = [&](const Var& whole, bool with_trace) {
    Var target = whole;
    target.first = {};
    target.first.key = whole.first.key;
    if (with_trace) target.first.trace = whole.first.trace;
    return p.explain(target, root).text;
  };
  CHECK(of(p.w, false) == "present: \"w\" reaches the root through 2 operations");
  CHECK(of(p.w, true) == of(p.w, false));
  CHECK(of(y, true) == "present: output 0 of sin (operation 1) reaches the root through 1 operation");
  const eager::Leaf<Tensor> other(p.tape.recorder.keys(), "u");
  CHECK(of(Program::variable(other), true).find("absent: no root depends on \"u\"") == 0);
}

TEST_CASE("explain: no root depends on it, as far as the tape knows") {
  Program kept, plain{eager::RecorderOptions{}};
  for (Program* p : {&kept, &plain}) {
    const Var root = p->sum(p->tape.leaf(p->w.second));
    const Explanation found = p->explain(root);
    CHECK(found.cause == Cause::no_dependency);
    const std::string hint =
        p == &kept
            ? ""
            : ", or only through operations without derivative, which the tape does not hold (record with "
              "RecorderOptions::keep_blocked, or Arrays under an ExplainGuard, to have them named)";
    CHECK(found.text == "absent: no root depends on \"w\"" + hint);
  }
  CHECK(
      plain.explain(plain.argmax(plain.w, {})).text ==
      "absent: the root was not recorded, nothing there depends on \"w\", or only through operations without "
      "derivative, which the tape does not hold (record with RecorderOptions::keep_blocked, or Arrays "
      "under an ExplainGuard, to have them named)");
}

TEST_CASE("explain: a derivative that is zero by structure") {
  Program p;
  GraphBuilder g("layer");
  const Value a = g.input("a", {f64, {3}}), b = g.input("b", {f64, {3}});
  const RecordedGraph layer = RecordedGraph::of(g.build({ops::stop_gradient(a) * b}));
  const Var other = p.tape.leaf(p.w.second);
  const Var y = p.tape.apply(layer, {p.op<prim::sin>({p.w}), other}, true, {"layer.cpp", 3})[0];
  const Var root = p.sum(y);
  const char* expected =
      "zero: on every way from the root to \"w\" the derivative of layer (operation 2, layer.cpp:3) with "
      "respect "
      "to its input 0 is zero whatever its operands are";
  CHECK(p.explain(root).text == expected);
  CHECK(p.explain(root).status == Status::zero);
  CHECK(p.explain(root).cause == Cause::structure);
  CHECK(p.explain(other, root).status == Status::present);
  eager::Root<Tensor> only;
  only.key = root.first.key;
  only.trace = root.first.trace;
  CHECK(eager::explain<Tensor>(p.w.first, std::span(&only, 1)).text ==
        expected + std::string(" (the values were not looked at: no executor was given)"));
}

TEST_CASE("explain: where the values become zero") {
  Program p;
  const Var zeros = p.tape.constant(Tensor::zeros({f64, {3}}));
  const Var low = p.tape.constant(Tensor::from<double>({3}, {9.0, 9.0, 9.0}));
  const Var cut = p.op<prim::max>({p.op<prim::exp>({p.w}), p.op<prim::exp>({low})}, {"relu.cpp", 5});
  const Explanation found = p.explain(p.sum(cut));
  CHECK(found.status == Status::zero);
  CHECK(found.cause == Cause::operation);
  CHECK(
      found.text ==
      "zero: on every way from the root to \"w\" the cotangent becomes zero in backward of max (operation 2, "
      "relu.cpp:5)");
  const Var masked = p.op<prim::mul>({p.w, zeros}, {"mask.cpp", 8});
  CHECK(
      p.explain(p.sum(p.op<prim::add>({cut, masked}))).text ==
      "zero: on every way from the root to \"w\" the cotangent becomes zero in backward of mul (operation 4, "
      "mask.cpp:8) and max (operation 2, relu.cpp:5)");
  CHECK(p.explain(p.sum(p.op<prim::add>({cut, p.w}))).text ==
        "present: \"w\" reaches the root through 4 operations");
  CHECK(found.operations.size() == 1);
}

TEST_CASE("explain: a seed of zero, and contributions that cancel") {
  Program p;
  const Var y = p.sum(p.w);
  eager::Root<Tensor> root;
  root.key = y.first.key;
  root.trace = y.first.trace;
  root.seed = scalar(0.0);
  const Explanation seed = eager::explain<Tensor>(p.w.first, std::span(&root, 1), &reference());
  CHECK(seed.cause == Cause::seed);
  CHECK(seed.text == "zero: on every way from the root to \"w\" the seed of the root is zero");

  const Explanation leaf = p.explain(p.op<prim::sub>({p.w, p.w}));
  CHECK(leaf.cause == Cause::cancellation);
  CHECK(leaf.text == "zero: on every way from the root to \"w\" what comes to \"w\" cancels");
  const Var e = p.op<prim::exp>({p.w}, {"e.cpp", 2});
  CHECK(p.explain(p.op<prim::sub>({e, e})).text ==
        "zero: on every way from the root to \"w\" what comes to output 0 of exp (operation 3, e.cpp:2) "
        "cancels");
}

TEST_CASE("explain: contributions that cancel at a value in the middle") {
  Program p;
  const Var e = p.op<prim::exp>({p.w}, {"e.cpp", 2});
  const Var root = p.op<prim::sub>({e, e});
  eager::set_name(e.first.trace, e.first.key, "e");
  const Explanation found = p.explain(e, root);
  CHECK(found.cause == Cause::cancellation);
  CHECK(found.text == "zero: on every way from the root to \"e\" what comes to \"e\" cancels");
  CHECK(found.operations.size() == 1);
}

TEST_CASE("explain: hooks that make a cotangent zero, or drop it") {
  for (const bool drops : {false, true}) {
    const auto hook = [drops](eager::HookContext<Tensor>& c) {
      if (drops)
        c.incoming().drop();
      else
        c.incoming().replace(Tensor::zeros({f64, {3}}));
    };
    Program p;
    const Var s = p.op<prim::sin>({p.w}, {"s.cpp", 1});
    const auto on_s = eager::on_value<Tensor>(s.first.trace, s.first.key, hook);
    const Var root = p.sum(s);
    CHECK(p.explain(root).status == Status::zero);
    CHECK(p.explain(root).cause == Cause::hook);
    CHECK(
        p.explain(root).text ==
        "zero: on every way from the root to \"w\" a hook leaves nothing of the cotangent of output 0 of sin "
        "(operation 1, s.cpp:1)");
    CHECK(p.explain(s, root, "s").cause == Cause::hook);
    CHECK(p.explain(s, root, "s").text ==
          "zero: on every way from the root to \"s\" a hook leaves nothing of the cotangent of \"s\"");
    Program q;
    const auto on_w = eager::on_value<Tensor>(q.slot.trace(), q.slot.key(), hook);
    CHECK(q.explain(q.sum(q.w)).text ==
          "zero: on every way from the root to \"w\" a hook leaves nothing of the cotangent of \"w\"");
  }
}

TEST_CASE("explain: a leaf that is the root itself") {
  Program p;
  CHECK(p.explain(p.w).text == "present: \"w\" reaches the root as a root itself");
}

// y = x, whose derivative is the context's.
struct Factor : ADContext {
  std::optional<Key128> cache_key() const override { return key; }
  std::optional<Key128> key;
  double factor = 0.0;
};
const Primitive scaled_by_context{
    .name = "test.scaled_by_context",
    .linearity = linearity::linear,
    .infer = [](InferContext& c) { c.result(c.operand(0)); },
    .jvp = [](JvpContext& c) -> Derivatives {
      if (c.context() == nullptr) return std::nullopt;
      return *c.tangent(0) * ops::full_like(c.primal(0), dynamic_cast<Factor&>(*c.context()).factor);
    },
    .transpose = [](TransposeContext& c) -> Derivatives { return c.cotangent(); }};

TEST_CASE("explain: rules are given the recorder's context, or another one") {
  static const PrimitiveSet set = standard_primitives().with({&scaled_by_context});
  static const ReferenceExecutor executor =
      ReferenceExecutor(reference())
          .with_kernel("test.scaled_by_context",
                       [](const KernelCall& call) { call.output() = call.input(0); }, {f64});
  for (const bool keyed : {false, true}) {
    Factor context;
    if (keyed) context.key = Key128{7, 8};
    eager::RecorderOptions options = keeping();
    options.context = &context;
    eager::Recorder<Tensor> recorder(&executor, options);
    GraphBuilder g("scaled", set);
    const Value x = g.input("x", f64);
    const RecordedGraph graph = RecordedGraph::of(g.build({emit(Op::make(scaled_by_context), Values(x))[0]}));
    EagerOutput leaf;
    leaf.key = recorder.keys().fresh();
    leaf.requires_grad = true;
    const Tensor at = Tensor::scalar(2.0);
    const EagerInput<Tensor> inputs[] = {{leaf, at}};
    const EagerOutput y = std::move(recorder.record_graph(graph, inputs, std::span(&at, 1))[0]);
    const Explanation zero = eager::explain<Tensor>(leaf, y, executor, &recorder, "x");
    CHECK(zero.cause == Cause::operation);
    CHECK(zero.operations.size() == 1);
    Factor two;
    two.factor = 2.0;
    if (keyed) two.key = Key128{7, 9};
    CHECK(eager::explain<Tensor>(leaf, y, executor, &recorder, "x", &two).status == Status::present);
    const Recorder<Tensor>* const none = nullptr;
    CHECK(eager::explain<Tensor>(leaf, y, executor, none, "x", &two).status == Status::present);
  }
}

TEST_CASE("explain: many places take no time") {
  Program p;
  Var sum = p.tape.leaf(p.w.second);
  for (int i = 0; i < 40000; ++i) sum = p.op<prim::add>({sum, p.op<prim::floor>({p.w})});
  CHECK(p.explain(sum).text ==
        "absent: \"w\" reaches the root only through floor (operation 1), floor (operation 3), floor "
        "(operation 5) "
        "and 39997 more, which have no derivative");
}

TEST_CASE("explain: changes nothing, and says when the tape was freed") {
  Program p;
  const Var zeros = p.tape.constant(Tensor::zeros({f64, {3}}));
  const Var y = p.sum(p.op<prim::mul>({p.op<prim::sin>({p.w}), zeros}));
  CHECK(p.explain(y).cause == Cause::operation);
  CHECK_FALSE(p.slot.gradient().has_value());
  CHECK(all_zero(backward(y).at(p.slot.key())));
  const Explanation after = p.explain(y);
  CHECK(after.status == Status::present);
  CHECK(after.text ==
        "present: \"w\" reaches the root through 3 operations (the values were not looked at: an earlier "
        "backward call freed them; keep_graph keeps them)");
}

TEST_CASE("explain: values in the middle, several roots, a root itself, a value without name") {
  Program p;
  const Var s = p.op<prim::sin>({p.w}, {"s.cpp", 1});
  const Var a = p.sum(s), b = p.sum(p.op<prim::floor>({s}, {"b.cpp", 2}));
  CHECK(p.explain(s, a).text ==
        "present: output 0 of sin (operation 1, s.cpp:1) reaches the root through 1 operation");
  eager::set_name(s.first.trace, s.first.key, "s");
  CHECK(p.explain(s, a).text == "present: \"s\" reaches the root through 1 operation");
  CHECK(p.explain(s, s).text == "present: \"s\" reaches the root as a root itself");
  CHECK(p.explain(s, b).text ==
        "absent: \"s\" reaches the root only through floor (operation 3, b.cpp:2), which has no derivative");
  std::vector<eager::Root<Tensor>> roots(2);
  for (std::size_t i = 0; i < 2; ++i) {
    roots[i].key = (i == 0 ? a : b).first.key;
    roots[i].trace = (i == 0 ? a : b).first.trace;
  }
  CHECK(eager::explain<Tensor>(p.w.first, roots, &reference()).text ==
        "present: \"w\" reaches the roots through 2 operations");
  const Var x = p.tape.leaf(1.0);
  CHECK(p.explain(x, a).text == "absent: no root depends on leaf " + to_string(x.first.key));
}

TEST_CASE("explain: long chains take no stack, and many ways no time") {
  Program p;
  Var x = p.tape.leaf(1.0);
  const Var first = x;
  for (int i = 0; i < 20000; ++i) x = p.op<prim::mul>({x, x});
  CHECK(p.explain(first, x, "x").text == "present: \"x\" reaches the root through 20000 operations");
  const Var rounded = p.op<prim::floor>({x});
  CHECK(p.explain(first, rounded, "x").text ==
        "absent: \"x\" reaches the root only through floor (operation 20001), which has no derivative");
}

}  // namespace
TEST_CASE("hooks may release the root and the target while they are explained") {
  Program p;
  auto inner = std::make_unique<Var>(p.map("exp", p.w, [](Value v) { return ops::exp(v); }));
  auto loss = std::make_unique<Var>(p.sum(*inner));
  eager::before_node<Tensor>(loss->first.trace, [&](eager::HookContext<Tensor>&) {
    loss->first = {};
    inner->first = {};
  });
  const Explanation said = eager::explain(inner->first, loss->first, reference());
  CHECK(said.status == Status::present);
}

TEST_CASE("an operand that comes with a trace and without a key is a constant, kept or not") {
  Program p;
  const Var y = p.map("exp", p.w, [](Value v) { return ops::exp(v); });
  const Var odd{{{}, eager::TraceRef(y.first.trace).hold(), false, 0}, y.second};
  const Var loss = p.sum(p.tape.apply<prim::mul>({p.w, odd}));
  const Explanation said = eager::explain(y.first, loss.first, reference());
  CHECK(said.status == Status::absent);
  // A key of another trace is refused, where it would be kept.
  const Var wrong{{p.w.first.key, eager::TraceRef(y.first.trace).hold(), false, 0}, y.second};
  CHECK_THROWS_WITH_AS(p.tape.apply<prim::mul>({p.w, wrong}),
                       doctest::Contains("to come with the trace that made it"), Error);
}

TEST_CASE("explanations and failures are printable words, whatever the names") {
  for (const std::string& name : awkward_texts(1, 2)) {
    const std::string file = name + ".cpp";
    const Where where{file.c_str(), 7};
    Program p;
    const Var y = p.map(
        name.c_str(), p.w, [](Value v) { return ops::floor(v); }, where);
    const Explanation said = p.explain(p.w, p.sum(y, where), name.c_str());
    CHECK(said.status == Status::absent);
    if (!is_printable(said.text)) FAIL_CHECK(std::string(detail::printable(said.text)));
    eager::set_name(p.w.first.trace, p.w.first.key, name);
    CHECK(is_printable(eager::NodeView(p.w.first.trace).describe()));
    CHECK(is_printable(eager::NodeView(y.first.trace).describe()));
    CHECK(is_printable(p.explain(p.sum(y)).text));
  }
}

}  // namespace tidu::test::explain_cases
