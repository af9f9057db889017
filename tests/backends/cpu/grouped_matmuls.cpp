// Grouped matmuls: which ones are grouped, that their memory is their own, and that they have the same bits
// as one after another, on any number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/linearize/transforms.hpp"

using namespace tidu;
using namespace tidu::test;

namespace grouped_matmuls_cases {
namespace {

// The number of matmuls in each group, in order.
std::vector<std::uint32_t> groups_of(const Program& program) {
  std::vector<std::uint32_t> groups;
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
    if (nodes[i].kind == NodeKind::grouped_matmul) groups.push_back(nodes[i].size - 1);
  }
  return groups;
}
using Groups = std::vector<std::uint32_t>;

ProgramOptions alone() {
  ProgramOptions options;
  options.grouped_matmuls = false;
  return options;
}

// tanh(x w_i) w_i summed over i: two rounds of matmuls, the second of which needs the first.
Graph layers(DType dtype, std::int64_t n, std::size_t count) {
  GraphBuilder builder("layers");
  const Value x = builder.input("x", {dtype, {n, n}});
  std::vector<Value> terms;
  for (std::size_t i = 0; i < count; ++i) {
    const Value w = builder.input(detail::str('w', i), {dtype, {n, n}});
    terms.push_back(ops::matmul(ops::tanh(ops::matmul(x, w)), w));
  }
  Value sum = terms[0];
  for (std::size_t i = 1; i < count; ++i) sum = ops::add(sum, terms[i]);
  return builder.build({sum});
}

// Matmuls of random values, sums and functions of them.
Graph random_matmuls(std::mt19937_64& random, DType dtype, std::int64_t n, int operations) {
  GraphBuilder builder("random");
  std::vector<Value> values;
  for (int i = 0; i < 3; ++i) values.push_back(builder.input(detail::str('x', i), {dtype, {n, n}}));
  const auto any = [&] {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  for (int i = 0; i < operations; ++i) {
    const Value a = any(), b = any();
    switch (std::uniform_int_distribution<int>(0, 5)(random)) {
      case 0: values.push_back(ops::add(a, b)); break;
      case 1: values.push_back(ops::tanh(a)); break;
      case 2: values.push_back(ops::dot_general(a, b, {{1}, {1}, {}, {}})); break;
      default:
        values.push_back(ops::matmul(ops::div(a, ops::full(builder, a.type(), static_cast<double>(n))), b));
        break;
    }
  }
  return builder.build({values.back(), any(), any()});
}

CpuExecutor with_threads(int threads, const ProgramOptions& program = {}) {
  CpuOptions options;
  options.threads = threads;
  options.program = program;
  return CpuExecutor(options);
}

std::vector<Tensor> random_inputs(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  return inputs;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& s, const Tensor& t) {
    return s.type() == t.type() && std::memcmp(s.bytes(), t.bytes(), s.type().bytes()) == 0;
  });
}

void check_bits(const Graph& graph, std::mt19937_64& random) {
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  const Executable executable = with_threads(1).compile(graph);
  const Program& program = executable.program();
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
  const std::vector<Tensor> expected = with_threads(1, alone()).compile(graph).run(inputs);
  CHECK(same_bits(executable.run(inputs), expected));
  for (const int threads : {2, 3})
    CHECK(same_bits(with_threads(threads).compile(graph).run(inputs), expected));
}

}  // namespace

TEST_CASE("equal matmuls that do not need one another stand side by side") {
  CHECK(groups_of(Program::make(layers(f32, 32, 5))) == Groups{5, 5});
  CHECK(groups_of(Program::make(layers(f32, 32, 5), alone())).empty());
  ProgramOptions one_by_one;
  one_by_one.fuse = false;
  CHECK(groups_of(Program::make(layers(f32, 32, 5), one_by_one)).empty());
  // A single one has no partner; tiny ones stay separate, and so do those that threads split themselves.
  CHECK(groups_of(Program::make(layers(f32, 32, 1))).empty());
  CHECK(groups_of(Program::make(layers(f32, 16, 5))).empty());
  CHECK(groups_of(Program::make(layers(f32, 64, 5))).empty());
  // Their results stay in the caches: 18 of 28 KiB, and the rest in another group.
  CHECK(groups_of(Program::make(layers(f64, 60, 20))) == Groups{18, 18, 2, 2});
}

TEST_CASE("matmuls of other types, attributes or after a barrier are not grouped") {
  GraphBuilder builder("f");
  const Value a = builder.input("a", {f32, {32, 32}}), b = builder.input("b", {f32, {32, 32}});
  const Value wide = builder.input("wide", {f32, {32, 64}}), twice = builder.input("twice", {f64, {32, 32}});
  const Value ab = ops::matmul(a, b), transposed = ops::dot_general(a, b, {{1}, {1}, {}, {}});
  const Value ba = ops::matmul(b, a), to_wide = ops::matmul(a, wide), in_double = ops::matmul(twice, twice);
  const Value later = ops::optimization_barrier(std::vector{a}, 1)[0];
  const Value aa = ops::matmul(later, later), bb = ops::matmul(b, b);
  const Program program = Program::make(builder.build({ab, transposed, ba, to_wide, in_double, aa, bb}));
  CHECK(groups_of(program) == Groups{2, 2});  // ab, ba; aa, bb
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
}

TEST_CASE("a chain of matmuls has no groups, and no memory is shared within a group") {
  GraphBuilder chain("chain");
  Value x = chain.input("x", {f64, {32, 32}});
  for (int i = 0; i < 6; ++i) x = ops::matmul(x, x);
  CHECK(groups_of(Program::make(chain.build({x}))).empty());
  // The operands of all are live until the end of the group: a result in the buffer of one would be written
  // while others read.
  GraphBuilder builder("f");
  const Value y = builder.input("y", {f64, {32, 32}});
  const Value s = ops::sort(y, 0), t = ops::sort(y, 1);
  const Program program = Program::make(builder.build({ops::reduce_sum(
      ops::add(ops::matmul(s, t), ops::add(ops::matmul(t, s), ops::matmul(s, s))), {0, 1})}));
  CHECK(groups_of(program) == Groups{3});
  passes::verify_plan(program.graph(), program.schedule(), program.plan());
  // The check itself sees a plan in which that is so.
  SlotPlan wrong = program.plan();
  const ScheduleNode* group = program.schedule().nodes.data();
  while (group->kind != NodeKind::grouped_matmul) ++group;
  const Operation last = program.graph().operation(group[3].index);
  wrong.slot_of[last.output()] = wrong.slot_of[program.roots()[last.inputs()[0]]];
  CHECK_THROWS_AS(passes::verify_plan(program.graph(), program.schedule(), wrong), Error);
}

TEST_CASE("matmuls side by side are the bits of matmuls one after another, on any number of threads") {
  std::mt19937_64 random(1);
  for (const DType dtype : {f32, f64, f16, bf16, c64, c128, i32}) {
    const std::int64_t n = 41;
    if (dtype == i32) {
      GraphBuilder builder("integers");
      const Value x = builder.input("x", {i32, {n, n}}), y = builder.input("y", {i32, {n, n}});
      check_bits(builder.build({ops::matmul(x, y), ops::matmul(y, x), ops::matmul(x, x)}), random);
      continue;
    }
    check_bits(layers(dtype, n, 7), random);
    check_bits(vjp(layers(dtype, n, 3)), random);
  }
  // Operands that are one beside another in memory, transposed, or to be copied first.
  GraphBuilder builder("operands");
  const Value x = builder.input("x", {f64, {3, 30, 5, 29}});
  std::vector<Value> parts;
  for (const std::int64_t at : {0, 1, 2}) parts.push_back(ops::slice(x, {at, 0, 0, 0}, {at + 1, 30, 5, 29}));
  std::vector<Value> matmuls;
  for (const Value& left : parts) {
    for (const std::size_t k : {std::size_t{2}, std::size_t{1}})
      matmuls.push_back(ops::dot_general(left, parts[k], {{3, 0}, {3, 0}, {2}, {2}}));
  }
  const Graph graph = builder.build(matmuls);
  CHECK(groups_of(Program::make(graph)) == Groups{6});
  check_bits(graph, random);
}

TEST_CASE("random graphs of matmuls") {
  std::mt19937_64 random(2);
  std::size_t grouped = 0;
  for (std::size_t i = 0; i < scaled(300); ++i) {
    const std::int64_t n = std::uniform_int_distribution<std::int64_t>(20, 40)(random);
    const Graph graph = random_matmuls(random, i % 2 == 0 ? f64 : f32, n, 30);
    for (const std::uint32_t count : groups_of(Program::make(graph))) grouped += count;
    check_bits(graph, random);
  }
  CHECK(grouped > scaled(300));
}

}  // namespace grouped_matmuls_cases
