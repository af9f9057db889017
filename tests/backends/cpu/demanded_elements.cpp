// Elements without readers: the analysis, matmuls that skip them, alone and in loops, and results equal to
// those of whole matmuls.
#include "cpu/demanded_elements.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/compare.hpp"
#include "cpu/compiled.hpp"
#include "support/distance.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace demanded_elements_cases {
namespace {

// The positions in rows [triangle, 0] of the elements of a lower triangular matrix of d rows.
Literal places(std::int64_t d, std::int32_t outside) {
  std::vector<std::int32_t> at;
  for (std::int64_t i = 0; i < d; ++i) {
    for (std::int64_t j = 0; j < d; ++j)
      at.push_back(j > i ? outside : static_cast<std::int32_t>(i * (i + 1) / 2 + j));
  }
  return Literal::of<std::int32_t>({i32, {d, d}}, at);
}

// The sum of the squares of the matmuls of n points with k triangular matrices.
Graph triangles(std::int64_t n, std::int64_t d, std::int64_t k, DType dtype) {
  const std::int64_t size = d * (d + 1) / 2;
  GraphBuilder g("triangles");
  const Value x = g.input("x", {dtype, {n, d}}), v = g.input("v", {dtype, {k, size}});
  const Value row = ops::concatenate(std::array{v, ops::full(g, {dtype, {k, 1}}, 0.0)}, 1);
  const Value indices = ops::constant(g, places(d, static_cast<std::int32_t>(size)));
  const Value q = ops::take(row, indices, 1);
  const Value y = ops::dot_general(x, q, {.lhs_contracting = {1}, .rhs_contracting = {2}});
  return g.build({ops::reduce_sum(ops::square(y), {0, 1, 2})});
}

std::vector<Tensor> random_inputs(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-1, 1}, random));
  return inputs;
}

std::shared_ptr<Arena> new_arena() { return std::make_shared<Arena>(std::size_t{1} << 30); }

// The result of find_reads for a value, with the bytes of constants from their operations.
std::vector<ReadElements> reads_of(const Graph& graph) {
  std::vector<const std::byte*> constants(graph.num_values(), nullptr);
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (operation.op().name() == "constant")
      constants[operation.output(0)] = operation.op().attribute("value").get_if<Literal>()->bytes();
  }
  return find_reads(graph, constants, {});
}

// The demanded elements matter only for matmuls and scatters.
Value of_matmul(GraphBuilder& g, const char* name, const Shape& shape) {
  const Value x = g.input(name, {f64, {num_elements(shape), 2}});
  return ops::reshape(ops::dot_general(x, x, {{1}, {1}, {0}, {0}}), shape);
}

}  // namespace

TEST_CASE("[matmuls] elements that slices drop from scattered sums, and dead values, are not demanded") {
  for (const bool drops : {false, true}) {
    GraphBuilder g;
    const Value u = of_matmul(g, "u", {2, 3, 3}), w = of_matmul(g, "w", {2, 9});
    const Value updates = ops::neg(u) + ops::reshape(w, {2, 3, 3});
    const Value zeros = ops::full(g, {f64, {2, drops ? 6 : 7}}, 0.0);
    const Value sums = ops::scatter_add(zeros, ops::constant(g, places(3, drops ? -1 : 6)), updates, 1,
                                        drops ? "drop" : "clip");
    const Graph graph = g.build({ops::slice(sums, {0, 0}, {2, 6})});
    const auto reads = reads_of(graph);
    REQUIRE(reads.size() == graph.num_values());
    for (const ValueId id : {u.id(), w.id()}) {
      REQUIRE(reads[id] != nullptr);
      CHECK(*reads[id] == std::vector<bool>{true, false, false, true, true, false, true, true, true});
      CHECK(row_ends(*reads[id], 3) == std::vector<std::int32_t>{1, 2, 3});
      CHECK(row_ends(*reads[id], 2).empty());
    }
  }
}

TEST_CASE("[matmuls] elements that takes leave out are not demanded") {
  const std::vector<std::int32_t> packed{0, 3, 4, 6, 7, 8};
  const std::vector<bool> triangle{true, false, false, true, true, false, true, true, true};
  const auto read_of = [](const std::vector<std::int32_t>& which, const char* mode, Shape shape,
                          std::int64_t axis, bool slices) {
    GraphBuilder g;
    const Value x = of_matmul(g, "x", shape);
    const Literal indices = Literal::of<std::int32_t>({i32, {std::ssize(which)}}, which);
    Value y = ops::take(ops::neg(x), ops::constant(g, indices), axis, mode);
    Ints begin(y.rank(), 0), end = y.shape();
    begin[static_cast<std::size_t>(axis)] = slices ? 1 : 0;
    if (slices) y = ops::slice(y, begin, end);
    const auto reads = reads_of(g.build({y}));
    return reads.empty() ? std::vector<bool>() : *reads[x.id()];
  };
  CHECK(read_of(packed, "clip", {2, 9}, 1, false) == triangle);
  std::vector<bool> less = triangle;
  less[0] = false;
  CHECK(read_of(packed, "clip", {2, 9}, 1, true) == less);
  // Out of range: the ends, or nothing.
  CHECK(read_of({-7, 1, 99}, "clip", {2, 4}, 1, false) == std::vector<bool>{true, true, false, true});
  CHECK(read_of({-7, 1, 99}, "drop", {2, 4}, 1, false) == std::vector<bool>{false, true, false, false});
  // Slices of several elements, a pattern that is repeated, and all of them.
  CHECK(read_of({2, 2}, "clip", {3, 2}, 0, false) ==
        std::vector<bool>{false, false, false, false, true, true});
  CHECK(read_of({1, 0}, "clip", {3, 2, 2}, 1, true) == std::vector<bool>{true, true, false, false});
  CHECK(read_of({1, 0, 1}, "clip", {3, 2}, 1, false).empty());
}

TEST_CASE(
    "[matmuls] demanded elements are found for a bounded number of elements, and only for matmuls and "
    "scatters") {
  const std::int64_t n = 1 << 18, readers = 40;
  const std::vector<std::int32_t> first_two{0, 1};
  for (const bool of_matmuls : {false, true}) {
    GraphBuilder g;
    const Value x = of_matmuls ? of_matmul(g, "x", {n}) : g.input("x", {f64, {n}});
    const Value few = ops::neg(of_matmul(g, "y", {8})), whole = ops::exp(x);
    const Value two = ops::constant(g, Literal::of<std::int32_t>({i32, {2}}, first_two));
    std::vector<Value> results;
    // Seen last, for which nothing was spent yet; or first.
    if (!of_matmuls) results.push_back(ops::take(few, two, 0));
    for (std::int64_t k = 0; k < readers; ++k)
      results.push_back(ops::reduce_sum(ops::slice(whole, {k}, {k + 1}), {0}));
    if (of_matmuls) results.push_back(ops::take(few, two, 0));
    const auto reads = reads_of(g.build(results));
    REQUIRE(!reads.empty());
    CHECK(reads[whole.id()] == nullptr);
    REQUIRE(reads[few.id()] != nullptr);
    CHECK(std::count(reads[few.id()]->begin(), reads[few.id()]->end(), true) == 2);
  }
}

TEST_CASE("[matmuls] values with other readers, and elements at computed indices, are demanded") {
  GraphBuilder g;
  const Value u = of_matmul(g, "u", {2, 3, 3}), moving = g.input("i", {i32, {3, 3}});
  const Value zeros = ops::full(g, {f64, {2, 7}}, 0.0), indices = ops::constant(g, places(3, 6));
  const Value negative = ops::neg(u), other = ops::exp(u), third = ops::sin(u);
  const Value a = ops::slice(ops::scatter_add(zeros, indices, negative, 1), {0, 0}, {2, 6});
  const Value b = ops::slice(ops::scatter_add(zeros, moving, other, 1), {0, 0}, {2, 6});
  const Value c = ops::slice(ops::scatter_add(zeros, indices, third, 1), {0, 2}, {2, 6});
  const Value d = ops::slice(ops::scatter_add(zeros, indices, third, 1), {0, 0}, {2, 1});
  const Graph graph = g.build({a, b, c, d});
  const auto reads = reads_of(graph);
  const auto of = [&](const char* name) {
    for (std::size_t i = 0; i < graph.num_operations(); ++i) {
      if (graph.operation(i).op().name() == name) return reads[graph.operation(i).output(0)];
    }
    return ReadElements();
  };
  CHECK(of("neg") != nullptr);
  CHECK(of("exp") == nullptr);
  REQUIRE(of("sin") != nullptr);  // by two, one of which leaves out more than the other
  CHECK(*of("sin") == std::vector<bool>{true, false, false, false, true, false, true, true, true});
  CHECK(reads[u.id()] == nullptr);
  CHECK(reads_of(triangles(4, 3, 2, f64)).empty());
}

TEST_CASE("[matmuls] matmuls skip elements that are not demanded, alone and as sums of loops") {
  std::mt19937_64 random(5);
  const std::int64_t n = 4000, d = 32, k = 3;
  GraphBuilder g;
  const Value x = g.input("x", {f64, {n, d}}), y = g.input("y", {f64, {n, k * d}});
  const Value sums = ops::dot_general(ops::exp(y), x, {.lhs_contracting = {0}, .rhs_contracting = {0}});
  const Graph graph = g.build({sums});
  auto read = std::make_shared<std::vector<bool>>();
  for (std::int64_t i = 0; i < d * d; ++i) read->push_back(i % d <= i / d);
  const std::vector<ReadElements> reads{read};
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  const KernelTable kernels;
  for (const bool block : {false, true}) {
    ProgramOptions options;
    options.block = block;
    options.loop_bytes = 0;
    const Program program = Program::make(graph, options);
    REQUIRE(program.schedule().loops.size() == (block ? 1 : 0));
    const Tensor whole = Compiled(program, {}, kernels, new_arena()).run(inputs)[0];
    const auto expected = whole.elements<double>();
    for (const int threads : {1, 2}) {
      const Compiled compiled(program, {.threads = threads}, kernels, new_arena(), {.reads = reads});
      const Tensor part = compiled.run(inputs)[0];
      const auto got = part.elements<double>();
      std::size_t left_out = 0, wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        if ((*read)[i % read->size()]) {
          wrong += got[i] == expected[i] ? 0U : 1U;
        } else {
          left_out += got[i] == 0 ? 1U : 0U;
        }
      }
      CHECK(wrong == 0);
      CHECK(left_out > got.size() / 8);
    }
  }
}

TEST_CASE("[matmuls] sums that are not read are not scattered") {
  GraphBuilder g;
  const Value x = g.input("x", {f64, {2, 4}}), i = g.input("i", {i32, {5}}), u = g.input("u", {f64, {2, 5}});
  const Program program = Program::make(g.build({ops::scatter_add(x, i, u, 1)}));
  const std::vector<ReadElements> reads{
      std::make_shared<const std::vector<bool>>(std::vector<bool>{true, false, true, true})};
  const auto tensor = [](Type type, std::vector<double> values) {
    Tensor made(type);
    std::memcpy(made.mutable_bytes(), values.data(), made.num_bytes());
    return made;
  };
  Tensor indices(Type(i32, {5}));
  const std::int32_t places[] = {3, 1, 3, 0, 1};
  std::memcpy(indices.mutable_bytes(), places, sizeof places);
  const std::vector<Tensor> inputs{tensor({f64, {2, 4}}, {1, 2, 3, 4, 5, 6, 7, 8}), indices,
                                   tensor({f64, {2, 5}}, {1, 10, 100, 1000, 10, 2, 20, 200, 2000, 20})};
  const KernelTable kernels;
  const Tensor got = Compiled(program, {}, kernels, new_arena(), {.reads = reads}).run(inputs)[0];
  const std::vector<double> expected{1001, 2, 3, 105, 2005, 6, 7, 210};
  CHECK(std::equal(expected.begin(), expected.end(), got.elements<double>().begin()));
}

TEST_CASE("[matmuls] gradients in triangles are those of whole matmuls") {
  std::mt19937_64 random(6);
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t d : {3, 16, 20, 37}) {
      INFO("d ", d, ", ", dtype);
      const Graph gradient = value_and_grad(triangles(200, d, 5, dtype), {"x", "v"});
      const std::vector<Tensor> inputs = random_inputs(gradient, random);
      const std::vector<Tensor> expected = reference().run(gradient, std::span<const Tensor>(inputs));
      for (const std::size_t loop_bytes : {std::size_t{0}, std::size_t{1} << 40}) {
        ProgramOptions options;
        options.loop_bytes = loop_bytes;
        options.block_bytes = 8192;
        const Program program = Program::make(gradient, options);
        for (const int threads : {1, 2}) {
          const auto got = CpuExecutor(CpuOptions{.threads = threads}).compile(program).run(inputs);
          for (std::size_t i = 0; i < got.size(); ++i)
            CHECK(distance(expected[i], got[i]) <= (dtype == f32 ? 1e-4 : 1e-12));
        }
      }
    }
  }
}

}  // namespace demanded_elements_cases
