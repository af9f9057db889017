// lazy_threads.cpp - lazy mode on several threads; promises that another thread reads or drops.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tidu/tidu.hpp"

using namespace tidu;

TEST_CASE("[N3] threads with traces of their own share what was compiled") {
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

TEST_CASE("[N2] a promise may be read, used and dropped on another thread") {
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

TEST_CASE("[N6] a promise outlives the thread that made it") {
  Array y;
  std::thread maker([&y] {
    const Lazy lazy;
    y = sin(Array(0.5)) + 1.0;
  });
  maker.join();
  CHECK(y.item() == doctest::Approx(std::sin(0.5) + 1.0));
}
