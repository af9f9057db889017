// hot_paths.cpp - hot paths: their detection, results equal to those of plain eager runs, and deviations from
// a sequence.
#include "tidu/frontend/hot_paths.hpp"

#include "support.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::test {
namespace {

std::uint64_t expected_since(const HotStatistics& before) {
  return hot_statistics().expected - before.expected;
}

// A training loop as one writes it; returns the losses.
std::vector<double> train(std::vector<Array>& p, const Array& x, const Array& t, int steps) {
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Array d = matmul(tanh(matmul(x, p[0]) + p[1]), p[2]) - t;
    const Array loss = mean(d * d);
    for (Array& w : p) w.zero_grad();
    loss.backward();
    const NoGrad guard;
    for (Array& w : p) w -= 0.1 * *w.grad();
    losses.push_back(loss.item());
  }
  return losses;
}

std::vector<Array> parameters() {
  return {leaf(random_array({4, 6}, 1, 0.5)), leaf(random_array({6}, 2, 0.1)),
          leaf(random_array({6, 2}, 3, 0.5))};
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-10));
}

TEST_CASE("[G1] a repeated sequence is detected, compiled and run compiled; it can be turned off") {
  const Array x = random_array({5, 4}, 5), t = random_array({5, 2}, 6);
  std::vector<Array> plain = parameters(), hot = parameters();
  const std::vector<double> expected = train(plain, x, t, 40);
  const HotStatistics before = hot_statistics();
  const LazyStatistics lazy = lazy_statistics();
  {
    const HotPaths guard;
    check_close(train(hot, x, t, 40), expected);
  }
  // Nothing ran twice, though each update of a parameter reads one gradient of many.
  CHECK(lazy_statistics().evaluated - lazy.evaluated <= lazy_statistics().recorded - lazy.recorded);
  const HotStatistics after = hot_statistics();
  CHECK(after.sequences - before.sequences >= 1);
  CHECK(after.deviations - before.deviations <= 2);
  CHECK(after.expected - before.expected > 400);
  CHECK(after.compiled - before.compiled > 300);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(distance(plain[i], hot[i]) <= 1e-10);
  // A long loop compiles nothing more.
  {
    const HotPaths guard;
    (void)train(hot, x, t, 20);
    const std::uint64_t misses = compile_cache().statistics().misses;
    (void)train(hot, x, t, 30);
    CHECK(compile_cache().statistics().misses == misses);
    const HotPaths off(false);
    const HotStatistics here = hot_statistics();
    (void)train(hot, x, t, 20);
    CHECK(expected_since(here) == 0);
  }
  const HotStatistics here = hot_statistics();
  (void)train(hot, x, t, 20);
  CHECK(expected_since(here) == 0);
}

TEST_CASE("[G2] every intermediate that anything refers to is there after a batch") {
  const Array x = random_array({8}, 1);
  const HotPaths guard;
  const HotStatistics before = hot_statistics();
  std::vector<Array> kept;
  for (int i = 0; i < 60; ++i) {
    const Array a = sin(x + static_cast<double>(i)), b = a * a, c = exp(b) - a, d = c * 0.5;
    kept.insert(kept.end(), {a, b, d});
    (void)sum(d).item();
  }
  CHECK(expected_since(before) > 100);
  for (int i = 0; i < 60; ++i) {
    const auto at = static_cast<std::size_t>(3 * i);
    const HotPaths off(false);
    const Array a = sin(x + static_cast<double>(i));
    CHECK(distance(kept[at], a) <= 1e-15);
    CHECK(distance(kept[at + 1], a * a) <= 1e-15);
    CHECK(distance(kept[at + 2], (exp(a * a) - a) * 0.5) <= 1e-14);
  }
}

TEST_CASE("[G3] forward and backward are both hot, whatever is still pending when backward begins") {
  Array x = leaf(random_array({16}, 1));
  const HotPaths guard;
  const HotStatistics before = hot_statistics();
  std::vector<Array> others;
  Array gradient;
  BackwardOptions keep;
  keep.keep_graph = true;
  for (int i = 0; i < 60; ++i) {
    // (A) nothing is read between forward and backward; (B) backward comes again after the values that it
    // reads are gone from the program that made them; (C) its results are operands at once.
    Array y = sin(x) * x;
    const Array loss = sum(y * y);
    y = Array();
    x.zero_grad();
    loss.backward(keep);
    const Array first = *x.grad();
    loss.backward();
    others.push_back(first * 2.0 - *x.grad());
    gradient = first;
  }
  CHECK(expected_since(before) > 600);
  CHECK(hot_statistics().compiled - before.compiled > 500);
  const HotPaths off(false);
  for (const Array& zero : others) CHECK(max(abs(zero)).item() <= 1e-12);
  const Array d = x.detach();
  CHECK(distance(gradient, 2.0 * sin(d) * d * (cos(d) * d + sin(d))) <= 1e-12);
}

TEST_CASE("[G4] a deviation in the middle runs to the right result, once, and the detector recovers") {
  const auto program = [](int round) {
    std::vector<double> results;
    Array x = leaf(random_array({6}, 1));
    Array shape_changed = random_array({3}, 2);
    for (int i = 0; i < 120; ++i) {
      Array y = tanh(x * 0.5);
      if (i == 50 && round == 0) y = y + 1.0;                                         // another operation
      if (i == 50 && round == 1) results.push_back(sum(shape_changed * 2.0).item());  // another shape
      if (i == 50 && round == 2) y = y.to(f32).to(f64);                               // another dtype
      if (i == 50 && round == 3) results.push_back(y.tensor().at(0).real());          // an early read
      if (i == 50 && round == 4) {
        try {
          (void)(y + shape_changed);  // an exception
        } catch (const Error&) {
          results.push_back(1.0);
        }
      }
      if (i == 50 && round == 5) continue;  // it ends early
      const Array z = sum(y * y + x);
      z.backward();
      if (i % 10 == 3) {
        Tensor data = x.tensor();
        data.mutable_data<double>()[0] += 0.25;  // in place
      }
      if (i % 3 == 0 && round == 6) continue;
      results.push_back(z.item());
    }
    for (const double g : elements(*x.grad())) results.push_back(g);
    return results;
  };
  for (int round = 0; round < 7; ++round) {
    CAPTURE(round);
    const std::vector<double> plain = program(round);
    const HotStatistics before = hot_statistics();
    std::vector<double> hot;
    {
      const HotPaths guard;
      hot = program(round);
    }
    check_close(hot, plain);
    CHECK(expected_since(before) > 100);
  }
}

TEST_CASE("[G4] operations that are pending when a sequence ends early run then") {
  const HotPaths guard;
  const Array x = random_array({6}, 1);
  Array y, z;
  for (int i = 0; i < 40; ++i) {
    y = sin(x) + 1.0;
    z = y * y;
    if (i < 39) (void)sum(z).item();
  }
  CHECK(is_lazy(z));
  const Array other = cos(x);
  CHECK_FALSE(is_lazy(y));
  CHECK_FALSE(is_lazy(z));
  CHECK_FALSE(is_lazy(other));
}

TEST_CASE("[G4] a failure in a batch is reported, and failed values can be computed later") {
  static bool broken = false;
  static int runs = 0;
  static const CpuExecutor fragile = cpu().with_kernel("sin", [](const KernelCall& call) {
    if (broken) throw std::runtime_error("out of order");
    ++runs;
    const double* x = call.input(0).data<double>();
    double* y = call.output().mutable_data<double>();
    for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = std::sin(x[i]);
  });
  const ExecutorGuard executor(fragile);
  const HotPaths guard;
  const Array x = random_array({3}, 1);
  Array last;
  for (int i = 0; i < 80; ++i) {
    last = sum(sin(x * 2.0) + 1.0);
    if (i < 79) (void)last.item();
  }
  const int before = runs;
  broken = true;
  std::string error = error_of([&] { (void)last.item(); });
  broken = false;
  if (!error.empty()) CHECK(contains(error, "out of order"));
  CHECK(last.item() == doctest::Approx(sum(sin(x * 2.0) + 1.0).item()));
  CHECK(runs <= before + 2);
}

TEST_CASE("equal layers inside a longer sequence are distinguished from it") {
  const HotPaths guard;
  std::vector<Array> weights;
  for (unsigned i = 0; i < 8; ++i) weights.push_back(leaf(random_array({5, 5}, i, 0.4)));
  const Array x = random_array({3, 5}, 20);
  const HotStatistics before = hot_statistics();
  for (int step = 0; step < 200; ++step) {
    Array y = x;
    for (const Array& w : weights) y = tanh(matmul(y, w) + 0.1);
    const Array loss = mean(y * y);
    for (const Array& w : weights) w.zero_grad();
    loss.backward();
    (void)loss.item();
  }
  CHECK(hot_statistics().deviations - before.deviations < 20);
  CHECK(expected_since(before) > 5000);
}

TEST_CASE("[G3] [G4] forward, backward and reads at random have the results of plain eager runs") {
  // A long run in which loops of random programs come and go.
  std::mt19937_64 random(9);
  std::size_t operations = 0;
  const std::size_t wanted = scaled(20000);
  for (std::uint64_t seed = 1; operations < wanted; ++seed) {
    const auto program = [&](bool count) {
      std::mt19937_64 choose(seed), events(seed + 1000);
      const int length = 3 + static_cast<int>(choose() % 12);
      const std::uint64_t body = choose();
      const int rounds = 20 + static_cast<int>(choose() % 30);
      std::vector<double> results;
      std::vector<Array> leaves{leaf(random_array({4}, 1)), leaf(random_array({4}, 2))};
      std::vector<Array> kept;
      for (int round = 0; round < rounds; ++round) {
        std::mt19937_64 op(events() % 8 == 0 ? events() : body);  // now and then another body
        std::vector<Array> values{leaves[0], leaves[1], random_array({4}, 3)};
        for (int i = 0; i < length; ++i) {
          const Array a = values[op() % values.size()], b = values[op() % values.size()];
          switch (op() % 6) {
            case 0: values.push_back(sin(a) * b); break;
            case 1: values.push_back(a + b); break;
            case 2: values.push_back(tanh(a - b)); break;
            case 3: values.push_back(mean(a) + b * 0.5); break;
            case 4: values.push_back(a.detach() * b); break;
            default: {
              const Array root = sum(a * b);
              if (root.requires_grad()) {
                BackwardOptions options;
                options.keep_graph = true;
                root.backward(options);
              }
              break;
            }
          }
          operations += count ? 3 : 0;
          if (events() % 40 == 0) results.push_back(values.back().tensor().at(1).real());
        }
        if (events() % 3 == 0) kept.push_back(values.back());
        if (events() % 4 == 0) results.push_back(sum(values.back()).item());
        if (events() % 2 == 0) {
          const NoGrad guard;
          for (Array& x : leaves) {
            if (x.grad()) x -= 1e-3 * tanh(*x.grad());
            x.zero_grad();
          }
        }
        if (events() % 16 == 0) {
          Tensor data = leaves[events() % 2].tensor();
          data.mutable_data<double>()[2] = 0.125;
        }
      }
      for (const Array& x : kept) results.push_back(sum(x).item());
      for (const Array& x : leaves)
        if (x.grad()) results.push_back(sum(*x.grad()).item());
      return results;
    };
    CAPTURE(seed);
    const auto run = [&](bool count) -> std::vector<double> {
      try {
        return program(count);
      } catch (const Error& error) {  // a tape that was written to says so
        CHECK(contains(error.what(), "version"));
        return {};
      }
    };
    const std::vector<double> plain = run(true);
    std::vector<double> hot;
    {
      const HotPaths guard;
      hot = run(false);
    }
    REQUIRE(plain.size() == hot.size());
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-8));
  }
}

}  // namespace
}  // namespace tidu::test
