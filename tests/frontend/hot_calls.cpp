// hot_calls.cpp - operations of a hot sequence that are compared with the known calls at their positions: all
// properties that distinguish calls, and their records on the tape.
#include "support.hpp"
#include "tidu/eager/trace.hpp"
#include "tidu/frontend/explain.hpp"
#include "tidu/frontend/lazy.hpp"

namespace tidu::test::hot_calls_cases {
namespace {

using Seen = std::vector<double>;
constexpr int steps = 80;
bool odd(int step) { return step > 20 && step % 9 == 8; }

void read(const Array& x, Seen& into) {
  for (const double element : elements(x)) into.push_back(element);
}

// Runs `step` many times, plainly and hot. At least that many operations are known by their positions.
void check_steps(const std::function<void(int, Seen&)>& step, std::uint64_t min_known) {
  Seen plain, hot;
  for (int i = 0; i < steps; ++i) step(i, plain);
  const std::uint64_t before = hot_statistics().known;
  {
    const HotPaths guard;
    for (int i = 0; i < steps; ++i) step(i, hot);
  }
  CHECK(hot_statistics().known - before >= min_known);
  REQUIRE(plain.size() == hot.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-12));
}

TEST_CASE("[G1] [G4] only unexpected operations of a hot sequence are looked up") {
  const Array x = random_array({6}, 1), w = leaf(random_array({6}, 2));
  const HotPaths guard;
  HotStatistics before;
  constexpr int operations = 6, known_from = 60;
  for (int i = 0; i < steps; ++i) {
    if (i == known_from) before = hot_statistics();
    const Array a = sin(x * w), b = a + 1.0, c = b * a, d = tanh(c);
    const Array e = sum(d);
    w.zero_grad();
    e.backward();
    (void)e.item();
  }
  // Each step, with the operations of its backward call, is expected; and all of its calls are known.
  CHECK(hot_statistics().known - before.known == operations * (steps - known_from));
  CHECK(hot_statistics().deviations == before.deviations);
}

TEST_CASE("[G4] calls in one place differ in their names") {
  const Array x = random_array({5}, 1);
  check_steps(
      [&](int step, Seen& seen) {
        const Array a = x * 2.0, b = odd(step) ? cos(a) : sin(a), c = b + a;
        seen.push_back(sum(c).item());
      },
      4 * 30);
}

TEST_CASE("[G4] calls in one place differ in their arguments") {
  const Array x = random_array({3, 3}, 1);
  check_steps(
      [&](int step, Seen& seen) {
        const Array a = exp(x), b = sum(a, odd(step) ? Axes(0) : Axes(1)), c = b * b;
        read(c - 1.0, seen);
      },
      4 * 30);
}

TEST_CASE("[G4] calls in one place differ in the types of leaves") {
  const Array x = random_array({5}, 1), y = random_array({5}, 2), one = random_array({1}, 3);
  const Array single = y.to(f32);
  check_steps(
      [&](int step, Seen& seen) {
        const Array a = sin(x), b = a * (odd(step) ? one : y), c = b + (step % 9 == 4 ? single : y);
        seen.push_back(sum(c).item());
      },
      4 * 20);
}

TEST_CASE("[G3] [G4] calls at one position differ in the operands that require a gradient") {
  const Array x = random_array({5}, 1), w = leaf(random_array({5}, 2)), u = leaf(random_array({5}, 3));
  check_steps(
      [&](int step, Seen& seen) {
        const Array a = (odd(step) ? w.detach() : w) * x;
        std::optional<NoGrad> off;
        if (step % 9 == 3) off.emplace();
        const Array b = sin(a) * u;
        off.reset();
        const Array c = sum(b + u);
        seen.push_back(a.requires_grad() ? 1.0 : 0.0);
        seen.push_back(b.requires_grad() ? 1.0 : 0.0);
        w.zero_grad();
        u.zero_grad();
        c.backward();
        if (w.grad()) read(*w.grad(), seen);
        read(*u.grad(), seen);
        seen.push_back(c.item());
      },
      5 * 20);
}

TEST_CASE("[G3] the tape of known calls has operands and results, and all outputs of their nodes") {
  const Array x = random_array({4, 4}, 1), w = leaf(random_array({4, 4}, 2));
  check_steps(
      [&](int, Seen& seen) {
        const auto [sign, logarithm] = linalg::slogdet(matmul(w, x));
        const Array a = tanh(logarithm), b = logistic(w) * a, c = sqrt(abs(b)) / (b + 2.0);
        w.zero_grad();
        sum(c).backward();
        read(*w.grad(), seen);
      },
      5 * 30);
}

TEST_CASE("[G3] the tape of known calls detects writes since then") {
  const Array w = leaf(random_array({4}, 1));
  const HotPaths guard;
  const std::uint64_t before = hot_statistics().known;
  for (int i = 0; i < steps; ++i) {
    Tensor data = random_array({4}, 2).tensor();
    const Array x(data), a = w * x, b = sum(sin(a));
    if (i == steps - 5) {
      data.mutable_data<double>()[0] = 7.0;
      CHECK_THROWS_AS(b.backward(), const Error&);
    } else {
      w.zero_grad();
      b.backward();
    }
    (void)b.item();
  }
  CHECK(hot_statistics().known - before >= 3 * 30);
}

TEST_CASE("[G3] the tape of known calls says where they stand") {
  const Array w = leaf(random_array({4}, 1));
  const HotPaths guard;
  for (int i = 0; i < steps; ++i) {
    const Where place{"model.cpp", static_cast<std::uint32_t>(100 + i)};  // the same call at another location
    const Array a = w * 2.0, b = sin(a, place), c = sum(b);
    CHECK(eager::NodeView(tape_output(b).trace).where() == "model.cpp:" + std::to_string(place.line));
    CHECK(eager::NodeView(tape_output(c).trace).sequence() >
          eager::NodeView(tape_output(b).trace).sequence());
    (void)c.item();
  }
}

TEST_CASE("[G3] transforms see the Arrays from outside that known calls use") {
  const Array w = leaf(random_array({4}, 1)), x = random_array({4}, 2);
  check_steps(
      [&](int, Seen& seen) {
        const auto inner = [&](const Array& at) { return sum(sin(at * w) * at); };
        const Array g = grad(inner)(x);
        seen.push_back(g.requires_grad() ? 1.0 : 0.0);
        w.zero_grad();
        sum(g * g).backward();
        read(*w.grad(), seen);
      },
      2 * 30);
}

TEST_CASE("[G1] a sequence of known calls without readers is evaluated when it ends") {
  const Array x = random_array({5}, 1);
  const HotPaths guard;
  std::uint64_t before = 0;
  std::vector<Array> kept;
  for (int i = 0; i < steps; ++i) {
    if (i == 40) before = lazy_statistics().evaluations;
    Array a = x;
    for (int k = 0; k < 5; ++k) a = cos(sin(a) + static_cast<double>(i)) * x;
    kept.push_back(a);
    if (i >= 40) CHECK(lazy_statistics().pending < 32);  // as long as short sequences are made
  }
  CHECK(lazy_statistics().evaluations - before == 40 * 20 / 32);
  const HotPaths off(false);
  for (int i = 0; i < steps; ++i) {
    Array a = x;
    for (int k = 0; k < 5; ++k) a = cos(sin(a) + static_cast<double>(i)) * x;
    CHECK(distance(a, kept[static_cast<std::size_t>(i)]) <= 1e-13);
  }
}

TEST_CASE("[G4] an error in a known call comes from the call, and later calls work as usual") {
  const Array x = random_array({5}, 1), wrong = random_array({4}, 2);
  const HotPaths guard;
  for (int i = 0; i < steps; ++i) {
    const Array a = sin(x);
    if (odd(i)) CHECK_THROWS_AS((void)(a + wrong), const Error&);
    const Array b = a + x, c = sum(b * a);
    double expected = 0.0;
    for (const double at : elements(x)) expected += (std::sin(at) + at) * std::sin(at);
    CHECK(c.item() == doctest::Approx(expected));
  }
}

}  // namespace
}  // namespace tidu::test::hot_calls_cases
