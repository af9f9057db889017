// Row fusions: softmax, layer norm and random graphs of reductions and repetitions along rows and columns,
// compared with the same operations one by one, bit by bit, and with the reference; rows of all lengths
// around vectors and blocks, with NaN and infinities, with and without generated code, on one thread and on
// two.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/compare.hpp"
#include "support/distance.hpp"
#include "support/support.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/passes.hpp"

using namespace tidu;
using namespace tidu::test;

namespace rows_cases {
namespace {

std::size_t count_row_fusions(const Program& program) {
  std::size_t count = 0;
  for (const ScheduleNode& node : program.schedule().nodes)
    count += node.kind == NodeKind::fusion && node.index != 0 ? 1U : 0U;
  return count;
}

Value along(const Value& x, const Value& like) { return ops::broadcast_in_dim(x, like.shape(), {0}); }
Value down(const Value& x, const Value& like) { return ops::broadcast_in_dim(x, like.shape(), {1}); }

Graph softmax(DType dtype, std::int64_t rows, std::int64_t columns) {
  GraphBuilder g("softmax");
  const Value x = g.input("x", Type(dtype, {rows, columns}));
  const Value e = ops::exp(x - along(ops::reduce_max(x, {1}), x));
  return g.build({e / along(ops::reduce_sum(e, {1}), x)});
}

// With gain and bias, and the gradients for a cotangent.
Graph layer_norm(DType dtype, std::int64_t rows, std::int64_t columns) {
  GraphBuilder g("layer_norm");
  const Value x = g.input("x", Type(dtype, {rows, columns}));
  const Value gain = g.input("gain", Type(dtype, {columns})), bias = g.input("bias", Type(dtype, {columns}));
  const Value mean = ops::reduce_sum(x, {1});
  const Value scale = ops::full_like(mean, 1.0 / static_cast<double>(columns));
  const Value centred = x - along(mean * scale, x);
  const Value variance = ops::reduce_sum(ops::square(centred), {1}) * scale;
  const Value normal = centred * along(ops::rsqrt(variance + ops::full_like(variance, 1e-5)), x);
  return g.build({normal * down(gain, x) + down(bias, x)});
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits_or_nan);
}

CpuOptions with_units(VectorUnits units, int threads) {
  CpuOptions options;
  options.vector_units = units;
  options.threads = threads;
  options.program.block = false;
  return options;
}
constexpr VectorUnits all_units[] = {VectorUnits::automatic, VectorUnits::avx512, VectorUnits::avx2,
                                     VectorUnits::none};

// The same bits as one by one, on any number of threads, twice.
void check_bits(const Graph& graph, const std::vector<Tensor>& inputs, const std::string& what,
                std::span<const VectorUnits> with = all_units) {
  for (const VectorUnits units : with) {
    CpuOptions alone = with_units(units, 1);
    alone.program.fuse = false;
    const auto expected = cpu().with_options(alone).run(graph, std::span<const Tensor>(inputs));
    for (const int threads : {1, 2}) {
      const Executable executable = cpu().with_options(with_units(units, threads)).compile(graph);
      passes::verify_plan(executable.program().graph(), executable.program().schedule(),
                          executable.program().plan());
      const auto got = executable.run(inputs);
      CHECK_MESSAGE(same_bits(got, expected), what, ", units ", static_cast<int>(units), ", threads ",
                    threads, "\n", to_text(executable.program()));
      CHECK(same_bits(got, executable.run(inputs)));
    }
  }
}

std::vector<Tensor> random_inputs(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-2, 2}, random));
  return inputs;
}

void check_reference(const Graph& graph, const std::vector<Tensor>& inputs, double tolerance) {
  const auto expected = reference().run(graph, std::span<const Tensor>(inputs));
  for (const VectorUnits units : all_units) {
    const auto got = cpu().with_options(with_units(units, 2)).run(graph, std::span<const Tensor>(inputs));
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(expected[k], got[k]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("softmax and layer norm are one row fusion, with the reference's values") {
  std::mt19937_64 random(1);
  for (const DType dtype : {f32, f64}) {
    const double tolerance = dtype == f32 ? 2e-5 : 1e-13;
    for (const std::int64_t columns :
         {16, 17, 31, 33, 64, 100, 127, 128, 129, 255, 1000, 1024, 1040, 2048, 3100}) {
      if (shortened() && columns != 33 && columns != 127 && columns != 1000) continue;
      const Graph graphs[] = {softmax(dtype, 70, columns), layer_norm(dtype, 70, columns)};
      for (const Graph& f : graphs) {
        for (const Graph& graph : {f, vjp(f)}) {
          ProgramOptions options;
          options.block = false;
          const Program program = Program::make(graph, options);
          CHECK(count_row_fusions(program) == 1);
          check_reference(graph, random_inputs(graph, random), tolerance);
        }
      }
    }
  }
}

TEST_CASE("row fusions have the bits of their operations one by one") {
  std::mt19937_64 random(2);
  for (int repeat = 0; repeat < (shortened() ? 20 : 60); ++repeat) {
    const DType dtype = repeat % 2 == 0 ? f32 : f64;
    constexpr std::int64_t lengths[] = {16,  17,  23,  32,  33,   48,   63,   64,  65,
                                        127, 128, 130, 200, 1024, 1025, 1100, 2048};
    const std::int64_t columns = lengths[random() % std::size(lengths)];
    const std::int64_t rows = 2 + static_cast<std::int64_t>(random() % (repeat % 7 == 0 ? 700 : 80));
    GraphBuilder g("random");
    const Type matrix(dtype, {rows, columns}), row(dtype, {rows}), column(dtype, {columns});
    std::vector<Value> whole = {g.input("a", matrix), g.input("b", matrix)};
    std::vector<Value> of_row = {g.input("r", row)};
    std::vector<Value> of_column = {g.input("c", column)};
    std::vector<Value> masks;
    std::vector<Value> outputs;
    const Value one = g.input("s", Type(dtype));
    const auto pick = [&](const std::vector<Value>& from) { return from[random() % from.size()]; };
    for (int i = 0; i < 8 + repeat % 17; ++i) {
      const Value a = pick(whole), b = pick(whole), r = pick(of_row), c = pick(of_column);
      switch (random() % 18) {
        case 0: whole.push_back(a + b); break;
        case 1: whole.push_back(a * b); break;
        case 2: whole.push_back(a - along(r, a)); break;
        case 3: whole.push_back(a * down(c, a)); break;
        case 4: of_row.push_back(ops::reduce_sum(a, {1})); break;
        case 5: of_row.push_back(ops::reduce_max(a, {1})); break;
        case 6: of_row.push_back(ops::reduce_min(a, {1})); break;
        case 7: of_row.push_back(r * pick(of_row)); break;
        case 8: of_row.push_back(ops::abs(r) + ops::full_like(r, 0.5)); break;
        case 9: outputs.push_back(ops::reduce_sum(a, {0})); break;
        case 10:
          outputs.push_back(random() % 2 == 0 ? ops::reduce_max(a, {0}) : ops::reduce_min(a, {0}));
          break;
        case 11: masks.push_back(ops::lt(a, b)); break;
        case 12:
          if (!masks.empty()) whole.push_back(ops::select_n(pick(masks), a, b));
          break;
        case 13: whole.push_back(a * ops::broadcast_scalar(one, a.shape())); break;
        case 14: whole.push_back(a / along(ops::abs(r) + ops::full_like(r, 1.0), a)); break;
        case 15: whole.push_back(ops::select_n(ops::lt(along(r, a), a), a, b)); break;
        case 16: whole.push_back(ops::sqrt(ops::abs(a))); break;
        default: whole.push_back(random() % 8 == 0 ? ops::erf_inv(a) : ops::max(a, b)); break;
      }
    }
    for (const std::vector<Value>* from : {&whole, &of_row}) {
      for (int i = 0; i < 2; ++i)
        outputs.push_back(from->at(from->size() - 1 - random() % std::min<std::size_t>(4, from->size())));
    }
    if (!masks.empty()) outputs.push_back(masks.back());
    const Graph graph = g.build(outputs);
    std::vector<Tensor> inputs = random_inputs(graph, random);
    if (repeat % 3 == 0) {  // infinities and NaN
      for (Tensor& input : inputs) {
        for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, -0.0}) {
          const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(input.size()));
          if (dtype == f32) {
            reinterpret_cast<float*>(input.mutable_bytes())[at] = static_cast<float>(value);
          } else {
            reinterpret_cast<double*>(input.mutable_bytes())[at] = value;
          }
        }
      }
    }
    check_bits(graph, inputs, detail::str("repeat ", repeat, ", ", rows, " rows of ", columns));
  }
}

TEST_CASE("short rows that are reduced some at a time have the bits of their operations one by one") {
  std::mt19937_64 random(8);
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t columns : {16, 17, 20, 24, 31, 32, 33, 40, 48, 49, 63, 64}) {
      if (shortened() && columns % 16 > 1) continue;
      const std::int64_t rows = 1024 / columns + 1 + static_cast<std::int64_t>(random() % 17);
      const auto of_rows = [&](const Value& x) {
        return along(ops::reduce_max(x, {1}) * ops::sqrt(ops::abs(ops::reduce_sum(x, {1}))), x);
      };
      GraphBuilder g("mixed");
      const Type matrix(dtype, {rows, columns});
      const Value x = g.input("x", matrix), c = g.input("c", Type(dtype, {columns}));
      const Value y = g.input("y", matrix), r = g.input("r", Type(dtype, {rows}));
      const Value first = x * y - of_rows(x), less = ops::lt(first, along(r, x));
      const Value chosen = ops::select_n(less, first, x) * down(c, x), second = chosen - of_rows(chosen);
      const Value least = ops::reduce_min(second, {1});
      const Graph mixed = g.build({second * ops::sqrt(ops::abs(first)), less, least, least * r,
                                   ops::reduce_sum(second, {0}), ops::reduce_max(chosen, {0})});
      for (const Graph& graph :
           {mixed, vjp(softmax(dtype, rows, columns)), vjp(layer_norm(dtype, rows, columns))}) {
        std::vector<Tensor> inputs = random_inputs(graph, random);
        check_bits(graph, inputs, detail::str(rows, " rows of ", columns));
        const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(inputs[0].size()));
        if (dtype == f32) {
          reinterpret_cast<float*>(inputs[0].mutable_bytes())[at] = std::nanf("");
        } else {
          reinterpret_cast<double*>(inputs[0].mutable_bytes())[at] = std::nan("");
        }
        check_bits(graph, inputs, detail::str(rows, " rows of ", columns, ", one NaN"));
      }
    }
  }
}

TEST_CASE("[rows] several rows share repeated and reduced values of a period") {
  std::mt19937_64 random(5);
  for (const DType dtype : {f32, f64}) {
    for (const auto& [count, rows, columns] : {std::array<std::int64_t, 3>{40, 25, 32},
                                               {3, 33, 17},
                                               {2, 600, 16},
                                               {300, 16, 33},
                                               {700, 16, 40},
                                               {9, 3, 1100},
                                               {5, 32, 160}}) {
      GraphBuilder g("periods");
      const Shape cube{count, rows, columns};
      const Value x = g.input("x", Type(dtype, cube)), centre = g.input("c", Type(dtype, {rows, columns}));
      const Value bias = g.input("b", Type(dtype, {columns})),
                  weight = g.input("w", Type(dtype, {count, rows}));
      const auto over = [&](const Value& small, std::vector<std::int64_t> axes) {
        return ops::broadcast_in_dim(small, cube, std::move(axes));
      };
      // Rows become shorter, and another period joins; the other way round, and with one row for all.
      const Value distance = x - over(centre, {1, 2});
      const Value sum = ops::reduce_sum(ops::square(distance), {2});
      const Value weighted = over(weight * sum, {0, 1}) * distance;
      const Value reduced = ops::reduce_sum(weighted, {0}), most = ops::reduce_max(weighted, {0});
      const Value late = over(ops::exp(weight), {0, 1}) * x;
      const Value transposed = late + over(bias, {2}) * over(reduced, {1, 2});
      const Graph graph =
          g.build({sum, weighted, reduced, most, late, transposed, ops::reduce_sum(transposed, {0, 1})});
      ProgramOptions options;
      options.block = false;
      CHECK(count_row_fusions(Program::make(graph, options)) >= 2);
      check_bits(graph, random_inputs(graph, random), detail::str(count, " by ", rows, " by ", columns));
    }
  }
}

TEST_CASE("[rows] results of row fusions take the buffers of operands that are read element by element") {
  std::mt19937_64 random(7);
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t columns : {16, 17, 20, 24, 28, 32, 40}) {
      enum { plainly, picked, reduced };
      for (const auto way : {plainly, picked, reduced}) {
        GraphBuilder g("places");
        const Value x = g.input("x", Type(dtype, {300, 8})), w = g.input("w", Type(dtype, {8, columns})),
                    v = g.input("v", Type(dtype, {columns, 8})),
                    centre = g.input("c", Type(dtype, {columns}));
        const Value rows = ops::matmul(x, w);
        Value first = rows - down(centre, rows);
        if (way == picked) first = first + ops::take(rows, g.input("i", Type(i32, {300})), 0);
        if (way == reduced) first = first * along(ops::reduce_sum(rows, {1}), rows);
        const Value second = rows * first;  // reads the operand when the first is made
        const Graph graph =
            g.build({ops::matmul(first, v), ops::matmul(second, v), ops::reduce_sum(second, {0})});
        const bool in_place = way == plainly && columns * static_cast<std::int64_t>(size_of(dtype)) % 32 == 0;
        ProgramOptions options;
        options.block = false;
        const Program program = Program::make(graph, options);
        CHECK(count_row_fusions(program) >= 1);
        CHECK_MESSAGE((program.plan().in_place != 0) == in_place, to_text(program));
        check_bits(graph, random_inputs(graph, random), detail::str(columns, " columns, way ", int{way}));
      }
    }
  }
}

TEST_CASE("fusions recompute values that they would read") {
  std::mt19937_64 random(7);
  constexpr std::int64_t rows = 300, columns = 40;
  const Type matrix(f64, {rows, columns});
  GraphBuilder g("again");
  const Value x = g.input("x", matrix), y = g.input("y", matrix),
              w = g.input("w", Type(f64, {columns, columns}));
  const Value b = g.input("b", Type(f64, {columns}));
  const auto times = [&](const Value& a) { return ops::matmul(a, w); };
  // `twice` of x and smaller values; `both` of two arrays; `kept` is an output; `base` is read by a matmul.
  const Value centred = x - down(b, x), twice = centred + centred, both = centred * y;
  const Value kept = ops::neg(centred), base = x + down(b, x), shifted = base + down(b, x);
  const Value product = times(ops::exp(twice + both) + times(base));
  const Value more = times(product * twice + along(ops::reduce_sum(twice * shifted, {1}), x));
  const Value last = ops::tanh(more * twice - product * shifted) + both;
  const Graph graph = g.build({kept, last, ops::reduce_sum(last * twice, {0})});
  ProgramOptions options;
  options.block = false;
  const Program program = Program::make(graph, options);
  std::vector<bool> is_constant = passes::find_constants(program.graph(), options.constant_bytes);
  const Schedule first = passes::fused_schedule(program.graph(), program.splats(), is_constant);
  CHECK(program.schedule().nodes.size() > first.nodes.size());
  check_bits(graph, random_inputs(graph, random), "again");
}

TEST_CASE("of values repeated along rows one element for each row is left to other fusions") {
  std::mt19937_64 random(8);
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t columns : {16, 33, 64, 130}) {
      GraphBuilder g("left");
      const Value x = g.input("x", Type(dtype, {70, columns})),
                  w = g.input("w", Type(dtype, {columns, columns}));
      const Value gain = g.input("gain", Type(dtype, {columns}));
      const Value centred = x - along(ops::reduce_max(x, {1}), x);
      const Value scale = along(ops::rsqrt(ops::reduce_sum(ops::square(centred), {1})), x);
      const Value normal = centred * scale * down(gain, x);
      const Value product = ops::matmul(normal, w);
      const Value last = product * scale + centred * down(gain, x);
      const Graph graph = g.build({ops::exp(last), ops::reduce_sum(last * centred, {0})});
      ProgramOptions options;
      options.block = false;
      const Program program = Program::make(graph, options);
      const auto values =
          passes::node_values(program.graph(), program.schedule(), program.roots(), program.splats());
      std::size_t whole = 0, of_rows = 0;
      for (std::size_t i = 0; i < values.size(); i += program.schedule().nodes[i].size) {
        if (program.schedule().nodes[i].kind != NodeKind::fusion) continue;
        for (const ValueId id : values[i].results) {
          whole += program.graph().type(id).size() == 70 * columns ? 1U : 0U;
          of_rows += program.graph().type(id).size() == 70 ? 1U : 0U;
        }
      }
      CHECK_MESSAGE(whole == 2, to_text(program));  // the operand of the matmul, and the output
      CHECK(of_rows == 2);
      check_bits(graph, random_inputs(graph, random), detail::str(columns, " columns"));
    }
  }
}

TEST_CASE("a fusion leaves one value of which others can make several") {
  std::mt19937_64 random(9);
  for (const DType dtype : {f32, f64}) {
    GraphBuilder g("one");
    const Type matrix(dtype, {70, 64});
    const Value x = g.input("x", matrix), y = g.input("y", matrix), w = g.input("w", Type(dtype, {64, 64}));
    const Value b = g.input("b", Type(dtype, {64}));
    const Value t = ops::tanh(x + down(b, x)), above = t + ops::full_like(t, 1.0);
    const Value below = ops::full_like(t, 1.0) - ops::square(t), half = ops::exp(x) * y;
    const Value first = ops::matmul(above * y, w);
    const Graph graph = g.build({first * above * below + half + ops::neg(half), half});
    ProgramOptions options;
    options.block = false;
    const Program program = Program::make(graph, options);
    const auto values =
        passes::node_values(program.graph(), program.schedule(), program.roots(), program.splats());
    CHECK_MESSAGE(values[0].results.size() == 3, to_text(program));  // for the matmul, tanh, the output
    check_bits(graph, random_inputs(graph, random), "one for several");
  }
}

TEST_CASE("a reduction of all rows may have a barrier without readers as its only reader") {
  std::mt19937_64 random(10);
  for (const std::int64_t columns : {17, 64}) {
    GraphBuilder g("unread");
    const Value x = g.input("x", Type(f64, {100, columns}));
    const Value centred = x - down(g.input("c", Type(f64, {columns})), x);
    const Values both = ops::optimization_barrier(std::vector{ops::reduce_sum(centred, {0}), x}, 1);
    const Graph graph = g.build({ops::exp(centred), ops::tanh(both[1])});
    check_bits(graph, random_inputs(graph, random), detail::str(columns, " columns"));
  }
}

TEST_CASE("reductions of all rows go from row to row, some at a time") {
  std::mt19937_64 random(11);
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 8, 255, 256}) {
    for (const std::int64_t columns : {2, 17, 300}) {
      GraphBuilder g("columns");
      const Value x = g.input("x", Type(f32, {rows, columns}));
      const Graph graph =
          g.build({ops::reduce_sum(x, {0}), ops::reduce_max(x, {0}), ops::reduce_min(x, {0})});
      Tensor input = random_tensor(Type(f32, {rows, columns}), {-2, 2}, random);
      float* const at = input.mutable_data<float>();
      const float odd[] = {std::numeric_limits<float>::quiet_NaN(), -0.0F,
                           std::numeric_limits<float>::infinity()};
      for (std::size_t k = 0; k < 3; ++k) at[random() % static_cast<std::size_t>(rows * columns)] = odd[k];
      std::vector<Tensor> expected(3, Tensor());
      for (std::size_t k = 0; k < 3; ++k) {
        expected[k] = Tensor::zeros(Type(f32, {columns}));
        float* const to = expected[k].mutable_data<float>();
        for (std::int64_t i = 0; i < columns; ++i) {
          to[i] = k == 0 ? at[i] + 0.0F : at[i];
          for (std::int64_t r = 1; r < rows; ++r) {
            const float a = to[i], b = at[r * columns + i];
            to[i] = k == 0 ? a + b : std::isnan(a) || (k == 1 ? a > b : a < b) ? a : b;
          }
        }
      }
      CpuOptions options;
      options.program.fuse = options.program.block = false;
      const auto got = cpu().with_options(options).run(graph, std::vector{input});
      CHECK_MESSAGE(same_bits(got, expected), rows, " rows of ", columns);
    }
  }
}

TEST_CASE("[rows] an operand is of a period in one place and of rows in another") {
  constexpr std::int64_t n = 32;
  std::mt19937_64 random(6);
  GraphBuilder g("both");
  const Value x = g.input("x", Type(f64, {n, n, n})), y = g.input("y", Type(f64, {n, n}));
  const Value both =
      ops::broadcast_in_dim(y, {n, n, n}, {0, 1}) * x + ops::broadcast_in_dim(y, {n, n, n}, {1, 2});
  const Graph graph = g.build({both, ops::reduce_sum(both, {2})});
  check_bits(graph, random_inputs(graph, random), "both");
}

TEST_CASE("rows beyond the caches have the bits of their operations one by one") {
  std::mt19937_64 random(3);
  const Graph graph = vjp(softmax(f32, 4100, 1024));
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  check_bits(graph, inputs, "softmax", std::span(all_units).first(shortened() ? 1 : 4));
  // In blocks as well, of which the last one is shorter.
  const auto expected =
      cpu().with_options(with_units(VectorUnits::automatic, 1)).run(graph, std::span<const Tensor>(inputs));
  for (const int threads : {1, 2}) {
    CpuOptions options = with_units(VectorUnits::automatic, threads);
    options.program.block = true;
    CHECK(cpu().with_options(options).compile(graph).program().schedule().loops.empty());  // one fusion is
                                                                                           // enough
    options.program.loop_bytes = 0;
    const Executable executable = cpu().with_options(options).compile(graph);
    REQUIRE(executable.program().schedule().loops.size() == 1);
    CHECK(executable.program().schedule().loops[0].block > 1);
    CHECK(same_bits(executable.run(inputs), expected));
  }
}

TEST_CASE("which reductions and repetitions go row by row") {
  GraphBuilder g("steps");
  const Value x = g.input("x", Type(f32, {4, 1, 5, 6})), v = g.input("v", Type(f32, {4}));
  const Value c = g.input("c", Type(f32, {6}));
  const Value values[] = {ops::reduce_sum(x, {2, 3}),
                          ops::reduce_max(x, {1, 3}),
                          ops::reduce_sum(x, {0, 1}),
                          ops::reduce_sum(x, {0, 3}),
                          ops::reduce_sum(x, {0, 1, 2, 3}),
                          ops::reduce_sum(x, {1}),
                          ops::broadcast_in_dim(v, {4, 7}, {0}),
                          ops::broadcast_in_dim(c, {2, 5, 6}, {2}),
                          ops::broadcast_in_dim(v, {3, 4, 5}, {1}),
                          ops::broadcast_in_dim(x, {4, 3, 5, 6}, {0, 1, 2, 3}),
                          ops::broadcast_in_dim(x, {4, 2, 1, 3, 5, 6}, {0, 2, 4, 5}),
                          ops::broadcast_in_dim(x, {4, 1, 5, 2, 6}, {0, 1, 2, 4}),
                          ops::broadcast_in_dim(x, {4, 2, 5, 2, 6}, {0, 1, 2, 4}),
                          ops::abs(x)};
  using Kind = passes::RowStep::Kind;
  const passes::RowStep expected[] = {{Kind::reduce_rows, 4, 30},
                                      {Kind::reduce_rows, 20, 6},
                                      {Kind::reduce_columns, 4, 30},
                                      {},
                                      {},
                                      {},
                                      {Kind::along_rows, 4, 7},
                                      {Kind::rows, 10, 6},
                                      {},
                                      {Kind::each_row, 12, 30, 0, 3},
                                      {Kind::each_row, 24, 30, 0, 6},
                                      {Kind::each_row, 40, 6, 0, 2},
                                      {},
                                      {}};
  const Graph graph = g.build(std::span<const Value>(values));
  for (std::size_t i = 0; i < std::size(values); ++i) {
    const passes::RowStep got = passes::row_step(graph, *graph.producer(graph.outputs()[i]));
    CHECK(got.kind == expected[i].kind);
    if (got.kind == Kind::none) continue;
    CHECK(got.rows == expected[i].rows);
    CHECK(got.columns == expected[i].columns);
    CHECK(got.times == expected[i].times);
  }
}

}  // namespace rows_cases
