// hot_deferred_threads.cpp - gradients that a hot step left to who reads them, read by other threads while
// the next steps come.
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "support.hpp"

namespace tidu::test {

TEST_CASE("[G5] gradients that were left are read by several threads while steps go on") {
  constexpr int steps = 60;
  const auto train = [](const auto& look) {
    Array w = leaf(random_array({160, 120}, 1, 0.1));
    const Array x = random_array({8, 160}, 2), y = random_array({8, 120}, 3);
    for (int i = 0; i < steps; ++i) {
      const Array loss = mean(square(tanh(matmul(x, w)) - y));
      w.zero_grad();
      loss.backward();
      if (i % 2 == 0) look(i, *w.grad());  // before anything has run
      {
        const NoGrad guard;
        w -= 0.5 * *w.grad();
      }
      (void)loss.item();
      if (i % 2 == 1) look(i, *w.grad());
    }
  };
  std::vector<Tensor> expected, got(steps);
  train([&](int, const Array& gradient) { expected.push_back(gradient.tensor().clone()); });

  std::mutex mutex;
  std::vector<std::pair<int, Tensor>> left;
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  const auto read = [&] {
    for (;;) {
      const bool last = over;
      std::optional<std::pair<int, Tensor>> next;
      {
        const std::lock_guard lock(mutex);
        if (!left.empty()) {
          next = left.back();  // the other one may read it, too
          if (left.size() > 1 || last) left.pop_back();
        }
      }
      if (!next && last) return;
      if (!next) continue;
      const Tensor& of_plain = expected[static_cast<std::size_t>(next->first)];
      for (std::int64_t k = 0; k < of_plain.size(); k += 501)
        if (std::abs(of_plain.at(k) - next->second.at(k)) > 1e-12) ++wrong;
    }
  };
  std::thread first(read), second(read);
  std::thread hot([&] {
    const HotPaths guard;
    train([&](int i, const Array& gradient) {
      if (i % 5 != 0) return;
      const std::lock_guard lock(mutex);
      left.emplace_back(i, gradient.tensor());
    });
    CHECK(hot_statistics().deferred > 0);
  });
  hot.join();
  over = true;
  first.join();
  second.join();
  CHECK(wrong == 0);
}

}  // namespace tidu::test
