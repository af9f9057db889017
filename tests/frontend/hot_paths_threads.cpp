// hot_paths_threads.cpp - hot sequences of several threads at once.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <optional>
#include <thread>
#include <vector>

#include "descend.hpp"
#include "tidu/tidu.hpp"

using namespace tidu;

TEST_CASE("[G5] threads with sequences of their own do not disturb each other") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      const HotPaths guard(t != 3);  // one runs plain
      for (int i = 0; i < 60; ++i) {
        const double at = 0.01 * i + t;
        Array x(at);
        x.set_requires_grad();
        Array y = x;
        double expected = at, derivative = 1.0;
        for (int k = 0; k < 3 + t; ++k) {  // another sequence in each
          y = sin(y) + 1.0;
          derivative *= std::cos(expected);
          expected = std::sin(expected) + 1.0;
        }
        y.backward();
        if (std::abs(y.item() - expected) > 1e-12) ++wrong;
        if (std::abs(x.grad()->item() - derivative) > 1e-12) ++wrong;
      }
      const HotStatistics seen = hot_statistics();
      if (t == 3 ? seen.sequences != 0 : seen.sequences == 0 || seen.deviations > 8) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(hot_statistics().expected == 0);
}

TEST_CASE("[G5] a writer to values that one thread reads does not affect pending values of another") {
  std::atomic<int> stage{0}, wrong{0};
  const auto wait_for = [&](int wanted) {
    while (stage < wanted) std::this_thread::yield();
  };
  std::thread other([&] {
    const HotPaths guard;
    const Array x = array({1.0, 2.0});
    Array y, z;
    for (int i = 0; i < 40; ++i) {
      y = sin(x) + 1.0;
      z = y * y;
      if (i < 39) (void)sum(z).item();
    }
    if (!is_lazy(z)) ++wrong;
    stage = 1;
    wait_for(2);
    if (!is_lazy(z) || !is_lazy(y)) ++wrong;
    if (std::abs(z.tensor().at(1).real() - std::pow(std::sin(2.0) + 1.0, 2)) > 1e-14) ++wrong;
  });
  wait_for(1);
  {
    const Lazy lazy;
    const Array mine = array({3.0, 4.0});
    Tensor storage = mine.tensor();
    const Array doubled = mine * 2.0;
    storage.mutable_data<double>()[0] = 7.0;  // its readers are evaluated before that
    CHECK_FALSE(is_lazy(doubled));
    CHECK(doubled.tensor().at(0).real() == 6.0);
  }
  stage = 2;
  other.join();
  CHECK(wrong == 0);
}

TEST_CASE("[G3] [G5] lazy tensors of hot backward calls are read by another thread while they go on") {
  std::atomic<int> wrong{0};
  const Array x = array({0.5, -1.0, 2.0});
  Array w = array({0.1, 0.2, 0.3});
  w.set_requires_grad();
  const HotPaths guard;
  const HotStatistics before = hot_statistics();
  // A reader who is early or late as the machine likes makes steps that are not like one another.
  const auto backwards = [&before] { return hot_statistics().backwards - before.backwards; };
  for (int step = 0; step < 60 || (backwards() <= 20 && step < 5000); ++step) {
    const Array h = tanh(w * x), loss = sum(h * h);
    w.zero_grad();
    loss.backward();
    const Array gradient = *w.grad();
    std::thread reader([&] {
      // d/dw of tanh(w x)^2 is 2 tanh(w x) (1 - tanh(w x)^2) x; w stays.
      const double t = std::tanh(0.1 * 0.5);
      if (std::abs(gradient.tensor().at(0).real() - 2.0 * t * (1.0 - t * t) * 0.5) > 1e-12) ++wrong;
    });
    const Array more = gradient * 2.0 + exp(h);  // at once with the reader
    reader.join();
    if (!(sum(more).item() > 0.0)) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(backwards() > 20);
}

TEST_CASE("[G3] [G4] threads that read results of a hot step at once see those of one thread") {
  using namespace tidu::test;
  Array plain = leaf(random_array({120, 90}, 1)), plain_m = zeros({120, 90}, f64);
  std::vector<double> expected, seen;
  descend(plain, plain_m, 60, [&](const Array& loss) {
    expected.push_back(loss.item());
    expected.push_back(sum(plain).item());
  });
  for (const bool copied : {false, true}) {  // a copy of cpu() has its programs
    seen.clear();
    Array w = leaf(random_array({120, 90}, 1)), m = zeros({120, 90}, f64);
    const CpuExecutor mine = cpu();
    std::optional<ExecutorGuard> executor;
    if (copied) executor.emplace(mine);
    const HotPaths guard;
    descend(w, m, 60, [&](const Array& loss) {
      double total = 0;
      std::thread reader([&total, made = w] {
        for (const double element : made.tensor().elements<double>()) total += element;
      });
      seen.push_back(loss.item());
      reader.join();
      seen.push_back(total);
    });
    REQUIRE(seen.size() == expected.size());
    for (std::size_t i = 0; i < seen.size(); ++i)
      CHECK(seen[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  }
}
