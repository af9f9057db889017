// A chain of a million operations on a stack of 512 KiB: built, hashed, compared, verified, dumped, loaded,
// merged, pruned and destroyed. A thread of 512 KiB makes the limit hold wherever the program runs.
#include <doctest/doctest.h>
#include <pthread.h>

#include <exception>
#include <functional>
#include <tidu/graph/json.hpp>
#include <tidu/graph/merge.hpp>

#include "support/test_primitives.hpp"

namespace tidu {
namespace {

using test::test_set;

// Runs `body` on a thread with 512 KiB of stack; rethrows its exceptions here.
void on_small_stack(const std::function<void()>& body) {
  struct Job {
    const std::function<void()>& body;
    std::exception_ptr error;
  } job{body, nullptr};
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, std::size_t{512} << 10) == 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    auto& mine = *static_cast<Job*>(argument);
    try {
      mine.body();
    } catch (...) {
      mine.error = std::current_exception();
    }
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &job) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (job.error) std::rethrow_exception(job.error);
}

Graph chain(std::size_t length) {
  GraphBuilder builder("chain", test_set());
  const Value x = builder.input("x", f64);
  Value y = x;
  for (std::size_t i = 0; i < length; i += 4) y = test::sin(test::add(test::sin(test::mul(y, x)), x));
  return builder.build({y});
}

TEST_CASE("a chain of a million operations is handled without recursion") {
  static constexpr std::size_t length = 1'000'000;
  on_small_stack([] {
    Graph graph = chain(length);
    CHECK(graph.num_operations() == length);
    Graph other = chain(length);
    CHECK(graph.structural_key() == other.structural_key());
    CHECK(structurally_equal(graph, other));
    verify(graph);
    {
      const std::string text = to_json(graph);
      Graph loaded = graph_from_json(text, test_set());
      CHECK(structurally_equal(graph, loaded));
      CHECK(to_json(loaded) == text);
    }
    const Graph merged = materialize_merge(std::vector{graph, other});
    CHECK(merged.num_operations() == length);
    CHECK(prune(merged).num_operations() == length);
    CHECK(to_text(graph).size() > length);
  });
}

TEST_CASE("a million operations that go back and forth between two graphs are merged without recursion") {
  static constexpr std::size_t length = 250'000;  // in each
  on_small_stack([] {
    GraphBuilder odd("odd", test_set());
    GraphBuilder even("even", test_set());
    Value x = even.input("x", f64);
    for (std::size_t i = 0; i < length; ++i) {
      x = test::sin(odd.external(even.data().keys[x.id()], f64));
      x = test::mul(even.external(odd.data().keys[x.id()], f64), even.value(0));
    }
    const Graph b = even.build({x});
    const Graph a = odd.build(std::span<const Value>());
    const Graph merged = materialize_merge(std::vector{a, b});
    CHECK(merged.num_operations() == 2 * length);
    CHECK(merged.externals().empty());
  });
}

TEST_CASE("a dump of a million brackets is refused") {
  on_small_stack([] {
    for (const char* open : {"[", "{\"a\":"}) {
      std::string text;
      for (int i = 0; i < 1'000'000; ++i) text += open;
      CHECK_THROWS_WITH_AS(static_cast<void>(graph_from_json(text, test_set())),
                           doctest::Contains("nested at most"), Error);
    }
  });
}

}  // namespace
}  // namespace tidu
