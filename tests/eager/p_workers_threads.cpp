// p_workers_threads.cpp - P10 on the host: independent nodes on several threads, several callers on one tape,
// errors, fork and exit.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <limits>
#include <set>
#include <thread>

#include "p_support.hpp"
#include "support/support.hpp"

namespace {
bool is_forked_child = false;
}

// Objects of threads that a fork did not copy look leaked in the child.
#if defined(TIDU_ASAN)
extern "C" int __lsan_is_turned_off() { return is_forked_child ? 1 : 0; }
#endif

namespace tidu::test {
namespace {

#if defined(TIDU_TSAN)
constexpr bool with_tsan = true;
#else
constexpr bool with_tsan = false;
#endif
#if defined(TIDU_ASAN)
constexpr bool with_asan = true;
#else
constexpr bool with_asan = false;
#endif

TEST_CASE(
    "[P10] 1, 2 and 8 workers: bitwise equal gradients, with new and with known graphs, 100 runs each") {
  const std::size_t rounds = scaled(20);
  for (std::size_t round = 0; round < rounds; ++round) {
    eager::RecorderOptions options;
    options.save_everything = round % 2 == 1;  // rules are then called in backward, by the workers
    Tape tape(options);
    std::vector<Var> leaves;
    for (int i = 0; i < 4; ++i)
      leaves.push_back(tape.leaf(0.37 * (i + 1) + 0.01 * static_cast<double>(round)));
    const Var out = wide(tape, leaves, 12, 0.5 + 0.001 * static_cast<double>(round));
    std::vector<std::vector<Tensor>> all;
    for (const int run_of : {8, 2, 1, 8, 2, 1, 8, 2, 1, 8, 2, 1, 8, 2, 1}) {
      const auto gradients = run(reference(), {root_of(out, scalar(0.75))}, workers(run_of));
      all.emplace_back();
      for (const Var& leaf : leaves) all.back().push_back(gradient(gradients, leaf));
    }
    bool same = true;
    for (const auto& some : all)
      for (std::size_t i = 0; i < leaves.size(); ++i) same = same && same_bits(some[i], all[0][i]);
    CHECK(same);
  }
}

TEST_CASE("[P10] also when hooks after nodes replace the summands") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.31 * (i + 1)));
  const Var out = wide(tape, leaves, 12, 2.3);
  for (eager::TraceRef at = out.first.trace; !eager::NodeView(at).is_leaf();) {
    const eager::NodeView node(at);
    for (const std::size_t edge : {std::size_t{0}, node.num_edges() - 1}) {
      if (eager::NodeView(node.edge_node(edge)).is_leaf()) continue;
      eager::after_node<Tensor>(node.edge_node(edge), [](HookContext<Tensor>& context) {
        for (std::size_t i = 0; i < context.num_outgoing(); i += 2) {
          if (context.outgoing(i))
            context.outgoing(i).replace(scalar(1.1 * context.outgoing(i)->item<double>()));
        }
      });
    }
    at = node.edge_node(node.num_edges() - 1);
  }
  const auto expected = run(reference(), {root_of(out)}, workers(1));
  for (const int count : {2, 8, 2, 8}) {
    const auto gradients = run(reference(), {root_of(out)}, workers(count));
    for (const Var& leaf : leaves) CHECK(same_bits(gradient(gradients, leaf), gradient(expected, leaf)));
  }
}

// The threads that are at once in the two independent nodes of exp(x) exp(y), with that many workers.
std::set<std::thread::id> at_once(int count) {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.leaf(0.4);
  const Var out = tape.apply<prim::mul>({tape.apply<prim::exp>({x}), tape.apply<prim::exp>({y})});
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  int most = 0;
  bool alone = false;
  std::set<std::thread::id> threads;
  Spy spy;
  spy.before = [&](const Spy::Call& call) {
    if (call.name != "exp") return;
    std::unique_lock<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    most = std::max(most, ++inside);
    changed.notify_all();
    // One that waits in vain is enough.
    if (count > 1 && !alone)
      alone = !changed.wait_for(lock, std::chrono::seconds(10), [&] { return most == 2; });
    --inside;
  };
  CHECK(run(spy, {root_of(out)}, workers(count)).size() == 2);
  CHECK(static_cast<int>(threads.size()) == most);
  return threads;
}

TEST_CASE("[P10] independent nodes run at once when the caller asks for it, and only then") {
  CHECK(at_once(1) == std::set{std::this_thread::get_id()});
  CHECK(at_once(2).size() == 2);
  CHECK(at_once(8).size() == 2);
}

TEST_CASE("[P10] more workers than there can be threads cost no more than those that come") {
  Tape tape;
  const Var x = tape.leaf(0.5);
  const Var out = tape.apply<prim::mul>({tape.apply<prim::sin>({x}), tape.apply<prim::cos>({x})});
  const double expected = item(run(reference(), {root_of(out)}, keep()), x);
  CHECK(item(run(reference(), {root_of(out)}, workers(std::numeric_limits<int>::max())), x) == expected);
}

TEST_CASE("[P10] several threads run one shared tape backward at once: all get the same bits") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 10, 0.9);
  const Tensor expected = gradient(run(reference(), {root_of(out)}, keep()), leaves[2]);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < scaled(20); ++i) {
        const auto gradients = run(reference(), {root_of(out)}, workers(1 + (t + static_cast<int>(i)) % 3));
        if (!same_bits(gradient(gradients, leaves[2]), expected)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("[P10] without keep_graph one of them gets through, the others get a tape error or the result") {
  for (std::size_t round = 0; round < scaled(50); ++round) {
    Tape tape;
    const Var x = tape.leaf(0.3);
    Var y = x;
    for (int i = 0; i < 30; ++i) y = tape.apply<prim::sin>({y});
    const double expected = item(run(reference(), {root_of(y)}, keep()), x);
    std::atomic<int> right{0};
    std::atomic<int> refused{0};
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        ++ready;
        while (ready != 4) std::this_thread::yield();
        try {
          if (item(run(reference(), {root_of(y)}), x) == expected) ++right;
        } catch (const Error& error) {
          if (error.kind() == ErrorKind::tape) ++refused;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(right >= 1);
    CHECK(right + refused == 4);
  }
}

TEST_CASE("[P8] threads that accumulate into the same slots at once lose nothing") {
  Tape tape;
  Leaf<Tensor> a(tape.recorder.keys());
  Leaf<Tensor> b(tape.recorder.keys());
  const Var out = tape.apply<prim::mul>({var(a, scalar(3)), var(b, scalar(5))});
  const Var turned = tape.apply<prim::mul>({var(b, scalar(5)), var(a, scalar(3))});
  const std::size_t rounds = scaled(200);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      BackwardOptions options = workers(1 + t % 2);
      options.accumulate = true;
      for (std::size_t i = 0; i < rounds; ++i) run(Spy(), {root_of(t < 2 ? out : turned)}, options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(a.gradient()->item<double>() == 5.0 * 4 * static_cast<double>(rounds));
  CHECK(b.gradient()->item<double>() == 3.0 * 4 * static_cast<double>(rounds));
}

struct Custom : std::logic_error {
  using std::logic_error::logic_error;
};

TEST_CASE("[P13] with workers: the error comes with its type when all that was under way has ended") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 10, 1.1);
  const Tensor expected = gradient(run(reference(), {root_of(out)}, keep()), leaves[0]);
  for (std::size_t round = 0; round < scaled(40); ++round) {
    Spy spy;
    std::atomic<int> inside{0};
    std::atomic<int> calls{0};
    spy.before = [&](const Spy::Call&) {
      ++inside;
      const bool fail = ++calls == 1 + static_cast<int>(round) % 37;
      if (!fail) std::this_thread::yield();
      --inside;
      if (fail) throw Custom("no");
    };
    BackwardOptions options = workers(4);
    options.exit_at_once = round % 2 == 0;
    CHECK_THROWS_AS(run(spy, {root_of(out)}, options), Custom);
    CHECK(inside == 0);
    const int after = calls;
    CHECK(same_bits(gradient(run(reference(), {root_of(out)}, workers(3)), leaves[0]), expected));
    CHECK(calls == after);
  }
}

TEST_CASE("[P9] backward within hooks on workers") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 6, 1.3);
  Spy spy;
  std::atomic<int> wrong{0};
  spy.before = [&](const Spy::Call&) {
    Tape inner;
    const Var x = inner.leaf(0.3);
    const Var y = inner.apply<prim::mul>({inner.apply<prim::sin>({x}), inner.apply<prim::exp>({x})});
    const double got = item(run(reference(), {root_of(y)}, workers(2)), x);
    if (std::abs(got - std::exp(0.3) * (std::sin(0.3) + std::cos(0.3))) > 1e-12) ++wrong;
  };
  CHECK(run(spy, {root_of(out)}, workers(3)).size() == 4);
  CHECK(wrong == 0);
}

TEST_CASE("[P7] callbacks at the end run on the caller's thread, hooks' changes are seen") {
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 6, 1.5);
  std::thread::id end;
  eager::before_node<Tensor>(out.first.trace, [&](HookContext<Tensor>& context) {
    context.at_end([&] { end = std::this_thread::get_id(); });
  });
  run(reference(), {root_of(out)}, workers(4));
  CHECK(end == std::this_thread::get_id());
}

TEST_CASE("[P10] a detached caller is no problem, nor one that ends while its helpers wait") {
  const auto done = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 3; ++i) {
    std::thread([done] {
      Tape tape;
      std::vector<Var> leaves;
      for (int k = 0; k < 4; ++k) leaves.push_back(tape.leaf(0.3 * (k + 1)));
      if (run(reference(), {root_of(wide(tape, leaves, 6, 1.7))}, workers(4)).size() == 4) ++*done;
    }).detach();
  }
  for (int i = 0; i < 20000 && *done != 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(*done == 3);
}

TEST_CASE("[P10] a child after fork is not blocked by the other threads of its parent") {
  if (with_tsan || with_asan) return;  // whose own allocators have locks that a child finds locked
  reference();                         // statics that another thread is making stay incomplete in a child
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (std::int64_t n = 0; !ends; ++n) static_cast<void>(Type(f64, Shape{n % 50000 + 1}));
  });
  threads.emplace_back([&] {
    for (std::int64_t n = 0; !ends; ++n) Op::make(prim::reduce_sum, {{"axes", Ints{n % 5000}}});
  });
  threads.emplace_back([&] {  // new cached graphs, large blocks of memory
    for (std::int64_t n = 0; !ends; ++n) {
      Tape tape;
      const Var x = tape.leaf(Tensor::zeros(Type(f64, Shape{70000 + n % 7})));
      const Var y = tape.apply<prim::mul>({tape.apply<prim::sin>({x}), x});
      run(reference(), {root_of(y, x.second)});
    }
  });
  int sound = 0;
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(10);
      Tape tape;
      const Var x = tape.leaf(Tensor::zeros(Type(f64, Shape{80000 + repeat})));
      Op::make(prim::reduce_sum, {{"axes", Ints{6000 + repeat}}});
      _exit(run(reference(), {root_of(tape.apply<prim::sin>({x}), x.second)}).size() == 1 ? 17 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    sound += WIFEXITED(status) && WEXITSTATUS(status) == 17 ? 1 : 0;
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(sound == 10);
}

TEST_CASE("[P10] a child after fork runs backward with workers, and exits while they wait") {
  if (with_tsan) return;
  Tape tape;
  std::vector<Var> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(tape.leaf(0.3 * (i + 1)));
  const Var out = wide(tape, leaves, 6, 1.9);
  const Tensor expected = gradient(run(reference(), {root_of(out)}, workers(4)), leaves[1]);
  for (const bool orderly : {false, true}) {
    std::cout.flush();
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(30);
      const auto gradients = run(reference(), {root_of(out)}, workers(4));
      const bool same = same_bits(gradient(gradients, leaves[1]), expected);
      const int code = same && at_once(2).size() == 2 ? 17 : 1;  // it has workers of its own
      is_forked_child = true;
      if (!orderly) _exit(code);
      std::exit(code);  // destroys statics while the workers wait
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 17);
  }
  CHECK(same_bits(gradient(run(reference(), {root_of(out)}, workers(4)), leaves[1]), expected));
}

}  // namespace
}  // namespace tidu::test
