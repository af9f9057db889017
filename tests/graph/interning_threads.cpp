// Types, ops and graphs made, shared and dropped by several threads at once. ThreadSanitizer finds the races;
// the checks verify that equal objects are one record on all threads.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/support.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/infer.hpp"

namespace {

constexpr tidu::AttributeSpec scale_schema[] = {{.name = "factor", .kind = tidu::AttributeKind::integer}};
constinit const tidu::Primitive scale{.name = "test.scale",
                                      .attributes = scale_schema,
                                      .infer = [](tidu::InferContext& c) { c.result(c.operand(0)); }};

const tidu::PrimitiveSet& set() {
  static const tidu::PrimitiveSet made({&scale}, nullptr, nullptr);
  return made;
}

tidu::Graph chain(std::int64_t seed) {
  tidu::GraphBuilder builder("chain", set());
  tidu::Value x = builder.input("x", tidu::Type(tidu::DType::f32, {seed % 5 + 1, 3}));
  for (std::int64_t i = 0; i < 8; ++i) x = tidu::emit1(tidu::Op::make(scale, {{"factor", seed + i}}), {x});
  return builder.build({x});
}

void on_threads(int count, const auto& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("ops that threads make and drop at once are one record while somebody holds them") {
  const auto rounds = static_cast<std::int64_t>(tidu::test::scaled(5000));
  const tidu::Op held = tidu::Op::make(scale, {{"factor", 3}});
  std::atomic<int> wrong = 0;
  on_threads(4, [&](int) {
    for (std::int64_t i = 0; i < rounds; ++i) {
      const tidu::Op op = tidu::Op::make(scale, {{"factor", i % 7}});
      const tidu::Op copy = op;  // NOLINT(performance-unnecessary-copy-initialization): the count is tested
      if ((copy.record() == held.record()) != (i % 7 == 3) || copy.integer("factor") != i % 7) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("types that threads make at once are one record") {
  std::vector<std::vector<tidu::Type>> made(4);
  on_threads(4, [&](int thread) {
    for (std::int64_t i = 0; i < 200; ++i) {
      made[static_cast<std::size_t>(thread)].emplace_back(tidu::DType::f64, tidu::Shape{i % 97, 1009});
    }
  });
  for (std::size_t thread = 1; thread < made.size(); ++thread) CHECK(made[thread] == made[0]);
}

TEST_CASE("a graph that threads share is read and addressed at once, and built again to the same address") {
  const auto rounds = static_cast<std::int64_t>(tidu::test::scaled(200));
  std::atomic<int> wrong = 0;
  for (std::int64_t seed = 0; seed < rounds; ++seed) {
    const tidu::Graph shared = chain(seed);
    on_threads(3, [&](int) {
      const tidu::Graph copy = shared;
      const tidu::Graph again = chain(seed);
      if (copy.structural_key() != again.structural_key()) ++wrong;
      if (copy.key(copy.outputs()[0]) != again.key(again.outputs()[0])) ++wrong;
      if (!structurally_equal(copy, again)) ++wrong;
    });
    if (shared.structural_key() == chain(seed + 1).structural_key()) ++wrong;
  }
  CHECK(wrong == 0);
}
