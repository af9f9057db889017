// cache.cpp - CompileCache: hits, misses and the identity of requests; limits, failures, counters.
#include "tidu/optimizer/cache.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"

using namespace tidu;

namespace {

using Words = std::vector<std::uint64_t>;

// The result for `words`, and whether it was made just now.
int get(CompileCache& cache, const Key128& address, const Words& words, int value, bool* made = nullptr,
        std::size_t bytes = 10) {
  if (made != nullptr) *made = false;
  return *cache.get<int>({address, words, nullptr}, [&] {
    if (made != nullptr) *made = true;
    return CacheMade<int>{std::make_shared<const int>(value), bytes};
  });
}
bool makes(CompileCache& cache, std::uint64_t word, std::size_t bytes = 10) {
  bool made = false;
  CHECK(get(cache, {word, word}, {word}, static_cast<int>(word), &made, bytes) == static_cast<int>(word));
  return made;
}

Graph graph_of(const char* name, int extra) {
  GraphBuilder builder(name);
  Value x = builder.input("x", f64);
  for (int i = 0; i <= extra; ++i) x = ops::sin(x);
  return builder.build({x});
}

}  // namespace

TEST_CASE("an entry is found again, by structure and not by name") {
  CompileCache cache;
  CHECK(makes(cache, 1));
  CHECK_FALSE(makes(cache, 1));
  CHECK(makes(cache, 2));
  const CacheStatistics seen = cache.statistics();
  CHECK(seen.hits == 1);
  CHECK(seen.misses == 2);
  CHECK(seen.entries == 2);
  CHECK(seen.bytes == 20);
  CHECK(seen.failures == 0);
  CHECK(seen.evictions == 0);
  CHECK(cache.clear() == 2);
  CHECK(cache.statistics().bytes == 0);
  CHECK(makes(cache, 1));
}

TEST_CASE("find() returns an existing entry, makes nothing and waits for no thread") {
  CompileCache cache;
  const Words words{3};
  const CacheRequest request{{3, 3}, words, nullptr};
  CHECK(cache.find<int>(request) == nullptr);
  (void)cache.get<int>(request, [&] {
    CHECK(cache.find<int>(request) == nullptr);  // it is being made
    return CacheMade<int>{std::make_shared<const int>(7), 1};
  });
  REQUIRE(cache.find<int>(request) != nullptr);
  CHECK(*cache.find<int>(request) == 7);
  CHECK(cache.find<double>(request) == nullptr);
  CHECK(cache.statistics().hits == 2);
  CHECK(cache.statistics().misses == 1);
}

TEST_CASE("equal addresses never merge different requests") {
  CompileCache cache;
  const Key128 same{7, 7};
  bool made = false;
  CHECK(get(cache, same, {1, 2}, 12) == 12);
  CHECK(get(cache, same, {2, 1}, 21, &made) == 21);
  CHECK(made);
  CHECK(get(cache, same, {1, 2, 0}, 120) == 120);
  CHECK(get(cache, same, {}, 5) == 5);
  CHECK(get(cache, same, {1, 2}, 0, &made) == 12);
  CHECK_FALSE(made);
  CHECK(get(cache, same, {2, 1}, 0) == 21);
  // Neither do objects of two kinds, or requests with a graph and without.
  const Words words{1, 2};
  const auto text = [&](const Graph* graph) {
    return *cache.get<std::string>({same, words, graph}, [&] {
      return CacheMade<std::string>{std::make_shared<const std::string>(graph ? graph->name() : "none"), 1};
    });
  };
  CHECK(text(nullptr) == "none");
  const Graph a = graph_of("a", 0), b = graph_of("b", 0), longer = graph_of("a", 1);
  CHECK(text(&a) == "a");
  CHECK(text(&b) == "b");  // messages name it
  CHECK(text(&longer) == "a");
  CHECK(cache.statistics().misses == 8);
  const Graph again = graph_of("a", 0);
  const std::uint64_t misses = cache.statistics().misses;
  CHECK(text(&again) == "a");
  CHECK(cache.statistics().misses == misses);
}

TEST_CASE("derivatives that are derived again are compiled once") {
  const Tensor x = Tensor::scalar(0.5), one = Tensor::scalar(1.0);
  const Graph graph = graph_of("derived", 2);
  for (const bool backward : {false, true}) {
    const auto derive = [&] { return backward ? vjp(graph, {"x"}) : jvp(graph, {"x"}); };
    const std::uint64_t misses = compile_cache().statistics().misses;
    for (int i = 0; i < 5; ++i) (void)cpu().run(derive(), {x, one});
    CHECK(compile_cache().statistics().misses == misses + 1);
    // Each has keys of its own, by whose digits its inputs can be named.
    for (int i = 0; i < 2; ++i) {
      const Graph again = derive();
      const std::string digits = to_hex(again.input_key(1).bits());
      const NamedTensor named[] = {{digits, one}, {"x", x}};
      CHECK(cpu().compile(again).run_named(named).size() == 2);
    }
    CHECK(compile_cache().statistics().misses == misses + 1);
  }
}

TEST_CASE("messages name an input without a name by its own key") {
  for (const std::uint64_t key : {5U, 6U}) {
    GraphBuilder builder("nameless");
    const InputKey input = InputKey::from_bits({key, key});
    const Graph nameless = builder.build({ops::sin(builder.input(input, f64))});
    const Tensor wrong(Type(f32, {}));
    const auto result = cpu().compile(nameless).try_run(std::span(&wrong, 1));
    REQUIRE_FALSE(result.has_value());
    CHECK(std::string(result.error().what()).find(to_hex(input.bits())) != std::string::npos);
  }
}

TEST_CASE("the longest unused goes first, and bytes count") {
  CompileCache cache({3, 100});
  for (const std::uint64_t word : {1U, 2U, 3U}) CHECK(makes(cache, word));
  CHECK_FALSE(makes(cache, 1));
  CHECK(makes(cache, 4));  // 2 goes
  CHECK(cache.statistics().evictions == 1);
  CHECK_FALSE(makes(cache, 1));
  CHECK_FALSE(makes(cache, 3));
  CHECK_FALSE(makes(cache, 4));
  CHECK(makes(cache, 2));  // 1 goes
  CHECK(makes(cache, 5, 85));
  CHECK(cache.statistics().bytes <= 100);
  CHECK_FALSE(makes(cache, 5, 85));
  // A result that is too large for the whole cache is returned, and not kept.
  CHECK(makes(cache, 6, 1000));
  CHECK(makes(cache, 6, 1000));
  CHECK(cache.statistics().entries == 0);
  CHECK(makes(cache, 7));
  CHECK(makes(cache, 8));
  CHECK(cache.set_limits({1, 100}).entries == 3);
  CHECK(cache.statistics().entries == 1);
  CHECK_FALSE(makes(cache, 8));
  CHECK(cache.limits().entries == 1);
  cache.set_limits({0, 0});
  CHECK(makes(cache, 8));
  CHECK(makes(cache, 8));
}

TEST_CASE("a dropped entry lives on with its holders") {
  CompileCache cache({1, 100});
  const auto make = [](int value) {
    return [value] { return CacheMade<int>{std::make_shared<const int>(value), 1}; };
  };
  const Words one{1}, two{2};
  const auto first = cache.get<int>({{1, 1}, one, nullptr}, make(1));
  const auto second = cache.get<int>({{2, 2}, two, nullptr}, make(2));
  CHECK(first.use_count() == 1);
  CHECK(second.use_count() == 2);
  CHECK(*first == 1);
}

TEST_CASE("a failure leaves nothing, and the next request makes it") {
  CompileCache cache;
  const Words words{1};
  const CacheRequest request{{1, 1}, words, nullptr};
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(cache.get<int>(request, []() -> CacheMade<int> { throw std::runtime_error("no"); }),
                         "no", std::runtime_error);
  }
  CHECK(cache.statistics().failures == 2);
  CHECK(cache.statistics().entries == 0);
  CHECK(makes(cache, 1));
  CHECK_FALSE(makes(cache, 1));
}

TEST_CASE("an entry may itself be made with the cache, even with the same request") {
  CompileCache cache;
  const Words words{1}, other{2};
  const auto inner = [&] {
    CHECK(makes(cache, 2));
    return CacheMade<int>{cache.get<int>({{1, 1}, words, nullptr},
                                         [] {
                                           return CacheMade<int>{std::make_shared<const int>(5), 1};
                                         }),
                          1};
  };
  CHECK(*cache.get<int>({{1, 1}, words, nullptr}, inner) == 5);
  CHECK(cache.statistics().entries == 2);
  CHECK_FALSE(makes(cache, 2));
}
