// hot_deferred.cpp - gradients of a hot step that are computed when they are read: they equal those of a
// plain step, whenever and however they are read.
#include <optional>
#include <thread>

#include "support.hpp"
#include "tidu/frontend/lazy.hpp"

namespace tidu::test::hot_deferred_cases {
namespace {

// A step of gradient descent on weights of 160 x 120 by 8 rows, whose gradient is a matmul of arrays a tenth
// as large.
class Descent {
 public:
  explicit Descent(std::int64_t columns)
      : w(leaf(random_array({160, columns}, 1, 0.1))),
        x(random_array({8, 160}, 2)),
        target_(random_array({8, columns}, 3)) {}
  void step(bool clears = true) {
    const Array loss = mean(square(tanh(matmul(x, w)) - target_));
    if (clears) w.zero_grad();
    loss.backward();
    {
      const NoGrad guard;
      w -= 0.5 * *w.grad();
    }
    (void)loss.item();
  }
  Array gradient() const { return *w.grad(); }

  Array w, x;

 private:
  const Array target_;
};

constexpr int warm = 30;

// Runs `body` on a plain loop and on one that has become hot, which has deferred something by then.
template <class Body>
void check_alike(std::int64_t columns, const Body& body) {
  Descent plain(columns), hot(columns);
  for (int i = 0; i < warm; ++i) plain.step();
  const std::vector<Array> expected = body(plain);
  const HotPaths guard;
  const HotStatistics before = hot_statistics();
  for (int i = 0; i < warm; ++i) hot.step();
  CHECK(hot_statistics().deferred > before.deferred);
  const std::vector<Array> got = body(hot);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(distance(got[i], expected[i]) < 1e-12);
  CHECK(distance(hot.w, plain.w) < 1e-12);
}

TEST_CASE("[G2] a gradient that has not been read yet is there for its reader") {
  const HotStatistics before = hot_statistics();
  check_alike(121, [](Descent& d) {
    std::vector<Array> read{d.gradient().copy()};
    for (int i = 0; i < 20; ++i) {
      d.step();
      if (i % 7 == 3) read.push_back(d.gradient().copy());
    }
    return read;
  });
  CHECK(hot_statistics().recomputed > before.recomputed);
}

TEST_CASE("[G2] a gradient is that of the values that were read, whatever is written there since") {
  check_alike(122, [](Descent& d) {
    const Array held = d.gradient();
    Tensor rows = d.x.tensor();
    for (double& element : rows.mutable_elements<double>()) element = 0.25;
    std::vector<Array> read{held.copy()};
    for (int i = 0; i < 3; ++i) d.step();
    const Array later = d.gradient();
    for (double& element : rows.mutable_elements<double>()) element = -0.5;
    d.step();
    read.push_back(later.copy());
    read.push_back(d.gradient().copy());
    return read;
  });
}

TEST_CASE("[G2] a gradient that has not been read yet is an operand of later operations") {
  check_alike(129, [](Descent& d) {
    const Array norm = sqrt(sum(square(d.gradient())));
    return std::vector<Array>{norm + 0.0};
  });
  check_alike(132, [](Descent& d) {
    const Lazy lazy;
    const Array norm = sqrt(sum(square(d.gradient())));
    return std::vector<Array>{norm + 0.0};
  });
  // The loss of the next step, each time.
  const auto train = [] {
    Array w = leaf(random_array({160, 133}, 1, 0.1)), last = zeros({160, 133}, f64);
    const Array x = random_array({8, 160}, 2), y = random_array({8, 133}, 3);
    for (int i = 0; i < 2 * warm; ++i) {
      const Array loss = mean(square(tanh(matmul(x, w)) - y));
      w.zero_grad();
      loss.backward();
      const NoGrad guard;
      w -= 0.5 * *w.grad() + 0.25 * last;
      last = *w.grad();
      (void)loss.item();
    }
    return w;
  };
  const Array plain = train();
  const HotStatistics before = hot_statistics();
  const HotPaths guard;
  CHECK(distance(train(), plain) < 1e-12);
  CHECK(hot_statistics().recomputed > before.recomputed);
}

TEST_CASE("[G2] a gradient that is a transposed matmul is deferred and read like others") {
  const auto train = [] {
    Array w = leaf(random_array({134, 10, 16}, 1, 0.1));
    const Array x = random_array({160, 8}, 2), y = random_array({8, 134}, 3);
    for (int i = 0; i < warm; ++i) {
      const Array loss = mean(square(tanh(matmul(transpose(x), transpose(reshape(w, {134, 160})))) - y));
      w.zero_grad();
      loss.backward();
      const NoGrad guard;
      w -= 0.5 * *w.grad();
      (void)loss.item();
    }
    return *w.grad();
  };
  const Array plain = train();
  const HotStatistics before = hot_statistics();
  const HotPaths guard;
  const Array left = train();
  CHECK(hot_statistics().deferred > before.deferred);
  CHECK(distance(left, plain) < 1e-12);
}

TEST_CASE("[G2] gradients that were not read are added to, and used like others") {
  check_alike(123, [](Descent& d) {
    d.step(false);
    std::vector<Array> read;
    for (int i = 0; i < 3; ++i) d.step();
    const Array norm = sqrt(sum(square(d.gradient())));
    const Array turned = transpose(d.gradient());
    for (int i = 0; i < 3; ++i) d.step();
    read.push_back(norm);
    read.push_back(turned);
    Array mine = d.gradient();
    {
      const NoGrad guard;
      mine *= 2.0;
    }
    read.push_back(mine.copy());
    Tensor elements = d.gradient().tensor();
    elements.mutable_data<double>()[5] = 3.0;
    read.push_back(d.gradient().copy());
    d.step();
    eval(d.gradient());
    read.push_back(d.gradient().copy());
    return read;
  });
}

TEST_CASE("[G2] a gradient outlives the scope and the thread that left it") {
  Descent plain(130);
  for (int i = 0; i < warm; ++i) plain.step();
  std::optional<Array> left, inside;
  std::thread([&] {
    Descent hot(130);
    {
      const HotPaths guard;
      for (int i = 0; i < warm; ++i) hot.step();
      left = hot.gradient();
    }
    CHECK(hot_statistics().deferred > 0);
    CHECK(hot_statistics().recomputed == 0);
  }).join();
  CHECK(distance(*left, plain.gradient()) < 1e-12);
}

TEST_CASE("[G2] gradients that are read in each step are computed in it") {
  const HotPaths guard;
  Descent d(131);
  double sum_of_all = 0;
  const HotStatistics before = hot_statistics();
  constexpr int steps = 200;
  for (int i = 0; i < steps; ++i) {
    d.step();
    sum_of_all += d.gradient().tensor().at(7).real();
  }
  CHECK(std::isfinite(sum_of_all));
  const HotStatistics after = hot_statistics();
  CHECK(after.recomputed > before.recomputed);
  CHECK(after.recomputed - before.recomputed == after.deferred - before.deferred);
  CHECK(after.deferred - before.deferred < steps / 10);
}

TEST_CASE("[G2] a gradient may be the first value of a step that is read") {
  const auto train = [] {
    Array w = leaf(random_array({160, 135}, 1, 0.1));
    const Array x = random_array({8, 160}, 2), y = random_array({8, 135}, 3);
    double seen = 0;
    for (int i = 0; i < warm; ++i) {
      const Array loss = mean(square(tanh(matmul(x, w)) - y));
      w.zero_grad();
      loss.backward();
      {
        const NoGrad guard;
        w -= 0.5 * *w.grad();
      }
      seen += w.grad()->tensor().at(7).real() + loss.item();
    }
    return seen;
  };
  const double plain = train();
  const HotPaths guard;
  CHECK(train() == doctest::Approx(plain));
}

TEST_CASE("[G2] results that are no matmul of smaller arrays are not deferred") {
  const HotPaths guard;
  const HotStatistics before = hot_statistics();
  Array w = leaf(random_array({120, 90}, 1)), v = leaf(random_array({100, 90}, 2));
  const Array x = random_array({120, 90}, 3), y = random_array({90, 100}, 4);
  for (int i = 0; i < warm; ++i) {
    const Array loss = mean(square(tanh(x * w))) + mean(square(matmul(y, v)));  // by elements; by 90 rows
    w.zero_grad();
    v.zero_grad();
    loss.backward();
    const NoGrad inner;
    w -= 0.5 * *w.grad();
    v -= 0.5 * *v.grad();
    (void)loss.item();
  }
  CHECK(hot_statistics().compiled > before.compiled);
  CHECK(hot_statistics().deferred == before.deferred);
}

}  // namespace
}  // namespace tidu::test::hot_deferred_cases
