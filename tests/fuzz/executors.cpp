// Random graphs on the CPU executor against the reference interpreter: as users run them, without fusing and
// loops, and with loops wherever they can be made; for one thread and for two, and again.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "fuzz/generator.hpp"
#include "support/distance.hpp"
#include "support/support.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {
namespace {

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (std::memcmp(a[k].bytes(), b[k].bytes(), a[k].num_bytes()) != 0) return false;
  }
  return true;
}

CpuExecutor executor(int threads, bool fuse, bool block, bool everywhere) {
  CpuOptions options{.threads = threads};
  options.program.fuse = fuse;
  options.program.block = block;
  if (everywhere) {
    options.program.loop_bytes = 0;
    options.program.block_bytes = 64;
  }
  return CpuExecutor(options);
}

}  // namespace

TEST_CASE(
    "random graphs have the results of the reference, fused or not, in loops or not, on one thread or two") {
  const CpuExecutor usual = executor(2, true, true, false), one = executor(1, true, true, false);
  const CpuExecutor plain = executor(1, false, false, false);
  const CpuExecutor loops = executor(1, true, true, true), two_loops = executor(2, true, true, true);
  const std::size_t count = scaled(10000);
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    INFO("seed ", seed);
    SeededChoices choices(seed);
    const RandomCase random = random_case(choices);
    const Graph& graph = random.graph;
    const check::Tensors& inputs = random.inputs;
    const std::vector<Tensor> expected = reference().run(graph, inputs);
    // Sums in another order, and functions of libmvec (4 units in the last place), in graphs of a few dozen
    // operations that are smooth.
    const double bound = random.exact ? 0 : 1e-9;
    const std::set<std::string_view> names = primitives_in(graph);
    // Each executor has signs of its own for these vectors.
    const bool unique = names.count("eigh") + names.count("svd") == 0;
    const auto compare = [&](const std::vector<Tensor>& got) {
      if (!unique) return;
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(expected[k], got[k]) <= bound);
      ++compared;
    };
    const std::vector<Tensor> got = usual.run(graph, inputs);
    compare(got);
    CHECK(same_bits(got, usual.run(graph, inputs)));
    CHECK(same_bits(got, one.run(graph, inputs)));
    compare(plain.run(graph, inputs));
    const std::vector<Tensor> in_loops = loops.run(graph, inputs);
    compare(in_loops);
    CHECK(same_bits(in_loops, two_loops.run(graph, inputs)));
  }
  CHECK(compared > 2 * count);
}

}  // namespace tidu::test
