// Row fusions with repeated rows, read without copying them: bit by bit the results of repeating first, with
// and without generated code, on one thread and on two.
#include <cstring>

#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/linearize/transforms.hpp"

using namespace tidu;
using namespace tidu::test;

namespace rows_repeated_cases {
namespace {

struct Case {
  std::string what;
  Graph graph;
};

Value repeated(Value x, Shape shape, const Ints& axes) {
  return ops::broadcast_in_dim(x, std::move(shape), axes);
}

// Arrays [7, 5, rows, columns]: the axes of each array.
std::vector<Case> cases(DType dtype, std::int64_t rows, std::int64_t columns) {
  const Shape shape{7, 5, rows, columns};
  std::vector<Case> all;
  const auto add = [&](std::string what, const Ints& axes, const auto& f) {
    GraphBuilder g(what);
    Shape own;
    for (const std::int64_t axis : axes) own.push_back(shape[static_cast<std::size_t>(axis)]);
    const Value x = g.input("x", Type(dtype, shape)), y = g.input("y", Type(dtype, own));
    all.push_back({what, g.build(f(x, repeated(y, shape, axes)))});
  };
  const auto softmax = [&](Value scores) {
    const Value shifted = scores - repeated(ops::reduce_max(scores, {3}), shape, {0, 1, 2});
    const Value e = ops::exp(shifted);
    return e / repeated(ops::reduce_sum(e, {3}), shape, {0, 1, 2});
  };
  const auto sums = [&](Value x, Value y) {
    const Value z = ops::sin(x - y) * y;
    return Values{z, ops::reduce_sum(z, {0, 1, 2})};
  };
  for (const Ints& axes : {Ints{0, 3}, Ints{0, 1, 3}, Ints{0, 2, 3}}) {
    const std::string name =
        " of " + std::to_string(axes.size()) + " axes, second " + std::to_string(axes[1]);
    add("difference" + name, axes, [](Value x, Value y) { return Values{x - y}; });
    add("softmax" + name, axes, [&](Value x, Value y) { return Values{softmax(x + y)}; });
    add("sums" + name, axes, sums);
    add("along rows, too" + name, axes, [&](Value x, Value y) {
      const Value z = x * y;
      return Values{z * repeated(ops::reduce_sum(z, {3}), shape, {0, 1, 2}), ops::reduce_max(z, {3})};
    });
  }
  return all;
}

CpuOptions with(VectorUnits units, int threads) {
  CpuOptions options;
  options.vector_units = units;
  options.threads = threads;
  options.program.block = false;  // sums of blocks have another order
  return options;
}

std::size_t repetitions_alone(const Program& program) {
  std::size_t alone = 0;
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  for (std::size_t k = 0; k < nodes.size(); k += nodes[k].size) {
    if (nodes[k].kind == NodeKind::operation)
      alone += program.graph().operation(nodes[k].index).name() == "broadcast_in_dim" ? 1U : 0U;
  }
  return alone;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0;
}

std::vector<Tensor> inputs_of(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-2, 2}, random));
  return inputs;
}

}  // namespace

TEST_CASE("row fusions read repeated rows") {
  std::mt19937_64 random(21);
  for (const DType dtype : {f64, f32}) {
    for (const auto& matrix : {std::pair{3, 16}, {4, 19}, {2, 64}, {9, 136}, {1, 700}}) {
      const int rows = matrix.first, columns = matrix.second;
      for (const Case& one : cases(dtype, rows, columns)) {
        const std::vector<Tensor> inputs = inputs_of(one.graph, random);
        for (const VectorUnits units :
             {VectorUnits::automatic, VectorUnits::avx512, VectorUnits::avx2, VectorUnits::none}) {
          CpuOptions one_by_one = with(units, 1);
          one_by_one.program.fuse = false;
          const auto expected = cpu().with_options(one_by_one).run(one.graph, inputs);
          for (const int threads : {1, 2}) {
            const Executable executable = cpu().with_options(with(units, threads)).compile(one.graph);
            CHECK_MESSAGE(repetitions_alone(executable.program()) == 0, to_text(executable.program()));
            passes::verify_plan(executable.program().graph(), executable.program().schedule(),
                                executable.program().plan());
            const auto got = executable.run(inputs);
            for (std::size_t k = 0; k < got.size(); ++k) {
              CHECK_MESSAGE(same_bits(got[k], expected[k]), one.what, ", ", dtype, ", ", rows, " rows of ",
                            columns, ", output ", k, ", units ", static_cast<int>(units), ", threads ",
                            threads);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("derivatives of repeated rows are those of the reference") {
  std::mt19937_64 random(22);
  for (const Case& one : cases(f64, 4, 40)) {
    const Graph gradient = vjp(one.graph);
    for (const std::string& text : differences(gradient, inputs_of(gradient, random), cpu()))
      CHECK_MESSAGE(false, one.what, ": ", text);
  }
}

TEST_CASE("pairwise differences in blocks repeat rows within a block") {
  GraphBuilder g("distances");
  const Shape all{3000, 20, 32};
  const Value x = g.input("x", Type(f64, {3000, 32})), y = g.input("y", Type(f64, {20, 32}));
  const Value apart = ops::square(repeated(x, all, {0, 2}) - repeated(y, all, {1, 2}));
  const Value nearest = ops::reduce_min(ops::reduce_sum(apart, {2}), {1});
  const Graph graph = g.build({ops::reduce_sum(nearest, {0})});
  std::mt19937_64 random(23);
  const std::vector<Tensor> inputs = inputs_of(graph, random);
  const Graph gradient = value_and_grad(graph);
  CHECK(repetitions_alone(cpu().compile(graph).program()) == 0);
  // Neither the differences nor the repeated rows exist: 15 MB each.
  CHECK(Program::make(graph).peak_bytes() < 4'000'000);
  for (const std::string& text : differences(gradient, inputs, cpu())) CHECK_MESSAGE(false, text);
}

}  // namespace rows_repeated_cases
