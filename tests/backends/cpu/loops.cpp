// Blocked loops against the same program without them: networks, mixtures, softmax and layer norm with their
// gradients, and random graphs in which loops are forced; the same bits for one thread and for two, and from
// run to run.
#include "cpu/compare.hpp"
#include "cpu/compiled.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "support/distance.hpp"
#include "support/support.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/linearize/transforms.hpp"

using namespace tidu;
using namespace tidu::test;

namespace loops_cases {
namespace {

ProgramOptions forced(std::size_t block_bytes) {
  ProgramOptions options;
  options.loop_bytes = 0;
  options.block_bytes = block_bytes;
  return options;
}

std::vector<Tensor> random_inputs(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-1, 1}, random));
  return inputs;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (std::memcmp(a[k].bytes(), b[k].bytes(), a[k].num_bytes()) != 0) return false;
  }
  return true;
}

std::size_t num_loops(const Program& program) { return program.schedule().loops.size(); }

// With loops, on one thread and two, twice, against the program without.
void check_loops(const Graph& graph, const ProgramOptions& options, std::mt19937_64& random, double tolerance,
                 std::size_t loops) {
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  ProgramOptions whole;
  whole.block = false;
  const Program program = Program::make(graph, options);
  INFO(to_text(program));
  CHECK(num_loops(program) >= loops);  // which axis is tiled depends on the other operations of a graph
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
  const CpuExecutor one(CpuOptions{.threads = 1}), two(CpuOptions{.threads = 2});
  const std::vector<Tensor> expected = one.compile(Program::make(graph, whole)).run(inputs);
  const Executable compiled = two.compile(program);
  const std::vector<Tensor> got = compiled.run(inputs);
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(expected[k], got[k]) <= tolerance);
  CHECK(same_bits(got, compiled.run(inputs)));
  CHECK(same_bits(got, one.compile(program).run(inputs)));
}

Graph network(std::int64_t batch, DType dtype) {
  GraphBuilder g("network");
  const Value x = g.input("x", {dtype, {batch, 20}});
  const Value y = g.input("y", {dtype, {batch, 3}});
  const Value w1 = g.input("w1", {dtype, {20, 30}}), b1 = g.input("b1", {dtype, {30}});
  const Value w2 = g.input("w2", {dtype, {30, 3}});
  const Value hidden = ops::tanh(ops::matmul(x, w1) + ops::broadcast_in_dim(b1, {batch, 30}, {1}));
  const Value logits = ops::matmul(hidden, w2);
  const Value normal = ops::logsumexp(logits, {1});
  return g.build({ops::reduce_sum(normal - ops::reduce_sum(logits * y, {1}), {0})});
}

Graph mixture(std::int64_t n, std::int64_t d, std::int64_t k) {
  GraphBuilder g("mixture");
  const Value x = g.input("x", {f64, {n, d}});
  const Value q = g.input("q", {f64, {k, d, d}});
  const Value m = g.input("m", {f64, {k, d}});
  const Value qx = ops::dot_general(x, q, {.lhs_contracting = {1}, .rhs_contracting = {2}});
  const Value y = qx - ops::broadcast_in_dim(m, {n, k, d}, {1, 2});
  const Value a = ops::neg(ops::reduce_sum(ops::square(y), {2}));
  return g.build({ops::reduce_sum(ops::logsumexp(a, {1}), {0})});
}

Graph layer_norm(std::int64_t rows, std::int64_t width) {
  GraphBuilder g("layer_norm");
  const Shape shape{rows, width};
  const Value x = g.input("x", {f32, shape}), ct = g.input("ct", {f32, shape});
  const Value w = g.input("w", {f32, {width}}), b = g.input("b", {f32, {width}});
  const auto spread = [&](Value v) { return ops::broadcast_in_dim(v, shape, {0}); };
  const Value scale = ops::full(g, {f32, {rows}}, 1.0 / static_cast<double>(width));
  const Value mean = ops::reduce_sum(x, {1}) * scale;
  const Value centred = x - spread(mean);
  const Value variance = ops::reduce_sum(ops::square(centred), {1}) * scale;
  const Value normal = centred * spread(ops::rsqrt(variance + ops::full_like(variance, 1e-5)));
  const Value y = normal * ops::broadcast_in_dim(w, shape, {1}) + ops::broadcast_in_dim(b, shape, {1});
  return g.build({ops::reduce_sum(y * ct, {0, 1})});
}

}  // namespace

TEST_CASE("tiled loops have the results of whole arrays") {
  std::mt19937_64 random(3);
  for (const std::int64_t batch : {17, 64, 100, 257}) {
    INFO("batch ", batch);
    for (const DType dtype : {f32, f64}) {
      const double tolerance = dtype == f32 ? 1e-5 : 1e-13;
      const Graph loss = network(batch, dtype);
      check_loops(loss, forced(1024), random, tolerance, 1);
      check_loops(value_and_grad(loss, {"w1", "b1", "w2"}), forced(1024), random, tolerance, 1);
      check_loops(hvp(loss, {"w1", "b1", "w2"}), forced(1024), random, tolerance * 10, 1);
    }
    check_loops(value_and_grad(mixture(batch, 5, 7), {"q", "m"}), forced(8192), random, 1e-12, 1);
    check_loops(value_and_grad(layer_norm(batch, 40), {"x", "w", "b"}), forced(2048), random, 1e-4, 1);
  }
}

TEST_CASE("large arrays run in blocks of cache size, and their memory is that of a block") {
  const Graph gradient = value_and_grad(mixture(4000, 32, 25), {"q", "m"});
  const Program blocked = Program::make(gradient);
  ProgramOptions options;
  options.block = false;
  const Program whole = Program::make(gradient, options);
  REQUIRE(num_loops(blocked) == 1);
  CHECK(whole.peak_bytes() > std::size_t{24} << 20);
  CHECK(blocked.peak_bytes() < std::size_t{8} << 20);
  std::mt19937_64 random(4);
  check_loops(gradient, ProgramOptions(), random, 1e-11, 1);
}

TEST_CASE("as much memory is used as was predicted, and sums are added to where they are") {
  std::mt19937_64 random(27);
  const Graph graph = value_and_grad(mixture(4000, 32, 25), {"q", "m"});
  const Program program = Program::make(graph);
  CHECK(num_loops(program) == 1);
  const auto kernels = std::make_shared<const cpu_detail::KernelTable>();
  const auto arena = std::make_shared<cpu_detail::Arena>(std::size_t{1} << 30);
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  // Fusions without generated code keep temporaries between their operations, which are not predicted.
  cpu_detail::CompileOptions options;
  options.vector_jit = cpu_detail::VectorJit::get(VectorUnits::automatic);
  const cpu_detail::Compiled compiled(program, options, *kernels, arena);
  std::size_t outputs = 0;  // the small ones, which are not from there
  for (const Tensor& result : compiled.run(inputs)) {
    if (result.num_bytes() < std::size_t{1} << 16) outputs += result.num_bytes();
  }
  const double used = static_cast<double>(arena->max_used() + outputs),
               by_program = static_cast<double>(program.peak_bytes()),
               predicted = static_cast<double>(compiled.peak_bytes());
  if (options.vector_jit != nullptr) CHECK(used < by_program);
  CHECK(used < 1.02 * predicted);
  CHECK(used > 0.98 * predicted);

  // The body's multiplication and the addition that follows it are one instruction.
  const BlockedLoop& loop = program.schedule().loops[0];
  const Program& body = *loop.body;
  std::vector<std::uint32_t> sums;
  for (std::uint32_t i = 0; i < loop.results.size(); ++i) {
    if (loop.results[i].axis == BlockedLoop::none) sums.push_back(i);
  }
  const cpu_detail::Compiled alone(body, {}, *kernels, arena),
      summing(body, {}, *kernels, arena, {.sums = sums});
  CHECK(summing.num_instructions() + 1 == alone.num_instructions());
}

TEST_CASE("a matmul is added to where it is to an operand's part only where that begins the result") {
  std::mt19937_64 random(29);
  for (const bool sum_first : {false, true}) {
    GraphBuilder g("f");
    const Value x = g.input("x", {f64, {2000, 16}}), y = g.input("y", {f64, {2000, 16}});
    const Value w = g.input("w", {f64, {16, 16}});
    const Value hidden = ops::tanh(ops::matmul(x, w));
    const Value more = y + ops::matmul(hidden, w);  // not y's memory
    const Value total = ops::dot_general(hidden, x, {.lhs_contracting = {0}, .rhs_contracting = {0}});
    const Graph graph = g.build(sum_first ? std::vector{total, more} : std::vector{more, total});
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 16})
      check_loops(graph, forced(bytes), random, 1e-12, 1);
  }
}

TEST_CASE("operands that tiled matmuls read whole are packed once for all blocks") {
  std::mt19937_64 random(28);
  const Graph graph = value_and_grad(mixture(1000, 32, 25), {"q", "m"});
  const Program program = Program::make(graph);
  REQUIRE(num_loops(program) == 1);
  const BlockedLoop& loop = program.schedule().loops[0];
  const cpu_detail::KernelTable kernels;
  const auto arena = std::make_shared<cpu_detail::Arena>(std::size_t{1} << 30);
  std::vector<std::uint8_t> fixed;
  for (const BlockedLoop::Value& operand : loop.operands)
    fixed.push_back(operand.axis == BlockedLoop::none ? 1 : 0);
  fixed.resize(loop.body->graph().inputs().size(), 0);
  const cpu_detail::Compiled body(*loop.body, {}, kernels, arena, {.fixed = fixed});
  REQUIRE(body.preparations().size() == 1);
  const cpu_detail::Preparation& packed = body.preparations()[0];
  CHECK(packed.type == Type(f64, {25, 32, 32}));
  CHECK(packed.bytes == 25 * 32 * 32 * 8 + 25 * 32 * 8 / 32 * 16);  // and which terms panels have
  CHECK(cpu_detail::Compiled(*loop.body, {}, kernels, arena).preparations().empty());
  check_loops(graph, ProgramOptions(), random, 1e-11, 1);
}

TEST_CASE("small arrays, barriers and fusions that save nothing give no loops") {
  CHECK(num_loops(Program::make(value_and_grad(network(64, f32), {"w1"}))) == 0);
  GraphBuilder g("chain");
  const Value x = g.input("x", {f32, {1 << 20}});
  CHECK(num_loops(Program::make(g.build({ops::reduce_sum(ops::sin(ops::exp(x)), {0})}))) == 0);
  GraphBuilder many("many");  // small values, but thousands of them
  const Value w = many.input("w", {f64, {14, 14}});
  Value state = many.input("state", {f64, {14}});
  for (int i = 0; i < 5000; ++i) state = ops::tanh(ops::matmul(w, state));
  CHECK(num_loops(Program::make(many.build({ops::reduce_sum(state, {0})}))) == 0);
}

TEST_CASE("16-bit sums are not carried from block to block, and empty products are no reason to stop") {
  GraphBuilder g("half");
  const Value x = g.input("x", {bf16, {4096, 512}});
  const Value s = ops::reduce_sum(ops::exp(x) * ops::cos(x), {0});
  const Graph sums = g.build({s, ops::reduce_max(ops::exp(ops::sin(x)) * x, {1})});
  std::mt19937_64 random(12);
  check_loops(sums, forced(1 << 14), random, 1e-2, 0);
  GraphBuilder e("empty");
  const Value y = e.input("y", {f64, {4096, 8, 64}}), w = e.input("w", {f64, {64, 4}});
  const Value h = ops::sin(ops::exp(y));
  const Value none = ops::slice(h, {0, 0, 0}, {4096, 0, 64});
  const Value product = ops::dot_general(none, w, {.lhs_contracting = {2}, .rhs_contracting = {0}});
  check_loops(e.build({ops::reduce_max(ops::cos(h) * h, {2}), product}), ProgramOptions(), random, 1e-12, 0);
}

TEST_CASE("a loop whose only sums have no elements") {
  GraphBuilder g("none");
  const Value x = g.input("x", {f32, {20000, 512}}), y = g.input("y", {f32, {20000, 0}});
  const Value e = ops::cumsum(ops::tanh(ops::cumsum(x, 1)), 1);
  const Value none = ops::dot_general(e, y, {.lhs_contracting = {0}, .rhs_contracting = {0}});
  std::mt19937_64 random(13);
  check_loops(g.build({ops::reduce_sum(e, {1}), none}), ProgramOptions(), random, 2e-4, 1);
}

TEST_CASE("a fusion that fits no cache is not run as one block") {
  GraphBuilder g("chain");
  const Value x = g.input("x", {f32, {100000, 100}});
  Value y = x;
  for (int i = 0; i < 10; ++i) y = ops::sin(y) * x;
  const Program program = Program::make(g.build({y, ops::reduce_sum(y, {1})}));
  for (const BlockedLoop& loop : program.schedule().loops) CHECK(loop.block < loop.extent / 4);
}

TEST_CASE("kernels of other projects see whole operations") {
  GraphBuilder g("foreign");
  const Value x = g.input("x", {f64, {1000, 50}});
  const Graph graph = g.build({ops::reduce_max(ops::exp(x) * ops::sin(x), {1})});
  CpuOptions options{.threads = 2};
  options.program = forced(4096);
  const CpuExecutor executor = CpuExecutor(options).with_kernel(
      "exp", [](const KernelCall&) {}, dtypes::all);
  CHECK(num_loops(CpuExecutor(options).compile(graph).program()) > 0);
  CHECK(num_loops(executor.compile(graph).program()) == 0);
  CHECK(num_loops(executor.compile(Program::make(graph, forced(4096))).program()) == 0);
}

TEST_CASE("values that depend on sums over the axis run in a second loop") {
  GraphBuilder g("standardize");
  const Value x = g.input("x", {f64, {300, 40}});
  const Value mean = ops::reduce_sum(ops::sin(x), {0});
  const Value centred = ops::sin(x) - ops::broadcast_in_dim(mean, {300, 40}, {1});
  const Value out = ops::reduce_max(ops::exp(ops::cos(centred)), {1});
  std::mt19937_64 random(6);
  const Graph graph = g.build({out, ops::reduce_sum(out, {0})});
  const Program program = Program::make(graph, forced(4096));
  INFO(to_text(program));
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  ProgramOptions whole;
  whole.block = false;
  const auto expected = cpu().compile(Program::make(graph, whole)).run(inputs);
  const auto got = cpu().compile(program).run(inputs);
  CHECK(distance(expected[0], got[0]) < 1e-13);
  CHECK(distance(expected[1], got[1]) < 1e-13);
}

TEST_CASE("parts along an inner axis are copied together") {
  GraphBuilder g("inner");
  const Value x = g.input("x", {f32, {6, 200, 3}});
  const Value e = ops::exp(x) * ops::sin(x);
  const Value s = ops::reduce_sum(e, {0});                                    // [200, 3]
  const Value out = ops::transpose(ops::cos(e) * ops::square(e), {2, 0, 1});  // [3, 6, 200]
  const Value total = ops::dot_general(s, s, {.lhs_contracting = {0}, .rhs_contracting = {0}});
  std::mt19937_64 random(8);
  check_loops(g.build({out, s, total}), forced(1024), random, 1e-5, 1);
}

TEST_CASE("an index out of range is named by its place in the whole, and the next run works") {
  GraphBuilder g("failing");
  const Value table = g.input("table", {f64, {5, 40}});
  const Value indices = g.input("indices", {i32, {400}});
  const Value rows = ops::take(table, indices, 0, "clip");
  const Graph graph = g.build({ops::reduce_sum(ops::exp(rows) * ops::sin(rows), {1})});
  CpuOptions options{.threads = 2, .check_indices = true};
  options.program = forced(4096);
  const CpuExecutor executor(options);
  const Executable compiled = executor.compile(graph);
  std::vector<std::int32_t> places(400, 2);
  std::mt19937_64 random(9);
  const Tensor x = random_tensor({f64, {5, 40}}, {-1, 1}, random);
  const Tensor good = Tensor::from<std::int32_t>({400}, places);
  places[333] = 7;
  const Tensor bad = Tensor::from<std::int32_t>({400}, places);
  const auto before = compiled.run(std::vector{x, good});
  try {
    compiled.run(std::vector{x, bad});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("[take] expected indices in [0, 5), got 7 at position 333") == 0);
  }
  CHECK(same_bits(before, compiled.run(std::vector{x, good})));
}

namespace {

// Values of shapes [n], [n, k], [k], [n, k, k] and scalars, in which n takes part in most.
Graph random_graph(std::int64_t n, std::int64_t k, int operations, std::mt19937_64& random) {
  GraphBuilder g("random");
  std::vector<Value> values{g.input("a", {f64, {n, k}}), g.input("b", {f64, {n}}),
                            g.input("c", {f64, {k, k}}), g.input("d", {f64, {k}}),
                            g.input("e", {f64, {n, k}})};
  const auto pick = [&] {  // a recent value, or an input
    if (random() % 6 == 0) return values[random() % 5];
    return values[values.size() - 1 - random() % std::min<std::size_t>(9, values.size())];
  };
  const auto bounded = [&](Value v) { return random() % 3 == 0 ? v : ops::sin(v); };
  for (int i = 0; i < operations; ++i) {
    const Value a = pick(), b = pick();
    switch (random() % 13) {
      case 0: values.push_back(bounded(a)); break;
      case 1: values.push_back(a.type() == b.type() ? bounded(a * b) : ops::tanh(a)); break;
      case 2: values.push_back(a.type() == b.type() ? bounded(a + b) : ops::cos(b)); break;
      case 3: {
        if (a.rank() == 0) break;
        values.push_back(bounded(ops::reduce_sum(a, {static_cast<std::int64_t>(random() % a.rank())})));
        break;
      }
      case 4: {
        if (a.rank() == 0) break;
        values.push_back(ops::reduce_max(a, {static_cast<std::int64_t>(a.rank()) - 1}));
        break;
      }
      case 5: {
        if (a.rank() != 1) break;
        const bool leading = random() % 2 == 0;
        const std::int64_t other = a.shape()[0] == n ? k : n;
        const Shape shape = leading ? Shape{a.shape()[0], other} : Shape{other, a.shape()[0]};
        values.push_back(ops::broadcast_in_dim(a, shape, {leading ? 0 : 1}));
        break;
      }
      case 6: {
        if (a.rank() < 1 || b.rank() < 1) break;
        const auto last = static_cast<std::int64_t>(a.rank()) - 1;
        if (a.shape().back() != b.shape()[0] || a.rank() + b.rank() > 5) break;
        values.push_back(
            bounded(ops::dot_general(a, b, {.lhs_contracting = {last}, .rhs_contracting = {0}})));
        break;
      }
      case 7:
        if (a.rank() == 2) values.push_back(ops::transpose(a, {1, 0}));
        break;
      case 8:
        if (a.rank() == 2) values.push_back(ops::reshape(a, {a.shape()[0], 1, a.shape()[1]}));
        break;
      case 9:
        if (a.rank() == 3) values.push_back(ops::reshape(a, {a.shape()[0], a.shape()[1] * a.shape()[2]}));
        break;
      case 10: {
        if (a.rank() == 0 || a.type() != b.type()) break;
        values.push_back(ops::concatenate(std::array{a, b}, static_cast<std::int64_t>(a.rank()) - 1));
        break;
      }
      case 11: {  // as of a layer that adds to its operand, and of a gradient with several terms
        if (a.rank() != 2 || a.shape()[1] != k) break;
        const Value product =
            ops::dot_general(a, values[2], {.lhs_contracting = {1}, .rhs_contracting = {0}});
        values.push_back(g.input("to" + std::to_string(i), product.type()) + product);
        break;
      }
      default: values.push_back(ops::mul(a, ops::full_like(a, 0.5))); break;
    }
    if (values.back().type().size() > 20'000) values.pop_back();
  }
  std::vector<Value> outputs;
  for (int i = 0; i < 3; ++i) outputs.push_back(pick());
  return g.build(outputs);
}

}  // namespace

TEST_CASE("random graphs give the same in loops") {
  std::mt19937_64 random(11);
  const CpuExecutor one(CpuOptions{.threads = 1}), two(CpuOptions{.threads = 2});
  ProgramOptions whole;
  whole.block = false;
  std::size_t loops = 0;
  const std::size_t count = scaled(400);
  for (std::size_t repeat = 0; repeat < count; ++repeat) {
    INFO("repeat ", repeat);
    const Graph graph = random_graph(20 + static_cast<std::int64_t>(random() % 40),
                                     2 + static_cast<std::int64_t>(random() % 5), 40, random);
    const Program program = Program::make(graph, forced(std::size_t{512} << random() % 4));
    loops += num_loops(program);
    INFO(to_text(program));
    passes::verify_plan(program.graph(), program.schedule(), program.plan());
    const std::vector<Tensor> inputs = random_inputs(graph, random);
    const auto expected = one.compile(Program::make(graph, whole)).run(inputs);
    const auto got = two.compile(program).run(inputs);
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(expected[k], got[k]) < 1e-11);
    CHECK(same_bits(got, one.compile(program).run(inputs)));
  }
  CHECK(6 * loops > count);
}

}  // namespace loops_cases
