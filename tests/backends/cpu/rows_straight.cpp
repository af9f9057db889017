// Row fusions as straight-line code, with values shared by all rows in registers, if there are enough: bit by
// bit the results of the operations one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/compare.hpp"
#include "cpu/fusion/rows_plan.hpp"
#include "cpu/vector_units.hpp"
#include "support/support.hpp"
#include "tidu/cpu/schedule_passes.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

CpuExecutor straight_executor(VectorUnits units, int threads, bool fuse) {
  CpuOptions options;
  options.vector_units = units;
  options.threads = threads;
  options.program.fuse = fuse;
  return CpuExecutor(options);
}

// `repeated` rows, each used twice, with signs, selections, an inlined function, and values that belong to a
// row.
Graph straight_graph(DType dtype, std::int64_t rows, std::int64_t columns, int repeated) {
  GraphBuilder g("straight");
  const Shape shape{rows, columns};
  Value sum = g.input("x", Type(dtype, shape));
  const Value w = ops::broadcast_in_dim(g.input("w", Type(dtype, {rows})), shape, {0});
  for (int i = 0; i < repeated; ++i) {
    const Value row =
        ops::broadcast_in_dim(g.input("r" + std::to_string(i), Type(dtype, {columns})), shape, {1});
    sum = ops::select_n(ops::lt(sum, row), -(sum * row), ops::max(sum + row, w));
  }
  return g.build({-sum, ops::exp(ops::abs(sum) - w)});
}

}  // namespace

TEST_CASE("[rows] row fusions without reductions") {
  std::mt19937_64 random(21);
  for (const DType dtype : {f64, f32}) {
    for (const std::int64_t columns : {16, 17, 39, 63, 64, 78, 120, 250, 272, 1000}) {
      for (const int repeated : {0, 1, 2, 5}) {
        const Graph graph = straight_graph(dtype, 70, columns, repeated);
        std::vector<Tensor> inputs;
        for (const ValueId id : graph.inputs())
          inputs.push_back(random_tensor(graph.type(id), {-2, 2}, random));
        for (const VectorUnits with : units()) {
          const std::vector<Tensor> expected = straight_executor(with, 1, false).compile(graph).run(inputs);
          for (const int threads : {1, 3}) {
            const std::vector<Tensor> got = straight_executor(with, threads, true).compile(graph).run(inputs);
            for (std::size_t k = 0; k < got.size(); ++k) {
              CHECK_MESSAGE(std::memcmp(got[k].bytes(), expected[k].bytes(), got[k].num_bytes()) == 0, dtype,
                            ", columns ", columns, ", repeated ", repeated, ", output ", k, ", units ",
                            static_cast<int>(with), ", threads ", threads);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("[rows] fusions after a barrier of several values, also if they run one by one") {
  std::mt19937_64 random(22);
  for (const std::int64_t columns : {100, 1030}) {  // no code is made for the latter
    const Type type(f32, {64, columns});
    for (const int read : {0, 1, 2}) {
      GraphBuilder g("behind");
      const Values passed = ops::optimization_barrier(std::vector{g.input("x", type), g.input("w", type)}, 1);
      const Value y = read == 2 ? passed[0] * passed[1] : passed[static_cast<std::size_t>(read)];
      const Value e = ops::exp(y);
      const Graph graph = g.build({ops::reduce_sum(e, {1}), e});
      const std::vector<Tensor> inputs{random_tensor(type, {-2, 2}, random),
                                       random_tensor(type, {-2, 2}, random)};
      for (const VectorUnits with : units()) {
        const std::vector<Tensor> expected = straight_executor(with, 1, false).compile(graph).run(inputs);
        const std::vector<Tensor> got = straight_executor(with, 1, true).compile(graph).run(inputs);
        for (std::size_t k = 0; k < got.size(); ++k) {
          const auto have = got[k].elements<float>(), want = expected[k].elements<float>();
          CHECK(std::equal(have.begin(), have.end(), want.begin(), [](float a, float b) {
            return std::abs(a - b) <= 1e-5F * (std::abs(a) + std::abs(b));
          }));
        }
      }
    }
  }
}

TEST_CASE("[rows] results that go beyond the caches in many runs are written past them, but for carries") {
  GraphBuilder g("step");
  const Type matrix(f64, {64, 64}), row(f64, {64});
  const Value sum = g.input("sum", matrix), u = g.input("u", row), v = g.input("v", row);
  const Value outer =
      ops::mul(ops::broadcast_in_dim(u, {64, 64}, {0}), ops::broadcast_in_dim(v, {64, 64}, {1}));
  const Program program = Program::make(g.build({ops::add(sum, outer)}));
  const std::vector<passes::NodeValues> values =
      passes::node_values(program.graph(), program.schedule(), program.roots(), program.splats());
  REQUIRE(program.schedule().nodes[0].kind == NodeKind::fusion);
  const auto streams = [&](std::int64_t repeats, std::size_t num_carry) {
    return cpu_detail::plan_rows_code(program, 0, values[0], repeats, num_carry).value().streams.size();
  };
  CHECK(streams(1, 0) == 0);
  CHECK(streams(1000, 0) == 1);
  CHECK(streams(1000, 1) == 0);
}
