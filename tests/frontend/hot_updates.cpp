// hot_updates.cpp - parameters that a hot loop changes in place: one program a step, and the same values for
// all other references to them.
#include <set>

#include "cpu/vector_units.hpp"
#include "descend.hpp"
#include "support.hpp"
#include "tidu/frontend/lazy.hpp"

namespace tidu::test::hot_updates_cases {
namespace {

struct Trained {
  std::vector<double> losses, parameters, seen;
  std::uint64_t evaluations = 0;  // in the last ten steps
};

// The reference to a parameter beside its Array.
enum class Seen : std::uint8_t { by_nobody, by_a_tensor, by_the_tape, by_a_detached_array };

// w of so many rows and columns.
Trained train(Seen seen, std::int64_t m = 4, std::int64_t n = 3) {
  Trained result;
  Array w = leaf(random_array({m, n}, 1)), b = leaf(random_array({n}, 2));
  const Array x = random_array({5, m}, 3), y = random_array({5, n}, 4);
  std::uint64_t before = 0;
  for (int step = 0; step < 60; ++step) {
    if (step == 50) before = lazy_statistics().evaluations;
    const Array error = tanh(matmul(x, w) + b) - y;
    const Array loss = mean(error * error);
    w.zero_grad();
    b.zero_grad();
    loss.backward();
    Tensor alias;
    Array detached, kept;
    if (seen == Seen::by_a_tensor && step % 7 == 3) alias = w.tensor();
    if (seen == Seen::by_a_detached_array && step % 7 == 3) detached = w.detach();
    if (seen == Seen::by_the_tape && step % 7 == 3) kept = sum(w * w);
    no_grad([&] {
      w -= 0.1 * *w.grad();
      b -= 0.1 * *b.grad();
      b *= 0.99;  // a second time
    });
    result.losses.push_back(loss.item());
    if (step % 7 == 3 && seen == Seen::by_a_tensor) {
      for (std::int64_t i = 0; i < alias.size(); ++i) result.seen.push_back(alias.at(i).real());
    }
    if (step % 7 == 3 && seen == Seen::by_a_detached_array)
      for (const double element : elements(detached)) result.seen.push_back(element);
    if (step % 7 == 3 && seen == Seen::by_the_tape)
      result.seen.push_back(error_of([&] { kept.backward(); }).empty() ? 0.0 : 1.0);
  }
  result.evaluations = lazy_statistics().evaluations - before;
  for (const double element : elements(w)) result.parameters.push_back(element);
  for (const double element : elements(b)) result.parameters.push_back(element);
  return result;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-9));
}

TEST_CASE("[G3] [G4] a hot loop changes its parameters as a plain one does, whatever refers to them") {
  for (const Seen seen : {Seen::by_nobody, Seen::by_a_tensor, Seen::by_the_tape, Seen::by_a_detached_array}) {
    CAPTURE(static_cast<int>(seen));
    const Trained plain = train(seen);
    Trained hot;
    {
      const HotPaths guard;
      hot = train(seen);
    }
    check_close(hot.losses, plain.losses);
    check_close(hot.parameters, plain.parameters);
    check_close(hot.seen, plain.seen);
    if (seen == Seen::by_nobody) CHECK(hot.evaluations == 10);  // a program a step
  }
}

// Large enough for a new value of a parameter to be written over the old one.
TEST_CASE("[G3] [G4] parameters that are overwritten have no other reference") {
  for (const Seen seen : {Seen::by_nobody, Seen::by_a_tensor, Seen::by_the_tape, Seen::by_a_detached_array}) {
    CAPTURE(static_cast<int>(seen));
    const Trained plain = train(seen, 130, 70);
    const HotPaths guard;
    const Trained hot = train(seen, 130, 70);
    check_close(hot.losses, plain.losses);
    check_close(hot.parameters, plain.parameters);
    check_close(hot.seen, plain.seen);
  }
}

TEST_CASE("[G3] a hot step writes parameters and momenta where they are") {
  if (units().empty()) return;
  Array plain = leaf(random_array({120, 90}, 1)), plain_m = zeros({120, 90}, f64);
  descend(plain, plain_m, 40, [](const Array& loss) { (void)loss.item(); });
  Array w = leaf(random_array({120, 90}, 1)), m = zeros({120, 90}, f64);
  const HotPaths guard;
  std::vector<std::set<const void*>> places;
  descend(w, m, 40, [&](const Array& loss) {
    (void)loss.item();
    places.push_back({w.tensor().bytes(), m.tensor().bytes()});
  });
  for (std::size_t step = 30; step < 40; ++step) CHECK(places[step] == places[29]);
  check_close(elements(w), elements(plain));
  check_close(elements(m), elements(plain_m));
}

// Small steps after the step that overwrites the first weights: none of them fails.
TEST_CASE("[G3] a hot step of several layers writes each of its weights where it is") {
  const auto single = [](const Shape& shape, unsigned seed) {
    return astype(0.1 * random_array(shape, seed), f32);
  };
  const Array x = single({64, 160}, 1), labels = zeros({64, 1}, i32);
  const auto train = [&](Array& w, const auto& look) {
    Array a = leaf(zeros({512}, f32)), v = leaf(single({512, 256}, 4)), b = leaf(zeros({256}, f32));
    Array u = leaf(single({256, 10}, 5)), c = leaf(zeros({10}, f32));
    for (int step = 0; step < 30; ++step) {
      const Array hidden = relu(matmul(relu(matmul(x, w) + a), v) + b);
      const Array loss = -mean(take_along_axis(log_softmax(matmul(hidden, u) + c), labels, 1));
      for (const Array& leaf : {w, a, v, b, u, c}) leaf.zero_grad();
      loss.backward();
      const NoGrad guard;
      for (Array* const leaf : {&w, &a, &v, &b, &u, &c}) *leaf -= 0.01 * *leaf->grad();
      (void)loss.item();
      look(v);
    }
  };
  Array plain = leaf(single({160, 512}, 3)), w = leaf(single({160, 512}, 3));
  train(plain, [](const Array&) {});
  std::vector<std::vector<const void*>> places;
  const HotPaths guard;
  train(w, [&](const Array& v) { places.push_back({w.tensor().bytes(), v.tensor().bytes()}); });
  for (std::size_t step = 20; step < 30; ++step) CHECK(places[step] == places[19]);
  CHECK(max(abs(w - plain)).item() < 1e-5);
}

// A fusion without generated code as a whole reads it again after the step that replaces it.
TEST_CASE("[G3] [G4] an operand that is read in several passes is not overwritten in the first") {
  const auto train = [] {
    const Array x = random_array({120, 90}, 1);
    Array w = abs(random_array({120, 90}, 2)) + 0.5;
    std::vector<double> seen;
    for (int step = 0; step < 30; ++step) {
      const Array next = 0.999 * w + 0.001 * x, low = digamma(w);
      w = next;
      seen.push_back(w.tensor().at(7).real());
      seen.push_back(low.tensor().at(7).real());
      seen.push_back(low.tensor().at(10000).real());
    }
    return seen;
  };
  const std::vector<double> plain = train();
  const HotPaths guard;
  check_close(train(), plain);
}

TEST_CASE("[G1] a scope for each step goes on with the sequence of the last one") {
  Array w = leaf(random_array({8}, 1));
  const Array x = random_array({8}, 2);
  const HotStatistics before = hot_statistics();
  for (int step = 0; step < 60; ++step) {
    const HotPaths guard;
    const Array error = sin(w * x) - 0.5;
    const Array loss = mean(error * error);
    w.zero_grad();
    loss.backward();
    no_grad([&] { w -= 0.1 * *w.grad(); });
    (void)loss.item();
  }
  CHECK(hot_statistics().deviations <= before.deviations + 1);  // of the replayed sequence
  CHECK(hot_statistics().compiled - before.compiled > 300);
}

}  // namespace
}  // namespace tidu::test::hot_updates_cases
