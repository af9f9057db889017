// lazy_fork_threads.cpp - fork() while several threads are in lazy mode.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tidu/tidu.hpp"

using namespace tidu;

namespace {

#if defined(TIDU_TSAN) || defined(TIDU_ASAN)
// The one's runtime has threads of its own; the allocator of the other (that of clang 14) is held in a child
// for ever where another thread was in it.
constexpr bool forks = false;
#else
constexpr bool forks = true;
#endif

// The actions of a child: it records, writes to an operand, reads. For other sizes other programs are
// compiled.
bool is_sound(std::int64_t n) {
  const Lazy lazy;
  Array x = full(Shape{n}, 2.0);
  const Array y = x * 3.0 + 1.0;
  x += 1.0;
  Tensor written = Tensor::zeros(Type(f64, Shape{n}));
  const Array z = Array(written) + 10.0;
  written.mutable_data<double>()[0] = 9.0;
  return y[0].item() == 7.0 && x[n - 1].item() == 3.0 && z[0].item() == 10.0;
}

}  // namespace

TEST_CASE("[N2] a child after fork is not held up by lazy operations of other threads") {
  if (!forks) return;
  const Lazy lazy;
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {  // traces of their own, and writes, which ask all traces
      for (std::int64_t n = 0; !ends; ++n)
        if (!is_sound(300 + n % 1000)) ++wrong;
    });
  }
  // LazyResults of this thread, which another one reads.
  std::vector<Array> lazy_arrays;
  Array last = Array(1.0);
  for (int i = 0; i < 2000; ++i) lazy_arrays.push_back(last = last + 1.0);
  threads.emplace_back([&wrong, lazy_arrays] {
    for (std::size_t i = 0; i < lazy_arrays.size(); ++i)
      if (lazy_arrays[i].item() != 2.0 + static_cast<double>(i)) ++wrong;
  });
  int sound = 0;
  constexpr int repeats = 20;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(20);
      _exit(is_sound(2000 + repeat) && lazy_arrays.back().item() == 2001.0 ? 17 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    sound += WIFEXITED(status) && WEXITSTATUS(status) == 17 ? 1 : 0;
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(sound == repeats);
  CHECK(wrong == 0);
}
