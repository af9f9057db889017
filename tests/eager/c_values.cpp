// c_values.cpp - [C9] [C10] values that are changed under a tape that reads them, and forwards inside
// forwards.
#include "counted.hpp"
#include "support.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::test::counted {
namespace {

using test::Tape;

Tensor three(double a, double b, double c) { return Tensor::from<double>(Shape{3}, {a, b, c}); }

TEST_CASE("[C9] a changed value that backward reads is named, with op and both versions") {
  Tape tape;
  Tensor w = three(1.0, 2.0, 4.0);
  w.mutable_data<double>()[0] = 3.0;  // before it is recorded: none of the tape's business
  const std::uint64_t recorded = w.version();
  const test::Var x = tape.leaf(three(1.0, 1.0, 1.0));
  const test::Var y = tape.apply<prim::mul>({x, tape.constant(w)});
  w.mutable_data<double>()[1] = 7.0;
  w.mutable_data<double>()[2] = 7.0;
  const auto result = eager::try_backward<Tensor>(y.first.key, y.first.trace, three(1, 1, 1), reference());
  REQUIRE(!result.has_value());
  CHECK(result.error().kind() == ErrorKind::tape);
  const std::string_view what = result.error().what();
  for (const std::string& says :
       {std::string("[mul]"), std::string("input 1 (f64[3])"), "at version " + std::to_string(recorded),
        "got version " + std::to_string(w.version()), std::string("c_values.cpp")})
    CHECK_MESSAGE(what.find(says) != std::string_view::npos, what);
}

TEST_CASE("[C9] changed results that backward reads are refused, clones are not") {
  Tape tape;
  const test::Var x = tape.leaf(three(0.1, 0.2, 0.3));
  const test::Var y = tape.apply<prim::exp>({x});
  SUBCASE("the result itself") {
    Tensor(y.second).mutable_data<double>()[0] = 0.0;
    const auto result = eager::try_backward<Tensor>(y.first.key, y.first.trace, three(1, 1, 1), reference());
    REQUIRE(!result.has_value());
    CHECK(result.error().kind() == ErrorKind::tape);
    CHECK(std::string_view(result.error().what()).find("output 0 (f64[3])") != std::string_view::npos);
  }
  SUBCASE("a clone of it") {
    y.second.clone().mutable_data<double>()[0] = 0.0;
    CHECK(test::backward(y, three(1, 1, 1)).at(x.first.key).at(0).real() == std::exp(0.1));
  }
}

TEST_CASE("[C9] values that backward does not read may change") {
  Tape tape;
  Tensor a = three(1.0, 2.0, 3.0), b = three(4.0, 5.0, 6.0);
  const test::Var x = tape.leaf(a);
  const auto gradient_of_x = [&](const test::Var& y) {
    eager::Root<Tensor> root;
    root.key = y.first.key;
    root.trace = y.first.trace;
    root.seed = three(1, 1, 1);
    const eager::Requested requested[] = {x.first};
    const auto gradients = eager::backward<Tensor>(std::span(&root, 1), reference(), {}, requested);
    return gradients.requested()[0].value->at(0).real();
  };
  SUBCASE("operands of a sum") {
    const test::Var y = tape.apply<prim::add>({x, tape.constant(b)});
    a.mutable_data<double>()[0] = 9.0;
    b.mutable_data<double>()[0] = 9.0;
    Tensor(y.second).mutable_data<double>()[0] = 9.0;
    CHECK(test::backward(y, three(1, 1, 1)).at(x.first.key).at(0).real() == 1.0);
  }
  SUBCASE("the active operand of a product with an inactive one") {
    const test::Var y = tape.apply<prim::mul>({x, tape.constant(b)});
    a.mutable_data<double>()[0] = 9.0;
    CHECK(test::backward(y, three(1, 1, 1)).at(x.first.key).at(0).real() == 4.0);
  }
  SUBCASE("an operand that only nodes off the path read") {
    const test::Var y = tape.apply<prim::mul>({x, tape.leaf(b)});
    a.mutable_data<double>()[0] = 9.0;
    CHECK(gradient_of_x(y) == 4.0);
  }
  SUBCASE("of a node on no path to a requested value") {
    const test::Var other = tape.leaf(three(1.0, 1.0, 1.0));
    const test::Var side = tape.apply<prim::mul>({other, tape.constant(b)});
    const test::Var y = tape.apply<prim::add>({x, side});
    b.mutable_data<double>()[0] = 9.0;
    CHECK(gradient_of_x(y) == 1.0);
  }
}

TEST_CASE("[C9] a change is seen where the executor counts versions of some operands alone") {
  std::uint64_t version = 3;  // of the operand 5; that of 7 is unknown
  CountedTape tape;
  tape.executor.versions = [&](const Counted& operand) {
    return operand.value == 5.0 ? std::optional<std::uint64_t>(version) : std::nullopt;
  };
  const Var x = tape.leaf(5.0), y = tape.leaf(7.0);
  for (const bool known_first : {true, false}) {
    CAPTURE(known_first);
    const Var z = known_first ? tape.apply<prim::mul>(x, y) : tape.apply<prim::mul>(y, x);
    const std::string json = eager::to_json(std::span(&z.who, 1));
    const std::size_t at = json.find("\"version\": " + std::to_string(version));
    CHECK(at != std::string::npos);
    CHECK(json.find("\"version\"", at + 1) == std::string::npos);
    BackwardOptions keep;
    keep.keep_graph = true;
    CHECK(tape.backward(z, keep).at(x.who.key).value == 7.0);
    ++version;
    CHECK_THROWS_AS_MESSAGE(tape.backward(z, keep), Error, "the write is to be noticed");
    --version;
    CHECK(tape.backward(z).at(y.who.key).value == 5.0);
  }
}

TEST_CASE("[C9] the tape is not lost: another root still works") {
  Tape tape;
  Tensor w = three(1.0, 2.0, 4.0);
  const test::Var x = tape.leaf(three(1.0, 1.0, 1.0));
  const test::Var a = tape.apply<prim::sin>({x});
  const test::Var y = tape.apply<prim::mul>({a, tape.constant(w)});
  w.mutable_data<double>()[1] = 7.0;
  CHECK(!eager::try_backward<Tensor>(y.first.key, y.first.trace, three(1, 1, 1), reference()).has_value());
  CHECK(test::backward(a, three(1, 1, 1)).at(x.first.key).at(0).real() == doctest::Approx(std::cos(1.0)));
}

TEST_CASE("[C10] a forward inside a backward, on the same recorder") {
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const Var y = tape.apply<prim::sin>(x);
  double inner = 0.0;
  auto hook = eager::on_value<Counted>(y.who.trace, y.who.key, [&](eager::HookContext<Counted>&) {
    const Var a = tape.leaf(2.0);
    inner = tape.backward(tape.apply<prim::mul>(a, a)).at(a.who.key).value;
  });
  CHECK(tape.backward(y).at(x.who.key).value == doctest::Approx(std::cos(0.5)));
  CHECK(inner == 4.0);
}

// y = x; its JVP rule runs a program of its own, forward and backward.
double from_rule = 0.0;
const Primitive nested{.name = "test.nested",
                       .linearity = linearity::linear,
                       .infer = [](InferContext& c) { c.result(c.operand(0)); },
                       .jvp = [](JvpContext& c) -> Derivatives {
                         CountedTape tape;
                         const Var x = tape.leaf(3.0);
                         from_rule = tape.backward(tape.apply<prim::mul>(x, x)).at(x.who.key).value;
                         return c.tangent(0);
                       },
                       .transpose = [](TransposeContext& c) -> Derivatives { return c.cotangent(); }};

TEST_CASE("[C10] a forward inside the recording of another") {
  const PrimitiveSet set = standard_primitives().with({&nested});
  CountedTape tape;
  const Var x = tape.leaf(0.5);
  const std::array types{Type(f64)};
  const EagerInput<Counted> inputs[] = {{x.who, x.what}};
  const auto y = tape.recorder.record_graph(RecordedGraph::of(Op::make(nested), types, set), inputs);
  CHECK(from_rule == 6.0);
  CHECK(tape.backward({y[0], x.what}).at(x.who.key).value == 1.0);
}

TEST_CASE("[C10] tapes side by side, values of one used on the other") {
  CountedTape first, second;
  const Var x = first.leaf(0.5);
  const Var a = first.apply<prim::sin>(x);
  const Var b = second.apply<prim::exp>(x);
  const Var c = second.apply<prim::mul>(a, b);
  const Var d = first.apply<prim::mul>(c, x);
  CHECK(first.backward(d).at(x.who.key).value ==
        doctest::Approx(std::exp(0.5) * (std::sin(0.5) + 0.5 * (std::sin(0.5) + std::cos(0.5)))));
}

}  // namespace
}  // namespace tidu::test::counted
