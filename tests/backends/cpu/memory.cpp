// The memory of a run beyond the prediction: columns and matmuls that are never stored, loops whose blocks
// are parts of results, inner programs; and buffers planned for the readers of a value and for when they end.
#include <array>

#include "cpu/compare.hpp"
#include "cpu/compiled.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "cpu/kernel_table.hpp"
#include "support/support.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

struct Usage {
  double by_program, by_executable, used;
};
Usage use_memory(const Graph& graph, std::mt19937_64& random, int threads, const ProgramOptions& how = {}) {
  const Program program = Program::make(graph, how);
  const cpu_detail::KernelTable kernels;
  const auto arena = std::make_shared<cpu_detail::Arena>(std::size_t{1} << 30);
  cpu_detail::CompileOptions options;
  options.threads = threads;
  options.vector_jit = cpu_detail::VectorJit::get(VectorUnits::automatic);
  const cpu_detail::Compiled compiled(program, options, kernels, arena);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  std::size_t outputs = 0;  // the small ones, which are not from there
  for (const Tensor& result : compiled.run(inputs)) {
    if (result.num_bytes() < std::size_t{1} << 16) outputs += result.num_bytes();
  }
  return {static_cast<double>(program.peak_bytes()), static_cast<double>(compiled.peak_bytes()),
          static_cast<double>(arena->max_used() + outputs)};
}

// Columns of rows that are taken, computed with and brought to rows.
Graph observations(std::int64_t n) {
  GraphBuilder g("observations");
  const Value rows = g.input("rows", {f64, {50, 11}}), at = g.input("at", {i32, {n}});
  const Value taken = ops::take(rows, at, 0);
  std::vector<Value> columns, results;
  for (std::int64_t k = 0; k < 11; ++k)
    columns.push_back(ops::reshape(ops::slice(taken, {0, k}, {n, k + 1}, {1, 1}), {n}));
  for (std::size_t k = 0; k < 30; ++k) {
    const Value& x = columns[columns.size() - 1 - k % 11];
    columns.push_back(ops::sin(ops::add(ops::mul(x, columns[k % 11]), columns[(3 * k + 1) % 11])));
    results.push_back(ops::reshape(columns.back(), {n, 1}));
  }
  return g.build({ops::concatenate(results, 1)});
}

// x - 0.1 a' b, and the values between the matmul and that.
Graph step(std::int64_t n) {
  GraphBuilder g("step");
  const Value x = g.input("x", {f32, {n, n}}), a = g.input("a", {f32, {40, n}}),
              b = g.input("b", {f32, {40, n}});
  const Value moved = ops::tanh(a);
  const Value product = ops::dot_general(moved, ops::exp(b), {{0}, {0}, {}, {}});
  return g.build({ops::sub(x, ops::mul(ops::full(g, product.type(), 0.1), product))});
}

}  // namespace

TEST_CASE(
    "[memory] columns that are in no memory are not counted, nor parts of results that blocks write where "
    "they are") {
  if (cpu_detail::VectorJit::get(VectorUnits::automatic) == nullptr) {
    MESSAGE("skipped: no code is generated for this processor");
    return;
  }
  std::mt19937_64 random(5);
  for (const int threads : {1, 2}) {
    // Outputs of almost 8 and 24 MiB, which have pages of 2 MiB.
    for (const std::int64_t n : {34952, 104856}) {
      const Usage usage = use_memory(observations(n), random, threads);
      CHECK(usage.used < 1.002 * usage.by_executable);
      CHECK(usage.used > 0.998 * usage.by_executable);
      CHECK(usage.used > 0.9 * usage.by_program);
    }
  }
}

TEST_CASE("[memory] a matmul that an update takes has no place") {
  std::mt19937_64 random(6);
  ProgramOptions whole;
  whole.block = false;
  for (const int threads : {1, 2}) {
    const Usage usage = use_memory(step(700), random, threads, whole);
    const double product = 4 * 700 * 700;
    CHECK(usage.by_program > 2 * product);
    CHECK(usage.by_executable < 1.3 * product);
    CHECK(usage.used < 1.01 * usage.by_executable);
  }
}

TEST_CASE("[memory] a value that an epilogue reads twice is freed once") {
  std::mt19937_64 random(7);
  GraphBuilder g("twice");
  const Type type(f32, {136, 136});
  const Value x = g.input("x", type), y = g.input("y", type);
  const auto dot = [](Value a, Value b) { return ops::dot_general(a, b, {{1}, {0}, {}, {}}); };
  const Value b = ops::tanh(x), a = dot(b, y), c = dot(b, a);
  const Value u = ops::sub(y, ops::mul(ops::full(g, type, 0.01), dot(a, a)));  // the last that reads a
  const Value p = dot(u, c), q = dot(p, c), r = dot(q, p), v = dot(r, q);
  const Graph graph = g.build({dot(dot(v, r), dot(q, p)), u});
  const std::vector<Tensor> inputs{random_tensor(type, {-0.1, 0.1}, random),
                                   random_tensor(type, {-0.1, 0.1}, random)};
  CpuOptions alone{.threads = 1}, together{.threads = 1};
  alone.program.fuse = alone.program.block = together.program.block = false;
  const std::vector<Tensor> expected = CpuExecutor(alone).run(graph, std::span<const Tensor>(inputs)),
                            got = CpuExecutor(together).run(graph, std::span<const Tensor>(inputs));
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(std::memcmp(got[i].bytes(), expected[i].bytes(), got[i].num_bytes()) == 0);
}

TEST_CASE("[memory] small slices that are concatenated do not keep their operand") {
  std::mt19937_64 random(8);
  GraphBuilder g("slices");
  const Type type(f32, {256, 256});
  const Value w = g.input("w", type);
  Value h = w;
  std::vector<Value> rows;
  for (int k = 0; k < 16; ++k) {
    h = ops::tanh(ops::dot_general(h, ops::add(w, h), {{1}, {0}, {}, {}}));
    rows.push_back(ops::slice(h, {0, 0}, {1, 256}));
  }
  const Usage usage = use_memory(g.build({ops::concatenate(rows, 0)}), random, 1);
  CHECK(usage.by_executable < 1.5 * usage.by_program);
  CHECK(usage.used < 1.5 * usage.by_program);
}

TEST_CASE("[memory] constants of inner programs are counted") {
  std::mt19937_64 random(9);
  const Type type(f16, {160, 160});
  // In f16 no fusion uses one element for all.
  const auto branch = [&](double by) {
    GraphBuilder b("branch");
    return b.build({ops::cumsum(ops::mul(b.input("h", type), ops::full(b, type, by)), 0)});
  };
  GraphBuilder g("many");
  Value x = g.input("x", type);
  const Value which = g.input("which", {i32, {}});
  for (int k = 0; k < 3; ++k) {
    const std::vector<Graph> branches{branch(0.5 + k), branch(0.25 + k), branch(0.125 + k)};
    x = ops::rev(ops::cond(which, branches, std::vector{x})[0], {k % 2});
  }
  const Graph graph = g.build({x});
  for (const int threads : {1, 2}) {
    const Usage usage = use_memory(graph, random, threads);
    CHECK(usage.used < 1.15 * usage.by_executable);  // a block may be larger than requested
    CHECK(usage.used > 0.95 * usage.by_executable);
  }
}

TEST_CASE("[memory] blocks end with the page in which they are full") {
  cpu_detail::Arena arena(0);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, (std::size_t{4} << 20) + 1}) {
    const cpu_detail::Arena::Block block = arena.acquire(bytes);
    CHECK(block.bytes == (bytes + 4095) / 4096 * 4096);
    arena.release(block);
  }
}
