// CpuExecutor and Executable: outputs and inputs that coincide, memory in place, errors, kernels of other
// projects.
#include <set>

#include "cpu/compare.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;
using namespace tidu::test;

namespace executor_cases {
namespace {

constexpr AttributeSpec no_attributes[] = {{"by", AttributeKind::integer}};
// y = by x, element by element, on f64.
const Primitive scale{.name = "test.scale",
                      .attributes = no_attributes,
                      .traits = Trait::elementwise,
                      .infer = [](InferContext& c) { c.result(c.operand(0)); }};

void scale_kernel(const KernelCall& call) {
  const auto by = static_cast<double>(call.op().integer("by"));
  if (by == 13) throw std::runtime_error("thirteen");
  if (by == 14) throw 14;  // NOLINT(hicpp-exception-baseclass)
  const double* x = call.input(0).data<double>();
  double* y = call.output().mutable_data<double>();
  for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = by * x[i];
}

}  // namespace

TEST_CASE("an input, a constant and one value several times as outputs share no memory") {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{100000}}) {
    GraphBuilder builder("outputs");
    const Value x = builder.input("x", Type(f64, shape));
    const Value y = builder.input("unused", f32);
    const Value z = ops::sin(x);
    const Value one = ops::full(builder, Type(f64, shape), 1.0);
    const Value view = ops::reshape(z, {num_elements(shape)});
    const Graph graph = builder.build({x, z, z, one, x, one, view, y});
    std::mt19937_64 random(1);
    const std::vector<Tensor> inputs{random_tensor(graph.type(graph.inputs()[0]), {}, random),
                                     Tensor::scalar(2.5F)};
    const Executable executable = cpu().compile(graph);
    const std::vector<Tensor> out = executable.run(std::span<const Tensor>(inputs));
    const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
    std::set<const std::byte*> places{inputs[0].bytes(), inputs[1].bytes()};
    for (std::size_t i = 0; i < out.size(); ++i) {
      CHECK(difference(out[i], expected[i]) == "");
      CHECK(places.insert(out[i].bytes()).second);
    }
    const std::vector<Tensor> again = executable.run(std::span<const Tensor>(inputs));
    for (const Tensor& tensor : again) CHECK(places.insert(tensor.bytes()).second);
  }
}

TEST_CASE("in place: operands that die give their memory, and nothing else does") {
  std::mt19937_64 random(2);
  for (int repeat = 0; repeat < 200; ++repeat) {
    GraphBuilder builder("random");
    const Shape shape = repeat % 3 == 0 ? Shape{} : repeat % 3 == 1 ? Shape{5} : Shape{1500};
    std::vector<Value> values;
    for (int i = 0; i < 3; ++i) values.push_back(builder.input(detail::str("x", i), Type(f64, shape)));
    std::vector<Value> outputs;
    for (int i = 0; i < 60; ++i) {
      const Value a = values[random() % values.size()],
                  b = values[values.size() - 1 - random() % std::min<std::size_t>(values.size(), 4)];
      Value y;
      switch (random() % 7) {
        case 0: y = ops::mul(ops::sin(a), b); break;
        case 1: y = ops::add(a, b); break;
        case 2: y = ops::sub(a, a); break;
        case 3: y = ops::select_n(ops::lt(a, b), a, b); break;
        case 4: y = ops::reshape(ops::tanh(ops::reshape(b, {num_elements(shape), 1})), shape); break;
        case 5:
          y = ops::broadcast_scalar(ops::tanh(ops::reduce_sum(b, shape.empty() ? Ints{} : Ints{0})), shape);
          break;
        default: y = ops::stop_gradient(b); break;
      }
      values.push_back(y);
      if (random() % 12 == 0) outputs.push_back(values[random() % values.size()]);
    }
    outputs.push_back(values.back());
    const Graph graph = builder.build(outputs);
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(random_tensor(Type(f64, shape), {}, random));
    const std::vector<Tensor> kept{inputs[0].clone(), inputs[1].clone(), inputs[2].clone()};
    const auto found = differences(graph, inputs, cpu());
    CHECK(found == std::vector<std::string>{});
    for (std::size_t i = 0; i < kept.size(); ++i)
      CHECK(std::memcmp(kept[i].bytes(), inputs[i].bytes(), kept[i].num_bytes()) == 0);
  }
}

TEST_CASE("inner graphs run as if they were inlined") {
  GraphBuilder inner("inner");
  const Value a = inner.input("a", Type(f64, {3}));
  const Graph square_plus = inner.build({ops::add(ops::mul(a, a), a), ops::sin(a)});
  GraphBuilder builder("outer");
  const Value x = builder.input("x", Type(f64, {3}));
  const Values once = ops::call(square_plus, std::vector{x});
  const Graph outer = builder.build({ops::call(square_plus, std::vector{once[0]})[0], once[1]});
  std::mt19937_64 random(3);
  CHECK(differences(outer, {random_tensor(outer.type(outer.inputs()[0]), {}, random)}, cpu()) ==
        std::vector<std::string>{});
}

TEST_CASE("indices are checked on request, and a failure leaves the executable usable") {
  GraphBuilder builder("gather");
  const Value x = builder.input("x", Type(f64, {4}));
  const Value i = builder.input("i", Type(i32, {3}));
  const Graph graph = builder.build({ops::take(ops::sin(x), i, 0)});
  CpuOptions options;
  options.check_indices = true;
  const Executable executable = cpu().with_options(options).compile(graph);
  const Tensor values = Tensor::from<double>({4}, {1, 2, 3, 4});
  for (int repeat = 0; repeat < 3; ++repeat) {
    const std::vector<Tensor> bad{values, Tensor::from<std::int32_t>({3}, {0, 7, 1})};
    const auto result = executable.try_run(bad);
    REQUIRE(!result.has_value());
    CHECK(result.error().kind() == ErrorKind::execution);
    const std::string message = result.error().what();
    CHECK(message.find("[take] expected indices in [0, 4), got 7 at position 1") == 0);
    CHECK(message.find("in operation 1 of \"gather\"") != std::string::npos);
    const auto good = executable.run({values, Tensor::from<std::int32_t>({3}, {0, 3, 1})});
    CHECK(good[0].at(1).real() == doctest::Approx(std::sin(4.0)));
  }
}

TEST_CASE("constant indices out of range are checked, too, where rules would leave them out") {
  CpuOptions options;
  options.check_indices = true;
  for (const char* const mode : {"clip", "drop"}) {
    for (const bool sums : {false, true}) {
      GraphBuilder g("scatter");
      const std::vector<std::int32_t> indices = sums ? std::vector{7} : std::vector{2, 1, 0, 7};
      const auto count = std::ssize(indices);
      const Value u = g.input("u", Type(f64, {count}));
      const Literal at = Literal::of<std::int32_t>(Type(i32, {count}), indices);
      const Value s = ops::scatter_add(ops::full(g, Type(f64, {4}), 0.0), ops::constant(g, at), u, 0, mode);
      const Graph graph = g.build({sums ? ops::reduce_sum(s, {0}) : ops::slice(s, {0}, {2})});
      const std::vector<Tensor> inputs{Tensor::zeros(graph.type(graph.inputs()[0]))};
      CHECK(cpu().try_run(graph, inputs).has_value());
      const auto checked = cpu().with_options(options).try_run(graph, inputs);
      REQUIRE(!checked.has_value());
      CHECK(std::string(checked.error().what()).find("expected indices in [0, 4), got 7") !=
            std::string::npos);
    }
  }
}

TEST_CASE("a kernel of another project, on both executors; a missing one names the operation") {
  const PrimitiveSet set = standard_primitives().with({&scale});
  GraphBuilder builder("own", set);
  const Value x = builder.input("x", Type(f64, {3}));
  const Value s = builder.input("s", f64);
  const Op by3 = Op::make(scale, {{"by", 3}});
  const Op by13 = Op::make(scale, {{"by", 13}});
  const Value y = emit1(by3, {ops::sin(x)});
  const Value z = emit1(by3, {s});
  const Value fails = emit1(by13, {y});
  const Graph whole = builder.build({y, z, fails});
  const auto missing = cpu().try_compile(whole);
  REQUIRE(!missing.has_value());
  CHECK(
      std::string(missing.error().what()).find("[test.scale] expected a CPU kernel for operands [f64[3]]") ==
      0);
  CHECK(std::string(missing.error().what()).find("in operation") != std::string::npos);
  CHECK(!cpu().supports(scale, f64));

  const CpuExecutor mine = cpu().with_kernel("test.scale", scale_kernel, tidu::DTypes{f64});
  CHECK(mine.supports(scale, f64));
  CHECK(!mine.supports(scale, f32));
  const Tensor in = Tensor::from<double>({3}, {1, 2, 3});
  const auto failed = mine.try_run(whole, std::vector{in, Tensor::scalar(2.0)});
  REQUIRE(!failed.has_value());
  CHECK(std::string(failed.error().what()).find("thirteen") != std::string::npos);

  GraphBuilder odd("odd", set);
  const Graph throws = odd.build({emit1(Op::make(scale, {{"by", 14}}), {ops::sin(odd.input("x", f64))})});
  const auto thrown = mine.try_run(throws, std::vector{Tensor::scalar(2.0)});
  REQUIRE(!thrown.has_value());
  CHECK(thrown.error().kind() == ErrorKind::execution);
  CHECK(std::string(thrown.error().what()).find("in operation 1 of \"odd\"") != std::string::npos);

  GraphBuilder again("own", set);
  const Value u = again.input("x", Type(f64, {3}));
  const Value v = again.input("s", f64);
  const Graph good = again.build({emit1(by3, {ops::sin(u)}), emit1(by3, {v})});
  const auto got = mine.run(good, {in, Tensor::scalar(2.0)});
  const auto expected =
      reference().with_kernel("test.scale", scale_kernel).run(good, {in, Tensor::scalar(2.0)});
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(difference(got[k], expected[k]) == "");
}

TEST_CASE("wrong inputs are refused; inputs go by position or by name") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {2}));
  const Value y = builder.input("y", Type(f64, {2}));
  const Graph graph = builder.build({ops::sub(x, y)});
  const Executable executable = cpu().compile(graph);
  const Tensor a = Tensor::from<double>({2}, {5, 6}), b = Tensor::from<double>({2}, {1, 1});
  CHECK(executable.run({a, b})[0].at(0).real() == 4);
  const std::vector<NamedTensor> named{{"y", b}, {"x", a}};
  CHECK(executable.run_named(named)[0].at(1).real() == 5);
  CHECK(executable.try_run(std::vector{a}).error().kind() == ErrorKind::invalid_argument);
  CHECK(executable.try_run(std::vector{a, Tensor::scalar(1.0)}).error().kind() == ErrorKind::type);
}

TEST_CASE("memory beyond any machine is a typed error") {
  GraphBuilder builder("huge");
  const Value x = builder.input("x", f64);
  const Value big = ops::broadcast_in_dim(x, {std::int64_t{1} << 29, std::int64_t{1} << 29}, {});
  const Graph graph = builder.build({ops::reduce_sum(big, {0, 1})});
  const auto result = cpu().try_run(graph, std::vector{Tensor::scalar(1.0)});
  REQUIRE(!result.has_value());
  CHECK(result.error().kind() == ErrorKind::out_of_memory);
}

TEST_CASE("a graph of a known structure is compiled once, whatever thread runs it") {
  const auto graph_of = [](const char* name, double factor) {
    GraphBuilder builder(name);
    const Value x = builder.input("x", Type(f64, {3}));
    return builder.build({ops::mul(ops::sin(x), ops::full(builder, Type(f64, {3}), factor))});
  };
  const CpuExecutor executor;
  const auto misses = [] { return compile_cache().statistics().misses; };
  const Tensor x = Tensor::from<double>({3}, {1, 2, 3});
  const std::uint64_t before = misses();
  const Executable first = executor.compile(graph_of("f", 2.0));
  CHECK(misses() == before + 1);
  const Executable second = executor.compile(graph_of("f", 2.0));
  CHECK(&first.program().graph().data() == &second.program().graph().data());
  CHECK(executor.run(graph_of("f", 2.0), {x})[0].data<double>()[1] == 2.0 * std::sin(2.0));
  CHECK(misses() == before + 1);
  CHECK(executor.compile(graph_of("g", 2.0)).program().graph().name() == "g");
  CHECK(executor.run(graph_of("f", 3.0), {x})[0].data<double>()[1] == 3.0 * std::sin(2.0));
  CHECK(misses() == before + 3);
  // Other options are another executor.
  CpuOptions options = executor.options();
  options.check_indices = true;
  (void)executor.with_options(options).compile(graph_of("f", 2.0));
  CHECK(misses() == before + 4);
  CHECK(compile_cache().statistics().bytes > 0);
}

TEST_CASE("the compile cache counts the contents of programs of loops") {
  GraphBuilder b("body"), g("loop");
  const Type type(f64, {1000});
  Value y = b.input("y", type);
  const Tensor steps = Tensor::zeros(type);
  y = y + ops::constant(b, steps.to_literal());
  for (int i = 0; i < 5000; ++i) y = ops::sin(y);
  const Graph body = b.build({y});
  const Graph graph = g.build({ops::scan(body, std::vector{g.input("x", type)}, {2, false, 0, 1})[0]});
  const std::size_t before = compile_cache().statistics().bytes;
  (void)cpu().compile(graph);
  CHECK(compile_cache().statistics().bytes - before > 256U * 5000 + 8000);
}

}  // namespace executor_cases
