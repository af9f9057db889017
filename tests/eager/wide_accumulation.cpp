// wide_accumulation.cpp - on the tape, cotangents of a 16-bit value that meet are summed in f32 and rounded
// once, whatever the order and the number of threads; slots hold f32 when they are asked to. The oracle is
// the sum of the coefficients, which are numbers of the dtype, in double precision.
#include <cmath>
#include <limits>

#include "p_counted.hpp"

namespace tidu::test::wide_accumulation_cases {
namespace {

double ulp(DType dtype, double x) { return std::ldexp(1.0, std::ilogb(x) - (dtype == bf16 ? 7 : 10)); }

Tensor as(double x, DType dtype) {
  GraphBuilder g("as");
  const Graph graph = g.build({ops::convert_element_type(g.input("x", f64), dtype)});
  return reference().run(graph, {Tensor::scalar(x)})[0];
}

double number(const Tensor& x) { return x.at(0).real(); }

/// An executor that says it converts, and counts; Interpreted says nothing.
class Wide final : public Interpreted {
 public:
  bool wide_accumulation() const override { return true; }
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    CHECK(call.node != nullptr);
    ++conversions;
    return Interpreted::execute_forward(call, inputs);
  }
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
    ++sums;
    return Interpreted::add_operands(call, std::move(a), b);
  }
  mutable std::atomic<std::size_t> conversions{0}, sums{0};
};

BackwardOptions narrow() {
  BackwardOptions options = keep();
  options.wide_accumulation = false;
  return options;
}

/// x on its own, x of one node, and both results of one node, each used `uses` times, with coefficients.
struct Model {
  enum class Kind { leaf, value, several };
  Model(DType dtype, int uses, Kind kind) : type(dtype) {
    x = tape.leaf(as(1.0, dtype));
    const Var one = tape.constant(as(1.0, dtype));
    std::vector<Var> from{x};
    if (kind == Kind::value) from = {tape.apply<prim::mul>({x, one})};
    if (kind == Kind::several)
      from = tape.apply(graph_of("several", {Type(dtype)},
                                 [](const auto& in) {
                                   return std::vector<Value>{in[0] * ops::full_like(in[0], 1.0), -in[0]};
                                 }),
                        {x});
    std::mt19937_64 engine(3);
    sum = tape.constant(as(0.0, dtype));
    for (int i = 0; i < uses; ++i) {
      const std::size_t k = static_cast<std::size_t>(i) % from.size();
      const Tensor c = as(0.5 + std::ldexp(static_cast<double>(engine() >> 12), -52), dtype);
      exact += k == 0 ? number(c) : -number(c);
      sum = tape.apply<prim::add>({tape.apply<prim::mul>({from[k], tape.constant(c)}), sum});
    }
    // The cotangent of the second result is larger: no cancellation in the exact sum.
    if (kind == Kind::several) {
      for (int i = 0; i < uses; ++i) sum = tape.apply<prim::add>({from[1], sum});
      exact -= uses;
    }
    root = root_of(sum);
  }
  double gradient(const eager::BackwardExecutor<Tensor>& executor, const BackwardOptions& options) {
    const Tensor got = run(executor, {root}, options).at(x.first.key);
    CHECK(got.type() == Type(type));
    return number(got);
  }
  DType type;
  Tape tape;
  Var x, sum;  // which hold the tape
  double exact = 0.0;
  Root root;
};

TEST_CASE("cotangents of 16 bits that meet on the tape are rounded once") {
  for (const DType dtype : {f16, bf16}) {
    for (const Model::Kind kind : {Model::Kind::leaf, Model::Kind::value, Model::Kind::several}) {
      for (const int uses : {3, 1000, 3000}) {
        CAPTURE(to_string(dtype));
        CAPTURE(static_cast<int>(kind));
        CAPTURE(uses);
        Model m(dtype, uses, kind);
        const double unit = ulp(dtype, m.exact);
        const double got = m.gradient(Wide(), keep());
        // Each of two results has its own sum, and the two are combined in another one.
        CHECK(std::abs(got - m.exact) <= (kind == Model::Kind::several ? 2.0 : 0.501) * unit);
        BackwardOptions other = keep();
        for (const eager::Order order : {eager::Order::fifo, eager::Order::lifo, eager::Order::random}) {
          other.order = order;
          CHECK(m.gradient(Wide(), other) == got);
        }
        CHECK(m.gradient(Wide(), workers(3)) == got);
        const double old = m.gradient(Wide(), narrow());
        CHECK(m.gradient(Interpreted(), keep()) == old);
        other = narrow();
        other.order = eager::Order::random;
        CHECK(m.gradient(Wide(), other) == old);
        if (uses >= 1000) CHECK(std::abs(old - m.exact) > (dtype == bf16 ? 4 : 1) * unit);
      }
    }
  }
}

TEST_CASE("two cotangents of 16 bits are added without conversions, three with four") {
  for (const int uses : {1, 2, 3, 7}) {
    Model m(bf16, uses, Model::Kind::leaf);
    const Wide executor;
    (void)m.gradient(executor, keep());
    CHECK(executor.conversions == (uses < 3 ? 0U : static_cast<std::size_t>(uses) + 1));
    CHECK(executor.sums == static_cast<std::size_t>(uses) - 1);
    Model wider(f32, uses, Model::Kind::leaf);
    const Wide other;
    (void)wider.gradient(other, keep());
    CHECK(other.conversions == 0);
  }
}

TEST_CASE("graphs on the tape are transposed once where there is nothing of 16 bits, whatever the option") {
  for (const DType dtype : {f32, bf16}) {
    Tape tape;
    const Var x = tape.leaf(as(1.0, dtype));
    const RecordedGraph graph = graph_of("graph of one operand", {Type(dtype)}, [](const auto& in) {
      Value sum = in[0];
      for (int i = 0; i < 600; ++i) sum = sum + in[0] * ops::full_like(in[0], 1.0 + i % 2 / 64.0);
      return std::vector<Value>{sum};
    });
    const Var sum = tape.apply(graph, {x})[0];
    const Root root = root_of(sum);
    const double exact = 1 + 600 + 300 / 64.0;
    const Tensor wide = run(Wide(), {root}, keep()).at(x.first.key);
    const std::uint64_t before = eager::cached_graph_statistics().transpositions;
    const Tensor old = run(Interpreted(), {root}, keep()).at(x.first.key);
    (void)run(Wide(), {root}, narrow());
    CHECK(eager::cached_graph_statistics().transpositions - before == (dtype == f32 ? 0 : 1));
    CHECK(number(wide) == number(dtype == f32 ? wide : as(exact, bf16)));
    CHECK((std::abs(number(old) - exact) > 1) == (dtype == bf16));
  }
}

TEST_CASE("hooks see sums of the value's dtype, and their replacements go on") {
  const Type type(bf16);
  std::vector<Type> seen;
  Tape tape;
  Leaf<Tensor> leaf(tape.recorder.keys(), "w");
  Var sum = tape.constant(as(0.0, bf16));
  const Var w{EagerOutput{leaf.key(), leaf.trace().hold(), true, 0}, as(1.0, bf16)};
  for (int i = 0; i < 300; ++i) sum = tape.apply<prim::add>({w, sum});
  HookHandle handle = leaf.on_value([&](HookContext<Tensor>& context) {
    seen.push_back(context.incoming()->type());
    CHECK(number(*context.incoming()) == 300);
    context.incoming().replace(as(7.0, bf16));
  });
  BackwardOptions options = keep();
  CHECK(number(run(Wide(), {root_of(sum)}, options).at(leaf.key())) == 7);
  options.order = eager::Order::random;
  CHECK(number(run(Wide(), {root_of(sum)}, options).at(leaf.key())) == 7);
  CHECK(seen == std::vector<Type>{type, type});
}

TEST_CASE("sums in f32 are recorded, and differentiated again") {
  Tape tape;
  const Var x = tape.leaf(as(1.0, bf16));
  std::mt19937_64 engine(5);
  double exact = 0.0;
  Var sum = tape.constant(as(0.0, bf16));
  for (int i = 0; i < 1000; ++i) {
    const Tensor c = as(0.5 + std::ldexp(static_cast<double>(engine() >> 12), -52), bf16);
    exact += 2 * number(c);
    sum = tape.apply<prim::add>(
        {tape.apply<prim::mul>({x, tape.apply<prim::mul>({x, tape.constant(c)})}), sum});
  }
  for (const bool wide : {true, false}) {
    BackwardOptions options = keep();
    options.wide_accumulation = wide;
    options.create_graph = true;
    const auto first = run(Wide(), {root_of(sum)}, options, {}, &tape.recorder);
    const auto* entry = first.entry_of(x.first.key);
    REQUIRE(entry != nullptr);
    options.create_graph = false;
    const Var gradient{entry->recorded, *entry->value};
    const double second = number(run(Wide(), {root_of(gradient)}, options).at(x.first.key));
    const double unit = ulp(bf16, exact);
    CHECK((std::abs(number(gradient.second) - exact) <= 0.501 * unit) == wide);
    CHECK((std::abs(second - exact) <= unit) == wide);
  }
}

TEST_CASE("slots hold f32 when they are asked to, and until they are cleared") {
  Tape tape;
  Leaf<Tensor> leaf(tape.recorder.keys(), "w");
  const Var w{EagerOutput{leaf.key(), leaf.trace().hold(), true, 0}, as(1.0, bf16)};
  const Var loss = tape.apply<prim::mul>({w, tape.constant(as(0.75, bf16))});
  BackwardOptions into = keep();
  into.accumulate = true;
  const auto call = [&](int times, const BackwardOptions& options) {
    for (int i = 0; i < times; ++i) (void)run(Wide(), {root_of(loss)}, options);
  };
  call(1000, into);
  CHECK(leaf.gradient()->dtype() == bf16);
  CHECK(number(*leaf.gradient()) < 300);  // where 0.75 no longer counts
  leaf.clear_gradient();

  BackwardOptions wide = into;
  wide.wide_slots = true;
  call(1000, wide);
  CHECK(leaf.gradient()->dtype() == f32);
  CHECK(number(*leaf.gradient()) == 750);
  call(10, into);
  CHECK(leaf.gradient()->dtype() == f32);
  CHECK(number(*leaf.gradient()) == 757.5);
  leaf.clear_gradient();
  call(2, into);
  CHECK(leaf.gradient()->dtype() == bf16);
  call(1, wide);  // the former content of the slot is converted
  CHECK(leaf.gradient()->dtype() == f32);
  CHECK(number(*leaf.gradient()) == 2.25);

  // Without the option it is unchanged.
  leaf.clear_gradient();
  for (int i = 0; i < 2; ++i) (void)run(Interpreted(), {root_of(loss)}, wide);
  CHECK(leaf.gradient()->dtype() == bf16);

  // Recorded gradients, too.
  leaf.clear_gradient();
  const Var square = tape.apply<prim::mul>({w, w});
  wide.create_graph = true;
  for (int i = 0; i < 2; ++i) (void)run(Wide(), {root_of(square)}, wide, {}, &tape.recorder);
  CHECK(number(*leaf.gradient()) == 4);
  const Var gradient{leaf.recorded_gradient(), *leaf.gradient()};
  const auto second = run(Wide(), {root_of(gradient)}, keep());
  CHECK(number(second.at(leaf.key())) == 4);
  leaf.clear_gradient();
}

TEST_CASE("a sum that leaves the range of f16 is found in anomaly mode where it is rounded") {
  for (const bool returns : {true, false}) {
    Tape tape;
    const Var x = tape.leaf(as(1.0, f16));
    Var sum = tape.constant(as(0.0, f16));
    for (int i = 0; i < 600; ++i) {
      const double c = returns && i >= 300 ? -300.0 : 300.0;
      sum = tape.apply<prim::add>({tape.apply<prim::mul>({x, tape.constant(as(c, f16))}), sum});
    }
    BackwardOptions options = keep();
    options.anomaly = true;
    if (returns) {
      CHECK(number(run(Wide(), {root_of(sum)}, options).at(x.first.key)) == 0);
    } else {
      CHECK_THROWS_AS((void)run(Wide(), {root_of(sum)}, options), eager::NonFiniteError);
    }
  }
}

TEST_CASE("whichever conversion fails, nothing remains and the next call works") {
  class Failing final : public eager::BackwardExecutor<Counted> {
   public:
    bool wide_accumulation() const override { return true; }
    Result<Values> execute_forward(const eager::GraphCall& call,
                                   std::span<const Counted* const> inputs) const override {
      if (left-- == 0) return Error(ErrorKind::execution, "no more");
      return plain.execute_forward(call, inputs);
    }
    Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                         std::span<const Counted* const> inputs) const override {
      return plain.run_transposed_linear(call, inputs);
    }
    Result<Counted> add_operands(const eager::AddCall& call, Counted a, const Counted& b) const override {
      if (left-- == 0) return Error(ErrorKind::execution, "no more");
      return plain.add_operands(call, std::move(a), b);
    }
    std::optional<Type> describe(const Counted& operand) const override { return plain.describe(operand); }
    Result<std::optional<Counted>> ones_like(Type type) const override { return plain.ones_like(type); }
    CountedExecutor plain;
    mutable int left = 0;
  };
  const int before = Counted::live;
  {
    Failing executor;
    Recorder<Counted> recorder(&executor);
    const Type type(bf16);
    const RecordedGraph three = graph_of("three", {type}, [](const auto& in) {
      return std::vector<Value>{in[0] * ops::full_like(in[0], 2.0), in[0] * ops::full_like(in[0], 3.0)};
    });
    const RecordedGraph add = RecordedGraph::of(Op::make(prim::add), std::array{type, type});
    const Counted one(as(1.0, bf16));
    EagerOutput x;
    x.key = recorder.keys().fresh();
    x.requires_grad = true;
    EagerOutput sum;
    {
      const std::array<EagerInput<Counted>, 1> of_x{EagerInput<Counted>(x, one)};
      for (int i = 0; i < 5; ++i) {
        const auto both = recorder.record_graph(three, of_x);
        for (int k = 0; k < 3; ++k) {
          for (const EagerOutput& part : {both[0], both[1]}) {
            const std::array<EagerInput<Counted>, 2> parts{
                sum.trace ? EagerInput<Counted>(sum, one) : EagerInput<Counted>(one),
                EagerInput<Counted>(part, one)};
            sum = recorder.record_graph(add, parts)[0];
          }
        }
      }
    }
    const int held = Counted::live;
    for (const eager::Order order : {eager::Order::latest_first, eager::Order::fifo}) {
      bool done = false;
      for (int fail = 0; !done; ++fail) {
        executor.left = fail;
        eager::BackwardOptions options;
        options.keep_graph = true;
        options.order = order;
        const auto made =
            eager::try_backward<Counted>(sum.key, sum.trace, std::nullopt, executor, nullptr, options);
        done = static_cast<bool>(made);
        if (done) {
          CHECK(number(made->at(x.key).box->tensor) == 75);
          CHECK(fail > 50);
        }
      }
      CHECK(Counted::live == held);
    }
  }
  CHECK(Counted::live == before);
}

}  // namespace
}  // namespace tidu::test::wide_accumulation_cases
