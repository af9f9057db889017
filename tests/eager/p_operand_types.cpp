// p_operand_types.cpp - operands of two types in one process, values of types that do not fit, objects that
// were moved from, and hooks that are none: each is refused and named.
#include <array>
#include <cmath>

#include "p_support.hpp"

namespace tidu::test::p_operand_type_cases {
namespace {

struct Other {
  std::string text;
  std::array<double, 6> more{};
};

class OtherExecutor final : public eager::BackwardExecutor<Other> {
 public:
  Result<eager::Operands<Other>> execute_forward(const eager::GraphCall&,
                                                 std::span<const Other* const>) const override {
    FAIL("expected no call");
    return eager::Operands<Other>();
  }
  Result<eager::Operands<Other>> run_transposed_linear(const eager::GraphCall&,
                                                       std::span<const Other* const>) const override {
    FAIL("expected no call");
    return eager::Operands<Other>();
  }
  Result<Other> add_operands(const eager::AddCall&, Other a, const Other&) const override { return a; }
};

template <class Body>
void check_says(const Body& body, std::initializer_list<const char*> parts,
                ErrorKind kind = ErrorKind::invalid_argument) {
  CHECK(kind_of(body) == kind);
  expect_parts(message_of(body), parts);
}

TEST_CASE("[P13] operands of another type are refused by roots, inputs and hooks") {
  Tape tape;
  const Var x = tape.leaf(0.5);
  const Var y = tape.apply<prim::sin>({x});
  check_says(
      [&] {
        eager::Root<Other> root;
        root.key = y.first.key;
        root.trace = y.first.trace;
        root.seed = Other{"seed"};
        eager::backward<Other>(std::span(&root, 1), OtherExecutor());
      },
      {"expected operands of type tidu::Tensor", "Other in root 0"});
  check_says([&] { eager::on_value<Other>(y.first.trace, y.first.key, [](HookContext<Other>&) {}); },
             {"expected operands of type tidu::Tensor", "Other in a hook"});

  Leaf<Other> leaf(tape.recorder.keys(), "other");
  EagerOutput who;
  who.key = leaf.key();
  who.trace = leaf.trace().hold();
  who.requires_grad = true;
  check_says(
      [&] {
        tape.apply<prim::sin>({{who, scalar(1.0)}});
      },
      {"[sin]", "expected operands of type tidu::Tensor, got input 0 of ", "Other", "p_operand_types.cpp"});
  // All goes on as if nothing had been asked for.
  CHECK(item(backward(y), x) == std::cos(0.5));
  CHECK_FALSE(leaf.gradient().has_value());
}

TEST_CASE("[P13] retained values have to be of their types") {
  Tape tape;
  GraphBuilder g("composite");
  const Value input = g.input("x", Type(f64, {2}));
  const Value middle = ops::exp(input);
  const RecordedGraph graph = RecordedGraph::of(g.build({ops::sin(middle)}));
  const Var x = tape.leaf(vec({0.1, 0.2}));
  const EagerInput<Tensor> in(x.first, x.second);
  const Tensor wrong = Tensor::from<float>(Shape{5}, {1, 2, 3, 4, 5});
  const eager::Retained<Tensor> retained{graph.graph().operation(0).output(), &wrong};
  check_says([&] { tape.recorder.record_graph(graph, std::span(&in, 1), {}, std::span(&retained, 1)); },
             {"[composite] expected f64[2] as retained value", "got f32[5]"}, ErrorKind::type);
}

TEST_CASE("[P13] recorders, graphs and leaves that were moved from") {
  Tape tape;
  const RecordedGraph graph =
      graph_of("sin", {Type(f64)}, [](const auto& in) { return std::vector<Value>{ops::sin(in[0])}; });
  Recorder<Tensor> first(&reference());
  { const Recorder<Tensor> second(std::move(first)); }
  const Tensor data = scalar(1.0);
  const EagerInput<Tensor> in(first.keys().fresh(), {}, true, &data);
  const auto recorded = first.record_graph(graph, std::span(&in, 1), std::span(&data, 1));
  CHECK(recorded[0].requires_grad);

  RecordedGraph gone = graph;
  const RecordedGraph here = std::move(gone);
  const RecordedGraph copy = gone;
  Leaf<Tensor> leaf(tape.recorder.keys(), "w");
  const Leaf<Tensor> moved(std::move(leaf));
  check_says([&] { (void)leaf.gradient(); }, {"Leaf: expected one that is there"});
  check_says([&] { leaf.set_gradient(scalar(1.0)); }, {"Leaf: expected one that is there"});
  CHECK_FALSE(moved.gradient().has_value());
}

TEST_CASE("[P7] empty functions are no hooks") {
  Tape tape;
  Leaf<Tensor> leaf(tape.recorder.keys(), "w");
  const Var y = tape.apply<prim::sin>({var(leaf, scalar(1.0))});
  const auto says = {"hook: expected a function, got an empty one"};
  check_says([&] { leaf.on_value({}); }, says);
  check_says([&] { leaf.on_accumulate({}); }, says);
  check_says([&] { eager::before_node<Tensor>(y.first.trace, {}); }, says);
  check_says([&] { eager::after_node<Tensor>(y.first.trace, {}); }, says);
  check_says([&] { eager::on_value<Tensor>(y.first.trace, y.first.key, {}); }, says);
  CHECK(run(Spy(), {root_of(y)}).at(leaf.key()).item<double>() == std::cos(1.0));
}

TEST_CASE("[P7] an empty callback is refused where it is entered, before slots change") {
  Tape tape;
  Leaf<Tensor> leaf(tape.recorder.keys(), "w");
  const Var y = tape.apply<prim::sin>({var(leaf, scalar(1.0))});
  BackwardOptions options = keep();
  options.accumulate = true;
  const auto refused = [&](auto hook) {
    HookHandle handle = eager::before_node<Tensor>(y.first.trace, hook);
    check_says([&] { run(Spy(), {root_of(y)}, options); },
               {"at_end: expected a function, got an empty one", "in a hook of the backward of sin"});
    CHECK_FALSE(leaf.gradient().has_value());
    handle.remove();
  };
  refused([](HookContext<Tensor>& context) { context.at_end({}); });
  refused([](HookContext<Tensor>& context) { context.end().add({}); });
}

TEST_CASE("[P8] a gradient that does not fit the slot's content names the leaf") {
  Tape tape;
  Leaf<Tensor> leaf(tape.recorder.keys(), "w");
  leaf.set_gradient(vec({1, 2}));
  const Var w = var(leaf, vec({1, 2, 3}));
  BackwardOptions options;
  options.accumulate = true;
  check_says(
      [&] {
        run(Spy(), {root_of(w, vec({1, 1, 1}))}, options);
      },
      {"expected a gradient of type f64[2]", "got f64[3]", "in add_operands of leaf \"w\""}, ErrorKind::type);
  CHECK(same_bits(*leaf.gradient(), vec({1, 2})));
}

TEST_CASE("[P3] nothing is added before all seeds fit") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2}));
  const Var y = tape.apply<prim::sin>({x});
  const Spy spy;
  for (const bool first : {true, false}) {
    std::vector<Root> roots{root_of(y, vec({1, 1})), root_of(y, vec({1, 2})), root_of(y, vec({2, 1}))};
    roots[first ? 0 : 2].seed = vec({1, 2, 3});
    check_says([&] { run(spy, roots); }, {"expected a seed of type f64[2]", "got f64[3]"}, ErrorKind::type);
  }
  CHECK(spy.num_calls() == 0);
}

TEST_CASE("[P5] of another output of the root's node nothing depends") {
  Tape tape;
  const RecordedGraph graph = graph_of("two", {Type(f64), Type(f64)}, [](const auto& in) {
    const Value p = in[0] * in[1];
    return std::vector<Value>{ops::sin(p), p};
  });
  const Var x = tape.leaf(0.5), y = tape.leaf(2.0);
  const std::vector<Var> both = tape.apply(graph, {x, y});
  const Var z = tape.apply<prim::exp>({both[0]});
  BackwardOptions kept;
  kept.keep_graph = true;
  for (const Var& root : {both[0], z}) {
    const auto gradients =
        run(Spy(), {root_of(root)}, kept, {Requested(both[0].first), Requested(both[1].first)});
    CHECK(gradients.requested()[0].value.has_value());
    CHECK(gradients.requested()[1].absence == eager::Absence::unreachable);
  }
  CHECK(eager::to_string(eager::Absence::none) == "present");
}

TEST_CASE("[P6] outputs that are each other's derivatives have derivatives of any order") {
  Tape tape;
  const RecordedGraph graph = graph_of("sincos", {Type(f64)}, [](const auto& in) {
    return std::vector<Value>{ops::sin(in[0]), ops::cos(in[0])};
  });
  const Var x = tape.leaf(0.5);
  for (std::size_t output = 0; output < 2; ++output) {
    Var y = tape.apply(graph, {x})[output];
    for (int order = 1; order <= 6; ++order) {
      BackwardOptions options;
      options.create_graph = true;
      const auto gradients = run(Spy(), {root_of(y)}, options, {Requested(x.first)}, &tape.recorder);
      REQUIRE(gradients.requested()[0].value);
      y = {gradients.requested()[0].recorded, *gradients.requested()[0].value};
      const double phase = (order + static_cast<int>(output)) * std::acos(0.0);
      CHECK(y.second.item<double>() == doctest::Approx(std::sin(0.5 + phase)));
    }
  }
}

}  // namespace
TEST_CASE("a list of operands takes another of its own elements, growing or not") {
  eager::Operands<std::shared_ptr<int>> list;
  list.push_back(std::make_shared<int>(7));
  for (int i = 0; i < 20; ++i) list.emplace_back(list[0]);
  for (const std::shared_ptr<int>& element : list) REQUIRE(element != nullptr);
  CHECK(*list[20] == 7);
  CHECK(list[0].use_count() == 21);
}

}  // namespace tidu::test::p_operand_type_cases
