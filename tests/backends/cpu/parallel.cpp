// Parallel loops whose bodies fail: the exception is thrown where the loop was started, after all running
// pieces have ended, and the next loop runs all of its pieces.
#include "cpu/parallel.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "cpu/compare.hpp"
#include "graph/counting_allocator.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

struct Failed {
  std::int64_t piece;
};

// Runs `pieces` pieces, of which those for which `fails` holds throw; the piece whose error came out, or -1.
template <class Fails>
std::int64_t run_failing(int threads, std::int64_t pieces, const Fails& fails) {
  std::atomic<int> running{0};
  std::vector<std::atomic<int>> begun(static_cast<std::size_t>(pieces));
  std::int64_t failed = -1;
  try {
    cpu_detail::parallel_for(threads, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        ++running;
        ++begun[static_cast<std::size_t>(piece)];
        if (fails(piece)) {
          --running;
          throw Failed{piece};
        }
        --running;
      }
    });
  } catch (const Failed& error) {
    failed = error.piece;
  }
  CHECK(running == 0);
  for (const std::atomic<int>& count : begun) {
    CHECK(count <= 1);
    if (failed < 0) CHECK(count == 1);
  }
  return failed;
}

}  // namespace

TEST_CASE("the exception of a piece comes out of its loop, and the next loop runs all pieces") {
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    for (std::int64_t bad = 0; bad < 12; ++bad) {
      CHECK(run_failing(threads, 12, [&](std::int64_t piece) { return piece == bad; }) == bad);
      CHECK(run_failing(threads, 12, [](std::int64_t) { return false; }) == -1);
    }
    for (std::size_t round = 0; round < scaled(300);
         ++round) {  // several fail: one of their errors comes out
      const std::int64_t failed = run_failing(threads, 40, [](std::int64_t piece) { return piece % 3 == 1; });
      CHECK(failed % 3 == 1);
    }
    CHECK(run_failing(threads, 40, [](std::int64_t) { return false; }) == -1);
  }
}

TEST_CASE("loops within pieces, and of several threads, fail each for itself") {
  for (std::size_t round = 0; round < scaled(100); ++round) {
    const std::int64_t outer = run_failing(2, 6, [&](std::int64_t piece) {
      const std::int64_t inner = run_failing(2, 5, [&](std::int64_t k) { return piece % 2 == 0 && k == 3; });
      CHECK(inner == (piece % 2 == 0 ? 3 : -1));
      return piece == 5;
    });
    CHECK(outer == 5);
  }
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&wrong, t] {
      const auto bad = static_cast<std::int64_t>(3 * t);
      for (std::size_t round = 0; round < scaled(200); ++round) {
        wrong[t] += run_failing(3, 10, [&](std::int64_t piece) { return piece == bad; }) != bad;
        wrong[t] += run_failing(3, 10, [](std::int64_t) { return false; }) != -1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("memory refused within a piece of a group is an error, after which the group runs again") {
  constexpr std::int64_t size = 20003;
  const Type type{f64, {size}};
  GraphBuilder builder("many");  // with more arrays than a piece has inline storage for
  const Value x = builder.input("x", type), y = builder.input("y", type);
  std::vector<Value> results{ops::add(x, y)};
  for (std::size_t k = 1; k < 90; ++k)
    results.push_back(ops::mul(ops::sub(results.back(), x), k % 2 == 0 ? x : y));
  const Graph graph = builder.build(results);
  std::mt19937_64 random(5);
  const std::vector<Tensor> inputs{random_tensor(type, {}, random), random_tensor(type, {}, random)};
  const std::vector<const Tensor*> in{&inputs[0], &inputs[1]};
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    CpuOptions options;
    options.threads = threads;
    options.program.block = false;
    const Executable executable = CpuExecutor(options).compile(graph);
    std::vector<Tensor> expected(results.size()), got(results.size());
    executable.run_into(in, expected);
    executable.run_into(in, got);
    int failures = 0;
    for (std::int64_t after = 0;; ++after) {
      REQUIRE(after < 1000);
      bool failed = false;
      refuse_allocation(after);
      try {
        executable.run_into(in, got);
      } catch (const Error&) {
        failed = true;
      }
      const bool done = refusal_is_due();
      refuse_allocation(-1);
      if (done) break;
      CHECK(failed);
      failures += failed;
      executable.run_into(in, got);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(std::memcmp(got[i].bytes(), expected[i].bytes(), got[i].num_bytes()) == 0);
    }
    CHECK(failures > 0);
  }
}
