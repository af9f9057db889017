// hot_traces.cpp - hot sequences that go on long enough to be replayed position by position: possible
// differences between repetitions with the same operations.
#include "support.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::test {
namespace {

// Runs `program` plainly and hot; it adds the numbers that it reads to the list.
void check_hot(const std::function<void(std::vector<double>&)>& program, std::uint64_t min_compiled) {
  std::vector<double> plain, hot;
  program(plain);
  const HotStatistics before = hot_statistics();
  {
    const HotPaths guard;
    program(hot);
  }
  CHECK(hot_statistics().compiled - before.compiled >= min_compiled);
  REQUIRE(plain.size() == hot.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-12));
}

void read_all(const Array& x, std::vector<double>& into) {
  for (const double element : elements(x)) into.push_back(element);
}

TEST_CASE("[G1] [G4] the same operations on other operands are distinguished from replayed ones") {
  const Array x = random_array({5}, 1), y = random_array({5}, 2);
  check_hot(
      [&](std::vector<double>& seen) {
        for (int i = 0; i < 80; ++i) {
          const Array a = sin(x), b = cos(y);
          Array c = i % 9 == 8 ? b - a : a - b;
          if (i % 9 == 4) c = c - c;                   // one operation more
          const Array d = i % 7 == 6 ? c * x : c * y;  // another leaf
          const Array e = i % 11 == 10 ? d * d : d * a;
          seen.push_back(sum(e).item());
        }
      },
      100);
}

TEST_CASE("[G2] whatever else is referred to in one repetition has its value") {
  const Array x = random_array({5}, 1);
  check_hot(
      [&](std::vector<double>& seen) {
        std::vector<Array> kept;
        for (int i = 0; i < 120; ++i) {
          const Array a = sin(x + static_cast<double>(i));
          Array b = a * a;
          const Array c = exp(b) - a;
          if (i % 13 == 5) kept.push_back(b);
          if (i % 13 == 7 || i % 13 == 8) kept.push_back(c);
          b = Array();
          seen.push_back(sum(c).item());
          if (i % 13 == 5) read_all(kept.back(), seen);
        }
        for (const Array& array : kept) read_all(array, seen);
      },
      300);
}

TEST_CASE("[G2] lazy tensors that remain from one repetition are unchanged") {
  const HotPaths guard;
  const Array x = random_array({4}, 1);
  std::vector<Tensor> tensors;
  for (int i = 0; i < 60; ++i) {
    const Array a = x + static_cast<double>(i), b = sin(a), c = b * 2.0, aside = cos(a);
    tensors.push_back(b.body()->tensor);  // the lazy tensor itself, without its Array
    (void)sum(c).item();
    CHECK_FALSE(is_lazy(b));  // who reads one value has all
    CHECK_FALSE(is_lazy(c));
    CHECK_FALSE(is_lazy(aside));  // also those that it did not need
  }
  const HotPaths off(false);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    CHECK(distance(Array(tensors[i]), sin(x + static_cast<double>(i))) <= 1e-15);
}

TEST_CASE("[G4] values that are written to between and inside repetitions are read as they were") {
  check_hot(
      [](std::vector<double>& seen) {
        const Array x = random_array({4}, 1);
        Tensor data = x.tensor();
        for (int i = 0; i < 90; ++i) {
          if (i % 5 == 2) data.mutable_data<double>()[0] += 0.5;
          const Array a = x * 2.0;
          if (i % 5 == 4) data.mutable_data<double>()[1] += 0.25;
          const Array b = sin(x) + a;
          seen.push_back(sum(b * a).item());
        }
      },
      100);
}

TEST_CASE(
    "[N6] [G4] an operand of an operation that ran at once after all, and written to then, is not stale") {
  const Array x = random_array({4}, 1), y = random_array({4}, 2);
  Tensor data = x.tensor();
  double outside[] = {1.0, 2.0, 3.0, 4.0};
  const Array borrowed(Tensor::borrow(Type(f64, {4}), outside, nullptr));
  const HotPaths guard;
  for (int i = 0; i < 90; ++i) {
    const Array a = x * (i % 10 == 9 ? borrowed : y);  // memory that others write to is read at once
    double expected = 0.0;
    for (std::int64_t k = 0; k < 4; ++k)
      expected += std::sin(data.at(k).real() * (i % 10 == 9 ? outside[k] : y.tensor().at(k).real()));
    if (i % 10 == 9) data.mutable_data<double>()[1] += 0.5;
    const Array b = sin(a) + x;
    for (std::int64_t k = 0; k < 4; ++k) expected += data.at(k).real();
    CHECK(sum(b).item() == doctest::Approx(expected));
  }
}

TEST_CASE("[G1] two equal repetitions are no sequence yet") {
  std::vector<Array> others;
  for (std::int64_t n = 1; n <= 40; ++n) others.push_back(random_array({n, 3}, 1));
  const Array x = random_array({4}, 1);
  const HotPaths guard;
  const HotStatistics before = hot_statistics();
  const auto repetition = [&] {
    const Array a = sin(x), b = cos(a), c = tanh(b), d = exp(c), e = d + a;
    const Array f = e * b, g = f - c, h = sqrt(abs(g)), k = maximum(h, d);
    return sum(k).item();
  };
  for (const Array& other : others) (void)(other * 2.0);
  (void)repetition();
  (void)repetition();
  CHECK(hot_statistics().sequences == before.sequences);
  for (int i = 0; i < 3; ++i) (void)repetition();
  CHECK(hot_statistics().sequences == before.sequences + 1);
}

TEST_CASE("[G1] several reads in a repetition are several programs, which follow each other") {
  const Array x = random_array({6}, 1);
  CacheStatistics cache;
  std::uint64_t evaluations = 0;
  check_hot(
      [&](std::vector<double>& seen) {
        for (int i = 0; i < 100; ++i) {
          if (i == 60) cache = compile_cache().statistics();
          if (i == 60) evaluations = lazy_statistics().evaluations;
          const Array a = tanh(x + 0.01 * i), b = a * a;
          seen.push_back(mean(b).item());
          const Array c = exp(b) - a;
          seen.push_back(max(c).item());
          const Array d = sin(c) * x;
          seen.push_back(sum(d).item());
        }
      },
      500);
  CHECK(compile_cache().statistics().misses == cache.misses);
  CHECK(compile_cache().statistics().hits == cache.hits);  // the next operations are known without a lookup
  CHECK(lazy_statistics().evaluations - evaluations == 3 * 40);
}

// Programs must not drive each other out before they have come often enough, wherever in memory they are.
TEST_CASE("[G1] each of many programs in a repetition is compiled") {
  const Array x = random_array({6}, 1);
  check_hot(
      [&](std::vector<double>& seen) {
        for (int i = 0; i < 40; ++i) {
          for (int part = 0; part < 20; ++part) {
            Array y = x;
            for (int k = 0; k <= part; ++k) y = sin(y) * x;
            seen.push_back(sum(y).item());
          }
        }
      },
      30 * 20 * 20);
}

TEST_CASE("[G4] a sequence that is left in the middle loses none of its values") {
  const Array x = random_array({6}, 1), y = random_array({2, 3}, 2);
  for (int place = 0; place < 6; ++place) {
    CAPTURE(place);
    const HotPaths guard;
    Array a, b, c, d, e;
    for (int i = 0; i < 50; ++i) {
      const auto deviates = [&](int here) {
        if (i == 49 && here == place) (void)sum(y * 3.0);  // is no part of it
      };
      deviates(0);
      a = sin(x);
      deviates(1);
      b = a + x;
      deviates(2);
      c = b * a;
      deviates(3);
      d = cos(c);
      deviates(4);
      e = sum(d);
      deviates(5);
      if (i < 49) (void)e.item();
    }
    const HotPaths off(false);
    const Array a2 = sin(x), b2 = a2 + x, c2 = b2 * a2, d2 = cos(c2), e2 = sum(d2);
    CHECK(distance(a, a2) <= 1e-15);
    CHECK(distance(b, b2) <= 1e-15);
    CHECK(distance(c, c2) <= 1e-15);
    CHECK(distance(d, d2) <= 1e-15);
    CHECK(distance(e, e2) <= 1e-14);
  }
}

TEST_CASE(
    "[G4] executors that change in a hot sequence each run the operations that were recorded for them") {
  static std::uint64_t sines = 0;
  const CpuExecutor counting = cpu().with_kernel("sin", [](const KernelCall& call) {
    ++sines;
    const double* x = call.input(0).data<double>();
    double* y = call.output().mutable_data<double>();
    for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = std::sin(x[i]);
  });
  const Array x = random_array({5}, 1);
  const HotPaths guard;
  for (int i = 0; i < 60; ++i) {
    Array b;
    if (i < 40) {
      b = sum(sin(x * 2.0) + 1.0);
    } else {
      const ExecutorGuard executor(counting);
      b = sum(sin(x * 2.0) + 1.0);
    }
    double expected = 0.0;
    for (const double element : elements(x)) expected += std::sin(2.0 * element) + 1.0;
    CHECK(b.item() == doctest::Approx(expected));
  }
  CHECK(sines == 20);
}

TEST_CASE("[G4] an executor that is assigned to within a hot sequence runs the later operations") {
  const auto with_sin = [](double value) {
    return cpu().with_kernel("sin", [value](const KernelCall& call) {
      double* y = call.output().mutable_data<double>();
      for (std::int64_t i = 0; i < call.output().size(); ++i) y[i] = value;
    });
  };
  CpuExecutor executor = with_sin(2);
  const ExecutorGuard in_force(executor);
  const Array x = random_array({5}, 1);
  const HotPaths guard;
  for (int i = 0; i < 60; ++i) {
    const Array a = x * 2.0;
    if (i == 50) executor = with_sin(3);
    CHECK(sum(sin(a)).item() == (i < 50 ? 10.0 : 15.0));
  }
}

}  // namespace
}  // namespace tidu::test
