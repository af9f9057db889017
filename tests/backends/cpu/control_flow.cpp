// scan on the CPU: compared with the reference and with the unrolled loop, with every dtype, with matmuls of
// consts, with any number of steps; allocations and time grow only with the steps.
#include "tidu/primitives/control_flow.hpp"

#include <atomic>

#include "cpu/compare.hpp"
#include "graph/counting_allocator.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"

namespace tidu {
namespace {

namespace control_flow_cases {

using test::random_tensor;

std::vector<Tensor> random_inputs(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-1, 1}, random));
  return inputs;
}

// The CPU, the reference and the unrolled loop agree. Different results for every input, and twice the same.
void agree(const Graph& graph, std::mt19937_64& random, double factor = 4) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<Tensor> inputs = random_inputs(graph, random);
    const auto expected = reference().run(graph, inputs);
    const auto got = cpu().run(graph, inputs), written = cpu().run(with_control_flow_unrolled(graph), inputs);
    const auto again = cpu().run(graph, inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(test::difference(got[i], expected[i], factor) == "");
      CHECK(test::difference(written[i], expected[i], factor) == "");
      CHECK(test::same_bits_or_nan(got[i], again[i]));
    }
  }
}

// Carries that are exchanged, one unchanged, one of one element; an output given twice, an input as output, a
// constant output.
Graph moving(DType dtype, const Shape& shape, std::int64_t length, bool reverse) {
  GraphBuilder b("step");
  const Type type{dtype, shape};
  const Value w = b.input("w", type), p = b.input("p", type), q = b.input("q", type),
              stays = b.input("stays", type), one = b.input("one", Type(dtype)), x = b.input("x", type),
              y = b.input("y", Type(dtype));
  const Value sum = dtype == bool_ ? ops::logical_xor(p, x) : ops::add(p, x);
  const Value next = dtype == bool_ ? ops::logical_or(one, y) : ops::add(one, y);
  const Graph body = b.build({q, sum, stays, next, sum, x, w, ops::full_like(x, 1), sum, y, one});
  GraphBuilder g("moving");
  Shape many{length};
  many.insert(many.end(), shape.begin(), shape.end());
  std::vector<Value> operands;
  for (const char* name : {"w", "p", "q", "stays"}) operands.push_back(g.input(name, type));
  operands.push_back(g.input("one", Type(dtype)));
  operands.push_back(g.input("x", Type(dtype, many)));
  operands.push_back(g.input("y", Type(dtype, {length})));
  const Values results = ops::scan(body, operands, {length, reverse, 1, 4});
  return g.build(std::span<const Value>(results.data(), results.size()));
}

TEST_CASE("scan: every dtype, shape, number of steps and direction") {
  std::mt19937_64 random(1);
  for (const DType dtype : test::every_dtype) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}}) {
      for (const std::int64_t length : {0, 1, 2, 3, 6}) {
        CAPTURE(dtype);
        CAPTURE(length);
        agree(moving(dtype, shape, length, length % 2 == 0), random);
      }
    }
  }
}

// A recurrent net over steps of a batch.
Graph recurrent(std::int64_t steps, std::int64_t batch, std::int64_t hidden, DType dtype) {
  GraphBuilder b("cell");
  const Type matrix{dtype, {hidden, hidden}}, rows{dtype, {batch, hidden}};
  const auto product = [](Value x, Value y) { return ops::dot_general(x, y, {{1}, {0}, {}, {}}); };
  const Value w = b.input("w", matrix), u = b.input("u", matrix), h = b.input("h", rows),
              x = b.input("x", rows);
  const Value next = ops::tanh(ops::add(product(h, w), product(x, u)));
  const Graph body = b.build({next, ops::reduce_sum(ops::mul(next, x), {1})});
  GraphBuilder g("net");
  const std::vector<Value> operands{g.input("w", matrix), g.input("u", matrix), g.input("h", rows),
                                    g.input("x", Type(dtype, {steps, batch, hidden}))};
  const Values results = ops::scan(body, operands, {steps, false, 2, 1});
  return g.build({ops::add(ops::reduce_sum(ops::square(results[0]), {0, 1}),
                           ops::reduce_sum(ops::square(results[1]), {0, 1}))});
}

TEST_CASE("scan: a recurrent net and its gradient, whose weights are packed once") {
  std::mt19937_64 random(2);
  for (const DType dtype : {f64, f32}) {
    for (const auto& [batch, hidden] : {std::pair<std::int64_t, std::int64_t>{2, 3}, {5, 33}, {1, 40}}) {
      const Graph f = recurrent(7, batch, hidden, dtype);
      agree(f, random, 50);
      agree(vjp(f), random, 200);
      agree(hvp(f, {"w"}), random, 2000);
    }
  }
}

// Carries that are only added to, and some that are read for something else.
Graph summing(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t length) {
  GraphBuilder b("step");
  const Type matrix{dtype, {rows, columns}}, tall{dtype, {rows}}, wide{dtype, {columns}};
  const Type types[] = {matrix, tall, wide, matrix, tall, tall, wide, matrix, tall};
  std::vector<Value> c;
  for (const Type type : types) c.push_back(b.input(detail::str('c', c.size()), type));
  const Value x = b.input("x", tall), y = b.input("y", wide);
  const Value outer =
      ops::dot_general(ops::reshape(x, {rows, 1}), ops::reshape(y, {1, columns}), {{1}, {0}, {}, {}});
  const Value sum = ops::add(c[1], ops::sin(x));
  const Graph body =
      b.build({ops::add(c[0], outer), sum, ops::add(c[2], ops::mul(y, y)),
               ops::add(c[3], ops::broadcast_in_dim(x, {rows, columns}, {0})), ops::add(c[4], sum),
               ops::add(x, c[5]), ops::add(c[6], ops::rev(ops::neg(y), {0})),
               ops::add(c[7], ops::mul(outer, c[3])), ops::add(c[8], ops::reduce_sum(outer, {1})), c[6]});
  GraphBuilder g("summing");
  std::vector<Value> operands;
  for (const Type type : types) operands.push_back(g.input(detail::str('c', operands.size()), type));
  operands.push_back(g.input("x", Type(dtype, {length, rows})));
  operands.push_back(g.input("y", Type(dtype, {length, columns})));
  const Values results = ops::scan(body, operands, {length, false, 0, 9});
  return g.build(std::span<const Value>(results.data(), results.size()));
}

TEST_CASE("scan: carries that are only added to") {
  std::mt19937_64 random(4);
  for (const DType dtype : {f64, f32, c128, bf16}) {
    for (const std::int64_t length : {1, 2, 5}) {
      agree(summing(dtype, 3, 4, length), random);
      agree(summing(dtype, 17, 40, length), random);
      agree(summing(dtype, 1, 1, length), random);
    }
    if (is_inexact(dtype) && dtype != bf16) agree(vjp(summing(dtype, 17, 40, 5)), random, 20);
  }
}

// Many values that depend on consts alone: with several results, read by one another, outputs, without
// elements.
Graph with_consts(std::int64_t length) {
  const Type v5{f64, {5}}, m5{f64, {5, 5}};
  GraphBuilder b("step");
  const Value w = b.input("w", v5), m = b.input("m", m5), one = b.input("one", f64), c = b.input("c", v5),
              x = b.input("x", v5);
  const Value scale = ops::exp(one), heavy = ops::mul(ops::sin(w), ops::broadcast_scalar(scale, {5}));
  const Values sorted = ops::sort(std::vector{w, heavy}, 0);
  const Value gram = ops::dot_general(m, m, {{1}, {1}, {}, {}});
  const auto times = [](Value a, Value v) { return ops::dot_general(a, v, {{1}, {0}, {}, {}}); };
  const Value next = ops::add(ops::tanh(ops::add(times(gram, c), sorted[1])), ops::mul(x, heavy));
  const Value spread = ops::broadcast_in_dim(ops::cos(w), {5, 5}, {0});
  const Value nothing = ops::slice(heavy, {0}, {0});
  const Graph body =
      b.build({next, heavy, scale, ops::mul(spread, ops::broadcast_in_dim(c, {5, 5}, {1})), nothing,
               sorted[0], ops::add(ops::reshape(ops::neg(w), {1, 5}), ops::reshape(next, {1, 5}))});
  GraphBuilder g("with_consts");
  const std::vector<Value> operands{g.input("w", v5), g.input("m", m5), g.input("one", f64), g.input("c", v5),
                                    g.input("x", Type(f64, {length, 5}))};
  const Values results = ops::scan(body, operands, {length, true, 3, 1});
  return g.build(std::span<const Value>(results.data(), results.size()));
}

TEST_CASE("scan: values that depend on consts alone are computed once, before the steps") {
  std::mt19937_64 random(6);
  for (const std::int64_t length : {0, 1, 3, 8}) {
    const Graph f = with_consts(length);
    agree(f, random);
    agree(vjp(f), random, 20);
    agree(jvp(f), random, 20);
  }
  // f(w) in the body is made once for each run, f(c) once for each step.
  static std::atomic<int> calls;
  static const Primitive counted{.name = "test.counted",
                                 .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&counted});
  const CpuExecutor executor = cpu().with_kernel(
      "test.counted",
      [](const KernelCall& call) {
        ++calls;
        call.output() = call.input(0).clone();
      },
      dtypes::all);
  for (const bool of_const : {true, false}) {
    GraphBuilder b("step", set), g("f", set);
    const Value w = b.input("w", Type(f64, {3})), c = b.input("c", Type(f64, {3}));
    const Graph body = b.build({ops::add(c, emit1(Op::make(counted), {of_const ? w : c}))});
    const std::vector<Value> operands{g.input("w", Type(f64, {3})), g.input("c", Type(f64, {3}))};
    const Graph f = g.build({ops::scan(body, operands, {6, false, 1, 1})[0]});
    calls = 0;
    const Tensor at = Tensor::from<double>({3}, {1, 2, 3});
    const double got = executor.run(f, std::vector{at, at})[0].at(1).real();
    CHECK(got == (of_const ? 14.0 : 128.0));
    CHECK(calls == (of_const ? 1 : 6));
  }
}

TEST_CASE("scan: a run allocates no more for more steps") {
  const auto allocated = [](std::int64_t steps) {
    const Graph graph = vjp(recurrent(steps, 2, 6, f64));
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
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  constexpr std::size_t little = 1024;  // programs that are not optimised allocate more
#else
  constexpr std::size_t little = 256;
#endif
  // Beside the gradient of xs, which has their size.
  const auto xs = [](std::int64_t steps) { return static_cast<std::size_t>(steps) * 2 * 6 * 8 + little; };
  CHECK(allocated(5) <= xs(5));
  CHECK(allocated(50) <= xs(50));
}

TEST_CASE("scan: errors of a step name the operation of the body") {
  GraphBuilder g("f");
  GraphBuilder inner("g");
  const Value consts = inner.input("table", Type(f64, {2})), carry = inner.input("c", f64),
              x = inner.input("i", i32);
  const Graph step = inner.build({ops::add(carry, ops::take(consts, x, 0))});
  const std::vector<Value> operands{g.input("table", Type(f64, {2})), g.input("c", f64),
                                    g.input("i", Type(i32, {3}))};
  const Graph graph = g.build({ops::scan(step, operands, {3, false, 1, 1})[0]});
  CpuOptions options;
  options.check_indices = true;
  const auto result =
      CpuExecutor(options).try_run(graph, std::vector{Tensor::from<double>({2}, {1, 2}), Tensor::scalar(0.0),
                                                      Tensor::from<std::int32_t>({3}, {0, 1, 7})});
  REQUIRE(!result);
  const std::string text = result.error().what();
  CHECK_MESSAGE(text.find("[take]") != std::string::npos, text);
  CHECK_MESSAGE(text.find("of \"g\"") != std::string::npos, text);
  CHECK_MESSAGE(text.find("of \"f\"") != std::string::npos, text);
}

}  // namespace control_flow_cases
}  // namespace
}  // namespace tidu
