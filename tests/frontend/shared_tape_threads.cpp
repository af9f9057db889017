// shared_tape_threads.cpp - Arrays on several threads: backward calls at once on one tape, tapes of different
// threads joined, workers, and modes that belong to a thread.
#include <atomic>
#include <functional>
#include <thread>

#include "support.hpp"

namespace tidu::test {
namespace {

constexpr int num_threads = 4;

void on_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

Array wide(const Array& x, int width) {
  std::vector<Array> parts;
  for (int i = 0; i < width; ++i) parts.push_back(sum(sin(x * (i + 1.0)) * exp(x / (i + 1.0))));
  Array total = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) total += parts[i] * parts[i - 1];
  return total;
}

TEST_CASE("backward calls at once on a shared tape give the same gradients to the last bit") {
  Array x = random_array({5}, 1);
  x.set_requires_grad();
  const Array y = wide(x, 8);
  BackwardOptions options;
  options.keep_graph = true;
  const Array expected = *grad_of(y, {x}, options)[0];
  std::atomic<int> different{0};
  const int rounds = static_cast<int>(scaled(20));
  on_threads([&](int thread) {
    BackwardOptions mine = options;
    mine.workers = 1 + thread;
    for (int round = 0; round < rounds; ++round)
      if (distance(*grad_of(y, {x}, mine)[0], expected) != 0.0) ++different;
  });
  CHECK(different == 0);
}

TEST_CASE("calls at once that add to one slot") {
  Array x(2.0);
  x.set_requires_grad();
  const Array y = x * x;
  const int rounds = static_cast<int>(scaled(50));
  on_threads([&](int) {
    BackwardOptions options;
    options.keep_graph = true;
    for (int round = 0; round < rounds; ++round) y.backward(options);
  });
  CHECK(x.grad()->item() == 4.0 * num_threads * rounds);
}

TEST_CASE("each thread records on values that others recorded, and its modes are its own") {
  Array x(0.5);
  x.set_requires_grad();
  const Array shared = sin(x);
  std::vector<Array> results(num_threads);
  std::atomic<int> wrong{0};
  on_threads([&](int thread) {
    if (thread % 2 == 0) {
      const NoGrad guard;
      results[static_cast<std::size_t>(thread)] = shared * (thread + 1);
      if (results[static_cast<std::size_t>(thread)].requires_grad()) ++wrong;
    } else {
      results[static_cast<std::size_t>(thread)] = shared * (thread + 1);
      if (!results[static_cast<std::size_t>(thread)].requires_grad()) ++wrong;
    }
  });
  CHECK(wrong == 0);
  (results[0] + results[1] + results[2] + results[3]).backward();
  CHECK(x.grad()->item() == doctest::Approx(6 * std::cos(0.5)));
}

TEST_CASE("workers see the caller's modes") {
  Array x = random_array({3}, 2);
  x.set_requires_grad();
  std::atomic<int> recorded{0};
  std::vector<Array> parts;
  for (int i = 0; i < 8; ++i) {
    parts.push_back(sin(x * (i + 1.0)));
    parts.back().register_hook(
        [&](const Array& cotangent) { recorded += (x * cotangent).requires_grad() ? 1 : 0; });
  }
  BackwardOptions options;
  options.workers = 4;
  sum(stack(parts)).backward(options);
  CHECK(recorded == 0);  // without create_graph, hooks do not record
  CHECK(x.grad().has_value());
}

TEST_CASE("transforms and compiled functions on several threads") {
  const auto f = [](const Array& x) { return sum(pow(x, 3) * sin(x)); };
  const auto compiled = compile(value_and_grad(f));
  const Array x = random_array({4}, 3);
  const Array expected = grad(f)(x);
  std::atomic<int> wrong{0};
  on_threads([&](int) {
    for (int round = 0; round < 5; ++round) {
      if (distance(grad(f)(x), expected) != 0.0) ++wrong;
      if (!(distance(compiled(x).second, expected) < 1e-12)) ++wrong;
      if (!(distance(jacrev(f)(x), expected) < 1e-12)) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace tidu::test
