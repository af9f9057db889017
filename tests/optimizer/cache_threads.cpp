// cache_threads.cpp - CompileCache from several threads.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tidu/optimizer/cache.hpp"

using namespace tidu;

namespace {

void in_threads(int count, const auto& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("of threads that ask for the same at once one makes it") {
  CompileCache cache;
  std::atomic<int> made{0}, wrong{0};
  const std::vector<std::uint64_t> words{1};
  in_threads(4, [&](int) {
    const auto value = cache.get<int>({{1, 1}, words, nullptr}, [&] {
      ++made;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return CacheMade<int>{std::make_shared<const int>(3), 1};
    });
    if (*value != 3) ++wrong;
  });
  CHECK(made == 1);
  CHECK(wrong == 0);
  CHECK(cache.statistics().hits == 3);
}

TEST_CASE("threads that waited for a failed entry try for themselves") {
  CompileCache cache;
  std::atomic<int> tries{0}, thrown{0}, got{0};
  const std::vector<std::uint64_t> words{1};
  in_threads(4, [&](int) {
    try {
      const auto value = cache.get<int>({{1, 1}, words, nullptr}, [&] {
        const int mine = ++tries;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (mine <= 2) throw std::runtime_error("no");
        return CacheMade<int>{std::make_shared<const int>(mine), 1};
      });
      if (*value == 3) ++got;
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  });
  CHECK(tries == 3);
  CHECK(thrown == 2);
  CHECK(got == 2);
}

TEST_CASE("many threads, few places, and a clear now and then") {
  CompileCache cache({8, 1000});
  std::atomic<int> wrong{0};
  in_threads(4, [&](int thread) {
    std::uint64_t state = static_cast<std::uint64_t>(thread) + 1;
    for (int i = 0; i < 3000; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::vector<std::uint64_t> words{(state >> 33) % 20};
      try {
        const auto value = cache.get<std::uint64_t>({{words[0] % 3, 0}, words, nullptr}, [&] {
          if (i % 17 == 0) throw std::runtime_error("no");
          return CacheMade<std::uint64_t>{std::make_shared<const std::uint64_t>(words[0]), 30};
        });
        if (*value != words[0]) ++wrong;
      } catch (const std::runtime_error&) {
      }
      if (i % 500 == 0) cache.clear();
      if (cache.statistics().entries > 8 + 4) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(cache.statistics().bytes <= 1000);
}
