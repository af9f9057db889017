// hot_random_threads.cpp - random loops on several threads, with other threads that read their lazy tensors
// meanwhile. TIDU_TEST_SCALE makes it longer.
#include <doctest/doctest.h>

#include <deque>
#include <mutex>

#include "frontend/hot_random.hpp"
#include "support/support.hpp"

namespace tidu::test {
namespace {

// Values that wait for a reader.
class Box {
 public:
  void put(const Array& value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(value);
  }
  std::optional<Array> take() {
    const std::lock_guard lock(mutex_);
    if (values_.empty()) return std::nullopt;
    std::optional<Array> value = std::move(values_.back());
    values_.pop_back();
    return value;
  }

 private:
  std::mutex mutex_;
  std::deque<Array> values_;
};

double total(const Array& array) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < array.size(); ++i) sum += array.tensor().at(i).real();
  return sum;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-7 * (1.0 + std::abs(a)) || (a != a && b != b); }

TEST_CASE("[G5] random loops, and readers of their lazy tensors") {
  constexpr unsigned num_loops = 3;
  const unsigned count = static_cast<unsigned>(scaled(6));
  std::atomic<unsigned> wrong{0}, running{num_loops};
  Box box;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < num_loops; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < count; ++i) {
        const unsigned seed = 1000 + num_loops * i + t;
        const auto kept_only = [](const Array&) {};
        RandomLoop plain(seed, false, kept_only);
        const std::vector<double> expected = plain.run();
        const HotPaths guard;
        RandomLoop hot(seed, false, [&](const Array& value) { box.put(value); });
        const std::vector<double>& got = hot.run();
        if (first_difference(expected, got)) ++wrong;
      }
      --running;
    });
  }
  for (const bool computes : {false, true}) {
    threads.emplace_back([&, computes] {
      const HotPaths guard(computes);
      while (running != 0) {
        const std::optional<Array> value = box.take();
        if (!value) {
          std::this_thread::yield();
          continue;
        }
        const double seen = computes ? total(*value * 1.0 + 0.0) : total(*value);
        if (!near(seen, total(*value))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace tidu::test
