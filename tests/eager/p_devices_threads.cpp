// p_devices_threads.cpp - P10, P11, P9 on several devices: one thread per device, waits between their
// streams, nested calls that go from device to device.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <system_error>

#include "p_device.hpp"
#include "support/support.hpp"
#include "threads_of_process.hpp"

namespace tidu::test {
namespace {

TEST_CASE("[P10] the calling thread drives the host, one thread each drives a device") {
  Machine machine;
  MachineTape tape(machine);
  PlacedVar v = tape.leaf(0.3, {0, 0});
  for (std::uint32_t i = 0; i < 24; ++i) v = tape.apply<prim::sin>({v}, {i % 4, i % 2});
  std::map<std::uint32_t, std::set<std::thread::id>> threads;
  for (int call = 0; call < 3; ++call) {
    machine.clear();
    BackwardOptions options = keep();
    options.workers = 1 + call;
    run(machine, {placed_root(v)}, options);
    for (const Machine::Work& work : machine.works()) {
      if (work.at.device != 0 || call == 0) threads[work.at.device].insert(work.thread);
    }
  }
  REQUIRE(threads.size() == 4);
  CHECK(threads[0] == std::set<std::thread::id>{std::this_thread::get_id()});
  std::set<std::thread::id> all;
  for (const auto& [device, some] : threads) {
    CHECK(some.size() == 1);
    all.insert(some.begin(), some.end());
  }
  CHECK(all.size() == 4);
  CHECK(machine.first_race() == "");
}

TEST_CASE("[P11] random programs over devices and streams: no race, the same gradients as on one") {
  std::mt19937 random(5);
  for (std::size_t round = 0; round < scaled(60); ++round) {
    Machine machine;
    MachineTape tape(machine);
    MachineTape plain(machine);
    const auto place = [&] { return Placement{static_cast<std::uint32_t>(random() % 4), random() % 3}; };
    std::vector<PlacedVar> values;
    std::vector<PlacedVar> plain_values;
    for (int i = 0; i < 3; ++i) {
      values.push_back(tape.leaf(0.3 * (i + 1), place()));
      plain_values.push_back(plain.leaf(0.3 * (i + 1), {}));
    }
    for (int i = 0; i < 30; ++i) {
      const std::size_t a = random() % values.size();
      const std::size_t b = random() % values.size();
      values.push_back(i % 3 == 0 ? tape.apply<prim::sin>({values[a]}, place())
                                  : tape.apply<prim::mul>({values[a], values[b]}, place()));
      plain_values.push_back(i % 3 == 0 ? plain.apply<prim::sin>({plain_values[a]}, {})
                                        : plain.apply<prim::mul>({plain_values[a], plain_values[b]}, {}));
    }
    const auto expected =
        run(machine, {placed_root(plain_values.back()), placed_root(plain_values[20])}, keep());
    const On caller(place());
    BackwardOptions options = keep();
    options.workers = static_cast<int>(round % 3) + 1;
    options.order = static_cast<eager::Order>(round % 4);
    const auto gradients = run(machine, {placed_root(values.back()), placed_root(values[20])}, options);
    CHECK(machine.first_race() == "");
    CHECK(gradients.size() == expected.size());
    for (std::size_t i = 0; i < 3; ++i) {
      const Placed* got = gradients.find(values[i].first.key);
      const Placed* wanted = expected.find(plain_values[i].first.key);
      REQUIRE((got != nullptr) == (wanted != nullptr));
      if (got == nullptr) continue;
      CHECK(machine.readable(*got, Machine::here()));
      CHECK(same_bits(*got->tensor, *wanted->tensor));
    }
  }
}

TEST_CASE("[P13] an error on a device's thread comes to the caller with its type, and later calls work") {
  struct Custom : std::logic_error {
    using std::logic_error::logic_error;
  };
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, {0, 0});
  PlacedVar v = x;
  for (std::uint32_t i = 0; i < 9; ++i) v = tape.apply<prim::sin>({v}, {i % 3, 0});
  const double expected = run(machine, {placed_root(v)}, keep()).at(x.first.key).item();
  for (std::uint32_t device = 0; device < 3; ++device) {
    machine.at_node = [&](const eager::NodeView& node) {
      if (node.placement().device == device) throw Custom("no");
    };
    CHECK_THROWS_AS(run(machine, {placed_root(v)}, keep()), Custom);
    machine.at_node = nullptr;
    CHECK(run(machine, {placed_root(v)}, keep()).at(x.first.key).item() == expected);
  }
}

TEST_CASE("[P10] callers from several threads share the devices") {
  Machine machine;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      MachineTape tape(machine);
      const PlacedVar x = tape.leaf(0.3 + t, {0, 0});
      PlacedVar v = x;
      for (std::uint32_t i = 0; i < 12; ++i) v = tape.apply<prim::sin>({v}, {i % 3, 0});
      double expected = 1;
      double at = 0.3 + t;
      for (int i = 0; i < 12; ++i) {
        expected *= std::cos(at);
        at = std::sin(at);
      }
      for (std::size_t i = 0; i < scaled(30); ++i) {
        const double got = run(machine, {placed_root(v)}, keep()).at(x.first.key).item();
        if (std::abs(got - expected) > 1e-12) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
  CHECK(machine.first_race() == "");
}

TEST_CASE("[P9] backward within an executor's record(), while a node of the outer call runs elsewhere") {
  Machine machine;
  MachineTape tape(machine);
  const Leaf<Placed> leaf(tape.recorder.keys(), "a", {0, 0});
  const PlacedVar a{EagerOutput{leaf.key(), leaf.trace().hold(), true, 0}, machine.make(scalar(0.3), {0, 0})};
  const PlacedVar b = tape.leaf(0.4, {0, 0});
  const PlacedVar c = tape.leaf(0.5, {2, 0});
  const PlacedVar x = tape.apply<prim::sin>({a}, {1, 0});
  const PlacedVar y = tape.apply<prim::cos>({b}, {2, 0});
  const PlacedVar out = tape.apply<prim::mul>({x, y}, {0, 0});
  const PlacedVar other = tape.apply<prim::exp>({c}, {2, 0});
  std::atomic<bool> elsewhere{false};
  std::atomic<int> nested{0};
  machine.at_node = [&](const eager::NodeView& node) {
    if (node.name() == "cos") elsewhere = true;
  };
  machine.at_record = [&](Placement at) {
    if (at.device != 1 || nested.exchange(1) != 0) return;
    while (!elsewhere) std::this_thread::yield();
    if (run(machine, {placed_root(other)}).size() == 1) nested = 2;
  };
  const auto gradients = run(machine, {placed_root(out)}, keep());
  CHECK(gradients.at(a.first.key).item() == doctest::Approx(std::cos(0.3) * std::cos(0.4)));
  CHECK(nested == 2);
  machine.at_record = [](Placement at) {
    if (at.device == 1) throw Error(ErrorKind::execution, "no event");
  };
  expect_parts(message_of([&] { run(machine, {placed_root(out)}, keep()); }),
               {"no event", "in record or wait of the backward of sin"});
}

// In a child, which has no threads yet: the host goes on without helpers, a device is named, and gets its
// thread when that can be started.
int run_without_threads() {
  alarm(30);
  Machine machine;
  MachineTape tape(machine);
  const PlacedVar x = tape.leaf(0.3, {0, 0});
  const PlacedVar y = tape.apply<prim::mul>({tape.apply<prim::sin>({x}, {0, 0}), x}, {0, 0});
  const PlacedVar z = tape.apply<prim::exp>({y}, {1, 0});
  BackwardOptions options = keep();
  const double expected = run(machine, {placed_root(y)}, options).at(x.first.key).item();
  options.workers = 4;
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit little = before;
  little.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (4 << 20));
  if (setrlimit(RLIMIT_AS, &little) != 0) return 2;
  try {
    while (true) std::thread([] { pause(); }).detach();  // the parent's memory has space for some
  } catch (const std::system_error&) {
  }
  if (run(machine, {placed_root(y)}, options).at(x.first.key).item() != expected) return 3;
  for (int call = 0; call < 2; ++call) {
    const std::string message = message_of([&] { run(machine, {placed_root(z)}, keep()); });
    if (!contains(message, "backward: expected a thread for device 1, got none")) return 4;
  }
  if (setrlimit(RLIMIT_AS, &before) != 0) return 5;
  return run(machine, {placed_root(z)}, keep()).size() == 1 ? 17 : 6;
}

TEST_CASE("[P10] where no thread can be started the host does all, and a device is an error that names it") {
  if (instrumented) return;
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(run_without_threads());
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 17);
}

// Each level's node lies on the next device; its hook runs the backward of the level below.
struct Descent {
  Machine machine;
  MachineTape tape{machine};
  std::vector<PlacedVar> levels;
  std::vector<int> threads;
  std::map<std::thread::id, std::vector<const char*>> stacks;
  std::mutex mutex;
  std::size_t deepest = 0;
  explicit Descent(std::size_t depth, std::uint32_t devices) {
    for (std::size_t level = 0; level < depth; ++level) {
      const Placement at{static_cast<std::uint32_t>(level) % devices + (devices == 1 ? 1 : 0), 0};
      const PlacedVar x = tape.leaf(0.5, at);
      levels.push_back(tape.apply<prim::sin>({tape.apply<prim::exp>({x}, at)}, at));
      eager::before_node<Placed>(levels.back().first.trace,
                                 [this, level](eager::HookContext<Placed>&) { descend(level + 1); });
    }
  }
  void descend(std::size_t level) {
    const char here = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      deepest = std::max(deepest, level);
      stacks[std::this_thread::get_id()].push_back(&here);
      if (level % 50 == 0) threads.push_back(threads_of_this_process());
    }
    if (level == levels.size()) return;
    const eager::Root<Placed> root = placed_root(levels[level]);
    const auto gradients = eager::backward<Placed>(std::span(&root, 1), machine, {});
    if (gradients.size() != 1) std::abort();
  }
};

TEST_CASE("[P9] a thousand levels over three devices and the host: no deadlock, no thread per level") {
  for (const std::uint32_t devices : {1U, 4U}) {
    CAPTURE(devices);
    Descent descent(scaled(1000), devices);
    descent.descend(0);
    CHECK(descent.deepest == descent.levels.size());
    REQUIRE_FALSE(descent.threads.empty());
    const int first = descent.threads.size() > 1 ? descent.threads[1] : descent.threads[0];
    CHECK(descent.threads.back() <= first + static_cast<int>(devices));
    CHECK(descent.machine.first_race() == "");
    if (instrumented) continue;
    // Levels that lie on one thread, one in another: the stack they take there.
    for (const auto& [thread, stack] : descent.stacks) {
      if (stack.size() < 50) continue;
      const auto a = reinterpret_cast<std::uintptr_t>(stack.front());
      const auto b = reinterpret_cast<std::uintptr_t>(stack.back());
      const double each = static_cast<double>(a - b) / static_cast<double>(stack.size() - 1);
      CAPTURE(each);
      CHECK(each < 4096);
    }
  }
}

}  // namespace
}  // namespace tidu::test
