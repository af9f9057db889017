// lazy_threads.cpp - lazy mode on several threads; lazy tensors that another thread reads or drops.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "tidu/tidu.hpp"

using namespace tidu;

TEST_CASE("[N3] threads with traces of their own share compiled programs") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 100; ++i) {
        const double at = 0.01 * i + t;
        Array x(at);
        x.set_requires_grad();
        {
          const Lazy lazy;
          (sin(x) * x).backward();
        }
        if (std::abs(x.grad()->item() - (std::cos(at) * at + std::sin(at))) > 1e-12) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("[N2] a lazy tensor may be read, used and dropped on another thread") {
  for (int round = 0; round < 20; ++round) {
    const Lazy lazy;
    const Array x(1.5);
    std::vector<Array> values;
    for (int i = 0; i < 50; ++i) values.push_back(values.empty() ? x + 1.0 : values.back() + 1.0);
    std::vector<Array> theirs = values;
    std::atomic<int> wrong{0};
    std::thread other([&wrong, theirs = std::move(theirs)]() mutable {
      for (std::size_t i = theirs.size(); i-- > 0;) {
        if (theirs[i].item() != 2.5 + static_cast<double>(i)) ++wrong;
        if ((theirs[i] * 2.0).item() != 5.0 + 2.0 * static_cast<double>(i)) ++wrong;
        theirs.pop_back();
      }
    });
    Array more = values.back();
    for (int i = 0; i < 200; ++i) {
      more = more * 1.0;
      if (i % 20 == 0 && more.item() != 51.5) ++wrong;
      if (i % 4 == 0 && !values.empty()) values.pop_back();
    }
    other.join();
    CHECK(wrong == 0);
  }
}

// x + sin(0.25), which is folded.
static Graph with_constant() {
  GraphBuilder builder("with_constant");
  const Value x = builder.input("x", Type(f64, {5}));
  const Value constant = ops::sin(ops::full_like(x, 0.25));
  return builder.build({constant + x});
}

TEST_CASE("[N5] a thread that waits for another one's compilation keeps no thread from its lazy tensors") {
  // A constant is folded: its kernel runs while the program is compiled by the first thread that needs it,
  // and reads a lazy tensor of the second one.
  std::atomic<bool> recorded{false}, folding{false}, asking{false};
  Array lazy_array;
  double seen = 0.0;
  const CpuExecutor nested = cpu().with_kernel("sin", [&](const KernelCall& call) {
    if (!folding.exchange(true)) {
      while (!asking) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it is to be waiting by then
      seen = lazy_array.item();
    }
    const double* x = call.input(0).data<double>();
    double* y = call.output().mutable_data<double>();
    for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = std::sin(x[i]);
  });
  std::atomic<int> wrong{0};
  const Graph graph = with_constant();
  const Array ones = full({5}, 1.0);
  const auto read = [&] {
    const Array y = call_graph(graph, {ones})[0];
    if (folding) asking = true;
    if (std::abs(y.tensor().at(4).real() - std::sin(0.25) - 1.0) > 1e-15) ++wrong;
  };
  std::thread first([&] {
    const ExecutorGuard guard(nested);
    const Lazy lazy;
    while (!recorded) std::this_thread::yield();
    read();
  });
  std::thread second([&] {
    const ExecutorGuard guard(nested);
    const Lazy lazy;
    lazy_array = Array(2.0) * 3.0;
    recorded = true;
    while (!folding) std::this_thread::yield();
    read();
  });
  first.join();
  second.join();
  CHECK(wrong == 0);
  CHECK(seen == 6.0);
}

TEST_CASE("[N2] a lazy tensor of one thread is an operand of another one's") {
  const Lazy lazy;
  const Array x(1.5), theirs = (x + 1.0) * 2.0;
  double seen = 0.0;
  std::thread other([&] {
    const Lazy here;
    Array sum_of(10.0);
    for (int i = 0; i < 8; ++i) sum_of = sum_of + 1.0;
    const Array mixed = sum_of * theirs;
    seen = mixed.item();
  });
  other.join();
  CHECK(seen == 18.0 * 5.0);
  CHECK(theirs.item() == 5.0);
}

TEST_CASE("[N6] a lazy tensor outlives the thread that made it") {
  Array y;
  std::thread producer([&y] {
    const Lazy lazy;
    y = sin(Array(0.5)) + 1.0;
  });
  producer.join();
  CHECK(y.item() == doctest::Approx(std::sin(0.5) + 1.0));
}
