// rows_bools.cpp - row fusions with bools that are one for each row: made in the fusion, or read from
// elsewhere.
#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace rows_bools_cases {
namespace {

using namespace tidu;
using namespace tidu::test;

constexpr std::int64_t rows = 64, columns = 32;

// One bool for each row selects between two numbers, and is subtracted from the rows. `which`: how the bool
// is computed.
Graph graph_of_bools(DType dtype, int which) {
  GraphBuilder g("bools");
  const Value x = g.input("x", Type(dtype, {rows, columns})), flag = g.input("flag", Type(bool_, {rows})),
              other = g.input("other", Type(bool_, {rows})), a = g.input("a", Type(dtype, {rows})),
              b = g.input("b", Type(dtype, {rows}));
  const Value greatest = ops::reduce_max(x, {1});
  const Value is_large = ops::gt(greatest, ops::full_like(greatest, 1.0));
  const auto across = [&](const Value& v) { return ops::broadcast_in_dim(v, {rows, columns}, {0}); };
  Value chosen = flag;
  switch (which) {
    case 0: chosen = ops::ne(is_large, flag); break;
    case 1: chosen = ops::eq(flag, is_large); break;
    case 2: chosen = ops::select_n(is_large, flag, other); break;
    case 3: chosen = ops::logical_and(flag, is_large); break;
    case 4: chosen = ops::logical_not(ops::logical_or(is_large, flag)); break;
    case 5: {
      const Value number = ops::convert_element_type(ops::select_n(is_large, flag, other), dtype);
      return g.build({ops::sub(x, across(ops::add(number, greatest)))});
    }
    default: {
      const Value less = ops::sub(x, across(greatest));
      return g.build({ops::select_n(across(flag), less, x), ops::select_n(across(is_large), x, less)});
    }
  }
  return g.build({ops::sub(x, across(ops::select_n(chosen, a, b)))});
}

}  // namespace

TEST_CASE("bools that are one for each row, within row fusions and from elsewhere") {
  std::mt19937_64 random(3);
  for (const DType dtype : {f32, f64}) {
    for (int which = 0; which < 7; ++which) {
      const Graph graph = graph_of_bools(dtype, which);
      std::vector<Tensor> inputs;
      for (const ValueId id : graph.inputs())
        inputs.push_back(random_tensor(graph.type(id), {-2, 2}, random));
      const std::vector<Tensor> expected = reference().run(graph, inputs);
      for (const VectorUnits units : {VectorUnits::none, VectorUnits::avx2, VectorUnits::avx512}) {
        CpuOptions options;
        options.vector_units = units;
        options.threads = 1;
        const std::vector<Tensor> got = cpu().with_options(options).run(graph, inputs);
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK_MESSAGE(difference(got[i], expected[i]) == "", which, " ", dtype);
      }
    }
  }
}

// Extrema of bools within a row fusion, of each row and of each column.
TEST_CASE("reductions of bools beside reductions of numbers") {
  std::mt19937_64 random(4);
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t axis : {0, 1}) {
      GraphBuilder g("folds");
      const Value x = g.input("x", Type(dtype, {rows, columns}));
      const Value greatest = ops::reduce_max(x, {1});
      const Value less = ops::sub(x, ops::broadcast_in_dim(greatest, {rows, columns}, {0}));
      const Value small = ops::lt(less, ops::full_like(less, -0.5));
      const Graph graph = g.build({ops::reduce_sum(less, {axis}), ops::reduce_max(small, {axis}),
                                   ops::reduce_min(small, {axis}), ops::argmin(small, axis)});
      const std::vector<Tensor> inputs{random_tensor(graph.type(graph.inputs()[0]), {-0.3, 0.3}, random)};
      const std::vector<Tensor> expected = reference().run(graph, inputs);
      for (const VectorUnits units : {VectorUnits::none, VectorUnits::avx2, VectorUnits::avx512}) {
        CpuOptions options;
        options.vector_units = units;
        const std::vector<Tensor> got = cpu().with_options(options).run(graph, inputs);
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK_MESSAGE(difference(got[i], expected[i]) == "", axis, " ", dtype);
      }
    }
  }
}

}  // namespace rows_bools_cases
