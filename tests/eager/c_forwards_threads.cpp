// c_forwards_threads.cpp - [C10] [T3] forwards on several threads at once, each with its own recorder, on
// shared leaves, shared values and shared cached graphs.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "counted.hpp"
#include "support.hpp"
#include "support/support.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::test {
namespace {

TEST_CASE("[C10] forwards and backwards on several threads, over shared values") {
  Tape shared;
  const Var x = shared.leaf(0.5);
  const Var hub = shared.apply<prim::sin>({x});
  const std::size_t rounds = scaled(200);
  std::array<std::size_t, 4> right{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < rounds; ++i) {
        Tape tape;
        // A structure that is new to every thread, so that cached graphs are made at once too.
        Var y = tape.apply<prim::exp>({hub});
        for (std::size_t k = 0; k < i % 5; ++k) y = tape.apply<prim::mul>({y, x});
        GraphBuilder builder("layer " + std::to_string(i));
        const Value a = builder.input("a", f64);
        const RecordedGraph graph = RecordedGraph::of(builder.build({a * a}));
        y = tape.apply(graph, {y})[0];
        eager::BackwardOptions options;
        options.keep_graph = true;
        const double n = static_cast<double>(i % 5);
        const double value = std::exp(std::sin(0.5)) * std::pow(0.5, n);
        const double expected = 2 * value * (std::cos(0.5) * value + n * value / 0.5);
        if (std::abs(item(backward(y, std::nullopt, options), x) - expected) < 1e-12 * expected) ++right[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::size_t count : right) CHECK(count == rounds);
}

// A meeting point of two threads, which one may leave without the other.
class Meeting {
 public:
  void come() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++came_;
    changed_.notify_all();
    if (changed_.wait_for(lock, std::chrono::seconds(20), [this] { return came_ == 2; })) ++met_;
  }
  int met() const { return met_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int came_ = 0, met_ = 0;
};
Meeting meeting;

// y = x; its JVP rule waits for that of a forward on another thread.
const Primitive meets{.name = "test.meets",
                      .linearity = linearity::linear,
                      .infer = [](InferContext& c) { c.result(c.operand(0)); },
                      .jvp = [](JvpContext& c) -> Derivatives {
                        meeting.come();
                        return c.tangent(0);
                      },
                      .transpose = [](TransposeContext& c) -> Derivatives { return c.cotangent(); }};

TEST_CASE("[C10] two threads are in the forward of one operation at once, neither waits for the other") {
  const PrimitiveSet set = standard_primitives().with({&meets});
  std::array<double, 2> gradients{};
  std::vector<std::thread> threads;
  for (double& gradient : gradients) {
    threads.emplace_back([&set, &gradient] {
      counted::CountedTape tape;
      const counted::Var x = tape.leaf(0.5);
      const counted::Var y = tape.apply(Op::make(meets), {&x}, set);
      gradient = tape.backward(y).at(x.who.key).value;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(meeting.met() == 2);
  for (const double gradient : gradients) CHECK(gradient == 1.0);
}

}  // namespace
}  // namespace tidu::test
