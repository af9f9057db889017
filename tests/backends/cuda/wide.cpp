// Arrays of more than 2^32 elements, which kernels address in 64 bits: in memory that is there where
// something was written, with a few blocks of each grid, which read and write around 2^32 and at the end.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test::wide_cases {
namespace {

using cuda_detail::Bindings;
using cuda_detail::Launch;
using cuda_detail::Memory;
using cuda_detail::Node;

constexpr std::int64_t wide = std::int64_t{1} << 32, count = wide + 5;

// Zeroes that take memory where they are written.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes)
      : bytes_(bytes),
        at_(mmap(nullptr, std::max<std::size_t>(1, bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  ~Sparse() {
    if (is_there()) munmap(at_, std::max<std::size_t>(1, bytes_));
  }
  bool is_there() const { return at_ != MAP_FAILED; }
  Memory memory() const { return {static_cast<std::byte*>(at_), bytes_}; }
  std::int32_t& operator[](std::int64_t index) const { return static_cast<std::int32_t*>(at_)[index]; }

 private:
  std::size_t bytes_;
  void* at_;
};

Node only_node(const Graph& graph) {
  std::vector<Node> nodes = cuda_detail::plan_nodes(optimize(graph));
  REQUIRE(nodes.size() == 1);
  return nodes[0];
}

// Runs blocks of the node's first launch that are chosen, and all blocks of what follows it.
void run_some(const Node& node, const Sparse& in, const Sparse& out, const std::set<std::uint32_t>& x) {
  const Sparse scratch(node.plan.scratch_bytes);
  Emulator emulator;
  const auto* const first = std::get_if<Launch>(&node.plan.steps.at(0));
  REQUIRE(first != nullptr);
  emulator.only_blocks([&](const Launch& launch, const std::array<std::uint32_t, 3>& block) {
    const bool is_last = block[1] + 1 == launch.grid[1] && block[2] + 1 == launch.grid[2];
    return launch.kernel->entry != first->kernel->entry || (x.contains(block[0]) && is_last);
  });
  const std::array operands{in.memory()}, results{out.memory()};
  emulator.run(node.plan, Bindings{operands, results, scratch.memory()});
}

// Elements around 2^32, at the beginning and at the end.
std::vector<std::int64_t> places() {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < 64; ++i) all.push_back(i);
  for (std::int64_t i = wide - 64; i < count; ++i) all.push_back(i);
  return all;
}

// Of an element-wise kernel: written elements are right, and those from 2^32 on are written by the chosen
// blocks, in which they are few.
void check_elements(const Graph& graph, const std::function<std::int32_t(std::int64_t)>& right) {
  const Sparse in(4 * count), out(4 * count);
  if (!in.is_there() || !out.is_there()) return;
  for (const std::int64_t i : places()) in[i] = static_cast<std::int32_t>(i) + 1;
  const Node node = only_node(graph);
  const std::uint32_t grid = std::get<Launch>(node.plan.steps.at(0)).grid[0];
  std::set<std::uint32_t> blocks{0, 1 % grid, grid - 1};
  for (const std::int64_t per_block : {256, 512, 1024, 2048, 4096})  // who has the last whole pack
    blocks.insert(static_cast<std::uint32_t>((wide - 1) / per_block % grid));
  run_some(node, in, out, blocks);
  std::int64_t written = 0;
  for (const std::int64_t i : places()) {
    if (out[i] == 0) continue;
    CHECK_MESSAGE(out[i] == right(i), i);
    written += i >= wide ? 1 : 0;
  }
  CHECK(written >= 1);
}

}  // namespace

TEST_CASE("elements beyond 2^32 are read and written where they are") {
  if (!Emulator::is_enabled()) return;
  GraphBuilder builder("sums");
  const Value x = builder.input("x", Type(i32, {count}));
  check_elements(builder.build({ops::add(x, x)}), [](std::int64_t i) {
    return static_cast<std::int32_t>(2 * static_cast<std::uint32_t>(static_cast<std::int32_t>(i) + 1));
  });
}

TEST_CASE("an order that is reversed leads from the end to the beginning, beyond 2^32") {
  if (!Emulator::is_enabled()) return;
  GraphBuilder builder("reversed");
  const Value x = builder.input("x", Type(i32, {count}));
  check_elements(builder.build({ops::rev(x, {0})}),
                 [](std::int64_t i) { return static_cast<std::int32_t>(count - 1 - i) + 1; });
}

TEST_CASE("a slice that begins beyond 2^32 is taken from there") {
  if (!Emulator::is_enabled()) return;
  GraphBuilder builder("slice");
  const Value x = builder.input("x", Type(i32, {count}));
  const Value last = ops::slice(x, {count - 3}, {count});
  const Node node = only_node(builder.build({ops::add(last, last)}));
  const Sparse in(4 * count), out(12);
  if (!in.is_there() || !out.is_there()) return;
  for (const std::int64_t i : {count - 3, count - 2, count - 1}) in[i] = static_cast<std::int32_t>(i - wide);
  run_some(node, in, out, {0});
  CHECK(std::array{out[0], out[1], out[2]} == std::array{4, 6, 8});
}

TEST_CASE("reductions read elements beyond 2^32") {
  if (!Emulator::is_enabled()) return;
  constexpr std::int64_t columns = 65536, rows = 65537;
  for (const bool by_rows : {false, true}) {
    GraphBuilder builder("sum");
    const Value x = builder.input("x", by_rows ? Type(i32, {rows, columns}) : Type(i32, {count}));
    const Node node = only_node(builder.build({ops::reduce_sum(x, {by_rows ? 1 : 0})}));
    const std::int64_t size = by_rows ? rows * columns : count, results = by_rows ? rows : 1;
    const Sparse in(static_cast<std::size_t>(4 * size));
    if (!in.is_there()) return;
    in[size - 1] = 5;
    // Whichever block has the last element adds it; with an index of 32 bits none would.
    const std::uint32_t grid = std::get<Launch>(node.plan.steps.at(0)).grid[0];
    std::set<std::uint32_t> tried{grid - 1, 0};
    for (const std::int64_t rows_of_block : {1, 2, 4, 8})
      tried.insert(static_cast<std::uint32_t>((rows - 1) / rows_of_block % grid));
    std::int32_t found = 0;
    for (const std::uint32_t block : tried) {
      const Sparse out(static_cast<std::size_t>(4 * results));
      run_some(node, in, out, {block});
      found = std::max(found, out[results - 1]);
      if (found != 0) break;
    }
    CHECK(found == 5);
  }
}

}  // namespace tidu::test::wide_cases
