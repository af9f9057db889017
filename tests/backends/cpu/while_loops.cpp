// while on the CPU: compared with the reference, with every dtype, carries that are permuted, unchanged and
// added to, matmuls of consts, any number of steps; allocations do not grow with the steps.
#include <atomic>

#include "cpu/compare.hpp"
#include "graph/counting_allocator.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu {
namespace {

namespace while_cases {

using test::random_tensor;
using Bound = std::optional<std::int64_t>;

std::vector<Tensor> random_inputs(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-1, 1}, random));
  return inputs;
}

// The CPU and the reference agree. Another result for every input, and twice the same.
void agree(const Graph& graph, std::mt19937_64& random, double factor = 4) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<Tensor> inputs = random_inputs(graph, random);
    const auto expected = reference().run(graph, inputs);
    const auto got = cpu().run(graph, inputs), again = cpu().run(graph, inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(test::difference(got[i], expected[i], factor) == "");
      CHECK(test::same_bits_or_nan(got[i], again[i]));
    }
  }
}

// The loop of `body` and a counter, its last carry, until that is `steps`.
Values counted(GraphBuilder& g, GraphBuilder& body, std::vector<Value> outputs, std::vector<Value> operands,
               const std::vector<Value>& inputs, int steps, const WhileShape& shape) {
  const Value n = body.input("count", i32);
  outputs.push_back(ops::add(n, ops::full_like(n, 1)));
  operands.push_back(ops::full(g, i32, 0.0));
  GraphBuilder until("until");
  for (std::size_t i = 0; i < inputs.size(); ++i) (void)until.input(detail::str('x', i), inputs[i].type());
  const Value at = until.input("count", i32);
  return ops::while_loop(until.build({ops::lt(at, ops::full_like(at, steps))}), body.build(outputs), operands,
                         shape);
}

// Carries that are exchanged, one unchanged, one of one element; an output given twice, a const passed on.
Graph moving(DType dtype, const Shape& shape, int steps, Bound bound) {
  GraphBuilder b("step"), g("moving");
  const Type type{dtype, shape};
  std::vector<Value> inputs, operands;
  for (const char* name : {"w", "p", "q", "stays", "r", "s"}) inputs.push_back(b.input(name, type));
  inputs.push_back(b.input("one", Type(dtype)));
  for (const char* name : {"w", "p", "q", "stays", "r", "s"}) operands.push_back(g.input(name, type));
  operands.push_back(g.input("one", Type(dtype)));
  const Value sum = dtype == bool_ ? ops::logical_xor(inputs[1], inputs[0]) : ops::add(inputs[1], inputs[0]);
  const Value next = dtype == bool_ ? ops::logical_not(inputs[6]) : ops::add(inputs[6], inputs[6]);
  const Values results =
      counted(g, b, {inputs[2], sum, inputs[3], sum, inputs[0], next}, operands, inputs, steps, {1, bound});
  return g.build(std::span<const Value>(results.data(), results.size()));
}

TEST_CASE("while: every dtype, shape, number of steps and bound") {
  std::mt19937_64 random(1);
  for (const DType dtype : test::every_dtype) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}}) {
      for (const int steps : {0, 1, 2, 3, 6}) {
        CAPTURE(dtype);
        CAPTURE(steps);
        agree(moving(dtype, shape, steps, {}), random);
        agree(moving(dtype, shape, steps, 2), random);
        agree(moving(dtype, shape, steps, steps % 2), random);
      }
    }
  }
}

// A recurrent net, whose weights are consts; one carry is only added to, by matmuls.
Graph recurrent(int steps, std::int64_t batch, std::int64_t hidden, DType dtype, Bound bound) {
  GraphBuilder b("cell"), g("net");
  const Type matrix{dtype, {hidden, hidden}}, rows{dtype, {batch, hidden}};
  const auto product = [](Value x, Value y) { return ops::dot_general(x, y, {{1}, {0}, {}, {}}); };
  const Value w = b.input("w", matrix), u = b.input("u", rows), h = b.input("h", rows),
              m = b.input("m", matrix);
  const Value next = ops::tanh(ops::add(product(h, w), ops::sin(u)));
  const Value more = ops::add(m, ops::dot_general(h, next, {{0}, {0}, {}, {}}));
  const Values results =
      counted(g, b, {next, more},
              {g.input("w", matrix), g.input("u", rows), g.input("h", rows), g.input("m", matrix)},
              {w, u, h, m}, steps, {2, bound});
  return g.build(
      {ops::add(ops::reduce_sum(ops::square(results[0]), {0, 1}), ops::reduce_sum(results[1], {0, 1}))});
}

TEST_CASE("while: a recurrent net and its derivatives, whose weights are packed once") {
  std::mt19937_64 random(2);
  for (const DType dtype : {f64, f32}) {
    for (const auto& [batch, hidden] : {std::pair<std::int64_t, std::int64_t>{2, 3}, {5, 33}, {1, 40}}) {
      agree(recurrent(7, batch, hidden, dtype, {}), random, 50);
      agree(jvp(recurrent(7, batch, hidden, dtype, {})), random, 200);
      agree(vjp(recurrent(7, batch, hidden, dtype, 9)), random, 200);
      agree(vmap(recurrent(3, batch, hidden, dtype, {}), 2), random, 200);
    }
  }
}

TEST_CASE("while: values that depend on consts alone are computed once, and not at all if no step is taken") {
  static std::atomic<int> calls;
  static const Primitive noted{.name = "test.noted",
                               .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&noted});
  const CpuExecutor executor = cpu().with_kernel(
      "test.noted",
      [](const KernelCall& call) {
        ++calls;
        call.output() = call.input(0).clone();
      },
      dtypes::all);
  for (const bool is_const : {true, false}) {
    GraphBuilder b("step", set), c("until", set), g("f", set);
    const Type v3{f64, {3}};
    // A carry that stays is as good as a const.
    const Value w = b.input("w", v3), x = b.input("x", v3);
    const Value read = c.input("w", v3), at = c.input("x", v3);
    const Value sum = ops::reduce_sum(at, {0}), most = ops::reduce_sum(read, {0});
    const Graph until = c.build({ops::lt(sum, ops::mul(most, ops::full_like(most, 10)))});
    const Graph body = b.build({w, ops::add(x, emit1(Op::make(noted), {is_const ? w : x}))});
    const std::vector<Value> operands{g.input("w", v3), g.input("x", v3)};
    const Values results = ops::while_loop(until, body, operands);
    const Graph f = g.build({results[0], results[1]});
    calls = 0;
    const Tensor one = Tensor::from<double>({3}, {1, 2, 3});
    const std::vector<Tensor> got = executor.run(f, std::vector{one, one});
    CHECK(got[0].at(1).real() == 2.0);
    CHECK(got[1].at(1).real() == (is_const ? 20.0 : 32.0));
    CHECK(calls == (is_const ? 1 : 4));
    calls = 0;
    executor.run(f, std::vector{one, Tensor::from<double>({3}, {100, 0, 0})});
    CHECK(calls == 0);
  }
}

TEST_CASE("while: a run allocates no more for more steps") {
  const auto allocated = [](int steps) {
    const Graph graph = jvp(recurrent(steps, 2, 6, f64, {}));
    std::mt19937_64 random(3);
    const std::vector<Tensor> inputs = random_inputs(graph, random);
    CpuOptions options;
    options.threads = 1;
    const Executable executable = CpuExecutor(options).compile(graph);
    std::vector<const Tensor*> pointers;
    for (const Tensor& input : inputs) pointers.push_back(&input);
    std::vector<Tensor> outputs(graph.outputs().size());
    for (int i = 0; i < 3; ++i) executable.run_into(pointers, outputs);
    const std::size_t before = test::allocated_bytes();
    executable.run_into(pointers, outputs);
    return test::allocated_bytes() - before;
  };
  CHECK(allocated(5) <= 1024);
  CHECK(allocated(500) <= 1024);
}

TEST_CASE("while: errors of a step name the operation of the body") {
  GraphBuilder g("f"), b("g"), c("until");
  const Value table = b.input("table", Type(f64, {2})), sum = b.input("c", f64), i = b.input("i", i32);
  const Graph body = b.build({ops::add(sum, ops::take(table, i, 0)), ops::add(i, ops::full_like(i, 1))});
  (void)c.input("table", Type(f64, {2}));
  (void)c.input("c", f64);
  const Value at = c.input("i", i32);
  const Graph until = c.build({ops::lt(at, ops::full_like(at, 3))});
  const std::vector<Value> operands{g.input("table", Type(f64, {2})), g.input("c", f64), g.input("i", i32)};
  const Graph graph = g.build({ops::while_loop(until, body, operands, {1, {}})[0]});
  CpuOptions options;
  options.check_indices = true;
  const auto result = CpuExecutor(options).try_run(
      graph, std::vector{Tensor::from<double>({2}, {1, 2}), Tensor::scalar(0.0), Tensor::scalar(0)});
  REQUIRE(!result);
  const std::string text = result.error().what();
  CHECK_MESSAGE(text.find("[take]") != std::string::npos, text);
  CHECK_MESSAGE(text.find("of \"g\"") != std::string::npos, text);
  CHECK_MESSAGE(text.find("of \"f\"") != std::string::npos, text);
}

}  // namespace while_cases
}  // namespace
}  // namespace tidu
