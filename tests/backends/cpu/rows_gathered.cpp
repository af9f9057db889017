// Row fusions that gather rows by indices without copying them: bit by bit the results of gathering first,
// with indices in and out of range, with and without generated code, on one thread and on two.
#include <cstring>
#include <limits>

#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/error.hpp"

using namespace tidu;
using namespace tidu::test;

namespace rows_gathered_cases {
namespace {

constexpr std::int64_t count = 90;

template <class I>
Tensor indices_of(std::int64_t extent, std::mt19937_64& random) {
  Tensor indices(Type(sizeof(I) == 4 ? i32 : i64, {count}));
  auto* at = reinterpret_cast<I*>(indices.mutable_bytes());
  for (std::int64_t i = 0; i < count; ++i)
    at[i] = static_cast<I>(random() % static_cast<std::uint64_t>(extent));
  at[3] = -1;
  at[8] = static_cast<I>(extent);
  at[15] = std::numeric_limits<I>::min();
  at[16] = std::numeric_limits<I>::max();
  return indices;
}

// Rows of two arrays, one of them twice, weighted; reductions of both kinds; a function that is called.
Graph weighted(DType dtype, DType index, std::int64_t columns, const std::string& mode = "clip") {
  GraphBuilder g("picked");
  const Value x = g.input("x", Type(dtype, {30, columns})), y = g.input("y", Type(dtype, {1, 200, columns}));
  const Value i = g.input("i", Type(index, {count})), j = g.input("j", Type(index, {count})),
              w = g.input("w", Type(dtype, {count}));
  const Shape shape{count, columns};
  const auto along = [&](Value v) { return ops::broadcast_in_dim(v, shape, {0}); };
  const Value a = ops::take(x, i, 0, mode), b = ops::take(x, j, 0, mode),
              c = ops::reshape(ops::take(y, j, 1, mode), shape);
  const Value sum = a * along(w) - b * c, reduction = ops::reduce_sum(sum, {1});
  return g.build({sum + ops::sin(c) * along(reduction), reduction, ops::reduce_max(sum * b, {0})});
}

CpuOptions with(VectorUnits units, int threads) {
  CpuOptions options;
  options.vector_units = units;
  options.threads = threads;
  return options;
}

std::size_t operations_alone(const Program& program) {
  std::size_t alone = 0;
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  for (std::size_t k = 0; k < nodes.size(); k += nodes[k].size)
    alone += nodes[k].kind == NodeKind::operation ? 1U : 0U;
  return alone;
}

}  // namespace

TEST_CASE("row fusions gather rows by indices") {
  std::mt19937_64 random(11);
  for (const DType dtype : {f64, f32}) {
    for (const DType index : {i32, i64}) {
      for (const std::int64_t columns : {16, 19, 78, 136}) {
        const Graph graph = weighted(dtype, index, columns);
        std::vector<Tensor> inputs;
        for (const ValueId id : graph.inputs()) {
          const Type type = graph.type(id);
          const std::int64_t extent = inputs.size() == 2 ? 30 : 200;
          inputs.push_back(type.dtype() == i32   ? indices_of<std::int32_t>(extent, random)
                           : type.dtype() == i64 ? indices_of<std::int64_t>(extent, random)
                                                 : random_tensor(type, {-2, 2}, random));
        }
        for (const VectorUnits units :
             {VectorUnits::automatic, VectorUnits::avx512, VectorUnits::avx2, VectorUnits::none}) {
          CpuOptions one_by_one = with(units, 1);
          one_by_one.program.fuse = false;
          const auto expected = cpu().with_options(one_by_one).run(graph, std::span<const Tensor>(inputs));
          for (const int threads : {1, 2}) {
            const Executable executable = cpu().with_options(with(units, threads)).compile(graph);
            CHECK_MESSAGE(operations_alone(executable.program()) == 0, to_text(executable.program()));
            passes::verify_plan(executable.program().graph(), executable.program().schedule(),
                                executable.program().plan());
            const auto got = executable.run(inputs);
            for (std::size_t k = 0; k < got.size(); ++k) {
              CHECK_MESSAGE(std::memcmp(got[k].bytes(), expected[k].bytes(), got[k].type().bytes()) == 0,
                            graph.type(graph.inputs()[0]), " by ", index, ", output ", k, ", units ",
                            static_cast<int>(units), ", threads ", threads);
            }
          }
        }
      }
    }
  }
}

TEST_CASE(
    "rows are taken by themselves where indices are checked or read zeros, and where no fusion needs them") {
  std::mt19937_64 random(12);
  const Graph dropped = weighted(f64, i32, 20, "drop");
  CHECK(operations_alone(Program::make(dropped)) == 3);

  const Graph graph = weighted(f64, i32, 20);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const bool index = graph.type(id).dtype() == i32;
    inputs.push_back(index ? indices_of<std::int32_t>(30, random)
                           : random_tensor(graph.type(id), {-2, 2}, random));
  }
  CpuOptions checked = with(VectorUnits::automatic, 1);
  checked.check_indices = true;
  CHECK_THROWS_WITH_AS(cpu().with_options(checked).run(graph, std::span<const Tensor>(inputs)),
                       doctest::Contains("expected indices in [0, 30), got -1"), Error);

  GraphBuilder g("alone");
  const Value x = g.input("x", Type(f64, {30, 80})), i = g.input("i", Type(i32, {count})),
              j = g.input("j", Type(i32, {count})), w = g.input("w", Type(f64, {80, 20}));
  const Value a = ops::take(x, i, 0), b = ops::take(x, j, 0);
  const Graph products = g.build({ops::matmul(a, w), ops::matmul(b, w)});
  ProgramOptions options;
  options.block = false;
  const Program program = Program::make(products, options);
  CHECK_MESSAGE(operations_alone(program) == program.schedule().nodes.size(), to_text(program));
}

TEST_CASE("operands of gathered rows are not recomputed in the fusion that gathers them") {
  GraphBuilder g("scaled");
  const Value x = g.input("x", Type(f64, {37, 130})), i = g.input("i", Type(i32, {16}));
  const Value scaled = x * ops::broadcast_in_dim(ops::logsumexp(x, {1}), {37, 130}, {0});
  const Value some = ops::take(scaled, i, 0);
  const Graph graph = g.build({ops::reduce_sum(ops::mul(some, ops::full_like(some, 0.125)), {0, 1})});
  std::mt19937_64 random(13);
  const std::vector<Tensor> inputs{random_tensor(graph.type(graph.inputs()[0]), {-2, 2}, random),
                                   Tensor::from<std::int32_t>({16}, std::vector<std::int32_t>(16, 7))};
  const Tensor expected = reference().run(graph, std::span<const Tensor>(inputs))[0];
  const Tensor got = cpu().run(graph, std::span<const Tensor>(inputs))[0];
  CHECK(got.at(0).real() == doctest::Approx(expected.at(0).real()).epsilon(1e-12));
}

TEST_CASE("comparisons of integers are no choice of rows") {
  GraphBuilder g("signs");
  const Value a = g.input("a", Type(i32, {80})), b = g.input("b", Type(i32, {80}));
  const Value zero = ops::broadcast_in_dim(g.input("zero", Type(i32, {})), {80}, {});
  const Graph graph = g.build({ops::lt(a, zero), ops::lt(b, zero)});
  std::mt19937_64 random(14);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-9, 9}, random));
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
  const std::vector<Tensor> got = cpu().run(graph, std::span<const Tensor>(inputs));
  for (std::size_t k = 0; k < got.size(); ++k)
    CHECK(std::memcmp(got[k].bytes(), expected[k].bytes(), got[k].num_bytes()) == 0);
}

TEST_CASE("which choices go row by row") {
  GraphBuilder g("steps");
  const Value x = g.input("x", Type(f32, {1, 7, 5, 6})), i = g.input("i", Type(i32, {2, 3}));
  const Value values[] = {ops::take(x, i, 1), ops::take(x, i, 2), ops::take(x, i, 1, "drop"),
                          ops::take(x, i, 0)};
  using Kind = passes::RowStep::Kind;
  const passes::RowStep expected[] = {{Kind::gathered, 6, 30, 7}, {}, {}, {Kind::gathered, 6, 210, 1}};
  const Graph graph = g.build(std::span<const Value>(values));
  for (std::size_t k = 0; k < std::size(values); ++k) {
    const passes::RowStep got = passes::row_step(graph, *graph.producer(graph.outputs()[k]));
    CHECK(got.kind == expected[k].kind);
    CHECK(got.rows == expected[k].rows);
    CHECK(got.columns == expected[k].columns);
    CHECK(got.picked_of == expected[k].picked_of);
  }
}

TEST_CASE("no loop is made for arrays that a fusion keeps in registers") {
  constexpr std::int64_t points = 800, directions = 64;
  const Shape shape{points, directions, 3};
  GraphBuilder g("weighted");
  const Value x = g.input("x", Type(f64, {544, directions, 3}));
  Value sum = ops::full(g, Type(f64, shape), 0.0);
  for (int corner = 0; corner < 3; ++corner) {
    const Value weight = g.input(detail::str("w", corner), Type(f64, {points}));
    const Value rows = ops::take(x, g.input(detail::str("i", corner), Type(i32, {points})), 0);
    sum = sum - ops::broadcast_in_dim(weight, shape, {0}) * rows;
  }
  const Program program = Program::make(g.build({ops::transpose(sum, {1, 0, 2})}));
  CHECK_MESSAGE(program.schedule().loops.empty(), to_text(program));
  CHECK(operations_alone(program) == 1);
}

}  // namespace rows_gathered_cases
