// The bytes that a block of a loop needs; operands that its matmuls read whole are counted once each.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "cpu/schedule/loops.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace {

namespace loop_memory_cases {

// A block of x times the transposes of that many matrices, each twice, of which the first is tiled as x is.
BlockedLoop matmuls(std::size_t count) {
  GraphBuilder g("block");
  BlockedLoop loop;
  const Value x = g.input("x", {f64, {8, 4}});
  loop.operands.push_back({0, 0});
  const Value negative = ops::neg(x);
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < count; ++i) {
    const Value w = g.input(detail::str('w', i), {f64, {4, 4}});
    loop.operands.push_back({static_cast<ValueId>(i + 1), i == 0 ? 0 : BlockedLoop::none});
    for (const Value left : {x, negative})
      outputs.push_back(ops::reduce_sum(ops::dot_general(left, w, {{1}, {1}, {}, {}}), {0, 1}));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k)
    loop.results.push_back({static_cast<ValueId>(1 + count + k), BlockedLoop::none});
  ProgramOptions options;
  options.block = options.fuse = options.simplify = false;
  loop.body = std::make_shared<const Program>(Program::make(g.build(outputs), options));
  return loop;
}

TEST_CASE("operands that matmuls of a block read whole are counted once, also for 100,000 matrices") {
  for (const std::size_t count : {std::size_t{3}, std::size_t{100000}}) {
    const BlockedLoop loop = matmuls(count);
    const std::size_t matrices = (count - 1) * 4 * 4 * sizeof(double), sums = 2 * count * sizeof(double);
    CHECK(passes::block_bytes(loop) ==
          loop.body->workspace_bytes() + loop.body->plan().constant_bytes + matrices + sums);
  }
}

// n points: exp(-|x q|^2) summed, and its gradient by q, to which each block adds as a whole.
Program of_points(std::int64_t n, bool block) {
  GraphBuilder g("points");
  const Value x = g.input("x", {f64, {n, 64}}), q = g.input("q", {f64, {64, 12800}});
  const Value y = ops::dot_general(x, q, {{1}, {0}, {}, {}});
  const Value sum = ops::reduce_sum(ops::exp(-ops::reduce_sum(ops::square(y), {1})), {0});
  ProgramOptions options;
  options.block = block;
  return Program::make(vjp(g.build({sum}), {"q"}), options);
}

TEST_CASE("huge arrays are cut into blocks although that costs a little time") {
  const std::size_t array = std::size_t{20'000} * 12'800 * sizeof(double);
  CHECK(of_points(20'000, false).peak_bytes() > array);
  CHECK(of_points(20'000, true).peak_bytes() < array / 16);
  // For smaller ones, time is more important.
  CHECK(of_points(2'000, true).peak_bytes() > array / 10);
}

// Loops over blocks of a step of gradient descent on `rows` x 512 parameters, of a batch of so many.
std::size_t loops_of_update(std::int64_t rows, std::int64_t batch, bool clips) {
  GraphBuilder g("update");
  const Value w = g.input("w", {f32, {rows, 512}});
  const Value x = g.input("x", {f32, {batch, rows}}), dy = g.input("dy", {f32, {batch, 512}});
  Value gradient = ops::dot_general(x, dy, {{0}, {0}, {}, {}});
  if (clips) gradient = ops::tanh(gradient);
  const Value share = ops::mul(ops::full(g, gradient.type(), 0.01), gradient);
  return Program::make(g.build({ops::sub(w, share)})).schedule().loops.size();
}

TEST_CASE("[updates] an epilogue is no loop, which would need memory of its own") {
  for (const std::int64_t batch : {32, 64, 256}) CHECK(loops_of_update(784, batch, false) == 0);
  CHECK(loops_of_update(784, 32, true) == 1);
}

// Points of a block of max(exp(-|x q|^2))^2 summed, for 10,000 rows x of so many numbers, and so many
// components.
std::int64_t points_of_block(std::int64_t components, std::int64_t inner) {
  GraphBuilder g("components");
  const Value x = g.input("x", {f64, {10'000, inner}}), q = g.input("q", {f64, {inner, components, 64}});
  const Value y = ops::dot_general(x, q, {{1}, {0}, {}, {}});
  const Value each = ops::exp(-ops::reduce_sum(ops::square(y), {2}));
  const Value sum = ops::reduce_sum(ops::square(ops::reduce_max(each, {1})), {0});
  const Program program = Program::make(g.build({sum}), ProgramOptions());
  REQUIRE(program.schedule().loops.size() == 1);
  CHECK(program.schedule().loops[0].extent == 10'000);
  return program.schedule().loops[0].block;
}

TEST_CASE(
    "operands that a block reads whole are not read again for every few points if no cache near the core "
    "holds them") {
  CHECK(points_of_block(200, 4) < 30);    // 400 KB
  CHECK(points_of_block(200, 64) >= 32);  // 6.5 MB
}

}  // namespace loop_memory_cases
}  // namespace
}  // namespace tidu
