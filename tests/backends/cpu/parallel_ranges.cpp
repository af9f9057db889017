// Loops over threads: every piece once, whatever helpers do; and short fusions, which use only threads that
// are awake.
#include "cpu/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "cpu/compare.hpp"
#include "tidu/cpu/schedule_passes.hpp"

using namespace tidu;
using namespace tidu::test;
using cpu_detail::parallel_for;
using cpu_detail::parallel_for_awake;
using cpu_detail::run_pieces;

namespace {

// How often each piece was not run once.
int wrong_pieces(int threads, std::int64_t pieces, int slow_piece) {
  struct Context {
    std::vector<std::atomic<int>> runs;
    int slow;
  } context{std::vector<std::atomic<int>>(static_cast<std::size_t>(pieces)), slow_piece};
  run_pieces(
      threads, pieces,
      [](void* c, std::int64_t piece) {
        Context& at = *static_cast<Context*>(c);
        if (piece == at.slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++at.runs[static_cast<std::size_t>(piece)];
      },
      &context);
  int wrong = 0;
  for (const std::atomic<int>& runs : context.runs) wrong += runs == 1 ? 0 : 1;
  return wrong;
}

}  // namespace

TEST_CASE("each piece of a loop runs once, however many threads share it") {
  for (const int threads : {1, 2, 3, 8, 100}) {
    for (const std::int64_t pieces : {0, 1, 2, 3, 7, 64, 1000}) {
      for (const int slow : {-1, 0, 5}) {
        CAPTURE(threads);
        CAPTURE(pieces);
        CAPTURE(slow);
        CHECK(wrong_pieces(threads, pieces, slow) == 0);
      }
    }
  }
}

TEST_CASE("ranges cover a loop, awake helpers or not") {
  for (const int repeat : {0, 1, 2}) {
    if (repeat == 1) parallel_for(2, 2, 1, [](std::int64_t, std::int64_t) {});  // wakes one
    if (repeat == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<std::atomic<int>> runs(1000);
    parallel_for_awake(2, 1000, 30, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
    });
    for (const std::atomic<int>& run : runs) CHECK(run == 1);
  }
}

TEST_CASE("short row fusions after matmuls have the bits of one thread") {
  GraphBuilder g("layers");
  const Value x = g.input("x", Type(f32, {64, 300})), w = g.input("w", Type(f32, {300, 512}));
  const Value b = g.input("b", Type(f32, {512}));
  const Value sum = ops::matmul(x, w) + ops::broadcast_in_dim(b, {64, 512}, {1});
  const Value zero = ops::full_like(sum, 0);
  const Value positive = ops::gt(sum, zero);
  const Value hidden = ops::select_n(positive, zero, sum);
  const Graph graph = g.build({hidden, positive, ops::reduce_sum(hidden, {0})});
  std::mt19937_64 random(3);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  const std::vector<Tensor> expected = CpuExecutor(CpuOptions{.threads = 1}).run(graph, inputs);
  for (const int threads : {2, 4}) {
    const Executable executable = CpuExecutor(CpuOptions{.threads = threads}).compile(graph);
    int wrong = 0;
    for (int repeat = 0; repeat < 50; ++repeat) {
      const std::vector<Tensor> got = executable.run(inputs);
      for (std::size_t i = 0; i < got.size(); ++i)
        wrong += std::memcmp(got[i].bytes(), expected[i].bytes(), got[i].num_bytes()) == 0 ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

// One that is tied to the processor where the caller comes later would wait for it.
TEST_CASE("helpers may run wherever they could, whichever processor calls them") {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> least{CPU_COUNT(&allowed)}, helped{0};
  const auto loop = [&] {
    parallel_for(2, 64, 1, [&](std::int64_t, std::int64_t) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
      while (std::chrono::steady_clock::now() < end) {
      }
      if (std::this_thread::get_id() == caller) return;
      cpu_set_t mine;
      CPU_ZERO(&mine);
      sched_getaffinity(0, sizeof mine, &mine);
      least = std::min(least.load(), CPU_COUNT(&mine));
      ++helped;
    });
  };
  loop();
  for (int round = 0; round < 100; ++round) {
    int tried = 0;
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE && tried < 4; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      ++tried;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // helpers fall asleep
      loop();
    }
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
  CHECK(least == CPU_COUNT(&allowed));
  if (helped == 0) MESSAGE("no helper came");
}
