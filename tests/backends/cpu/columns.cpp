// Columns that a fusion gathers, and concatenates of columns as a fusion's last step, bit for bit compared
// with the operations one by one: sizes around blocks and vectors, outputs past the caches, in loops over
// blocks, random graphs; where a fusion must not gather; and rows made of columns by themselves.
#include <numeric>

#include "cpu/compare.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "cpu/kernels/interleave.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/cpu/schedule_passes.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace {

std::vector<Tensor> random_inputs(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  return inputs;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (std::memcmp(a[k].bytes(), b[k].bytes(), a[k].num_bytes()) != 0) return false;
  }
  return a.size() == b.size();
}

// The columns that fusions of the program gather, and the fusions that end with a concatenate.
struct Found {
  std::size_t gathered = 0, concatenates = 0, done = 0;
};
Found find_columns(const Program& program) {
  const KernelTable kernels;
  CompileOptions options;
  options.vector_jit = VectorJit::get(VectorUnits::automatic);
  const CallSite call_site;
  OperationPlans plans(program, options, kernels, std::make_shared<Arena>(0), call_site);
  StepGraph steps(program, plans, options, call_site, false, 0);
  Found found;
  if (!steps.has_composites()) return found;
  steps.make_steps();
  gather_prologues(steps);
  for (const Step& step : steps.steps()) {
    found.done += step.absorbed ? 1 : 0;
    if (!step.around_fusion) continue;
    found.gathered += step.around_fusion->columns.gathered.size();
    if (step.around_fusion->columns.result != no_index) ++found.concatenates;
  }
  return found;
}
std::size_t num_columns(const Program& program) { return find_columns(program).concatenates; }

// What is found where code for vectors can be generated; without it, fusions leave columns to others.
std::size_t with_code(std::size_t count) {
  return VectorJit::get(VectorUnits::automatic) == nullptr ? 0 : count;
}

// With and without generated code, on one thread and two, against the operations one by one.
void check_same(const Graph& graph, const ProgramOptions& options, std::mt19937_64& random) {
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  CpuOptions alone{.threads = 1};
  alone.program.fuse = alone.program.block = false;
  const std::vector<Tensor> expected = CpuExecutor(alone).run(graph, std::span<const Tensor>(inputs));
  for (const VectorUnits units : {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none}) {
    for (const int threads : {1, 2}) {
      CpuOptions fused{.threads = threads};
      fused.vector_units = units;
      fused.program = options;
      const Executable compiled = CpuExecutor(fused).compile(graph);
      const std::vector<Tensor> got = compiled.run(inputs);
      CHECK_MESSAGE(same_bits(got, expected), "units ", static_cast<int>(units), ", threads ", threads);
      CHECK(same_bits(got, compiled.run(inputs)));
    }
  }
}

// Sums, products and quotients of four inputs, and one or two of the inputs and a constant, side by side.
Graph columns_of(DType dtype, std::int64_t rows, std::int64_t columns) {
  GraphBuilder g("columns");
  std::vector<Value> x, parts;
  for (int k = 0; k < 4; ++k) x.push_back(g.input(detail::str('x', k), {dtype, {rows}}));
  for (std::int64_t k = 0; k + 2 < columns; ++k) {
    const Value &a = x[static_cast<std::size_t>(k % 4)],
                &b = x[static_cast<std::size_t>((k + 1 + k / 4) % 4)];
    const Value y = k % 3 == 0 ? ops::add(a, b) : k % 3 == 1 ? ops::mul(a, b) : ops::div(a, b);
    x.push_back(y);
    parts.push_back(ops::reshape(y, {rows, 1}));
  }
  parts.insert(parts.begin() + 1, ops::reshape(x[0], {rows, 1}));
  // A large constant is made by a step of its own, in front of the concatenate.
  parts.push_back(rows < 8000 ? ops::full(g, {dtype, {rows, 1}}, 2.5) : ops::reshape(x[1], {rows, 1}));
  return g.build({ops::concatenate(parts, 1)});
}

// Readers of columns of rows that are gathered from two arrays, from one of them transposed, and from a
// third.
struct Gathers {
  DType dtype = f64, index = i32;
  std::int64_t rows = 100, extent = 10, width = 5;
  bool transposed = false;
  std::string mode = "clip";
  int outputs = 3;
};
Graph gathers_of(const Gathers& c) {
  GraphBuilder g("gathers");
  const Value a =
      g.input("a", c.transposed ? Type(c.dtype, {c.width, c.extent}) : Type(c.dtype, {c.extent, c.width}));
  const Value b = g.input("b", {c.dtype, {c.extent + 3, 3}});
  const Value seen = g.input("seen", {c.dtype, {c.rows, 2}});
  const Value i = g.input("i", {c.index, {c.rows}}), j = g.input("j", {c.index, {c.rows}});
  std::vector<Value> columns;
  const auto add_columns = [&](Value rows) {
    for (std::int64_t k = rows.type().dim(1); k-- > 0;)
      columns.push_back(ops::reshape(ops::slice(rows, {0, k}, {c.rows, k + 1}), {c.rows}));
  };
  if (c.transposed) {
    const Value lines = ops::take(a, i, 1, c.mode);
    for (std::int64_t k = 0; k < c.width; ++k)
      columns.push_back(ops::reshape(ops::slice(lines, {k, 0}, {k + 1, c.rows}), {c.rows}));
  } else {
    add_columns(ops::take(a, i, 0, c.mode));
  }
  add_columns(ops::take(b, j, 0, c.mode));
  add_columns(seen);
  Value sum = columns[0];
  std::vector<Value> values;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const Value& column : columns) {
      sum = ops::add(ops::mul(sum, column), columns[static_cast<std::size_t>(repeat)]);
      values.push_back(sum);
    }
  }
  std::vector<Value> outputs(values.end() - c.outputs, values.end()), parts;
  for (const Value& value : values) parts.push_back(ops::reshape(value, {c.rows, 1}));
  outputs.push_back(ops::concatenate(parts, 1));
  return g.build(outputs);
}

template <class Word>
void check_interleave(std::mt19937_64& random) {
  for (const int each : {1, 2, 3, 4, 5, 7, 8, 9, 16, 30, 31, 200, 300}) {
    const auto columns = static_cast<std::size_t>(each);
    for (const std::int64_t count : {1, 2, 3, 4, 7, 8, 31, 32, 33, 64, 65, 71, 130}) {
      std::vector<std::vector<Word>> values(columns, std::vector<Word>(static_cast<std::size_t>(count)));
      std::vector<const Word*> pointers;
      for (std::vector<Word>& column : values) {
        std::generate(column.begin(), column.end(), [&] { return static_cast<Word>(random()); });
        pointers.push_back(column.data());
      }
      const std::size_t ahead = random() % 9, size = columns * static_cast<std::size_t>(count);
      std::vector<Word> rows(ahead + size + 1, Word{7}), copy = rows;
      interleave_rows<Word>(pointers, count, rows.data() + ahead);
      bool right = rows.back() == 7 && std::all_of(rows.begin(), rows.begin() + static_cast<long>(ahead),
                                                   [](Word word) { return word == 7; });
      for (std::size_t at = 0; at < size; ++at)
        right = right && rows[ahead + at] == values[at % columns][at / columns];
      CHECK_MESSAGE(right, columns, " columns of ", count);
      copy_past_caches(reinterpret_cast<const std::byte*>(rows.data() + ahead),
                       reinterpret_cast<std::byte*>(copy.data() + ahead), size * sizeof(Word));
      finish_past_caches();
      CHECK(copy == rows);
    }
  }
}

}  // namespace

TEST_CASE("[columns] columns are brought to rows") {
  std::mt19937_64 random(2);
  check_interleave<std::uint32_t>(random);
  check_interleave<std::uint64_t>(random);
}

TEST_CASE("[columns] a fusion brings its values side by side") {
  std::mt19937_64 random(3);
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t rows : {65, 127, 500, 1025, 4099, 20001}) {
      for (const std::int64_t columns : {7, 9, 30, 47}) {
        if (rows > 20000 && columns % 10 != 7) continue;  // kernels that are slow alone
        INFO(columns, " columns of ", rows);
        const Graph graph = columns_of(dtype, rows, columns);
        ProgramOptions whole;
        whole.block = false;
        CHECK(num_columns(Program::make(graph, whole)) == with_code(1));
        check_same(graph, whole, random);
      }
    }
  }
}

TEST_CASE("[columns] rows of large outputs go past the caches") {
  std::mt19937_64 random(4);
  const std::size_t large = std::size_t{5} << 20;
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t columns : {7, 31}) {
      const auto rows = static_cast<std::int64_t>(large / size_of(dtype)) / columns + 3;
      const Graph graph = columns_of(dtype, rows, columns);
      ProgramOptions options;
      check_same(graph, options, random);
      options.block = false;
      CHECK(num_columns(Program::make(graph, options)) == with_code(1));
      check_same(graph, options, random);
    }
  }
}

TEST_CASE("[columns] columns in loops over blocks are brought to rows of the whole") {
  std::mt19937_64 random(5);
  ProgramOptions options;
  options.loop_bytes = 0;
  for (const std::size_t block_bytes : {std::size_t{1} << 14, std::size_t{1} << 18}) {
    options.block_bytes = block_bytes;
    for (const std::int64_t rows : {1001, 30011}) {  // the output of the second is large
      const Graph graph = columns_of(f64, rows, 23);
      const Program program = Program::make(graph, options);
      REQUIRE(program.schedule().loops.size() == 1);
      CHECK(num_columns(*program.schedule().loops[0].body) == with_code(1));
      check_same(graph, options, random);
    }
  }
}

TEST_CASE("[columns] a column that something else reads is there for it, too") {
  std::mt19937_64 random(6);
  for (const std::int64_t rows : {130, 5001}) {
    GraphBuilder g("shared");
    const Value x = g.input("x", {f64, {rows}}), y = g.input("y", {f64, {rows}});
    std::vector<Value> values{ops::add(x, y), ops::mul(x, y), ops::sub(x, y)};
    for (int k = 0; k < 5; ++k)
      values.push_back(ops::mul(values[values.size() - 1], values[values.size() - 3]));
    std::vector<Value> parts;
    for (const Value& value : values) parts.push_back(ops::reshape(value, {rows, 1}));
    parts.push_back(parts[2]);  // twice
    const Value together = ops::concatenate(parts, 1);
    const Graph graph = g.build({values[1], together, ops::rev(values[4], {0})});
    CHECK(num_columns(Program::make(graph)) == with_code(1));
    check_same(graph, {}, random);
  }
}

TEST_CASE("[columns] a fusion gathers its columns") {
  std::mt19937_64 random(10);
  ProgramOptions whole;
  whole.block = false;
  for (const DType dtype : {f32, f64}) {
    for (const bool transposed : {false, true}) {
      for (const std::int64_t rows : {65, 131, 1002, 9001}) {
        for (const std::int64_t width : {1, 3, 4, 5, 8, 11, 14}) {
          if (rows > 9000 && width % 8 != 3) continue;  // kernels that are slow alone
          INFO(width, " columns of ", rows, transposed ? ", transposed" : "");
          Gathers c{.dtype = dtype, .rows = rows, .width = width, .transposed = transposed};
          c.index = width % 2 == 0 ? i64 : i32;
          c.extent = 1 + static_cast<std::int64_t>(random() % 3);  // indices beyond it, and negative ones
          const Graph graph = gathers_of(c);
          const Found found = find_columns(Program::make(graph, whole));
          // A column of a value with a single column or row is the gathered value itself.
          CHECK(found.gathered >=
                with_code(static_cast<std::size_t>(width > 1 && c.extent > 1 ? width + 5 : 5)));
          CHECK(found.concatenates == with_code(1));
          check_same(graph, whole, random);
        }
      }
    }
  }
}

TEST_CASE("[columns] columns are gathered in loops over blocks") {
  std::mt19937_64 random(11);
  ProgramOptions options;
  options.loop_bytes = 0;
  options.block_bytes = std::size_t{1} << 16;
  for (const std::int64_t rows : {5003, 40001}) {
    const Graph graph = gathers_of({.rows = rows, .width = 11});
    const Program program = Program::make(graph, options);
    REQUIRE(program.schedule().loops.size() == 1);
    const Found found = find_columns(*program.schedule().loops[0].body);
    CHECK(found.gathered == with_code(16));
    CHECK(found.done == with_code(16 + 2 + 1));
    check_same(graph, options, random);
  }
}

TEST_CASE(
    "[columns] a fusion does not gather columns that have other readers, are not clipped, or are checked") {
  std::mt19937_64 random(12);
  check_same(gathers_of({.extent = 2, .mode = "drop"}), {}, random);
  CHECK(find_columns(Program::make(gathers_of({.mode = "drop"}))).gathered == with_code(2));

  GraphBuilder g("shared");
  const Value x = g.input("x", {f64, {9, 2}}), i = g.input("i", {i32, {200}});
  const Value rows = ops::take(x, i, 0);
  std::vector<Value> columns;
  for (std::int64_t k = 0; k < 2; ++k)
    columns.push_back(ops::reshape(ops::slice(rows, {0, k}, {200, k + 1}), {200}));
  Value y = columns[0];
  for (int k = 0; k < 6; ++k) y = ops::sub(ops::mul(y, columns[1]), columns[0]);
  const Graph graph = g.build({y, ops::rev(rows, {0}), columns[1]});
  const Found found = find_columns(Program::make(graph));
  CHECK(found.gathered == with_code(1));  // the other is handed back
  CHECK(found.done == with_code(1));      // the rows are read by others still
  check_same(graph, {}, random);

  CpuOptions checking;
  checking.check_indices = true;
  const Graph beyond = gathers_of({.extent = 2});
  const std::vector<Tensor> inputs = random_inputs(beyond, random);
  CHECK_THROWS_AS(CpuExecutor(checking).run(beyond, std::span<const Tensor>(inputs)), Error);
}

TEST_CASE("[columns] parts of columns, several side by side, and fusions that reduce are left to others") {
  std::mt19937_64 random(13);
  constexpr std::int64_t rows = 5001;
  const auto check = [&](const auto& results, std::size_t gathered, std::size_t concatenates) {
    GraphBuilder g("apart");
    const Value m = g.input("m", {f64, {rows + 9, 4}}), x = g.input("x", {f64, {rows}});
    const Graph graph = g.build(results(g, m, x));
    ProgramOptions whole;
    whole.block = false;
    const Found found = find_columns(Program::make(graph, whole));
    CHECK(found.gathered == with_code(gathered));
    CHECK(found.concatenates == with_code(concatenates));
    check_same(graph, whole, random);
  };
  using Values = std::vector<Value>;
  const auto values_of = [](Value x, Value y) {
    Values values{x * y, x + y};
    for (std::size_t k = 0; k < 6; ++k) values.push_back(values[k] * y - values[k + 1]);
    return values;
  };
  const auto together = [](Values parts, const Values& more) {
    for (Value& part : parts) part = ops::reshape(part, {rows, 1});
    parts.insert(parts.end(), more.begin(), more.end());
    return ops::concatenate(parts, 1);
  };
  check(
      [&](GraphBuilder&, Value m, Value x) {
        const Value y = ops::reshape(ops::slice(m, {5, 2}, {5 + rows, 3}), {rows});
        return Values{together(values_of(x, y), {})};
      },
      0, 1);
  check(
      [&](GraphBuilder& g, Value, Value x) {
        return Values{together(values_of(x, x), {g.input("wide", {f64, {rows, 2}})})};
      },
      0, 0);
  check(
      [&](GraphBuilder&, Value, Value x) {
        const Values values = values_of(x, ops::rev(x, {0}));
        return Values{together(values, {}), ops::reduce_sum(values[3], {0})};
      },
      0, 0);
}

// In the program's plan, temporaries lie in the buffers of the fusion's operands, which are still read while
// rows are written: the compiler has to plan once more.
TEST_CASE("[columns] a fusion does not write rows where it still reads") {
  std::mt19937_64 random(7);
  constexpr std::int64_t rows = 3001;
  GraphBuilder g("overlap");
  std::vector<Value> reversed, parts;
  for (int k = 0; k < 12; ++k) reversed.push_back(ops::rev(g.input(detail::str('x', k), {f64, {rows}}), {0}));
  for (std::size_t k = 0; k < 4; ++k) {
    const Value sum = ops::add(reversed[k], ops::mul(reversed[k + 4], reversed[k + 8]));
    parts.push_back(ops::reshape(sum, {rows, 1}));
  }
  const Graph graph = g.build({ops::rev(ops::concatenate(parts, 1), {1})});
  const Program program = Program::make(graph);
  INFO(to_text(program));
  CHECK(num_columns(program) == with_code(1));
  check_same(graph, {}, random);
}

TEST_CASE("[columns] random graphs of columns have the bits of their operations one by one") {
  std::mt19937_64 random(8);
  std::size_t found = 0;
  for (int repeat = 0; repeat < 60; ++repeat) {
    const std::int64_t rows = std::int64_t{64} + static_cast<std::int64_t>(random() % 3000);
    const DType dtype = random() % 2 == 0 ? f32 : f64;
    GraphBuilder g("random");
    std::vector<Value> values;
    for (int k = 0; k < 5; ++k) values.push_back(g.input(detail::str('x', k), {dtype, {rows}}));
    for (std::size_t k = 0; k < random() % 4; ++k) values.push_back(ops::rev(values[k], {0}));
    const auto pick = [&] { return values[random() % values.size()]; };
    const std::uint64_t operations = 5 + random() % 150;
    for (std::uint64_t k = 0; k < operations; ++k) {
      const Value a = pick(), b = pick();
      switch (random() % 6) {
        case 0: values.push_back(ops::sub(a, b)); break;
        case 1: values.push_back(ops::select_n(ops::lt(a, b), a, b)); break;
        case 2: values.push_back(ops::convert_element_type(ops::convert_element_type(a, i32), dtype)); break;
        case 3: values.push_back(ops::full_like(a, 0.5)); break;
        default: values.push_back(ops::mul(ops::add(a, b), ops::full_like(a, 0.25))); break;
      }
    }
    std::vector<Value> parts;
    const std::uint64_t columns = 2 + random() % 40;
    for (std::uint64_t k = 0; k < columns; ++k) parts.push_back(ops::reshape(pick(), {rows, 1}));
    const Value together = ops::concatenate(parts, 1);
    const std::vector<Value> outputs{random() % 3 == 0 ? ops::rev(together, {0}) : together, pick(), pick()};
    const Graph graph = g.build(outputs);
    found += num_columns(Program::make(graph));
    ProgramOptions options;
    if (repeat % 3 == 0) options.loop_bytes = 0;
    if (repeat % 2 == 0) options.block_bytes = std::size_t{1} << 14;
    INFO("repeat ", repeat);
    check_same(graph, options, random);
  }
  CHECK(found >= with_code(10));
}

// Indices are clamped to the extent of each, though both are in one input with a distance of 1.
TEST_CASE("[columns] columns that are taken of two shapes of one array") {
  std::mt19937_64 random(10);
  const std::int64_t rows = 200;
  GraphBuilder g("shapes");
  const Value a = g.input("a", {f64, {4, 30}}), b = ops::reshape(a, {8, 15});
  Tensor places(Type(i32, {rows}));
  for (std::int64_t k = 0; k < rows; ++k) {
    const auto place = static_cast<std::int32_t>(k - 50);
    std::memcpy(places.mutable_bytes() + 4 * k, &place, sizeof place);
  }
  const Value i = ops::constant(g, places.to_literal());
  const Value t = ops::take(a, i, 1, "clip"), u = ops::take(b, i, 1, "clip");
  std::vector<Value> columns;
  for (const std::int64_t k : {0, 1})
    columns.push_back(ops::reshape(ops::slice(t, {k, 0}, {k + 1, rows}), {rows}));
  for (const std::int64_t k : {1, 2})
    columns.push_back(ops::reshape(ops::slice(u, {k, 0}, {k + 1, rows}), {rows}));
  Value sum = columns[0];
  for (int round = 0; round < 4; ++round) {
    for (const Value& column : columns) sum = ops::add(ops::mul(sum, column), column);
  }
  check_same(g.build({sum}), {}, random);
}

TEST_CASE("[columns] columns that are taken of one array by two lists of places") {
  std::mt19937_64 random(14);
  const std::int64_t rows = 300;
  GraphBuilder g("places");
  const Value a = g.input("a", {f64, {10, 4}});
  std::vector<Value> columns;
  for (const std::string_view name : {"i", "j"}) {
    const Value taken = ops::take(a, g.input(name, {i32, {rows}}), 0);
    for (const std::int64_t k : {1, 2})
      columns.push_back(ops::reshape(ops::slice(taken, {0, k}, {rows, k + 1}), {rows}));
  }
  Value sum = columns[0];
  for (int round = 0; round < 4; ++round) {
    for (const Value& column : columns) sum = ops::add(ops::mul(sum, column), column);
  }
  const Graph graph = g.build({sum});
  CHECK(find_columns(Program::make(graph)).gathered == with_code(4));
  check_same(graph, {}, random);
}

// Fusions of more operations than one of up to 64 pointers, with ends that fill no vector.
TEST_CASE("a fusion may leave hundreds of results") {
  std::mt19937_64 random(9);
  for (const std::int64_t size : {67, 1000, 4097}) {
    GraphBuilder g("results");
    const Value x = g.input("x", {f64, {size}}), y = g.input("y", {f64, {size}});
    std::vector<Value> results{ops::add(x, y)};
    for (int k = 1; k < 150; ++k)
      results.push_back(ops::mul(ops::sub(results.back(), x), k % 2 == 0 ? y : x));
    const Graph graph = g.build(results);
    CHECK(Program::make(graph).schedule().nodes[0].size == 300);
    check_same(graph, {}, random);
  }
}
