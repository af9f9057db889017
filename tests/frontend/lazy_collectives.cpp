// lazy_collectives.cpp - which of two processes reads a value first must not change the order of their
// collectives, nor whether they run.
#include <chrono>
#include <mutex>
#include <thread>

#include "support.hpp"
#include "tidu/frontend/collectives.hpp"
#include "tidu/frontend/hot_paths.hpp"
#include "tidu/frontend/lazy.hpp"

namespace tidu::test {
namespace {

// Logs the first elements of the summed arrays, and the threads.
struct Exchanges {
  std::mutex mutex;
  std::vector<double> operands;
  std::vector<std::thread::id> threads;

  CpuExecutor executor() {
    return cpu().with_kernel("psum", [this](const KernelCall& call) {
      {
        const std::lock_guard lock(mutex);
        operands.push_back(call.input(0).at(0).real());
        threads.push_back(std::this_thread::get_id());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto x = call.input(0).elements<double>();
      const auto y = call.output().mutable_elements<double>();
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2.0 * x[i];
    });
  }
};

TEST_CASE("[N8] collectives run when they are called, whatever is read") {
  Exchanges exchanges;
  const CpuExecutor executor = exchanges.executor();
  const ExecutorGuard in_force(executor);
  const Array a(1.0), b(10.0);
  const auto call = trace([](const Array& x) { return psum(x, "r", 2) * 3.0; }, f64);
  {
    const Lazy lazy;
    const Array first = psum(a * 1.0, "r", 2), second = psum(b, "r", 2);
    const Array unread = cond(
        Array(true), [](const Array& x) { return psum(x, "r", 2); }, [](const Array& x) { return x; },
        a * 5.0);
    CHECK(second.item() == 20.0);
    CHECK(first.item() == 2.0);
  }
  CHECK(exchanges.operands == std::vector<double>{1.0, 10.0, 5.0});
}

TEST_CASE("[G4] a collective whose result has no reader runs in a hot sequence as in any") {
  Exchanges exchanges;
  const CpuExecutor executor = exchanges.executor();
  const ExecutorGuard in_force(executor);
  Array w = array({0.5, 0.25});
  w.set_requires_grad();
  std::size_t expected = 0;
  const HotPaths guard;
  for (int i = 0; i < 40; ++i) {
    { const Array unread = psum(sum(w * 2.0), "r", 2); }
    w.zero_grad();
    sum(psum(w * w, "r", 2)).backward();
    const NoGrad off;
    w -= 0.01 * *w.grad();
    expected += 3;
    CHECK(exchanges.operands.size() == expected);
  }
}

TEST_CASE("backward runs collectives one after another on the calling thread, whatever workers it has") {
  Exchanges exchanges;
  const CpuExecutor executor = exchanges.executor();
  const ExecutorGuard in_force(executor);
  Array w = array({0.5, 0.25});
  w.set_requires_grad();
  std::vector<std::vector<double>> orders;
  for (const int workers : {1, 4, 4, 4}) {
    Array loss(0.0);
    for (int k = 0; k < 8; ++k) loss = loss + sum(psum(w * (k + 1.0), "r", 2)) * (10.0 + k);
    exchanges.operands.clear();
    exchanges.threads.clear();
    BackwardOptions options;
    options.workers = workers;
    loss.backward(options);
    orders.push_back(exchanges.operands);
    CHECK(exchanges.operands.size() == 8);
    for (const std::thread::id thread : exchanges.threads) CHECK(thread == std::this_thread::get_id());
    CHECK(orders.back() == orders.front());
  }
}

}  // namespace
}  // namespace tidu::test
