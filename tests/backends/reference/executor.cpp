// The interpreter itself: inputs by position and by name, kernels of one's own, nested graphs, errors and
// lifetimes.
#include "tidu/reference/executor.hpp"

#include "reference/run.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

void infer_like_first(InferContext& c) { c.result(c.operand(0)); }
constinit const Primitive twice{.name = "my.twice", .infer = infer_like_first};

// x y + x
Graph example() {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {2})), y = builder.input("y", Type(f64, {2}));
  return builder.build({x * y + x});
}

void refused(const Result<std::vector<Tensor>>& result, ErrorKind kind,
             std::initializer_list<const char*> said) {
  REQUIRE_FALSE(result);
  CAPTURE(result.error().what());
  CHECK(result.error().kind() == kind);
  for (const char* part : said) {
    CAPTURE(part);
    CHECK(std::string(result.error().what()).find(part) != std::string::npos);
  }
}

Graph with_twice() {
  GraphBuilder builder("g", standard_primitives().with({&twice}));
  const Value x = builder.input("x", f64);
  return builder.build({emit1(Op::make(twice), {ops::sin(x)})});
}

}  // namespace

TEST_CASE("a graph runs on inputs by position and by name") {
  const Graph graph = example();
  const Tensor x = row({1.0, 2.0}), y = row({10.0, 20.0});
  CHECK(data_of(reference().run(graph, {x, y})[0]) == "[11.0, 42.0]");
  CHECK(data_of(reference().run(graph, {{"y", y}, {"x", x}})[0]) == "[11.0, 42.0]");
  CHECK(reference().name() == "reference");
}

TEST_CASE("inputs that do not fit are refused by name") {
  const Graph graph = example();
  const Tensor x = row({1.0, 2.0});
  const std::vector<Tensor> one{x}, wrong{x, row({1.0F, 2.0F})};
  refused(reference().try_run(graph, one), ErrorKind::invalid_argument,
          {"2 inputs", "\"f\"", "y:f64[2]", "got 1"});
  refused(reference().try_run(graph, wrong), ErrorKind::type, {"f64[2] for input y of \"f\"", "got f32[2]"});
  const auto named = [&](std::vector<NamedTensor> inputs) {
    return reference().try_run_named(graph, inputs);
  };
  refused(named({{"x", x}}), ErrorKind::invalid_argument, {"input y", "got none"});
  refused(named({{"x", x}, {"z", x}}), ErrorKind::invalid_argument, {"\"z\""});
  refused(named({{"x", x}, {"x", x}}), ErrorKind::invalid_argument, {"input x", "two"});
}

TEST_CASE("a graph with externals is refused") {
  GraphBuilder base("base");
  const Value x = base.input("x", f64);
  GraphBuilder builder("h");
  const Value e = builder.external(base.data().keys[ops::sin(x).id()], f64);
  const Graph graph = builder.build({ops::cos(e)});
  refused(reference().try_run(graph, {}), ErrorKind::invalid_argument, {"externals", "\"h\""});
}

TEST_CASE("a missing kernel is named with its place, and an executor with one runs") {
  const Graph graph = with_twice();
  const std::vector<Tensor> inputs{Tensor::scalar(0.5)};
  refused(reference().try_run(graph, inputs), ErrorKind::execution,
          {"[my.twice]", "in operation 1 of \"g\""});
  CHECK_FALSE(reference().supports(twice, f64));

  const ReferenceExecutor mine = reference().with_kernel(
      "my.twice",
      [](const KernelCall& c) { c.output().mutable_data<double>()[0] = 2 * c.input(0).item<double>(); },
      {f64});
  CHECK(mine.run(graph, inputs)[0].at(0) == 2 * std::sin(0.5));
  CHECK(mine.supports(twice, f64));
  CHECK_FALSE(mine.supports(twice, f32));
  CHECK_FALSE(reference().supports(twice, f64));
  CHECK_THROWS_AS((void)reference().with_kernel("my.twice", Kernel()), Error);
}

TEST_CASE("an executor without any kernel says where those of the standard primitives are") {
  GraphBuilder g("f");
  const Graph f = g.build({ops::sin(g.input("x", f64))});
  const auto made = ReferenceExecutor().try_run(f, std::vector<Tensor>{Tensor::scalar(1.0)});
  REQUIRE_FALSE(made.has_value());
  CHECK_MESSAGE(std::string(made.error().what()).find("are in reference()") != std::string::npos,
                made.error().what());
}

TEST_CASE("an error in a kernel is a typed error with the operation's source location") {
  const Graph graph = with_twice();
  const std::vector<Tensor> inputs{Tensor::scalar(0.5)};
  const auto run = [&](Kernel kernel) {
    return reference().with_kernel("my.twice", std::move(kernel)).try_run(graph, inputs);
  };
  refused(run([](const KernelCall&) { throw std::runtime_error("no luck"); }), ErrorKind::execution,
          {"no luck", "in operation 1"});
  refused(run([](const KernelCall&) { throw 3; }), ErrorKind::execution,  // NOLINT(hicpp-exception-baseclass)
          {"no std::exception", "in operation 1"});
  refused(run([](const KernelCall& c) { (void)c.input(0).data<float>(); }), ErrorKind::type,
          {"in operation 1"});
  refused(run([](const KernelCall& c) { c.output() = Tensor::scalar(1); }), ErrorKind::execution,
          {"expected the kernel to give f64[]", "got i32[]"});
  refused(run([](const KernelCall&) { throw std::bad_alloc(); }), ErrorKind::out_of_memory, {});
}

TEST_CASE("every standard primitive has a kernel, for the dtypes that it supports") {
  for (const Primitive* primitive : standard_primitives().primitives()) {
    CAPTURE(primitive->name);
    bool any = false;
    for (const DType dtype : {bool_, i32, i64, f16, bf16, f32, f64, c64, c128})
      any |= reference().supports(*primitive, dtype);
    CHECK(any);
  }
  CHECK(reference().supports(prim::add, c64));
  CHECK_FALSE(reference().supports(prim::add, bool_));
  CHECK(reference().supports(prim::and_, i32));
  CHECK_FALSE(reference().supports(prim::erf, c128));
  CHECK(ReferenceExecutor().kernels().empty());
}

TEST_CASE("graphs within graphs run, at most 64 deep") {
  Graph graph = example();
  for (int depth = 1; depth <= 63; ++depth) {
    GraphBuilder builder("level" + std::to_string(depth));
    const Value x = builder.input("x", Type(f64, {2})), y = builder.input("y", Type(f64, {2}));
    const std::vector<Value> operands{x, y};
    graph = builder.build({ops::call(graph, operands)[0]});
  }
  const std::vector<Tensor> inputs{row({1.0, 2.0}), row({10.0, 20.0})};
  CHECK(data_of(reference().run(graph, inputs)[0]) == "[11.0, 42.0]");
}

TEST_CASE("a value is freed after its last use") {
  GraphBuilder builder("chain", standard_primitives().with({&twice}));
  const Value x = builder.input("x", f64);
  const Op op = Op::make(twice);
  const Value a = emit1(op, {x});
  const Value b = emit1(op, {a});
  const Value c = emit1(op, {b});
  const Graph graph = builder.build({a, emit1(op, {c})});
  std::vector<std::weak_ptr<int>> made;
  std::vector<int> alive;
  const ReferenceExecutor counting = reference().with_kernel("my.twice", [&](const KernelCall& call) {
    int count = 0;
    for (const auto& each : made) count += each.expired() ? 0 : 1;
    alive.push_back(count);
    const auto owner = std::make_shared<int>(0);
    made.push_back(owner);
    auto* memory = new double(2 * call.input(0).item<double>());
    call.output() = Tensor::wrap(
        f64, memory, std::shared_ptr<void>(memory, [owner](void* at) { delete static_cast<double*>(at); }));
  });
  CHECK(counting.run(graph, {Tensor::scalar(1.0)})[1].at(0) == 16.0);
  CHECK(alive == std::vector<int>{0, 1, 2, 2});  // a is an output; of b and c one is alive at a time
}
