// The graphs that the transforms build, and their errors: parts and their positions, names and keys, roles
// and origins, inner graphs, pullbacks and manifests, Jacobians, emitters of a user.
#include "tidu/linearize/transforms.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "support/probe.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/graph/merge.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu {
namespace {

using test::count;
using test::message_of;

// sin(x) y and x + n, of f64[3], f64[3] and i64: two outputs, an integer input.
Graph two_outputs() {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {3}}), y = g.input("y", {f64, {3}}), n = g.input("n", i64);
  const Value total = ops::reduce_sum(ops::sin(x) * y, {0});
  return g.build({total, x + ops::broadcast_scalar(ops::convert_element_type(n, f64), {3})});
}

Tensor vec(std::initializer_list<double> x) {
  return Tensor::from<double>({static_cast<std::int64_t>(x.size())}, x);
}

bool mentions(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

TEST_CASE("jvp and vjp say where their parts are") {
  const Graph f = two_outputs();
  const Derivative forward = jvp_parts(f, {"x"});
  CHECK(forward.wrt == std::vector<std::size_t>{0});
  CHECK(forward.outputs == std::vector<std::size_t>{0, 1});
  CHECK(forward.first == 2);
  CHECK(forward.graph.inputs().size() == 4);
  CHECK(forward.graph.input_name(3) == "x.tangent");
  verify(forward.graph);

  const Derivative reverse = vjp_parts(f);
  CHECK(reverse.wrt == std::vector<std::size_t>{0, 1});
  CHECK(reverse.graph.inputs().size() == 5);
  CHECK(reverse.graph.outputs().size() == 4);
  verify(reverse.graph);
  const Tensor n = Tensor::scalar(std::int64_t{2});
  const auto results = reference().run(
      reverse.graph, {vec({1, 2, 3}), vec({4, 5, 6}), n, Tensor::scalar(0.5), vec({7, 8, 9})});
  for (std::int64_t i = 0; i < 3; ++i) {
    const double x = 1.0 + static_cast<double>(i), y = 4.0 + static_cast<double>(i);
    CHECK(results[2].at(i).real() == doctest::Approx(0.5 * std::cos(x) * y + 7.0 + static_cast<double>(i)));
    CHECK(results[3].at(i).real() == doctest::Approx(0.5 * std::sin(x)));
  }
}

TEST_CASE("a derivative without a path is zeros, and said to be absent") {
  GraphBuilder g("f");
  const Value x = g.input("x", f64), y = g.input("y", f64);
  const Graph f = g.build({ops::sin(x), ops::stop_gradient(y)});
  const Derivative forward = jvp_parts(f);
  CHECK(forward.present == std::vector<bool>{true, false});
  const Derivative reverse = vjp_parts(f);
  CHECK(reverse.present == std::vector<bool>{true, false});
  const auto results = reference().run(
      reverse.graph, {Tensor::scalar(0.0), Tensor::scalar(1.0), Tensor::scalar(3.0), Tensor::scalar(5.0)});
  CHECK(results[2].item<double>() == 3.0);
  CHECK(results[3].item<double>() == 0.0);
}

TEST_CASE("wrt that does not fit is refused by name") {
  const Graph f = two_outputs();
  CHECK(message_of([&] { jvp(f, {"z"}); }) == "wrt: expected inputs of \"f\", [x,y,n], got \"z\"");
  CHECK(message_of([&] { vjp(f, {"x", "x"}); }) == "linearize: expected each input once in wrt, got x twice");
  CHECK(message_of([&] { vjp(f, {"n"}); }) ==
        "linearize: expected a floating or complex input in wrt, got n of type i64[]");
  CHECK(message_of([&] { grad(f); }) ==
        "grad: expected \"f\" to have one floating scalar output, got 2 outputs");
  CHECK_FALSE(try_hessian(f).has_value());
  CHECK(try_vmap(f, 3, {"q"}).error().kind() == ErrorKind::invalid_argument);
  CHECK(message_of([&] { with_outputs(f, std::vector<std::size_t>{2}); }).find("below 2, got 2") !=
        std::string::npos);
  CHECK(grad(with_outputs(f, std::vector<std::size_t>{0}), {"y"}).outputs().size() == 1);
}

TEST_CASE("names of new inputs: labels with keys of their own, or names that step aside") {
  GraphBuilder g("f");
  const Value x = g.input("x", f64), taken = g.input("x.tangent", f64);
  const Graph f = g.build({x * taken});
  DerivativeOptions named;
  named.named_inputs = true;
  const Graph first = jvp(f, {"x"}, named);
  CHECK(first.input_name(2) == "x.tangent.2");
  CHECK(graph_from_json(to_json(first)).inputs().size() == 3);
  // Without names, two VJPs of one function live in one merged graph with cotangents of their own.
  const Graph a = vjp(f, {"x"}), b = vjp(f, {"x"});
  const Graph both = materialize_merge(std::vector{a, b});
  CHECK(both.inputs().size() == 4);
  CHECK(structurally_equal(a, b));
}

TEST_CASE("linear graphs hold linear operations alone; roles and origins reach the merged graph") {
  const Graph f = two_outputs();
  const Linearization linearization = linearize(f);
  verify(linearization.linear);
  verify(linearization.augmented);
  for (std::size_t i = 0; i < linearization.linear.num_operations(); ++i) {
    const Operation operation = linearization.linear.operation(i);
    CHECK(operation.is_linear());
    CHECK(operation.origin() < f.num_operations());
    for (std::size_t k = 0; k < operation.num_inputs(); ++k) {
      CHECK(operation.is_linear_in(k) != linearization.linear.is_external(operation.input(k)));
    }
  }
  for (std::size_t i = 0; i < linearization.residuals.size(); ++i) {
    CHECK(linearization.linear.key(linearization.linear.externals()[i]) ==
          linearization.augmented.key(linearization.residuals[i]));
  }
  const Graph merged = jvp(f);
  bool any_linear = false;
  for (std::size_t i = 0; i < merged.num_operations(); ++i)
    any_linear = any_linear || merged.operation(i).is_linear();
  CHECK(any_linear);
  const Transposition transposition = linear_transpose(linearization.linear);
  for (std::size_t i = 0; i < transposition.graph.num_operations(); ++i)
    CHECK(transposition.graph.operation(i).is_linear());
}

TEST_CASE("an operation that holds a graph hands out its residuals: nothing forward runs twice") {
  GraphBuilder inner("layer");
  const Value a = inner.input("a", f64), b = inner.input("b", f64);
  const Graph layer = inner.build({ops::sin(a * b), ops::exp(a)});
  GraphBuilder g("f");
  const Value x = g.input("x", f64), y = g.input("y", f64);
  const Values once = ops::call(layer, std::vector{x, y});
  const Values twice = ops::call(layer, std::vector{once[0], y});
  const Graph f = g.build({twice[0] * once[1]});

  const Linearization linearization = linearize(f);
  CHECK_FALSE(linearization.value_map.empty());
  CHECK(count(linearization.augmented, "call") == 2);  // replaced, not repeated
  const Graph derivative = value_and_grad(f);
  CHECK(count(derivative, "call") == 4);  // two forward, two backward
  const auto results = reference().run(derivative, {Tensor::scalar(0.3), Tensor::scalar(0.8)});
  const double s = std::sin(0.3 * 0.8), e = std::exp(0.3), c = std::cos(0.3 * 0.8), d = std::cos(s * 0.8);
  CHECK(results[0].item<double>() == doctest::Approx(std::sin(s * 0.8) * e));
  CHECK(results[1].item<double>() == doctest::Approx(d * 0.8 * c * 0.8 * e + std::sin(s * 0.8) * e));
  CHECK(results[2].item<double>() == doctest::Approx(d * (s + 0.8 * c * 0.3) * e));
  // Third order through calls, compared with the inlined function.
  GraphBuilder flat("flat");
  const Value p = flat.input("x", f64), q = flat.input("y", f64);
  const Graph written = flat.build({ops::sin(ops::sin(p * q) * q) * ops::exp(p)});
  const auto third = [](const Graph& graph) { return hvp(grad(graph, {"x"}), {"x", "y"}); };
  const std::vector<Tensor> at{Tensor::scalar(0.3), Tensor::scalar(0.8), Tensor::scalar(0.5),
                               Tensor::scalar(-1.5)};
  const auto by_calls = reference().run(third(f), std::span<const Tensor>(at));
  const auto by_hand = reference().run(third(written), std::span<const Tensor>(at));
  REQUIRE(by_calls.size() == by_hand.size());
  for (std::size_t i = 0; i < by_hand.size(); ++i) {
    CHECK(by_calls[i].item<double>() == doctest::Approx(by_hand[i].item<double>()).epsilon(1e-12));
  }
}

TEST_CASE("a pullback is made once and applied to many cotangents; its manifest lists its residuals") {
  const Graph f = two_outputs();
  const Pullback pb = pullback(f);
  REQUIRE(pb.gradient.size() == 2);
  std::size_t bytes = 0;
  for (const Residual& residual : pb.manifest) {
    bytes += residual.bytes;
    CHECK_FALSE(residual.origin.empty());
  }
  CHECK(bytes == 3 * 3 * 8);  // cos x, sin x and y, or values that replace them
  const Tensor n = Tensor::scalar(std::int64_t{1});
  const auto forward = reference().run(pb.forward, {vec({1, 2, 3}), vec({4, 5, 6}), n});
  std::vector<Tensor> inputs(forward.begin() + 2, forward.end());
  REQUIRE(inputs.size() == pb.manifest.size());
  for (const double seed : {0.5, -2.0}) {
    std::vector<Tensor> backward = inputs;
    backward.push_back(Tensor::scalar(seed));
    backward.push_back(vec({0, 0, 0}));
    const auto gradients = reference().run(pb.backward, std::span<const Tensor>(backward));
    CHECK(gradients[*pb.gradient[0]].at(1).real() == doctest::Approx(seed * std::cos(2.0) * 5.0));
    CHECK(gradients[*pb.gradient[1]].at(2).real() == doctest::Approx(seed * std::sin(3.0)));
  }
}

TEST_CASE("Jacobians and Hessians have shape output + input, both ways") {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {2, 3}}), s = g.input("s", f64);
  const Value scaled = ops::sin(x) * ops::broadcast_scalar(s, {2, 3});
  const Graph f = g.build({ops::reduce_sum(scaled, {0}), ops::exp(s)});
  const Graph forward = jacfwd(f), reverse = jacrev(f);
  REQUIRE(forward.outputs().size() == 4);
  const Tensor at = Tensor::from<double>({2, 3}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6});
  const auto a = reference().run(forward, {at, Tensor::scalar(1.5)});
  const auto b = reference().run(reverse, {at, Tensor::scalar(1.5)});
  CHECK(a[0].type() == Type(f64, {3, 2, 3}));
  CHECK(a[1].type() == Type(f64, {3}));
  CHECK(a[2].type() == Type(f64, {2, 3}));
  CHECK(a[3].type() == Type(f64));
  for (std::size_t k = 0; k < 4; ++k) {
    REQUIRE(a[k].type() == b[k].type());
    for (std::int64_t i = 0; i < a[k].size(); ++i)
      CHECK(a[k].at(i).real() == doctest::Approx(b[k].at(i).real()));
  }
  CHECK(a[0].at((1 * 2 + 1) * 3 + 1).real() == doctest::Approx(1.5 * std::cos(0.5)));
  CHECK(a[0].at((1 * 2 + 1) * 3 + 2).real() == 0.0);

  const Graph h = hessian(with_outputs(f, std::vector<std::size_t>{1}));
  CHECK(h.outputs().size() == 4);
  const auto blocks = reference().run(h, {at, Tensor::scalar(1.5)});
  CHECK(blocks[0].type() == Type(f64, {2, 3, 2, 3}));
  CHECK(blocks[3].item<double>() == doctest::Approx(std::exp(1.5)));

  GraphBuilder c("z");
  const Value z = c.input("z", c128);
  CHECK(message_of([&, f2 = c.build({ops::real(z)})] { jacrev(f2); }).find("split it with real and imag") !=
        std::string::npos);
}

// An emitter that computes at once on doubles, as an eager frontend does.
class Doubles final : public Emitter {
 public:
  Value push(double x) {
    values_.push_back(x);
    return Value(this, static_cast<ValueId>(values_.size() - 1));
  }
  double at(Value value) const { return values_[value.id()]; }
  Type type_of(ValueId) const override { return f64; }
  const PrimitiveSet& primitives() const override { return standard_primitives(); }
  Values emit(const Op& op, std::span<const Value> operands, Where) override {
    ++emitted;
    if (op.name() == "add") return push(at(operands[0]) + at(operands[1]));
    if (op.name() == "mul") return push(at(operands[0]) * at(operands[1]));
    if (op.name() == "neg") return push(-at(operands[0]));
    throw Error(ErrorKind::execution, "no kernel");
  }
  std::size_t emitted = 0;

 private:
  std::vector<double> values_;
};

TEST_CASE("linear_transpose_with runs the transposed graph on an emitter of the caller's") {
  GraphBuilder g("f");
  const Value x = g.input("x", f64), y = g.input("y", f64);
  const Graph f = g.build({(x + y) * x + x, -y});
  const Linearization linearization = linearize(f);
  Doubles doubles;
  const std::map<ValueId, double> primal{{0, 2.0}, {1, 5.0}};
  std::vector<Value> externals;
  for (const ValueId id : linearization.residuals)
    externals.push_back(doubles.push(primal.contains(id) ? primal.at(id) : 7.0));
  const std::vector<std::optional<Value>> seeds{doubles.push(10.0), std::nullopt};
  const auto gradients = linear_transpose_with(doubles, linearization.linear, {}, externals, seeds);
  REQUIRE(gradients.size() == 2);
  CHECK(doubles.at(*gradients[0]) == 10.0 * (7.0 + 2.0 + 1.0));
  CHECK(doubles.at(*gradients[1]) == 10.0 * 2.0);
  const auto wrong = try_linear_transpose_with(doubles, linearization.linear, {}, {}, seeds);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(mentions(wrong.error(), "externals"));
}

TEST_CASE("linear_transpose_with refuses values that are not of its emitter, or of another type") {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {2}}), y = g.input("y", {f64, {2}});
  const Graph f = g.build({x * y});
  TransposeOptions options;
  options.linear_inputs = {0};
  GraphBuilder to("to"), other("other");
  const Value c = to.input("c", {f64, {2}}), three = to.input("three", {f64, {3}});
  const Value foreign = other.input("c", {f64, {2}});
  const auto with = [&](const Value& parameter, const Value& cotangent) {
    const std::vector<std::optional<Value>> cotangents{cotangent};
    return try_linear_transpose_with(to, f, std::vector{parameter}, {}, cotangents, options);
  };
  CHECK(with(c, c).has_value());
  CHECK(mentions(with(c, Value()).error(),
                 "a cotangent of the emitter that is given for output 0, got an unset"));
  CHECK(mentions(with(c, foreign).error(), "output 0, got another's"));
  CHECK(mentions(with(foreign, c).error(),
                 "a parameter of the emitter that is given for input 1, got another's"));
  CHECK(with(Value(), c).error().kind() == ErrorKind::invalid_argument);
  CHECK(with(three, c).error().kind() == ErrorKind::type);
}

// Counts how often its rules ran.
struct Runs : ADContext {
  explicit Runs(std::optional<Key128> its_key) : key(its_key) {}
  std::optional<Key128> cache_key() const override { return key; }
  std::optional<Key128> key;
  int jvps = 0, transposes = 0, batches = 0;
};
Runs& runs_of(ADContext* context) {
  REQUIRE(context != nullptr);
  return dynamic_cast<Runs&>(*context);
}
const Primitive counted{.name = "test.counted",
                        .linearity = linearity::linear,
                        .infer = [](InferContext& c) { c.result(c.operand(0)); },
                        .jvp = [](JvpContext& c) -> Derivatives {
                          ++runs_of(c.context()).jvps;
                          return emit(c.op(), Values(*c.tangent(0)))[0];
                        },
                        .transpose = [](TransposeContext& c) -> Derivatives {
                          ++runs_of(c.context()).transposes;
                          return c.cotangent();
                        },
                        .batch = [](BatchContext& c) -> Values {
                          ++runs_of(c.context()).batches;
                          return emit(c.op(), Values(c.operand(0)));
                        }};

TEST_CASE("graphs that operations hold are derived anew with a context without a key, else once") {
  static const PrimitiveSet set = standard_primitives().with({&counted});
  GraphBuilder inner("layer", set);
  const Value z = inner.input("z", f64);
  const Graph layer = inner.build({emit(Op::make(counted), Values(z))[0]});
  GraphBuilder g("f", set);
  Value x = g.input("x", f64);
  for (int i = 0; i < 3; ++i) x = ops::call(layer, std::vector{x})[0];
  const Graph f = g.build({x});
  for (const bool keyed : {false, true}) {
    Runs context(keyed ? std::optional<Key128>(Key128{1, 2}) : std::nullopt);
    DerivativeOptions options;
    options.context = &context;
    (void)grad(f, {}, options);
    (void)vmap(f, 2, {}, &context);
    const int expected = keyed ? 1 : 3;
    CHECK(context.jvps == expected);
    CHECK(context.transposes == expected);
    CHECK(context.batches == expected);
  }
}

TEST_CASE("loops in loops are derived in linear time") {
  static const PrimitiveSet set = standard_primitives().with({&counted});
  constexpr int depth = 16;
  for (const bool bounded : {false, true}) {
    GraphBuilder innermost("innermost", set);
    const Value z = innermost.input("z", f64);
    Graph graph = innermost.build({emit(Op::make(counted), Values(z))[0]});
    for (int level = 0; level < depth; ++level) {
      // The sum over two steps, which begins at zero: its tangent is found in the first of them.
      GraphBuilder s("step", set), u("until", set), g("sum", set);
      const Value x = s.input("x", f64), y = s.input("y", f64), from = g.input("x", f64);
      const Graph body = s.build({y + ops::call(graph, std::vector{x})[0]});
      (void)u.input("x", f64);
      const Value sum = u.input("y", f64);
      const Graph until = u.build({ops::lt(sum, ops::full_like(sum, 0.75))});
      const std::vector<Value> operands{from, ops::full(g, f64, 0.0)};
      graph = g.build({bounded ? ops::while_loop(until, body, operands, {1, 2})[0]
                               : ops::scan(body, operands, {2, false, 1, 1})[0]});
    }
    Runs context(Key128{1, 2});
    const Derivative derived = vjp_parts(graph, {}, {.context = &context});
    CHECK(context.jvps == 1);
    CHECK(context.transposes == 1);
    CHECK(derived.present[0]);
  }
}

TEST_CASE("linear functions of a user's transpose; functions that are not linear are refused") {
  GraphBuilder g("A");
  const Value x = g.input("x", {f64, {3}}), scale = g.input("scale", {f64, {3}});
  const Value doubled = ops::exp(scale) * x;
  const Graph linear = g.build({ops::reduce_sum(doubled, {0})});
  TransposeOptions options;
  options.linear_inputs = {0};
  const Transposition transposition = linear_transpose(linear, options);
  const auto results = reference().run(transposition.graph, {vec({0, 1, 2}), Tensor::scalar(2.0)});
  CHECK(results[0].at(1).real() == doctest::Approx(2.0 * std::exp(1.0)));

  const auto both = try_linear_transpose(linear);
  REQUIRE_FALSE(both.has_value());
  CHECK(dynamic_cast<const ADRuleError*>(&both.error()) != nullptr);
  GraphBuilder h("affine");
  const Value z = h.input("z", f64);
  const Graph affine = h.build({z, ops::full_like(z, 1.0)});
  CHECK(mentions(try_linear_transpose(affine).error(), "does not depend on them"));
  // The predicate has no cotangent, and is no parameter.
  GraphBuilder r("relu");
  const Value y = r.input("y", f64), zero = ops::full_like(y, 0.0);
  const auto chosen = try_linear_transpose(r.build({ops::select_n(ops::gt(y, zero), zero, y)}));
  REQUIRE_FALSE(chosen.has_value());
  CHECK(dynamic_cast<const ADRuleError*>(&chosen.error()) != nullptr);
  CHECK(
      mentions(chosen.error(), "[gt] expected operations that are linear in the linear inputs of \"relu\""));
  CHECK(mentions(chosen.error(), "rule: transpose, in operation 1 of \"relu\""));
}

TEST_CASE("a seed that coincides with a constant of a rule is no cotangent of it") {
  GraphBuilder g("f");
  const Value x = g.input("x", f64);
  const Value one = ops::full(g, f64, 1.0);
  const Graph f = g.build({ops::pow(x, one) * one + one / x});
  const auto results = reference().run(grad(grad(f)), {Tensor::scalar(2.0)});
  CHECK(results[0].item<double>() == doctest::Approx(2.0 / 8.0));
}

// w³ + v⁵ w of two inputs with keys of their own and one label.
Graph of_one_label() {
  GraphBuilder g("f");
  const Value w = g.input(InputKey::fresh({1, 2}, 3), f64, "w"),
              v = g.input(InputKey::fresh({1, 2}, 4), f64, "w");
  return g.build({w * w * w + v * v * v * v * v * w});
}

TEST_CASE("inputs that share a label are differentiated by, each by itself and all together") {
  const Graph f = of_one_label();
  const std::vector<std::size_t> both{0, 1};
  const Names names = names_at(f, both);
  CHECK(names == Names{"w", to_hex(f.input_key(1).bits())});
  CHECK(wrt_positions(f, names) == both);
  CHECK(mentions(try_grad(f, {"w", "w"}).error(), "expected each input once"));

  const Tensor two = Tensor::scalar(2.0), three = Tensor::scalar(3.0), one = Tensor::scalar(1.0);
  const std::vector<Tensor> by_v = reference().run(hvp(f, Names{names[1]}), {two, three, one});
  CHECK(by_v[1].item<double>() == doctest::Approx(810.0));
  CHECK(by_v[2].item<double>() == doctest::Approx(1080.0));
  CHECK(reference().run(hessian(f, Names{names[1]}), {two, three})[0].item<double>() ==
        doctest::Approx(1080.0));
  const std::vector<Tensor> by_both = reference().run(hvp(f), {two, three, one, one});
  CHECK(by_both[3].item<double>() == doctest::Approx(12.0 + 405.0));
  CHECK(by_both[4].item<double>() == doctest::Approx(405.0 + 1080.0));
  CHECK(reference().run(hessian(f), {two, three}).size() == 4);

  const std::vector<std::size_t> none{2};
  CHECK_THROWS_AS(names_at(f, none), Error);
}

TEST_CASE("many inputs are found by name, as few are") {
  GraphBuilder g("f");
  const std::size_t count = 100;
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < count; ++i)
    inputs.push_back(i % 2 == 0 ? g.input("x" + std::to_string(i), f64)
                                : g.input(InputKey::fresh({1, 2}, i), f64, "x" + std::to_string(i / 4)));
  Value product = inputs[0];
  for (std::size_t i = 1; i < count; ++i) product = product * inputs[i];
  const Graph f = g.build({product});
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::string& name : {f.input_name(i), to_hex(f.input_key(i).bits())}) {
      const std::optional<std::size_t> found = f.find_input(name);
      REQUIRE(found.has_value());
      CHECK(wrt_positions(f, {name}) == std::vector<std::size_t>{*found});
    }
  }
  CHECK_THROWS_AS(wrt_positions(f, {"x1000"}), Error);
}

TEST_CASE("try_batch and try_pullback return the results of batch and pullback, or their error") {
  const Graph f = two_outputs();
  const BatchOptions some{.inputs = std::vector<bool>{true, false, true}, .all_outputs = false};
  const Result<Batching> batched = try_batch(f, 2, some);
  REQUIRE(batched.has_value());
  CHECK(batched.value().graph.structural_key() == batch(f, 2, some).graph.structural_key());
  CHECK(batched.value().batched_outputs == std::vector<bool>{true, true});
  const std::int64_t numbers[] = {1, 2};
  const auto results = reference().run(batched.value().graph,
                                       {Tensor::from<double>({2, 3}, {1, 2, 3, 4, 5, 6}), vec({1, 0, 2}),
                                        Tensor::from<std::int64_t>({2}, {numbers[0], numbers[1]})});
  CHECK(results[0].at(0).real() == doctest::Approx(std::sin(1.0) + 2 * std::sin(3.0)));
  CHECK(results[0].at(1).real() == doctest::Approx(std::sin(4.0) + 2 * std::sin(6.0)));
  CHECK(results[1].at(5).real() == 8.0);
  const BatchOptions none{.inputs = std::vector<bool>{false, false, false}, .all_outputs = false};
  CHECK(try_batch(f, 2, none).value().batched_outputs == std::vector<bool>{false, false});
  const BatchOptions few{.inputs = std::vector<bool>{true}};
  CHECK(try_batch(f, 2, few).error().kind() == ErrorKind::invalid_argument);
  CHECK(try_batch(f, -1).error().kind() == ErrorKind::invalid_argument);

  const Result<Pullback> pulled = try_pullback(f, {"y"});
  REQUIRE(pulled.has_value());
  const Pullback same = pullback(f, {"y"});
  CHECK(pulled.value().backward.structural_key() == same.backward.structural_key());
  CHECK(pulled.value().wrt == std::vector<std::size_t>{1});
  CHECK(pulled.value().outputs == std::vector<std::size_t>{0, 1});
  CHECK(try_pullback(f, {"q"}).error().kind() == ErrorKind::invalid_argument);
  CHECK(mentions(try_pullback(f, {"q"}).error(), "q"));
  CHECK(try_pullback(f, {"n"}).error().kind() == ErrorKind::invalid_argument);  // an integer
}

}  // namespace
}  // namespace tidu
