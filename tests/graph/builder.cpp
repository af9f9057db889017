// GraphBuilder: merging, errors and their messages, and keys.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <tidu/graph/json.hpp>

#include "support/test_primitives.hpp"

namespace tidu {
namespace {

using test::test_set;

TEST_CASE("equal operations are made once, impure ones each time") {
  GraphBuilder builder("f", test_set());
  const Value x = builder.input("x", f64);
  const Value y = builder.input("y", f64);
  CHECK(test::mul(x, y) == test::mul(x, y));
  CHECK_FALSE(test::mul(x, y) == test::mul(y, x));
  CHECK(test::twins(x)[1] == test::twins(x)[1]);
  CHECK(test::full(builder, 1.0, f64, {2}) == test::full(builder, 1.0, f64, {2}));
  CHECK_FALSE(test::full(builder, 0.0, f64, {2}) == test::full(builder, -0.0, f64, {2}));
  CHECK_FALSE(test::draw(x) == test::draw(x));
  CHECK(builder.num_operations() == 8);
  GraphBuilder verbatim("g", test_set(), {.deduplicate = false});
  const Value z = verbatim.input("z", f64);
  CHECK_FALSE(test::sin(z) == test::sin(z));
  CHECK(verbatim.data().keys[1] == verbatim.data().keys[2]);
}

TEST_CASE("a value with 100,000 consumers stays cheap, and its operations are still made once") {
  GraphBuilder builder("star", test_set());
  const Value x = builder.input("x", f64);
  std::vector<Value> leaves;
  for (int i = 0; i < 300; ++i) leaves.push_back(builder.input(detail::str("leaf ", i), f64));
  const Value centre = test::sin(x);
  constexpr std::size_t consumers = 100'000;
  std::vector<Value> first;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < consumers; ++i) {
      const std::vector<Value> operands{centre, leaves[i % 300], leaves[i / 300 % 300], leaves[i / 90'000]};
      const Value made = emit(plain_op<test::many_p>(), operands)[0];
      if (round == 0) {
        first.push_back(made);
      } else if (!(made == first[i])) {
        FAIL("operation ", i, " was made twice");
      }
    }
  }
  CHECK(builder.num_operations() == consumers + 1);
  verify(builder.build({first.back()}));
}

TEST_CASE("operations that do not fit are refused with op, operand, types and location") {
  GraphBuilder builder("layer", test_set());
  const Value x = builder.input("x", Type(f64, {3}));
  const Value y = builder.input("y", Type(f32, {2, 3}));
  const std::vector<Value> both{x, y};
  std::string message;
  try {
    builder.emit(plain_op<test::mul_p>(), both, Where::current());
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::type);
    message = error.what();
  }
  CHECK(
      message.find(
          "[mul] expected operand 1 of f64[3], got f32[2,3]\n  in operation 0 of \"layer\", builder.cpp:") ==
      0);
  CHECK(builder.num_operations() == 0);
  CHECK_THROWS_WITH_AS(builder.emit(plain_op<test::mul_p>(), std::vector{x}),
                       doctest::Contains("[mul] expected 2 operands"), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(Op::make(test::full_p, {{"value", 1.0}, {"dtype", f64}})),
                       doctest::Contains("expected an attribute \"shape\""), Error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(Op::make(test::full_p, {{"value", 1.0}, {"dtype", f64}, {"shape", 3}})),
      doctest::Contains("attribute \"shape\""), Error);
}

TEST_CASE("misuse of a builder is an error") {
  GraphBuilder builder("f", test_set());
  GraphBuilder other("g", test_set());
  const Value x = builder.input("x", f64);
  const Value foreign = other.input("x", f64);
  const auto invalid = [](const auto& body, const char* says) {
    CHECK_THROWS_WITH_AS(static_cast<void>(body()), doctest::Contains(says), Error);
  };
  invalid([&] { return test::mul(x, foreign); },
          "[mul] expected operand 1 to be a value of this builder (\"f\"), got one of another");
  invalid([&] { return test::mul(x, Value()); },
          "got a default-constructed Value\n  in operation 0 of \"f\"");
  invalid([&] { return test::mul(Value(), x); }, "default-constructed Value");
  invalid([&] { return builder.input("x", f64); }, "expected a new input, got \"x\" a second time in \"f\"");
  invalid([&] { return builder.input("", f64); }, "expected a name, got an empty one");
  invalid([&] { return builder.value(7); }, "expected an id below 1, got 7");
  invalid([&] { return builder.build({foreign}); }, "expected output 0 to be a value of this builder");
  invalid([&] { return builder.build({x, Value()}); }, "a default-constructed Value");
  const Graph graph = builder.build({x});  // refusals left it as it was
  CHECK(graph.outputs().size() == 1);
  invalid([&] { return builder.build({x}); }, "whose graph was built");
  invalid([&] { return builder.input("y", f64); }, "whose graph was built");
  invalid([&] { return test::sin(x); }, "whose graph was built");
}

TEST_CASE("a builder takes primitives of another set") {
  constexpr auto infer = [](InferContext& c) { c.result(c.operand(0)); };
  static constinit const Primitive one{.name = "builder.one", .infer = infer};
  static constinit const Primitive two{.name = "builder.two", .infer = infer};
  static constinit const Primitive other_one{.name = "builder.one", .infer = infer};
  const PrimitiveSet with_one = test_set().with({&one});
  GraphBuilder builder("f", test_set());
  const Value x = builder.input("x", f64);
  CHECK_THROWS_AS(static_cast<void>(emit1(plain_op<one>(), {x})), Error);
  builder.extend_primitives(test_set());
  CHECK(builder.primitives() == test_set());
  builder.extend_primitives(with_one);
  CHECK(builder.primitives() == with_one);  // no set is made where there is one
  const Value y = emit1(plain_op<one>(), {test::mul(x, x)});
  builder.extend_primitives(test_set().with({&two, &other_one}));
  const Value z = emit1(plain_op<two>(), {y});
  const Graph graph = builder.build({z});
  CHECK(graph.primitives().contains(&two));
  CHECK(graph.primitives().contains(&one));
  CHECK_FALSE(graph.primitives().contains(&other_one));  // of one name the first stays
  CHECK_THROWS_AS(builder.extend_primitives(with_one), Error);
}

TEST_CASE("keys agree between builders and threads, and tell order, slot, type, op and attributes apart") {
  const auto keys = [] {
    GraphBuilder builder("f", test_set());
    const Value x = builder.input("x", f64);
    const Value y = builder.input("y", f64);
    std::vector<Value> all{x,
                           y,
                           builder.input("z", f32),
                           test::mul(x, y),
                           test::mul(y, x),
                           test::add(x, y),
                           test::sin(x),
                           test::sin(y)};
    for (const Value v : test::twins(x)) all.push_back(v);
    for (const double value : {0.0, -0.0, 1.0, std::nan("1")})
      all.push_back(test::full(builder, value, f64, {}));
    all.push_back(test::full(builder, 1.0, f32, {}));
    all.push_back(test::full(builder, 1.0, f64, {1}));
    std::vector<ValueKey> found;
    for (const Value v : all) found.push_back(builder.data().keys[v.id()]);
    return found;
  };
  const std::vector<ValueKey> here = keys();
  std::vector<ValueKey> there;
  std::thread([&] { there = keys(); }).join();
  CHECK(here == there);
  for (std::size_t i = 0; i < here.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(here[i] == here[j]);
  }
}

TEST_CASE("x = x x, 64 times, is linear, also when two builds are compared") {
  const auto tower = [](std::string_view name) {
    GraphBuilder builder("tower", test_set());
    Value x = builder.input(name, f64);
    for (int i = 0; i < 64; ++i) x = test::mul(x, x);
    return builder.build({x});
  };
  const Graph a = tower("x");
  const Graph b = tower("x");
  const Graph c = tower("y");
  CHECK(a.num_operations() == 64);
  CHECK(a.key(a.outputs()[0]) == b.key(b.outputs()[0]));
  CHECK_FALSE(a.key(a.outputs()[0]) == c.key(c.outputs()[0]));
  CHECK(structurally_equal(a, b));
  CHECK(structurally_equal(a, c));
}

TEST_CASE("the structural address ignores names, but neither sharing nor the order of outputs") {
  const auto product = [](bool shared, bool swapped, std::string_view name) {
    GraphBuilder builder(std::string(name), test_set());
    const Value x = builder.input(detail::str(name, " x"), f64);
    const Value y = builder.input("y", f64);
    const Value z = test::mul(x, shared ? x : y);
    builder.set_label(z, name);
    return swapped ? builder.build({x, z}) : builder.build({z, x});
  };
  const Graph a = product(true, false, "a");
  CHECK(a.structural_key() == product(true, false, "b").structural_key());
  CHECK(structurally_equal(a, product(true, false, "b")));
  for (const Graph& other : {product(false, false, "a"), product(true, true, "a")}) {
    CHECK_FALSE(a.structural_key() == other.structural_key());
    CHECK_FALSE(structurally_equal(a, other));
  }
}

TEST_CASE("graphs that hold one graph in several places are compared once each") {
  constexpr int levels = 60;  // of 2^60 copies, were each compared
  const auto nested = [](bool changed) {
    Graph inner = [&] {
      GraphBuilder builder("f", test_set());
      const Value x = builder.input("x", f64);
      return builder.build({changed ? test::sin(test::sin(x)) : test::sin(x)});
    }();
    for (int level = 0; level < levels; ++level) {
      GraphBuilder builder("f", test_set());
      const Value x = builder.input("x", f64);
      const Value once = test::call(inner, std::vector{x})[0];
      inner = builder.build({test::call(inner, std::vector{once})[0]});
    }
    return inner;
  };
  const Graph a = nested(false), b = nested(false), c = nested(true);
  CHECK(a.share() != b.share());
  CHECK(structurally_equal(a, b));
  CHECK_FALSE(structurally_equal(a, c));
}

TEST_CASE("attributes are compared by value, graphs among them by structure") {
  const auto held = [](std::string_view name, bool twice) {
    GraphBuilder builder(std::string(name), test_set());
    const Value x = builder.input(name, f64);
    return builder.build({twice ? test::add(x, x) : test::sin(x)});
  };
  const Op a = Op::make(test::call_p, {{"graph", held("a", true)}});
  CHECK(a == Op::make(test::call_p, {{"graph", held("b", true)}}));
  CHECK(a.key() == Op::make(test::call_p, {{"graph", held("b", true)}}).key());
  CHECK_FALSE(a == Op::make(test::call_p, {{"graph", held("a", false)}}));
  CHECK(test::kinds_op() == test::kinds_op());
  CHECK(test::kinds_op().record() == test::kinds_op().record());
  CHECK_FALSE(test::kinds_op() == test::kinds_op(0.25));
  CHECK(test::kinds_op(std::nan("7")) == test::kinds_op(-std::numeric_limits<double>::quiet_NaN()));
  const double negative[] = {-0.0};
  const double positive[] = {0.0};
  CHECK_FALSE(Literal::of<double>(f64, negative) == Literal::of<double>(f64, positive));
}

TEST_CASE(
    "ops of graphs that are equal but for names, at any depth, are as many records with hashes of their "
    "own") {
  const auto held = [](std::string_view name, std::string_view input, std::string_view label,
                       std::string_view where) {
    GraphBuilder builder(std::string(name), test_set());
    const Value x = builder.input(input, f64);
    const std::vector<ValueId> operands{x.id(), x.id()};
    const Op product = Op::make(*test_set().find("mul"));
    GraphBuilder::Extra extra;
    extra.where = builder.intern_where(where);
    const Value y = builder.value(builder.add(product.record(), operands, extra));
    builder.set_label(y, label);
    return builder.build({y});
  };
  const auto within = [](const Graph& graph, int levels) {
    Op op = Op::make(test::call_p, {{"graph", graph}});
    for (; levels > 0; --levels) {
      GraphBuilder builder("outer", test_set());
      op = Op::make(test::call_p, {{"graph", builder.build({emit1(op, {builder.input("x", f64)})})}});
    }
    return op;
  };
  for (const int levels : {0, 1, 3}) {
    std::vector<Op> ops;
    for (int i = 0; i < 20; ++i)
      ops.push_back(within(held(detail::str("layer", i), "x", "y", "a:1"), levels));
    ops.push_back(within(held("layer0", "z", "y", "a:1"), levels));
    ops.push_back(within(held("layer0", "x", "z", "a:1"), levels));
    ops.push_back(within(held("layer0", "x", "y", "b:1"), levels));
    for (std::size_t i = 0; i < ops.size(); ++i) {
      CHECK(ops[i] == ops[0]);
      CHECK(ops[i].key() == ops[0].key());
      for (std::size_t j = 0; j < i; ++j) {
        CHECK(ops[i].record() != ops[j].record());
        CHECK(ops[i].record()->hash != ops[j].record()->hash);
      }
    }
    CHECK(within(held("layer0", "x", "y", "a:1"), levels).record() == ops[0].record());
  }
}

TEST_CASE("verify shows the defect and its neighbourhood") {
  GraphBuilder builder("f", test_set());
  const Value x = builder.input("x", f64);
  const Graph graph = builder.build({test::sin(test::mul(x, test::sin(x)))});
  verify(graph);
  const auto broken = [&](const auto& damage) {
    const GraphData& g = graph.data();
    const auto data = std::make_shared<GraphData>(g.primitives);
    data->name = g.name;
    data->types = g.types;
    data->keys = g.keys;
    data->producers = g.producers;
    data->operations = g.operations;
    data->operands = g.operands;
    data->inputs = g.inputs;
    data->input_keys = g.input_keys;
    data->outputs = g.outputs;
    damage(*data);
    try {
      verify(Graph(std::shared_ptr<const GraphData>(data)));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::internal);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto says = [](const std::string& message, std::string_view part) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  };
  const std::string cycle = broken([](GraphData& g) { g.operands[1] = 3; });
  says(cycle, "expected operand 0 to be made before operation 1, got value 3 of operation 2");
  says(cycle, "\n> 1: %2 f64[] = mul %3:f64[] %1:f64[]\n  2: %3 f64[] = sin %2:f64[]");
  says(broken([](GraphData& g) { g.operands[1] = 77; }), "expected operand 0 below 4, got 77");
  says(broken([](GraphData& g) { g.types[2] = f32; }), "expected result 0 to be f64[], got f32[]");
  says(broken([](GraphData& g) { g.types[0] = f32; }), "in graph \"f\"");
  says(broken([](GraphData& g) { g.keys[2].low ^= 1; }), "expected the key of value 2 to follow");
  says(broken([](GraphData& g) { g.keys[0].low ^= 1; }), "expected the key of");
  says(broken([](GraphData& g) { g.producers[2] = 2; }), "expected value 2 to name its producer 1, got 2");
  says(broken([](GraphData& g) { g.operations[1].first_output = 9; }), "expected results below 4");
  says(broken([](GraphData& g) { g.operations[1].num_inputs = 900; }), "expected operands within a list");
  says(broken([](GraphData& g) { g.outputs[0] = 4; }), "expected outputs below 4, got 4");
  says(broken([](GraphData& g) { g.inputs.push_back(0), g.input_keys.push_back(InputKey::named("q")); }),
       "expected an origin of each");
  says(broken([](GraphData& g) { g.input_keys.clear(); }), "expected a key of each of 1 inputs, got 0");
  says(broken([](GraphData& g) {
         g.roles = {0, 0x80000004U, 0};
       }),
       "expected a role that is linear in some of 2 operands");
  says(broken([](GraphData& g) { g.roles = {0}; }), "one for each of 3 operations, got 1");
  says(broken([](GraphData& g) {
         g.dump_ids = {0, 1, 1, 2};
       }),
       "expected ids for a dump to be a permutation, got 1");
  says(broken([](GraphData& g) { g.primitives = PrimitiveSet({&test::sin_p}, nullptr, nullptr); }),
       "expected a primitive of the graph's set, got mul");
}

TEST_CASE("an input without a label has no empty name") {
  GraphBuilder g("f");
  const Value nameless = g.input(InputKey::fresh({}, 7), f64), x = g.input("x", f64);
  const Graph graph = g.build({nameless, x});
  CHECK_FALSE(graph.find_input("").has_value());
  CHECK(graph.find_input("x") == 1U);
  CHECK(graph.find_input(graph.input_name(0)) == 0U);
}

}  // namespace
}  // namespace tidu
