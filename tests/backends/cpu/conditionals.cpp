// cond on the CPU: compared with the reference and with all branches inlined, with every dtype, in loops and
// with matmuls; one branch runs, in memory that all of them share, without an allocation.
#include <array>
#include <atomic>

#include "cpu/compare.hpp"
#include "graph/counting_allocator.hpp"
#include "support/support.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu {
namespace {

namespace conditional_cases {

using test::random_tensor;

// Floating inputs at random, others `index`.
std::vector<Tensor> inputs_for(const Graph& graph, std::int64_t index, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Type type = graph.type(id);
    inputs.push_back(type.rank() == 0 && !is_inexact(type.dtype())
                         ? Tensor::scalar(type.dtype(), static_cast<double>(index))
                         : random_tensor(type, {-1, 1}, random));
  }
  return inputs;
}

void agree(const Graph& graph, std::mt19937_64& random, double factor = 4) {
  const Graph written = with_control_flow_unrolled(graph);
  for (const std::int64_t index : {-1, 0, 1, 2, 3}) {
    CAPTURE(index);
    const std::vector<Tensor> inputs = inputs_for(graph, index, random);
    const auto expected = reference().run(graph, inputs);
    const auto got = cpu().run(graph, inputs), all = cpu().run(written, inputs),
               again = cpu().run(graph, inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(test::difference(got[i], expected[i], factor) == "");
      CHECK(test::difference(all[i], expected[i], factor) == "");
      CHECK(test::same_bits_or_nan(got[i], again[i]));
    }
  }
}

// An output given twice, inputs that are outputs and exchanged, a constant output, one element.
Graph moving(DType dtype, const Shape& shape, DType index) {
  const Type type{dtype, shape};
  const auto branch = [&](const std::string& name,
                          const std::function<std::vector<Value>(Value, Value, Value)>& f) {
    GraphBuilder b(name, standard_primitives());
    const Value x = b.input("x", type), y = b.input("y", type), one = b.input("one", Type(dtype));
    return b.build(f(x, y, one));
  };
  const auto sum = [dtype](Value x, Value y) {
    return dtype == bool_ ? ops::logical_xor(x, y) : ops::add(x, y);
  };
  std::vector<Graph> branches{branch("sum",
                                     [&](Value x, Value y, Value one) {
                                       return std::vector{sum(x, y), sum(x, y), one, x};
                                     }),
                              branch("transposed",
                                     [](Value x, Value y, Value one) {
                                       return std::vector{y, x, one, y};
                                     }),
                              branch("constant", [&](Value x, Value, Value one) {
                                return std::vector{ops::full_like(x, 1), x, sum(one, one), x};
                              })};
  if (index == bool_) branches.pop_back();
  GraphBuilder g("moving");
  const Value at = g.input("index", Type(index));
  const Values results = ops::cond(
      at, branches, std::vector{g.input("x", type), g.input("y", type), g.input("one", Type(dtype))});
  return g.build(std::span<const Value>(results.data(), results.size()));
}

TEST_CASE("cond: every dtype, shape and index") {
  std::mt19937_64 random(1);
  for (const DType dtype : test::every_dtype) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{0}, Shape{2, 300}}) {
      CAPTURE(dtype);
      agree(moving(dtype, shape, i32), random);
      agree(moving(dtype, shape, bool_), random);
    }
  }
}

// A layer of one of three kinds, over and over: matmuls, reductions, element-wise work, little.
Graph layers(std::int64_t steps, std::int64_t rows, std::int64_t width) {
  const Type matrix{f64, {width, width}}, batch{f64, {rows, width}};
  const auto branch = [&](const std::string& name, const std::function<Value(Value, Value)>& f) {
    GraphBuilder b(name, standard_primitives());
    const Value w = b.input("w", matrix), h = b.input("h", batch);
    const Value next = f(w, h);
    return b.build({next, ops::reduce_sum(next, {1})});
  };
  const std::vector<Graph> branches{branch("product",
                                           [](Value w, Value h) {
                                             return ops::tanh(ops::dot_general(h, w, {{1}, {0}, {}, {}}));
                                           }),
                                    branch("scaled",
                                           [](Value w, Value h) {
                                             const Value scale = ops::broadcast_in_dim(
                                                 ops::reduce_sum(w, {0}), h.shape(), {1});
                                             return ops::sin(ops::mul(h, scale));
                                           }),
                                    branch("kept", [](Value, Value h) { return h; })};
  GraphBuilder s("step");
  const Value w = s.input("w", matrix), h = s.input("h", batch), i = s.input("i", i32);
  const Values chosen = ops::cond(i, branches, std::vector{w, h});
  const Graph body = s.build({chosen[0], chosen[1]});
  GraphBuilder g("net");
  const Value kinds = ops::convert_element_type(
      ops::floor(
          ops::mul(ops::add(g.input("kinds", Type(f64, {steps})), ops::full(g, Type(f64, {steps}), 1.0)),
                   ops::full(g, Type(f64, {steps}), 1.5))),
      i32);
  const Values results =
      ops::scan(body, std::vector{g.input("w", matrix), g.input("h", batch), kinds}, {steps, false, 1, 1});
  return g.build({ops::add(ops::reduce_sum(ops::square(results[0]), {0, 1}),
                           ops::reduce_sum(ops::sin(results[1]), {0, 1}))});
}

TEST_CASE("cond: in a loop, with matmuls, and gradients of both modes") {
  std::mt19937_64 random(2);
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{2, 3}, {5, 33}}) {
    const Graph f = layers(9, rows, width);
    agree(f, random, 50);
    agree(vjp(f, {"w", "h"}), random, 200);
    agree(hvp(f, {"w"}), random, 2000);
    agree(vmap(f, 3, {"h"}), random, 200);
    agree(vmap(f, 3, {"kinds"}), random, 200);
  }
}

TEST_CASE("cond: the branch that is taken runs, and no other") {
  static std::array<std::atomic<int>, 2> calls;
  const auto counting = [](std::size_t k) {
    return [k](const KernelCall& call) {
      ++calls[k];
      call.output() = call.input(0).clone();
    };
  };
  static const Primitive first{.name = "test.first",
                               .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const Primitive second{.name = "test.second",
                                .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&first, &second});
  const CpuExecutor executor = cpu()
                                   .with_kernel("test.first", counting(0), dtypes::all)
                                   .with_kernel("test.second", counting(1), dtypes::all);
  const auto branch = [](const Primitive& primitive) {
    GraphBuilder b("branch", set);
    return b.build({emit1(Op::make(primitive), {b.input("x", Type(f64, {3}))})});
  };
  GraphBuilder g("f", set);
  const Value index = g.input("index", bool_);
  const Graph f = g.build({ops::cond(index, std::vector{branch(first), branch(second)},
                                     std::vector{g.input("x", Type(f64, {3}))})[0]});
  const Tensor x = Tensor::from<double>({3}, {1, 2, 3});
  executor.run(f, std::vector{Tensor::scalar(bool_, 0), x});
  CHECK(calls[0] == 1);
  CHECK(calls[1] == 0);
  executor.run(f, std::vector{Tensor::scalar(bool_, 1), x});
  CHECK(calls[0] == 1);
  CHECK(calls[1] == 1);
}

TEST_CASE("cond: a run allocates its outputs, and memory is that of the largest branch") {
  const auto branch = [](const std::string& name, int sums) {
    GraphBuilder b(name, standard_primitives());
    const Value x = b.input("x", Type(f64, {400, 400}));
    Value y = x;
    for (int i = 0; i < sums; ++i) y = ops::dot_general(y, ops::sin(y), {{1}, {0}, {}, {}});
    return b.build({ops::reduce_sum(y, {0, 1})});
  };
  const auto compiled = [&](const std::vector<Graph>& branches) {
    GraphBuilder g("f");
    const Value index = g.input("index", i32);
    CpuOptions options;
    options.threads = 1;
    return CpuExecutor(options).compile(
        g.build({ops::cond(index, branches, std::vector{g.input("x", Type(f64, {400, 400}))})[0]}));
  };
  const Executable one = compiled({branch("a", 2), branch("b", 1)}),
                   many = compiled({branch("a", 2), branch("b", 1), branch("c", 2), branch("d", 1)});
  CHECK(many.peak_bytes() <= one.peak_bytes() + 4096);
  std::mt19937_64 random(3);
  const Tensor x = random_tensor(Type(f64, {400, 400}), {-1, 1}, random);
  for (const int index : {0, 1, 2}) {
    const Tensor at = Tensor::scalar(i32, index);
    const std::array<const Tensor*, 2> inputs{&at, &x};
    std::vector<Tensor> outputs(1);
    for (int i = 0; i < 3; ++i) many.run_into(inputs, outputs);
    const std::size_t before = test::allocated_bytes();
    many.run_into(inputs, outputs);
    CHECK(test::allocated_bytes() - before <= 256);
  }
}

TEST_CASE("cond: a constant index and equal branches leave the operations of the branch") {
  const auto branch = [](const std::string& name, bool sine) {
    GraphBuilder inner("inner", standard_primitives()), b(name, standard_primitives());
    const Value x = inner.input("x", Type(f64, {3}));
    const Graph called = inner.build({sine ? ops::sin(x) : ops::exp(x)});
    return b.build({ops::call(called, std::vector{b.input("x", Type(f64, {3}))})[0]});
  };
  const auto names = [](const Graph& graph) {
    std::vector<std::string> all;
    const Program program = Program::make(graph);
    for (std::size_t i = 0; i < program.graph().num_operations(); ++i)
      all.emplace_back(program.graph().operation(i).name());
    return all;
  };
  const std::vector<Graph> branches{branch("sine", true), branch("exponential", false)};
  for (const int index : {-3, 0, 1, 5}) {
    GraphBuilder g("f");
    const Value x = g.input("x", Type(f64, {3}));
    const Graph f = g.build({ops::cond(ops::full(g, Type(i32), index), branches, std::vector{x})[0]});
    CHECK(names(f) == std::vector<std::string>{index > 0 ? "exp" : "sin"});
  }
  GraphBuilder g("f"), h("h"), k("k");
  const Value index = g.input("index", bool_), other = h.input("index", i32), third = k.input("index", bool_);
  const std::vector<Graph> equal{branches[0], branch("same", true)};
  CHECK(names(g.build({ops::cond(index, equal, std::vector{g.input("x", Type(f64, {3}))})[0]})) ==
        std::vector<std::string>{"sin"});
  const std::vector<Graph> single{branches[1]};
  CHECK(names(h.build({ops::cond(other, single, std::vector{h.input("x", Type(f64, {3}))})[0]})) ==
        std::vector<std::string>{"exp"});
  CHECK(names(k.build({ops::cond(third, branches, std::vector{k.input("x", Type(f64, {3}))})[0]})) ==
        std::vector<std::string>{"cond"});
}

TEST_CASE("cond: errors of a branch name its operation") {
  GraphBuilder inner("g", standard_primitives()), plain("plain", standard_primitives()), g("f");
  const Value table = inner.input("table", Type(f64, {2})), at = inner.input("i", i32);
  const Graph branch = inner.build({ops::take(table, at, 0)});
  plain.input("table", Type(f64, {2}));
  plain.input("i", i32);
  const Graph other = plain.build({ops::full(plain, Type(f64), 3.0)});
  const Value index = g.input("index", i32);
  const Graph f = g.build({ops::cond(index, std::vector{other, branch},
                                     std::vector{g.input("table", Type(f64, {2})), g.input("i", i32)})[0]});
  CpuOptions options;
  options.check_indices = true;
  const CpuExecutor executor(options);
  const Tensor numbers = Tensor::from<double>({2}, {1, 2}), beyond = Tensor::scalar(i32, 7);
  CHECK(executor.run(f, std::vector{Tensor::scalar(i32, 0), numbers, beyond})[0].item<double>() == 3.0);
  const auto result = executor.try_run(f, std::vector{Tensor::scalar(i32, 1), numbers, beyond});
  REQUIRE(!result);
  const std::string text = result.error().what();
  CHECK_MESSAGE(text.find("[take]") != std::string::npos, text);
  CHECK_MESSAGE(text.find("of \"g\"") != std::string::npos, text);
  CHECK_MESSAGE(text.find("of \"f\"") != std::string::npos, text);
}

TEST_CASE("cond: a graph in many branches, and in theirs, is compiled once") {
  GraphBuilder first("g", standard_primitives());
  Graph graph = first.build({ops::tanh(first.input("x", Type(f64, {8})))});
  constexpr int depth = 30;  // number of innermost occurrences: 2^30
  for (int k = 0; k < depth; ++k) {
    GraphBuilder h("h", standard_primitives()), g("g", standard_primitives());
    const Graph other = h.build({ops::sin(ops::call(graph, std::array{h.input("x", Type(f64, {8}))})[0])});
    const Value x = g.input("x", Type(f64, {8}));
    const Value is_small = ops::lt(ops::reduce_sum(x, {0}), ops::full(g, Type(f64), 0.3 * k));
    graph = g.build({ops::cond(is_small, std::vector{graph, other}, std::array{x})[0] + x});
  }
  std::mt19937_64 random(31);
  const std::vector<Tensor> inputs{random_tensor(Type(f64, {8}), {0, 1}, random)};
  const Tensor got = cpu().run(graph, inputs)[0], expected = reference().run(graph, inputs)[0];
  for (std::int64_t i = 0; i < 8; ++i)
    CHECK(got.at(i).real() == doctest::Approx(expected.at(i).real()).epsilon(1e-12));
}

}  // namespace conditional_cases
}  // namespace
}  // namespace tidu
